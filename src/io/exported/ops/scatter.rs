//! Elements written by positions.

use super::Table;
use super::index::{borrowed, entries, within};
use super::join::broadcasted;
use super::pointwise::mask;
use super::view::{Window, wrapped};
use crate::io::exported::call::{Call, Results, one};
use crate::{DType, Error, ReduceOp, Tensor};

/// What is written: a tensor of the destination's dtype, or a number as one of the index's shape.
fn source(c: &Call<'_>, index: &Tensor) -> crate::Result<Tensor> {
    let x = c.tensor("self")?;
    let name = if c.has("src") { "src" } else { "value" };
    Ok(match c.operand(name)? {
        crate::Operand::Scalar(number) => Tensor::full(index.dims(), number, x.dtype(), c.device),
        _ => c.tensor(name)?.to_dtype(x.dtype()),
    })
}

fn scattered(c: &Call<'_>) -> Results {
    let (x, index) = (c.tensor("self")?, c.tensor("index")?);
    let dim = c.dim_or("dim", 0)?;
    let src = source(c, index)?;
    let how = match c.text("reduce")? {
        None => return one(x.scatter(dim, index, &src)),
        Some("add" | "sum") => ReduceOp::Sum,
        Some("multiply" | "prod") => ReduceOp::Prod,
        Some("amax") => ReduceOp::Amax,
        Some("amin") => ReduceOp::Amin,
        Some("mean") => ReduceOp::Mean,
        Some(other) => return Err(Error::unsupported(format!("a reduction {other:?}"))),
    };
    let include = c.bool_or("include_self", true)?;
    one(x.scatter_reduce(dim, index, &src, how, include))
}

fn put(c: &Call<'_>) -> Results {
    let (x, entries) = (c.tensor("self")?, entries(c)?);
    let values = c.tensor("values")?.to_dtype(x.dtype());
    let accumulate = c.bool_or("accumulate", false)?;
    // A mask alone, and one number: a choice, whatever the mask says.
    if let [Some(test)] = &entries[..]
        && test.dtype() == DType::Bool
        && values.numel() == 1
        && !accumulate
    {
        let mut dims = test.dims().to_vec();
        dims.resize(x.rank().max(dims.len()), 1);
        return one(test.reshape(dims).where_cond(&values.reshape(()), x));
    }
    one(x.index_put(&borrowed(&entries), &values, accumulate))
}

/// Positions along a dimension as an index of every element of a source.
fn along(index: &Tensor, dim: usize, shape: &[usize]) -> Tensor {
    let mut line = vec![1; shape.len()];
    if let Some(size) = line.get_mut(dim) {
        *size = index.numel();
    }
    index.reshape(line).broadcast_to(shape)
}

fn index_copy(c: &Call<'_>) -> Results {
    let (x, index, src) = (c.tensor("self")?, c.tensor("index")?, c.tensor("source")?);
    let src = match x.rank() {
        0 => src.reshape(()),
        _ => src.clone(),
    };
    one(x.index_copy(c.dim_or("dim", 0)?, index, &src))
}

fn index_fill(c: &Call<'_>) -> Results {
    let (x, index) = (c.tensor("self")?, c.tensor("index")?);
    let dim = c.dim_or("dim", 0)?;
    one(match c.operand("value")? {
        crate::Operand::Scalar(number) => x.index_fill(dim, index, number),
        _ => x.index_fill(
            dim,
            index,
            c.tensor("value")?.to_dtype(x.dtype()).reshape(()),
        ),
    })
}

fn index_add(c: &Call<'_>) -> Results {
    let (x, index, src) = (c.tensor("self")?, c.tensor("index")?, c.tensor("source")?);
    let alpha = c.scalar_or("alpha", 1)?;
    let src = if alpha.to_f64() == 1.0 {
        src.clone()
    } else {
        src * alpha
    };
    one(x.index_add(c.dim_or("dim", 0)?, index, &src.to_dtype(x.dtype())))
}

fn index_reduce(c: &Call<'_>) -> Results {
    let (x, index, src) = (c.tensor("self")?, c.tensor("index")?, c.tensor("source")?);
    let dim = wrapped(c.dim_or("dim", 0)?, x.rank())?;
    let how = match c.text("reduce")? {
        Some("prod") => ReduceOp::Prod,
        Some("mean") => ReduceOp::Mean,
        Some("amin") => ReduceOp::Amin,
        _ => ReduceOp::Amax,
    };
    let include = c.bool_or("include_self", true)?;
    one(x.scatter_reduce(dim, &along(index, dim, src.dims()), src, how, include))
}

/// Runs of a dimension, whose ends are given as lengths or as offsets, one more than there are.
fn segments(c: &Call<'_>) -> Results {
    let x = c.tensor("data")?;
    let how = match c.text("reduce")? {
        Some("sum") => ReduceOp::Sum,
        Some("mean") => ReduceOp::Mean,
        Some("prod") => ReduceOp::Prod,
        Some("min") => ReduceOp::Amin,
        _ => ReduceOp::Amax,
    };
    let axis = c.dim_or("axis", 0)?;
    let initial = c.scalar("initial")?.map(crate::Scalar::to_f64);
    let (x, lengths) = match (c.tensor_opt("lengths")?, c.tensor_opt("offsets")?) {
        (Some(lengths), _) => (x.clone(), lengths.clone()),
        (None, Some(offsets)) => {
            // What lies before the first offset is a segment that is left out.
            let lengths = offsets.diff(1, -1);
            let first = offsets.narrow(-1, 0, 1);
            let all = Tensor::cat([&first, &lengths], -1);
            let y = x.segment_reduce(how, &all, axis, initial);
            return one(y.narrow(axis, 1, lengths.dim(-1)?));
        }
        _ => return Err(Error::unsupported("segments without lengths or offsets")),
    };
    one(x.segment_reduce(how, &lengths, axis, initial))
}

/// The elements of a source, one after another, where a mask is true.
fn masked(c: &Call<'_>) -> Results {
    let both = broadcasted(&[c.tensor("self")?, &mask(c.tensor("mask")?)]);
    one(both[0].masked_scatter(&both[1], c.tensor("source")?))
}

fn slice_scatter(c: &Call<'_>) -> Results {
    let (x, src) = (c.tensor("self")?, c.tensor("src")?);
    let (dim, step) = (c.dim_or("dim", 0)?, c.size_or("step", 1)?);
    let (start, end) = (c.dim_or("start", 0)?, c.dim_or("end", isize::MAX)?);
    one(x.slice_assign(dim, start, end, step, &src.to_dtype(x.dtype())))
}

/// Values added at positions, but for those of a mask that is false.
fn masked_put(c: &Call<'_>) -> Results {
    let (x, mask) = (c.tensor("self")?, mask(c.tensor("mask")?));
    let entries = within(&entries(c)?, x, &mask);
    let values = c.tensor("values")?;
    let mut dims = mask.dims().to_vec();
    dims.resize(values.rank().max(dims.len()), 1);
    let values = mask.reshape(dims).where_cond(values, 0).to_dtype(x.dtype());
    one(x.index_put(&borrowed(&entries), &values, true))
}

/// Elements of the row of all, at positions that may count from its end.
fn put_flat(c: &Call<'_>) -> Results {
    let (x, at) = (c.tensor("self")?, c.tensor("index")?.reshape([-1]));
    let src = c.tensor("source")?.to_dtype(x.dtype()).reshape([-1]);
    let y = x.reshape([-1]);
    let y = y.index_put(&[Some(&at)], &src, c.bool_or("accumulate", false)?);
    one(y.reshape(x.dims()))
}

/// A window on memory written.
fn strided_scatter(c: &Call<'_>) -> Results {
    let (x, window) = (c.tensor("self")?, Window::of(c)?);
    let src = c.tensor("src")?.to_dtype(x.dtype()).reshape([-1]);
    let written = window.memory.scatter(0, &window.places, &src);
    one(window.as_tensor(&written, x))
}

pub(super) const TABLE: Table = &[
    ("segment_reduce", "default", segments),
    ("_unsafe_masked_index_put_accumulate", "default", masked_put),
    ("put", "default", put_flat),
    ("as_strided_scatter", "default", strided_scatter),
    ("scatter", "src value reduce value_reduce", scattered),
    ("scatter_reduce", "two", scattered),
    ("scatter_add", "default", |c| {
        let (x, index) = (c.tensor("self")?, c.tensor("index")?);
        one(x.scatter_add(c.dim_or("dim", 0)?, index, c.tensor("src")?))
    }),
    ("index_put", "default", put),
    ("_unsafe_index_put", "default", put),
    ("_index_put_impl", "default", put),
    ("index_add", "default", index_add),
    ("index_copy", "default", index_copy),
    ("index_fill", "int_Scalar int_Tensor", index_fill),
    ("index_reduce", "default", index_reduce),
    ("masked_scatter", "default", masked),
    ("slice_scatter", "default", slice_scatter),
    ("select_scatter", "default", |c| {
        let (x, src) = (c.tensor("self")?, c.tensor("src")?);
        let (dim, index) = (c.dim_or("dim", 0)?, c.dim_or("index", 0)?);
        one(x.select_assign(dim, index, &src.to_dtype(x.dtype())))
    }),
    ("diagonal_scatter", "default", |c| {
        let x = c.tensor("self")?;
        let (offset, a, b) = (
            c.dim_or("offset", 0)?,
            c.dim_or("dim1", 0)?,
            c.dim_or("dim2", 1)?,
        );
        let at = Tensor::arange(0, x.numel(), 1, DType::I64, c.device).reshape(x.dims());
        let at = at.diagonal(offset, a, b).reshape([-1]);
        let src = c.tensor("src")?.to_dtype(x.dtype()).reshape([-1]);
        one(x.reshape([-1]).scatter(0, &at, &src).reshape(x.dims()))
    }),
];
