//! Partial results of the pieces of split rows, in scratch memory.

use super::super::kernel::Writer;
use super::Reduction;
use crate::body::Value;
use crate::kernel::ir::{Block, Expr, Local, OnDevice, Stmt, Type, ValueType};
use ferrotrace_runtime::DType;

/// Bytes of a partial result of a split reduction: the value, then its position.
pub(in crate::emit::cuda) const SLOT: usize = 16;

impl Writer<'_> {
    /// What pieces leave partial results of: the reductions, or the folds of the scans.
    pub(in crate::emit::cuda) fn put_in_slots(&self) -> Vec<Value> {
        match self.stages.reductions() {
            none if none.is_empty() => self.stages.scans(self.node),
            all => all,
        }
    }

    /// The place of a partial result: `unit` counts the pieces of all rows.
    fn slot(&self, unit: Expr, r: &Reduction) -> Expr {
        let all = self.put_in_slots();
        let at = all.iter().position(|&id| id == r.id).unwrap_or_default();
        let number = unit.cast(Type::LONG) * all.len() as i64 + at as i64;
        Expr::from(Local::Scratch) + number * SLOT as i64
    }

    /// The number of this row's piece among those of all rows.
    fn unit(piece: Local) -> Expr {
        Expr::from(Local::RowNumber) * OnDevice::Pieces + piece
    }

    /// A value that a slot of the piece with number [`Local::Index`] of a row holds.
    pub(in crate::emit::cuda) fn in_slot(&self, r: &Reduction) -> Expr {
        let slot = self.slot(Self::unit(Local::Index), r);
        slot.cast(Type::read(ValueType::Scalar(r.dtype)))
            .dereference()
    }

    /// Writes the partial result of a piece.
    pub(in crate::emit::cuda) fn put(&self, out: &mut Block, r: &Reduction, writes: Expr) {
        let slot = self.slot(Self::unit(Local::Piece), r);
        let at = |dtype| Expr::from(OnDevice::Slot).cast(Type::write(ValueType::Scalar(dtype)));
        let mut block = Block::from([
            Stmt::constant(OnDevice::Slot, Type::write(ValueType::Byte), slot),
            Stmt::assign(at(r.dtype).dereference(), r.accumulator()),
        ]);
        if r.has_position() {
            block.push(Stmt::assign(at(DType::I64).element(1), r.place()));
        }
        out.push(Stmt::when(writes, block));
    }

    /// Writes the partial result of a piece of row `l` of a chunk of rows side by side.
    pub(in crate::emit::cuda) fn put_lane(&self, out: &mut Block, r: &Reduction, value: Expr) {
        let row = Expr::from(Local::RowNumber) * self.shape.lanes as i64 + Local::Lane;
        let slot = self.slot(row * OnDevice::Pieces + Local::Piece, r);
        let to = slot.cast(Type::write(ValueType::Scalar(r.dtype)));
        out.push(Stmt::assign(to.dereference(), value));
    }

    /// Takes the partial result of the piece with number [`Local::Index`] into the accumulator.
    pub(in crate::emit::cuda) fn take(&self, out: &mut Block, r: &Reduction) {
        let slot = self.slot(Self::unit(Local::Index), r);
        let at = |dtype| Expr::from(OnDevice::Slot).cast(Type::read(ValueType::Scalar(dtype)));
        let mut block = Block::from([
            Stmt::constant(OnDevice::Slot, Type::read(ValueType::Byte), slot),
            Stmt::constant(Local::Element, r.ty(), at(r.dtype).dereference()),
        ]);
        if r.has_position() {
            let place = at(DType::I64).element(1);
            block.push(Stmt::constant(Local::Position, Type::LONG, place));
        }
        block.push(self.merge(r, Local::Element.into(), Local::Position.into()));
        out.push(Stmt::Scope(block));
    }
}
