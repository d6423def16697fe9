//! Sorting and selection by the positions that sort rows, and what else runs along rows alone.

use super::shaping::{dims, inverse, permute, slice, value};
use ferrotrace_kernels::cuda::selects;
use ferrotrace_kernels::op::{ArgSort, ArgTopK, Gather, Scan, Sort, TopK, Unsqueeze};
use ferrotrace_kernels::{Op, OpBuilder, OpBuilderExt, Operand, ScanKind, ValueId};
use ferrotrace_runtime::{DType, Result};

/// The order of dimensions that puts `dim` last.
fn last(rank: usize, dim: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).filter(|&d| d != dim).collect();
    order.extend((dim < rank).then_some(dim));
    order
}

/// Runs `f` on the operand with `dim` last; the result with it back in its place.
fn along(
    b: &mut dyn OpBuilder,
    x: ValueId,
    dim: usize,
    f: impl Fn(&mut dyn OpBuilder, ValueId, usize) -> Result<ValueId>,
) -> Result<ValueId> {
    let order = last(b.shape(x).rank(), dim);
    let x = permute(b, x, &order)?;
    let y = f(b, x, order.len().saturating_sub(1))?;
    permute(b, y, &inverse(&order))
}

/// Whether the dimension is the last.
pub(super) fn is_last(b: &dyn OpBuilder, args: &[Operand], dim: usize) -> bool {
    value(args, 0).is_ok_and(|x| dim + 1 >= b.shape(x).rank())
}

/// The positions that sort a dimension which is not the last.
pub(super) fn argsort(
    &ArgSort { dim, descending }: &ArgSort,
    b: &mut dyn OpBuilder,
    args: &[Operand],
) -> Result<ValueId> {
    along(b, value(args, 0)?, dim, |b, x, dim| {
        b.push(Op::from(ArgSort { dim, descending }), &[x.into()])
    })
}

/// A dimension in order: the elements at the positions that sort it.
pub(super) fn sort(
    &Sort { dim, descending }: &Sort,
    b: &mut dyn OpBuilder,
    args: &[Operand],
) -> Result<ValueId> {
    along(b, value(args, 0)?, dim, |b, x, dim| {
        if b.shape(x).rank() == 0 {
            return Ok(x);
        }
        let order = b.push(Op::from(ArgSort { dim, descending }), &[x.into()])?;
        b.push(Op::from(Gather { dim }), &[x.into(), order.into()])
    })
}

/// Whether a device's library selects the first `k`: few of the last dimension.
pub(super) fn is_selected(b: &dyn OpBuilder, args: &[Operand], op: &ArgTopK) -> bool {
    is_last(b, args, op.dim) && selects(op.k)
}

/// The first `k` elements of a sorted dimension: those at their positions.
pub(super) fn topk(
    &TopK { k, dim, largest }: &TopK,
    b: &mut dyn OpBuilder,
    args: &[Operand],
) -> Result<ValueId> {
    let x = value(args, 0)?;
    let at = argtopk(&ArgTopK { k, dim, largest }, b, args)?;
    b.push(Op::from(Gather { dim }), &[x.into(), at.into()])
}

/// The positions of the first `k` of a sorted dimension: selected where they are few, otherwise of all that are sorted.
pub(super) fn argtopk(
    &ArgTopK { k, dim, largest }: &ArgTopK,
    b: &mut dyn OpBuilder,
    args: &[Operand],
) -> Result<ValueId> {
    let descending = largest;
    along(b, value(args, 0)?, dim, |b, x, dim| {
        if selects(k) {
            return b.push(Op::from(ArgTopK { k, dim, largest }), &[x.into()]);
        }
        let order = b.push(Op::from(ArgSort { dim, descending }), &[x.into()])?;
        match b.shape(x).rank() {
            0 => Ok(order),
            _ => slice(b, order, dim, (0, k), 1),
        }
    })
}

/// Running log Σ exp along the last dimension, of binary32 or binary64.
pub(super) fn logcumsumexp(dim: usize, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
    let x = value(args, 0)?;
    let dtype = b.dtype(x);
    let wide = b.cast(x, dtype.compute())?;
    let kind = ScanKind::LogSumExp;
    let y = along(b, wide, dim, |b, x, dim| {
        b.push(Op::from(Scan { kind, dim }), &[x.into()])
    })?;
    b.cast(y, dtype)
}

/// Whether the scan is along the last dimension and of a type that is not rounded.
pub(super) fn is_plain_scan(b: &dyn OpBuilder, args: &[Operand], dim: usize) -> bool {
    let wide = |x| matches!(b.dtype(x), DType::F32 | DType::F64);
    is_last(b, args, dim) && value(args, 0).is_ok_and(wide)
}

/// A product whose operands a library does not take: of integers a sum of products, of nothing zeros, of several dtypes
/// that of their common one.
pub(super) fn product(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<Option<ValueId>> {
    let (x, y) = (value(args, 0)?, value(args, 1)?);
    let dtype = b.dtype(x).promote(b.dtype(y));
    let (left, right) = (dims(b, x), dims(b, y));
    let depth = left.last().copied().unwrap_or(1);
    if dtype.is_float() && depth > 0 {
        if b.dtype(x) == dtype && b.dtype(y) == dtype {
            return Ok(None);
        }
        let (x, y) = (b.cast(x, dtype)?, b.cast(y, dtype)?);
        return b.matmul(x, y).map(Some);
    }
    let (x, y) = (b.cast(x, dtype)?, b.cast(y, dtype)?);
    // [.., rows, 1, depth] by [.., 1, columns, depth].
    let (rows, columns) = (left.len() > 1, right.len() > 1);
    let y = match columns {
        true => {
            let n = right.len();
            let mut order: Vec<usize> = (0..n).collect();
            order.swap(n - 1, n - 2);
            permute(b, y, &order)?
        }
        false => y,
    };
    let (x, y) = match rows && columns {
        true => (
            b.push(
                Op::from(Unsqueeze {
                    dim: left.len() - 1,
                }),
                &[x.into()],
            )?,
            b.push(
                Op::from(Unsqueeze {
                    dim: right.len() - 2,
                }),
                &[y.into()],
            )?,
        ),
        false => (x, y),
    };
    let products = b.mul(x, y)?;
    let mask = 1u64 << (b.shape(products).rank() - 1);
    super::shaping::sum_as(b, products, mask, dtype).map(Some)
}
