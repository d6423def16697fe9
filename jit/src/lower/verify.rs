//! A check of lowered graphs, apart from the code that made them.

use super::Lowering;
use crate::body::Source;
use crate::graph::Graph;
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::{Error, Result};
use rustc_hash::FxHashSet;

impl Lowering {
    /// Checks that every step reads inputs and what an earlier step makes, that no value is made twice, and that outputs
    /// are made.
    pub(crate) fn verify(&self, graph: &Graph) -> Result<()> {
        let mut made: FxHashSet<ValueId> = FxHashSet::default();
        let is_there = |made: &FxHashSet<ValueId>, source: Source| match source {
            Source::Input(n) => (n as usize) < graph.inputs().len(),
            Source::Node(node) => made.contains(&node) || graph.node(node).shape.numel() == 0,
        };
        for (i, step) in self.steps.iter().enumerate() {
            if let Some(bad) = step.reads().into_iter().find(|s| !is_there(&made, *s)) {
                let text = format!("lowered step {i} reads {bad:?}, which has no value");
                return Err(Error::internal(text));
            }
            let node = step.node();
            if !made.insert(node) {
                let text = format!("lowered step {i} makes %{} again", node.0);
                return Err(Error::internal(text));
            }
        }
        match self.outputs.iter().find(|(s, _)| !is_there(&made, *s)) {
            Some((bad, _)) => Err(Error::internal(format!("output {bad:?} is not made"))),
            None => Ok(()),
        }
    }
}
