//! Fusions that would hold more memory than the kernels apart (scheduler B-12, L-08, L-15, L-16).

use super::{FusedNode, Fusion, Refusal};
use crate::body::Source;
use crate::graph::Graph;
use ferrotrace_kernels::{Op, ValueId};
use petgraph::stable_graph::NodeIndex;
use smallvec::SmallVec;

/// A temporary and the node that writes it.
type Made = (ValueId, NodeIndex);

/// For each node the last barrier that it depends on, by node: 0 where there is none. Empty for graphs without barriers.
pub(super) fn barriers(graph: &Graph) -> Vec<u32> {
    if !graph.nodes().iter().any(|node| node.is(Op::is_barrier)) {
        return Vec::new();
    }
    let mut last: Vec<u32> = Vec::with_capacity(graph.nodes().len());
    for (number, node) in (0..).zip(graph.nodes()) {
        let before = graph.operands(ValueId(number)).map(|x| last[x.0 as usize]);
        let before = before.max().unwrap_or(0);
        last.push(match node.is(Op::is_barrier) {
            true => number,
            false => before,
        });
    }
    last
}

impl Fusion<'_> {
    /// Apart, each of two nodes may run as soon as what it alone reads exists, and give that memory back before the
    /// other's is made; as one they need it all at once. Refused where that is many times what fusing saves.
    pub(super) fn holds_more(&self, a: NodeIndex, b: NodeIndex, saved: u64) -> Result<(), Refusal> {
        let policy = self.policy;
        let allowed = saved
            .saturating_mul(policy.thresholds.veto_factor)
            .max(policy.thresholds.veto_bytes);
        let of_a = self.read_alone(a, b);
        if self.sum(&of_a, &[]) <= allowed {
            return Ok(());
        }
        let of_b = self.read_alone(b, a);
        if self.sum(&of_a, &of_b).min(self.sum(&of_b, &of_a)) > allowed {
            return Err(Refusal::PeakMemory);
        }
        Ok(())
    }

    /// The temporaries that this node alone reads, made by neither of the two.
    fn read_alone(&self, node: NodeIndex, other: NodeIndex) -> SmallVec<[Made; 8]> {
        let mut found: SmallVec<[Made; 8]> = SmallVec::new();
        for (source, _, _) in self.graph[node].iter().flat_map(|fused| fused.loads()) {
            let Source::Node(value) = source else {
                continue;
            };
            let Some(temporary) = self.temporaries.get(&value) else {
                continue;
            };
            let from = self.owner[temporary.made];
            let alone = temporary.read.iter().all(|&step| self.owner[step] == node);
            if alone && from != node && from != other && !found.contains(&(value, from)) {
                found.push((value, from));
            }
        }
        found
    }

    /// Bytes of temporaries, without those that a node makes together with some of the others.
    fn sum(&self, these: &[Made], others: &[Made]) -> u64 {
        let apart = |made: &&Made| others.iter().all(|other| other.1 != made.1);
        let bytes = |made: &Made| self.sizes.get(&Source::Node(made.0)).copied().unwrap_or(0);
        these.iter().filter(apart).map(bytes).sum()
    }

    /// Whether a barrier stands between two nodes: one is recorded before it, the other depends on it. In one kernel what is
    /// behind the barrier would be there early, and held until it is read: what a checkpoint computes again, for instance.
    pub(super) fn is_between_barriers(&self, a: &FusedNode, b: &FusedNode) -> bool {
        let barrier = |fused: &FusedNode| {
            let of = |node: ValueId| self.behind.get(node.0 as usize).copied();
            fused.stores.iter().filter_map(|s| of(s.node)).max()
        };
        let last = |fused: &FusedNode| fused.stores.iter().map(|store| store.node.0).max();
        barrier(b) > last(a) || barrier(a) > last(b)
    }
}
