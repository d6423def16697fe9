//! Whether doubtful decisions of plans are measured: by scope, process, environment.

use crate::backend::{self, Clock, DeviceClock, Effort, Graph, Plan, PlanInput, Policy, Trial};
use crate::mode;
use ferrotrace_runtime::{Config, Result, Scalar};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

thread_local! {
    static SCOPE: Cell<Option<bool>> = const { Cell::new(None) };
}

/// 0 when not set; else 1 + whether.
static PROCESS: AtomicU8 = AtomicU8::new(0);

/// Whether plans made on this thread now are measured.
pub(crate) fn is_on() -> bool {
    SCOPE.get().unwrap_or_else(|| match PROCESS.load(Relaxed) {
        0 => Config::get().tune,
        set => set == 2,
    })
}

/// Switches measuring on or off for the process: for every thread outside of a [`with_tuning`]. Off by default, and with
/// `FERROTRACE_TUNE=1` on.
///
/// Where it is on, a plan that is made tries other schedules for the same operations: fusions undone, values stored or
/// computed again, other thresholds. Each is compiled, run some times on the program's own data (copies of what it gives
/// away), and timed; the plan is made as was fastest. The choice is remembered, on disk too: it is measured once for a
/// graph of these sizes, a device and a number of threads. [`explain`](crate::explain()) shows times and choice.
///
/// The first call takes longer, by tenths of a second to seconds. Results are the same but for rounding, and under
/// [`Precision::EagerExact`](crate::Precision) the same bits. Plans made before stay as they are.
/// [`Mode::Tiered`](crate::Mode) uses what is remembered, and measures nothing.
///
/// ```
/// use ferrotrace_tracer::{Tensor, explain, with_tuning};
/// # use ferrotrace_runtime::{DType, Device, Error};
/// let x = Tensor::ones([300, 40], DType::F32, &Device::cpu());
/// let y = x.exp().softmax(-1);
/// with_tuning(true, || y.eval())?;
/// assert!(explain(&[&y]).tuning().is_none_or(|measured| measured.rows.len() > 0));
/// # Ok::<(), Error>(())
/// ```
pub fn set_tuning(on: bool) {
    PROCESS.store(1 + on as u8, Relaxed);
}

/// Runs `f` with measuring on or off on this thread, whatever [`set_tuning`] says. Scopes nest; the innermost counts.
pub fn with_tuning<R>(on: bool, f: impl FnOnce() -> R) -> R {
    let _restore = mode::set_for_scope(&SCOPE, Some(on));
    f()
}

/// Data that a plan is about to run with, asked for only where candidates are measured: inputs, and numbers.
pub(crate) type Example<'a> = &'a dyn Fn() -> (Vec<PlanInput>, Vec<Scalar>);

/// The plan of a graph: measured where that is on and there is an example to measure with.
pub(crate) fn plan(graph: Graph, example: Option<Example<'_>>) -> Result<Arc<Plan>> {
    if !is_on() {
        return Plan::of(graph);
    }
    let data = example.map(|example| example());
    let clock: &dyn Clock = &DeviceClock;
    let trial = data.as_ref().map(|(inputs, scalars)| Trial {
        inputs,
        scalars,
        clock,
        effort: Effort::default(),
    });
    let policy = Policy::of(&graph.device());
    backend::plan_measured(graph, &policy, trial.as_ref())
}

/// The policy that a plan of a graph is made by now.
pub(crate) fn policy(graph: &Graph) -> Policy {
    let policy = Policy::of(&graph.device());
    match is_on() {
        true => backend::remembered(graph, &policy),
        false => policy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_before_process() {
        // FERROTRACE_TUNE is not set for tests.
        assert!(!is_on());
        let inner = with_tuning(true, || (is_on(), with_tuning(false, is_on), is_on()));
        assert_eq!((inner, is_on()), ((true, false, true), false));
        let unwound = std::panic::catch_unwind(|| with_tuning(true, || panic!("unwinds")));
        assert!(unwound.is_err() && !is_on());
    }
}
