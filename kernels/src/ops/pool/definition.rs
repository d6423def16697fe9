//! Pooling as reductions over windows, resampling as sums of weighted elements.

use super::{Interpolate, PoolSpec};
use crate::op::gradient::reshaped;
use crate::op::{Index, Iota, Pad, Permute, Unfold};
use crate::{
    BinaryOp, Op, OpBuilder, OpBuilderExt, Operand, PoolKind, ReduceKind, UnaryOp, ValueId,
};
use ferrotrace_runtime::{DType, Error, Result, Scalar, Shape};
use smallvec::SmallVec;

/// The tensor that is pooled or resampled.
fn operand(args: &[Operand]) -> Result<ValueId> {
    match args.first() {
        Some(Operand::Value(v)) => Ok(*v),
        _ => Err(Error::argument("operand 0 must be a tensor")),
    }
}

/// The position along a dimension of a shape.
fn iota(b: &mut dyn OpBuilder, shape: &[usize], dim: usize) -> Result<ValueId> {
    let shape = Shape::new(shape);
    b.push(Op::from(Iota { shape, dim }), &[])
}

/// What no element is less than.
pub(in crate::ops) fn least(dtype: DType) -> Scalar {
    match dtype.int_range() {
        Some((least, _)) => Scalar::Int(least),
        None if dtype == DType::Bool => Scalar::Int(0),
        None => Scalar::Float(f64::NEG_INFINITY),
    }
}

/// Whether one window is all there is of the pooled dimensions.
pub fn is_whole(spec: &PoolSpec, sizes: &[usize]) -> bool {
    let lead = sizes.len().saturating_sub(spec.kernel.len());
    sizes[lead..] == spec.kernel[..] && spec.padding.iter().all(|&p| p == 0)
}

/// The windows, a view of `x` padded `with` a number: `[.., outputs.., kernel..]`.
pub(in crate::ops) fn windows(
    spec: &PoolSpec,
    b: &mut dyn OpBuilder,
    x: ValueId,
    with: Scalar,
) -> Result<ValueId> {
    let lead = b.shape(x).rank() - spec.kernel.len();
    let mut x = x;
    if spec.padding.iter().any(|&p| p > 0) {
        let mut pads: SmallVec<[(isize, isize); 4]> = SmallVec::from_elem((0, 0), lead);
        pads.extend(spec.padding.iter().map(|&p| (p as isize, p as isize)));
        x = b.push(Op::from(Pad(pads)), &[x.into(), Operand::Const(with)])?;
    }
    for (i, (&size, &step)) in spec.kernel.iter().zip(&spec.stride).enumerate() {
        let dim = lead + i;
        x = b.push(Op::from(Unfold { dim, size, step }), &[x.into()])?;
    }
    Ok(x)
}

/// Pooling of the trailing dimensions: the windows are a view of the padded input.
///
/// # Errors
/// The operand does not fit.
pub fn define(spec: &PoolSpec, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
    let x = operand(args)?;
    let (spatial, rank) = (spec.kernel.len(), b.shape(x).rank());
    let (kind, with) = match spec.kind {
        PoolKind::Max => (ReduceKind::Max, least(b.dtype(x))),
        PoolKind::Avg => (ReduceKind::Mean, Scalar::Float(0.0)),
    };
    if is_whole(spec, &b.shape(x)[..]) {
        let mask = (rank - spatial..rank).fold(0, |mask, d| mask | 1u64 << d);
        return b.reduce(kind, x, mask, true);
    }
    let mut x = windows(spec, b, x, with)?;
    // The innermost tap is not the last dimension reduced: neighbouring threads read neighbouring elements.
    if spatial > 1 {
        let outputs = 0..rank as u8;
        let taps = (0..spatial).rev().map(|i| (rank + i) as u8);
        let order = outputs.chain(taps).collect();
        x = b.push(Op::from(Permute(order)), &[x.into()])?;
    }
    let mask = (0..spatial).fold(0, |mask, i| mask | 1u64 << (rank + i));
    b.reduce(kind, x, mask, false)
}

/// Elements of the last two dimensions at positions, which broadcast to the shape of both results' dimensions.
fn picked(b: &mut dyn OpBuilder, x: ValueId, rows: ValueId, columns: ValueId) -> Result<ValueId> {
    let rank = b.shape(x).rank();
    let axes = SmallVec::from_slice(&[rank as u8 - 2, rank as u8 - 1]);
    let op = Op::from(Index { axes, at: rank - 2 });
    b.push(op, &[x.into(), rows.into(), columns.into()])
}

/// The first position of each adaptive window, shaped by `column`, and how many it has.
fn window(
    b: &mut dyn OpBuilder,
    (input, output): (usize, usize),
    shape: &[usize],
    dim: usize,
) -> Result<(ValueId, ValueId)> {
    let i = iota(b, shape, dim)?;
    let (input, output) = (input as i64, output as i64);
    let scaled = b.binary(BinaryOp::Mul, i, input)?;
    let start = b.binary(BinaryOp::FloorDiv, scaled, output)?;
    // ⌈(i + 1) · in / out⌉
    let end = b.binary(BinaryOp::Add, scaled, input + output - 1)?;
    let end = b.binary(BinaryOp::FloorDiv, end, output)?;
    Ok((start, b.sub(end, start)?))
}

/// Means over the windows `⌊i · in / out⌋ .. ⌈(i + 1) · in / out⌉` of the last two dimensions.
///
/// # Errors
/// The operand does not fit.
pub fn adaptive(size: [usize; 2], b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
    let x = operand(args)?;
    let (dtype, shape) = (b.dtype(x), b.shape(x).clone());
    let lead = shape.rank() - 2;
    let input = [shape[lead], shape[lead + 1]];
    if (0..2).all(|d| size[d] > 0 && input[d].is_multiple_of(size[d])) {
        let kernel = (0..2).map(|d| input[d] / size[d]).collect::<SmallVec<_>>();
        let spec = PoolSpec {
            kind: PoolKind::Avg,
            stride: kernel.clone(),
            kernel,
            padding: SmallVec::from_slice(&[0, 0]),
        };
        return define(&spec, b, args);
    }
    let most = |d: usize| {
        let of = |i: usize| ((i + 1) * input[d]).div_ceil(size[d]) - i * input[d] / size[d];
        (0..size[d]).map(of).max().unwrap_or(1)
    };
    // [rows, row taps, columns, column taps], tap by tap.
    let mut places = Vec::new();
    for d in 0..2 {
        let (mut along, mut taps) = ([1; 4], [1; 4]);
        along[2 * d] = size[d];
        taps[2 * d + 1] = most(d);
        let (start, count) = window(b, (input[d], size[d]), &along, 2 * d)?;
        let tap = iota(b, &taps, 2 * d + 1)?;
        let at = b.add(start, tap)?;
        let at = b.binary(BinaryOp::Minimum, at, input[d] as i64 - 1)?;
        let inside = b.binary(BinaryOp::Lt, tap, count)?;
        places.push((at, inside, count));
    }
    let (rows, columns) = (places[0], places[1]);
    let taken = picked(b, x, rows.0, columns.0)?;
    let wide = b.cast(taken, dtype.compute())?;
    let inside = b.binary(BinaryOp::LogicalAnd, rows.1, columns.1)?;
    let seen = b.select(inside, wide, 0.0)?;
    let mask = 1u64 << (lead + 1) | 1 << (lead + 3);
    let sum = b.reduce(ReduceKind::Sum, seen, mask, false)?;
    let count = b.mul(rows.2, columns.2)?;
    let count = reshaped(b, count, &Shape::from(size))?;
    let count = b.cast(count, dtype.compute())?;
    let mean = b.div(sum, count)?;
    b.cast(mean, dtype)
}

/// The positions and weights of one output position's taps along a dimension, each with `output` elements.
type Taps = Vec<(ValueId, ValueId)>;

/// Where each output position lies in the input, in binary64.
fn positions(
    b: &mut dyn OpBuilder,
    (input, output): (usize, usize),
    align_corners: bool,
) -> Result<ValueId> {
    let i = iota(b, &[output], 0)?;
    let i = b.cast(i, DType::F64)?;
    if !align_corners {
        let centre = b.add(i, 0.5)?;
        let scaled = b.mul(centre, input as f64 / output as f64)?;
        return b.sub(scaled, 0.5);
    }
    let step = match output {
        0 | 1 => 0.0,
        n => (input as f64 - 1.0) / (n as f64 - 1.0),
    };
    b.mul(i, step)
}

/// A position as an index inside the input.
fn place(b: &mut dyn OpBuilder, at: ValueId, input: usize) -> Result<ValueId> {
    let at = b.cast(at, DType::I64)?;
    let at = b.binary(BinaryOp::Maximum, at, 0)?;
    b.binary(BinaryOp::Minimum, at, input as i64 - 1)
}

/// Two taps: the positions around, weighted by their nearness.
fn linear(b: &mut dyn OpBuilder, sizes: (usize, usize), align_corners: bool) -> Result<Taps> {
    let at = positions(b, sizes, align_corners)?;
    let at = b.binary(BinaryOp::Maximum, at, 0.0)?;
    let low = place(b, at, sizes.0)?;
    let base = b.cast(low, DType::F64)?;
    let t = b.sub(at, base)?;
    let t = b.binary(BinaryOp::Minimum, t, 1.0)?;
    let next = b.binary(BinaryOp::Add, low, 1)?;
    let next = b.binary(BinaryOp::Minimum, next, sizes.0 as i64 - 1)?;
    let rest = b.binary(BinaryOp::Sub, 1.0, t)?;
    Ok(vec![(low, rest), (next, t)])
}

/// Four taps of Keys' cubic convolution with A = −0.75; positions outside repeat the border.
fn cubic(b: &mut dyn OpBuilder, sizes: (usize, usize), align_corners: bool) -> Result<Taps> {
    const A: f64 = -0.75;
    let near = |b: &mut dyn OpBuilder, t: ValueId| {
        let inner = b.mul(t, A + 2.0)?;
        let inner = b.sub(inner, A + 3.0)?;
        let inner = b.mul(inner, t)?;
        let inner = b.mul(inner, t)?;
        b.add(inner, 1.0)
    };
    let far = |b: &mut dyn OpBuilder, t: ValueId| {
        let inner = b.mul(t, A)?;
        let inner = b.sub(inner, 5.0 * A)?;
        let inner = b.mul(inner, t)?;
        let inner = b.add(inner, 8.0 * A)?;
        let inner = b.mul(inner, t)?;
        b.sub(inner, 4.0 * A)
    };
    let at = positions(b, sizes, align_corners)?;
    let low = b.unary(UnaryOp::Floor, at)?;
    let t = b.sub(at, low)?;
    let rest = b.binary(BinaryOp::Sub, 1.0, t)?;
    let (before, after) = (b.add(t, 1.0)?, b.binary(BinaryOp::Sub, 2.0, t)?);
    let weights = [far(b, before)?, near(b, t)?, near(b, rest)?, far(b, after)?];
    let mut taps = Taps::new();
    for (k, weight) in weights.into_iter().enumerate() {
        let at = b.add(low, k as f64 - 1.0)?;
        taps.push((place(b, at, sizes.0)?, weight));
    }
    Ok(taps)
}

/// The weighted sum of one dimension's elements.
fn combined(b: &mut dyn OpBuilder, x: ValueId, dim: usize, taps: &Taps) -> Result<ValueId> {
    let wide = b.dtype(x).compute();
    let rank = b.shape(x).rank();
    let op = Op::from(Index {
        axes: SmallVec::from_slice(&[dim as u8]),
        at: dim,
    });
    let mut sum = None;
    for &(at, weight) in taps {
        let mut shape = vec![b.shape(at)[0]];
        shape.resize(rank - dim, 1);
        let weight = b.cast(weight, wide)?;
        let weight = reshaped(b, weight, &Shape::new(&shape))?;
        let taken = b.push(op.clone(), &[x.into(), at.into()])?;
        let taken = b.cast(taken, wide)?;
        let part = b.mul(taken, weight)?;
        sum = Some(match sum {
            None => part,
            Some(sum) => b.add(sum, part)?,
        });
    }
    sum.ok_or_else(|| Error::internal("a sum of no taps"))
}

/// Resampling of the last two dimensions: order 0 is nearest, 1 bilinear, 2 bicubic.
///
/// # Errors
/// The operand does not fit.
pub fn interpolate(op: &Interpolate, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
    let Interpolate {
        size,
        order,
        align_corners,
    } = *op;
    let x = operand(args)?;
    let (dtype, shape) = (b.dtype(x), b.shape(x).clone());
    let lead = shape.rank() - 2;
    if order == 0 {
        let mut places = Vec::new();
        for d in 0..2 {
            let mut sizes = [1, 1];
            sizes[d] = size[d];
            let i = iota(b, &sizes, d)?;
            let scaled = b.binary(BinaryOp::Mul, i, shape[lead + d] as i64)?;
            places.push(b.binary(BinaryOp::FloorDiv, scaled, size[d] as i64)?);
        }
        return picked(b, x, places[0], places[1]);
    }
    if !dtype.is_float() {
        return Err(Error::dtype(format!(
            "only nearest interpolation takes {dtype}"
        )));
    }
    let taps = match order {
        1 => linear,
        2 => cubic,
        _ => return Err(Error::argument(format!("interpolation of order {order}"))),
    };
    let columns = taps(b, (shape[lead + 1], size[1]), align_corners)?;
    let rows = taps(b, (shape[lead], size[0]), align_corners)?;
    let x = combined(b, x, lead + 1, &columns)?;
    let x = combined(b, x, lead, &rows)?;
    b.cast(x, dtype)
}
