//! Index expressions: a row's part computed once, the rest a function of the position along the vector axis.

use super::kernel::Writer;
use super::name::{Base, Divisor, Param};
use crate::body::{Body, BodyOp, Value};
use crate::expr::{Expr, Term, Var};
use std::fmt::{self, Display, Formatter, Write as _};

/// Where along the vector axis an index is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// At the row's first element.
    First,
    /// At the chunk's first element.
    Chunk,
    /// At element `l` of the chunk.
    Lane,
    /// At column `c` of a tile.
    Column,
}

/// An integer expression over a row's variables, its values, and the position along the vector axis.
#[derive(Clone, Debug)]
pub(super) enum Int {
    Position,
    Var(Var),
    Value(Value),
    Base(Base),
    Param(Param),
    Negative(Box<Int>),
    Scaled(Box<Int>, Param),
    /// 0 without terms.
    Sum(Vec<Int>),
    Product(Box<Int>, Box<Int>),
    /// Of numbers that are not negative.
    Quotient(Box<Int>, Divisor),
    Remainder(Box<Int>, Divisor),
    /// Rounded down.
    FloorQuotient(Box<Int>, Param),
    FloorRemainder(Box<Int>, Param),
    Least(Box<Int>, Box<Int>),
    Most(Box<Int>, Box<Int>),
}

/// An index, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// The expression.
    pub value: Int,
    /// Whether it moves by one with the vector position.
    pub unit: bool,
    /// Its row's part.
    pub base: Option<Base>,
}

/// An expression at a position, as CUDA C++.
pub(super) struct Printed<'a>(&'a Int, Position);

impl Index {
    /// The expression at a position.
    pub fn at(&self, position: Position) -> Printed<'_> {
        Printed(&self.value, position)
    }
}

impl Int {
    /// The expression at a position.
    pub fn at(&self, position: Position) -> Printed<'_> {
        Printed(self, position)
    }
}

impl Display for Position {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Position::First => "0",
            Position::Chunk => "j",
            Position::Lane => "(j + l)",
            Position::Column => "c",
        })
    }
}

impl Display for Printed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let of = |e| Printed(e, self.1);
        match self.0 {
            Int::Position => self.1.fmt(f),
            Int::Var(v) => write!(f, "i{}", v.0),
            Int::Value(v) => write!(f, "(ft_int)v{v}"),
            Int::Base(base) => base.fmt(f),
            Int::Param(param) => param.fmt(f),
            Int::Negative(e) => write!(f, "-{}", of(e)),
            Int::Scaled(e, by) => write!(f, "{}*{by}", of(e)),
            Int::Sum(terms) if terms.is_empty() => f.write_str("0"),
            Int::Sum(terms) => write!(f, "({})", Terms(terms, self.1)),
            Int::Product(a, b) => write!(f, "({}*{})", of(a), of(b)),
            Int::Quotient(e, d) => write!(f, "({}/{d})", of(e)),
            Int::Remainder(e, d) => write!(f, "({}%{d})", of(e)),
            Int::FloorQuotient(e, by) => write!(f, "ft_floor_div({}, {by})", of(e)),
            Int::FloorRemainder(e, by) => write!(f, "ft_floor_mod({}, {by})", of(e)),
            Int::Least(a, b) => write!(f, "ft_least({}, {})", of(a), of(b)),
            Int::Most(a, b) => write!(f, "ft_most({}, {})", of(a), of(b)),
        }
    }
}

/// The terms of a sum at a position, without parentheses.
pub(super) struct Terms<'a>(pub &'a [Int], pub Position);

impl Display for Terms<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, term) in self.0.iter().enumerate() {
            f.write_str(if i > 0 { " + " } else { "" })?;
            Printed(term, self.1).fmt(f)?;
        }
        Ok(())
    }
}

/// Positions past the end that a thread may compute without using them.
const SLACK: i64 = 1 << 16;

/// Whether every subexpression keeps to 32 bits: index arithmetic is done in them only where this proves it.
pub(super) fn fits_32_bits(e: &Expr, extents: &[usize], body: &Body) -> bool {
    bound(e, extents, body).is_some()
}

/// The greatest magnitude of an expression whose parts keep to 32 bits.
fn bound(e: &Expr, extents: &[usize], body: &Body) -> Option<i64> {
    let limit = i32::MAX as i64 - SLACK;
    let small = |n: i64| (n <= limit).then_some(n);
    let of = |e: &Expr| bound(e, extents, body);
    let mut sum = small(e.constant().checked_abs()?)?;
    for (term, coefficient) in e.terms() {
        let most = match term {
            Term::Var(Var(v)) => *extents.get(*v as usize)? as i64,
            Term::Value(v) => match body.value(*v).op {
                BodyOp::Check { size, .. } => size,
                _ => return None,
            },
            Term::Div(e, c) => of(e).filter(|_| *c <= limit)?,
            Term::Mod(e, c) => of(e).and(small(*c))?,
            Term::Mul(a, b) => of(a)?.checked_mul(of(b)?)?,
            Term::Min(a, b) | Term::Max(a, b) => of(a)?.max(of(b)?),
        };
        let part = most.checked_mul(coefficient.checked_abs()?)?;
        sum = small(sum.checked_add(small(part)?)?)?;
    }
    Some(sum)
}

impl Writer<'_> {
    /// The value of an index; the part that depends on the row alone goes to the row's preamble.
    pub(super) fn index(&mut self, e: &Expr) -> Index {
        let vector = self.vector_var();
        let moves = |t: &Term| *t == Term::Var(vector);
        let nested = e.terms().iter().any(|(term, _)| match term {
            Term::Var(_) => false,
            // A row's own values are known before its chunks are loaded.
            other => Expr::from(other.clone()).any(&mut |t| match *t {
                Term::Value(v) => self.inner[v as usize],
                ref t => moves(t),
            }),
        });
        let (mut row, mut inner) = (Vec::new(), Vec::new());
        for (term, c) in e.terms() {
            let of_row = !Expr::from(term.clone()).any(&mut |t| match t {
                Term::Var(v) => v.0 as usize >= self.node.iter.len(),
                Term::Value(_) => true,
                _ => false,
            });
            let value = self.scaled(term, *c);
            if of_row { &mut row } else { &mut inner }.push(value);
        }
        if e.constant() != 0 {
            row.push(Int::Param(self.param(e.constant())));
        }
        let base = (!row.is_empty()).then(|| self.base(&row));
        inner.splice(0..0, base.map(Int::Base));
        Index {
            value: Int::Sum(inner),
            unit: !nested && e.coefficient(vector) == 1,
            base,
        }
    }

    /// A sum that is computed once a row.
    fn base(&mut self, terms: &[Int]) -> Base {
        let base = Base(self.bases);
        self.bases += 1;
        let terms = Terms(terms, Position::First);
        let _ = writeln!(self.preamble, "  const ft_int {base} = {terms};");
        base
    }

    fn scaled(&mut self, term: &Term, c: i64) -> Int {
        let value = self.term(term);
        match c {
            1 => value,
            -1 => Int::Negative(value.into()),
            c => Int::Scaled(value.into(), self.param(c)),
        }
    }

    fn term(&mut self, term: &Term) -> Int {
        match term {
            Term::Var(v) if *v == self.vector_var() => Int::Position,
            Term::Var(v) => Int::Var(*v),
            Term::Value(v) => Int::Value(*v),
            Term::Div(e, c) => {
                let floor = self.may_be_negative(e);
                let e = self.sum(e).into();
                match floor {
                    true => Int::FloorQuotient(e, self.param(*c)),
                    false => Int::Quotient(e, self.divisor(*c)),
                }
            }
            Term::Mod(e, c) => {
                let floor = self.may_be_negative(e);
                let e = self.sum(e).into();
                match floor {
                    true => Int::FloorRemainder(e, self.param(*c)),
                    false => Int::Remainder(e, self.divisor(*c)),
                }
            }
            Term::Mul(a, b) => Int::Product(self.sum(a).into(), self.sum(b).into()),
            Term::Min(a, b) => Int::Least(self.sum(a).into(), self.sum(b).into()),
            Term::Max(a, b) => Int::Most(self.sum(a).into(), self.sum(b).into()),
        }
    }

    /// Whether a division of the expression must round down.
    fn may_be_negative(&self, e: &Expr) -> bool {
        !e.is_non_negative(self.extents.as_slice())
    }

    /// The value of an expression, nothing of which is computed before.
    pub(super) fn sum(&mut self, e: &Expr) -> Int {
        let mut terms: Vec<Int> = Vec::new();
        for (term, c) in e.terms() {
            terms.push(self.scaled(term, *c));
        }
        if e.constant() != 0 || terms.is_empty() {
            terms.push(Int::Param(self.param(e.constant())));
        }
        Int::Sum(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_of_32_bits_are_proved() {
        let body = Body::default();
        let fits = |e: &Expr, extents: &[usize]| fits_32_bits(e, extents, &body);
        let (i, j) = (Expr::var(0), Expr::var(1));
        let most = (i32::MAX as i64 - SLACK) as usize;
        assert!(fits(&i, &[most]));
        for extent in [most + 1, 1 << 31, 1 << 32, (1 << 32) + 5, usize::MAX >> 1] {
            assert!(!fits(&i, &[extent]), "{extent}");
        }
        // A sum of parts that fit, and a product of sizes that do.
        let flat = i.scale(1 << 16).add(&j);
        assert!(fits(&flat, &[1 << 14, 1 << 16]));
        assert!(!fits(&flat, &[1 << 15, 1 << 16]));
        assert!(!fits(&flat, &[1 << 14, (1 << 31) - (1 << 29)]));
        assert!(!fits(&i.mul(&j), &[1 << 16, 1 << 16]));
        // What is divided, or taken off again, must fit as well.
        let extents = [1usize << 20, 1 << 14];
        let divided = i.scale(1 << 14).add(&j).floor_div(1 << 17, &extents[..]);
        assert!(!fits(&divided, &extents));
        assert!(!fits(&i.scale(-(1 << 12)), &[1 << 20]));
        assert!(!fits(&i.offset(-(1i64 << 31)), &[5]));
        assert!(!fits(&i.offset(i64::MIN), &[5]));
    }
}
