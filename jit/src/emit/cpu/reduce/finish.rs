//! What a row's loop leaves: finished reductions, or partial results of a split row, which `finish` combines in order.

use crate::body::Value;
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::pieces::Pieces;
use crate::emit::cpu::reduce::{Reduction, better};
use crate::kernel::ir::{self, Axis, Block, Expr, Infix, Local, Name, Part, Stmt, Type, ValueType};
use ferrotrace_runtime::DType;

impl Writer<'_> {
    /// Leaves the accumulators of a finished loop in one uniform vector, or as a partial result in the scratch. Of an
    /// extreme whose NaN are `flagged`, only the first accumulator may hold one; a `long` sum is in its total.
    pub(in crate::emit::cpu) fn end_reduction(
        &mut self,
        out: &mut Block,
        r: &Reduction,
        copies: usize,
        (flagged, long): (bool, bool),
    ) {
        let slot = self.slot_of(r.id, Local::Unit.into());
        if r.has_position() {
            return self.end_position(out, r, slot);
        }
        self.join_copies(out, r, if long { 1 } else { copies }, flagged);
        let first = r.accumulator(0);
        if self.split && r.is_rounded_sum() {
            let (total, low) = match long {
                true => (r.part(Part::Total), Some(r.part(Part::Low))),
                false => (first, None),
            };
            self.wide_sum(out, r, total, low);
            let wide = r.part(Part::Wide);
            return out.push(Stmt::assign(at_slot(slot, DType::F64), wide));
        }
        if long {
            let (total, low) = (r.part(Part::Total), r.part(Part::Low));
            out.push(Stmt::assign(first, self.both_parts(r, total, low)));
        }
        let lane = match flagged {
            true => {
                let stem = match r.extreme_of() {
                    "max_of" => "hmax_of",
                    _ => "hmin_of",
                };
                let seen = [r.part(Part::Nans).into(), first.into(), first.into()];
                let seen = self.support("nans", r.dtype, seen);
                let best = self.support(stem, r.dtype, [first.into()]);
                seen.choose(Expr::float(r.dtype, f64::NAN), best)
            }
            false => self.horizontal(r, first),
        };
        out.push(match self.split {
            true => Stmt::assign(at_slot(slot, r.dtype), lane),
            false => self.declare_result(r, r.dtype, lane),
        });
    }

    /// Declares the result of a reduction, which all lanes share.
    fn declare_result(&self, r: &Reduction, dtype: DType, number: impl Into<Expr>) -> Stmt {
        let set = self.set(dtype, number);
        Stmt::constant(r.part(Part::Result), self.vector_type(dtype), set)
    }

    /// Leaves an extreme's position, and in the scratch the extreme before it.
    fn end_position(&self, out: &mut Block, r: &Reduction, slot: Expr) {
        let (best, place) = (r.part(Part::Best), r.part(Part::Place));
        if !self.split {
            return out.push(self.declare_result(r, DType::I64, place));
        }
        out.push(Stmt::assign(at_slot(slot.clone(), r.dtype), best));
        out.push(Stmt::assign(place_in_slot(slot), place));
    }

    /// Joins the copies of an accumulator by halves in the first.
    fn join_copies(&self, out: &mut Block, r: &Reduction, copies: usize, flagged: bool) {
        let mut width = copies;
        while width > 1 {
            width /= 2;
            for c in 0..width {
                let (a, b) = (r.accumulator(c), r.accumulator(c + width));
                let joined = match flagged {
                    // The second operand stays where one is NaN.
                    true => self.support(r.extreme_of(), r.dtype, [b.into(), a.into()]),
                    false => self.combine(r, a, b),
                };
                out.push(Stmt::assign(a, joined));
            }
        }
    }

    /// The place of a reduction's partial result, in the scratch of a unit.
    pub(in crate::emit::cpu) fn slot_of(&self, id: Value, unit: Expr) -> Expr {
        let all = self.all_reductions();
        let at = all.iter().position(|r| r.id == id).unwrap_or_default();
        let slot = unit * all.len() as i64 + at as i64;
        Expr::from(Local::Scratch) + slot * 16
    }

    /// Split reductions: the pieces' partial results in order, then what follows for each row.
    pub(in crate::emit::cpu) fn finish_rows(&mut self, rows: Name, cut: &Pieces) -> Block {
        let mut body = Block::from(Stmt::variable(Local::Row, Type::INDEX, Local::First));
        self.decode_row(&mut body, Stmt::constant);
        body.push(Stmt::constant(Local::Low, Type::INDEX, 0));
        body.push(Stmt::Unused(Local::Low.into()));
        body.push(Stmt::Unused(Local::Row.into()));
        body.append(self.preamble.clone());
        for s in 0..self.stages.row.len() {
            if s > 0 {
                self.row_stage(&mut body, s, true);
            }
            for id in self.stages.loops[s].reduces.clone() {
                match self.moments.iter().find(|m| m.reduce == id).copied() {
                    Some(m) => self.merge_moment(&mut body, &m, cut),
                    None => self.merge(&mut body, id, cut),
                }
            }
            if s == 0 {
                self.row_stage(&mut body, s, true);
            }
        }
        let rows = ir::Loop::over(Local::First, 0, rows).along(Axis::Row);
        rows.each(body).into()
    }

    /// A loop over the pieces of a row.
    pub(in crate::emit::cpu) fn each_piece(cut: &Pieces, body: impl Into<Block>) -> Stmt {
        ir::Loop::over(Local::Index, 0, cut.pieces)
            .along(Axis::Accumulator)
            .each(body)
    }

    /// The unit of a piece of a row.
    pub(in crate::emit::cpu) fn unit_of_piece(cut: &Pieces) -> Expr {
        Expr::from(Local::First) * cut.pieces + Local::Index
    }

    /// The row's value of a reduction, from the pieces' in order.
    fn merge(&mut self, out: &mut Block, id: Value, cut: &Pieces) {
        let r = self.reduction(id);
        let slot = self.slot_of(id, Self::unit_of_piece(cut));
        let (scalar, result) = (Type::scalar(r.dtype), r.part(Part::Result));
        if r.has_position() {
            self.declare_best(out, &r);
            let (x, i) = (Expr::from(Local::Element), Expr::from(Local::Position));
            let wins = i.clone().at_least(0).and(better(&r, &x, &i));
            let take = Block::from([
                Stmt::assign(r.part(Part::Best), x),
                Stmt::assign(r.part(Part::Place), i),
            ]);
            let piece = Block::from([
                Stmt::variable(Local::Element, scalar, at_slot(slot.clone(), r.dtype)),
                Stmt::variable(Local::Position, Type::LONG, place_in_slot(slot)),
                Stmt::when(wins, take),
            ]);
            out.push(Self::each_piece(cut, piece));
            return out.push(self.declare_result(&r, DType::I64, r.part(Part::Place)));
        }
        if r.is_rounded_sum() {
            let wide = r.part(Part::Wide);
            out.push(Stmt::variable(wide, Type::scalar(DType::F64), 0));
            let add = Stmt::update(wide, Infix::Add, at_slot(slot, DType::F64));
            out.push(Self::each_piece(cut, add));
            let sum = Expr::from(wide).cast(scalar);
            return out.push(self.declare_result(&r, r.dtype, sum));
        }
        let piece = self.set(r.dtype, at_slot(slot, r.dtype));
        let joined = Stmt::assign(result, self.combine(&r, result, piece));
        let ty = self.vector_type(r.dtype);
        out.push(Stmt::variable(result, ty, self.identity(&r)));
        out.push(Self::each_piece(cut, joined));
    }
}

/// The number that lies in a slot.
pub(in crate::emit::cpu) fn at_slot(slot: Expr, dtype: DType) -> Expr {
    slot.cast(Type::write(ValueType::Scalar(dtype)))
        .dereference()
}

/// The position beside it.
fn place_in_slot(slot: Expr) -> Expr {
    let longs = Type::write(ValueType::Scalar(DType::I64));
    slot.cast(longs).element(1)
}
