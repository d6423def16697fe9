//! Kernels that read what a ready-made kernel reads too: listed among what is not fused (scheduler L-04, V-01).

use super::{Fusion, Refusal};
use crate::body::Source;
use crate::lower::{Lowered, Lowering};
use ferrotrace_kernels::ValueId;
use petgraph::stable_graph::NodeIndex;
use rustc_hash::FxHashMap;

impl Fusion<'_> {
    /// Adds each pair of a generated and a ready-made kernel that read one buffer.
    pub(super) fn list_ready_made(&mut self, lowering: &Lowering) {
        let mut calls: FxHashMap<Source, Vec<(usize, ValueId)>> = FxHashMap::default();
        for (at, step) in lowering.steps.iter().enumerate() {
            let alone = self.graph.node_weight(NodeIndex::new(at));
            let whole = |node| lowering.pieces.values().any(|piece| piece.whole == node);
            if matches!(step, Lowered::Call(_))
                && matches!(alone, Some(None))
                && !whole(step.node())
            {
                for source in step.reads() {
                    calls.entry(source).or_default().push((at, step.node()));
                }
            }
        }
        if calls.is_empty() {
            return;
        }
        for kernel in self.graph.node_weights().flatten() {
            let (first, node) = (kernel.steps[0], kernel.stores[0].node);
            let mut sources: Vec<Source> = kernel.loads().map(|load| load.0).collect();
            sources.sort_unstable();
            sources.dedup();
            for source in sources {
                let of = calls.get(&source).map_or(&[][..], Vec::as_slice);
                for &(at, call) in of.iter().take(self.policy.thresholds.pairs) {
                    let pair = match first < at {
                        true => (node, call),
                        false => (call, node),
                    };
                    self.refusals.entry(pair).or_insert(Refusal::Opaque);
                }
            }
        }
    }
}
