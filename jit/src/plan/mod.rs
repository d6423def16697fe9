//! Plans: a compiled graph, run any number of times.

mod calls;
mod capture;
mod compile;
mod faults;
mod finite;
mod launch;
mod meter;
mod noted;
mod report;
mod run;
mod timed;

use crate::draft::Draft;
use crate::emit::{Emitted, Pointer};
use crate::explain::Explanation;
use crate::graph::Graph;
use crate::policy::{Measured, Policy};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Activity, Config, Error, Kernel, Result, Timer};
use std::sync::Arc;
use std::time::Instant;

use capture::Captures;
use meter::Meter;
pub use noted::{is_noting, noting};

/// An input of a run.
#[derive(Debug)]
pub struct PlanInput {
    /// The stored tensor.
    pub array: Array,
    /// Whether nothing else needs it: its memory may be overwritten or freed.
    pub donated: bool,
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

impl Plan {
    /// Whether a run may fail where the program can do something about it: for others nobody needs to know where its
    /// operations were recorded.
    pub fn fails(&self) -> bool {
        self.fails || Config::get().nans
    }

    /// What was decided: the graph, fused nodes, refusals, sources.
    pub fn explain(&self) -> Explanation {
        let graphs = self.captures.as_ref().map(Captures::decisions);
        Explanation::measured(&self.draft, &|launch| self.meter.mean(launch))
            .with_graphs(graphs.unwrap_or_default())
            .with_measured(self.measured.clone())
    }

    /// The plan's draft.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }
}
