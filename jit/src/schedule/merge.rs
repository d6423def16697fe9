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
        node = merged(node, at);
        at = at.saturating_sub(1);
    }
    node
}

/// The fused node with its last loop, of at most `most` turns, and the one around it as one, where conditions alone tell
/// them apart, as of rows that are joined or padded: a condition about the outer one is written about both. Longer rows test
/// such a condition once, not for every vector.
pub(crate) fn merge_under_conditions(node: FusedNode, most: usize) -> FusedNode {
    let last = node.iter.len().saturating_sub(1);
    let Some(at) = last.checked_sub(1).filter(|_| node.red.is_empty()) else {
        return node;
    };
    let n = node.iter[last];
    let is_short = (2..=most).contains(&n);
    if !is_short || node.body.masks().is_empty() {
        return node;
    }
    let masks = node.body.masks().iter().map(|mask| {
        let conditions = mask.iter().map(|e| about_both(e, at, n as i64));
        conditions.collect::<Option<Vec<Expr>>>()
    });
    let Some(masks) = masks.collect::<Option<Vec<_>>>() else {
        return node;
    };
    let mut together = node.clone();
    Arc::make_mut(&mut together.body).set_masks(masks);
    match mergeable(&together, at) {
        true => merge_loops(merged(together, at)),
        false => node,
    }
}

/// A condition that walks variables `at` and `at + 1`, of `n` turns, as one, and holds for the same positions: `outer + s >= 0`
/// where `n·(outer + s) + inner >= 0`, and `s - outer >= 0` where `n·(s - outer) + n - 1 - inner >= 0`.
fn about_both(e: &Expr, at: usize, n: i64) -> Option<Expr> {
    if walks_as_one(e, at, n) {
        return Some(e.clone());
    }
    let (outer, inner) = (Var(at as u32), Var(at as u32 + 1));
    let by = e.coefficient(outer);
    let rest = e.sub(&Expr::from(outer).scale(by));
    if rest.uses(outer) || rest.uses(inner) {
        return None;
    }
    let (whole, inner) = (e.scale(n), Expr::from(inner));
    match by {
        1 => Some(whole.add(&inner)),
        -1 => Some(whole.sub(&inner).add(&Expr::from(n - 1))),
        _ => None,
    }
}

/// The fused node with variables `at` and `at + 1` as one.
fn merged(mut node: FusedNode, at: usize) -> FusedNode {
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
    renumbered(node, &|v| match v {
        v if v == at => Some(Expr::default()),
        v if v > at => Some(Expr::var(v - 1)),
        _ => None,
    })
}

/// The fused node with row variable `at` behind its other rows (loop interchange).
pub(crate) fn exchanged(mut node: FusedNode, at: usize) -> FusedNode {
    let extent = node.iter.remove(at);
    node.iter.push(extent);
    let last = node.iter.len() - 1;
    renumbered(node, &|v| match v {
        v if v == at => Some(Expr::var(last)),
        v if v > at && v <= last => Some(Expr::var(v - 1)),
        _ => None,
    })
}

/// A reduction with the row variable last along which most loads are contiguous, where fewer are along the last one and along
/// the columns: lanes run along it. Its results, which are stored with a distance between them, are few: it has at least
/// `least` columns. The row has as many turns.
pub(crate) fn rows_along_memory(node: FusedNode, least: usize) -> FusedNode {
    let (rows, extents) = (node.iter.len(), node.extents());
    let columns = rows..extents.len();
    let by_column = |s: &super::Store| columns.clone().any(|v| s.index.uses(Var(v as u32)));
    let few = node.cols() < least || rows < 2;
    if few || !node.reduces() || node.updates() || node.stores.iter().any(by_column) {
        return node;
    }
    let contiguous = |v: usize| {
        let along = |(.., index): &(_, _, &Expr)| index.coefficient(Var(v as u32)).abs() == 1;
        node.loads().filter(along).count()
    };
    let inner = contiguous(rows - 1).max(contiguous(extents.len() - 1));
    let best = (0..rows - 1).rev().max_by_key(|&v| contiguous(v));
    match best.filter(|&v| extents[v] >= least && contiguous(v) > inner) {
        Some(at) => exchanged(node, at),
        None => node,
    }
}

/// A node whose loops were changed, with other expressions for its variables.
fn renumbered(mut node: FusedNode, of: &dyn Fn(usize) -> Option<Expr>) -> FusedNode {
    let extents = node.extents();
    let of = |term: &Term| match term {
        Term::Var(Var(v)) => of(*v as usize),
        _ => None,
    };
    let mut body = Body::default();
    let wanted = roots(&node.stores);
    let copies = body.import(&node.body, &wanted, &of, &|_, _| None, extents.as_slice());
    let index = |e: &Expr| e.substitute(&of, extents.as_slice());
    node.stores = moved(&node.stores, copies, &index);
    node.body = Arc::new(body);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_about_one_loop_are_written_about_two() {
        let n = 5;
        for (by, constant) in (-7..=7).flat_map(|c| [(1, c), (-1, c)]) {
            // Another variable beside it.
            let rest = Expr::var(2).scale(3).add(&Expr::from(constant));
            let about_outer = Expr::var(0).scale(by).add(&rest);
            let both = about_both(&about_outer, 0, n).expect("a condition about both");
            assert!(walks_as_one(&both, 0, n));
            for (outer, inner, other) in (0..6).flat_map(|o| (0..n).map(move |i| (o, i, o % 3))) {
                let values = [outer, inner, other];
                let at = |term: &Term| match term {
                    Term::Var(Var(v)) => Some(Expr::from(values[*v as usize])),
                    _ => None,
                };
                let holds = |e: &Expr| {
                    let value = e.substitute(&at, &[6usize, 5, 3][..]).as_const();
                    value.expect("a number") >= 0
                };
                assert_eq!(
                    holds(&both),
                    holds(&about_outer),
                    "{by} {constant} {values:?}"
                );
            }
        }
        // A condition about both already, and one about the inner loop.
        let flat = Expr::var(0).scale(n).add(&Expr::var(1));
        assert_eq!(about_both(&flat, 0, n), Some(flat));
        assert_eq!(about_both(&Expr::var(1), 0, n), None);
        assert_eq!(about_both(&Expr::var(0).scale(2), 0, n), None);
    }
}
