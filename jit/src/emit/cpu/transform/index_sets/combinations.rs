//! Which combinations of masks the positions of a loop nest have, and how many have each.

use crate::expr::{Expr, Term, Var};

/// The most boxes of positions, between the places where conditions change, that are counted.
const PARTS: usize = 1 << 8;
/// Combinations beyond this share of the positions are left out.
const SHARE: f64 = 0.97;
/// The most masks of which all combinations are looked at.
const FEW: usize = 5;

/// Which masks hold together at nearly all positions, the most frequent combination first: counted where each condition is
/// about one loop, otherwise, of few masks, all combinations that no two of them exclude.
pub(super) fn combinations(masks: &[&[Expr]], extents: &[usize]) -> Vec<Vec<bool>> {
    match counted(masks, extents) {
        Some(found) => found,
        None if masks.len() <= FEW => possible(masks),
        None => Vec::new(),
    }
}

/// The only variable of a linear condition; `None` within `Some` for a constant one.
fn variable(condition: &Expr) -> Option<Option<Var>> {
    match condition.terms() {
        [] => Some(None),
        [(Term::Var(v), _)] => Some(Some(*v)),
        _ => None,
    }
}

/// The combinations that nearly all positions have, of conditions about one loop each.
fn counted(masks: &[&[Expr]], extents: &[usize]) -> Option<Vec<Vec<bool>>> {
    // Of each loop the first positions of its parts.
    let mut starts: Vec<(Var, Vec<i64>)> = Vec::new();
    for condition in masks.iter().flat_map(|mask| mask.iter()) {
        let Some(v) = variable(condition)? else {
            continue;
        };
        let (by, first) = (condition.coefficient(v), condition.constant());
        // by·v + first >= 0 changes where v is -first / by, rounded up, or one behind first / -by, rounded down.
        let change = match by > 0 {
            true => -first.div_euclid(by),
            false => first.div_euclid(-by) + 1,
        };
        let extent = extents[v.0 as usize] as i64;
        let at = starts.iter().position(|(other, _)| *other == v);
        let at = at.unwrap_or_else(|| {
            starts.push((v, vec![0]));
            starts.len() - 1
        });
        let places = &mut starts[at].1;
        if (1..extent).contains(&change) && !places.contains(&change) {
            places.push(change);
        }
    }
    starts
        .iter_mut()
        .for_each(|(_, places)| places.sort_unstable());
    let parts: usize = starts.iter().map(|(_, places)| places.len()).product();
    if parts > PARTS {
        return None;
    }
    let mut found: Vec<(f64, Vec<bool>)> = Vec::new();
    for part in 0..parts {
        let (mut rest, mut share) = (part, 1.0);
        let mut here: Vec<(Var, i64)> = Vec::new();
        for (v, places) in &starts {
            let (k, extent) = (rest % places.len(), extents[v.0 as usize] as i64);
            rest /= places.len();
            let end = places.get(k + 1).copied().unwrap_or(extent);
            share *= (end - places[k]) as f64 / extent as f64;
            here.push((*v, places[k]));
        }
        let position = |term: &Term| match term {
            Term::Var(v) => here.iter().find(|(other, _)| other == v).map_or(0, |h| h.1),
            _ => 0,
        };
        let holds = |mask: &&[Expr]| mask.iter().all(|e| e.evaluate(&position) >= 0);
        let combination: Vec<bool> = masks.iter().map(holds).collect();
        match found.iter_mut().find(|(_, other)| *other == combination) {
            Some((sum, _)) => *sum += share,
            None => found.push((share, combination)),
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut before = 0.0;
    found.retain(|(share, _)| {
        let wanted = before < SHARE;
        before += share;
        wanted
    });
    Some(
        found
            .into_iter()
            .map(|(_, combination)| combination)
            .collect(),
    )
}

/// The combinations that no two masks exclude.
fn possible(masks: &[&[Expr]]) -> Vec<Vec<bool>> {
    let pair = |holds: &[bool], i: usize, j: usize| match (holds[i], holds[j]) {
        (true, true) => !are_disjoint(masks[i], masks[j]),
        (true, false) => !implies(masks[i], masks[j]),
        (false, true) => !implies(masks[j], masks[i]),
        (false, false) => !are_exhaustive(masks[i], masks[j]),
    };
    let pairs = |holds: &Vec<bool>| (0..masks.len()).all(|i| (0..i).all(|j| pair(holds, i, j)));
    let of = |bits: usize| (0..masks.len()).map(|i| bits >> i & 1 == 1).collect();
    (0..1 << masks.len()).rev().map(of).filter(pairs).collect()
}

/// Whether no position fulfils both lists of conditions.
fn are_disjoint(a: &[Expr], b: &[Expr]) -> bool {
    let negative = |x: &Expr, y: &Expr| x.add(y).as_const().is_some_and(|s| s < 0);
    a.iter().any(|x| b.iter().any(|y| negative(x, y)))
}

/// Whether every position that fulfils the conditions `a` fulfils those of `b`.
fn implies(a: &[Expr], b: &[Expr]) -> bool {
    let within = |x: &Expr, y: &Expr| y.sub(x).as_const().is_some_and(|s| s >= 0);
    b.iter().all(|y| a.iter().any(|x| within(x, y)))
}

/// Whether every position fulfils one of two lists of conditions.
fn are_exhaustive(a: &[Expr], b: &[Expr]) -> bool {
    match (a, b) {
        ([x], [y]) => x.add(y).as_const().is_some_and(|s| s >= -1),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::combinations;
    use crate::expr::{Expr, Var};

    #[test]
    fn a_joined_row_has_a_combination_for_each_part() {
        let column = Expr::from(Var(0));
        let first = [Expr::from(99).sub(&column)];
        let second = [column.offset(-100), Expr::from(299).sub(&column)];
        let third = [column.offset(-300)];
        let masks: [&[Expr]; 3] = [&first, &second, &third];
        let found = combinations(&masks, &[350]);
        let parts = [
            [false, true, false],
            [true, false, false],
            [false, false, true],
        ];
        assert_eq!(found, parts);
    }

    #[test]
    fn the_inside_alone_of_a_padded_image_is_kept() {
        let (row, column) = (Expr::from(Var(0)), Expr::from(Var(1)));
        let inside = |x: &Expr| [x.offset(-1), Expr::from(1000).sub(x)];
        let all = [inside(&row), inside(&column)].concat();
        assert_eq!(combinations(&[&all], &[1002, 1002]), [[true]]);
        // Of a narrow one both combinations count.
        let narrow = [
            inside(&row),
            [column.offset(-1), Expr::from(18).sub(&column)],
        ]
        .concat();
        assert_eq!(combinations(&[&narrow], &[1002, 20]), [[true], [false]]);
    }

    #[test]
    fn conditions_of_a_triangle_exclude_each_other() {
        let (row, column) = (Expr::from(Var(0)), Expr::from(Var(1)));
        let below = [row.sub(&column)];
        let above = [column.sub(&row).offset(-1)];
        let masks: [&[Expr]; 2] = [&below, &above];
        let found = combinations(&masks, &[64, 64]);
        assert_eq!(found, [[false, true], [true, false]]);
    }
}
