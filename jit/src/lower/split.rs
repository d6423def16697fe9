//! Splitting loops so that divisions and modulos of an index disappear (codegen A2.14, scheduler R-18).

use crate::body::Body;
use crate::expr::{Expr, Term, Var};
use crate::nest::{Destination, LoopNest, Update};
use std::sync::Arc;

/// Splits loops of the nest while an index holds a division or modulo that one split removes, at most so many times.
pub(super) fn split_loops(mut nest: LoopNest, most: usize) -> LoopNest {
    for _ in 0..most {
        let Some((var, by)) = find_split(&nest.body, &nest.extents()) else {
            break;
        };
        let at = var.0 as usize;
        let inner = by as usize;
        let iter = nest.iter.len();
        if at < iter {
            nest.iter[at] /= inner;
            nest.iter.insert(at + 1, inner);
        } else {
            nest.red[at - iter] /= inner;
            nest.red.insert(at - iter + 1, inner);
        }
        let extents = nest.extents();
        let of = |term: &Term| match term {
            Term::Var(v) if (v.0 as usize) < at => None,
            Term::Var(v) if v.0 as usize == at => {
                Some(Expr::var(at).scale(by).add(&Expr::var(at + 1)))
            }
            Term::Var(v) => Some(Expr::var(v.0 as usize + 1)),
            _ => None,
        };
        let mut body = Body::default();
        let at = nest.update.as_ref().and_then(Update::at);
        let roots = body.import(
            &nest.body,
            &[nest.result, at.unwrap_or(nest.result)],
            &of,
            &|_, _| None,
            extents.as_slice(),
        );
        nest.body = Arc::new(body);
        nest.place = nest.place.substitute(&of, extents.as_slice());
        nest.result = roots[0];
        if let (Some(update), Some(_)) = (&mut nest.update, at) {
            update.target = Destination::At(roots[1]);
        }
    }
    nest
}

/// A variable and the inner extent of a split that simplifies a division or modulo.
fn find_split(body: &Body, extents: &[usize]) -> Option<(Var, i64)> {
    for value in 0..body.values().len() {
        for expr in body.exprs(value as u32) {
            let mut found = None;
            expr.any(&mut |term| {
                if found.is_none()
                    && let Term::Div(e, c) | Term::Mod(e, c) = term
                {
                    found = split_of(e, *c, extents);
                }
                false
            });
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

/// For ⌊e/c⌋ or e mod c: a variable of e whose stride divides c and whose extent crosses it evenly.
pub(crate) fn split_of(e: &Expr, c: i64, extents: &[usize]) -> Option<(Var, i64)> {
    for (term, coefficient) in e.terms() {
        let Term::Var(v) = term else { continue };
        let n = extents[v.0 as usize] as i64;
        if *coefficient <= 0 || c % coefficient != 0 {
            continue;
        }
        let by = c / coefficient;
        if by > 1 && by < n && n % by == 0 {
            // The part below the split must stay under c, or nothing is gained.
            let low = e
                .sub(&Expr::from(*v).scale(*coefficient))
                .offset(-e.constant());
            if low
                .offset((by - 1) * coefficient + e.constant().rem_euclid(c))
                .range(extents)
                .high
                < c
                && low.range(extents).low >= 0
            {
                return Some((*v, by));
            }
        }
    }
    None
}
