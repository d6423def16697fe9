//! Index expressions as CUDA C++: a row's part computed once, the rest a template over the vector position.

use super::kernel::Writer;
use crate::body::{Body, BodyOp};
use crate::expr::{Expr, Term, Var};
use std::fmt::Write as _;

/// A printed index. In `text`, `@` stands for the position along the vector axis.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// The C++ expression.
    pub text: String,
    /// Whether it moves by one with the vector position.
    pub unit: bool,
    /// The name of its row's part.
    pub base: Option<String>,
}

impl Index {
    /// The expression at a position.
    pub fn at(&self, position: &str) -> String {
        self.text.replace('@', position)
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
    /// Prints an index; the part that depends on the row alone goes to the row's preamble.
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
            let text = self.scaled(term, *c);
            if of_row { &mut row } else { &mut inner }.push(text);
        }
        if e.constant() != 0 {
            row.push(self.param(e.constant()));
        }
        let mut base = None;
        if !row.is_empty() {
            let name = format!("b{}", self.bases);
            base = Some(name.clone());
            self.bases += 1;
            let _ = writeln!(
                self.preamble,
                "  const ft_int {name} = {};",
                row.join(" + ")
            );
            inner.insert(0, name);
        }
        let text = match inner.is_empty() {
            true => "0".to_owned(),
            false => format!("({})", inner.join(" + ")),
        };
        Index {
            text,
            unit: !nested && e.coefficient(vector) == 1,
            base,
        }
    }

    fn scaled(&mut self, term: &Term, c: i64) -> String {
        let text = self.term(term);
        match c {
            1 => text,
            -1 => format!("-{text}"),
            c => format!("{text}*{}", self.param(c)),
        }
    }

    fn term(&mut self, term: &Term) -> String {
        match term {
            Term::Var(v) if *v == self.vector_var() => "@".to_owned(),
            Term::Var(v) => format!("i{}", v.0),
            Term::Value(v) => format!("(ft_int)v{v}"),
            Term::Div(e, c) => {
                let call = self.division(e);
                let e = self.nested(e);
                match call {
                    true => format!("ft_floor_div({e}, {})", self.param(*c)),
                    false => format!("({e}/{})", self.divisor(*c)),
                }
            }
            Term::Mod(e, c) => {
                let call = self.division(e);
                let e = self.nested(e);
                match call {
                    true => format!("ft_floor_mod({e}, {})", self.param(*c)),
                    false => format!("({e}%{})", self.divisor(*c)),
                }
            }
            Term::Mul(a, b) => format!("({}*{})", self.nested(a), self.nested(b)),
            Term::Min(a, b) => format!("ft_least({}, {})", self.nested(a), self.nested(b)),
            Term::Max(a, b) => format!("ft_most({}, {})", self.nested(a), self.nested(b)),
        }
    }

    /// Whether a division of the expression must round down by a call: it may be negative.
    fn division(&self, e: &Expr) -> bool {
        !e.is_non_negative(self.extents.as_slice())
    }

    pub(super) fn nested(&mut self, e: &Expr) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (term, c) in e.terms() {
            parts.push(self.scaled(term, *c));
        }
        if e.constant() != 0 || parts.is_empty() {
            parts.push(self.param(e.constant()));
        }
        format!("({})", parts.join(" + "))
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
