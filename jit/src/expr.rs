//! Symbolic integers: index expressions over loop variables and sizes, kept in a canonical affine form with
//! floor-division, modulo, minimum and maximum terms. Simplification rests on proofs from ranges, never on hints.
//!
//! An expression is `constant + Σ coefficient · term`; a term is a variable, a product, a floor division, a modulo, a
//! minimum or maximum, or a value loaded at run time. Equal expressions under the rules below have equal forms.

mod apart;
mod range;

use smallvec::SmallVec;
use std::fmt;

pub(crate) use apart::are_apart;
pub use range::{Range, Ranges};

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

    /// Whether a value of the body occurs anywhere, as in an index that is looked up.
    pub fn follows_from_values(&self) -> bool {
        self.any(&mut |t| matches!(t, Term::Value(_)))
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

    /// c·⌊e/c⌋ + (e mod c) = e (codegen A1.9), and c·(⌊e/c⌋ mod n) + (e mod c) = e mod c·n, where e may be a quotient
    /// itself: the digits of a number in mixed radix are the number again.
    pub fn recombine(mut self) -> Expr {
        loop {
            let found = self.terms.iter().find_map(|(term, coefficient)| {
                let Term::Mod(e, c) = term else { return None };
                let (partner, joined) = self.higher_digits(e, *c, *coefficient)?;
                Some((term.clone(), partner, joined, *coefficient))
            });
            let Some((modulo, partner, joined, coefficient)) = found else {
                return self;
            };
            self.terms.retain(|(t, _)| *t != modulo && *t != partner);
            self = self.add(&joined.scale(coefficient));
        }
    }

    /// The summand that holds the digits above `coefficient`·(e mod c), and what both are times `coefficient`.
    fn higher_digits(&self, e: &Expr, c: i64, coefficient: i64) -> Option<(Term, Expr)> {
        let (x, below) = match (e.constant, e.terms.as_slice()) {
            (0, [(Term::Div(x, below), 1)]) => (&**x, *below),
            _ => (e, 1),
        };
        let above = below.checked_mul(c)?;
        let weight = coefficient.checked_mul(c)?;
        let quotient = |of: &Expr| match (of.constant, of.terms.as_slice()) {
            (0, [(Term::Div(of, by), 1)]) => **of == *x && *by == above,
            _ => false,
        };
        let weighted = |(_, k): &&(Term, i64)| *k == weight;
        self.terms
            .iter()
            .filter(weighted)
            .find_map(|(term, _)| match term {
                Term::Div(of, by) if **of == *x && *by == above => Some((term.clone(), e.clone())),
                Term::Mod(of, n) if quotient(of) => {
                    let whole = Term::Mod(Box::new(e.clone()), c.checked_mul(*n)?);
                    Some((term.clone(), Expr::from(whole)))
                }
                _ => None,
            })
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
mod tests;
