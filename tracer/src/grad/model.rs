//! Gradients of a loss of a model, in the model's structure.

use super::{grad, no_grad};
use crate::structs::TensorStruct;
use crate::{Tensor, mode};
use rustc_hash::FxHashMap;

/// A loss of a model and its gradients by the model's [parameters](TensorStruct::parameters): a struct of the model's
/// structure, with zeros for its other tensors.
///
/// `loss` is given a model of the same values whose parameters require a gradient. What it writes to
/// [buffers](crate::Buffer) of that model is written to those of `model`. Loss and gradients come back
/// [detached](Tensor::detach), unless a parameter required a gradient before: then they can be differentiated again.
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
    let parameters = model.parameters();
    let nested = mode::keeps_history() && parameters.iter().any(|(_, tensor)| tensor.has_grad());
    let required: Vec<Tensor> = parameters
        .iter()
        .map(|(_, tensor)| match tensor.has_grad() {
            true => tensor.clone(),
            false => tensor.requires_grad(),
        })
        .collect();
    let places = parameters.iter().enumerate();
    let places: FxHashMap<&str, usize> = places.map(|(i, (name, _))| (name.as_str(), i)).collect();
    let differentiated = model.map(|name, tensor| match places.get(name) {
        Some(&place) => required[place].clone(),
        None => tensor.clone(),
    });
    let mut loss = mode::with_history(true, || loss(&differentiated));
    if let Err(error) = no_grad(|| differentiated.copy_buffers(model)) {
        loss = Tensor::failed("value_and_grad", error, &[&loss]);
    }
    // What is not differentiated again needs no history of its own.
    let found = mode::with_history(nested, || grad(&loss, &required));
    let zeros = |tensor: &Tensor| tensor.zeros_like().detach();
    let gradients = model.map(|name, tensor| match places.get(name) {
        Some(&place) => found[place].clone(),
        None => zeros(tensor),
    });
    (if nested { loss } else { loss.detach() }, gradients)
}
