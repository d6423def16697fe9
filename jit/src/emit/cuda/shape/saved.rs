//! What threads that hold a row in registers keep there from one loop over its columns to the next.

use super::super::stage::{Loop, Stages};
use super::bounds::{SAVED_BYTES, SAVED_WORK};
use crate::body::{BodyOp, Value};
use crate::schedule::FusedNode;
use ferrotrace_runtime::DType;

/// All values that later loops take from earlier ones, for a thread of so many elements of a row: where computing them again
/// is much work, and registers hold them.
pub(super) fn crossing(node: &FusedNode, stages: &Stages, elements: usize) -> Vec<Value> {
    let (values, work) = taken(node, stages);
    let pays = work >= SAVED_WORK && held(node, stages, &values) * elements <= SAVED_BYTES;
    if pays { values } else { Vec::new() }
}

/// The values that later loops take from earlier ones, without those that are as cheap to compute again, and the work of
/// computing everything again that an earlier loop computes.
fn taken(node: &FusedNode, stages: &Stages) -> (Vec<Value>, usize) {
    let body = &node.body;
    let alone: Vec<usize> = (0..body.values().len() as Value)
        .map(|v| work(node, v))
        .collect();
    let mut computed = vec![false; alone.len()];
    let mut values: Vec<Value> = Vec::new();
    let mut again = 0;
    for l in &stages.loops {
        let (old, new): (Vec<Value>, Vec<Value>) =
            l.compute.iter().partition(|&&v| computed[v as usize]);
        again += old.iter().map(|&v| alone[v as usize]).sum::<usize>();
        let operands = new.iter().flat_map(|&v| body.operands(v));
        for v in operands.chain(l.roots(node)) {
            if old.contains(&v) && !values.contains(&v) && is_worth(node, l, v, &alone) {
                values.push(v);
            }
        }
        new.iter().for_each(|&v| computed[v as usize] = true);
    }
    (values, again)
}

/// Bytes of an element of the values that one loop leaves to later ones, at most, where these are kept.
fn held(node: &FusedNode, stages: &Stages, values: &[Value]) -> usize {
    let mut stages = stages.clone();
    stages.keep(node, values);
    let loops = &stages.loops;
    let between = |s: usize| {
        let (before, after) = loops.split_at(s);
        let saved = before.iter().flat_map(|l| &l.save);
        let held = saved.filter(|v| after.iter().any(|l| l.restore.contains(v)));
        held.map(|&v| node.body.value(v).dtype.size()).sum()
    };
    (1..loops.len()).map(between).max().unwrap_or(0)
}

/// Whether a register is cheaper than computing a value of a loop again: a load or little more takes as much.
fn is_worth(node: &FusedNode, l: &Loop, v: Value, alone: &[usize]) -> bool {
    let mut needed = vec![false; alone.len()];
    needed[v as usize] = true;
    let mut work = 0;
    for &u in l.compute.iter().rev().filter(|&&u| u <= v) {
        if needed[u as usize] {
            work += alone[u as usize];
            for o in node.body.operands(u) {
                needed[o as usize] = true;
            }
        }
    }
    work > 3
}

/// The work of one operation, in additions: of a load at a computed index, as long as an access of its own takes.
fn work(node: &FusedNode, v: Value) -> usize {
    match &node.body.value(v).op {
        BodyOp::Number(_) => 0,
        BodyOp::Load { index, .. } if !index.is_affine() => 8,
        BodyOp::Unary(op, _) if op.heavy() => 8,
        BodyOp::Binary(op, _, _) if op.heavy() => 8,
        BodyOp::Random { .. } | BodyOp::Scan { .. } => 16,
        BodyOp::Check { .. } => 4,
        _ => 1,
    }
}

/// The last costly function of binary32 that more than one loop computes.
pub(super) fn costly_value(node: &FusedNode, stages: &Stages) -> Option<Value> {
    let loops = |v: Value| {
        let needs = |l: &&Loop| l.compute.contains(&v);
        stages.loops.iter().filter(needs).count()
    };
    let costly = |v: &Value| {
        let value = node.body.value(*v);
        let heavy = matches!(&value.op, BodyOp::Unary(op, _) if op.heavy());
        heavy && value.dtype == DType::F32 && loops(*v) > 1
    };
    stages.computed().into_iter().rfind(costly)
}
