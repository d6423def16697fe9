//! The last loop of a row, taken along by a costly loop of the next row.
//!
//! Where a row is short, its phases do not overlap: a loop that only loads, multiplies and stores waits for the sum that
//! it needs, and leaves the multipliers idle; the loop of exp before it leaves the memory idle. So the last loop of a row
//! runs column by column inside the next row's loop of functions: a softmax of rows of 1024 takes 0.93 of the time. What
//! it needs of its own row is carried there. The last row of a launch, and rows whose stores bypass the cache or whose
//! divisor has no normal reciprocal, finish by themselves.

use crate::body::{BodyOp, Value};
use crate::emit::cpu::index::{Index, Step};
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::stage::Loop;
use crate::emit::cpu::transform::unroll_and_jam::usual_tests;
use crate::emit::cpu::value::{At, COLUMN};
use crate::kernel::ir::{Block, Expr, Infix, Local, Name, Part, Stmt, Type};
use std::collections::BTreeSet;

/// Most values of a loop that is taken along: registers are scarce in a loop of functions.
const VALUES: usize = 6;

/// Which loop is taken along, and by which.
#[derive(Clone, Debug)]
pub(in crate::emit::cpu) struct Pipelined {
    /// The loop of the next row.
    pub host: usize,
    /// The last loop of a row.
    pub guest: usize,
    /// What the guest needs of its row.
    carried: Vec<(Name, Type)>,
}

impl Writer<'_> {
    /// The last loop with work, if a loop before it may take it along.
    pub(in crate::emit::cpu) fn find_pipelined(&self) -> Option<Pipelined> {
        let loops = &self.stages.loops;
        let whole_rows = self.node.reduces()
            && !(self.outer || self.split || self.ordered || self.node.feeds)
            && self.node.product.is_none()
            && self.tile.is_none()
            && self.walked_vars().is_empty();
        if !whole_rows {
            return None;
        }
        let guest = loops
            .iter()
            .rposition(|l| !l.stores.is_empty() || !l.reduces.is_empty())?;
        let host = (0..guest).rfind(|&s| {
            let functions = loops[s].compute.iter().any(|&v| self.is_heavy(v));
            functions && self.is_light(&loops[s]) && self.is_jammed(&loops[s])
        })?;
        let carried = self.carried_by(&loops[guest])?;
        // What is kept for the guest lies there until the host comes to the same columns of the next row.
        let early = |v: &Value| loops[..host].iter().any(|l| l.save.contains(v));
        (!loops[guest].restore.iter().any(early)).then_some(Pipelined {
            host,
            guest,
            carried,
        })
    }

    /// What a loop needs of its row, if it is fit to run in another: it stores runs, and computes little.
    fn carried_by(&self, l: &Loop) -> Option<Vec<(Name, Type)>> {
        let body = &self.node.body;
        let fit = l.reduces.is_empty()
            && l.save.is_empty()
            && l.compute.len() <= VALUES
            && !l.compute.iter().any(|&v| self.is_heavy(v));
        let mut carried = Vec::new();
        for &v in &l.compute {
            match &body.value(v).op {
                BodyOp::Load { mask: None, .. } if body.operands(v).is_empty() => {
                    carried.extend(base(self.indices.get(&v)?)?);
                }
                BodyOp::Unary(..)
                | BodyOp::Binary(..)
                | BodyOp::Divide(..)
                | BodyOp::Select(..)
                | BodyOp::Cast(_)
                | BodyOp::Round(..)
                | BodyOp::Number(_) => {}
                _ => return None,
            }
        }
        let mut values = Vec::new();
        for &s in &l.stores {
            let store = &self.node.stores[s];
            if store.update.as_ref().is_some_and(|u| u.at().is_some()) {
                return None;
            }
            carried.extend(base(self.store_indices.get(&s)?)?);
            values.push(store.value);
        }
        for &v in &l.compute {
            match body.value(v).op {
                // Where the guest runs, division is multiplication by the reciprocal.
                BodyOp::Divide(a, _, r) => values.extend([a, r]),
                _ => values.extend(body.operands(v)),
            }
        }
        for v in values {
            if !l.compute.contains(&v) && !l.restore.contains(&v) {
                let ty = self.vector_type(body.value(v).dtype);
                carried.push((self.name(v), ty));
            }
        }
        carried.sort_unstable_by_key(|&(name, ty)| (ty == Type::INDEX, name));
        carried.dedup();
        fit.then_some(carried)
    }

    /// Declares what is carried from a row to the next, before the loop over rows.
    pub(in crate::emit::cpu) fn declare_pipelined(&self, out: &mut Block) {
        let Some(late) = &self.pipelined else { return };
        out.push(Stmt::variable(Local::Pipelined, Type::INT, 0));
        let declare = |&(name, ty): &(Name, Type)| match ty {
            Type::INDEX => Stmt::variable(carried(name), ty, 0),
            _ => Stmt::variable(carried(name), ty, Expr::Zeros),
        };
        out.extend(late.carried.iter().map(declare));
    }

    /// The guest's steps of as many vectors as there are positions, where its row is late.
    pub(in crate::emit::cpu) fn pipelined_steps(
        &mut self,
        out: &mut Block,
        l: &Loop,
        places: &[At<'_>],
    ) {
        let Some(late) = self
            .pipelined
            .clone()
            .filter(|late| self.is_loop(l, late.host))
        else {
            return;
        };
        let guest = self.stages.loops[late.guest].clone();
        let (usual, ahead) = (self.usual.take(), std::mem::take(&mut self.ahead));
        self.usual = Some(BTreeSet::new());
        let declare = |&(name, ty): &(Name, Type)| Stmt::constant(name, ty, carried(name));
        let mut steps: Block = late.carried.iter().map(declare).collect();
        for &at in places {
            let mut step = Block::new();
            self.inner_step(&mut step, &guest, at, 0);
            steps.push(Stmt::Scope(step));
        }
        out.push(Stmt::when(Local::Pipelined.into(), steps));
        (self.usual, self.ahead) = (usual, ahead);
    }

    /// Decides whether the row is left to the next one, and what is carried there; before the guest's own loop. Whether
    /// there is such a decision.
    pub(in crate::emit::cpu) fn decide_pipelined(&mut self, out: &mut Block, l: &Loop) -> bool {
        let Some(late) = self
            .pipelined
            .clone()
            .filter(|late| self.is_loop(l, late.guest))
        else {
            return false;
        };
        // The tests of the steps that the host takes are those of a whole vector.
        self.usual = Some(BTreeSet::new());
        let at = At {
            position: &COLUMN,
            lanes: None,
        };
        self.inner_step(&mut Block::new(), l, at, 0);
        let mut tests = usual_tests(&self.usual.take().unwrap_or_default());
        tests.push((Expr::from(Local::Unit) + 1).less(Local::End));
        if let Some(test) = Expr::all(tests) {
            out.push(Stmt::assign(Local::Pipelined, test));
        }
        let keep = |&(name, _): &(Name, Type)| Stmt::assign(carried(name), name);
        out.extend(late.carried.iter().map(keep));
        true
    }

    fn is_loop(&self, l: &Loop, at: usize) -> bool {
        *l == self.stages.loops[at]
    }

    /// Whether several vectors are taken at a time.
    pub(in crate::emit::cpu) fn is_light(&self, l: &Loop) -> bool {
        let plain = |v: &&Value| {
            let op = &self.node.body.value(**v).op;
            !matches!(op, BodyOp::Load { .. } | BodyOp::Number(_))
        };
        let irregular = |v| self.indices.get(v).is_some_and(|i| i.step != Step::Unit);
        let position = l.reduces.iter().any(|&r| self.reduction(r).has_position());
        let heavy = l.compute.iter().filter(|&&v| self.is_heavy(v)).count();
        l.compute.iter().filter(plain).count() <= 6
            && !l.compute.iter().any(irregular)
            && l.stores.is_empty()
            && (l.save.is_empty() || heavy <= 1)
            && (!position || self.counting)
    }
}

/// The name of the row's part of an index, if the rest is the position alone.
fn base(index: &Index) -> Option<Option<(Name, Type)>> {
    if index.step != Step::Unit {
        return None;
    }
    match &index.expr {
        Expr::Position => Some(None),
        Expr::Infix(Infix::Add, both) => match **both {
            (Expr::Name(name @ Name::Base(_)), Expr::Position) => Some(Some((name, Type::INDEX))),
            _ => None,
        },
        _ => None,
    }
}

/// What the row before left under a name.
fn carried(name: Name) -> Name {
    match name {
        Name::Of(_, value, copy) => Name::Of(Part::Pipelined, value, copy),
        Name::Base(base) => Name::PipelinedBase(base),
        other => other,
    }
}
