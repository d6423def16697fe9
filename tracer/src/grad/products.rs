//! Products with the Jacobian matrix of a function of tensors, from both sides.

use super::inputs::Inputs;
use super::{at, like, sweep};
use crate::structs::{TensorStruct, Visit};
use crate::{Tensor, mode, trace};
use ferrotrace_runtime::{Error, Result};
use std::panic::Location;

/// The value of `f` at `x`, and the product of `vector` with the Jacobian matrix of `f` there (reverse mode): for each
/// [parameter](TensorStruct::parameters) of `x` the gradient of the sum of `f(x) * vector`, in the structure of `x`.
///
/// `x`, the value and `vector` are tensors, or tuples, vectors or structs of them; `vector` has the structure and shapes of
/// the value. Tensors of integers and [buffers](crate::Buffer) of `x` have products of zeros of their dtype; integers of the
/// value have no part in it. Only what `f` computes from its argument counts, not what it captures.
///
/// Value and products come back [detached](Tensor::detach), unless `vector` requires a gradient or the value was computed
/// from a tensor that did so before: then they can be differentiated again.
///
/// The products carry an error if `vector` has another structure or shape, or if no tensor of the value is a float.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// use ferrotrace_tracer::vjp;
///
/// let of = |values: &[f64]| Tensor::from_slice(values, values.len(), &Device::cpu());
/// let (y, product) = vjp(|x: &Tensor| x.square(), &of(&[2.0, 3.0]), &of(&[1.0, 10.0]));
/// assert_eq!(y.to_vec::<f64>()?, [4.0, 9.0]);
/// assert_eq!(product.to_vec::<f64>()?, [4.0, 60.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn vjp<X: TensorStruct, Y: TensorStruct>(f: impl FnOnce(&X) -> Y, x: &X, vector: &Y) -> (Y, X) {
    let location = Location::caller();
    let (inputs, value) = applied(f, x, location);
    let again = inputs.reaches_beyond(&[value.tensors(), vector.tensors()].concat());
    let pull = || sweep::gradients(seeds(&value, vector, None)?, &inputs.required, location);
    let products =
        mode::with_history(again, pull).map_err(|error| named(error, "vjp", &value, location));
    let products = inputs.filled(x, products, location);
    (if again { value } else { detached(&value) }, products)
}

/// The value of `f` at `x`, and the product of the Jacobian matrix of `f` there with `direction` (forward mode): how fast the
/// value changes where `x` moves along `direction`.
///
/// `x`, `direction` and the value are tensors, or tuples, vectors or structs of them; `direction` has the structure and
/// shapes of `x`, of which its [parameters](TensorStruct::parameters) count. The product has the value's structure, shapes
/// and dtypes, with zeros for integers.
///
/// The product is linear in `direction` as that of [`vjp`] is in its vector, and is found as the transpose of the latter, by
/// differentiating it once more: it exists wherever an operator's gradient can be differentiated. What was recorded for the
/// first gradient is not computed when compiled, and computed in eager mode.
///
/// What `f` captures, and when value and product can be differentiated again, is as in [`vjp`].
///
/// The product carries an error if `direction` has another structure or shape, or if no tensor of the value is a float.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// use ferrotrace_tracer::jvp;
///
/// let of = |values: &[f64]| Tensor::from_slice(values, values.len(), &Device::cpu());
/// let (y, product) = jvp(|x: &Tensor| x.square().sum(..), &of(&[2.0, 3.0]), &of(&[1.0, 10.0]));
/// assert_eq!((y.item::<f64>()?, product.item::<f64>()?), (13.0, 64.0));
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn jvp<X: TensorStruct, Y: TensorStruct>(
    f: impl FnOnce(&X) -> Y,
    x: &X,
    direction: &X,
) -> (Y, Y) {
    let location = Location::caller();
    let (inputs, value) = applied(f, x, location);
    let again = inputs.reaches_beyond(&[value.tensors(), direction.tensors()].concat());
    let product = pushed(&inputs, x, &value, direction, again, location);
    let product = product.unwrap_or_else(|error| {
        let error = named(error, "jvp", &value, location);
        value.map(|_, y| Tensor::of_error(error.clone(), y.dtype(), &y.device(), location))
    });
    (if again { value } else { detached(&value) }, product)
}

/// `f` of an argument whose parameters require a gradient of their own.
pub(super) fn applied<X: TensorStruct, Y: TensorStruct>(
    f: impl FnOnce(&X) -> Y,
    x: &X,
    location: &'static Location<'static>,
) -> (Inputs<X>, Y) {
    let inputs = mode::with_history(true, || Inputs::of(x, location));
    let value = mode::with_history(true, || f(&inputs.x));
    match mode::with_history(false, || inputs.x.copy_buffers(x)) {
        Ok(()) => (inputs, value),
        Err(error) => {
            let failed = |y: &Tensor| Tensor::failed("vjp", error.clone(), &[y]);
            let value = value.map(|_, y| failed(y));
            (inputs, value)
        }
    }
}

/// The product with `direction`: the gradient by `vector` of the product of `vector` with the Jacobian matrix.
fn pushed<X: TensorStruct, Y: TensorStruct>(
    inputs: &Inputs<X>,
    x: &X,
    value: &Y,
    direction: &X,
    again: bool,
    location: &'static Location<'static>,
) -> Result<Y> {
    let mut vectors = Vec::new();
    let vector = value.map(|_, y| {
        let zeros = like(y, 0.0, location);
        if !y.dtype().is_float() {
            return zeros;
        }
        vectors.push(zeros.requires_grad());
        vectors[vectors.len() - 1].clone()
    });
    // A tensor that stands in several places is one variable.
    let pull = || {
        let firsts = Visit::of(value).ties();
        let seeds = seeds(value, &vector, firsts.as_deref())?;
        sweep::gradients(seeds, &inputs.required, location)
    };
    let products = inputs.filled(x, mode::with_history(true, pull), location);
    let firsts = Visit::of(x).ties();
    let seeds = pairs(&products, direction, firsts.as_deref())?;
    let push = || sweep::gradients(seeds, &vectors, location);
    let mut found = mode::with_history(again, push)?.into_iter();
    Ok(vector.map(|_, y| match y.dtype().is_float() {
        true => found.next().unwrap_or_else(|| y.detach()),
        false => y.clone(),
    }))
}

/// The tensors of a value with their gradients, as [`pairs`] takes them.
fn seeds<Y: TensorStruct>(
    value: &Y,
    vector: &Y,
    firsts: Option<&[u32]>,
) -> Result<Vec<(Tensor, Tensor)>> {
    let seeds = pairs(value, vector, firsts)?;
    if seeds.is_empty() {
        let why = "no tensor of the value has a gradient: it needs floats";
        return Err(Error::dtype(why));
    }
    Ok(seeds)
}

/// The floating-point tensors of `of`, and what stands in their places in `other`, of their dtype. Of places whose first ones
/// are given, the first alone.
fn pairs<T: TensorStruct>(
    of: &T,
    other: &T,
    firsts: Option<&[u32]>,
) -> Result<Vec<(Tensor, Tensor)>> {
    if !of.same_structure(other) {
        let why = "a product of two structs of tensors that differ in structure";
        return Err(Error::argument(why));
    }
    let visit = Visit::of(of);
    let mut pairs = Vec::new();
    for (place, (one, other)) in visit.tensors.iter().zip(other.tensors()).enumerate() {
        let is_first = firsts.is_none_or(|firsts| firsts[place] as usize == place);
        if !one.tensor.dtype().is_float() || !is_first {
            continue;
        }
        one.tensor.check()?;
        other.check()?;
        trace::observe_sizes(one.tensor.node());
        trace::observe_sizes(other.node());
        let (want, have) = (one.tensor.sizes(), other.sizes());
        if want != have {
            let why = format!("a product of a tensor of shape {want} with one of {have}");
            return Err(Error::shape(why));
        }
        if !other.dtype().is_float() {
            let why = format!(
                "a product with a tensor of {}: it needs floats",
                other.dtype()
            );
            return Err(Error::dtype(why));
        }
        let other = other.to_dtype(one.tensor.dtype());
        pairs.push((one.tensor.as_ref().clone(), other));
    }
    Ok(pairs)
}

fn detached<Y: TensorStruct>(value: &Y) -> Y {
    value.map(|_, y| y.detach())
}

fn named<Y: TensorStruct>(
    error: Error,
    called: &'static str,
    value: &Y,
    location: &'static Location<'static>,
) -> Error {
    let tensors = value.tensors();
    at(error, called, &tensors.iter().collect::<Vec<_>>(), location)
}
