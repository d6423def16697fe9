//! Canonical forms and proofs, by hand and at random points.

use super::*;
use proptest::prelude::*;

const EXTENTS: [usize; 3] = [4, 6, 5];

fn ranges() -> &'static [usize] {
    &EXTENTS
}

#[test]
fn splitting_a_flat_index_comes_back_together() {
    let flat = Expr::var(0).scale(6).add(&Expr::var(1));
    assert_eq!(flat.floor_div(6, ranges()), Expr::var(0));
    assert_eq!(flat.modulo(6, ranges()), Expr::var(1));
    let m = Expr::var(0);
    let back = m
        .floor_div(3, ranges())
        .scale(3)
        .add(&m.modulo(3, ranges()))
        .recombine();
    assert_eq!(back, m);
}

#[test]
fn digits_of_a_number_are_the_number() {
    let ranges: &[usize] = &[1 << 16];
    let n = Expr::var(0);
    for reversed in [false, true] {
        let mut bits: Vec<usize> = (0..16).collect();
        if reversed {
            bits.reverse();
        }
        let sum = bits.iter().fold(Expr::from(0), |sum, &bit| {
            let digit = n.floor_div(1 << bit, ranges).modulo(2, ranges);
            sum.add(&digit.scale(1 << bit))
        });
        assert_eq!(sum.scale(-3).recombine(), n.scale(-3));
    }
    // Of other digits a part: ⌊n/6⌋ mod 35 in the mixed radix of 5 and 7, with one digit left as it is.
    let low = n.floor_div(6, ranges).modulo(5, ranges);
    let high = n.floor_div(30, ranges).modulo(7, ranges);
    let rest = n.floor_div(210, ranges).modulo(3, ranges).scale(100);
    let joined = low.add(&high.scale(5)).add(&rest).recombine();
    let expected = n.floor_div(6, ranges).modulo(35, ranges).add(&rest);
    assert_eq!(joined, expected);
    // Weights that do not fit leave the terms as they are.
    let apart = low.add(&high.scale(6));
    assert_eq!(apart.clone().recombine(), apart);
}

#[test]
fn proofs_rest_on_the_range_of_the_whole() {
    let e = Expr::var(0).sub(&Expr::var(1));
    assert!(!e.is_non_negative(ranges()));
    assert!(e.offset(5).is_non_negative(ranges()));
    assert_eq!(e.offset(5).range(ranges()), Range::new(0, 8));
    let huge = Expr::var(0).scale(i64::MAX / 2);
    assert_eq!(huge.range(ranges()).high, i64::MAX);
}

fn arb() -> impl Strategy<Value = Vec<(u8, i64, i64)>> {
    prop::collection::vec((0u8..6, -7i64..8, 1i64..9), 1..7)
}

fn build(steps: &[(u8, i64, i64)]) -> (Expr, impl Fn(&[i64]) -> i64 + '_) {
    let mut e = Expr::var(0);
    for &(kind, c, d) in steps {
        e = match kind {
            0 => e.add(&Expr::var((d % 3) as usize).scale(c)),
            1 => e.floor_div(d, ranges()),
            2 => e.modulo(d, ranges()),
            3 => e.scale(c).offset(d),
            4 => e.minimum(&Expr::var(1).offset(c), ranges()),
            _ => e.maximum(&Expr::var(2).scale(c), ranges()),
        };
        e = e.recombine();
    }
    (e, move |v: &[i64]| {
        steps.iter().fold(v[0], |e, &(kind, c, d)| match kind {
            0 => e + v[(d % 3) as usize] * c,
            1 => e.div_euclid(d),
            2 => e.rem_euclid(d),
            3 => e * c + d,
            4 => e.min(v[1] + c),
            _ => e.max(v[2] * c),
        })
    })
}

proptest! {
    #[test]
    fn simplification_keeps_every_value(steps in arb()) {
        let (e, truth) = build(&steps);
        let bounds = e.range(ranges());
        for flat in 0..120i64 {
            let v = [flat / 30, flat / 5 % 6, flat % 5];
            let got = e.evaluate(&|t| match t { Term::Var(x) => v[x.0 as usize], _ => 0 });
            prop_assert_eq!(got, truth(&v));
            prop_assert!(bounds.low <= got && got <= bounds.high);
        }
        let swapped = e.substitute(&|t| match t {
            Term::Var(Var(0)) => Some(Expr::var(1).floor_div(2, ranges())),
            _ => None,
        }, ranges());
        for flat in 0..30i64 {
            let v = [0, flat / 5, flat % 5];
            let got = swapped.evaluate(&|t| match t { Term::Var(x) => v[x.0 as usize], _ => 0 });
            prop_assert_eq!(got, truth(&[v[1] / 2, v[1], v[2]]));
        }
    }
}

/// Sizes past 2^31 and 2^32, and products of them.
const HUGE: [usize; 3] = [(1 << 33) + 2, 3 << 31, (1 << 32) + 1];

#[test]
fn a_flat_index_past_2_to_the_32_splits_and_comes_back() {
    let ranges = &HUGE[..];
    let columns = (1i64 << 31) + 11;
    let extents = [1usize << 31, columns as usize];
    let flat = Expr::var(0).scale(columns).add(&Expr::var(1));
    assert_eq!(flat.floor_div(columns, &extents[..]), Expr::var(0));
    assert_eq!(flat.modulo(columns, &extents[..]), Expr::var(1));
    // One column more than the divisor: not provably the row.
    let wider = [extents[0], extents[1] + 1];
    assert_ne!(flat.floor_div(columns, &wider[..]), Expr::var(0));
    let last = Expr::var(0).scale(1 << 29).range(ranges);
    assert_eq!(last, Range::new(0, ((1i64 << 33) + 1) << 29));
    // Divisors whose product is past 2^63 stay two divisions.
    let twice = Expr::var(0)
        .floor_div(1 << 32, ranges)
        .floor_div(i64::MAX / 2, &[usize::MAX / 2][..]);
    assert_eq!(twice.evaluate(&|_| (1 << 33) + 1), 0);
    let kept = Expr::from(Term::Div(Box::new(Expr::var(0)), i64::MAX / 2));
    let unbounded: &[usize] = &[];
    assert_eq!(kept.floor_div(4, unbounded).evaluate(&|_| i64::MAX), 0);
}

proptest! {
    #[test]
    fn simplification_keeps_every_value_past_2_to_the_32(
        steps in prop::collection::vec((0u8..6, -3i64..4, 0usize..6), 1..6),
        samples in prop::collection::vec((0usize..HUGE[0], 0usize..HUGE[1], 0usize..HUGE[2]), 16),
    ) {
        let ranges = &HUGE[..];
        let divisors = [2, 3 << 31, (1 << 32) + 1, 1 << 31, (1 << 31) - 1, 6];
        let mut e = Expr::var(0);
        for &(kind, c, d) in &steps {
            e = match kind {
                0 => e.add(&Expr::var(d % 3).scale(c)),
                1 => e.floor_div(divisors[d], ranges),
                2 => e.modulo(divisors[d], ranges),
                3 => e.scale(c).offset(divisors[d]),
                4 => e.minimum(&Expr::var(1).offset(c), ranges),
                _ => e.maximum(&Expr::var(2).scale(c), ranges),
            }.recombine();
        }
        let bounds = e.range(ranges);
        for (a, b, c) in samples {
            let v = [a as i64, b as i64, c as i64];
            let want = steps.iter().fold(v[0], |e, &(kind, c, d)| match kind {
                0 => e + v[d % 3] * c,
                1 => e.div_euclid(divisors[d]),
                2 => e.rem_euclid(divisors[d]),
                3 => e * c + divisors[d],
                4 => e.min(v[1] + c),
                _ => e.max(v[2] * c),
            });
            let got = e.evaluate(&|t| match t { Term::Var(x) => v[x.0 as usize], _ => 0 });
            prop_assert_eq!(got, want);
            prop_assert!(bounds.low <= got && got <= bounds.high);
        }
    }
}
