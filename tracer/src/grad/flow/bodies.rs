//! Recording closures as the bodies of a program, with their gradients.

use crate::grad::{Inner, gradients_within};
use crate::history::History;
use crate::mode::{self, Mode};
use crate::node::{Facts, Node, NodeInput};
use crate::program::{Body, Gather, Output};
use crate::trace::{self, Drawn, Recording};
use crate::{Tensor, generator};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{DType, Device, Error, ErrorKind, Result, Shape};
use std::panic::Location;
use std::sync::Arc;

/// What is recorded as a body.
pub(crate) type Closure<'a> = Box<dyn FnOnce(&[Tensor]) -> Vec<Tensor> + 'a>;

/// The shape and dtype of an operand or result.
pub(crate) type Like = (Shape, DType);

/// The number of the stand-in for the gradient of a body's first result. Operands have lower ones.
const SEEDS: u32 = 1 << 30;

/// The bodies of a program, as closures recorded them.
pub(crate) struct Bodies {
    pub bodies: Vec<Body>,
    /// The shapes and dtypes of each body's results.
    pub results: Vec<Vec<Like>>,
    /// The gradient of each body, where one can be asked for.
    pub vjps: Vec<Result<Vjp>>,
    /// What they captured: operands behind those that have stand-ins.
    pub captured: Vec<Tensor>,
    pub numbers: Vec<NodeInput>,
    pub drawn: Vec<Drawn>,
}

/// The gradient of a body: of its operands from those of its results.
#[derive(Debug)]
pub(crate) struct Vjp {
    body: Body,
    numbers: Vec<NodeInput>,
    /// The operands that its results are the gradients of.
    targets: Vec<u32>,
}

impl Vjp {
    /// Records it: the gradient of each operand that has one, from those of all results that are floats.
    pub fn pull(&self, operands: &[Tensor], seeds: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
        let operand = |number: u32| match number.checked_sub(SEEDS) {
            None => &operands[number as usize],
            Some(result) => seeds[result as usize].as_ref().unwrap_or(&operands[0]),
        };
        let mut found: Vec<Option<Tensor>> = vec![None; operands.len()];
        let gradients = self.body.replay(operand, &self.numbers);
        for (&target, gradient) in self.targets.iter().zip(gradients) {
            found[target as usize] = Some(gradient);
        }
        found
    }

    /// Whether it reads the gradient of a result.
    pub fn reads(&self, result: usize) -> bool {
        let seed = SEEDS + result as u32;
        self.body.leaves.contains(&seed) || self.body.outputs.contains(&Output::Operand(seed))
    }

    /// Whether an operand has a gradient.
    pub fn reaches(&self, operand: usize) -> bool {
        self.targets.contains(&(operand as u32))
    }
}

/// Stands for an operand, or for the gradient of a result, while a body is recorded. Nothing reads its memory.
fn stand_in(
    (shape, dtype): &Like,
    device: &Device,
    trace: u64,
    place: u32,
    location: &'static Location<'static>,
) -> Result<Tensor> {
    let array = Array::empty(device, shape.clone(), *dtype)?;
    let mut facts = Facts::of_data(&array, location);
    facts.trace = trace;
    (facts.place, facts.is_argument) = (place, true);
    facts.traced = true;
    Ok(Tensor::of_fresh(Node::stored(facts, array)))
}

/// Records closures as bodies of one program, each of stand-ins for its operands. The program has `inherited` draws
/// already; `live` says whether a gradient may be asked of an operand.
///
/// # Errors
/// The first error that a result carries; a result on another device.
pub(crate) fn recorded(
    operands: &[Like],
    device: &Device,
    inherited: usize,
    live: bool,
    closures: Vec<Closure<'_>>,
    location: &'static Location<'static>,
) -> Result<Bodies> {
    mode::with_mode(Mode::Compiled, || {
        let nothing = || Drawn {
            generator: generator::process().clone(),
            numel: 0,
            position: (0, 0),
        };
        let recording = Recording::of_body((0..inherited).map(|_| nothing()).collect());
        let of = operands.iter().zip(0..);
        // Closures run in any case: without memory, on tensors that carry the error.
        let of = of.map(|(like, place)| {
            let made = stand_in(like, device, recording.id(), place, location);
            made.unwrap_or_else(|e| Tensor::of_error(e, like.1, device, location))
        });
        let stand_ins: Vec<Tensor> = of.collect();
        let tracks = mode::keeps_history();
        let lend = |stand_in: &Tensor| match tracks && stand_in.dtype().is_float() {
            true => stand_in.with_history(Some(History::leaf(0))),
            false => stand_in.clone(),
        };
        let lent: Vec<Tensor> = stand_ins.iter().map(lend).collect();
        let run = |closure: Closure<'_>| match tracks {
            true => mode::keeping_all(|| closure(&lent)),
            false => closure(&lent),
        };
        let results = closures
            .into_iter()
            .map(|closure| recording.run(|| run(closure)));
        let results: Vec<Vec<Tensor>> = results.collect();
        // The program may go on without the value that it was refused, by another that steps would not have.
        if recording.was_refused() {
            return Err(trace::stale(recording.id(), location));
        }
        let mut bodies = gathered(&recording, operands.len(), &results, device)?;
        if tracks {
            bodies.differentiate(&recording, &results, &lent, live);
        }
        bodies.drawn = recording.draws().split_off(inherited);
        drop((results, lent));
        trace::expire(stand_ins.iter().map(Tensor::node));
        Ok(bodies)
    })
}

fn gathered(
    recording: &Recording,
    stand_ins: usize,
    results: &[Vec<Tensor>],
    device: &Device,
) -> Result<Bodies> {
    let mut gather = Gather::new(recording.id(), stand_ins);
    let mut bodies = Vec::with_capacity(results.len());
    for results in results {
        for result in results {
            result.check()?;
            if result.device() != *device {
                let why = format!(
                    "a body gives a value on {}, not on {device}",
                    result.device()
                );
                return Err(Error::new(ErrorKind::Device(why)));
            }
        }
        bodies.push(gather.body(results)?);
    }
    let like = |result: &Tensor| (result.sizes().clone(), result.dtype());
    let likes = |results: &Vec<Tensor>| results.iter().map(like).collect();
    Ok(Bodies {
        bodies,
        results: results.iter().map(likes).collect(),
        vjps: Vec::new(),
        captured: gather.captured,
        numbers: gather.numbers,
        drawn: Vec::new(),
    })
}

impl Bodies {
    /// Records the gradients of the bodies, if one can be asked for.
    fn differentiate(
        &mut self,
        recording: &Recording,
        results: &[Vec<Tensor>],
        lent: &[Tensor],
        live: bool,
    ) {
        let trace = recording.id();
        let inner: Vec<Option<Inner>> = results.iter().map(|r| Inner::of(r, trace)).collect();
        let is_stand_in = |tensor: &Tensor| {
            let facts = &tensor.node().facts;
            facts.is_argument && facts.trace == trace
        };
        let is_live = |tensor: &Tensor| {
            let live = tensor
                .history()
                .is_some_and(|h| h.is_live() && h.trace != trace);
            live && tensor.dtype().is_float() && !is_stand_in(tensor)
        };
        let outer = |inner: &Inner| inner.outer.iter().cloned().map(Tensor::of_value).collect();
        let captured = |(inner, results): (&Option<Inner>, &Vec<Tensor>)| {
            let mut all: Vec<Tensor> = inner.as_ref().map(outer).unwrap_or_default();
            all.extend(results.iter().cloned());
            all.retain(|tensor| is_live(tensor));
            all
        };
        let captured: Vec<Vec<Tensor>> = inner.iter().zip(results).map(captured).collect();
        if !live && captured.iter().all(Vec::is_empty) {
            return;
        }
        let mut gather = Gather::after(trace, lent.len(), std::mem::take(&mut self.captured));
        for ((inner, results), captured) in inner.iter().zip(results).zip(captured) {
            let kept = || Error::internal("a body did not keep what its gradient reads");
            let inner = inner.as_ref().ok_or_else(kept);
            let targets: Vec<Tensor> = lent.iter().cloned().chain(captured).collect();
            let vjp = inner.and_then(|inner| vjp(recording, inner, results, targets, &mut gather));
            self.vjps.push(vjp);
        }
        self.captured = gather.captured;
    }
}

/// The gradient of a body by these operands of it.
fn vjp(
    recording: &Recording,
    inner: &Inner,
    results: &[Tensor],
    mut targets: Vec<Tensor>,
    gather: &mut Gather,
) -> Result<Vjp> {
    targets.retain(|target| target.history().is_some());
    let mut seen = rustc_hash::FxHashSet::default();
    targets.retain(|target| seen.insert(target.history().map(Arc::as_ptr)));
    let mut values = Vec::new();
    for (result, place) in results.iter().zip(SEEDS..) {
        let live = result.history().is_some_and(|history| history.is_live());
        if live && result.dtype().is_float() {
            let like = (result.sizes().clone(), result.dtype());
            let seed = stand_in(
                &like,
                &result.device(),
                recording.id(),
                place,
                result.node().facts.location,
            )?;
            values.push((result.clone(), seed));
        }
    }
    let seeds: Vec<Tensor> = values.iter().map(|(_, seed)| seed.clone()).collect();
    let pull = || gradients_within(values, &inner.histories, &targets, Location::caller());
    let found = recording.run(|| mode::with_history(false, pull))?;
    let of = targets.iter().zip(found);
    let (targets, gradients): (Vec<&Tensor>, Vec<Tensor>) = of
        .filter_map(|(target, gradient)| Some((target, gradient?)))
        .unzip();
    let targets = targets
        .into_iter()
        .map(|target| gather.operand_of(target))
        .collect();
    let body = gather.body(&gradients)?;
    let numbers = std::mem::take(&mut gather.numbers);
    drop(gradients);
    trace::expire(seeds.iter().map(Tensor::node));
    Ok(Vjp {
        body,
        numbers,
        targets,
    })
}
