//! Reductions over windows of few elements: pools, convolutions by channels.

use super::cost::Cost;
use crate::graph::Graph;
use crate::policy::Policy;
use ferrotrace_kernels::ValueId;
use smallvec::SmallVec;

/// Values looked at for what a reduction's operand is made of.
const VISITED: usize = 32;

/// What a reduction goes through window by window.
pub(super) struct Windows {
    /// What they are windows of; of several, one.
    pub of: ValueId,
    /// Whether its elements themselves are reduced.
    pub plain: bool,
    /// The values between it and the reduction, which are not stored.
    between: SmallVec<[ValueId; 8]>,
}

/// Of reductions over windows, fewer elements than which become straight-line code, and most operations and reads of what
/// windows that overlap are of.
pub(super) fn bounds(policy: &Policy) -> (usize, u32) {
    let thresholds = &policy.thresholds;
    match policy.target.shares_windows {
        true => (thresholds.window, thresholds.window_ops),
        false => (thresholds.window_alone.max(thresholds.window), u32::MAX),
    }
}

/// The windows that a reduction's operand is made of by pointwise operators and views, if it is.
pub(super) fn windowed(graph: &Graph, id: ValueId) -> Option<Windows> {
    let mut next: Vec<ValueId> = graph.operands(id).collect();
    let (mut found, mut plain) = (None, true);
    let mut between = SmallVec::new();
    for _ in 0..VISITED {
        let Some(v) = next.pop() else { break };
        let Some(op) = graph.node(v).operator() else {
            continue;
        };
        if op.as_unfold().is_some() {
            found = graph.operands(v).next();
            next = found.into_iter().collect();
        } else if op.as_pad().is_some() && found == Some(v) {
            found = graph.operands(v).next();
        } else if found.is_none()
            && (op.is_view() || op.as_cast().is_some() || op.as_binary().is_some())
        {
            plain &= op.as_binary().is_none();
            next.extend(graph.operands(v));
        } else {
            continue;
        }
        between.push(v);
    }
    between.sort_unstable();
    found.map(|of| Windows { of, plain, between })
}

impl Windows {
    /// Brings the costs of what lies between up to date, once what the windows are of is stored.
    pub(super) fn update(&self, graph: &Graph, stored: &[bool], costs: &mut [Cost]) {
        for &v in self.between.iter().filter(|v| !stored[v.0 as usize]) {
            costs[v.0 as usize] = Cost::of(graph, costs, v, 1);
        }
    }
}

/// Elements reduced into one result.
pub(super) fn reduced_count(graph: &Graph, id: ValueId, mask: u64) -> usize {
    let Some(x) = graph.operands(id).next() else {
        return 0;
    };
    let shape = &graph.node(x).shape;
    (0..shape.rank())
        .filter(|d| mask >> d & 1 == 1)
        .map(|d| shape[d])
        .product()
}
