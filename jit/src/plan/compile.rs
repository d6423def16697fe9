//! From a draft to a plan: its kernels compiled, or why not.

use super::report;
use super::run::Places;
use super::{Captures, Dense, Meter, Plan};
use crate::draft::Draft;
use crate::emit::Emitted;
use crate::graph::Graph;
use crate::policy::{Measured, Policy};
use ferrotrace_runtime::{
    Activity, Config, Counter, Error, ErrorKind, KernelSource, Result, Timer, compile_kernels_on,
    count, of_plan,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

impl Plan {
    /// Every pass, then the compiler: the plan of a graph by a policy, which was chosen by measuring if anything was.
    pub(crate) fn compile(
        graph: Graph,
        policy: &Policy,
        measured: Option<Arc<Measured>>,
        dense: Dense,
    ) -> Result<Arc<Plan>> {
        let (timer, start) = (Timer::start(), Instant::now());
        let draft = Draft::of(graph, policy)?;
        timer.stop(Activity::Planning, || {
            (format!("{} operations", draft.graph.nodes().len()), 0)
        });
        let planned = start.elapsed();
        of_plan(draft.number, || compiled(draft, planned, measured, dense))
    }
}

fn compiled(
    mut draft: Draft,
    planned: Duration,
    measured: Option<Arc<Measured>>,
    dense: Dense,
) -> Result<Arc<Plan>> {
    let start = Instant::now();
    let sources: Vec<KernelSource> = draft.kernels().map(|e| e.source.clone()).collect();
    let timer = Timer::start();
    let mut compiled = compile_kernels_on(&draft.graph.device(), &sources).into_iter();
    timer.stop(Activity::Compiling, || {
        (format!("{} kernels", sources.len()), 0)
    });
    let mut fallback = false;
    let mut loaded =
        |emitted: Option<&Emitted>| match (emitted, emitted.and_then(|_| compiled.next())) {
            (Some(_), Some(Ok(kernel))) => Ok(Some(kernel)),
            (Some(emitted), Some(Err(error))) if is_told(&error) => {
                Err(draft.placed_kernel(error, emitted))
            }
            (Some(_), Some(Err(error))) => {
                warn_once(&error.to_string());
                fallback = true;
                Ok(None)
            }
            _ => Ok(None),
        };
    let mut checks = Vec::with_capacity(draft.checks.len());
    for check in &draft.checks {
        checks.extend(loaded(Some(check))?);
    }
    let (mut before, mut kernels) = (Vec::new(), Vec::new());
    for step in &draft.steps {
        before.push(loaded(step.before().map(|b| &b.kernel))?);
        kernels.push(loaded(step.kernel())?);
    }
    if fallback {
        count(Counter::Fallbacks, 1);
    }
    for (step, kernel) in draft.steps.iter_mut().zip(&kernels) {
        if let (Some(emitted), Some(kernel)) = (step.kernel_mut(), kernel) {
            emitted.source = kernel.origin().clone();
        }
    }
    let plan = Plan {
        meter: Meter::new(draft.launches.groups.len()),
        captures: Captures::of(&draft),
        places: Places::of(&draft),
        fails: draft.fails(),
        draft,
        kernels,
        checks,
        before,
        fallback,
        dense,
        measured,
    };
    count(Counter::PlansBuilt, 1);
    report::report(&plan, [planned, start.elapsed()]);
    Ok(Arc::new(plan))
}

/// Whether a kernel that cannot be compiled is an error of the plan, instead of a reason to run on ready-made kernels:
/// under `FERROTRACE_STRICT=1`, and where the caller decides what becomes of missing kernels.
fn is_told(error: &Error) -> bool {
    Config::get().strict || matches!(error.kind(), ErrorKind::NoKernel(_))
}

fn warn_once(message: &str) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Relaxed) {
        eprintln!(
            "ferrotrace: kernels could not be compiled, ready-made ones run instead: {message}"
        );
    }
}
