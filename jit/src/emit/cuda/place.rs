//! Where a thread works: its row, its chunks, and the values that a row has before any loop.

use super::index::Position;
use super::kernel::Writer;
use super::shape::Form;
use super::value::At;
use std::fmt::Write as _;

impl Writer<'_> {
    /// Which row and which chunks are this thread's.
    pub(super) fn place(&mut self, out: &mut String, form: Form, split: bool) {
        let (row_count, chunk_count) = (self.node.rows() as i64, self.shape.chunks as i64);
        if form == Form::Pointwise {
            return self.place_chunk(out, row_count, chunk_count);
        }
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
    fn place_chunk(&mut self, out: &mut String, row_count: i64, chunk_count: i64) {
        let threads = self.shape.threads;
        let units = self.param(row_count.saturating_mul(chunk_count));
        let _ = writeln!(
            out,
            "  const ft_int u = (ft_int)ft_block * {threads} + (ft_int)threadIdx.x;\n  if (u >= {units}) return;"
        );
        if row_count == 1 {
            out.push_str("  const ft_int c = u;\n");
        } else {
            let chunks = self.divisor(chunk_count);
            let _ = writeln!(out, "  const ft_int row = u / {chunks}, c = u % {chunks};");
        }
    }

    /// The variables of a row from its number.
    pub(super) fn decode_row(&mut self, out: &mut String) {
        let rows = self.node.iter.len();
        if rows == 0 {
            return;
        }
        if self.node.rows() == 1 {
            for v in 0..rows {
                let _ = writeln!(out, "  const ft_int i{v} = 0;");
            }
            return;
        }
        out.push_str("  ft_int rest = row;\n");
        for v in (1..rows).rev() {
            let n = self.divisor(self.extents[v] as i64);
            let _ = writeln!(out, "  const ft_int i{v} = rest % {n}; rest = rest / {n};");
        }
        out.push_str("  const ft_int i0 = rest;\n");
    }

    /// A row's values of one stage, and its stores of such where `writes` holds.
    pub(super) fn row_stage(&mut self, out: &mut String, s: usize, writes: Option<&str>) {
        let at = At {
            position: Position::First,
            guard: None,
            pad: "  ",
        };
        for v in self.stages.row[s].clone() {
            let text = self.statement(v, at);
            out.push_str(&text);
        }
        let Some(writes) = writes.filter(|_| !self.silent) else {
            return;
        };
        for store in self.stages.row_stores[s].clone() {
            let (value, dtype) = (self.node.stores[store].value, self.node.stores[store].dtype);
            let element = self.narrow(dtype, &format!("v{value}"));
            let place = self.stored_at(store, Position::First);
            let _ = writeln!(out, "  if ({writes}) {place} = {element};");
        }
    }
}
