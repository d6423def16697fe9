//! Writes into memory, as new values.

use super::call::{Arg, Call, Results, Run, Value, one};
use crate::{DType, Error, Result, Tensor};
use std::sync::Arc;

/// The result of an operator that writes its first argument: of that one's dtype and shape.
pub(super) fn as_written(c: &Call<'_>) -> Results {
    match (c.complex("self"), c.complex("src")) {
        (Some(x), Some(new)) => {
            let new = new.to_dtype(x.dtype()).broadcast_to(x.dims());
            return Ok(vec![Value::Complex(new)]);
        }
        (Some(x), None) => {
            let re = c.tensor_of_either("src")?.to_dtype(x.dtype());
            let new = Tensor::stack([&re, &re.zeros_like()], -1).broadcast_to(x.dims());
            return Ok(vec![Value::Complex(new)]);
        }
        (None, Some(new)) => return Ok(vec![Value::Complex(new.clone())]),
        (None, None) => {}
    }
    let (x, new) = (c.tensor("self")?, c.tensor("src")?);
    let new = new.to_dtype(x.dtype());
    one(match new.dims() == x.dims() {
        true => new,
        false => new.broadcast_to(x.dims()),
    })
}

/// What a view was taken of, with the view as it is to be. The new view is the argument `%new`.
pub(super) fn write_back(target: &str, view: Run, which: usize, c: &Call<'_>) -> Results {
    let (new, args) = c
        .args
        .split_last()
        .ok_or_else(|| Error::internal("a write of nothing"))?;
    let new = match new.1 {
        Arg::Slot(slot) => &c.values[slot],
        _ => &Value::None,
    };
    let inner = Call { args, ..*c };
    let whole = match args.first() {
        Some((_, Arg::Slot(slot))) => &c.values[*slot],
        _ => &Value::None,
    };
    match (whole, new) {
        (Value::Tensor(whole), Value::Tensor(new)) => {
            one(written(target, view, which, &inner, whole, new)?)
        }
        // Pairs are the same numbers.
        (Value::Complex(_), Value::Tensor(new)) if target == "aten.view_as_real.default" => {
            Ok(vec![Value::Complex(new.clone())])
        }
        (Value::Tensor(_), Value::Complex(new)) if target == "aten.view_as_complex.default" => {
            one(new.clone())
        }
        (Value::Complex(whole), new) => {
            let parts = parts(target, view, which, &inner, (whole, new))?;
            Ok(vec![Value::Complex(Tensor::stack(parts, -1))])
        }
        (Value::Tensor(_), Value::Complex(_)) => Err(Error::unsupported(
            "a write of complex numbers into real ones",
        )),
        _ => Err(Error::internal("a write into what is no tensor")),
    }
}

/// The real and the imaginary parts of complex numbers after a write into a part of them.
fn parts(
    target: &str,
    view: Run,
    which: usize,
    c: &Call<'_>,
    (whole, new): (&Tensor, &Value),
) -> Result<[Tensor; 2]> {
    let [re, im] = [0, 1].map(|at| whole.select(-1, at));
    match (target, new) {
        ("aten.real.default", Value::Tensor(new)) => Ok([new.clone(), im]),
        ("aten.imag.default", Value::Tensor(new)) => Ok([re, new.clone()]),
        (_, Value::Complex(new)) => {
            let write = |x: &Tensor, at| written(target, view, which, c, x, &new.select(-1, at));
            Ok([write(&re, 0)?, write(&im, 1)?])
        }
        _ => Err(Error::unsupported("a write into a part of complex numbers")),
    }
}

fn written(
    target: &str,
    view: Run,
    which: usize,
    c: &Call<'_>,
    whole: &Tensor,
    new: &Tensor,
) -> Result<Tensor> {
    let name = target.strip_prefix("aten.").unwrap_or(target);
    let name = name.split('.').next().unwrap_or(name);
    Ok(match name {
        "alias"
        | "detach"
        | "lift_fresh"
        | "view"
        | "view_as"
        | "_unsafe_view"
        | "_reshape_alias"
        | "unflatten"
        | "unsqueeze"
        | "squeeze"
        | "reshape"
        | "reshape_as"
        | "flatten"
        | "contiguous"
        | "ravel"
        | "positive"
        | "to"
        | "type_as"
        | "float"
        | "double"
        | "half"
        | "real"
        | "dropout"
        | "alpha_dropout"
        | "feature_dropout"
        | "feature_alpha_dropout" => new.to_dtype(whole.dtype()).reshape(whole.dims()),
        "t" | "mT" | "numpy_T" if whole.rank() <= 2 => match whole.rank() {
            2 => new.transpose(0, 1),
            _ => new.clone(),
        },
        "transpose" => new.transpose(c.dim_or("dim0", 0)?, c.dim_or("dim1", 0)?),
        "slice" => {
            let (dim, step) = (c.dim_or("dim", 0)?, c.size_or("step", 1)?);
            let (start, end) = (c.dim_or("start", 0)?, c.dim_or("end", isize::MAX)?);
            whole.slice_assign(dim, start, end, step, new)
        }
        "select" => whole.select_assign(c.dim_or("dim", 0)?, c.dim_or("index", 0)?, new),
        "unbind" => whole.select_assign(c.dim_or("dim", 0)?, which as isize, new),
        _ => by_places(view, which, c, whole, new)?,
    })
}

/// Any view: the same view of the positions of all elements says where its own are.
fn by_places(
    view: Run,
    which: usize,
    c: &Call<'_>,
    whole: &Tensor,
    new: &Tensor,
) -> Result<Tensor> {
    let n = whole.numel();
    let places = Tensor::arange(0, n, 1, DType::I64, c.device).reshape(whole.dims());
    let mut args: Vec<(Arc<str>, Arg)> = c.args.to_vec();
    if let Some(first) = args.first_mut() {
        first.1 = Arg::Slot(c.values.len());
    }
    let mut values = c.values.to_vec();
    values.push(Value::Tensor(places));
    let call = Call {
        args: &args,
        values: &values,
        device: c.device,
    };
    let Some(Value::Tensor(at)) = view(&call)?.into_iter().nth(which) else {
        return Err(Error::internal("a view that is no tensor"));
    };
    let row = whole.reshape([-1]);
    let row = row.scatter(0, &at.reshape([-1]), &new.reshape([-1]));
    Ok(row.reshape(whole.dims()))
}
