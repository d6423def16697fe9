//! Drafts of plans: from a recorded graph to steps in the order of least memory, before anything is compiled.

mod arrange;
mod bound;
mod calls;
mod checks;
mod combine;
mod kernels;
mod one_by_one;
mod order;
pub(crate) mod origins;
mod peak;
mod pipeline;
mod step;
pub(crate) mod traffic;
mod verify;

use crate::body::Source;
use crate::emit::{Emitted, Pointer};
use crate::graph::{Graph, NodeOp};
use crate::lower::{Pieces, Site};
use crate::policy::Policy;
use crate::schedule::Refusal;
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::{Error, Layout};
use peak::Footprints;

pub(crate) use checks::sites;
pub use combine::Launches;
pub use pipeline::kernels_for;
pub use step::{Before, Step, Template};
pub(crate) use step::{accesses, convolution};
pub use traffic::Traffic;

/// A plan before its kernels are compiled.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The recorded graph.
    pub recorded: Graph,
    /// The simplified graph; node ids of the plan are its.
    pub graph: Graph,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Kernels that check indices before any step.
    pub checks: Vec<Emitted>,
    /// Pairs of index checks of the same indices, of which `checks` make the first.
    pub alike: Vec<[u32; 2]>,
    /// Which steps are launched together.
    pub launches: Launches,
    /// The policy by which it was made.
    pub policy: Policy,
    /// Buffers whose last use is each step.
    pub frees: Vec<Vec<Source>>,
    /// Where each output lies.
    pub outputs: Vec<(Source, Layout)>,
    /// What index faults mean.
    pub sites: Vec<Site>,
    /// Nodes that lie in the memory of others, which the first of them to run allocates.
    pub pieces: Pieces,
    /// Pairs that are not one kernel, with the reason.
    pub refusals: Vec<(ValueId, ValueId, Refusal)>,
    /// How many nodes there were before the first round of fusion, and after each (scheduler V-05).
    pub rounds: Vec<usize>,
    /// A number that no other draft of the process has, in every line that is logged of it (codegen B14.7).
    pub number: u64,
}

impl Draft {
    /// The node of the recorded graph that a node of the simplified one comes from.
    fn recorded(&self, id: ValueId) -> Option<ValueId> {
        self.graph.node(id).recorded
    }

    /// An error of a node, tied to the operation that the program recorded, where the node is a part of it.
    pub(crate) fn placed(&self, error: Error, id: ValueId) -> Error {
        match self.recorded(id) {
            Some(recorded) => error.of_node(recorded.0, self.recorded.context(recorded)),
            None => error.at(self.graph.context(id)),
        }
    }

    /// An error of a whole kernel, tied to the first operation whose result the kernel stores.
    pub(crate) fn placed_kernel(&self, error: Error, kernel: &Emitted) -> Error {
        let written = kernel.pointers.iter().find_map(|pointer| match pointer {
            Pointer::Write(id) => Some(*id),
            Pointer::Read(_) => None,
        });
        match written {
            Some(id) => self.placed(error, id),
            None => error,
        }
    }

    /// An index out of range as the program gave it to the operation that a node comes from.
    pub(crate) fn told(&self, id: ValueId, index: i64, size: usize) -> i64 {
        match self.recorded(id).map(|v| &self.recorded.node(v).op) {
            Some(NodeOp::Op(op)) => op.told(index, size),
            _ => index,
        }
    }

    /// Whether a run checks indices, calls ready-made kernels or takes much memory.
    pub(crate) fn fails(&self) -> bool {
        let nodes = self.graph.nodes().iter();
        let much = |bytes: usize| bytes >= self.policy.thresholds.scarce_bytes;
        !self.sites.is_empty()
            || self.steps.iter().any(|step| step.call().is_some())
            || nodes
                .map(|n| n.shape.numel().saturating_mul(n.dtype.size()))
                .any(much)
    }

    /// Every kernel, checks of indices first, then step by step.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = &Emitted> {
        let steps = self.steps.iter().flat_map(|step| {
            let before = step.before().map(|before| &before.kernel);
            before.into_iter().chain(step.kernel())
        });
        self.checks.iter().chain(steps)
    }

    /// What each step touches.
    fn footprints(&self) -> Footprints {
        Footprints::of(
            &self.graph,
            &self.policy,
            &self.steps,
            &self.outputs,
            &self.pieces,
            &|i| self.launches.is_solo(i),
        )
    }

    /// The most bytes that a run holds at once beyond those of its inputs (scheduler B-19), on this thread's number of
    /// threads: memory that a ready-made kernel or a launch needs for itself alone is not counted, but for the panels of
    /// a product. `donated` says which inputs the run may overwrite.
    pub fn peak(&self, donated: &dyn Fn(u32) -> bool) -> u64 {
        let footprints = self.footprints();
        footprints.peak(0..self.steps.len(), donated)
    }

    /// The most bytes of results and of values between steps that a run holds at once beyond its inputs, where
    /// every input is kept, and where every one may be overwritten: [`peak`](Self::peak) without what a step needs for
    /// itself alone, as the panels of a product. At most one part in [`Thresholds::held_share`](crate::policy::Thresholds::held_share) more than the recorded
    /// operations one by one.
    pub fn peaks(&self) -> [u64; 2] {
        let footprints = self.footprints();
        [false, true].map(|donated| {
            let donated = |_| donated;
            let held = footprints.held(0..self.steps.len(), &donated, false);
            held.max().unwrap_or(0)
        })
    }
}
