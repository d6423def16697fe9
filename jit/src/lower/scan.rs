//! Scans as loop nests: the rows are those of a reduction, the columns the scanned dimension, and every column stores
//! what has been folded so far (ir C1, C5).

use super::expand::Expansion;
use super::{MOST_READ, Realized, Site};
use crate::body::{Body, BodyOp, Number, Value};
use crate::expr::Expr;
use crate::graph::{Graph, Node, Precision};
use crate::nest::LoopNest;
use crate::policy::Policy;
use ferrotrace_kernels::op::Scan;
use ferrotrace_kernels::{BinaryOp, Class, Op, Operand, ReduceKind, ScanKind, UnaryOp, ValueId};
use ferrotrace_runtime::{DType, Error, Result, Scalar, Shape};
use smallvec::SmallVec;

/// Elements along the scanned dimension; a scalar has one.
pub(super) fn length(shape: &Shape, dim: usize) -> usize {
    if dim < shape.rank() { shape[dim] } else { 1 }
}

/// Whether a ready-made kernel is to compute the scan.
///
/// - Running log Σ exp: two numbers in binary64 at a time, which the ready-made kernel bounds by their exponentials too.
/// - ir C4: few long rows are scanned in blocks by all threads, which takes two passes.
/// - Running sums and products of floats in eager mode's order, along rows that lie in memory as they are scanned: one
///   addition after the other, of which the ready-made kernel has those of several rows under way. Not where the
///   device has loops for them.
pub(super) fn is_library_scan(node: &Node, kind: ScanKind, dim: usize, policy: &Policy) -> bool {
    let (n, numel) = (length(&node.shape, dim), node.shape.numel());
    let thresholds = &policy.thresholds;
    let is_long = !policy.target.cuts_scans
        && n >= thresholds.scan_length
        && numel / n < thresholds.scan_rows;
    let is_contiguous = (dim + 1..node.shape.rank()).all(|d| node.shape[d] == 1);
    let in_order = node.precision == Precision::EagerExact
        && node.dtype.is_float()
        && matches!(kind, ScanKind::Sum | ScanKind::Prod);
    kind == ScanKind::LogSumExp
        || is_long
        || (in_order && is_contiguous && !policy.target.ordered_scans)
}

/// The operand of a scan that is computed of parts of its rows, or of rows that take turns, if that is to be stored: what is
/// repeated, interleaved, joined or padded. The loop of a scan holds what was folded so far of each lane, so that no part of a row
/// has a loop of its own there, and short axes are not written out.
pub(super) fn reads_parts(
    graph: &Graph,
    realized: &Realized,
    id: ValueId,
    policy: &Policy,
) -> Option<ValueId> {
    let node = graph.node(id);
    let Scan { dim, .. } = node.operator().and_then(Op::as_scan)?;
    let operand = graph.operands(id).next()?;
    if realized.is_stored(operand) {
        return None;
    }
    let row = |v: ValueId| graph.node(v).shape.last().copied();
    let along = dim + 1 == node.shape.rank();
    let mut met: SmallVec<[ValueId; 16]> = SmallVec::from_slice(&[operand]);
    let mut next = 0;
    while let Some(&v) = met.get(next) {
        next += 1;
        if met.len() > MOST_READ {
            return None;
        }
        let of = graph.node(v);
        if of.shape.numel() <= 1 || realized.window(graph, v).is_some() {
            continue;
        }
        let is_view = of.is(Op::is_view);
        let other_rows = graph.operands(v).find(|&from| row(from) != row(v));
        let view = of.operator().and_then(Op::as_view);
        if view.is_some_and(|view| view.is_reshape()) {
            let turns = other_rows.and_then(row);
            if turns.is_some_and(|n| 1 < n && n < policy.thresholds.unrolled) {
                return Some(operand);
            }
        } else if of.is_of(Class::Arrange) && other_rows.is_some() && !along {
            return Some(operand);
        }
        if is_view || of.is_of(Class::Pointwise) || of.is_of(Class::Arrange) {
            met.extend(graph.operands(v));
        }
    }
    None
}

/// The loop nest of a scan along a dimension of more than one element.
pub(super) fn lower_scan(
    graph: &Graph,
    realized: &Realized,
    id: ValueId,
    (kind, dim): (ScanKind, usize),
    sites: &mut Vec<Site>,
) -> Result<LoopNest> {
    let node = graph.node(id);
    let Some(&Operand::Value(x)) = node.args.first() else {
        return Err(Error::internal("a scan's operand is a tensor"));
    };
    let shape = &node.shape;
    let has_loop = |d: &usize| *d != dim && shape[*d] != 1;
    let iter: Vec<usize> = (0..shape.rank())
        .filter(has_loop)
        .map(|d| shape[d])
        .collect();
    let mut next = 0;
    let index: Vec<Expr> = (0..shape.rank())
        .map(|d| match d {
            d if d == dim => Expr::var(iter.len()),
            d if shape[d] == 1 => Expr::default(),
            _ => {
                next += 1;
                Expr::var(next - 1)
            }
        })
        .collect();
    let red = vec![shape[dim]];
    let extents: Vec<usize> = iter.iter().chain(&red).copied().collect();
    let mut expansion = Expansion::new(graph, realized, extents, sites);
    let value = expansion.value(x, &index, None)?;
    let mut body = expansion.into_body();
    let result = scan(&mut body, kind, value, node.dtype, &index[dim])?;
    // A part of a concatenation lies as the whole does.
    let layout = realized.layout(graph, id);
    let mut place = Expr::default();
    for (e, &stride) in index.iter().zip(layout.strides()) {
        place = place.add(&e.scale(stride as i64));
    }
    let nest = LoopNest {
        node: id,
        dtype: node.dtype,
        iter,
        red,
        body: body.into(),
        result,
        place,
        update: None,
        exact: node.precision == Precision::EagerExact,
    };
    Ok(nest)
}

/// Appends the scan of `value`, whose column is `position`.
fn scan(
    body: &mut Body,
    kind: ScanKind,
    value: Value,
    dtype: DType,
    position: &Expr,
) -> Result<Value> {
    let cast = |body: &mut Body, to: DType| match body.value(value).dtype == to {
        true => value,
        false => body.push(BodyOp::Cast(value), to),
    };
    let fold = |body: &mut Body, kind, value| {
        let dtype = body.value(value).dtype;
        body.push(BodyOp::Scan { kind, value }, dtype)
    };
    let from = body.value(value).dtype;
    let truth = from == DType::Bool;
    Ok(match kind {
        ScanKind::LogSumExp => return Err(Error::internal("logcumsumexp has no loops")),
        ScanKind::Sum => {
            let value = cast(body, dtype.compute());
            fold(body, ReduceKind::Sum, value)
        }
        ScanKind::Prod => {
            let value = cast(body, dtype.compute());
            fold(body, ReduceKind::Prod, value)
        }
        ScanKind::Max if truth => fold(body, ReduceKind::Any, value),
        ScanKind::Min if truth => fold(body, ReduceKind::All, value),
        ScanKind::Max => fold(body, ReduceKind::Max, value),
        ScanKind::Min => fold(body, ReduceKind::Min, value),
        ScanKind::ArgMax | ScanKind::ArgMin => {
            // The last position so far whose element is the extreme up to it; every NaN is.
            let value = if truth { cast(body, DType::U8) } else { value };
            let extreme = if kind == ScanKind::ArgMax {
                ReduceKind::Max
            } else {
                ReduceKind::Min
            };
            let best = fold(body, extreme, value);
            let mut takes = body.push(BodyOp::Binary(BinaryOp::Eq, value, best), DType::Bool);
            if from.is_float() {
                let nan = body.push(BodyOp::Unary(UnaryOp::IsNan, value), DType::Bool);
                takes = body.push(BodyOp::Binary(BinaryOp::LogicalOr, takes, nan), DType::Bool);
            }
            let at = body.push(BodyOp::Index(position.clone()), DType::I64);
            let zero = body.push_number(Number::new(Operand::Const(Scalar::Int(0)), DType::I64));
            let place = body.push(BodyOp::Select(takes, at, zero), DType::I64);
            fold(body, ReduceKind::Max, place)
        }
    })
}
