//! What a kernel's loads ask of its shape: the length of a chunk, and what is worth keeping in registers.

use super::super::stage::Stages;
use super::bounds::CHUNK_ACCESSES;
use crate::body::{BodyOp, Value};
use crate::expr::{Expr, Term, Var};
use crate::schedule::FusedNode;
use ferrotrace_kernels::ReduceKind;
use std::collections::BTreeSet;

/// Elements of a chunk of rows side by side, at one column, of a node whose first loop alone reduces: what 16 bytes hold of
/// the narrowest stream that is contiguous along the last row variable, at most 32 bytes of the widest. `None` where a
/// position is kept, or rows do not fill chunks.
pub(super) fn lanes_across(node: &FusedNode, stages: &Stages, needed: &[usize]) -> Option<usize> {
    let row = Var(node.iter.len().checked_sub(1)? as u32);
    let values = stages.across(node);
    let body = &node.body;
    let placed = stages.reductions().into_iter().any(|r| {
        matches!(
            body.value(r).op,
            BodyOp::Reduce {
                kind: ReduceKind::ArgMax | ReduceKind::ArgMin,
                ..
            }
        )
    });
    let lanes = lanes_along(node, (row, &values), needed, &NONE)?;
    let fills = node.iter[row.0 as usize].is_multiple_of(lanes);
    (lanes > 1 && fills && !placed).then_some(lanes)
}

/// Whether an index moves by one with the variable and is nothing else of it; `may` says which values may be part of it.
pub(super) fn is_unit(e: &Expr, v: Var, may: &dyn Fn(Value) -> bool) -> bool {
    let elsewhere = e.terms().iter().any(|(term, _)| match term {
        Term::Var(_) => false,
        other => Expr::from(other.clone()).any(&mut |t| match *t {
            Term::Value(value) => !may(value),
            ref t => *t == Term::Var(v),
        }),
    });
    e.coefficient(v) == 1 && !elsewhere
}

/// No value: before a row's values are computed.
const NONE: fn(Value) -> bool = |_| false;

/// Elements of a chunk: what 16 bytes hold of the narrowest contiguous stream, at most 32 bytes of the widest.
pub(super) fn lanes(node: &FusedNode, stages: &Stages, needed: &[usize]) -> usize {
    let vector = Var(node.extents().len() as u32 - 1);
    let dependence = node.dependence();
    let of_row = |v: Value| !dependence[v as usize].inner;
    let in_loop: BTreeSet<Value> = stages
        .loops
        .iter()
        .flat_map(|l| &l.compute)
        .copied()
        .collect();
    let in_loop: Vec<Value> = in_loop.into_iter().collect();
    let Some(lanes) = lanes_along(node, (vector, &in_loop), needed, &of_row) else {
        return 1;
    };
    let n = node.extents()[vector.0 as usize];
    // Short lines must not leave lanes idle.
    if n < 4 * lanes && !n.is_multiple_of(lanes) {
        return 1;
    }
    let loads = in_loop.iter().filter(|&&v| is_load(node, v)).count();
    bounded(lanes, loads + needed.len())
}

/// Elements of a chunk of a kernel with so many loads and stores: each element of each is code of its own, which takes a
/// compiler more than its share of time.
fn bounded(mut lanes: usize, accesses: usize) -> usize {
    while lanes > 1 && lanes * accesses > CHUNK_ACCESSES {
        lanes /= 2;
    }
    lanes
}

fn is_load(node: &FusedNode, v: Value) -> bool {
    matches!(node.body.value(v).op, BodyOp::Load { .. })
}

/// Elements of a chunk along a variable, of a loop that computes these values: what 16 bytes hold of the narrowest
/// contiguous stream, at most 32 bytes of the widest. `None` without a stream.
fn lanes_along(
    node: &FusedNode,
    (vector, in_loop): (Var, &[Value]),
    needed: &[usize],
    may: &dyn Fn(Value) -> bool,
) -> Option<usize> {
    let loads = in_loop
        .iter()
        .filter_map(|&v| match &node.body.value(v).op {
            BodyOp::Load {
                dtype,
                index,
                mask: None,
                ..
            } if is_unit(index, vector, may) => Some(dtype.size()),
            _ => None,
        });
    let stores = needed.iter().filter_map(|&s| {
        let store = &node.stores[s];
        is_unit(&store.index, vector, may).then(|| store.dtype.size())
    });
    let sizes: Vec<usize> = loads.chain(stores).collect();
    let (least, most) = (*sizes.iter().min()?, *sizes.iter().max()?);
    let wide = |v: &Value| match &node.body.value(*v).op {
        BodyOp::Random { .. } | BodyOp::Check { .. } => true,
        // A position is computed of 32 bits for each element, and takes no register of a chunk.
        BodyOp::Index(_) => false,
        _ => node.body.value(*v).dtype.size() == 8,
    };
    let limit = if in_loop.iter().any(wide) { 4 } else { 8 };
    Some((16 / least).min(32 / most).min(limit))
}

/// The load at which the chunks of rows are to begin where these start at any element: the first whose rows do.
pub(super) fn unaligned_load(node: &FusedNode, stages: &Stages, lanes: usize) -> Option<Value> {
    let vector = Var(node.extents().len() as u32 - 1);
    let rows = 0..node.iter.len() as u32;
    let starts_anywhere = |index: &Expr| {
        let odd = |c: i64| c % lanes as i64 != 0;
        index.is_affine() && rows.clone().any(|v| odd(index.coefficient(Var(v))))
    };
    let is_long = node.red.len() == 1 && node.red[0] >= 4 * lanes;
    let fits = |v: &Value| match &node.body.value(*v).op {
        BodyOp::Load {
            index, mask: None, ..
        } => is_unit(index, vector, &NONE) && starts_anywhere(index),
        _ => false,
    };
    let may = lanes > 1 && is_long && node.rows() > 1;
    may.then(|| stages.computed().into_iter().find(fits))
        .flatten()
}

/// Whether a kernel of one loop reads whole chunks where a row's values say.
pub(super) fn gathers_rows(node: &FusedNode, stages: &Stages, lanes: usize) -> bool {
    let vector = Var(node.extents().len() as u32 - 1);
    let dependence = node.dependence();
    let of_row = |v: Value| !dependence[v as usize].inner;
    let mut all = stages.computed().into_iter();
    lanes > 1
        && all.any(|v| match &node.body.value(v).op {
            BodyOp::Load {
                index, mask: None, ..
            } => is_unit(index, vector, &of_row) && !is_unit(index, vector, &NONE),
            _ => false,
        })
}

/// Loads of whole chunks in loops that scan, and the bytes of their elements.
pub(super) fn scanned_loads(
    node: &FusedNode,
    stages: &Stages,
    lanes: usize,
) -> Vec<(Value, usize)> {
    let vector = Var(node.extents().len() as u32 - 1);
    let all = stages.computed().into_iter();
    all.filter_map(|v| match &node.body.value(v).op {
        BodyOp::Load {
            dtype,
            index,
            mask: None,
            ..
        } if lanes > 1 && is_unit(index, vector, &NONE) => Some((v, dtype.size())),
        _ => None,
    })
    .collect()
}

/// Loads of whole chunks that at least `often` loops need, and the bytes of their elements.
pub(super) fn repeated_loads(
    node: &FusedNode,
    stages: &Stages,
    lanes: usize,
    often: usize,
) -> Vec<(Value, usize)> {
    let vector = Var(node.extents().len() as u32 - 1);
    // A row's values are known before its one loop, not before those of several.
    let dependence = node.dependence();
    let known = |v: Value| stages.loops.len() == 1 && !dependence[v as usize].inner;
    let loops = |v: Value| {
        stages
            .loops
            .iter()
            .filter(|l| l.compute.contains(&v))
            .count()
    };
    let all = stages.computed();
    let load = |v: Value| match &node.body.value(v).op {
        BodyOp::Load {
            dtype,
            index,
            mask: None,
            ..
        } if lanes > 1 && is_unit(index, vector, &known) && loops(v) >= often => {
            Some((v, dtype.size()))
        }
        _ => None,
    };
    all.into_iter().filter_map(load).collect()
}
