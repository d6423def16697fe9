//! Index expressions: a row's part computed once, the rest a function of the position along the vector axis.

use super::kernel::Writer;
use super::name::Base;
use crate::body::{Body, BodyOp, Source};
use crate::expr::{Expr as Affine, Term, Var};
use crate::kernel::ir::{Block, Expr, Function, Local, Name, Stmt, Type};

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

impl From<Position> for Expr {
    fn from(position: Position) -> Expr {
        match position {
            Position::First => Expr::Integer(0),
            Position::Chunk => Expr::from(Local::Column),
            Position::Lane => Expr::from(Local::Column) + Local::Lane,
            Position::Column => Expr::from(Local::Index),
        }
    }
}

/// An index, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// The expression, with the position along the vector axis as a leaf.
    pub value: Expr,
    /// Whether it moves by one with the vector position.
    pub unit: bool,
    /// Its row's part.
    pub base: Option<Base>,
    /// The position of a row's first element along the vector axis.
    first: Expr,
}

impl Index {
    /// The expression at a position.
    pub fn at(&self, position: Position) -> Expr {
        match position {
            Position::First => self.value.at(&self.first),
            position => self.value.at(&position.into()),
        }
    }
}

/// What indices may share a row's part with: programs that differ in which operands lie alike have one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// Indices of loads of one source, as windows are.
    Loads(Source),
    /// Conditions of masks.
    Conditions,
}

/// A row's part of an index, to which others with the same terms are near.
#[derive(Clone, Debug)]
pub(super) struct Anchor {
    among: Among,
    terms: Vec<(Term, i64)>,
    constant: i64,
    base: Base,
}

/// The greatest distance of two indices that stands in a kernel's text: neighbouring taps of a window read what others
/// have read, which the compiler sees by it.
const NEAR: i64 = 8;

/// Positions past the end that a thread may compute without using them.
const SLACK: i64 = 1 << 16;

/// Whether every subexpression keeps to 32 bits: index arithmetic is done in them only where this proves it.
pub(super) fn fits_32_bits(e: &Affine, extents: &[usize], body: &Body) -> bool {
    bound(e, extents, body).is_some()
}

/// The greatest magnitude of an expression whose parts keep to 32 bits.
fn bound(e: &Affine, extents: &[usize], body: &Body) -> Option<i64> {
    let limit = i32::MAX as i64 - SLACK;
    let small = |n: i64| (n <= limit).then_some(n);
    let of = |e: &Affine| bound(e, extents, body);
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
    pub(super) fn index(&mut self, e: &Affine) -> Index {
        self.index_of(e, None)
    }

    /// The value of an index that may share its row's part with others.
    pub(super) fn index_among(&mut self, e: &Affine, among: Among) -> Index {
        // Shifted chunks begin where the base of a load says.
        self.index_of(e, self.shape.shifted.is_none().then_some(among))
    }

    fn index_of(&mut self, e: &Affine, among: Option<Among>) -> Index {
        let vector = self.vector_var();
        let moves = |t: &Term| *t == Term::Var(vector);
        let nested = e.terms().iter().any(|(term, _)| match term {
            Term::Var(_) => false,
            // A row's own values are known before its chunks are loaded.
            other => Affine::from(other.clone()).any(&mut |t| match *t {
                Term::Value(v) => self.inner[v as usize],
                ref t => moves(t),
            }),
        });
        let (mut row, mut inner) = (Vec::new(), Vec::new());
        for (term, c) in e.terms() {
            let of_row = !Affine::from(term.clone()).any(&mut |t| match t {
                Term::Var(v) => *v == vector || v.0 as usize >= self.node.iter.len(),
                Term::Value(_) => true,
                _ => false,
            });
            match of_row {
                true => row.push((term.clone(), *c)),
                false => inner.push(self.scaled(term, *c)),
            }
        }
        let (base, further) = self.row_part(row, e.constant(), among);
        let row = base.map(|base| match further {
            0 => Expr::from(base),
            further => Expr::from(base) + Expr::Integer(further),
        });
        Index {
            value: Expr::sum(row.into_iter().chain(inner)).unwrap_or(Expr::Integer(0)),
            unit: !nested && e.coefficient(vector) == 1,
            base: base.filter(|_| further == 0),
            // A row's values are computed by the second kernel, for each row.
            first: match self.shape.across {
                true => Name::Loop(vector).into(),
                false => Expr::Integer(0),
            },
        }
    }

    /// A row's part of an index: a value that is computed once a row, and a small number to be added to it.
    fn row_part(
        &mut self,
        terms: Vec<(Term, i64)>,
        constant: i64,
        among: Option<Among>,
    ) -> (Option<Base>, i64) {
        let alike = |a: &&Anchor| Some(a.among) == among && a.terms == terms;
        let nearest = self
            .anchors
            .iter()
            .filter(alike)
            .min_by_key(|a| (constant - a.constant).abs());
        let value = match nearest.map(|a| (a.base, constant - a.constant)) {
            Some((base, further)) if further.abs() <= NEAR => return (Some(base), further),
            Some((base, further)) => Some(Expr::from(base) + self.param(further)),
            None => {
                let mut row: Vec<Expr> = Vec::new();
                for (term, c) in &terms {
                    row.push(self.scaled(term, *c));
                }
                if constant != 0 {
                    row.push(self.param(constant).into());
                }
                Expr::sum(row)
            }
        };
        let base = value.map(|value| self.base(value));
        if let (Some(base), Some(among)) = (base, among) {
            self.anchors.push(Anchor {
                among,
                terms,
                constant,
                base,
            });
        }
        (base, 0)
    }

    /// An expression that is computed once a row.
    fn base(&mut self, value: Expr) -> Base {
        let base = Base(self.bases);
        self.bases += 1;
        let declared = Stmt::constant(Name::Base(base.0 as u32), Type::INDEX, value);
        self.preamble.push(declared);
        base
    }

    fn scaled(&mut self, term: &Term, c: i64) -> Expr {
        let value = self.term(term);
        match c {
            1 => value,
            -1 => -value,
            c => value * self.param(c),
        }
    }

    fn term(&mut self, term: &Term) -> Expr {
        match term {
            Term::Var(v) if *v == self.vector_var() => Expr::Position,
            Term::Var(v) => Name::Loop(*v).into(),
            Term::Value(v) => Expr::from(Name::value(*v)).cast(Type::INDEX),
            Term::Div(e, c) => {
                let floor = self.may_be_negative(e);
                let e = self.sum(e);
                match floor {
                    true => Expr::call(Function::FloorDiv, [e, self.param(*c).into()]),
                    false => e / self.divisor(*c),
                }
            }
            Term::Mod(e, c) => {
                let floor = self.may_be_negative(e);
                let e = self.sum(e);
                match floor {
                    true => Expr::call(Function::FloorMod, [e, self.param(*c).into()]),
                    false => e % self.divisor(*c),
                }
            }
            Term::Mul(a, b) => self.sum(a) * self.sum(b),
            Term::Min(a, b) => self.sum(a).least(self.sum(b)),
            Term::Max(a, b) => self.sum(a).greatest(self.sum(b)),
        }
    }

    /// Whether a division of the expression must round down.
    fn may_be_negative(&self, e: &Affine) -> bool {
        !e.is_non_negative(self.extents.as_slice())
    }

    /// The value of an expression, nothing of which is computed before.
    pub(super) fn sum(&mut self, e: &Affine) -> Expr {
        let mut terms: Vec<Expr> = Vec::new();
        for (term, c) in e.terms() {
            terms.push(self.scaled(term, *c));
        }
        let constant = (e.constant() != 0).then(|| self.param(e.constant()).into());
        let all = Expr::sum(terms.into_iter().chain(constant));
        // An argument too, so that sizes are no part of the text.
        all.unwrap_or_else(|| self.param(0).into())
    }

    /// What is computed of a row's indices as text, for text that is not taken apart yet.
    pub(super) fn preamble_text(&mut self) -> String {
        crate::print::cuda::lines(&self.preamble, 2, &mut self.needs)
    }

    /// Statements as text, for text that is not taken apart yet.
    pub(super) fn lines(&mut self, block: &Block, indent: usize) -> String {
        crate::print::cuda::lines(block, indent, &mut self.needs)
    }
}

#[cfg(test)]
mod tests {
    use super::Affine as Expr;
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
