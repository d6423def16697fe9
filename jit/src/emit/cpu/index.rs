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
        Index {
            expr: expr.unwrap_or(ir::Expr::Integer(0)),
            step,
            distance,
        }
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
            Term::Div(e, c) => {
                let non_negative = e.is_non_negative(self.extents());
                let (e, c) = (self.nested(e), self.param(*c));
                match non_negative {
                    true => e / c,
                    false => ir::Expr::call(Function::FloorDiv, [e, c.into()]),
                }
            }
            Term::Mod(e, c) => {
                let non_negative = e.is_non_negative(self.extents());
                let (e, c) = (self.nested(e), self.param(*c));
                match non_negative {
                    true => e % c,
                    false => ir::Expr::call(Function::FloorMod, [e, c.into()]),
                }
            }
            Term::Mul(a, b) => self.nested(a) * self.nested(b),
            Term::Min(a, b) => self.nested(a).least(self.nested(b)),
            Term::Max(a, b) => self.nested(a).greatest(self.nested(b)),
        }
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
