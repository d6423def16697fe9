//! Merging adjacent loops that every index walks as one (ir F6, codegen A1.10, scheduler R-09).

use super::{FusedNode, moved, roots};
use crate::body::Body;
use crate::expr::{Expr, Term, Var};
use std::sync::Arc;

/// The fused node with as few loops as its indices allow. Rows merge with rows, columns with columns.
pub(crate) fn merge_loops(mut node: FusedNode) -> FusedNode {
    let mut at = 0;
    while at + 1 < node.iter.len() + node.red.len() {
        let crosses = at + 1 == node.iter.len();
        if crosses || !mergeable(&node, at) {
            at += 1;
            continue;
        }
        let rows = node.iter.len();
        let list = if at < rows {
            &mut node.iter
        } else {
            &mut node.red
        };
        let k = if at < rows { at } else { at - rows };
        list[k] *= list[k + 1];
        list.remove(k + 1);
        // c·(n·outer + inner): the inner variable becomes the merged one, the outer one nothing.
        let extents = node.extents();
        let of = |term: &Term| match term {
            Term::Var(Var(v)) if *v as usize == at => Some(Expr::default()),
            Term::Var(Var(v)) if *v as usize == at + 1 => Some(Expr::var(at)),
            Term::Var(Var(v)) if *v as usize > at + 1 => Some(Expr::var(*v as usize - 1)),
            _ => None,
        };
        let mut body = Body::default();
        let wanted = roots(&node.stores);
        let copies = body.import(&node.body, &wanted, &of, &|_, _| None, extents.as_slice());
        let index = |e: &Expr| e.substitute(&of, extents.as_slice());
        node.stores = moved(&node.stores, copies, &index);
        node.body = Arc::new(body);
        at = at.saturating_sub(1);
    }
    node
}

/// Whether every index treats variables `at` and `at + 1` as one.
fn mergeable(node: &FusedNode, at: usize) -> bool {
    let n = node.extents()[at + 1] as i64;
    let values = (0..node.body.values().len() as u32).flat_map(|v| node.body.exprs(v));
    values
        .chain(node.stores.iter().map(|s| &s.index))
        .all(|e| walks_as_one(e, at, n))
}

fn walks_as_one(e: &Expr, at: usize, n: i64) -> bool {
    let (outer, inner) = (Var(at as u32), Var(at as u32 + 1));
    e.coefficient(outer) == e.coefficient(inner) * n
        && e.terms().iter().all(|(term, _)| match term {
            Term::Div(inner, _) | Term::Mod(inner, _) => walks_as_one(inner, at, n),
            Term::Mul(a, b) | Term::Min(a, b) | Term::Max(a, b) => {
                walks_as_one(a, at, n) && walks_as_one(b, at, n)
            }
            Term::Var(_) | Term::Value(_) => true,
        })
}
