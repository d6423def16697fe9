//! Symbolic integers: index expressions over loop variables and sizes, kept in a canonical affine form with
//! floor-division, modulo, minimum and maximum terms. Simplification rests on proofs from ranges, never on hints.
//!
//! An expression is `constant + Σ coefficient · term`; a term is a variable, a product, a floor division, a modulo, a
//! minimum or maximum, or a value loaded at run time. Equal expressions under the rules below have equal forms.

use smallvec::SmallVec;
use std::fmt;

/// A loop variable or a symbolic size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Var(pub u32);

/// The non-constant part of a summand.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Term {
    /// A variable.
    Var(Var),
    /// ⌊e / c⌋ with c > 1.
    Div(Box<Expr>, i64),
    /// e mod c, in 0..c, with c > 1.
    Mod(Box<Expr>, i64),
    /// A product of two non-constant expressions (sizes times indices).
    Mul(Box<Expr>, Box<Expr>),
    /// The lesser.
    Min(Box<Expr>, Box<Expr>),
    /// The greater.
    Max(Box<Expr>, Box<Expr>),
    /// A value of the loop body used as an index (checked and wrapped), by its number there.
    Value(u32),
}

/// A symbolic integer in canonical form: terms sorted and distinct, coefficients not zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Expr {
    constant: i64,
    terms: SmallVec<[(Term, i64); 2]>,
}

/// Inclusive bounds of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Least value.
    pub low: i64,
    /// Greatest value.
    pub high: i64,
}

impl Range {
    /// Bounds that say nothing.
    pub const ANY: Range = Range {
        low: i64::MIN,
        high: i64::MAX,
    };

    /// `low..=high`.
    pub const fn new(low: i64, high: i64) -> Range {
        Range { low, high }
    }

    fn add(self, other: Range) -> Range {
        Range::new(
            self.low.saturating_add(other.low),
            self.high.saturating_add(other.high),
        )
    }

    fn scale(self, by: i64) -> Range {
        let (a, b) = (self.low.saturating_mul(by), self.high.saturating_mul(by));
        Range::new(a.min(b), a.max(b))
    }

    fn mul(self, other: Range) -> Range {
        let all = [
            self.low.saturating_mul(other.low),
            self.low.saturating_mul(other.high),
            self.high.saturating_mul(other.low),
            self.high.saturating_mul(other.high),
        ];
        Range::new(
            all.into_iter().min().unwrap_or(i64::MIN),
            all.into_iter().max().unwrap_or(i64::MAX),
        )
    }
}

/// What is known of variables and run-time values.
pub trait Ranges {
    /// Bounds of a variable.
    fn var(&self, var: Var) -> Range;

    /// Bounds of a run-time index value.
    fn value(&self, value: u32) -> Range;
}

/// Variable `v` runs over `0..extents[v]`; run-time values are only known not to be negative.
impl Ranges for [usize] {
    fn var(&self, var: Var) -> Range {
        self.get(var.0 as usize)
            .map_or(Range::ANY, |&n| Range::new(0, (n as i64 - 1).max(0)))
    }

    fn value(&self, _: u32) -> Range {
        Range::new(0, i64::MAX)
    }
}

impl From<i64> for Expr {
    fn from(constant: i64) -> Expr {
        Expr {
            constant,
            terms: SmallVec::new(),
        }
    }
}

impl From<Var> for Expr {
    fn from(var: Var) -> Expr {
        Expr::from(Term::Var(var))
    }
}

impl From<Term> for Expr {
    fn from(term: Term) -> Expr {
        Expr {
            constant: 0,
            terms: smallvec::smallvec![(term, 1)],
        }
    }
}

impl Expr {
    /// Variable number `v`.
    pub fn var(v: usize) -> Expr {
        Expr::from(Var(v as u32))
    }

    /// The value if the expression is a constant.
    pub fn as_const(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The variable if the expression is one variable alone.
    pub fn as_var(&self) -> Option<Var> {
        match (self.constant, self.terms.as_slice()) {
            (0, [(Term::Var(v), 1)]) => Some(*v),
            _ => None,
        }
    }

    /// The constant summand.
    pub fn constant(&self) -> i64 {
        self.constant
    }

    /// The summands that are not constant, sorted.
    pub fn terms(&self) -> &[(Term, i64)] {
        &self.terms
    }

    /// The coefficient of a variable outside any other term.
    pub fn coefficient(&self, var: Var) -> i64 {
        self.terms
            .iter()
            .find(|(t, _)| *t == Term::Var(var))
            .map_or(0, |(_, c)| *c)
    }

    /// Whether every term is a variable.
    pub fn is_affine(&self) -> bool {
        self.terms.iter().all(|(t, _)| matches!(t, Term::Var(_)))
    }

    /// Whether a variable occurs anywhere.
    pub fn uses(&self, var: Var) -> bool {
        self.any(&mut |t| *t == Term::Var(var))
    }

    /// Whether a term for which `test` holds occurs anywhere, also inside other terms.
    pub fn any(&self, test: &mut dyn FnMut(&Term) -> bool) -> bool {
        self.terms.iter().any(|(term, _)| {
            test(term)
                || match term {
                    Term::Div(e, _) | Term::Mod(e, _) => e.any(test),
                    Term::Mul(a, b) | Term::Min(a, b) | Term::Max(a, b) => {
                        a.any(test) || b.any(test)
                    }
                    Term::Var(_) | Term::Value(_) => false,
                }
        })
    }

    fn insert(&mut self, term: Term, coefficient: i64) {
        match self.terms.binary_search_by(|(t, _)| t.cmp(&term)) {
            Ok(at) => {
                self.terms[at].1 += coefficient;
                if self.terms[at].1 == 0 {
                    self.terms.remove(at);
                }
            }
            Err(at) if coefficient != 0 => self.terms.insert(at, (term, coefficient)),
            Err(_) => {}
        }
    }

    /// self + other.
    pub fn add(&self, other: &Expr) -> Expr {
        let mut sum = self.clone();
        sum.constant = sum.constant.wrapping_add(other.constant);
        for (term, coefficient) in &other.terms {
            sum.insert(term.clone(), *coefficient);
        }
        sum
    }

    /// self − other.
    pub fn sub(&self, other: &Expr) -> Expr {
        self.add(&other.scale(-1))
    }

    /// self + constant.
    pub fn offset(&self, by: i64) -> Expr {
        let mut sum = self.clone();
        sum.constant = sum.constant.wrapping_add(by);
        sum
    }

    /// self · by.
    pub fn scale(&self, by: i64) -> Expr {
        if by == 0 {
            return Expr::default();
        }
        let mut product = self.clone();
        product.constant = product.constant.wrapping_mul(by);
        for (_, coefficient) in &mut product.terms {
            *coefficient *= by;
        }
        product
    }

    /// self · other; distributes where one side is a constant.
    pub fn mul(&self, other: &Expr) -> Expr {
        match (self.as_const(), other.as_const()) {
            (Some(c), _) => other.scale(c),
            (_, Some(c)) => self.scale(c),
            _ => {
                let (a, b) = if self <= other {
                    (self, other)
                } else {
                    (other, self)
                };
                Expr::from(Term::Mul(Box::new(a.clone()), Box::new(b.clone())))
            }
        }
    }

    /// Bounds, by interval arithmetic over the whole expression.
    pub fn range<R: Ranges + ?Sized>(&self, ranges: &R) -> Range {
        self.terms.iter().fold(
            Range::new(self.constant, self.constant),
            |sum, (term, coefficient)| {
                let of = match term {
                    Term::Var(v) => ranges.var(*v),
                    Term::Value(v) => ranges.value(*v),
                    Term::Div(e, c) => {
                        let r = e.range(ranges);
                        Range::new(r.low.div_euclid(*c), r.high.div_euclid(*c))
                    }
                    Term::Mod(e, c) => {
                        let r = e.range(ranges);
                        if r.low >= 0 && r.high < *c {
                            r
                        } else {
                            Range::new(0, c - 1)
                        }
                    }
                    Term::Mul(a, b) => a.range(ranges).mul(b.range(ranges)),
                    Term::Min(a, b) => {
                        let (a, b) = (a.range(ranges), b.range(ranges));
                        Range::new(a.low.min(b.low), a.high.min(b.high))
                    }
                    Term::Max(a, b) => {
                        let (a, b) = (a.range(ranges), b.range(ranges));
                        Range::new(a.low.max(b.low), a.high.max(b.high))
                    }
                };
                sum.add(of.scale(*coefficient))
            },
        )
    }

    /// Whether the expression is proved never to be negative.
    pub fn is_non_negative<R: Ranges + ?Sized>(&self, ranges: &R) -> bool {
        self.range(ranges).low >= 0
    }

    /// ⌊self / by⌋, simplified (codegen A1.9): multiples of `by` leave the division, and what is left disappears when
    /// its range proves it to be a constant.
    ///
    /// # Panics
    /// Never; `by` below 1 is treated as 1, which no lowering produces.
    pub fn floor_div<R: Ranges + ?Sized>(&self, by: i64, ranges: &R) -> Expr {
        if by <= 1 {
            return self.clone();
        }
        let (whole, rest) = self.split_multiples(by);
        let range = rest.range(ranges);
        if range.low.div_euclid(by) == range.high.div_euclid(by) {
            return whole.offset(range.low.div_euclid(by));
        }
        // ⌊⌊e/a⌋/b⌋ = ⌊e/(ab)⌋; ⌊(e mod ab)/b⌋ = ⌊e/b⌋ mod a.
        if let (0, [(term, 1)]) = (rest.constant, rest.terms.as_slice()) {
            match term {
                Term::Div(e, a) if a.checked_mul(by).is_some() => {
                    return whole.add(&e.floor_div(a * by, ranges));
                }
                Term::Mod(e, m) if m % by == 0 => {
                    return whole.add(&e.floor_div(by, ranges).modulo(m / by, ranges));
                }
                _ => {}
            }
        }
        // A common factor cancels where the constant's remainder cannot carry.
        let common = rest.terms.iter().fold(by, |g, (_, c)| gcd(g, *c));
        if common > 1 {
            let reduced = Expr {
                constant: rest.constant.div_euclid(common),
                terms: rest
                    .terms
                    .iter()
                    .map(|(t, c)| (t.clone(), c / common))
                    .collect(),
            };
            return whole.add(&reduced.floor_div(by / common, ranges));
        }
        whole.add(&Expr::from(Term::Div(Box::new(rest), by)))
    }

    /// self mod by, in `0..by`, simplified as [`floor_div`](Self::floor_div).
    pub fn modulo<R: Ranges + ?Sized>(&self, by: i64, ranges: &R) -> Expr {
        if by <= 1 {
            return Expr::default();
        }
        let (_, rest) = self.split_multiples(by);
        let range = rest.range(ranges);
        let quotient = range.low.div_euclid(by);
        if quotient == range.high.div_euclid(by) {
            return rest.offset(-quotient * by);
        }
        // (e mod ab) mod b = e mod b.
        if let (0, [(Term::Mod(e, m), 1)]) = (rest.constant, rest.terms.as_slice())
            && m % by == 0
        {
            return e.modulo(by, ranges);
        }
        let common = rest.terms.iter().fold(by, |g, (_, c)| gcd(g, *c));
        if common > 1 && rest.constant.rem_euclid(common) == 0 {
            let reduced = Expr {
                constant: rest.constant / common,
                terms: rest
                    .terms
                    .iter()
                    .map(|(t, c)| (t.clone(), c / common))
                    .collect(),
            };
            return reduced.modulo(by / common, ranges).scale(common);
        }
        Expr::from(Term::Mod(Box::new(rest), by))
    }

    /// The lesser of two.
    pub fn minimum<R: Ranges + ?Sized>(&self, other: &Expr, ranges: &R) -> Expr {
        if other.sub(self).is_non_negative(ranges) {
            return self.clone();
        }
        if self.sub(other).is_non_negative(ranges) {
            return other.clone();
        }
        let (a, b) = if self <= other {
            (self, other)
        } else {
            (other, self)
        };
        Expr::from(Term::Min(Box::new(a.clone()), Box::new(b.clone())))
    }

    /// The greater of two.
    pub fn maximum<R: Ranges + ?Sized>(&self, other: &Expr, ranges: &R) -> Expr {
        if other.sub(self).is_non_negative(ranges) {
            return other.clone();
        }
        if self.sub(other).is_non_negative(ranges) {
            return self.clone();
        }
        let (a, b) = if self <= other {
            (self, other)
        } else {
            (other, self)
        };
        Expr::from(Term::Max(Box::new(a.clone()), Box::new(b.clone())))
    }

    /// `(self − rest) / by` and `rest`: summands whose coefficient is a multiple of `by`, and the others.
    fn split_multiples(&self, by: i64) -> (Expr, Expr) {
        let mut whole = Expr::from(self.constant.div_euclid(by));
        let mut rest = Expr::from(self.constant.rem_euclid(by));
        for (term, coefficient) in &self.terms {
            let (q, r) = (coefficient.div_euclid(by), coefficient.rem_euclid(by));
            if r == 0 {
                whole.terms.push((term.clone(), q));
            } else {
                rest.terms.push((term.clone(), *coefficient));
            }
        }
        (whole, rest)
    }

    /// The expression with every variable (and run-time value) replaced, simplified under the ranges of the result.
    pub fn substitute<R: Ranges + ?Sized>(
        &self,
        of: &dyn Fn(&Term) -> Option<Expr>,
        ranges: &R,
    ) -> Expr {
        let mut result = Expr::from(self.constant);
        for (term, coefficient) in &self.terms {
            let replaced = match term {
                Term::Var(_) | Term::Value(_) => {
                    of(term).unwrap_or_else(|| Expr::from(term.clone()))
                }
                Term::Div(e, c) => e.substitute(of, ranges).floor_div(*c, ranges),
                Term::Mod(e, c) => e.substitute(of, ranges).modulo(*c, ranges),
                Term::Mul(a, b) => a.substitute(of, ranges).mul(&b.substitute(of, ranges)),
                Term::Min(a, b) => a
                    .substitute(of, ranges)
                    .minimum(&b.substitute(of, ranges), ranges),
                Term::Max(a, b) => a
                    .substitute(of, ranges)
                    .maximum(&b.substitute(of, ranges), ranges),
            };
            result = result.add(&replaced.scale(*coefficient));
        }
        result.recombine()
    }

    /// c·⌊e/c⌋ + (e mod c) = e (codegen A1.9).
    pub fn recombine(mut self) -> Expr {
        loop {
            let found = self.terms.iter().find_map(|(term, coefficient)| {
                let Term::Mod(e, c) = term else { return None };
                let partner = Term::Div(e.clone(), *c);
                let has = self
                    .terms
                    .iter()
                    .any(|(t, k)| *t == partner && *k == coefficient * c);
                has.then(|| (term.clone(), partner, (**e).clone(), *coefficient))
            });
            let Some((modulo, div, e, coefficient)) = found else {
                return self;
            };
            self.terms.retain(|(t, _)| *t != modulo && *t != div);
            self = self.add(&e.scale(coefficient));
        }
    }

    /// The value where variables and run-time values are known.
    pub fn evaluate(&self, of: &dyn Fn(&Term) -> i64) -> i64 {
        self.terms
            .iter()
            .fold(self.constant, |sum, (term, coefficient)| {
                let value = match term {
                    Term::Var(_) | Term::Value(_) => of(term),
                    Term::Div(e, c) => e.evaluate(of).div_euclid(*c),
                    Term::Mod(e, c) => e.evaluate(of).rem_euclid(*c),
                    Term::Mul(a, b) => a.evaluate(of).wrapping_mul(b.evaluate(of)),
                    Term::Min(a, b) => a.evaluate(of).min(b.evaluate(of)),
                    Term::Max(a, b) => a.evaluate(of).max(b.evaluate(of)),
                };
                sum.wrapping_add(value.wrapping_mul(*coefficient))
            })
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i64
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Var(v) => write!(f, "i{}", v.0),
            Term::Div(e, c) => write!(f, "({e})/{c}"),
            Term::Mod(e, c) => write!(f, "({e})%{c}"),
            Term::Mul(a, b) => write!(f, "({a})*({b})"),
            Term::Min(a, b) => write!(f, "min({a}, {b})"),
            Term::Max(a, b) => write!(f, "max({a}, {b})"),
            Term::Value(v) => write!(f, "[v{v}]"),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return write!(f, "{}", self.constant);
        }
        for (i, (term, coefficient)) in self.terms.iter().enumerate() {
            match (i, coefficient) {
                (0, 1) => write!(f, "{term}")?,
                (0, c) => write!(f, "{c}*{term}")?,
                (_, 1) => write!(f, " + {term}")?,
                (_, c) => write!(f, " + {c}*{term}")?,
            }
        }
        if self.constant != 0 {
            write!(f, " + {}", self.constant)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
}
