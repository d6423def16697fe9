//! From a recorded graph to its plan: every pass, then the compiler.

use crate::graph::Graph;
use crate::native::dense;
use crate::plan::Plan;
use crate::policy::{Measured, Policy};
use ferrotrace_runtime::Result;
use std::sync::Arc;

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
        Plan::compile(graph, policy, measured, dense)
    }
}
