//! Reverse-mode differentiation: gradients are more trace.
//!
//! Operations on tensors that [require a gradient](Tensor::requires_grad) keep what their gradient rules need
//! (`history/`). A gradient is found by going through these histories backwards (`sweep.rs`); each operator's rule
//! (`Operator::vjp` in `kernels`, applied in `pull.rs`) records further operations through a builder (`builder.rs`). Nothing runs: forward,
//! backward and update are flushed, fused and planned together.

mod apart;
mod builder;
mod checkpoint;
mod custom;
pub(crate) mod flow;
mod inner;
mod inputs;
mod jacobian;
mod model;
mod products;
mod pull;
mod sweep;
mod windows;

pub use checkpoint::checkpoint;
pub use custom::custom_grad;
pub(crate) use inner::Inner;
pub use jacobian::{hessian, jacobian};
pub use model::value_and_grad;
pub use products::{jvp, vjp};
pub(crate) use sweep::{gradients as gradients_of, gradients_within};

use crate::args::{TensorLike, borrowed};
use crate::history::{History, Source};
use crate::{Tensor, mode, place, trace};
use ferrotrace_kernels::Op;
use ferrotrace_kernels::op::Full;
use ferrotrace_runtime::{Error, Result, Scalar};
use std::panic::Location;
use std::sync::Arc;

/// The gradients of a loss of one element: for each of `tensors`, the derivative of `loss` by each of its elements.
///
/// Gradients are tensors that can be differentiated again. A tensor that the loss does not depend on has a gradient of
/// zeros. What is differentiated keeps its history as long as a tensor is held that a gradient could be asked by: loops that
/// replace their parameters, `w = &w - gradient * 0.1`, keep that of one step. A program that holds both its losses and what
/// they were all computed from keeps [detached](Tensor::detach) losses, or uses [`backward`](Tensor::backward), which ends
/// their history.
///
/// What is computed of a gradient is part of the trace too. In a Newton loop, or wherever a direction that is computed of a
/// gradient is added to the variables whose gradient is taken again, the direction is differentiated as well, unless it is
/// [detached](Tensor::detach):
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// # let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu()).requires_grad();
/// let direction = grad(&x.square().sum(..), &[&x]).remove(0) * -0.25;
/// let next = grad(&(&x + direction.detach()).square().sum(..), &[&x]).remove(0);
/// # assert_eq!(next.to_vec::<f64>()?, [1.0, 2.0]);
/// # Ok::<(), Error>(())
/// ```
///
/// The gradients carry an error if the loss has more than one element or is no float, if it depends on the tensors through
/// integers alone, or if one of `tensors` is no float.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu()).requires_grad();
/// let loss = (&x * &x * &x).sum(..);
/// let first = grad(&loss, [&x]).remove(0);
/// let second = grad(&first.sum(..), [&x]).remove(0);
/// assert_eq!(first.to_vec::<f64>()?, [3.0, 12.0]);
/// assert_eq!(second.to_vec::<f64>()?, [6.0, 12.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn grad<T: TensorLike>(loss: &Tensor, tensors: impl AsRef<[T]>) -> Vec<Tensor> {
    let tensors = borrowed(tensors.as_ref());
    let location = Location::caller();
    let seed = check(loss).map(|()| like(loss, 1.0, location));
    match seed.and_then(|seed| sweep::gradients(vec![(loss.clone(), seed)], &tensors, location)) {
        Ok(gradients) => gradients,
        Err(error) => {
            let error = at(error, "grad", &[loss], location);
            let failed =
                |of: &&Tensor| Tensor::of_error(error.clone(), of.dtype(), &of.device(), location);
            tensors.iter().map(failed).collect()
        }
    }
}

/// Runs `f` with operations that keep nothing for a gradient: their results are constants to it.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// let w = Tensor::from_slice(&[3.0], 1, &Device::cpu()).requires_grad();
/// let constant = no_grad(|| w.square());
/// let gradient = grad(&(&w * constant).sum(..), &[&w]).remove(0);
/// assert_eq!(gradient.to_scalar::<f64>()?, 9.0);
/// # Ok::<(), Error>(())
/// ```
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    mode::with_history(false, f)
}

impl Tensor {
    /// The same values, of which gradients can be asked: [`grad`], [`backward`](Tensor::backward). It is a leaf: what the
    /// tensor itself was computed from has no gradient through it.
    ///
    /// An error for integers and truth values.
    #[track_caller]
    pub fn requires_grad(&self) -> Tensor {
        if self.node().error().is_some() {
            return self.clone();
        }
        if !self.dtype().is_float() {
            let why = format!(
                "a tensor of {} has no gradient: it needs floats",
                self.dtype()
            );
            return Tensor::failed("requires_grad", Error::dtype(why), &[self]);
        }
        self.carry_leaf();
        self.with_history(Some(History::leaf(trace::current())))
    }

    /// Whether a gradient can be asked of it, or of what it was computed from.
    pub fn has_grad(&self) -> bool {
        self.history().is_some_and(|history| history.is_live())
    }

    /// The same values, cut off from what they were computed from: a constant to gradients.
    pub fn detach(&self) -> Tensor {
        self.with_history(None)
    }

    /// Adds the gradients of this loss of one element to those of the leaves that it was computed from, to be read by
    /// [`grad`](Tensor::grad), and ends its history: it cannot be differentiated again.
    ///
    /// What is wrong with the loss is an error of the leaves' gradients; [`try_backward`](Tensor::try_backward) returns it.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let w = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu()).requires_grad();
    /// w.square().sum(..).backward();
    /// assert_eq!(w.grad().to_vec::<f64>()?, [2.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn backward(&self) {
        let location = Location::caller();
        if let Err(error) = self.try_backward() {
            let error = at(error, "backward", &[self], location);
            sweep::fail_leaves(self, &error, location);
        }
    }

    /// [`backward`](Tensor::backward), with what is wrong with the loss as a result.
    ///
    /// # Errors
    /// The loss has more than one element, is no float, carries an error, depends on no leaf (but perhaps through integers),
    /// or its history has ended. Within a function given to [`jit`](crate::jit), a leaf was made outside of it: a replay
    /// would not add to its gradient.
    #[track_caller]
    pub fn try_backward(&self) -> Result<()> {
        let location = Location::caller();
        check(self)?;
        if !self.has_grad() {
            return Err(Error::argument(
                "it depends on no tensor that requires a gradient",
            ));
        }
        mode::with_history(false, || {
            sweep::backward(self, like(self, 1.0, location), location)
        })
    }

    /// The sum of the gradients that [`backward`](Tensor::backward) found for this leaf: zeros where there are none, or where
    /// the tensor requires no gradient. An error of a tensor that was computed from leaves: ask [`grad`] for its gradient.
    #[track_caller]
    pub fn grad(&self) -> Tensor {
        let location = Location::caller();
        match self.history().map(|history| &history.source) {
            Some(Source::Leaf(sum)) => match &*sum.lock() {
                Some(sum) => Tensor::of_handle(sum.clone()),
                None => like(self, 0.0, location),
            },
            Some(Source::Operation(_)) => {
                let why = "it is no leaf: leaves alone keep gradients; `grad(&loss, &[&x])` gives that of any tensor";
                Tensor::failed("grad", Error::argument(why), &[self])
            }
            _ => like(self, 0.0, location),
        }
    }

    /// Forgets the gradients that [`backward`](Tensor::backward) found for this leaf.
    pub fn zero_grad(&self) {
        if let Some(Source::Leaf(sum)) = self.history().map(|history| &history.source) {
            let before = sum.lock().take();
            drop(before);
        }
    }
}

/// Whether a tensor can be differentiated.
fn check(loss: &Tensor) -> Result<()> {
    if let Some(error) = loss.node().error() {
        return Err(error);
    }
    trace::observe_sizes(loss.node());
    let shape = loss.sizes();
    if shape.numel() != 1 {
        return Err(Error::shape(format!(
            "the gradient of a tensor of shape {shape}: a loss has one element, such as its sum or mean"
        )));
    }
    if let Some(Source::Integers { op, location }) = loss.history().map(|history| &history.source) {
        return Err(Error::argument(format!(
            "it depends on what requires a gradient through the integers that {op} gives at {location}"
        )));
    }
    if !loss.dtype().is_float() {
        return Err(Error::dtype(format!(
            "{} has no gradient: it needs floats",
            loss.dtype()
        )));
    }
    Ok(())
}

/// One number everywhere, as `of` is.
fn like(of: &Tensor, number: f64, location: &'static Location<'static>) -> Tensor {
    if of.node().error().is_some() {
        return of.detach();
    }
    trace::observe_sizes(of.node());
    let full = Op::from(Full {
        shape: of.sizes().clone(),
        dtype: of.dtype(),
    });
    let number = crate::Input::Scalar(Scalar::Float(number));
    crate::record::record(Some(&of.device()), full, None, &[number], location)
}

fn at(
    error: Error,
    op: &'static str,
    operands: &[&Tensor],
    location: &'static Location<'static>,
) -> Error {
    let operands = operands
        .iter()
        .map(|t| (t.sizes().clone(), t.dtype()))
        .collect();
    error.at(place::context(op, operands, location))
}

/// Whether a history that is traced reaches a leaf that was made outside of the trace.
pub(crate) fn leaves_trace(history: &Arc<History>, trace: u64) -> bool {
    sweep::reachable([history], 0)
        .iter()
        .any(|history| history.is_first() && history.trace != trace)
}
