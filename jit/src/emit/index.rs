//! Index expressions as C: a row's part computed once, the rest a template over the vector position.

use super::kernel::Writer;
use super::lanes::moves_irregularly;
use crate::expr::{Expr, Term, Var};

/// A printed index. In `text`, `@` stands for the position along the vector axis.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// The C expression.
    pub text: String,
    /// How it moves with the vector position.
    pub step: Step,
}

/// How an index moves with the vector position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Not at all.
    Uniform,
    /// By one.
    Unit,
    /// By minus one.
    Back,
    /// By two.
    Even,
    /// By another constant.
    Strided,
    /// Otherwise, or by a value of each lane.
    Irregular,
}

impl Index {
    /// The expression at a position.
    pub fn at(&self, position: &str) -> String {
        self.text.replace('@', position)
    }
}

impl Writer<'_> {
    /// Prints an index. `hoist` names a row variable to keep the row's part in; it is declared in the row's preamble.
    pub(super) fn index(&mut self, e: &Expr) -> Index {
        let vector = self.vector_var();
        let coefficient = vector.map_or(0, |v| e.coefficient(v));
        let irregular = vector.is_some_and(|v| moves_irregularly(e, v, &self.differ));
        let step = match coefficient {
            _ if irregular => Step::Irregular,
            0 => Step::Uniform,
            1 => Step::Unit,
            -1 => Step::Back,
            2 => Step::Even,
            _ => Step::Strided,
        };
        let mut row = Vec::new();
        let mut inner = Vec::new();
        for (term, c) in e.terms() {
            let of_row = !Expr::from(term.clone()).any(&mut |t| self.is_inner_term(t));
            let text = self.term(term);
            let text = match *c {
                1 => text,
                -1 => format!("-{text}"),
                c => format!("{text}*{}", self.param(c)),
            };
            if of_row { &mut row } else { &mut inner }.push(text);
        }
        if e.constant() != 0 {
            row.push(self.param(e.constant()));
        }
        if !row.is_empty() {
            let name = format!("b{}", self.next_base());
            self.row_line(&format!("const long long {name} = {};", row.join(" + ")));
            inner.insert(0, name);
        }
        let text = if inner.is_empty() {
            "0".to_owned()
        } else {
            format!("({})", inner.join(" + "))
        };
        Index { text, step }
    }

    fn is_inner_term(&self, term: &Term) -> bool {
        match term {
            Term::Var(v) => self.is_inner_var(*v),
            Term::Value(_) => true,
            _ => false,
        }
    }

    fn term(&mut self, term: &Term) -> String {
        match term {
            Term::Var(v) => self.var(*v),
            Term::Value(v) if self.differ[*v as usize] => format!("v{v}[l]"),
            Term::Value(v) => format!("v{v}[0]"),
            Term::Div(e, c) => {
                let non_negative = e.is_non_negative(self.extents());
                let (e, c) = (self.nested(e), self.param(*c));
                if non_negative {
                    format!("({e}/{c})")
                } else {
                    format!("ft_floor_div({e}, {c})")
                }
            }
            Term::Mod(e, c) => {
                let non_negative = e.is_non_negative(self.extents());
                let (e, c) = (self.nested(e), self.param(*c));
                if non_negative {
                    format!("({e}%{c})")
                } else {
                    format!("ft_floor_mod({e}, {c})")
                }
            }
            Term::Mul(a, b) => format!("({}*{})", self.nested(a), self.nested(b)),
            Term::Min(a, b) => format!("ft_min({}, {})", self.nested(a), self.nested(b)),
            Term::Max(a, b) => format!("ft_max({}, {})", self.nested(a), self.nested(b)),
        }
    }

    pub(super) fn nested(&mut self, e: &Expr) -> String {
        let mut parts = Vec::new();
        for (term, c) in e.terms() {
            let text = self.term(term);
            parts.push(match *c {
                1 => text,
                c => format!("{text}*{}", self.param(c)),
            });
        }
        if e.constant() != 0 || parts.is_empty() {
            parts.push(self.param(e.constant()));
        }
        format!("({})", parts.join(" + "))
    }

    fn var(&self, v: Var) -> String {
        if Some(v) == self.vector_var() {
            "@".to_owned()
        } else {
            format!("i{}", v.0)
        }
    }
}
