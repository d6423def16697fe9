//! Reads and writes at positions given by index tensors.

use super::scan::check_dim;
use super::{Inferred, tensor};
use crate::cpu::copy::copy;
use crate::cpu::create::full;
use crate::cpu::dense::{elements, elements_mut};
use crate::cpu::gather::{Gather, Selection, add_offsets, gather, select};
use crate::cpu::number::with_type;
use crate::cpu::scatter::{Places, put, scatter};
use crate::eager::{Arg, array, cast, contiguous};
use crate::{ArgMeta, Array, ScatterMode};
use ferrotrace_runtime::{DType, Device, Error, ErrorKind, Layout, Result, Shape, Strides};

/// `dtype` may index: it is an integer type, not `Bool`.
fn check_index(dtype: DType) -> Result<()> {
    if dtype.is_int() {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "an index must be of an integer type, not {dtype}"
    )))
}

/// A source of type `src` may be written into `x`.
fn check_source(x: DType, src: &ArgMeta<'_>) -> Result<()> {
    if src.category() <= x.category() {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "{} cannot be written into {x}",
        src.dtype()
    )))
}

fn check_rank(x: &Shape, index: &Shape) -> Result<()> {
    if x.rank() == index.rank() {
        return Ok(());
    }
    let (a, b) = (index.rank(), x.rank());
    Err(Error::shape(format!(
        "an index of rank {a} for a tensor of rank {b}"
    )))
}

pub(super) fn infer_gather(dim: usize, args: &[ArgMeta<'_>]) -> Inferred {
    let (x, dtype) = tensor(args, 0)?;
    let (index, index_dtype) = tensor(args, 1)?;
    check_dim(dim, x)?;
    check_index(index_dtype)?;
    check_rank(x, index)?;
    if (0..x.rank()).any(|d| d != dim && index[d] > x[d]) {
        return Err(Error::shape(format!(
            "an index of shape {index} exceeds {x} apart from dimension {dim}"
        )));
    }
    Ok((index.clone(), dtype))
}

/// The shape that indices select, from the operands after `first`.
fn selected(axes: &[u8], at: usize, args: &[ArgMeta<'_>], first: usize) -> Result<Shape> {
    let (x, _) = tensor(args, 0)?;
    if axes.is_empty() || axes.len() + first != args.len() {
        let n = args.len().saturating_sub(first);
        return Err(Error::argument(format!(
            "{n} index tensors for {} dimensions",
            axes.len()
        )));
    }
    let mut last = None;
    for &axis in axes {
        check_index_axis(axis as usize, last, x)?;
        last = Some(axis as usize);
    }
    let mut block = Shape::scalar();
    for i in first..args.len() {
        let (index, dtype) = tensor(args, i)?;
        check_index(dtype)?;
        block = block.broadcast(index).ok_or_else(|| {
            Error::shape(format!("index shapes {block} and {index} do not broadcast"))
        })?;
    }
    let kept: Vec<usize> = (0..x.rank())
        .filter(|&d| !axes.contains(&(d as u8)))
        .collect();
    if at > kept.len() {
        return Err(Error::argument(format!(
            "indices at {at} among {} dimensions",
            kept.len()
        )));
    }
    let size = |d: &usize| x[*d];
    let before = kept[..at].iter().map(size);
    Ok(before
        .chain(block.iter().copied())
        .chain(kept[at..].iter().map(size))
        .collect())
}

fn check_index_axis(axis: usize, before: Option<usize>, x: &Shape) -> Result<()> {
    if axis >= x.rank() {
        return Err(Error::new(ErrorKind::Dim {
            dim: axis as isize,
            rank: x.rank(),
        }));
    }
    if before.is_some_and(|before| before >= axis) {
        return Err(Error::argument("indexed dimensions must ascend"));
    }
    Ok(())
}

pub(super) fn infer_index(axes: &[u8], at: usize, args: &[ArgMeta<'_>]) -> Inferred {
    let (_, dtype) = tensor(args, 0)?;
    Ok((selected(axes, at, args, 1)?, dtype))
}

pub(super) fn infer_index_put(axes: &[u8], at: usize, args: &[ArgMeta<'_>]) -> Inferred {
    let (x, dtype) = tensor(args, 0)?;
    let region = selected(axes, at, args, 2)?;
    check_source(dtype, &args[1])?;
    let src = args[1].shape();
    if src.broadcast(&region).as_ref() != Some(&region) {
        return Err(Error::shape(format!(
            "a source of shape {src} does not fit the indexed shape {region}"
        )));
    }
    Ok((x.clone(), dtype))
}

pub(super) fn infer_scatter(dim: usize, args: &[ArgMeta<'_>]) -> Inferred {
    let (x, dtype) = tensor(args, 0)?;
    let (index, index_dtype) = tensor(args, 1)?;
    check_dim(dim, x)?;
    check_index(index_dtype)?;
    check_rank(x, index)?;
    let Some(source) = args.get(2) else {
        return Err(Error::argument("a scatter needs a source"));
    };
    check_source(dtype, source)?;
    if let ArgMeta::Tensor(src, _) = source {
        check_rank(x, src)?;
        if (0..x.rank()).any(|d| index[d] > src[d]) {
            return Err(Error::shape(format!(
                "an index of shape {index} exceeds its source {src}"
            )));
        }
    }
    if (0..x.rank()).any(|d| d != dim && index[d] > x[d]) {
        return Err(Error::shape(format!(
            "an index of shape {index} exceeds {x} apart from dimension {dim}"
        )));
    }
    Ok((x.clone(), dtype))
}

/// Expands its body with `$T` standing for a type of the same size as the dtype's elements.
macro_rules! with_bits {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = i16;
                $body
            }
            4 => {
                type $T = i32;
                $body
            }
            _ => {
                type $T = i64;
                $body
            }
        }
    };
}

/// The index operand as dense `I64`.
fn indices(args: &[Arg], i: usize) -> Result<Array> {
    contiguous(&cast(array(args, i)?, DType::I64)?)
}

fn shared() -> Error {
    Error::internal("a result's memory is shared")
}

/// Offsets of the elements of some dimensions of a row-major array of shape `of`, restricted to `sizes`.
fn offsets(of: &[usize], sizes: &[usize], unit: usize) -> Vec<usize> {
    let strides: Strides = Shape::new(of)
        .strides()
        .iter()
        .map(|s| s * unit as isize)
        .collect();
    Layout::new(Shape::new(sizes), strides, 0)
        .offsets()
        .collect()
}

/// `out[i] = x[i with i[dim] replaced by index[i]]`.
///
/// # Errors
/// `Index`: the first index out of range. Out of memory.
pub fn run_gather(dim: usize, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let x = array(args, 0)?;
    let index = indices(args, 1)?;
    let mut out = Array::empty(x.buffer.device(), shape.clone(), dtype)?;
    if shape.numel() == 0 {
        return Ok(out);
    }
    let rank = shape.rank();
    let last = rank.saturating_sub(1);
    let mut strides: Strides = x.layout.strides().iter().copied().collect();
    let (stride, size) = match strides.get_mut(dim) {
        Some(stride) => (std::mem::take(stride), x.shape()[dim]),
        None => (0, 1),
    };
    let (lead, step) = (&strides[..last], strides.get(last).copied().unwrap_or(0));
    let rows = Layout::new(Shape::new(&shape[..last]), lead.into(), x.layout.offset());
    let starts: Vec<usize> = rows.offsets().collect();
    let g = Gather {
        index: elements(&index)?,
        starts: &starts,
        row: shape.get(last).copied().unwrap_or(1),
        step,
        stride,
        dim: (dim, size),
    };
    with_bits!(dtype, T => {
        let out = out.buffer.get_mut::<T>().ok_or_else(shared)?;
        gather(x.buffer.as_slice::<T>(), &mut out[..g.index.len()], &g)?;
    });
    Ok(out)
}

/// The selection of indices, from the operands after `first`, on an array of this layout.
fn selection(
    axes: &[u8],
    at: usize,
    layout: &Layout,
    args: &[Arg],
    first: usize,
) -> Result<Selection> {
    let mut index = Vec::with_capacity(axes.len());
    let mut block = Shape::scalar();
    for i in first..args.len() {
        let array = array(args, i)?;
        block = block
            .broadcast(array.shape())
            .ok_or_else(|| Error::internal("index shapes"))?;
        index.push(array);
    }
    let mut places = vec![0isize; block.numel()];
    for (array, &axis) in index.into_iter().zip(axes) {
        let axis = axis as usize;
        let spread = array
            .layout
            .broadcast_to(&block)
            .ok_or_else(|| Error::internal("index shapes"))?;
        let dense = contiguous(&cast(&array.with_layout(spread), DType::I64)?)?;
        let (stride, size) = (layout.strides()[axis], layout.shape()[axis]);
        add_offsets(&mut places, elements(&dense)?, stride, axis, size)?;
    }
    let kept: Vec<(usize, isize)> = (0..layout.shape().rank())
        .filter(|&d| !axes.contains(&(d as u8)))
        .map(|d| (layout.shape()[d], layout.strides()[d]))
        .collect();
    Ok(Selection::new(
        layout.offset(),
        &kept[..at],
        places,
        &kept[at..],
    ))
}

/// Advanced indexing: the elements at the indices, which broadcast together.
///
/// # Errors
/// `Index`: the first index out of range. Out of memory.
pub fn run_index(
    axes: &[u8],
    at: usize,
    args: &[Arg],
    shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    let x = array(args, 0)?;
    let mut out = Array::empty(x.buffer.device(), shape.clone(), dtype)?;
    let s = selection(axes, at, &x.layout, args, 1)?;
    with_bits!(dtype, T => {
        let out = out.buffer.get_mut::<T>().ok_or_else(shared)?;
        let n = s.len().min(out.len());
        select(x.buffer.as_slice::<T>(), &mut out[..n], &s);
    });
    Ok(out)
}

/// The source operand at `i` as an array.
fn source(args: &[Arg], i: usize, device: &Device, dtype: DType) -> Result<Array> {
    match args.get(i) {
        Some(Arg::Array(array)) => Ok(array.clone()),
        Some(Arg::Scalar(value)) => full(device, &Shape::scalar(), *value, dtype),
        None => Err(Error::internal("a source is missing")),
    }
}

/// The type in which values are combined: sums and products of half types are rounded once, at the end; those of truth
/// values are `or` and `and`.
pub(crate) fn combining(dtype: DType, combines: bool) -> DType {
    match dtype {
        DType::Bool if combines => DType::I64,
        _ if combines => dtype.compute(),
        _ => dtype,
    }
}

/// `x` with the source written (or added) at the indices; of equal indices the last one stays, and sums are in
/// row-major order of the source.
///
/// # Errors
/// `Index`: the first index out of range. Out of memory.
pub fn run_index_put(
    axes: &[u8],
    at: usize,
    accumulate: bool,
    args: &[Arg],
    _shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    let x = array(args, 0)?;
    let mut out = copy(x, x.shape(), combining(dtype, accumulate))?;
    put_over(&mut out, axes, at, accumulate, args)?;
    cast(&out, dtype)
}

/// Writes (or adds) the source at the indices of `out`, a dense array of its own of the [`combining`] type; the first
/// operand is not looked at.
///
/// # Errors
/// `Index`: the first index out of range, with nothing written. Out of memory.
pub(crate) fn put_over(
    out: &mut Array,
    axes: &[u8],
    at: usize,
    accumulate: bool,
    args: &[Arg],
) -> Result<()> {
    let compute = out.dtype;
    let s = selection(axes, at, &out.layout, args, 2)?;
    let src = source(args, 1, out.buffer.device(), compute)?;
    let spread = region(out.shape(), axes, at, args)?;
    let spread = src
        .layout
        .broadcast_to(&spread)
        .ok_or_else(|| Error::internal("a source's shape"))?;
    let src = contiguous(&cast(&src.with_layout(spread), compute)?)?;
    with_type!(compute, T => put::<T>(elements_mut(out)?, elements(&src)?, &s, accumulate));
    Ok(())
}

/// The shape that the index operands of an `index_put` select.
fn region(x: &Shape, axes: &[u8], at: usize, args: &[Arg]) -> Result<Shape> {
    let mut metas = vec![ArgMeta::Tensor(x, DType::F32)];
    for i in 2..args.len() {
        let array = array(args, i)?;
        metas.push(ArgMeta::Tensor(array.shape(), array.dtype));
    }
    selected(axes, at, &metas, 1)
}

/// `x` with source elements met at `i with i[dim] replaced by index[i]`, those of one place in row-major order.
/// Truth values add as `or` and multiply as `and`.
///
/// # Errors
/// `Index`: the first index out of range. `DType`: the mean of truth values. Out of memory.
pub fn run_scatter(
    dim: usize,
    mode: ScatterMode,
    include_self: bool,
    args: &[Arg],
    _shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    let x = array(args, 0)?;
    if dtype == DType::Bool && mode == ScatterMode::Mean {
        return Err(Error::dtype("the mean of bool is not defined"));
    }
    let mut out = copy(x, x.shape(), scatter_type(dtype, mode))?;
    scatter_over(&mut out, dim, mode, include_self, args)?;
    cast(&out, dtype)
}

/// The type in which a scatter combines.
pub(crate) fn scatter_type(dtype: DType, mode: ScatterMode) -> DType {
    let sums = matches!(
        mode,
        ScatterMode::Sum | ScatterMode::Prod | ScatterMode::Mean
    );
    combining(dtype, sums)
}

/// Lets the source meet the elements of `out`, a dense array of its own of the [`scatter_type`]; the first operand is
/// not looked at.
///
/// # Errors
/// `Index`: the first index out of range; `out` is then of no use. Out of memory.
pub(crate) fn scatter_over(
    out: &mut Array,
    dim: usize,
    mode: ScatterMode,
    include_self: bool,
    args: &[Arg],
) -> Result<()> {
    let compute = out.dtype;
    let index = indices(args, 1)?;
    let shape = index.shape();
    if shape.numel() == 0 {
        return Ok(());
    }
    let src = source(args, 2, out.buffer.device(), compute)?;
    // The part of the source that the index covers.
    let part = match src.layout.shape().rank() == shape.rank() {
        true => Layout::new(
            shape.clone(),
            src.layout.strides().into(),
            src.layout.offset(),
        ),
        false => Layout::new(shape.clone(), Strides::from_elem(0, shape.rank()), 0),
    };
    let src = contiguous(&cast(&src.with_layout(part), compute)?)?;
    let (to, rank) = (out.shape().clone(), shape.rank());
    let after = (dim + 1).min(rank);
    let stride: usize = to[after..].iter().product();
    let size = to.get(dim).copied().unwrap_or(1);
    let before = dim.min(rank);
    let places = Places {
        index: elements(&index)?,
        outer: offsets(&to[..before], &shape[..before], size * stride),
        len: shape.get(dim).copied().unwrap_or(1),
        inner: offsets(&to[after..], &shape[after..], 1),
        stride,
        dim: (dim, size),
    };
    with_type!(compute, T => {
        scatter::<T>(elements_mut(out)?, elements(&src)?, &places, mode, include_self)?
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::fixture::{flat, index_of, integers, metas, of, read, strided};
    use ferrotrace_runtime::Scalar;

    type Ran = Result<(Shape, Vec<f64>)>;

    fn bits(x: &Array) -> Vec<u64> {
        read(x).into_iter().map(f64::to_bits).collect()
    }

    fn finish(out: Array, shape: Shape, dtype: DType) -> Ran {
        assert_eq!((out.shape(), out.dtype), (&shape, dtype));
        Ok((shape, read(&out)))
    }

    fn gathered(dim: usize, x: &Array, index: &Array) -> Ran {
        let args = [Arg::Array(x.clone()), Arg::Array(index.clone())];
        let (shape, dtype) = infer_gather(dim, &metas(&args))?;
        finish(run_gather(dim, &args, &shape, dtype)?, shape, dtype)
    }

    fn indexed(axes: &[u8], at: usize, x: &Array, index: &[&Array]) -> Ran {
        let mut args = vec![Arg::Array(x.clone())];
        args.extend(index.iter().map(|&i| Arg::Array(i.clone())));
        let (shape, dtype) = infer_index(axes, at, &metas(&args))?;
        finish(run_index(axes, at, &args, &shape, dtype)?, shape, dtype)
    }

    fn put_at(axes: &[u8], at: usize, add: bool, x: &Array, src: Arg, index: &[&Array]) -> Ran {
        let mut args = vec![Arg::Array(x.clone()), src];
        args.extend(index.iter().map(|&i| Arg::Array(i.clone())));
        let (shape, dtype) = infer_index_put(axes, at, &metas(&args))?;
        let before = bits(x);
        let out = run_index_put(axes, at, add, &args, &shape, dtype)?;
        assert_eq!(bits(x), before);
        finish(out, shape, dtype)
    }

    fn scattered(
        dim: usize,
        mode: ScatterMode,
        include: bool,
        x: &Array,
        index: &Array,
        src: Arg,
    ) -> Ran {
        let args = [Arg::Array(x.clone()), Arg::Array(index.clone()), src];
        let (shape, dtype) = infer_scatter(dim, &metas(&args))?;
        let before = bits(x);
        let out = run_scatter(dim, mode, include, &args, &shape, dtype)?;
        assert_eq!(bits(x), before);
        finish(out, shape, dtype)
    }

    fn wrapped(index: f64, size: usize) -> usize {
        if index < 0.0 {
            (index + size as f64) as usize
        } else {
            index as usize
        }
    }

    #[test]
    fn gather_every_dtype_dim_and_stride() {
        let (dims, part) = ([3, 4, 5], [2, 3, 4]);
        for (n, dtype) in DType::ALL.into_iter().enumerate() {
            let values = integers(60, 1, 0, if dtype == DType::Bool { 1 } else { 100 });
            for dim in 0..3 {
                let mut shape = part;
                shape[dim] = 7;
                let size = dims[dim] as i64;
                let unsigned = n % 5 == 1;
                let index_dtype = [DType::I64, DType::U8, DType::I8, DType::I16, DType::I32][n % 5];
                let count = shape.iter().product();
                let index = integers(count, 2, if unsigned { 0 } else { -size }, size - 1);
                let want: Vec<f64> = (0..count)
                    .map(|i| {
                        let mut at = index_of(i, &shape);
                        at[dim] = wrapped(index[i], dims[dim]);
                        values[flat(&at, &dims)]
                    })
                    .collect();
                let dense = (of(dtype, &dims, &values), of(index_dtype, &shape, &index));
                let other = (
                    strided(dtype, &dims, &values),
                    strided(index_dtype, &shape, &index),
                );
                for (x, index) in [dense, other] {
                    assert_eq!(
                        gathered(dim, &x, &index).expect("gathered").1,
                        want,
                        "{dtype} {dim}"
                    );
                }
            }
        }
    }

    #[test]
    fn advanced_indexing_places_its_block() {
        let dims = [3, 4, 5, 2];
        let values = integers(120, 1, 0, 1000);
        let (rows, columns) = ([2.0, -1.0, 0.0], [1.0, 4.0]);
        let i = of(DType::I64, &[3, 1], &rows);
        let j = of(DType::I32, &[2], &columns);
        for x in [
            of(DType::F32, &dims, &values),
            strided(DType::F32, &dims, &values),
        ] {
            // x[:, [..], [..], :] keeps the block in place; x[[..], :, [..], :] puts it first.
            for (axes, at, shape) in [
                ([1u8, 2], 1, [3, 3, 2, 2]),
                ([0, 2], 0, [3, 2, 4, 2]),
                ([0, 2], 2, [4, 2, 3, 2]),
            ] {
                let (got_shape, got) = indexed(&axes, at, &x, &[&i, &j]).expect("indexed");
                assert_eq!(got_shape, Shape::from(shape));
                let kept: Vec<usize> = (0..4).filter(|d| !axes.contains(&(*d as u8))).collect();
                for (n, got) in got.iter().enumerate() {
                    let out = index_of(n, &shape);
                    let mut from = [0; 4];
                    from[axes[0] as usize] = wrapped(rows[out[at]], dims[axes[0] as usize]);
                    from[axes[1] as usize] = wrapped(columns[out[at + 1]], dims[axes[1] as usize]);
                    for (k, &d) in kept.iter().enumerate() {
                        from[d] = out[if k < at { k } else { k + 2 }];
                    }
                    assert_eq!(*got, values[flat(&from, &dims)]);
                }
            }
        }
    }

    #[test]
    fn rows_of_a_table() {
        let values = integers(5 * 300, 1, 0, 1000);
        let index = of(DType::I64, &[2, 2], &[4.0, 0.0, -1.0, 3.0]);
        for table in [
            of(DType::F64, &[5, 300], &values),
            strided(DType::F64, &[5, 300], &values),
        ] {
            let (shape, got) = indexed(&[0], 0, &table, &[&index]).expect("rows");
            assert_eq!(shape, Shape::from([2, 2, 300]));
            for (n, row) in [4, 0, 4, 3].into_iter().enumerate() {
                assert_eq!(got[n * 300..][..300], values[row * 300..][..300]);
            }
        }
        let (_, got) =
            indexed(&[1], 1, &of(DType::F64, &[5, 300], &values), &[&index]).expect("columns");
        assert_eq!(got[4..8], [304, 300, 599, 303].map(|i: usize| values[i]));
    }

    #[test]
    fn writes_in_order_and_adds_duplicates() {
        let index = of(DType::I64, &[4], &[1.0, 1.0, -1.0, 1.0]);
        for dtype in DType::ALL {
            let zeros = strided(dtype, &[3, 2], &[0.0; 6]);
            let src = if dtype == DType::Bool {
                vec![1.0; 8]
            } else {
                integers(8, 3, 1, 9)
            };
            let arg = || Arg::Array(strided(dtype, &[4, 2], &src));
            let (_, got) = put_at(&[0], 0, false, &zeros, arg(), &[&index]).expect("put");
            assert_eq!(got, [0.0, 0.0, src[6], src[7], src[4], src[5]], "{dtype}");
            let (_, got) = put_at(&[0], 0, true, &zeros, arg(), &[&index]).expect("put");
            let mut sum = [
                0.0,
                0.0,
                src[0] + src[2] + src[6],
                src[1] + src[3] + src[7],
                src[4],
                src[5],
            ];
            if dtype == DType::Bool {
                sum = sum.map(|v| f64::from(v > 0.0));
            }
            assert_eq!(got, sum, "{dtype}");
        }
        let x = of(DType::I32, &[2, 3], &[0.0; 6]);
        let (i, j) = (
            of(DType::I64, &[2], &[0.0, 1.0]),
            of(DType::I64, &[2], &[2.0, 0.0]),
        );
        let (_, got) = put_at(
            &[0, 1],
            0,
            false,
            &x,
            Arg::Scalar(Scalar::Int(7)),
            &[&i, &j],
        )
        .expect("put");
        assert_eq!(got, [0.0, 0.0, 7.0, 7.0, 0.0, 0.0]);
        let row = Arg::Array(of(DType::Bool, &[3], &[1.0, 0.0, 1.0]));
        let (_, got) = put_at(&[0], 0, true, &x, row, &[&i]).expect("put");
        assert_eq!(got, [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn many_duplicates_add_in_order() {
        let (n, width) = (3000, 200);
        let index = integers(n, 4, 0, 3);
        let src = integers(n * width, 5, -3, 3);
        let x = of(DType::F16, &[4, width], &vec![0.0; 4 * width]);
        let arg = Arg::Array(of(DType::F16, &[n, width], &src));
        let (_, got) =
            put_at(&[0], 0, true, &x, arg, &[&of(DType::I64, &[n], &index)]).expect("put");
        let mut want = vec![0.0; 4 * width];
        for (at, v) in src.iter().enumerate() {
            want[index[at / width] as usize * width + at % width] += v;
        }
        assert_eq!(got, want);
    }

    #[test]
    fn scatter_every_mode() {
        use ScatterMode::*;
        let (dims, part) = ([3, 4, 5], [2, 3, 4]);
        for dtype in DType::ALL {
            let bool = dtype == DType::Bool;
            let (low, high) = if bool { (0, 1) } else { (1, 3) };
            let x = integers(60, 1, low, high);
            for dim in 0..3 {
                let index = integers(24, 2, -(dims[dim] as i64), dims[dim] as i64 - 1);
                let src = integers(60, 3, low, high);
                for mode in [Assign, Sum, Prod, Amax, Amin, Mean] {
                    for include in [true, false] {
                        let mut want = x.clone();
                        let mut met = vec![Vec::new(); 60];
                        for (i, &to) in index.iter().enumerate() {
                            let mut at = index_of(i, &part);
                            let value = src[flat(&at, &dims)];
                            at[dim] = wrapped(to, dims[dim]);
                            met[flat(&at, &dims)].push(value);
                        }
                        for (want, met) in
                            want.iter_mut().zip(&mut met).filter(|(_, m)| !m.is_empty())
                        {
                            if include && mode != Assign {
                                met.push(*want);
                            }
                            let sum: f64 = met.iter().sum();
                            *want = match mode {
                                Assign => met[met.len() - 1],
                                Sum if bool => f64::from(sum > 0.0),
                                Sum => sum,
                                Prod => met.iter().product(),
                                Amax => met.iter().copied().fold(0.0, f64::max),
                                Amin => met.iter().copied().fold(9.0, f64::min),
                                Mean if dtype.is_float() => sum / met.len() as f64,
                                Mean => (sum / met.len() as f64).floor(),
                            };
                        }
                        let x = strided(dtype, &dims, &x);
                        let index = of(DType::I32, &part, &index);
                        let src = Arg::Array(strided(dtype, &dims, &src));
                        let got = scattered(dim, mode, include, &x, &index, src);
                        if bool && mode == Mean {
                            assert!(got.is_err());
                            continue;
                        }
                        let got = got.expect("scattered").1;
                        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 4e-3 * b.abs();
                        assert!(
                            got.iter().zip(&want).all(near),
                            "{dtype} {dim} {mode:?} {include}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn scatter_of_numbers_and_nan() {
        let index = of(DType::I64, &[2], &[1.0, 1.0]);
        let x = of(DType::F32, &[2], &[1.0, f64::NAN]);
        let number = || Arg::Scalar(Scalar::Float(2.0));
        let (_, got) =
            scattered(0, ScatterMode::Amax, true, &x, &index, number()).expect("scattered");
        assert!(got[1].is_nan());
        let (_, got) =
            scattered(0, ScatterMode::Sum, false, &x, &index, number()).expect("scattered");
        assert_eq!(got, [1.0, 4.0]);
        let zero = of(DType::I64, &[], &[0.0]);
        let one = of(DType::F32, &[], &[5.0]);
        assert_eq!(
            scattered(0, ScatterMode::Sum, true, &one, &zero, number())
                .expect("0-d")
                .1,
            [7.0]
        );
        assert_eq!(gathered(0, &one, &zero).expect("0-d").1, [5.0]);
    }

    #[test]
    fn indices_out_of_range_are_named() {
        let x = of(DType::F32, &[2, 3], &[0.0; 6]);
        let index = of(DType::I64, &[1, 3], &[0.0, -4.0, 3.0]);
        let kind = |r: Ran| r.expect_err("out of range").kind().clone();
        let wrong = ErrorKind::Index {
            index: -4,
            dim: 1,
            size: 3,
        };
        assert_eq!(kind(gathered(1, &x, &index)), wrong);
        assert_eq!(kind(indexed(&[1], 1, &x, &[&index])), wrong);
        let number = || Arg::Scalar(Scalar::Float(2.0));
        assert_eq!(kind(put_at(&[1], 1, false, &x, number(), &[&index])), wrong);
        assert_eq!(
            kind(scattered(1, ScatterMode::Sum, true, &x, &index, number())),
            wrong
        );
        let empty = of(DType::F32, &[0], &[]);
        let zero = of(DType::I64, &[1], &[0.0]);
        assert_eq!(
            kind(indexed(&[0], 0, &empty, &[&zero])),
            ErrorKind::Index {
                index: 0,
                dim: 0,
                size: 0
            }
        );
        let none = of(DType::I64, &[0], &[]);
        assert_eq!(
            indexed(&[0], 0, &empty, &[&none]).expect("empty").0,
            Shape::from([0])
        );
        let none = of(DType::I64, &[0, 3], &[]);
        assert_eq!(
            gathered(0, &x, &none).expect("empty").0,
            Shape::from([0, 3])
        );
        assert_eq!(
            scattered(0, ScatterMode::Sum, true, &x, &none, number())
                .expect("same")
                .1,
            [0.0; 6]
        );
    }

    #[test]
    fn misfits_are_errors() {
        let of = |dtype, dims: &[usize]| of(dtype, dims, &vec![0.0; dims.iter().product()]);
        let x = of(DType::I32, &[2, 3]);
        assert!(gathered(0, &x, &of(DType::F32, &[1, 3])).is_err());
        assert!(gathered(0, &x, &of(DType::Bool, &[1, 3])).is_err());
        assert!(gathered(0, &x, &of(DType::I64, &[1, 4])).is_err());
        assert!(gathered(0, &x, &of(DType::I64, &[3])).is_err());
        let index = of(DType::I64, &[2, 3]);
        let src = |dtype, dims: &[usize]| Arg::Array(of(dtype, dims));
        let sum = |src| scattered(0, ScatterMode::Sum, true, &x, &index, src);
        assert!(sum(src(DType::F32, &[2, 3])).is_err());
        assert!(sum(src(DType::I64, &[1, 3])).is_err());
        assert!(sum(Arg::Scalar(Scalar::Float(1.0))).is_err());
        assert!(sum(src(DType::I64, &[2, 3])).is_ok());
        let i = of(DType::I64, &[2]);
        assert!(put_at(&[0], 0, false, &x, src(DType::I32, &[3, 3]), &[&i]).is_err());
        assert!(indexed(&[0, 1], 0, &x, &[&i]).is_err());
        assert!(indexed(&[1, 0], 0, &x, &[&i, &i]).is_err());
        assert!(indexed(&[2], 0, &x, &[&i]).is_err());
    }
}
