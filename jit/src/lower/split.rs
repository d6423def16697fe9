//! Splitting loops so that divisions and modulos of an index disappear (codegen A2.14, scheduler R-18).

use crate::body::Body;
use crate::expr::{Expr, Term, Var};
use crate::nest::{Destination, LoopNest, Update};
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

/// Splits loops of the nest while an index holds a division or modulo that one split removes, at most so many times.
fn split_loops(mut nest: LoopNest, most: usize) -> LoopNest {
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
        replace_variables(&mut nest, &|term| match term {
            Term::Var(v) if (v.0 as usize) < at => None,
            Term::Var(v) if v.0 as usize == at => {
                Some(Expr::var(at).scale(by).add(&Expr::var(at + 1)))
            }
            Term::Var(v) => Some(Expr::var(v.0 as usize + 1)),
            _ => None,
        });
    }
    nest
}

/// Writes a nest whose extents have changed in its new variables.
fn replace_variables(nest: &mut LoopNest, of: &dyn Fn(&Term) -> Option<Expr>) {
    let extents = nest.extents();
    let mut body = Body::default();
    let at = nest.update.as_ref().and_then(Update::at);
    let roots = body.import(
        &nest.body,
        &[nest.result, at.unwrap_or(nest.result)],
        of,
        &|_, _| None,
        extents.as_slice(),
    );
    nest.body = Arc::new(body);
    nest.place = nest.place.substitute(of, extents.as_slice());
    nest.result = roots[0];
    if let (Some(update), Some(_)) = (&mut nest.update, at) {
        update.target = Destination::At(roots[1]);
    }
}

/// Splits loops of the nest; where divisions remain, of the row-major number of several loops together, as behind a reshape of
/// a transposed tensor, these become one loop first if that leaves fewer. At most `most` such groups of loops are tried.
pub(super) fn regroup_loops(nest: LoopNest, most: usize) -> LoopNest {
    let apart = split_loops(nest, most);
    let mut least = divisions(&apart);
    let mut best = None;
    for run in runs(&apart).into_iter().take(most) {
        if least == 0 {
            break;
        }
        let joined = split_loops(join(apart.clone(), run), most);
        let left = divisions(&joined);
        if left < least {
            (best, least) = (Some(joined), left);
        }
    }
    best.unwrap_or(apart)
}

/// Divisions and modulos in a nest's indices.
fn divisions(nest: &LoopNest) -> usize {
    let mut count = 0;
    let mut add = |e: &Expr| {
        e.any(&mut |term| {
            count += usize::from(matches!(term, Term::Div(..) | Term::Mod(..)));
            false
        });
    };
    let body = &nest.body;
    (0..body.values().len()).for_each(|v| body.exprs(v as u32).into_iter().for_each(&mut add));
    add(&nest.place);
    count
}

/// Loops next to each other whose row-major number is divided somewhere, the most of them first.
fn runs(nest: &LoopNest) -> Vec<Range<usize>> {
    let (extents, iter) = (nest.extents(), nest.iter.len());
    let mut found: Vec<Range<usize>> = Vec::new();
    let body = &nest.body;
    for e in (0..body.values().len()).flat_map(|v| body.exprs(v as u32)) {
        e.any(&mut |term| {
            if let Term::Div(e, _) | Term::Mod(e, _) = term
                && let Some(run) = run_of(e, &extents, iter)
                && !found.contains(&run)
            {
                found.push(run);
            }
            false
        });
    }
    found.sort_by_key(|run| Reverse(run.len()));
    found
}

/// The loops, all over the result or all reduced, whose row-major number an expression is, up to a factor.
fn run_of(e: &Expr, extents: &[usize], iter: usize) -> Option<Range<usize>> {
    let mut variables: Vec<(usize, i64)> = Vec::new();
    for (term, coefficient) in e.terms() {
        let Term::Var(v) = term else { return None };
        variables.push((v.0 as usize, *coefficient));
    }
    variables.sort_unstable();
    let (first, (last, unit)) = (variables.first()?.0, *variables.last()?);
    let one_kind = last < iter || first >= iter;
    let mut stride = unit;
    for (at, &(v, coefficient)) in variables.iter().rev().enumerate() {
        if v + at != last || coefficient != stride {
            return None;
        }
        stride = stride.checked_mul(extents[v] as i64)?;
    }
    (one_kind && first < last).then_some(first..last + 1)
}

/// One loop in the place of several.
fn join(mut nest: LoopNest, run: Range<usize>) -> LoopNest {
    for _ in 1..run.len() {
        let (at, iter) = (run.start, nest.iter.len());
        let (loops, at_loop) = match at < iter {
            true => (&mut nest.iter, at),
            false => (&mut nest.red, at - iter),
        };
        let inner = loops.remove(at_loop + 1);
        loops[at_loop] *= inner;
        let extents = nest.extents();
        let (whole, inner) = (Expr::var(at), inner as i64);
        replace_variables(&mut nest, &|term| match term {
            Term::Var(v) if (v.0 as usize) < at => None,
            Term::Var(v) if v.0 as usize == at => Some(whole.floor_div(inner, extents.as_slice())),
            Term::Var(v) if v.0 as usize == at + 1 => Some(whole.modulo(inner, extents.as_slice())),
            Term::Var(v) => Some(Expr::var(v.0 as usize - 1)),
            _ => None,
        });
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
