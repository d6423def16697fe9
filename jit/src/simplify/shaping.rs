//! Short forms for moving elements about.

use ferrotrace_kernels::op::{Expand, Iota, Pad, Permute, Reshape, Slice};
use ferrotrace_kernels::{
    BinaryOp, Extent, Op, OpBuilder, OpBuilderExt, Operand, ReduceKind, ValueId,
};
use ferrotrace_runtime::{DType, Error, Result, Scalar, Shape};

/// The tensor operand at `i`.
///
/// # Errors
/// It is a number.
pub(super) fn value(args: &[Operand], i: usize) -> Result<ValueId> {
    match args.get(i) {
        Some(Operand::Value(v)) => Ok(*v),
        _ => Err(Error::argument(format!("operand {i} must be a tensor"))),
    }
}

/// The sizes of a value.
pub(super) fn dims(b: &dyn OpBuilder, x: ValueId) -> Vec<usize> {
    b.shape(x).to_vec()
}

/// The same elements under another shape.
pub(super) fn reshape(b: &mut dyn OpBuilder, x: ValueId, to: &[usize]) -> Result<ValueId> {
    if b.shape(x)[..] == *to {
        return Ok(x);
    }
    let extents = to.iter().map(|&n| Extent::Size(n)).collect();
    b.push(Op::from(Reshape(extents)), &[x.into()])
}

/// Sizes of 1 stretched, dimensions added in front.
pub(super) fn expand(b: &mut dyn OpBuilder, x: ValueId, to: &[usize]) -> Result<ValueId> {
    if b.shape(x)[..] == *to {
        return Ok(x);
    }
    let extents = to.iter().map(|&n| Extent::Size(n)).collect();
    b.push(Op::from(Expand(extents)), &[x.into()])
}

/// Dimension `i` of the result is dimension `order[i]`.
pub(super) fn permute(b: &mut dyn OpBuilder, x: ValueId, order: &[usize]) -> Result<ValueId> {
    if order.iter().enumerate().all(|(i, &d)| i == d) {
        return Ok(x);
    }
    let order = order.iter().map(|&d| d as u8).collect();
    b.push(Op::from(Permute(order)), &[x.into()])
}

/// The order that undoes a permutation.
pub(super) fn inverse(order: &[usize]) -> Vec<usize> {
    let mut back = vec![0; order.len()];
    for (i, &d) in order.iter().enumerate() {
        back[d] = i;
    }
    back
}

/// Elements added before and after each dimension; negative numbers crop.
pub(super) fn pad(
    b: &mut dyn OpBuilder,
    x: ValueId,
    pads: &[(isize, isize)],
    with: Scalar,
) -> Result<ValueId> {
    if pads.iter().all(|p| *p == (0, 0)) {
        return Ok(x);
    }
    let op = Op::from(Pad(pads.iter().copied().collect()));
    b.push(op, &[x.into(), Operand::Const(with)])
}

/// A window of one dimension, by a step.
pub(super) fn slice(
    b: &mut dyn OpBuilder,
    x: ValueId,
    dim: usize,
    (start, end): (usize, usize),
    step: usize,
) -> Result<ValueId> {
    if (start, end, step) == (0, b.shape(x)[dim], 1) {
        return Ok(x);
    }
    let (start, end) = (start as isize, end as isize);
    let op = Op::from(Slice {
        dim,
        start,
        end,
        step,
    });
    b.push(op, &[x.into()])
}

/// The position along a dimension of a shape.
pub(super) fn iota(b: &mut dyn OpBuilder, shape: &[usize], dim: usize) -> Result<ValueId> {
    let shape = Shape::new(shape);
    b.push(Op::from(Iota { shape, dim }), &[])
}

/// The sum over the dimensions of `mask` in the accumulator's type of `dtype`.
pub(super) fn sum_as(
    b: &mut dyn OpBuilder,
    x: ValueId,
    mask: u64,
    dtype: DType,
) -> Result<ValueId> {
    let sum = b.reduce(ReduceKind::Sum, x, mask, false)?;
    b.cast(sum, dtype)
}

/// A function of two operands, one of them an integer of the definition.
pub(super) fn with_int(
    b: &mut dyn OpBuilder,
    op: BinaryOp,
    x: ValueId,
    number: i64,
) -> Result<ValueId> {
    b.binary(op, x, number)
}
