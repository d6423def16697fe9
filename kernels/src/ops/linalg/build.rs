//! What the gradients of factorisations are made of.

use super::triangular::SolveTriangular;
use crate::op::gradient::{reshaped, transposed};
use crate::op::{Cat, Iota, Narrow, Triangle};
use crate::{BinaryOp, Composite, Op, OpBuilder, OpBuilderExt, UnaryOp, ValueId};
use ferrotrace_runtime::{Result, Shape};

/// The elements on and below diagonal `k`, or with `upper` on and above it.
pub(super) fn triangle(
    b: &mut dyn OpBuilder,
    x: ValueId,
    k: isize,
    upper: bool,
) -> Result<ValueId> {
    let op = Composite::Triangle(Triangle { k, upper });
    b.push(Op::Composite(op), &[x.into()])
}

/// The lower triangle, and in the upper one its mirror image.
pub(super) fn mirrored(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let (lower, strict) = (triangle(b, x, 0, false)?, triangle(b, x, -1, false)?);
    let upper = transposed(b, strict)?;
    b.add(lower, upper)
}

/// a⁻¹·x of a triangular matrix.
pub(super) fn solved(
    b: &mut dyn OpBuilder,
    op: SolveTriangular,
    a: ValueId,
    x: ValueId,
) -> Result<ValueId> {
    b.push(Op::Factorisation(op.into()), &[a.into(), x.into()])
}

/// x·a⁻ᵀ of a triangular matrix.
pub(super) fn solved_behind(
    b: &mut dyn OpBuilder,
    op: SolveTriangular,
    a: ValueId,
    x: ValueId,
) -> Result<ValueId> {
    let x = transposed(b, x)?;
    let y = solved(b, op, a, x)?;
    transposed(b, y)
}

/// A vector as a row.
pub(super) fn row(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let mut shape = b.shape(x).clone();
    let last = shape.rank() - 1;
    shape.dims_mut().insert(last, 1);
    reshaped(b, x, &shape)
}

/// aᵀ·x.
pub(super) fn turned_product(b: &mut dyn OpBuilder, a: ValueId, x: ValueId) -> Result<ValueId> {
    let a = transposed(b, a)?;
    b.matmul(a, x)
}

/// a·xᵀ.
pub(super) fn product_turned(b: &mut dyn OpBuilder, a: ValueId, x: ValueId) -> Result<ValueId> {
    let x = transposed(b, x)?;
    b.matmul(a, x)
}

/// −x.
pub(super) fn minus(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    b.unary(UnaryOp::Neg, x)
}

/// `len` rows from `start` on.
pub(super) fn rows(b: &mut dyn OpBuilder, x: ValueId, start: usize, len: usize) -> Result<ValueId> {
    let dim = b.shape(x).rank() - 2;
    let start = start as isize;
    b.push(Op::Narrow(Narrow { dim, start, len }), &[x.into()])
}

/// `len` columns from `start` on.
pub(super) fn columns(
    b: &mut dyn OpBuilder,
    x: ValueId,
    start: usize,
    len: usize,
) -> Result<ValueId> {
    let dim = b.shape(x).rank() - 1;
    let start = start as isize;
    b.push(Op::Narrow(Narrow { dim, start, len }), &[x.into()])
}

/// A matrix of four blocks, row by row.
pub(super) fn joined(b: &mut dyn OpBuilder, blocks: [[ValueId; 2]; 2]) -> Result<ValueId> {
    let rank = b.shape(blocks[0][0]).rank();
    let mut join =
        |x: ValueId, y: ValueId, dim: usize| b.push(Op::Cat(Cat { dim }), &[x.into(), y.into()]);
    let [[a, c], [d, e]] = blocks;
    let (above, below) = (join(a, c, rank - 1)?, join(d, e, rank - 1)?);
    join(above, below, rank - 2)
}

/// Whether an element of a square matrix of `n` rows is on the diagonal.
pub(super) fn on_diagonal(b: &mut dyn OpBuilder, n: usize) -> Result<ValueId> {
    let mut along = |shape: [usize; 2], dim| {
        let shape = Shape::from(shape);
        b.push(Op::Iota(Iota { shape, dim }), &[])
    };
    let (row, column) = (along([n, 1], 0)?, along([1, n], 1)?);
    b.binary(BinaryOp::Eq, row, column)
}

/// x over differences, but 0 where both are 0, and x itself on the diagonal, where differences are 0 always.
pub(super) fn over_differences(
    b: &mut dyn OpBuilder,
    x: ValueId,
    differences: ValueId,
    diagonal: ValueId,
) -> Result<ValueId> {
    let equal = b.binary(BinaryOp::Eq, differences, 0.0)?;
    let none = b.binary(BinaryOp::Eq, x, 0.0)?;
    let both = b.binary(BinaryOp::LogicalAnd, equal, none)?;
    let either = b.binary(BinaryOp::LogicalOr, both, diagonal)?;
    let differences = b.select(either, 1.0, differences)?;
    b.div(x, differences)
}
