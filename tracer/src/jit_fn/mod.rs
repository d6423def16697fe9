//! Function compilation: `jit(f)` traces a function once for a signature and replays the plan afterwards.

mod fold;
mod gradient;
mod key;
mod parts;
mod portable;
mod replay;

use crate::Tensor;
use crate::grad::leaves_trace;
use crate::history::History;
use crate::mode::{self, Mode};
use crate::node::{Facts, Node};
use crate::structs::{ArgKind, Buffer, JitArg, JitResult, Lender, Visit};
use crate::trace::{self, Recording};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Config, Context, Counter, DType, Device, Error, Striped, count};
use fold::{Bound, Folds};
use gradient::{Call, Joint};
use key::{Probe, Traces};
use parking_lot::Mutex;
use parts::{Filled, Parts};
pub use portable::FunctionTrace;
use replay::{Draws, Recorded, Replay, Tensors};
use rustc_hash::FxHashSet;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

/// A function that [`jit`] can compile: any `Fn` from a [`JitArg`] to a [`JitResult`]. `Signature` tells the argument
/// and result types of one function type apart; it is inferred.
#[diagnostic::on_unimplemented(
    message = "`jit` compiles functions of one argument: of several, take one tuple",
    label = "not a function from a `jit` argument to a `jit` result",
    note = "of two arguments: `jit(|(x, w): (&Tensor, &Tensor)| ..)`, called by `f.call((&x, &w))`",
    note = "an argument is `&Tensor`, `Tensor`, a number, a struct with `#[derive(TensorStruct)]` or a reference to one, or an array, a vector or a tuple of them",
    note = "a result is `Tensor`, a struct with `#[derive(TensorStruct)]`, or a tuple, an array, a vector or a `Result` of them"
)]
pub trait JitFn<Signature> {
    /// The family of its argument.
    type Kind: ArgKind;
    /// Its result.
    type Output: JitResult;

    /// Calls it.
    fn run<'a>(&self, argument: <Self::Kind as ArgKind>::Of<'a>) -> Self::Output;
}

// A function of another number of arguments is refused by rustc's own error (E0593), which shows the line of the bound.
impl<F, A, R> JitFn<(A, R)> for F
where
    A: JitArg,
    R: JitResult,
    F: Fn(A) -> R, // of several arguments, take one tuple: `jit(|(x, w): (&Tensor, &Tensor)| ..)`
    F: for<'a> Fn(<A::Kind as ArgKind>::Of<'a>) -> R,
{
    type Kind = A::Kind;
    type Output = R;

    fn run<'a>(&self, argument: <A::Kind as ArgKind>::Of<'a>) -> R {
        self(argument)
    }
}

/// A compiled function: see [`jit`].
pub struct Jit<F, S>
where
    F: JitFn<S>,
{
    function: F,
    /// The function's traces, whichever thread recorded them.
    traces: Mutex<Traces<Shape<F, S>>>,
    /// For each stripe of threads the traces that it called, so that stripes share no reference count.
    own: Striped<Mutex<Traces<Shape<F, S>>>>,
    folds: Folds,
    bound: Bound,
    /// Signatures whose results have gradients by what is outside of the function, and that cannot be replayed: it is
    /// simply called.
    called: Mutex<FxHashSet<u64>>,
    signature: PhantomData<fn(S)>,
}

impl<F: JitFn<S>, S> fmt::Debug for Jit<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jit")
            .field("traces", &self.traces.lock().len())
            .finish_non_exhaustive()
    }
}

/// Compiles a function of tensors.
///
/// At the first call with arguments of a signature, the function runs once to record what it does; later calls replay
/// the compiled plan without running it. The signature is the argument's structure, dtypes, devices, sizes and layouts,
/// and the values of numbers. A function that never asks for sizes is not run again for other sizes.
///
/// Tensors that the function captures are constants, and what it computes of them alone is computed once where that
/// takes no more memory than eager mode does; see [`freeze`](Jit::freeze). The matrices of `f32` products on the CPU are copied once, in the
/// order in which kernels read them: while the captured tensors take no more than a quarter of the memory that the system has left
/// when the function is traced, up to as many bytes as they have, else as far as a call then needs no more memory than in eager mode,
/// which `FERROTRACE_PACK=0` asks for. A product by such a copy adds up its terms in another order than eager mode does, so that last
/// digits may depend on the memory that is left, but for [`Precision::EagerExact`](crate::Precision), where nothing is copied. **Captured numbers and interior state are frozen** at what they
/// were while it was traced. A function that reads a tensor computed from its argument runs at each call, which
/// `stats().traces` counts; one that returns an error, or a tensor that carries one, leaves no trace behind.
/// Threads that the function starts record what they compute of its arguments as its own thread does. An argument, or
/// what is computed from one, that outlives the function without being returned carries an error.
/// Tensors taken by value are given away: where nobody else holds their buffer, results may be written over them.
/// Random operations draw anew at each call. In eager mode, inside of another traced function and of a [`checkpoint`](crate::checkpoint),
/// the function is simply called.
///
/// Where an argument or a captured tensor [requires a gradient](Tensor::requires_grad), so do the results: a call replays one
/// plan, and the backward pass through it another, of what the call saved. What both computes cheaply of saved values is
/// computed again. Such a trace holds for the sizes of its arguments alone.
///
/// A function of several arguments takes one tuple of them:
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// let x = Tensor::ones(2, DType::F32, &Device::cpu());
/// let f = jit(|(x, w, scale): (&Tensor, &Tensor, f64)| x * w * scale);
/// assert_eq!(f.call((&x, &x, 3.0)).to_vec::<f32>()?, [3.0, 3.0]);
/// # Ok::<(), Error>(())
/// ```
///
/// ```compile_fail
/// # use ferrotrace_tracer::prelude::*;
/// jit(|x: &Tensor, w: &Tensor| x * w); // an error that says so
/// ```
pub fn jit<F, S>(function: F) -> Jit<F, S>
where
    F: JitFn<S> + Send + Sync + 'static,
{
    Jit {
        function,
        traces: Mutex::new(Traces::default()),
        own: Striped::new(),
        folds: Folds::default(),
        bound: Bound::Eager,
        called: Mutex::default(),
        signature: PhantomData,
    }
}

/// What there is to a result beside its tensors.
type Form<F, S> = <<F as JitFn<S>>::Output as JitResult>::Form;

/// What a result is, and the gradient of a call, if it has one.
type Shape<F, S> = (Form<F, S>, Option<Arc<Joint>>);

/// A trace and what its result is.
type Known<F, S> = (Arc<Replay>, Shape<F, S>);

/// What a run of the function to record it came to.
enum Traced<R: JitResult> {
    /// A trace to replay, what its result is, and what its gradient is if one can be asked of the result by an argument or a
    /// captured tensor.
    Replay(Replay, (R::Form, Option<Arc<Joint>>)),
    /// The result, which cannot be replayed.
    Result(R),
    /// A gradient can be asked of the result, and it cannot be replayed.
    Call,
}

impl<F: JitFn<S>, S> Jit<F, S> {
    /// Makes the function keep all that it computes from the tensors it captured alone, at the cost of memory.
    ///
    /// Without it, such values (weights transposed, cast, joined or scaled) are computed once and kept only as far as a
    /// call then needs no more memory than in eager mode, which holds them for a part of the call: those of one layer, or
    /// of many beside large intermediate values. With it all are kept that are no larger than the tensors that they are computed of, and all together
    /// take at most as much memory as these. So are copies of captured tensors, and of such values, in the order in which kernels read them,
    /// however little memory is left: the weights of `f32` products on the CPU, in panels of columns. The memory goes with the function.
    ///
    /// Generated values (`full`, `arange`, `eye`), random ones, expansions, and cheap functions of one element that the
    /// kernel which reads them computes anyway are not kept, nor is what a number among the arguments has a part in;
    /// results are computed at each call.
    /// [`Explanation::folded`](crate::Explanation::folded) of a result says what is kept.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let w = Tensor::ones([3, 2], DType::F32, &Device::cpu());
    /// let f = jit(move |x: &Tensor| x.matmul(&w.t().contiguous())).freeze();
    /// let y = f.call(&Tensor::ones([1, 2], DType::F32, &Device::cpu()));
    /// assert_eq!(y.to_vec::<f32>()?, [2.0; 3]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn freeze(mut self) -> Self {
        self.bound = Bound::Constants;
        self
    }

    /// Calls the function: replays it, or runs it to record it if the signature is new.
    #[track_caller]
    pub fn call(&self, argument: <F::Kind as ArgKind>::Of<'_>) -> F::Output {
        let mode = mode::current();
        // A checkpoint computes again what it holds, operation by operation.
        if mode == Mode::Eager || trace::current() != 0 || mode::keeps_all() {
            return self.function.run(argument);
        }
        let mut parts = Parts::default();
        match parts.fill(&argument) {
            Filled::Data => {}
            // An argument carries an error, and so will the result.
            Filled::Failed => return self.function.run(argument),
            // A thread of a function that is being recorded.
            Filled::Traced(tensor) => {
                let _trace = trace::follow(tensor.node());
                return self.function.run(argument);
            }
        }
        let probe = Probe::new(
            &parts.values,
            &parts.arrays,
            (mode::precision(), mode::keeps_history()),
        );
        if self.called.lock().contains(&probe.hash()) {
            return self.function.run(argument);
        }
        if let Some((replay, form)) = self.known(&probe) {
            if !Config::get().check {
                let drawn = replay.draw();
                return replayed::<F, S>(argument, &mut parts, &replay, &form, &drawn, mode);
            }
            // The run that checks draws as the replay would.
            return match self.trace(&argument, &parts) {
                Traced::Replay(again, _) if again.same(replay.traced()) => {
                    let drawn = again.traced_draws();
                    replayed::<F, S>(argument, &mut parts, &replay, &form, &drawn, mode)
                }
                _ => differs(&replay, &form.0),
            };
        }
        let generic = self.traces.lock().generic(&probe);
        let resized = generic.and_then(|(replay, form)| {
            let resized = Arc::new(replay.resized(&parts.arrays).ok()?);
            let drawn = resized.draw();
            Some((resized, form, drawn))
        });
        let (replay, form, drawn) = match resized {
            Some(resized) => resized,
            None => match self.trace(&argument, &parts) {
                Traced::Replay(replay, form) => {
                    let drawn = replay.traced_draws();
                    let folded = self.folds.fold(replay, self.bound, probe.has_numbers());
                    (Arc::new(folded), form, drawn)
                }
                Traced::Result(result) => return result,
                Traced::Call => {
                    self.called.lock().insert(probe.hash());
                    return self.function.run(argument);
                }
            },
        };
        self.traces.lock().insert(&probe, &replay, &form);
        let replay = self.own_of(&probe, &replay, &form);
        replayed::<F, S>(argument, &mut parts, &replay, &form, &drawn, mode)
    }

    /// The trace of exactly this signature, for this thread.
    fn known(&self, probe: &Probe<'_>) -> Option<Known<F, S>> {
        let own = self.own.own().lock().exact(probe);
        own.or_else(|| {
            let (replay, form) = self.traces.lock().exact(probe)?;
            Some((self.own_of(probe, &replay, &form), form))
        })
    }

    /// A trace of the function for the threads of this stripe alone.
    fn own_of(&self, probe: &Probe<'_>, replay: &Replay, form: &Shape<F, S>) -> Arc<Replay> {
        let own = Arc::new(replay.apart());
        self.own.own().lock().insert(probe, &own, form);
        own
    }

    /// Runs the function on stand-ins for the tensors of `argument`. Where one is misused, errors tell the line of the call.
    #[track_caller]
    fn trace(&self, argument: &<F::Kind as ArgKind>::Of<'_>, parts: &Parts) -> Traced<F::Output> {
        count(Counter::Traces, 1);
        let recording = Recording::start();
        let (id, location) = (recording.id(), Location::caller());
        let stand_in = |(number, array): (usize, &Array)| {
            let mut facts = Facts::of_data(array, location);
            facts.trace = id;
            (facts.place, facts.is_argument) = (number as u32, true);
            facts.traced = true;
            Tensor::of_fresh(Node::stored(facts, array.clone()))
        };
        let found = Visit::of(argument).tensors;
        let leaf = |(number, array): (usize, &Array)| {
            let leaf = stand_in((number, array));
            let of = &found[parts.places.first(number)].tensor;
            match of.has_grad() {
                // A leaf of outside of the trace.
                true => leaf.with_history(Some(History::leaf(0))),
                false => leaf,
            }
        };
        let leaves: Vec<Tensor> = parts.arrays.iter().enumerate().map(leaf).collect();
        let tensors = parts.places.spread(leaves.clone());
        let kept = parts.places.for_borrows();
        // All operands are kept: each operation can be recorded again, should its gradient be differentiated.
        let result = recording.run(|| {
            let argument = F::Kind::lend(argument, &mut Lender::new(&tensors, &kept));
            mode::keeping_all(|| self.function.run(argument))
        });
        let mut results = Vec::new();
        let form = result.flatten(&mut results);
        // What it was lent is lent once more, to see which buffers it wrote.
        let lend = || F::Kind::lend(argument, &mut Lender::new(&tensors, &kept));
        let (written, values) = written(&lend(), &tensors);
        let write = || {
            for (&place, value) in written.iter().zip(&values) {
                found[place]
                    .buffer
                    .iter()
                    .for_each(|b| b.cell().set(value.clone()));
            }
        };
        let Some(form) = form else {
            write();
            return Traced::Result(result);
        };
        results.extend(values.iter().cloned());
        // A result that depends on what requires a gradient through integers alone says so to whoever differentiates it.
        let outside = |tensor: &Tensor| {
            let history = tensor.history();
            history.is_some_and(|h| !h.is_live() || leaves_trace(h, id))
        };
        let is_argument = |tensor: &Tensor| leaves.iter().any(|leaf| leaf.is_same(tensor));
        let differentiable = leaves.iter().any(Tensor::has_grad) && results.iter().any(is_argument)
            || results.iter().any(outside);
        // What the function reads it may decide by, also on another thread; nothing is read from here on.
        let replay = match (recording.read_values(), differentiable) {
            (true, _) => None,
            (false, false) => Recorded::new(&results, &recording)
                .map(|(recorded, _)| (Replay::of(recorded), None)),
            (false, true) => Joint::trace(&results, &leaves, &recording)
                .map(|(replay, joint)| (replay, Some(Arc::new(joint)))),
        };
        match replay.filter(|_| recording.close()) {
            Some((mut replay, joint)) => {
                replay.written = written.into();
                drop((result, results, values, kept, leaves));
                trace::expire(tensors.iter().map(Tensor::node));
                Traced::Replay(replay, (form, joint))
            }
            None if differentiable => Traced::Call,
            None => {
                write();
                Traced::Result(result)
            }
        }
    }
}

/// The places of buffers behind references that a function wrote to another value than that of their stand-in, and these
/// values.
fn written<A: JitArg>(argument: &A, stand_ins: &[Tensor]) -> (Vec<usize>, Vec<Tensor>) {
    let found = Visit::of(argument).tensors.into_iter().enumerate();
    let lent = found.filter(|(_, found)| found.buffer.is_some() && !found.given);
    lent.filter(|(place, found)| !found.tensor.is_same(&stand_ins[*place]))
        .map(|(place, found)| (place, found.tensor.into_owned()))
        .unzip()
}

/// Runs a trace on an argument whose tensors have these data.
#[track_caller]
fn replayed<F: JitFn<S>, S>(
    argument: <F::Kind as ArgKind>::Of<'_>,
    parts: &mut Parts,
    replay: &Replay,
    (form, joint): &Shape<F, S>,
    drawn: &Draws,
    mode: Mode,
) -> F::Output {
    let (mut passed, mut cells, mut call) = (Tensors::new(), Vec::new(), None);
    if replay.passed_through().next().is_some() || !replay.written.is_empty() || joint.is_some() {
        let found = Visit::of(&argument).tensors;
        let history = |leaf| found[parts.places.first(leaf)].tensor.history().cloned();
        let joint = joint.as_ref();
        call = joint.map(|joint| Call::new(joint, &parts.arrays, history));
        let leaves = replay.passed_through();
        passed.extend(leaves.map(|leaf| found[parts.places.first(leaf)].tensor.as_ref().clone()));
        let buffers = replay
            .written
            .iter()
            .filter_map(|&place| found[place].buffer);
        cells.extend(buffers.map(Buffer::cell));
    }
    // Tensors given away go, so that `parts` alone hold their buffers.
    drop(argument);
    let mut tensors = replay.run(&mut parts.arrays, &parts.given, passed, drawn, mode);
    if let Some(call) = call {
        tensors = call.results(tensors, drawn, mode).into();
    }
    let mut tensors = tensors.into_iter();
    let result = F::Output::unflatten(form, &mut tensors);
    cells
        .iter()
        .zip(tensors)
        .for_each(|(cell, value)| cell.set(value));
    result
}

/// The result of a function that does not record what it recorded for the same signature before
/// (`FERROTRACE_CHECK=1`).
#[cold]
#[track_caller]
fn differs<R: JitResult>(replay: &Replay, form: &R::Form) -> R {
    let location = Location::caller();
    let error = Error::argument(
        "a function given to jit recorded something else for the same signature before",
    );
    let error = error.at(Context {
        op: "jit",
        operands: Vec::new(),
        location: Some(location),
    });
    let failed = || Tensor::of_error(error.clone(), DType::F32, &Device::cpu(), location);
    R::unflatten(
        form,
        &mut std::iter::repeat_with(failed).take(replay.results()),
    )
}
