//! From a draft to a plan: its kernels compiled, or why not. And what a draft says of its steps and its memory.

use super::peak::Footprints;
use super::report;
use super::run::Places;
use super::{Captures, Draft, Meter, Plan, Step};
use crate::body::Source;
use crate::emit::{Emitted, Pointer};
use crate::lower::{Call, CallArg, Piece};
use crate::policy::Measured;
use ferrotrace_kernels::ValueId;
use ferrotrace_kernels::op::Pad;
use ferrotrace_runtime::{
    Activity, Config, Counter, Error, ErrorKind, KernelSource, Layout, Result, Timer,
    compile_kernels_on, count, of_plan,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Compiles a draft's kernels.
pub(super) fn compile(
    draft: Draft,
    planned: Duration,
    measured: Option<Arc<Measured>>,
) -> Result<Arc<Plan>> {
    of_plan(draft.number, || compiled(draft, planned, measured))
}

fn compiled(
    mut draft: Draft,
    planned: Duration,
    measured: Option<Arc<Measured>>,
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
                Err(super::placed(error, emitted, &draft))
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

/// A part that is copied into a concatenation: where it starts there, and where it lies.
type Copied<'a> = (usize, Source, &'a Layout);

impl Draft {
    /// Every kernel, checks of indices first, then step by step.
    pub(super) fn kernels(&self) -> impl Iterator<Item = &Emitted> {
        let steps = self.steps.iter().flat_map(|step| {
            let before = step.before().map(|before| &before.kernel);
            before.into_iter().chain(step.kernel())
        });
        self.checks.iter().chain(steps)
    }

    /// Of a concatenation whose parts were written in place: its dimension, and those that were not, each with where it
    /// starts. `None` for other calls. A part that comes twice is written once.
    pub(crate) fn joined<'a>(&self, call: &'a Call) -> Option<(usize, Vec<Copied<'a>>)> {
        let dim = self.graph.node(call.node).operator()?.as_cat()?.dim;
        let stride = self.graph.node(call.node).shape.strides()[dim] as usize;
        let (mut start, mut any, mut copied) = (0, false, Vec::new());
        for arg in &call.args {
            let CallArg::Window(source, layout) = arg else {
                return None;
            };
            let there =
                |piece: &Piece| piece.whole == call.node && piece.window.offset() == start * stride;
            let placed = match source {
                Source::Node(node) => self.pieces.get(node).is_some_and(there),
                Source::Input(_) => false,
            };
            any |= placed;
            if !placed && layout.numel() > 0 {
                copied.push((start, *source, layout));
            }
            start += layout.shape()[dim];
        }
        any.then_some((dim, copied))
    }

    /// Of a padding whose operand was written in place: how much it adds in each dimension.
    pub(crate) fn padded<'a>(&'a self, call: &Call) -> Option<&'a [(isize, isize)]> {
        let Pad(pads) = self.graph.node(call.node).operator()?.as_pad()?;
        let Some(CallArg::Window(Source::Node(part), _)) = call.args.first() else {
            return None;
        };
        let piece = self.pieces.get(part)?;
        (piece.whole == call.node).then_some(pads)
    }

    /// What each step touches.
    pub(super) fn footprints(&self) -> Footprints {
        Footprints::of(
            &self.graph,
            &self.policy,
            &self.steps,
            &self.outputs,
            &self.pieces,
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

/// The buffers that a step reads, and the nodes that it stores.
pub(crate) fn accesses(step: &Step) -> (Vec<Source>, Vec<ValueId>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    if let Some(call) = step.call() {
        for arg in &call.args {
            if let CallArg::Window(source, _) = arg {
                reads.push(*source);
            }
        }
    }
    match step {
        Step::Call(call) => writes.push(call.node),
        Step::Template(template) if template.stored => writes.push(template.call.node),
        _ => {}
    }
    for pointer in step.kernel().iter().flat_map(|k| &k.pointers) {
        match *pointer {
            Pointer::Read(source) => reads.push(source),
            Pointer::Write(node) => writes.push(node),
        }
    }
    reads.extend(
        step.kernel()
            .iter()
            .flat_map(|k| k.updates.iter().map(|u| u.base.0)),
    );
    if let Step::Template(template) = step {
        // The product passes from panel to panel, and so does an operand that is computed.
        reads.retain(|s| *s != Source::Node(template.call.node));
        if let Some(before) = &template.before {
            reads.retain(|s| *s != Source::Node(before.node));
            let read = |pointer: &Pointer| match *pointer {
                Pointer::Read(source) => Some(source),
                Pointer::Write(_) => None,
            };
            reads.extend(before.kernel.pointers.iter().filter_map(read));
        }
    }
    (reads, writes)
}
