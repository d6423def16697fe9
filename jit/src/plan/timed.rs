//! Runs of which every launch is timed, for what measures candidates.

use super::run::{Places, Run};
use super::{Dense, Meter, Plan, PlanInput};
use crate::draft::Draft;
use ferrotrace_runtime::{Kernel, Result, Scalar};
use std::sync::Arc;
use std::time::Duration;

/// Does a launch once, by its number among the plan's, and says how long it took.
pub(crate) type Watch<'a> =
    dyn FnMut(usize, &mut dyn FnMut() -> Result<()>) -> Result<Duration> + 'a;

impl Plan {
    /// A plan that is not reported, of a draft's kernels in the order of its steps, each step's first the one before its
    /// product.
    pub(crate) fn candidate(draft: Draft, kernels: Vec<Arc<Kernel>>, dense: Dense) -> Plan {
        let mut given = kernels.into_iter();
        let (mut before, mut kernels) = (Vec::new(), Vec::new());
        for step in &draft.steps {
            before.push(step.before().and_then(|_| given.next()));
            kernels.push(step.kernel().and_then(|_| given.next()));
        }
        Plan {
            meter: Meter::new(0),
            captures: None,
            places: Places::of(&draft),
            fails: false,
            draft,
            kernels,
            // Kernels that are trusted keep to memory by themselves.
            checks: Vec::new(),
            before,
            fallback: false,
            dense,
            measured: None,
        }
    }

    /// Runs the plan launch by launch; results are thrown away. The time of each launch.
    ///
    /// # Errors
    /// The errors of [`run`](Plan::run).
    pub(crate) fn run_timed(
        &self,
        inputs: Vec<PlanInput>,
        scalars: &[Scalar],
        watch: &mut Watch<'_>,
    ) -> Result<Vec<Duration>> {
        let mut run = Run::new(self, inputs, scalars);
        let groups = self.draft.launches.groups.len();
        let times = (0..groups)
            .map(|at| watch(at, &mut || self.launch_group(&mut run, at)))
            .collect();
        run.judge()?;
        match run.failures.first() {
            Some(error) => Err(error.clone()),
            None => times,
        }
    }
}
