//! Gradients of a loss of a model, in the model's structure.

use super::grad;
use super::inputs::Inputs;
use crate::structs::TensorStruct;
use crate::{Tensor, mode};
use std::panic::Location;

/// A loss of a model and its gradients by the model's [parameters](TensorStruct::parameters): a struct of the model's
/// structure, with zeros for its other tensors.
///
/// `loss` is given a model of the same values whose parameters require a gradient; only what it computes from that model
/// counts. What it writes to [buffers](crate::Buffer) of that model is written to those of `model`. Loss and gradients come
/// back [detached](Tensor::detach), unless the loss was computed from a tensor that required a gradient before: then they
/// can be differentiated again.
///
/// An invalid loss, of several elements for instance, is an error of all gradients.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// # use ferrotrace_tracer as ferrotrace;
/// use ferrotrace::value_and_grad;
///
/// let of = |v: f64| Tensor::scalar(v, DType::F32, &Device::cpu());
/// let model = [of(3.0), of(4.0)];
/// let (loss, gradients) = value_and_grad(&model, |[a, b]| a * a * b);
/// assert_eq!(loss.item::<f32>()?, 36.0);
/// assert_eq!([gradients[0].item::<f32>()?, gradients[1].item::<f32>()?], [24.0, 9.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn value_and_grad<M: TensorStruct>(model: &M, loss: impl FnOnce(&M) -> Tensor) -> (Tensor, M) {
    let location = Location::caller();
    let inputs = mode::with_history(true, || Inputs::of(model, location));
    let mut loss = mode::with_history(true, || loss(&inputs.x));
    if let Err(error) = mode::with_history(false, || inputs.x.copy_buffers(model)) {
        loss = Tensor::failed("value_and_grad", error, &[&loss]);
    }
    // What is not differentiated again needs no history of its own.
    let again = inputs.reaches_beyond(std::slice::from_ref(&loss));
    let found = mode::with_history(again, || grad(&loss, &inputs.required));
    let gradients = inputs.filled(model, Ok(found), location);
    (if again { loss } else { loss.detach() }, gradients)
}
