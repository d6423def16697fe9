//! Where a thread works: its row, its chunks, and the values that a row has before any loop.

use super::index::Position;
use super::kernel::Writer;
use super::shape::Form;
use super::value::At;
use crate::expr::Var;
use crate::kernel::ir::{Block, Expr, Infix, Local, Name, Stmt, Type};
use std::fmt::Write as _;

impl Writer<'_> {
    /// Which row and which chunks are this thread's.
    pub(super) fn place(&mut self, out: &mut String, form: Form, split: bool) {
        let (row_count, chunk_count) = (self.node.rows() as i64, self.shape.chunks as i64);
        let rows = self.param(row_count);
        let chunks = self.param(chunk_count);
        let block = match self.shape.looks_back {
            true => {
                out.push_str("  const unsigned drawn = ft_draw(a.scratch);\n");
                "drawn"
            }
            false => "ft_block",
        };
        let pieces = match split {
            true => {
                let pieces = self.divisor(self.shape.pieces() as i64);
                let per = self.param(self.shape.per_piece() as i64);
                let _ = writeln!(
                    out,
                    "  const ft_int pieces = {pieces}.n, piece = (ft_int){block} % {pieces}, block = (ft_int){block} / {pieces};\n  \
                     const ft_int lo = piece * {per}, end = ft_least(lo + {per}, {chunks});"
                );
                true
            }
            false => {
                let _ = writeln!(
                    out,
                    "  const ft_int block = (ft_int)ft_block, lo = 0, end = {chunks};"
                );
                false
            }
        };
        let _ = match form {
            Form::Pointwise | Form::Tiled => Ok(()),
            Form::Inner { threads: 32 } if !pieces => writeln!(
                out,
                "  const ft_int row = block * {} + ((int)threadIdx.x >> 5), hi = end;\n  if (row >= {rows}) return;\n  \
                 const int t = threadIdx.x & 31;",
                self.shape.threads / 32
            ),
            Form::Inner { .. } => writeln!(
                out,
                "  const ft_int row = block, hi = end; const int t = threadIdx.x;"
            ),
            Form::Outer { width, .. } => writeln!(
                out,
                "  const int tx = threadIdx.x % {width}, ty = threadIdx.x / {width};\n  \
                 const bool live = block * {width} + tx < {rows};\n  \
                 const ft_int row = live ? block * {width} + tx : {rows} - 1, hi = {};",
                // All threads of a block meet at the barriers of a scan.
                if self.scans { "end" } else { "live ? end : lo" }
            ),
        };
    }

    /// Which chunk of all rows is this thread's.
    fn place_chunk(&mut self) -> Block {
        let (row_count, chunk_count) = (self.node.rows() as i64, self.shape.chunks as i64);
        let units = self.param(row_count.saturating_mul(chunk_count));
        let chunk = || Expr::from(Local::Chunk);
        let first = Expr::from(Local::Block) * i64::from(self.shape.threads);
        let constant = |name: Local, value| Stmt::constant(name, Type::INDEX, value);
        let mut block = Block::from([
            constant(Local::Chunk, first + Local::Thread),
            Stmt::when(chunk().at_least(units), Stmt::Leave),
        ]);
        if row_count == 1 {
            block.push(constant(Local::Index, chunk()));
        } else {
            let chunks = self.divisor(chunk_count);
            block.push(constant(Local::RowNumber, chunk() / chunks));
            block.push(constant(Local::Index, chunk() % chunks));
        }
        block
    }

    /// The variables of a row from its number.
    pub(super) fn decode_row(&mut self, out: &mut String) {
        let block = self.row_variables();
        *out += &self.lines(&block, 2);
    }

    fn row_variables(&mut self) -> Block {
        let rows = self.node.iter.len();
        let mut block = Block::new();
        if rows > 0 && self.node.rows() == 1 {
            let of = |v: usize| Name::Loop(Var(v as u32));
            block.extend((0..rows).map(|v| Stmt::constant(of(v), Type::INDEX, 0)));
        } else if rows > 0 {
            let rest = Name::from(Local::Rows);
            block.push(Stmt::variable(rest, Type::INDEX, Local::RowNumber));
            self.take_apart(&mut block, rest, 0..rows);
        }
        block
    }

    /// A row's values of one stage, and its stores of such where `writes` holds.
    pub(super) fn row_stage(&mut self, out: &mut String, s: usize, writes: Option<&str>) {
        let block = self.row_values(s, writes.map(Expr::text));
        *out += &self.lines(&block, 2);
    }

    fn row_values(&mut self, s: usize, writes: Option<Expr>) -> Block {
        let at = At {
            position: Position::First,
            guard: None,
        };
        let mut block = Block::new();
        for v in self.stages.row[s].clone() {
            block.push(self.statement(v, &at));
        }
        if let Some(writes) = writes.filter(|_| !self.silent) {
            for &store in &self.stages.row_stores[s] {
                let place = self.stored_at(store, Position::First);
                let store = &self.node.stores[store];
                let element = self.narrow(store.dtype, Name::value(store.value).into());
                block.push(Stmt::when(writes.clone(), Stmt::assign(place, element)));
            }
        }
        block
    }

    /// All of a pointwise kernel: a thread a chunk of all rows.
    pub(super) fn pointwise(&mut self) -> Block {
        let mut place = self.place_chunk();
        place.append(self.row_variables());
        let first = Expr::infix(Infix::Equal, Local::Index, 0);
        let values = self.row_values(0, Some(first));
        let l = self.stages.loops[0].clone();
        let chunk = match l.stores.is_empty() {
            true => Block::new(),
            false => self.chunk_block(0, &l, &[]),
        };
        let preamble = std::mem::take(&mut self.preamble);
        [place, preamble, values, chunk]
            .into_iter()
            .flatten()
            .collect()
    }
}
