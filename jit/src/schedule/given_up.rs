//! Whether fusing two nodes was given up because the plan would hold too much memory (scheduler B-19: bound by cuts).

use super::{FusedNode, Fusion};
use ferrotrace_kernels::ValueId;
use smallvec::SmallVec;

/// What a fused node computes, its product included.
pub(super) fn nodes(fused: &FusedNode) -> SmallVec<[ValueId; 8]> {
    let product = fused.product.map(|p| p.node);
    fused.stores.iter().map(|s| s.node).chain(product).collect()
}

impl Fusion<'_> {
    /// Whether fusing two nodes was given up.
    pub(super) fn is_given_up(&self, a: &FusedNode, b: &FusedNode) -> bool {
        let given_up = &self.policy.given_up;
        !given_up.is_empty() && given_up.separates(&nodes(a), &nodes(b))
    }
}
