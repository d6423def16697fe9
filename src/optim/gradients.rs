//! Norms, limits and sums of gradients.

use crate::{DType, Result, Tensor, TensorStruct};
use std::collections::BTreeSet;

/// The 2-norm of all floating-point tensors of a struct as one vector: 0-d, in F32, or in F64 where one of them is.
///
/// ```
/// use ferrotrace::optim::global_norm;
/// use ferrotrace::prelude::*;
///
/// let gradients = [3.0, 4.0].map(|g| Tensor::full(1, g, DType::F32, &Device::cpu()));
/// assert_eq!(global_norm(&gradients).item::<f32>()?, 5.0);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn global_norm<M: TensorStruct>(gradients: &M) -> Tensor {
    let mut all = Vec::new();
    gradients.for_each(|_, gradient| {
        if gradient.dtype().is_float() {
            all.push(gradient.clone());
        }
    });
    norm(all.iter())
}

#[track_caller]
fn norm<'a>(gradients: impl Iterator<Item = &'a Tensor>) -> Tensor {
    let square = |g: &Tensor| g.to_dtype(g.dtype().compute()).square().sum(..);
    let squares: Vec<Tensor> = gradients.map(square).collect();
    match squares.is_empty() {
        true => Tensor::zeros((), DType::F32, &crate::Device::cpu()),
        false => Tensor::stack(&squares, 0).sum(..).sqrt(),
    }
}

/// The factor, at most 1, that brings gradients to a norm of at most `most`.
#[track_caller]
pub(super) fn norm_factor<'a>(gradients: impl Iterator<Item = &'a Tensor>, most: f64) -> Tensor {
    factor_of(&norm(gradients), most)
}

/// PyTorch's factor: the small number keeps a norm of 0 from dividing.
#[track_caller]
fn factor_of(norm: &Tensor, most: f64) -> Tensor {
    (most / (norm + 1e-6)).clamp_max(1.0)
}

/// A gradient times a 0-d factor, in the gradient's dtype.
#[track_caller]
pub(super) fn clipped(gradient: &Tensor, factor: &Tensor) -> Tensor {
    (gradient * factor).to_dtype(gradient.dtype())
}

/// Scales gradients down to a norm of `most`, taken over all of them, if it is greater; the norm they had.
///
/// ```
/// use ferrotrace::optim::clip_norm;
/// use ferrotrace::prelude::*;
///
/// let mut gradients = [3.0, 4.0].map(|g| Tensor::full(1, g, DType::F64, &Device::cpu()));
/// assert_eq!(clip_norm(&mut gradients, 1.0).item::<f64>()?, 5.0);
/// assert!((gradients[1].item::<f64>()? - 0.8).abs() < 1e-6);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn clip_norm<M: TensorStruct>(gradients: &mut M, most: f64) -> Tensor {
    let norm = global_norm(gradients);
    let factor = factor_of(&norm, most);
    gradients.for_each_mut(|_, gradient| {
        if gradient.dtype().is_float() {
            *gradient = clipped(gradient, &factor);
        }
    });
    norm
}

/// Limits every element of floating-point gradients to ±`most`.
#[track_caller]
pub fn clip_value<M: TensorStruct>(gradients: &mut M, most: f64) {
    gradients.for_each_mut(|_, gradient| {
        if gradient.dtype().is_float() {
            *gradient = gradient.clamp(-most, most);
        }
    });
}

/// Adds `part` of the gradients of a micro-batch to a total. With `part` = 1 / n and n micro-batches of one size, the
/// total is the gradient of the mean loss over all of them.
///
/// ```
/// use ferrotrace::optim::add_gradients;
/// use ferrotrace::prelude::*;
/// use ferrotrace::TensorStruct;
///
/// let batches = [1.0, 3.0].map(|g| [Tensor::full(1, g, DType::F32, &Device::cpu())]);
/// let mut total = TensorStruct::map(&batches[0], |_, g| g.zeros_like());
/// for gradients in &batches {
///     add_gradients(&mut total, gradients, 0.5)?;
/// }
/// assert_eq!(total[0].item::<f32>()?, 2.0);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// The two have different structures.
#[track_caller]
pub fn add_gradients<M: TensorStruct>(total: &mut M, gradients: &M, part: f64) -> Result<()> {
    total.zip_mut(gradients, |_, total, gradient| {
        if total.dtype().is_float() {
            *total = (&*total + gradient * part).to_dtype(total.dtype());
        }
    })
}

/// A model whose parameters require a gradient, for [`Tensor::backward`]; [`value_and_grad`](crate::value_and_grad) needs
/// none.
///
/// ```
/// use ferrotrace::optim::{Sgd, gradients_of, require_gradients, zero_grad};
/// use ferrotrace::prelude::*;
///
/// let w = [Tensor::full(2, 3.0, DType::F32, &Device::cpu())];
/// let mut model = require_gradients(&w);
/// let mut opt = Sgd::new(&model, 0.5);
/// for _ in 0..2 {
///     zero_grad(&model);
///     (&model[0] * &model[0]).sum(..).backward();
///     let gradients = gradients_of(&model);
///     opt.step(&mut model, &gradients);
/// }
/// assert_eq!(model[0].to_vec::<f32>()?, [0.0, 0.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn require_gradients<M: TensorStruct>(model: &M) -> M {
    let names: BTreeSet<String> = model
        .parameters()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    model.map(|name, tensor| match names.contains(name) {
        true => tensor.requires_grad(),
        false => tensor.clone(),
    })
}

/// The gradients that [`Tensor::backward`] found for a model's leaves, in the model's structure; zeros where it found none.
#[track_caller]
pub fn gradients_of<M: TensorStruct>(model: &M) -> M {
    model.map(|_, tensor| tensor.grad())
}

/// Forgets the gradients that [`Tensor::backward`] found for a model's leaves.
pub fn zero_grad<M: TensorStruct>(model: &M) {
    model.for_each(|_, tensor| tensor.zero_grad());
}

/// Whether all elements are finite: a 0-d `Bool` tensor.
#[track_caller]
pub(super) fn finite<'a>(gradients: impl Iterator<Item = &'a Tensor>) -> Tensor {
    let all: Vec<Tensor> = gradients.map(|g| g.isfinite().all(..)).collect();
    match all.is_empty() {
        true => Tensor::ones((), DType::Bool, &crate::Device::cpu()),
        false => Tensor::stack(&all, 0).all(..),
    }
}
