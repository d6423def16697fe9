//! Plans: a compiled graph, run any number of times.

mod alone;
mod arrange;
mod bound;
mod calls;
mod capture;
mod combine;
mod compile;
mod faults;
mod finite;
mod kernels;
mod launch;
mod meter;
mod noted;
mod one_by_one;
mod order;
mod peak;
mod pipeline;
mod report;
mod run;
mod timed;

use crate::body::Source;
use crate::emit::{Emitted, Pointer};
use crate::explain::Explanation;
use crate::graph::{Graph, NodeOp};
use crate::lower::{Call, Pieces, Site};
use crate::policy::Measured;
use crate::policy::Policy;
use crate::schedule::{Epilogue, Refusal};
use ferrotrace_kernels::{Array, ValueId};
use ferrotrace_runtime::{Activity, Config, Error, Kernel, Layout, Result, Timer};
use std::sync::Arc;
use std::time::Instant;

pub(crate) use capture::Captures;
pub use capture::GraphDecision;
pub use combine::Launches;
pub(crate) use compile::accesses;
pub(crate) use meter::Meter;
pub use noted::{is_noting, kernels_for, noting};

/// An input of a run.
#[derive(Debug)]
pub struct PlanInput {
    /// The stored tensor.
    pub array: Array,
    /// Whether nothing else needs it: its memory may be overwritten or freed.
    pub donated: bool,
}

/// One step of a plan.
#[derive(Clone, Debug)]
pub enum Step {
    /// A generated kernel.
    Launch(Box<Emitted>),
    /// A ready-made kernel.
    Call(Call),
    /// A matrix product with generated kernels before or behind it, panel by panel.
    Template(Box<Template>),
}

/// A product, what computes an operand of every panel, and what follows it on every panel (scheduler T-08).
#[derive(Clone, Debug)]
pub struct Template {
    /// The product.
    pub call: Call,
    /// Whether others need the product, so that it is stored as a whole.
    pub stored: bool,
    /// What a device's library does instead of the kernel, where it takes the operands.
    pub epilogue: Option<Epilogue>,
    /// The kernel before it.
    pub before: Option<Before>,
    /// The kernel behind it.
    pub kernel: Option<Emitted>,
}

/// A kernel that computes an operand of a product, which is stored nowhere else.
#[derive(Clone, Debug)]
pub struct Before {
    /// The node computed.
    pub node: ValueId,
    /// The operand: 0 the left one, 1 the right one.
    pub operand: usize,
    /// Whether its rows are what panels of the product cut.
    pub by_rows: bool,
    /// The kernel.
    pub kernel: Emitted,
}

impl Step {
    /// The generated kernel, if there is one.
    pub fn kernel(&self) -> Option<&Emitted> {
        match self {
            Step::Launch(kernel) => Some(kernel),
            Step::Template(template) => template.kernel.as_ref(),
            Step::Call(_) => None,
        }
    }

    /// The generated kernel, if there is one, to be changed.
    fn kernel_mut(&mut self) -> Option<&mut Emitted> {
        match self {
            Step::Launch(kernel) => Some(kernel),
            Step::Template(template) => template.kernel.as_mut(),
            Step::Call(_) => None,
        }
    }

    /// The kernel that computes an operand of the step's product, if there is one.
    pub fn before(&self) -> Option<&Before> {
        match self {
            Step::Template(template) => template.before.as_ref(),
            _ => None,
        }
    }

    /// The call, if there is one.
    pub fn call(&self) -> Option<&Call> {
        match self {
            Step::Launch(_) => None,
            Step::Template(template) => Some(&template.call),
            Step::Call(call) => Some(call),
        }
    }
}

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

/// A compiled graph.
#[derive(Debug)]
pub struct Plan {
    draft: Draft,
    /// The kernel of each step that has one.
    kernels: Vec<Option<Arc<Kernel>>>,
    /// The kernels that check indices ahead of the plan, in the draft's order.
    checks: Vec<Arc<Kernel>>,
    /// For each step that is a product, the kernel that computes an operand of it, if one does.
    before: Vec<Option<Arc<Kernel>>>,
    /// A kernel could not be compiled: runs go through ready-made kernels.
    fallback: bool,
    meter: Meter,
    captures: Option<Captures>,
    places: run::Places,
    /// Whether a run may fail where the program can do something about it.
    fails: bool,
    /// What was measured for it, if anything was.
    measured: Option<Arc<Measured>>,
}

impl Plan {
    /// Plans a graph for its device: every pass, then its kernels, in as few files as there are cores.
    ///
    /// # Errors
    /// A pass's error, or, under `FERROTRACE_STRICT=1`, a compiler's. Without it a kernel that cannot be compiled makes
    /// the plan run on ready-made kernels, with one warning and a count in `stats().fallbacks`.
    pub fn of(graph: Graph) -> Result<Arc<Plan>> {
        let policy = Policy::of(&graph.device());
        Plan::by(graph, &policy)
    }

    /// Plans a graph as [`of`](Plan::of) does, by another policy.
    ///
    /// # Errors
    /// The errors of [`of`](Plan::of).
    pub fn by(graph: Graph, policy: &Policy) -> Result<Arc<Plan>> {
        Plan::measured(graph, policy, None)
    }

    /// As [`by`](Plan::by), by a policy that was chosen by measuring, if any was.
    pub(crate) fn measured(
        graph: Graph,
        policy: &Policy,
        measured: Option<Arc<Measured>>,
    ) -> Result<Arc<Plan>> {
        let (timer, start) = (Timer::start(), Instant::now());
        let draft = Draft::of(graph, policy)?;
        timer.stop(Activity::Planning, || {
            (format!("{} operations", draft.graph.nodes().len()), 0)
        });
        compile::compile(draft, start.elapsed(), measured)
    }
}

/// An error of a whole kernel, tied to the first operation whose result the kernel stores.
fn placed(error: Error, emitted: &Emitted, draft: &Draft) -> Error {
    let written = emitted.pointers.iter().find_map(|pointer| match pointer {
        Pointer::Write(id) => Some(*id),
        Pointer::Read(_) => None,
    });
    match written {
        Some(id) => draft.placed(error, id),
        None => error,
    }
}

impl Draft {
    /// The node of the recorded graph that a node of the simplified one comes from.
    fn recorded(&self, id: ValueId) -> Option<ValueId> {
        self.graph.node(id).recorded
    }

    /// An error of a node, tied to the operation that the program recorded, where the node is a part of it.
    fn placed(&self, error: Error, id: ValueId) -> Error {
        match self.recorded(id) {
            Some(recorded) => error.of_node(recorded.0, self.recorded.context(recorded)),
            None => error.at(self.graph.context(id)),
        }
    }

    /// An index out of range as the program gave it to the operation that a node comes from.
    fn told(&self, id: ValueId, index: i64, size: usize) -> i64 {
        match self.recorded(id).map(|v| &self.recorded.node(v).op) {
            Some(NodeOp::Op(op)) => op.told(index, size),
            _ => index,
        }
    }
}

impl Draft {
    /// Whether a run checks indices, calls ready-made kernels or takes much memory.
    fn fails(&self) -> bool {
        let nodes = self.graph.nodes().iter();
        let much = |bytes: usize| bytes >= self.policy.thresholds.scarce_bytes;
        !self.sites.is_empty()
            || self.steps.iter().any(|step| step.call().is_some())
            || nodes
                .map(|n| n.shape.numel().saturating_mul(n.dtype.size()))
                .any(much)
    }
}

impl Plan {
    /// Whether a run may fail where the program can do something about it: for others nobody needs to know where its
    /// operations were recorded.
    pub fn fails(&self) -> bool {
        self.fails || Config::get().nans
    }

    /// What was decided: the graph, fused nodes, refusals, sources.
    pub fn explain(&self) -> Explanation {
        let graphs = self.captures.as_ref().map(Captures::decisions);
        Explanation::measured(&self.draft, Some(&self.meter))
            .with_graphs(graphs.unwrap_or_default())
            .with_measured(self.measured.clone())
    }

    /// The plan's draft.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }
}
