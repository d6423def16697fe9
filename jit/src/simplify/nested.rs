//! Reductions of a reduction's result, by the one reduction that gives the same: a mean of means of equally many elements
//! is the mean of all.

use super::uses;
use crate::graph::{Graph, NodeOp, Precision};
use ferrotrace_kernels::op::{Reduce, Reshape};
use ferrotrace_kernels::ops::pool::definition::is_whole;
use ferrotrace_kernels::{Extent, Op, OpBuilder, Operand, PoolKind, ReduceKind, ValueId};
use ferrotrace_runtime::{Result, Shape};

/// A reduction of what an earlier one reduces too.
#[derive(Clone, Debug)]
pub(super) struct Nested {
    kind: ReduceKind,
    /// What is reduced, and over which of its dimensions.
    pub operand: ValueId,
    mask: u64,
    shape: Shape,
}

/// For each node that reduces the result of the same reduction, which nothing else needs, the reduction of both; the
/// first is not live any more. `rounds` says which values round.
pub(super) fn nested(graph: &Graph, live: &mut [bool], rounds: &[bool]) -> Vec<Option<Nested>> {
    let uses = uses(graph, live);
    let mut all: Vec<Option<Nested>> = vec![None; live.len()];
    for v in 0..live.len() {
        if !live[v] {
            continue;
        }
        let id = ValueId(v as u32);
        let Some((inner, between)) = inner(graph, &uses, id) else {
            continue;
        };
        if rounds[inner.0 as usize] || between.iter().any(|v| rounds[v.0 as usize]) {
            continue;
        }
        let Some(mut found) = both(graph, id, inner) else {
            continue;
        };
        // Of three, the outer two are one already.
        if let Some(first) = &all[inner.0 as usize] {
            let Some(more) = joined(graph, id, inner, first.clone()) else {
                continue;
            };
            found = more;
        }
        for dead in between.into_iter().chain([inner]) {
            live[dead.0 as usize] = false;
        }
        all[v] = Some(found);
    }
    all
}

/// Builds the reduction of both.
pub(super) fn define(nested: &Nested, b: &mut dyn OpBuilder, x: Operand) -> Result<ValueId> {
    let op = Op::from(Reduce {
        kind: nested.kind,
        mask: nested.mask,
        keepdim: false,
    });
    let reduced = b.push(op, &[x])?;
    if *b.shape(reduced) == nested.shape {
        return Ok(reduced);
    }
    let extents = nested.shape.iter().map(|&n| Extent::Size(n)).collect();
    b.push(Op::from(Reshape(extents)), &[reduced.into()])
}

/// A node as a reduction: its kind, and the dimensions of its operand.
fn reduction(graph: &Graph, id: ValueId) -> Option<(ReduceKind, u64)> {
    let NodeOp::Op(op) = &graph.node(id).op else {
        return None;
    };
    let shape = &graph.node(graph.operands(id).next()?).shape;
    let last = |n: usize| (shape.rank() - n..shape.rank()).fold(0, |mask, d| mask | 1u64 << d);
    if let Some(Reduce { kind, mask, .. }) = op.as_reduce() {
        return Some((*kind, *mask));
    }
    if let Some(pool) = op.as_adaptive_avg_pool() {
        return (pool.size == [1, 1]).then(|| (ReduceKind::Mean, last(2)));
    }
    let spec = op.as_pool().filter(|spec| is_whole(spec, &shape[..]))?;
    let kind = match spec.kind {
        PoolKind::Max => ReduceKind::Max,
        PoolKind::Avg => ReduceKind::Mean,
    };
    Some((kind, last(spec.kernel.len())))
}

/// The node that a reduction's operand is, perhaps with other dimensions of size 1, and the views between: each used once.
fn inner(graph: &Graph, uses: &[usize], id: ValueId) -> Option<(ValueId, Vec<ValueId>)> {
    reduction(graph, id)?;
    let (mut at, mut between) = (graph.operands(id).next()?, Vec::new());
    loop {
        if uses[at.0 as usize] != 1 {
            return None;
        }
        let NodeOp::Op(op) = &graph.node(at).op else {
            return None;
        };
        let reshapes = op.as_view().is_some_and(|view| view.is_reshape());
        if !reshapes {
            return Some((at, between));
        }
        let from = graph.operands(at).next()?;
        if !sizes(&graph.node(from).shape).eq(sizes(&graph.node(at).shape)) {
            return None;
        }
        between.push(at);
        at = from;
    }
}

/// Sizes other than 1.
fn sizes(shape: &Shape) -> impl Iterator<Item = usize> + '_ {
    shape.iter().copied().filter(|&n| n != 1)
}

/// The reduction of both, where it is the same.
fn both(graph: &Graph, outer: ValueId, inner: ValueId) -> Option<Nested> {
    let (kind, mask) = reduction(graph, inner)?;
    let operand = graph.operands(inner).next()?;
    let shape = graph.node(inner).shape.clone();
    let first = Nested {
        kind,
        operand,
        mask,
        shape,
    };
    joined(graph, outer, inner, first)
}

/// The reduction of `first`, whose result node `inner` is, and of `outer` behind it.
fn joined(graph: &Graph, outer: ValueId, inner: ValueId, first: Nested) -> Option<Nested> {
    use ReduceKind::*;
    let (kind, mask) = reduction(graph, outer)?;
    let (node, x) = (graph.node(outer), graph.node(first.operand));
    let folds = matches!(kind, Sum | Prod | Mean | Max | Min | Any | All);
    let fast = |v: ValueId| graph.node(v).precision == Precision::Fast;
    let plain = kind == first.kind && folds && fast(outer) && fast(inner);
    if !plain || x.shape.numel() == 0 {
        return None;
    }
    // Dimensions that the first leaves, and that the second's operand has, but for those of size 1.
    let kept = (0..x.shape.rank()).filter(|d| first.mask >> d & 1 == 0 && x.shape[*d] != 1);
    let read = &graph.node(graph.operands(outer).next()?).shape;
    let theirs = (0..read.rank()).filter(|d| read[*d] != 1);
    let (kept, theirs): (Vec<usize>, Vec<usize>) = (kept.collect(), theirs.collect());
    if kept.len() != theirs.len() {
        return None;
    }
    let further = kept
        .iter()
        .zip(&theirs)
        .filter(|(_, d)| mask >> **d & 1 == 1);
    let mask = further.fold(first.mask, |mask, (d, _)| mask | 1 << d);
    Some(Nested {
        kind,
        operand: first.operand,
        mask,
        shape: node.shape.clone(),
    })
}
