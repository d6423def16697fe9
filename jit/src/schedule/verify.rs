//! Checks of fusion and of schedules, apart from the code that made them.

use super::{Fusion, Schedule, Scheduled};
use crate::body::Source;
use crate::graph::Graph;
use crate::lower::Lowering;
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::{Error, Result};
use rustc_hash::FxHashSet;

impl Fusion<'_> {
    /// Checks that every lowered step is in the one node that it is said to be in, and that pairs which were taken for others
    /// are what they would be by themselves.
    pub(crate) fn verify(&self) -> Result<()> {
        if self.pairs.are_wrong {
            return Err(Error::internal("a pair of nodes became another's"));
        }
        let mut found = vec![0; self.owner.len()];
        for n in self.graph.node_indices() {
            let steps = self.graph[n]
                .as_ref()
                .map_or(vec![n.index()], |f| f.steps.clone());
            for step in steps {
                found[step] += usize::from(self.owner[step] == n);
            }
        }
        match found.iter().position(|&times| times != 1) {
            Some(step) => Err(Error::internal(format!(
                "fusion has step {step} {} times",
                found[step]
            ))),
            None => Ok(()),
        }
    }
}

impl Schedule {
    /// The schedule, if every lowered step is in it: steps that wait for each other are in no order.
    pub(crate) fn complete(self, lowering: &Lowering) -> Result<Schedule> {
        match self.lowered().count() == lowering.steps.len() {
            true => Ok(self),
            false => Err(Error::internal("the schedule lost a step")),
        }
    }

    /// The lowered steps of each of its steps, and of what computes operands of products.
    fn lowered(&self) -> impl Iterator<Item = usize> {
        let of = |step: &Scheduled| match step {
            Scheduled::Fused(fused) => fused.steps.clone(),
            Scheduled::Call(at) => vec![*at],
        };
        let before = self.prologues.values().flatten();
        let before = before.flat_map(|prologue| prologue.kernel.steps.clone());
        self.steps.iter().flat_map(of).chain(before)
    }

    /// Checks that every lowered step is there once, and runs after those that store what it reads.
    pub(crate) fn verify(&self, graph: &Graph, lowering: &Lowering) -> Result<()> {
        let mut seen = FxHashSet::default();
        if let Some(twice) = self.lowered().find(|&step| !seen.insert(step)) {
            return Err(Error::internal(format!("step {twice} is scheduled twice")));
        }
        let mut made: FxHashSet<ValueId> = FxHashSet::default();
        for (i, step) in self.steps.iter().enumerate() {
            let (reads, writes) = self.of_step(lowering, step);
            // Nothing computes a value without elements.
            let missing = |node: &&ValueId| {
                self.stored.contains(*node)
                    && !made.contains(*node)
                    && graph.node(**node).shape.numel() > 0
            };
            if let Some(node) = reads.iter().filter(|v| !writes.contains(v)).find(missing) {
                return Err(Error::internal(format!(
                    "scheduled step {i} reads %{} before it is stored",
                    node.0
                )));
            }
            made.extend(writes);
        }
        Ok(())
    }

    /// The nodes that a step reads, and those that it makes.
    fn of_step(&self, lowering: &Lowering, step: &Scheduled) -> (Vec<ValueId>, Vec<ValueId>) {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let call = match step {
            Scheduled::Call(at) => Some(*at),
            Scheduled::Fused(fused) => {
                reads.extend(fused.loads().map(|load| load.0));
                writes.extend(fused.stores.iter().map(|store| store.node));
                fused.product.map(|product| product.step)
            }
        };
        if let Some(at) = call {
            reads.extend(lowering.steps[at].reads());
            writes.push(lowering.steps[at].node());
            for prologue in self.prologues.get(&at).into_iter().flatten() {
                writes.push(prologue.node());
                reads.extend(prologue.kernel.loads().map(|load| load.0));
            }
        }
        let node = |source: Source| match source {
            Source::Node(node) => Some(node),
            Source::Input(_) => None,
        };
        (reads.into_iter().filter_map(node).collect(), writes)
    }
}
