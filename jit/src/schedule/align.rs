//! Giving two fused nodes one domain: the variables of one written in those of the other.
//!
//! Everything rests on one equation: a buffer position that both compute. Where the position runs over every value of
//! a range exactly once on both sides (a mixed-radix number of distinct variables), each variable of one side is a
//! quotient and remainder of the other side's position, which simplifies to single variables whenever the loops agree.

use super::access::{difference, mismatch};
use super::{FusedNode, Mismatch, Refusal};
use crate::body::Source;
use crate::expr::{Expr, Term, Var};
use crate::nest::flat_index;

/// One domain for two nodes, and the variables of each written in it.
pub(super) struct Alignment {
    pub iter: Vec<usize>,
    pub red: Vec<usize>,
    /// Variables of the earlier node.
    pub first: Vec<Expr>,
    /// Variables of the later node.
    pub second: Vec<Expr>,
}

/// A position as a mixed-radix number: (variable, coefficient), greatest coefficient first, and how many values.
struct Radix {
    digits: Vec<(usize, i64)>,
    numel: i64,
}

/// The position's digits if it takes each of `0..numel` exactly once over its variables.
fn radix(e: &Expr, extents: &[usize]) -> Option<Radix> {
    if e.constant() != 0 || !e.is_affine() {
        return None;
    }
    let digit = |(term, c): &(Term, i64)| match term {
        Term::Var(Var(v)) => Some((*v as usize, *c)),
        _ => None,
    };
    let mut digits: Vec<(usize, i64)> = e.terms().iter().map(digit).collect::<Option<_>>()?;
    digits.sort_by_key(|d| std::cmp::Reverse(d.1));
    let mut numel = 1;
    for &(v, c) in digits.iter().rev() {
        if c != numel {
            return None;
        }
        numel *= extents[v] as i64;
    }
    Some(Radix { digits, numel })
}

/// The variables and strides of a position that takes each of a range of values exactly once, greatest first.
pub(super) fn digits(e: &Expr, extents: &[usize]) -> Option<Vec<(usize, i64)>> {
    radix(e, extents).map(|radix| radix.digits)
}

/// Positions both nodes compute, best first: what the earlier stores and the later loads, then what both load.
fn equations(earlier: &FusedNode, later: &FusedNode) -> Vec<(Expr, Expr)> {
    let mut found = Vec::new();
    for (source, _, index) in later.loads() {
        if let Source::Node(node) = source
            && let Some(store) = earlier.store(node)
        {
            found.push((store.index.clone(), index.clone()));
        }
    }
    // The position with the most variables ties down the most.
    found.sort_by_key(|(a, b)| std::cmp::Reverse(a.terms().len() + b.terms().len()));
    for (source, _, index) in later.loads() {
        for (other, _, theirs) in earlier.loads() {
            if source == other {
                found.push((theirs.clone(), index.clone()));
            }
        }
    }
    found
}

/// Finds one domain for both.
pub(super) fn align(earlier: &FusedNode, later: &FusedNode) -> Result<Alignment, Refusal> {
    // The node with columns is the host; of two equals the earlier.
    let later_hosts = earlier.red.is_empty() && !later.red.is_empty();
    let (host, guest) = if later_hosts {
        (later, earlier)
    } else {
        (earlier, later)
    };
    let assemble = |iter, red, host_map, guest_map| {
        let (first, second) = if later_hosts {
            (guest_map, host_map)
        } else {
            (host_map, guest_map)
        };
        Alignment {
            iter,
            red,
            first,
            second,
        }
    };
    for (of_earlier, of_later) in equations(earlier, later).into_iter().take(16) {
        let (host_at, guest_at) = if later_hosts {
            (&of_later, &of_earlier)
        } else {
            (&of_earlier, &of_later)
        };
        if let Some((iter, red, host_map, guest_map)) = solve(host, guest, host_at, guest_at) {
            return Ok(assemble(iter, red, host_map, guest_map));
        }
    }
    // Both read one tensor, one along its rows and one along its columns, and happen to have equal extents: in one kernel one
    // of them would stride through memory (4096x4096, sums of both: 55 ms, and 3 ms apart; scheduler X2-02).
    let of_extents = (earlier.extents(), later.extents());
    let transposed = |(a, b): (Expr, Expr)| {
        let how = difference((&a, &of_extents.0), (&b, &of_extents.1));
        how == Some(Mismatch::Order)
    };
    if earlier.reduces() && later.reduces() && equations(earlier, later).into_iter().any(transposed)
    {
        return Err(Refusal::Extents(Mismatch::Order));
    }
    // Nothing ties them: equal extents are taken to correspond.
    if host.iter == guest.iter && host.red == guest.red {
        let identity: Vec<Expr> = (0..host.extents().len()).map(Expr::var).collect();
        return Ok(assemble(
            host.iter.clone(),
            host.red.clone(),
            identity.clone(),
            identity,
        ));
    }
    Err(Refusal::Extents(mismatch(earlier, later)))
}

type Solved = (Vec<usize>, Vec<usize>, Vec<Expr>, Vec<Expr>);

/// The guest's variables from `host_at == guest_at`.
fn solve(host: &FusedNode, guest: &FusedNode, host_at: &Expr, guest_at: &Expr) -> Option<Solved> {
    let (mut iter, mut red) = (host.iter.clone(), host.red.clone());
    let mut host_map: Vec<Expr> = (0..iter.len() + red.len()).map(Expr::var).collect();
    let guest_extents = guest.extents();
    let guest_radix = radix(guest_at, &guest_extents)?;
    let host_radix = radix(host_at, &host.extents())?;
    if guest_radix.numel != host_radix.numel {
        return None;
    }
    let mut position = host_at.clone();
    let host_rest: Vec<usize> = (0..host_map.len())
        .filter(|v| host_radix.digits.iter().all(|d| d.0 != *v))
        .collect();
    let guest_rest: Vec<usize> = (0..guest_extents.len())
        .filter(|v| guest_radix.digits.iter().all(|d| d.0 != *v))
        .collect();
    // What the position leaves open: columns, in natural order on both sides.
    let mut rest = Expr::default();
    if host_rest.is_empty() && !guest_rest.is_empty() {
        // A consumer that repeats each of the host's elements: its further loops become columns.
        if !red.is_empty() || !guest.red.is_empty() {
            return None;
        }
        red = guest_rest.iter().map(|&v| guest_extents[v]).collect();
        rest = flat_index(&red, iter.len());
    } else if !guest_rest.is_empty() {
        let numel =
            |extents: &[usize], list: &[usize]| list.iter().map(|&v| extents[v]).product::<usize>();
        if numel(&host.extents(), &host_rest) != numel(&guest_extents, &guest_rest) {
            return None;
        }
        let mut stride = 1i64;
        for &v in host_rest.iter().rev() {
            rest = rest.add(&Expr::var(v).scale(stride));
            stride *= host.extents()[v] as i64;
        }
    } else if !host_rest.is_empty()
        && (!guest.red.is_empty() || host_rest.iter().any(|&v| v < iter.len()))
    {
        // A guest without columns stands for whole rows: the position must tell every row apart. One with columns
        // would run over the host's further columns again.
        return None;
    }
    for _ in 0..6 {
        let extents: Vec<usize> = iter.iter().chain(&red).copied().collect();
        let at = |from: &Expr, stride: i64, n: usize| {
            let e = from
                .floor_div(stride, extents.as_slice())
                .modulo(n as i64, extents.as_slice());
            e.recombine()
        };
        let mut guest_map = vec![Expr::default(); guest_extents.len()];
        for &(v, c) in &guest_radix.digits {
            guest_map[v] = at(&position, c, guest_extents[v]);
        }
        let mut stride = 1i64;
        for &v in guest_rest.iter().rev() {
            guest_map[v] = at(&rest, stride, guest_extents[v]);
            stride *= guest_extents[v] as i64;
        }
        let Some((var, by)) = guest_map.iter().find_map(|e| split_in(e, &extents)) else {
            if guest_map.iter().any(|e| !e.is_affine())
                || !keeps_columns(guest, &guest_map, iter.len())
            {
                return None;
            }
            return Some((iter, red, host_map, guest_map));
        };
        // Split the host's loop, so that the guest's smaller loops are its own variables.
        let v = var.0 as usize;
        let (list, k) = if v < iter.len() {
            (&mut iter, v)
        } else {
            (&mut red, v - iter.len())
        };
        list[k] /= by as usize;
        list.insert(k + 1, by as usize);
        let extents: Vec<usize> = iter.iter().chain(&red).copied().collect();
        let shift = |term: &Term| match term {
            Term::Var(Var(x)) if (*x as usize) < v => None,
            Term::Var(Var(x)) if *x as usize == v => {
                Some(Expr::var(v).scale(by).add(&Expr::var(v + 1)))
            }
            Term::Var(Var(x)) => Some(Expr::var(*x as usize + 1)),
            _ => None,
        };
        let apply = |e: &Expr| e.substitute(&shift, extents.as_slice());
        host_map = host_map.iter().map(apply).collect();
        position = apply(&position);
        rest = apply(&rest);
    }
    None
}

/// A split that removes a division or modulo of the expression.
fn split_in(e: &Expr, extents: &[usize]) -> Option<(Var, i64)> {
    e.terms().iter().find_map(|(term, _)| match term {
        Term::Div(inner, c) | Term::Mod(inner, c) => crate::lower::split_of(inner, *c, extents),
        _ => None,
    })
}

/// Whether the guest's rows are rows of the host and its columns columns; a guest without columns of its own may lie
/// in either, but not so that a row's element depends on a column.
fn keeps_columns(guest: &FusedNode, map: &[Expr], rows: usize) -> bool {
    let has = |e: &Expr, column: bool| {
        e.any(&mut |t| matches!(t, Term::Var(v) if (v.0 as usize >= rows) == column))
    };
    if guest.red.is_empty() {
        return true;
    }
    let (iter, red) = map.split_at(guest.iter.len());
    iter.iter().all(|e| !has(e, true)) && red.iter().all(|e| !has(e, false))
}
