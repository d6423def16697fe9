//! Building plans: passes in order, with a verifier between them.

use super::combine::Sharing;
use super::order::least_memory;
use super::peak::Footprints;
use super::report;
use super::run::Places;
use super::{Before, Captures, Draft, Launches, Meter, Plan, Step, Template};
use crate::body::Source;
use crate::emit::{self, Alike, Emitted, Pointer};
use crate::graph::Graph;
use crate::lower::{Call, CallArg, Lowered, Piece, lower};
use crate::policy::Policy;
use crate::schedule::{FusedNode, Prologue, Scheduled, fuse, widen};
use crate::simplify::simplify_for;
use crate::target::Language;
use crate::tune::Measured;
use ferrotrace_kernels::ValueId;
use ferrotrace_kernels::op::Pad;
use ferrotrace_runtime::{
    Activity, Config, Counter, Error, FloatEnvironment, KernelSource, Layout, Result, Timer,
    compile_kernels_on, count, next_plan, of_plan,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Every pass but the compiler.
///
/// # Errors
/// A decomposition or lowering fails, or, under verification, an invariant between passes does not hold.
pub fn draft(recorded: Graph, policy: &Policy) -> Result<Draft> {
    let _environment = FloatEnvironment::standard();
    let number = next_plan();
    of_plan(number, || {
        recorded.on_one_device()?;
        let mut spans = Spans(Timer::start());
        let graph = simplify_for(&recorded, policy)?;
        spans.end("simplify");
        if Config::get().verify {
            graph.verify()?;
        }
        let draft = draft_of(recorded, graph, policy)?;
        let draft = super::bound::bounded(draft, policy, draft_of)?;
        Ok(Draft { number, ..draft })
    })
}

/// While somebody profiles, each pass is a span within that of planning (scheduler V-11, codegen B12.7).
struct Spans(Timer);

impl Spans {
    /// A pass ends, and the next begins.
    fn end(&mut self, name: &'static str) {
        let done = std::mem::replace(&mut self.0, Timer::start());
        done.stop(Activity::Planning, || (name.to_owned(), 0));
    }
}

/// The passes after simplification.
fn draft_of(recorded: Graph, mut graph: Graph, policy: &Policy) -> Result<Draft> {
    let mut spans = Spans(Timer::start());
    let lowering = lower(&graph, policy)?;
    spans.end("lower");
    let mut schedule = fuse(&graph, &lowering, policy);
    widen(&mut graph, &lowering, &mut schedule);
    spans.end("fuse");
    report::loops(&lowering, &schedule);
    let scheduled = schedule.steps.iter().map(|step| match step {
        Scheduled::Fused(fused) => fused.steps.len(),
        Scheduled::Call(_) => 1,
    });
    let fed = schedule
        .prologues
        .values()
        .flatten()
        .map(|p| p.kernel.steps.len());
    let scheduled = scheduled.chain(fed);
    // Steps in a cycle are in no order.
    if scheduled.sum::<usize>() != lowering.steps.len() {
        return Err(Error::internal("the schedule lost a step"));
    }
    let fed: FxHashSet<ValueId> = schedule
        .prologues
        .values()
        .flatten()
        .map(Prologue::node)
        .collect();
    let fused = schedule.steps.iter().filter_map(|step| match step {
        Scheduled::Fused(fused) => Some((&**fused, &schedule.stored)),
        Scheduled::Call(_) => None,
    });
    // On a device, what is computed before a generated product is part of the product's kernel.
    let prologues = schedule
        .prologues
        .values()
        .flatten()
        .filter(|_| policy.target.panels);
    let prologues = prologues.map(|p| (&p.kernel, &fed));
    let write = |node: &FusedNode, stored: &FxHashSet<ValueId>| match policy.target.language {
        Language::C => emit::emit(node, stored, policy),
        Language::Cuda => emit::cuda::emit(node, stored),
    };
    let mut alike = Alike::of(fused.chain(prologues), &write);
    let steps = schedule.steps.iter().map(|step| {
        Ok(match step {
            Scheduled::Fused(fused) if fused.product.is_some_and(|p| p.tiles.is_some()) => {
                let stored = &schedule.stored;
                let step = fused.product.map(|p| p.step);
                let before = step.and_then(|step| schedule.prologues.get(&step));
                let before = before.map_or(&[][..], Vec::as_slice);
                let kernel =
                    emit::cuda::product::emit(&graph, &lowering, fused, before, stored, policy);
                Step::Launch(Box::new(kernel))
            }
            Scheduled::Fused(fused) => {
                let stored = &schedule.stored;
                let mut kernel = alike.emit(fused, stored)?;
                match fused.product.map(|p| (p, &lowering.steps[p.step])) {
                    Some((product, Lowered::Call(call))) => {
                        let prologue = schedule
                            .prologues
                            .get(&product.step)
                            .and_then(|p| p.first());
                        let before = prologue.map(|p| before(p, &mut alike, &fed));
                        let before = before.transpose()?;
                        // The operands of the product are read until its last panel.
                        let mut operands = lowering.steps[product.step].reads();
                        let fed = before.iter().flat_map(|b| b.kernel.node.loads());
                        operands.extend(fed.map(|load| load.0));
                        kernel.in_place.retain(|pair| !operands.contains(&pair.1));
                        Step::Template(Box::new(Template {
                            call: call.clone(),
                            stored: stored.contains(&product.node),
                            epilogue: product.epilogue,
                            before,
                            kernel: Some(kernel),
                        }))
                    }
                    _ => Step::Launch(Box::new(kernel)),
                }
            }
            Scheduled::Call(at) => match &lowering.steps[*at] {
                Lowered::Call(call) => match schedule.prologues.get(at).and_then(|p| p.first()) {
                    None => Step::Call(call.clone()),
                    Some(prologue) => Step::Template(Box::new(Template {
                        call: call.clone(),
                        stored: true,
                        epilogue: None,
                        before: Some(before(prologue, &mut alike, &fed)?),
                        kernel: None,
                    })),
                },
                Lowered::Attention(attention) => Step::Launch(Box::new(
                    emit::cuda::attention::emit(attention, *at, policy),
                )),
                Lowered::Nest(_) => unreachable!("a nest is part of a fused node"),
            },
        })
    });
    let steps = steps.collect::<Result<Vec<Step>>>()?;
    spans.end("emit");
    let footprints = Footprints::of(&graph, policy, &steps, &lowering.outputs, &lowering.pieces);
    let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    let mut steps: Vec<Step> = least_memory(&footprints, policy.thresholds.ready)
        .into_iter()
        .filter_map(|at| steps[at].take())
        .collect();
    let frees = last_uses(
        &steps,
        &lowering.outputs.iter().map(|o| o.0).collect::<Vec<_>>(),
    );
    let sharing = Sharing::of(policy, Config::get().combine);
    let mut launches = Launches::of(
        &steps,
        &frees,
        &lowering.pieces,
        &sharing,
        &policy.thresholds,
    );
    match policy.target.spreads_launches {
        true => launches.leave_small_steps_to_one_thread(&graph, &steps, &policy.thresholds),
        false => launches.take_tables(&mut steps, policy.target.table_bytes),
    }
    let checks = match policy.target.reports_late {
        true => super::check::ahead(&mut steps, policy),
        false => Vec::new(),
    };
    let draft = Draft {
        checks,
        launches,
        policy: policy.clone(),
        recorded,
        graph,
        steps,
        frees,
        outputs: lowering.outputs,
        sites: lowering.sites,
        pieces: lowering.pieces,
        refusals: schedule.refusals,
        rounds: schedule.rounds,
        number: 0,
    };
    spans.end("order");
    if Config::get().verify {
        super::run::verify(&draft)?;
    }
    Ok(draft)
}

/// What computes an operand of a product.
fn before<'a>(
    prologue: &'a Prologue,
    alike: &mut Alike<'a>,
    fed: &FxHashSet<ValueId>,
) -> Result<Before> {
    let mut kernel = alike.emit(&prologue.kernel, fed)?;
    kernel.in_place.clear();
    Ok(Before {
        node: prologue.node(),
        operand: prologue.operand,
        by_rows: prologue.by_rows,
        kernel,
    })
}

/// For each step, the buffers that nothing after it uses (scheduler B-01); outputs are in none.
fn last_uses(steps: &[Step], outputs: &[Source]) -> Vec<Vec<Source>> {
    let mut last: FxHashMap<Source, usize> = FxHashMap::default();
    for (i, step) in steps.iter().enumerate() {
        let (reads, writes) = accesses(step);
        for source in reads
            .into_iter()
            .chain(writes.into_iter().map(Source::Node))
        {
            last.insert(source, i);
        }
    }
    let mut frees = vec![Vec::new(); steps.len()];
    for (source, at) in last {
        if !outputs.contains(&source) {
            frees[at].push(source);
        }
    }
    for list in &mut frees {
        list.sort_unstable();
    }
    frees
}

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
    let all = draft.steps.iter().flat_map(|step| {
        let before = step.before().map(|before| &before.kernel);
        before.into_iter().chain(step.kernel())
    });
    let all = draft.checks.iter().chain(all);
    let sources: Vec<KernelSource> = all.map(|e| e.source.clone()).collect();
    let timer = Timer::start();
    let mut compiled = compile_kernels_on(&draft.graph.device(), &sources).into_iter();
    timer.stop(Activity::Compiling, || {
        (format!("{} kernels", sources.len()), 0)
    });
    let mut fallback = false;
    let mut loaded =
        |emitted: Option<&Emitted>| match (emitted, emitted.and_then(|_| compiled.next())) {
            (Some(_), Some(Ok(kernel))) => Ok(Some(kernel)),
            (Some(emitted), Some(Err(error))) if Config::get().strict => {
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
