//! Indices: a row's part is computed once, the rest is an expression of the position along the vector axis.

use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::lanes::moves_irregularly;
use crate::expr::{Expr, Term, Var};
use crate::kernel::ir::{self, Function, Local, Name, Stmt, Type};

/// An index of a row's element.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// The index, with [`ir::Expr::Position`] for the position along the vector axis.
    pub expr: ir::Expr,
    /// How it moves with that position.
    pub step: Step,
    /// By how many elements, where that is an argument.
    pub distance: Option<Name>,
    /// How it moves between two positions at which quotients change, where it moves irregularly for no other reason.
    pub run: Option<Run>,
}

/// An index between two changes of its quotients. A tensor that is reshaped and read in part has such an index: it goes through
/// the elements of one row until a quotient changes, then through those of another.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The index there.
    pub inside: Box<Index>,
    remainders: Vec<Remainder>,
}

/// A remainder by which an index moves, in [`ir::Expr::Position`]: a run ends where it leaves 0..divisor.
#[derive(Clone, Debug)]
struct Remainder {
    value: ir::Expr,
    divisor: ir::Expr,
    /// Whether it grows by one from lane to lane, or falls by one.
    grows: bool,
}

impl Run {
    /// Whether so many positions are in one run.
    pub fn holds(&self, position: &ir::Expr, count: &ir::Expr) -> Option<ir::Expr> {
        let tests = self.remainders.iter().map(|remainder| {
            let value = remainder.value.at(position);
            let moved = count.clone() - 1;
            match remainder.grows {
                true => (value + moved).less(remainder.divisor.clone()),
                false => (value - moved).at_least(0),
            }
        });
        ir::Expr::all(tests)
    }
}

/// How an index moves with the position along the vector axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Not at all.
    Uniform,
    /// By one.
    Unit,
    /// By minus one.
    Back,
    /// By two to sixteen.
    Every(u8),
    /// By another constant.
    Strided,
    /// Otherwise, or by a value of each lane.
    Irregular,
}

impl Index {
    /// An index that moves by one element.
    pub fn by_one(expr: ir::Expr) -> Index {
        Index {
            expr,
            step: Step::Unit,
            distance: None,
            run: None,
        }
    }

    /// The index at a position.
    pub fn at(&self, position: &ir::Expr) -> ir::Expr {
        self.expr.at(position)
    }
}

impl Writer<'_> {
    /// An index as the row's part, which is computed in the row's preamble, and the rest.
    pub(super) fn index(&mut self, e: &Expr) -> Index {
        let vector = self.vector_var();
        let coefficient = vector.map_or(0, |v| e.coefficient(v));
        let irregular = vector.is_some_and(|v| moves_irregularly(e, v, &self.differ));
        let step = match coefficient {
            _ if irregular => Step::Irregular,
            0 => Step::Uniform,
            1 => Step::Unit,
            -1 => Step::Back,
            2..=16 => Step::Every(coefficient as u8),
            _ => Step::Strided,
        };
        let (mut row, mut inner) = (Expr::from(0), Vec::new());
        let mut distance = None;
        for (term, c) in e.terms() {
            if !Expr::from(term.clone()).any(&mut |t| self.is_inner_term(t)) {
                row = row.add(&Expr::from(term.clone()).scale(*c));
                continue;
            }
            let printed = self.term(term);
            let scaled = self.scaled(printed, *c);
            if let (Term::Var(v), ir::Expr::Infix(_, both)) = (term, &scaled)
                && Some(*v) == vector
                && let ir::Expr::Name(by) = both.1
            {
                distance = Some(by);
            }
            inner.push(scaled);
        }
        let base = self.row_part(&row, e.constant()).map(ir::Expr::from);
        let expr = ir::Expr::sum(base.into_iter().chain(inner));
        let mut index = Index {
            expr: expr.unwrap_or(ir::Expr::Integer(0)),
            step,
            distance,
            run: None,
        };
        if irregular && let Some(along) = vector {
            index.run = self.run(e, &index, along);
        }
        index
    }

    /// The runs of an index that moves irregularly, if they are longer than vectors and it moves by one, not or backwards in
    /// them.
    fn run(&mut self, e: &Expr, index: &Index, along: Var) -> Option<Run> {
        let mut quotients = Vec::new();
        let step = match self.moves_between(e, along, &mut quotients)? {
            0 => Step::Uniform,
            1 => Step::Unit,
            -1 => Step::Back,
            _ => return None,
        };
        let remainders = quotients.into_iter().map(|(of, divisor, by)| Remainder {
            divisor: self.divided(&of, divisor).1.into(),
            value: self.term(&Term::Mod(Box::new(of), divisor)),
            grows: by > 0,
        });
        let remainders: Vec<Remainder> = remainders.collect();
        let inside = Box::new(Index {
            step,
            ..index.clone()
        });
        (!remainders.is_empty()).then_some(Run { inside, remainders })
    }

    /// By how much an expression moves where no quotient in it changes. Adds what is divided, by how much, and how it moves.
    fn moves_between(
        &self,
        e: &Expr,
        along: Var,
        quotients: &mut Vec<(Expr, i64, i64)>,
    ) -> Option<i64> {
        let moves = |term: &Term| match term {
            Term::Value(v) => self.differ[*v as usize],
            Term::Var(v) => *v == along,
            _ => false,
        };
        let mut sum = 0i64;
        for (term, c) in e.terms() {
            if !Expr::from(term.clone()).any(&mut |term| moves(term)) {
                continue;
            }
            let by = match term {
                Term::Var(_) => 1,
                Term::Div(of, divisor) | Term::Mod(of, divisor) => {
                    let by = self.moves_between(of, along, quotients)?;
                    // Larger moves would stand in the text of a kernel, which holds no size.
                    let longer = self.lanes as i64 <= *divisor;
                    if by != 0 && !(longer && matches!(by, 1 | -1)) {
                        return None;
                    }
                    let known = |q: &(Expr, i64, i64)| q.0 == **of && q.1 == *divisor;
                    if by != 0 && !quotients.iter().any(known) {
                        quotients.push(((**of).clone(), *divisor, by));
                    }
                    match term {
                        Term::Mod(..) => by,
                        _ => 0,
                    }
                }
                _ => return None,
            };
            sum = sum.checked_add(by.checked_mul(*c)?)?;
        }
        Some(sum)
    }

    fn scaled(&mut self, e: ir::Expr, by: i64) -> ir::Expr {
        match by {
            1 => e,
            -1 => -e,
            by => e * self.param(by),
        }
    }

    /// The name of a row's part of an index and a constant, if that is not zero. Indices whose parts are equal share it: to
    /// compute one for each takes longer than a row of few columns.
    fn row_part(&mut self, row: &Expr, constant: i64) -> Option<Name> {
        let whole = row.offset(constant);
        if let Some(&name) = self.row_parts.get(&whole) {
            return Some(name);
        }
        let mut parts = Vec::new();
        if !row.terms().is_empty() && constant != 0 {
            parts.extend(self.row_part(row, 0).map(ir::Expr::from));
        } else {
            for (term, c) in row.terms() {
                let printed = self.term(term);
                parts.push(self.scaled(printed, *c));
            }
        }
        if constant != 0 {
            parts.push(self.param(constant).into());
        }
        let name = self.base(ir::Expr::sum(parts)?);
        self.row_parts.insert(whole, name);
        Some(name)
    }

    /// The name of a row's part of an index.
    pub(super) fn base(&mut self, row: ir::Expr) -> Name {
        let name = Name::Base(self.next_base());
        self.preamble.push(Stmt::constant(name, Type::INDEX, row));
        name
    }

    fn is_inner_term(&self, term: &Term) -> bool {
        match term {
            Term::Var(v) => self.is_inner_var(*v),
            Term::Value(_) => true,
            _ => false,
        }
    }

    fn term(&mut self, term: &Term) -> ir::Expr {
        match term {
            Term::Var(v) => self.var(*v),
            Term::Value(v) => {
                let lane = match self.differ[*v as usize] {
                    true => Local::Lane.into(),
                    false => ir::Expr::Integer(0),
                };
                ir::Expr::from(Name::value(*v)).element(lane)
            }
            Term::Div(of, divisor) => {
                let (e, c) = self.divided(of, *divisor);
                match of.is_non_negative(self.extents()) {
                    true => e / c,
                    false => ir::Expr::call(Function::FloorDiv, [e, c.into()]),
                }
            }
            Term::Mod(of, divisor) => {
                let (e, c) = self.divided(of, *divisor);
                match of.is_non_negative(self.extents()) {
                    true => e % c,
                    false => ir::Expr::call(Function::FloorMod, [e, c.into()]),
                }
            }
            Term::Mul(a, b) => self.nested(a) * self.nested(b),
            Term::Min(a, b) => self.nested(a).least(self.nested(b)),
            Term::Max(a, b) => self.nested(a).greatest(self.nested(b)),
        }
    }

    /// What is divided, and the argument by which. Quotient and remainder of the same numbers have the same names, so that
    /// compilers divide once.
    fn divided(&mut self, of: &Expr, divisor: i64) -> (ir::Expr, Name) {
        let key = (of.clone(), divisor);
        if let Some(known) = self.divided.get(&key) {
            return known.clone();
        }
        let named = (self.nested(of), self.param(divisor));
        self.divided.insert(key, named.clone());
        named
    }

    /// An index with all of its parts.
    pub(super) fn nested(&mut self, e: &Expr) -> ir::Expr {
        let mut parts = Vec::new();
        for (term, c) in e.terms() {
            let printed = self.term(term);
            parts.push(match *c {
                1 => printed,
                c => printed * self.param(c),
            });
        }
        if e.constant() != 0 || parts.is_empty() {
            parts.push(self.param(e.constant()).into());
        }
        ir::Expr::sum(parts).unwrap_or(ir::Expr::Integer(0))
    }

    fn var(&self, v: Var) -> ir::Expr {
        match Some(v) == self.vector_var() {
            true => ir::Expr::Position,
            false => Name::Loop(v).into(),
        }
    }
}
