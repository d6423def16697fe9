//! Plans: a compiled graph, run any number of times.

mod calls;
mod capture;
mod compile;
mod failures;
mod faults;
mod finite;
mod launch;
mod meter;
mod noted;
mod report;
mod run;
mod template;
mod timed;
mod together;

use crate::draft::Draft;
use crate::explain::Explanation;
use crate::policy::Measured;
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Config, Kernel, Result};
use std::sync::Arc;

use capture::Captures;
use meter::Meter;
pub use noted::{is_noting, noting};

/// The array itself if it is dense and row-major, else a copy that is. On a device the copy is a plan's: whoever makes a
/// plan says by which it copies.
pub(crate) type Dense = fn(&Array) -> Result<Array>;

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
    /// What gives arrays of the graph's device to libraries that take no others.
    dense: Dense,
    meter: Meter,
    captures: Option<Captures>,
    places: run::Places,
    /// Whether a run may fail where the program can do something about it.
    fails: bool,
    /// What was measured for it, if anything was.
    measured: Option<Arc<Measured>>,
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
