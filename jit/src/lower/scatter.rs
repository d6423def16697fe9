//! Scatters as loop nests over the source: rows run over the dimensions that are not scattered, whose positions never
//! meet; columns over what the indices cover, in order, unless what meets is equal (ir P3, E18, E19).

use super::expand::{Expansion, broadcast_index};
use super::{Realized, Site};
use crate::body::BodyOp;
use crate::expr::Expr;
use crate::graph::{Graph, Node, NodeOp, Precision};
use crate::nest::{Destination, LoopNest, Update};
use crate::policy::Policy;
use ferrotrace_kernels::op::{IndexPut, Scatter};
use ferrotrace_kernels::{BinaryOp, Op, Operand, ScatterMode, ValueId};
use ferrotrace_runtime::{DType, Error, Result, Shape};

/// How a value joins what is at its place; the outer `None` where it needs more than that.
fn combine(op: &Op) -> Option<Option<BinaryOp>> {
    if let Some(put) = op.as_index_put() {
        return Some(put.accumulate.then_some(BinaryOp::Add));
    }
    let scatter = op.as_scatter()?;
    match scatter.mode {
        ScatterMode::Assign => Some(None),
        _ if !scatter.include_self => None,
        ScatterMode::Sum => Some(Some(BinaryOp::Add)),
        ScatterMode::Prod => Some(Some(BinaryOp::Mul)),
        ScatterMode::Amax => Some(Some(BinaryOp::Maximum)),
        ScatterMode::Amin => Some(Some(BinaryOp::Minimum)),
        ScatterMode::Mean => None,
    }
}

/// The source's extents, and which of them are scattered.
fn source(graph: &Graph, op: &Op, node: &Node) -> Option<(Shape, Vec<bool>)> {
    let shape = |which: usize| match node.args.get(which) {
        Some(Operand::Value(v)) => Some(graph.node(*v).shape.clone()),
        _ => None,
    };
    if let Some(scatter) = op.as_scatter() {
        let index = shape(1)?;
        let scattered = (0..index.rank()).map(|d| d == scatter.dim).collect();
        return Some((index, scattered));
    }
    let IndexPut { axes, at, .. } = op.as_index_put()?;
    let mut block = Shape::scalar();
    for which in 2..node.args.len() {
        block = block.broadcast(&shape(which)?)?;
    }
    let kept: Vec<usize> = (0..node.shape.rank())
        .filter(|&d| !axes.contains(&(d as u8)))
        .map(|d| node.shape[d])
        .collect();
    let all = kept[..*at].iter().chain(block.iter()).chain(&kept[*at..]);
    let scattered = (0..kept.len() + block.rank())
        .map(|d| (*at..*at + block.rank()).contains(&d))
        .collect();
    Some((all.copied().collect(), scattered))
}

/// Rows of the nest: what can run in parallel.
pub(super) fn rows(graph: &Graph, op: &Op, node: &Node) -> usize {
    if node.commutes {
        return elements(graph, op, node);
    }
    source(graph, op, node).map_or(0, |(shape, scattered)| {
        let kept = shape.iter().zip(&scattered).filter(|(_, s)| !**s);
        kept.map(|(n, _)| n).product()
    })
}

/// Whether a ready-made kernel is to compute the scatter: where the back end has no loops for it; where places must be
/// counted or cleared first; where half-precision values meet, which are rounded once, after all of them; where so many
/// floats may meet in one place that a plain sum of them loses digits; and where the source has no elements.
pub(super) fn is_library_scatter(graph: &Graph, op: &Op, node: &Node, policy: &Policy) -> bool {
    let Some(combine) = combine(op) else {
        return true;
    };
    let empty = source(graph, op, node).is_none_or(|(shape, _)| shape.numel() == 0);
    let half = combine.is_some() && node.dtype.is_half();
    let long = combine == Some(BinaryOp::Add) && node.dtype.is_float() && {
        let meeting = elements(graph, op, node) / rows(graph, op, node).max(1);
        meeting > policy.thresholds.meeting
    };
    (!policy.target.scatters && may_meet(graph, op, node)) || empty || half || long
}

/// Whether two elements of the source may have one place.
fn may_meet(graph: &Graph, op: &Op, node: &Node) -> bool {
    elements(graph, op, node) != rows(graph, op, node)
}

/// Whether lanes are written one by one, those of a source with at least one element for each `per` of what it is
/// written to. One as large, which lies in memory already, gains nothing from a generated loop: the copy which
/// overwriting in place saves is the lesser part, and the ready-made kernel writes its lanes with less about it.
pub(super) fn is_lane_by_lane(graph: &Graph, op: &Op, node: &Node, per: usize) -> bool {
    let rank = node.shape.rank();
    let runs = op.as_index_put().is_some_and(|IndexPut { axes, at, .. }| {
        *at < rank - axes.len() && axes.iter().all(|&a| (a as usize) + 1 < rank)
    });
    !runs && elements(graph, op, node).saturating_mul(per) >= node.shape.numel()
}

/// Elements of the source.
fn elements(graph: &Graph, op: &Op, node: &Node) -> usize {
    source(graph, op, node).map_or(0, |(shape, _)| shape.numel())
}

/// Whether one thread would compute a large source while it writes it lane by lane. With fewer elements than a quarter
/// of what it is written to, the copy that overwriting saves weighs more.
pub(super) fn is_serial(graph: &Graph, op: &Op, node: &Node, policy: &Policy) -> bool {
    rows(graph, op, node) == 1
        && elements(graph, op, node) >= policy.thresholds.serial_scatter
        && is_lane_by_lane(graph, op, node, 4)
}

/// The loop nest of a scatter.
pub(super) fn lower_scatter(
    graph: &Graph,
    realized: &Realized,
    id: ValueId,
    sites: &mut Vec<Site>,
) -> Result<LoopNest> {
    let node = graph.node(id);
    let (NodeOp::Op(op), Some(Operand::Value(x))) = (&node.op, node.args.first()) else {
        return Err(missing());
    };
    let (shape, scattered) = source(graph, op, node).ok_or_else(missing)?;
    let combine = combine(op).ok_or_else(missing)?;
    let of = |wanted: bool| -> Vec<usize> {
        let list = shape.iter().zip(&scattered);
        list.filter(|(n, s)| (**s && !node.commutes) == wanted && **n != 1)
            .map(|(n, _)| *n)
            .collect()
    };
    let (iter, red) = (of(false), of(true));
    let (mut row, mut column) = (0, iter.len());
    let index: Vec<Expr> = shape
        .iter()
        .zip(&scattered)
        .map(|(&n, &s)| {
            let next = match s && !node.commutes {
                true => &mut column,
                false => &mut row,
            };
            if n == 1 {
                return Expr::default();
            }
            *next += 1;
            Expr::var(*next - 1)
        })
        .collect();
    let extents: Vec<usize> = iter.iter().chain(&red).copied().collect();
    let mut expansion = Expansion::new(graph, realized, extents, sites);
    let (place, which) = place(&mut expansion, (id, op, node), &index, &scattered)?;
    let same_rank = matches!(node.args.get(which), Some(Operand::Value(v))
        if graph.node(*v).shape.rank() == index.len());
    // A scatter's source covers its index, and may be larger; any other is broadcast.
    let result = match (&node.args[which], op.as_scatter()) {
        (Operand::Value(v), Some(_)) if same_rank => expansion.element(*v, node.dtype, &index)?,
        _ => expansion.operand(node, which, node.dtype, &index, None)?,
    };
    let mut flat = Expr::default();
    for (e, &stride) in place.iter().zip(&node.shape.strides()) {
        flat = flat.add(&e.scale(stride as i64));
    }
    let mut body = expansion.into_body();
    let at = body.push(BodyOp::Index(flat), DType::I64);
    let base = realized.window(graph, *x).ok_or_else(missing)?;
    Ok(LoopNest {
        node: id,
        dtype: node.dtype,
        iter,
        red,
        body: body.into(),
        result,
        place: Expr::default(),
        update: Some(Update {
            target: Destination::At(at),
            combine,
            base,
        }),
        exact: node.precision == Precision::EagerExact,
    })
}

/// Where an element of the source goes, by dimension, and which operand the source is. `index` says which element it is,
/// and `scattered` of each of its dimensions whether indices say where it goes.
fn place(
    expansion: &mut Expansion<'_>,
    (id, op, node): (ValueId, &Op, &Node),
    index: &[Expr],
    scattered: &[bool],
) -> Result<(Vec<Expr>, usize)> {
    let mut place = Vec::with_capacity(node.shape.rank());
    match (op.as_index_put(), op.as_scatter()) {
        (Some(IndexPut { axes, .. }), _) => {
            let of = |wanted: bool| {
                let all = index.iter().zip(scattered);
                all.filter(move |(_, s)| **s == wanted)
                    .map(|(e, _)| e.clone())
            };
            let (block, mut kept): (Vec<Expr>, _) = (of(true).collect(), of(false));
            for d in 0..node.shape.rank() {
                place.push(match axes.iter().position(|&a| a as usize == d) {
                    Some(which) => {
                        let (idx, idx_shape) = expansion.tensor(node, 2 + which)?;
                        let at = broadcast_index(&idx_shape, &block);
                        expansion.checked(id, idx, &at, (d, node.shape[d]), None)?
                    }
                    None => kept.next().ok_or_else(missing)?,
                });
            }
            Ok((place, 1))
        }
        (_, Some(Scatter { dim, .. })) => {
            let (idx, _) = expansion.tensor(node, 1)?;
            place.extend_from_slice(index);
            if let Some(at) = place.get_mut(*dim) {
                *at = expansion.checked(id, idx, index, (*dim, node.shape[*dim]), None)?;
            }
            Ok((place, 2))
        }
        _ => Err(missing()),
    }
}

fn missing() -> Error {
    Error::internal("a scatter without its operands")
}
