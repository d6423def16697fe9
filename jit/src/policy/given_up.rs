//! Fusions that are given up because the plan would hold more memory than the operations one by one (scheduler B-19).

use ferrotrace_kernels::ValueId;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Cuts through a graph in the order of recording: what was computed before a cut is not fused with what follows it,
/// among the nodes that each cut is about.
#[derive(Clone, Debug, Default)]
pub struct GivenUp {
    /// For each node that is to be cut from others, behind which nodes those cuts are.
    cuts: FxHashMap<ValueId, SmallVec<[ValueId; 2]>>,
    /// Values that are stored instead of computed again behind a cut.
    stored: FxHashSet<ValueId>,
}

impl GivenUp {
    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.cuts.is_empty()
    }

    /// Nodes of one kernel are separated by a cut behind a node.
    pub(crate) fn separate(&mut self, nodes: impl Iterator<Item = ValueId>, behind: ValueId) {
        for node in nodes {
            let cuts = self.cuts.entry(node).or_default();
            if !cuts.contains(&behind) {
                cuts.push(behind);
            }
        }
    }

    /// A value is stored before a cut that is behind a node, and computed by no kernel that follows the cut.
    pub(crate) fn store(&mut self, value: ValueId, behind: ValueId) {
        self.stored.insert(value);
        self.separate(std::iter::once(value), behind);
    }

    /// Whether a value that could be computed wherever it is used is to be stored.
    pub(crate) fn stores(&self, value: ValueId) -> bool {
        self.stored.contains(&value)
    }

    /// Whether a cut behind a node parts these already.
    pub(crate) fn parts(&self, nodes: &[ValueId], behind: ValueId) -> bool {
        let cut = |node| {
            self.cuts
                .get(node)
                .is_some_and(|cuts| cuts.contains(&behind))
        };
        nodes.iter().all(cut)
    }

    /// Whether a cut separates nodes of two kernels.
    pub(crate) fn separates(&self, a: &[ValueId], b: &[ValueId]) -> bool {
        if self.is_empty() {
            return false;
        }
        let crosses = |a: &[ValueId], b: &[ValueId]| {
            a.iter().any(|&x| {
                self.cuts.get(&x).is_some_and(|cuts| {
                    cuts.iter().any(|cut| {
                        let alone = self.stores(x) && x <= *cut;
                        let about = |y: &ValueId| {
                            alone || self.cuts.get(y).is_some_and(|cuts| cuts.contains(cut))
                        };
                        b.iter().any(|y| (x <= *cut) != (y <= cut) && about(y))
                    })
                })
            })
        };
        crosses(a, b) || crosses(b, a)
    }
}
