//! Loops over the columns of a row: which values each computes, and which are kept from one to the next
//! (codegen A5.5, A3.6, A3.7).
//!
//! A value's stage is the number of the row's reductions that must be finished before it, one after another. Stage `s`
//! of a kernel first computes the row's values of that stage, then runs one loop over the columns for the reductions
//! and stores of that stage. A value of an earlier stage that a later loop needs is computed again, unless it is
//! expensive: then the loop that first computes it keeps it in a scratch row.

use crate::body::{BodyOp, Value};
use crate::nest::Update;
use crate::schedule::FusedNode;
use ferrotrace_kernels::ReduceKind;

/// One loop over the columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Loop {
    /// Values computed, in order.
    pub compute: Vec<Value>,
    /// Values read back from scratch rows.
    pub restore: Vec<Value>,
    /// Values written to scratch rows.
    pub save: Vec<Value>,
    /// Reductions that run.
    pub reduces: Vec<Value>,
    /// Stores of values that vary by column: positions among the node's stores.
    pub stores: Vec<usize>,
}

/// The whole kernel, stage by stage.
#[derive(Clone, Debug)]
pub(super) struct Stages {
    /// Values of a row computed before the loop of their stage, in order.
    pub row: Vec<Vec<Value>>,
    /// Stores of row values, by stage.
    pub row_stores: Vec<Vec<usize>>,
    /// The loops.
    pub loops: Vec<Loop>,
    /// Values with a scratch row.
    pub saved: Vec<Value>,
}

/// Whether computing the operation again costs more than reading it back from the first cache.
fn is_heavy(op: &BodyOp) -> bool {
    match op {
        BodyOp::Unary(op, _) => op.heavy(),
        BodyOp::Binary(op, _, _) => op.heavy(),
        BodyOp::Random { .. } => true,
        BodyOp::Load { index, .. } => !index.is_affine(),
        _ => false,
    }
}

/// Orders the values of a fused node whose needed stores are `stores`.
pub(super) fn stages(node: &FusedNode, stores: &[usize]) -> Stages {
    let body = &node.body;
    let n = body.values().len();
    let dependence = node.dependence();
    let mut needed = vec![false; n];
    // The place of a scatter is printed where it stores: of its index value only the operands are computed.
    let at = |s: usize| node.stores[s].update.as_ref().and_then(Update::at);
    let places = |s: usize| at(s).map_or_else(Default::default, |at| body.operands(at));
    for &s in stores {
        needed[node.stores[s].value as usize] = true;
        for v in places(s) {
            needed[v as usize] = true;
        }
    }
    for v in (0..n).rev() {
        if needed[v] {
            for operand in body.operands(v as Value) {
                needed[operand as usize] = true;
            }
        }
    }
    let mut stage = vec![0usize; n];
    for v in 0..n {
        let of = body
            .operands(v as Value)
            .iter()
            .map(|&o| stage[o as usize])
            .max()
            .unwrap_or(0);
        stage[v] = of + usize::from(matches!(body.value(v as Value).op, BodyOp::Reduce { .. }));
    }
    let is_inner = |v: Value| dependence[v as usize].inner;
    let last = (0..n)
        .filter(|&v| needed[v])
        .map(|v| stage[v])
        .max()
        .unwrap_or(0);
    let mut row = vec![Vec::new(); last + 1];
    for v in (0..n).filter(|&v| needed[v] && !is_inner(v as Value)) {
        row[stage[v]].push(v as Value);
    }
    let mut row_stores = vec![Vec::new(); last + 1];
    let mut loops = vec![Loop::default(); last + 1];
    for v in (0..n).filter(|&v| needed[v]) {
        if let BodyOp::Reduce { value, .. } = body.value(v as Value).op {
            loops[stage[value as usize]].reduces.push(v as Value);
        }
    }
    for &s in stores {
        let value = node.stores[s].value;
        if at(s).is_some() {
            let last = places(s).into_iter().map(|v| stage[v as usize]).max();
            let last = last.unwrap_or(0).max(stage[value as usize]);
            loops[last].stores.push(s);
        } else if is_inner(value) || node.varies(&node.stores[s]) {
            loops[stage[value as usize]].stores.push(s);
        } else {
            row_stores[stage[value as usize]].push(s);
        }
    }
    // What each loop needs, everything computed again.
    let roots = |l: &Loop| -> Vec<Value> {
        let reduced = l.reduces.iter().map(|&r| match body.value(r).op {
            BodyOp::Reduce { value, .. } => value,
            _ => r,
        });
        reduced
            .chain(l.stores.iter().map(|&s| node.stores[s].value))
            .chain(l.stores.iter().flat_map(|&s| places(s)))
            .filter(|&v| is_inner(v))
            .collect()
    };
    let close = |roots: &[Value], stop: &dyn Fn(Value) -> bool| -> Vec<bool> {
        let mut in_loop = vec![false; n];
        for &r in roots {
            in_loop[r as usize] = true;
        }
        for v in (0..n).rev() {
            if in_loop[v] && !stop(v as Value) {
                for operand in body.operands(v as Value) {
                    in_loop[operand as usize] |= is_inner(operand);
                }
            }
        }
        in_loop
    };
    let full: Vec<Vec<bool>> = loops.iter().map(|l| close(&roots(l), &|_| false)).collect();
    let first: Vec<usize> = (0..n)
        .map(|v| full.iter().position(|l| l[v]).unwrap_or(usize::MAX))
        .collect();
    let mut heavy = vec![false; n];
    for v in 0..n {
        heavy[v] = is_heavy(&body.value(v as Value).op)
            || body
                .operands(v as Value)
                .iter()
                .any(|&o| is_inner(o) && heavy[o as usize]);
    }
    let mut saved: Vec<Value> = Vec::new();
    for (s, in_loop) in full.iter().enumerate() {
        let old = |v: usize| first[v] < s;
        let root_set = roots(&loops[s]);
        for v in (0..n).filter(|&v| in_loop[v] && old(v) && heavy[v]) {
            let used_here = root_set.contains(&(v as Value))
                || (0..n).any(|u| {
                    in_loop[u] && !old(u) && body.operands(u as Value).contains(&(v as Value))
                });
            if used_here && !saved.contains(&(v as Value)) {
                saved.push(v as Value);
            }
        }
    }
    for (s, l) in loops.iter_mut().enumerate() {
        let restored = |v: Value| saved.contains(&v) && first[v as usize] < s;
        let mut root_set = roots(l);
        l.save = saved
            .iter()
            .copied()
            .filter(|&v| first[v as usize] == s)
            .collect();
        root_set.extend(&l.save);
        let in_loop = close(&root_set, &restored);
        for v in (0..n).filter(|&v| in_loop[v]) {
            if restored(v as Value) {
                &mut l.restore
            } else {
                &mut l.compute
            }
            .push(v as Value);
        }
    }
    Stages {
        row,
        row_stores,
        loops,
        saved,
    }
}

/// Whether the reduction keeps a position beside its value.
pub(super) fn has_position(kind: ReduceKind) -> bool {
    matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin)
}
