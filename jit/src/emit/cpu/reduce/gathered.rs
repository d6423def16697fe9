//! Outer reductions of gathered rows whose accumulators stay in vector registers while all columns are walked.
//!
//! Several vectors of a block of rows are reduced at once, each by statements of its own: their accumulators are plain
//! variables. What is left of a block, fewer vectors than that, is reduced by arrays of accumulators. Each lane's order
//! of summation is that of the columns either way. Rows that are not gathered are read in longer runs instead.

use crate::body::{BodyOp, Value};
use crate::emit::cpu::index::{Index, Step};
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::pieces::Pieces;
use crate::emit::cpu::reduce::Reduction;
use crate::emit::cpu::reduce::totals::{RUN, turn_of};
use crate::emit::cpu::stage::Loop;
use crate::emit::cpu::value::{At, COLUMN};
use crate::kernel::ir::{self, Axis, Block, Copy, Expr, Local, Name, Part, Stmt, Type, ValueType};

/// Most statements of all vectors together.
const STATEMENTS: usize = 64;

impl Writer<'_> {
    /// Vectors of a block that are reduced at once, in half of the registers, if a loop is fit for that: it only reduces,
    /// and little else.
    fn held_vectors(&self, l: &Loop, shared: &[Value]) -> Option<usize> {
        let accumulators: usize = l
            .reduces
            .iter()
            .map(|&r| 1 + usize::from(self.reduction(r).has_position()))
            .sum();
        let only_reduces = l.stores.is_empty() && l.save.is_empty() && l.restore.is_empty();
        if self.is_chunked() || !only_reduces || accumulators == 0 || shared.is_empty() {
            return None;
        }
        let statements = l.compute.iter().filter(|v| !shared.contains(v)).count() + accumulators;
        let vectors = (self.registers / 2 / accumulators).min(STATEMENTS / statements);
        (vectors > 1).then_some(vectors)
    }

    /// The loop over vectors of a block that are reduced in registers, all columns for each; the variable `left` is then
    /// the first position that is left. Whether there is such a loop.
    pub(in crate::emit::cpu) fn gathered_loop(
        &mut self,
        out: &mut Block,
        l: &Loop,
        (available, shared): (&[Value], &[Value]),
        cut: &Pieces,
        (left, sums): (Name, &[Reduction]),
    ) -> bool {
        let Some(vectors) = self.held_vectors(l, shared) else {
            return false;
        };
        let width = vectors * self.lanes;
        let all = l.reduces.iter().map(|&id| self.reduction(id));
        let starts: Vec<_> = all.flat_map(|r| self.array_starts(&r)).collect();
        let numbered = |name: Name, c: usize| match name {
            Name::Of(part, value, _) => Name::copy(part, value, c),
            other => other,
        };
        let mut block = Block::new();
        for (name, dtype, start) in &starts {
            let ty = self.vector_type(*dtype);
            let begin = |c| Stmt::variable(numbered(*name, c), ty, start.clone());
            block.extend((0..vectors).map(begin));
        }
        let mut body = Block::new();
        self.shared_statements(shared, available, &mut body);
        self.prefetch_gathered(l, shared, cut, (left, Some(width)), &mut body);
        let mut own = l.clone();
        own.compute.retain(|v| !shared.contains(v));
        let at = At {
            position: &COLUMN,
            lanes: None,
        };
        let before = self.point_at_rows(&own, available, shared, left, &mut body);
        for c in 0..vectors {
            let column = Expr::from(left) + (c * self.lanes) as i64;
            let mut vector = Block::from(Stmt::constant(Local::Column, Type::INDEX, column));
            self.recalled(&mut vector, &own, available);
            self.outer_column(&mut vector, &own, at, Some(Copy::Number(c as u8)));
            body.push(Stmt::Scope(vector));
        }
        for (v, index) in before {
            self.staged.remove(&v);
            self.indices.insert(v, index);
        }
        if !sums.is_empty() {
            let moved = self.move_held(sums, vectors, left);
            body.append(self.every(sums, RUN as i64, moved));
            block.push(Stmt::variable(turn_of(sums), Type::INDEX, 0));
        }
        self.walk(&mut block, None, body);
        for (name, ..) in &starts {
            let leave = |c| {
                let to = Expr::from(*name).element(self.vector_at(left, c));
                Stmt::assign(to, numbered(*name, c))
            };
            block.extend((0..vectors).map(leave));
        }
        out.push(Stmt::variable(left, Type::INDEX, Local::Low));
        out.push(
            ir::Loop::over(left, 0, Local::High)
                .from_here()
                .by_whole(width)
                .along(Axis::Vector)
                .each(block),
        );
        true
    }

    /// Has the loads that are runs from one place a column read through a pointer to it, which the compiler cannot take
    /// apart: it would keep the address of every vector's first lane instead, in more registers than there are, and so
    /// many instructions a column leave the processor few columns to read at a time. The indices from before.
    fn point_at_rows(
        &mut self,
        l: &Loop,
        available: &[Value],
        shared: &[Value],
        left: Name,
        out: &mut Block,
    ) -> Vec<(Value, Index)> {
        let mut before = Vec::new();
        // Of what a row has computed, what shared values need is at hand for all vectors; the rest is read back for each.
        let operands = shared.iter().flat_map(|&v| self.node.body.operands(v));
        let read_back: Vec<Value> = operands.filter(|o| available.contains(o)).collect();
        for &v in &l.compute {
            let BodyOp::Load {
                source,
                mask: None,
                dtype,
                ..
            } = &self.node.body.value(v).op
            else {
                continue;
            };
            let known = |o: &Value| shared.contains(o) || read_back.contains(o);
            let index = self.indices[&v].clone();
            let is_run = index.step == Step::Unit && !self.staged.contains_key(&v);
            if !is_run || !self.node.body.operands(v).iter().all(known) {
                continue;
            }
            let run = Name::of(Part::Run, v);
            let place = Expr::from(self.pointer(*source)) + index.at(&left.into());
            let ty = Type::read(ValueType::Memory(*dtype));
            out.push(Stmt::variable(run, ty, place));
            out.push(Stmt::Opaque(run));
            self.staged.insert(v, run);
            before.push((v, index));
            let expr = Expr::Position - left;
            self.indices.insert(v, Index::by_one(expr));
        }
        before
    }
}
