//! The matrices of all first and of all second derivatives.

use super::inputs::Inputs;
use super::products::applied;
use super::{at, grad, like, sweep};
use crate::{Tensor, mode, trace};
use ferrotrace_runtime::{DType, Error, Result, Shape};
use std::panic::Location;

/// The Jacobian of `f` at `x`: the derivative of each element of the value by each element of `x`, in the shape of the value
/// followed by that of `x`.
///
/// `f` is called once, and gone through backwards once for each element of its value: time and the size of the trace grow
/// with their number. Where the value has many elements and `x` few, products by [`jvp`](crate::jvp) are cheaper; where a
/// product with the matrix is wanted, [`vjp`](crate::vjp) and [`jvp`](crate::jvp) give it without the matrix. Only what `f`
/// computes from its argument counts, not what it captures. The result can be differentiated again if the value was computed
/// from a tensor that required a gradient before.
///
/// The result carries an error if `x` or the value is no float, or carries one.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// use ferrotrace_tracer::jacobian;
///
/// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
/// let slopes = jacobian(|x| Tensor::stack(&[x.prod(0), x.square().sum(0), x.at(0)], 0), &x);
/// assert_eq!(slopes.dims(), [3, 2]);
/// assert_eq!(slopes.to_vec::<f64>()?, [2.0, 1.0, 2.0, 4.0, 1.0, 0.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn jacobian(f: impl FnOnce(&Tensor) -> Tensor, x: &Tensor) -> Tensor {
    let location = Location::caller();
    let rows = rows(f, x, location);
    rows.unwrap_or_else(|error| failed(error, "jacobian", x, location))
}

/// The Hessian at `x` of a function whose value is one number: the second derivative by each two elements of `x`, in the shape
/// of `x` twice.
///
/// `f` is called once, and its gradient gone through backwards once for each element of `x`: time and the size of the trace
/// grow with their number. Products with the matrix are cheaper: differentiate the product of the gradient and a vector.
///
/// The result carries an error if the value has more than one element, if `x` or the value is no float, or carries one.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// use ferrotrace_tracer::hessian;
///
/// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
/// let curvature = hessian(|x| x.square().prod(0), &x);
/// assert_eq!(curvature.dims(), [2, 2]);
/// assert_eq!(curvature.to_vec::<f64>()?, [8.0, 8.0, 8.0, 2.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn hessian(f: impl FnOnce(&Tensor) -> Tensor, x: &Tensor) -> Tensor {
    let location = Location::caller();
    let gradient = |x: &Tensor| grad(&f(x), &[x]).remove(0);
    let rows = rows(gradient, x, location);
    rows.unwrap_or_else(|error| failed(error, "hessian", x, location))
}

/// The gradients of the elements of `f(x)`, one after another.
#[track_caller]
fn rows(
    f: impl FnOnce(&Tensor) -> Tensor,
    x: &Tensor,
    location: &'static Location<'static>,
) -> Result<Tensor> {
    let own = |x: &Tensor| match x.node().error() {
        Some(error) => Err(Error::new(error.kind().clone())),
        None => Ok(()),
    };
    own(x)?;
    if !x.dtype().is_float() {
        return Err(needs_floats(x));
    }
    let (inputs, value): (Inputs<Tensor>, Tensor) = applied(f, x, location);
    own(&value)?;
    if !value.dtype().is_float() {
        return Err(needs_floats(&value));
    }
    for tensor in [x, &value] {
        trace::observe_sizes(tensor.node());
    }
    let again = inputs.reaches_beyond(std::slice::from_ref(&value));
    mode::with_history(again, || {
        let count = value.numel();
        let number = Tensor::arange(0, count, 1, DType::I64, &value.device());
        let number = number.reshape(value.sizes());
        let mut rows = Vec::with_capacity(count);
        for i in 0..count {
            let seed = number.eq(i as i64).to_dtype(value.dtype());
            let row = sweep::gradients(vec![(value.clone(), seed)], &inputs.required, location)?;
            rows.extend(row);
        }
        let shape: Shape = [value.sizes().dims(), x.sizes().dims()].concat().into();
        if rows.is_empty() {
            return Ok(like(x, 0.0, location)
                .flatten(0, -1)
                .narrow(0, 0, 0)
                .reshape(shape));
        }
        Ok(Tensor::stack(&rows, 0).reshape(shape))
    })
}

fn needs_floats(of: &Tensor) -> Error {
    Error::dtype(format!("{} has no gradient: it needs floats", of.dtype()))
}

fn failed(
    error: Error,
    name: &'static str,
    x: &Tensor,
    location: &'static Location<'static>,
) -> Tensor {
    let error = at(error, name, &[x], location);
    Tensor::of_error(error, x.dtype(), &x.device(), location)
}
