//! Kernels that check the indices of others before these run, so that the host need not wait for them: once for each
//! index, where a kernel checks it for every element that it picks.

use super::kernel::{self, Setting, Writer};
use super::shape;
use super::stage::stages;
use crate::body::{Body, BodyOp, Source, Value};
use crate::emit::{Emitted, Pointer};
use crate::expr::{Expr, Term, Var};
use crate::lower::PROVED;
use crate::schedule::{FusedNode, Store};
use ferrotrace_runtime::DType;
use std::collections::{BTreeMap, BTreeSet};

/// Kernels that check all indices that a kernel does, of inputs of the graph alone, and how many checks they make; none
/// where some index is a value of the plan's, or is computed from one.
pub fn checks_of(kernel: &Emitted) -> Option<(Vec<Emitted>, usize)> {
    let node = &kernel.node;
    let body = &node.body;
    let written = |s: &&Store| kernel.pointers.contains(&Pointer::Write(s.node));
    let stores = || node.stores.iter().filter(written);
    let places = stores().filter_map(|s| s.update.as_ref()?.at());
    let needed = closure(body, stores().map(|s| s.value).chain(places));
    // What a loop over these variables checks.
    let mut loops: BTreeMap<BTreeSet<Var>, Vec<Value>> = BTreeMap::new();
    for (v, value) in body.values().iter().enumerate() {
        let checks = matches!(value.op, BodyOp::Check { site, .. } if site != PROVED);
        if checks && needed[v] {
            let of = closure(body, [v as Value]);
            let of = || (0..of.len() as Value).filter(|&v| of[v as usize]);
            if !of().all(|v| is_given(&body.value(v).op)) {
                return None;
            }
            let mut variables = BTreeSet::new();
            for expr in of().flat_map(|v| body.exprs(v)) {
                expr.any(&mut |term| {
                    variables.extend(match term {
                        Term::Var(v) => Some(*v),
                        _ => None,
                    });
                    false
                });
            }
            loops.entry(variables).or_default().push(v as Value);
        }
    }
    let nodes: Vec<FusedNode> = loops
        .into_iter()
        .map(|(variables, values)| over(node, &variables, &values))
        .collect();
    let checks = nodes.iter().map(|n| n.rows() * n.stores.len()).sum();
    Some((nodes.iter().map(emit_silent).collect(), checks))
}

/// Makes a kernel report nothing: its indices are checked before it runs.
pub fn trust(kernel: &mut Emitted) {
    let checked = Setting {
        checked: true,
        table: None,
    };
    kernel.source = kernel::again(kernel, checked).source;
    kernel.grid.reports = false;
}

/// By value, whether these need it.
fn closure(body: &Body, roots: impl IntoIterator<Item = Value>) -> Vec<bool> {
    let mut needed = vec![false; body.values().len()];
    for root in roots {
        needed[root as usize] = true;
    }
    for v in (0..needed.len()).rev() {
        if needed[v] {
            for operand in body.operands(v as Value) {
                needed[operand as usize] = true;
            }
        }
    }
    needed
}

/// Whether a value is known before a plan runs, if its operands are.
fn is_given(op: &BodyOp) -> bool {
    match op {
        BodyOp::Load { source, .. } => matches!(source, Source::Input(_)),
        BodyOp::Random { .. } | BodyOp::Reduce { .. } | BodyOp::Scan { .. } => false,
        _ => true,
    }
}

/// A node that computes values of another over these of its variables, which are all that they vary with.
fn over(node: &FusedNode, variables: &BTreeSet<Var>, values: &[Value]) -> FusedNode {
    let extents = node.extents();
    let iter: Vec<usize> = variables.iter().map(|v| extents[v.0 as usize]).collect();
    let of = |term: &Term| match term {
        Term::Var(v) => variables.iter().position(|of| of == v).map(Expr::var),
        _ => None,
    };
    let mut body = Body::default();
    let copies = body.import(&node.body, values, &of, &|_, _| None, iter.as_slice());
    let store = |value: Value| Store {
        value,
        dtype: DType::I64,
        index: Expr::default(),
        update: None,
        // Nothing is stored.
        ..node.stores[0].clone()
    };
    FusedNode {
        stores: copies.into_iter().map(store).collect(),
        iter,
        red: Vec::new(),
        body: body.into(),
        ..node.clone()
    }
}

/// The kernel of such a node.
fn emit_silent(node: &FusedNode) -> Emitted {
    let mut node = crate::schedule::merge_loops(node.clone());
    node.red = vec![node.iter.pop().unwrap_or(1)];
    let (writer, needed) = silent(&node);
    writer.kernel(&needed)
}

/// A writer of a kernel that checks indices and stores nothing, of a node whose loops are final, and the stores whose values
/// it computes.
pub(super) fn silent(node: &FusedNode) -> (Writer<'_>, Vec<usize>) {
    let needed: Vec<usize> = (0..node.stores.len()).collect();
    let stages = stages(node, &needed);
    let shape = shape::of(node, &stages, &needed, false);
    let mut writer = Writer::new(node, stages, shape);
    writer.silent = true;
    (writer, needed)
}
