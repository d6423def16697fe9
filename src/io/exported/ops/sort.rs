//! Sorting and what is found by it.

use super::Table;
use super::view::wrapped;
use crate::io::exported::call::{Call, Results, all, one};
use crate::{DType, Result, Tensor};

/// The element of a place in each sorted row, and where it was.
fn ranked(c: &Call<'_>, place: impl Fn(usize) -> isize) -> Results {
    let x = c.tensor("self")?;
    let dim = c.dim_or("dim", -1)?;
    if x.rank() == 0 {
        return all([x.clone(), x.zeros_like().to_dtype(DType::I64)]);
    }
    let (values, at) = x.sort(dim, false);
    let place = place(x.dim(dim)?);
    let pick = |x: &Tensor| {
        let row = x.narrow(dim, place, 1);
        Ok::<_, crate::Error>(if c.bool_or("keepdim", false)? {
            row
        } else {
            row.squeeze(dim)
        })
    };
    all([pick(&values)?, pick(&at)?])
}

/// The median: the lower of two in the middle, NaN where one is.
fn median(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    if c.has("dim") {
        if !x.dtype().is_float() {
            return ranked(c, |n| (n as isize - 1) / 2);
        }
        let dim = c.dim_or("dim", -1)?;
        let found = ranked(c, |n| (n as isize - 1) / 2)?;
        let [
            crate::io::exported::call::Value::Tensor(value),
            crate::io::exported::call::Value::Tensor(at),
        ] = &found[..]
        else {
            return Ok(found);
        };
        // NaN sorts behind all numbers.
        let nan = x.isnan().to_dtype(DType::I64);
        let (has, first) = match c.bool_or("keepdim", false)? {
            true => nan.max_with_index_keepdim(dim),
            false => nan.max_with_index(dim),
        };
        let has = has.gt(0);
        return all([has.where_cond(f64::NAN, value), has.where_cond(&first, at)]);
    }
    let row = x.reshape([-1]);
    let middle = row.sort(0, false).0.select(0, (x.numel() as isize - 1) / 2);
    one(match x.dtype().is_float() {
        true => row.isnan().any(..).where_cond(f64::NAN, &middle),
        false => middle,
    })
}

fn sorted(c: &Call<'_>) -> Result<(Tensor, Tensor)> {
    let x = c.tensor("self")?;
    if x.rank() == 0 {
        return Ok((x.clone(), x.zeros_like().to_dtype(DType::I64)));
    }
    Ok(x.sort(c.dim_or("dim", -1)?, c.bool_or("descending", false)?))
}

fn uniques(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let (values, inverse, counts) = match c.int("dim")? {
        Some(dim) => x.unique_dim_with_counts(dim as isize),
        None => x.unique_with_counts(),
    };
    let n = if c.has("dim") {
        inverse.clone()
    } else {
        inverse.reshape(x.dims())
    };
    all([values, n, counts])
}

pub(super) const TABLE: Table = &[
    ("sort", "default stable", |c| {
        let (values, at) = sorted(c)?;
        all([values, at])
    }),
    ("argsort", "default stable", |c| one(sorted(c)?.1)),
    ("msort", "default", |c| {
        one(c.tensor("self")?.sort(0, false).0)
    }),
    ("topk", "default", |c| {
        let (k, largest) = (c.size_or("k", 1)?, c.bool_or("largest", true)?);
        let (values, at) = c.tensor("self")?.topk(k, c.dim_or("dim", -1)?, largest);
        all([values, at])
    }),
    ("kthvalue", "default", |c| {
        let k = c.int_or("k", 1)? as isize;
        ranked(c, move |_| k - 1)
    }),
    ("median", "default dim", median),
    ("_unique2", "default", uniques),
    ("unique_dim", "default", uniques),
    ("unique_consecutive", "default", |c| {
        let whole = c.tensor("self")?;
        let (x, dim) = match c.int("dim")? {
            Some(dim) => (whole.clone(), wrapped(dim as isize, whole.rank())?),
            None => (whole.reshape([-1]), 0),
        };
        let n = x.dim(dim)?;
        let first = match n {
            0 => Tensor::zeros(0, DType::Bool, c.device),
            _ => {
                let others: Vec<usize> = (0..x.rank()).filter(|&d| d != dim).collect();
                let mut other = x.narrow(dim, 1, n - 1).ne(&x.narrow(dim, 0, n - 1));
                if !others.is_empty() {
                    other = other.any(&others[..]);
                }
                Tensor::cat(&[&Tensor::ones(1, DType::Bool, c.device), &other], 0)
            }
        };
        let inverse = first.to_dtype(DType::I64).cumsum(0) - 1;
        let at = first.nonzero().reshape([-1]);
        let end = Tensor::full(1, n as i64, DType::I64, c.device);
        let ends = Tensor::cat(&[&at, &end], 0);
        let m = at.numel();
        let counts = ends.narrow(0, 1, m) - ends.narrow(0, 0, m);
        let inverse = match c.has("dim") {
            true => inverse,
            false => inverse.reshape(whole.dims()),
        };
        all([x.index_select(dim, &at), inverse, counts])
    }),
    ("bincount", "default", |c| {
        let least = c.size_or("minlength", 0)?;
        one(c.tensor("self")?.bincount(c.tensor_opt("weights")?, least))
    }),
    ("searchsorted", "Tensor Scalar", |c| {
        let right = c.bool_or("right", false)? || c.text("side")? == Some("right");
        let mut line = c.tensor("sorted_sequence")?.clone();
        if let Some(order) = c.tensor_opt("sorter")? {
            line = line.gather(-1, order);
        }
        let found = line.searchsorted(c.operand("self")?, right);
        one(narrow(found, c.bool_or("out_int32", false)?))
    }),
    ("bucketize", "Tensor Scalar", |c| {
        let right = c.bool_or("right", false)?;
        let found = c
            .tensor("boundaries")?
            .searchsorted(c.operand("self")?, right);
        one(narrow(found, c.bool_or("out_int32", false)?))
    }),
];

fn narrow(found: Tensor, is_narrow: bool) -> Tensor {
    if is_narrow {
        found.to_dtype(DType::I32)
    } else {
        found
    }
}
