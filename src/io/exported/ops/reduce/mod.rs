//! Reductions and scans.

pub(super) mod norms;
pub(super) mod statistics;

use super::Table;
use crate::io::exported::call::{Call, Results, all, one, wide};
use crate::{DType, Result, Scalar, Tensor};

/// The input, cast first where a dtype is asked for.
fn cast(c: &Call<'_>) -> Result<Tensor> {
    let x = c.tensor("self")?;
    Ok(match c.dtype("dtype")? {
        Some(dtype) => x.to_dtype(dtype),
        None => x.clone(),
    })
}

/// Whether reduced dimensions stay as ones.
fn keeps(c: &Call<'_>) -> Result<bool> {
    c.bool_or("keepdim", false)
}

macro_rules! reduced {
    ($x:expr, $c:expr, $dims:expr, $name:ident, $twin:ident $(, $arg:expr)*) => {{
        let dims = $dims;
        match keeps($c)? {
            true => one($x.$twin($($arg,)* &dims[..])),
            false => one($x.$name($($arg,)* &dims[..])),
        }
    }};
}

/// The variance over dimensions, or its `root`, and the mean, by PyTorch's many ways to say how: a correction, or whether
/// it is 1.
fn moments(c: &Call<'_>, root: bool) -> Result<(Tensor, Tensor)> {
    let x = c.tensor("self")?;
    let correction = match c.has("correction") {
        true => c.float_or("correction", 1.0)?,
        false => f64::from(u8::from(c.bool_or("unbiased", true)?)),
    };
    let (dims, whole) = (c.dims("dim")?, correction.max(0.0).floor() as usize);
    let dims: Vec<isize> = match dims.is_empty() {
        true => (0..x.rank() as isize).collect(),
        false => dims,
    };
    let keeps = keeps(c)?;
    let of = |correction| match (root, keeps) {
        (false, false) => x.var_mean(&dims[..], correction),
        (false, true) => x.var_mean_keepdim(&dims[..], correction),
        (true, false) => x.std_mean(&dims[..], correction),
        (true, true) => x.std_mean_keepdim(&dims[..], correction),
    };
    if whole as f64 == correction {
        return Ok(of(whole));
    }
    // A correction that is no count: the mean of squares, over another number.
    let sizes: Result<Vec<usize>> = dims.iter().map(|&dim| x.dim(dim)).collect();
    let count = sizes?.iter().product::<usize>() as f64;
    let (moment, mean) = of(0);
    let scale = count / (count - correction).max(0.0);
    let scale = if root { scale.sqrt() } else { scale };
    Ok((wide(&moment, |moment| moment * scale), mean))
}

/// The greatest or least of all elements, of a dimension with its positions, or of two tensors.
fn extreme(c: &Call<'_>, greatest: bool) -> Results {
    let x = c.tensor("self")?;
    if c.has("other") {
        let other = c.operand("other")?;
        return one(if greatest {
            x.maximum(other)
        } else {
            x.minimum(other)
        });
    }
    if !c.has("dim") {
        return one(if greatest { x.max(..) } else { x.min(..) });
    }
    let dim = c.dim_or("dim", 0)?;
    let (most, at) = match (greatest, keeps(c)?) {
        (true, false) => x.max_with_index(dim),
        (true, true) => x.max_with_index_keepdim(dim),
        (false, false) => x.min_with_index(dim),
        (false, true) => x.min_with_index_keepdim(dim),
    };
    all([most, at])
}

/// The position of the greatest or least element.
fn position(c: &Call<'_>, greatest: bool) -> Results {
    let x = c.tensor("self")?;
    let Some(dim) = c.int("dim")? else {
        let rank = x.rank();
        let row = x.reshape([-1]);
        let at = if greatest {
            row.argmax(0)
        } else {
            row.argmin(0)
        };
        return one(match keeps(c)? {
            true => at.reshape(vec![1usize; rank]),
            false => at,
        });
    };
    let dim = dim as isize;
    one(match (greatest, keeps(c)?) {
        (true, false) => x.argmax(dim),
        (true, true) => x.argmax_keepdim(dim),
        (false, false) => x.argmin(dim),
        (false, true) => x.argmin_keepdim(dim),
    })
}

fn truths(c: &Call<'_>, every: bool) -> Results {
    let x = c.tensor("self")?;
    // Of bytes PyTorch gives bytes.
    let dtype = if x.dtype() == DType::U8 {
        DType::U8
    } else {
        DType::Bool
    };
    let mut dims = c.dims("dim")?;
    if dims.is_empty() {
        dims.extend(0..x.rank() as isize);
    }
    let y = match (every, keeps(c)?) {
        (true, true) => x.all_keepdim(&dims[..]),
        (true, false) => x.all(&dims[..]),
        (false, true) => x.any_keepdim(&dims[..]),
        (false, false) => x.any(&dims[..]),
    };
    one(y.to_dtype(dtype))
}

fn product(c: &Call<'_>) -> Results {
    let x = cast(c)?;
    let dims = c.dims("dim")?;
    let y = match keeps(c)? {
        true => x.prod_keepdim(&dims[..]),
        false => x.prod(&dims[..]),
    };
    one(match c.dtype("dtype")? {
        Some(dtype) => y.to_dtype(dtype),
        None => y,
    })
}

/// A scan along a dimension, of integers as `I64`.
fn scanned(c: &Call<'_>, scan: impl Fn(&Tensor, isize) -> Tensor) -> Results {
    let x = cast(c)?;
    one(scan(&x, c.dim_or("dim", 0)?))
}

pub(super) const TABLE: Table = &[
    ("sum", "default dim_IntList", |c| {
        let x = cast(c)?;
        reduced!(x, c, c.dims("dim")?, sum, sum_keepdim)
    }),
    ("nansum", "default", |c| {
        let x = cast(c)?;
        reduced!(x, c, c.dims("dim")?, nansum, nansum_keepdim)
    }),
    ("mean", "default dim", |c| {
        let x = cast(c)?;
        reduced!(x, c, c.dims("dim")?, mean, mean_keepdim)
    }),
    ("nanmean", "default", |c| {
        let x = cast(c)?;
        reduced!(x, c, c.dims("dim")?, nanmean, nanmean_keepdim)
    }),
    ("prod", "default dim_int", product),
    ("amax", "default", |c| {
        let x = c.tensor("self")?;
        reduced!(x, c, c.dims("dim")?, max, max_keepdim)
    }),
    ("amin", "default", |c| {
        let x = c.tensor("self")?;
        reduced!(x, c, c.dims("dim")?, min, min_keepdim)
    }),
    ("aminmax", "default", |c| {
        let (x, dims) = (c.tensor("self")?, c.dims("dim")?);
        match keeps(c)? {
            true => all([x.min_keepdim(&dims[..]), x.max_keepdim(&dims[..])]),
            false => all([x.min(&dims[..]), x.max(&dims[..])]),
        }
    }),
    ("max", "default dim other", |c| extreme(c, true)),
    ("min", "default dim other", |c| extreme(c, false)),
    ("argmax", "default", |c| position(c, true)),
    ("argmin", "default", |c| position(c, false)),
    ("any", "default dim dims", |c| truths(c, false)),
    ("all", "default dim dims", |c| truths(c, true)),
    ("var", "default dim correction", |c| {
        one(moments(c, false)?.0)
    }),
    (
        "std",
        "default dim correction",
        |c| one(moments(c, true)?.0),
    ),
    ("var_mean", "default dim correction", |c| {
        moments(c, false).and_then(|(var, mean)| all([var, mean]))
    }),
    ("std_mean", "default dim correction", |c| {
        moments(c, true).and_then(|(std, mean)| all([std, mean]))
    }),
    ("logsumexp", "default", |c| {
        let x = c.tensor("self")?;
        reduced!(x, c, c.dims("dim")?, logsumexp, logsumexp_keepdim)
    }),
    ("count_nonzero", "default dim_IntList", |c| {
        let x = c.tensor("self")?;
        one(x.count_nonzero(&c.dims("dim")?[..]))
    }),
    ("trace", "default", |c| one(c.tensor("self")?.trace())),
    ("cumsum", "default", |c| scanned(c, |x, dim| x.cumsum(dim))),
    ("cumprod", "default", |c| {
        scanned(c, |x, dim| x.cumprod(dim))
    }),
    ("logcumsumexp", "default", |c| {
        scanned(c, |x, dim| x.logcumsumexp(dim))
    }),
    ("cummax", "default", |c| {
        let (most, at) = c.tensor("self")?.cummax(c.dim_or("dim", 0)?);
        all([most, at])
    }),
    ("cummin", "default", |c| {
        let (least, at) = c.tensor("self")?.cummin(c.dim_or("dim", 0)?);
        all([least, at])
    }),
    ("diff", "default", |c| {
        let (x, dim) = (c.tensor("self")?, c.dim_or("dim", -1)?);
        if c.size_or("n", 1)? == 0 {
            return one(x.clone());
        }
        let around = [c.tensor_opt("prepend")?, Some(x), c.tensor_opt("append")?];
        let parts: Vec<&Tensor> = around.into_iter().flatten().collect();
        let mut x = match parts.len() {
            1 => x.clone(),
            _ => Tensor::cat(parts, dim),
        };
        for _ in 0..c.size_or("n", 1)? {
            if x.dim(dim)? == 0 {
                break;
            }
            let n = x.dim(dim)? - 1;
            let (a, b) = (x.narrow(dim, 0, n), x.narrow(dim, 1, n));
            x = match x.dtype() {
                DType::Bool => b.logical_xor(&a),
                _ => b - a,
            };
        }
        one(x)
    }),
    ("dist", "default", |c| {
        let apart = c.tensor("self")? - c.tensor("other")?;
        one(apart.norm(c.float_or("p", 2.0)?, ..))
    }),
    ("is_nonzero", "default", |c| {
        let number = c.scalar_or("self", Scalar::Bool(false))?;
        Ok(vec![crate::io::exported::call::Value::Bool(
            number.to_bool(),
        )])
    }),
];
