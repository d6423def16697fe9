//! The second kernel of a split reduction.

use super::kernel::Writer;
use super::loops::writes;
use super::reduce::Reduction;
use super::shape::Form;
use crate::kernel::ir::{Axis, Block, Expr, Local, Loop, OnDevice, Stmt, Type};

impl Writer<'_> {
    /// Its statements: each row's partial results in order, then what follows for it.
    pub(super) fn finish_block(&mut self, reductions: &[Reduction]) -> Block {
        self.finishing = true;
        let mut out = self.place_finish();
        out.append(self.row_variables());
        let per_row = self.shape.finish_per_row;
        let form = Form::Inner { threads: per_row };
        let writes = || Some(writes(form));
        let over_pieces = |take: Block| {
            let pieces = Loop::over(Local::Index, OnDevice::InRow, OnDevice::Pieces);
            pieces.along(Axis::Chunk).by(per_row as usize).each(take)
        };
        let mut body = self.row_values(0, writes());
        for r in reductions {
            self.declare_accumulators(&mut body, r, 1);
        }
        let (moments, plain) = self.parted(reductions);
        let mut take = Block::new();
        for r in &plain {
            self.take(&mut take, r);
        }
        body.push(over_pieces(take));
        self.gather(&mut body, &plain, 1, &form);
        for r in &plain {
            self.finished(&mut body, r);
        }
        let mut next = 1;
        if !moments.is_empty() {
            body.append(self.row_values(1, writes()));
            let mut take = Block::new();
            self.take_moments(&mut take);
            body.push(over_pieces(take));
            self.gather(&mut body, &moments, 1, &form);
            for r in &moments {
                self.finished(&mut body, r);
            }
            next = 2;
        }
        for s in next..self.stages.row.len() {
            body.append(self.row_values(s, writes()));
        }
        out.append(self.preamble.clone());
        out.append(body);
        out
    }

    /// Which row is a thread's, and which of its threads it is.
    fn place_finish(&mut self) -> Block {
        let (rows, pieces) = (self.node.rows(), self.shape.pieces());
        let (rows, pieces) = (self.param(rows as i64), self.param(pieces as i64));
        let (per_row, threads) = (self.shape.finish_per_row, self.shape.finish_threads);
        let first = Expr::from(Local::Block).cast(Type::INDEX) * i64::from(threads / per_row);
        let in_block = Expr::from(Local::Thread).cast(Type::INDEX) / i64::from(per_row);
        let in_row = Expr::from(Local::Thread) % i64::from(per_row);
        Block::from([
            Stmt::constant(OnDevice::Pieces, Type::INDEX, pieces),
            Stmt::constant(Local::RowNumber, Type::INDEX, first + in_block),
            Stmt::when(Expr::from(Local::RowNumber).at_least(rows), Stmt::Leave),
            Stmt::constant(OnDevice::InRow, Type::INT, in_row),
        ])
    }
}
