//! Checks of the values that control flow is given and that its closures return.

use super::like;
use crate::Tensor;
use crate::grad::flow::Like;
use crate::structs::TensorStruct;
use ferrotrace_runtime::{DType, Error, Result};

/// Checks that a predicate is one element of `Bool`.
pub(super) fn predicate((shape, dtype): &Like) -> Result<()> {
    if *dtype != DType::Bool {
        let why =
            format!("a predicate is a bool, not {dtype}: compare, or to_dtype(DType::Bool) first");
        return Err(Error::dtype(why));
    }
    match shape.numel() {
        1 => Ok(()),
        _ => Err(Error::shape(format!(
            "a predicate is one element, not {shape}: reduce by all or any first"
        ))),
    }
}

/// Checks that a step returns carried values of the structure, shapes and dtypes that it was given.
pub(super) fn carried<C: TensorStruct>(init: &C, next: &C) -> Result<()> {
    pairs(init, next, |name, (before, after)| {
        format!("the carried value{name} is {before} before a step and {after} behind it")
    })
}

/// Checks that both branches return results of the same structure, shapes and dtypes.
pub(super) fn branches<Y: TensorStruct>(on_true: &Y, on_false: &Y) -> Result<()> {
    pairs(on_true, on_false, |name, (on_true, on_false)| {
        format!(
            "result{name} is {on_true} where the predicate is true, and {on_false} where it is false"
        )
    })
}

fn pairs<T: TensorStruct>(
    a: &T,
    b: &T,
    told: impl Fn(&str, (String, String)) -> String,
) -> Result<()> {
    if !a.same_structure(b) {
        return Err(Error::argument("the results differ in structure"));
    }
    for ((name, a), (_, b)) in a.named_tensors().iter().zip(b.named_tensors()) {
        let name = if name.is_empty() {
            String::new()
        } else {
            format!(" {name}")
        };
        let both = || (of(a), of(&b));
        if a.sizes() != b.sizes() {
            return Err(Error::shape(told(&name, both())));
        }
        if a.dtype() != b.dtype() {
            return Err(Error::dtype(told(&name, both())));
        }
    }
    Ok(())
}

fn of(tensor: &Tensor) -> String {
    let (shape, dtype) = like(tensor);
    format!("{dtype}{shape}")
}

/// The number of rows of tensors, which must be the same for all.
pub(super) fn rows(xs: &[Tensor]) -> Result<usize> {
    let first = xs
        .first()
        .ok_or_else(|| Error::argument("there is no tensor to go through"))?;
    let rows = |x: &Tensor| {
        x.check()?;
        let scalar = || Error::shape("a 0-d tensor has no rows to go through");
        x.sizes().first().copied().ok_or_else(scalar)
    };
    let steps = rows(first)?;
    for x in xs {
        if rows(x)? != steps {
            let (first, other) = (first.sizes(), x.sizes());
            let why =
                format!("tensors of shapes {first} and {other} have different numbers of rows");
            return Err(Error::shape(why));
        }
    }
    Ok(steps)
}
