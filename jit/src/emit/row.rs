//! The loop over units of work, and the stages of a row.

use super::index::{Index, Step};
use super::kernel::Writer;
use super::pieces::Pieces;
use super::value::At;
use crate::nest::flat_index;
use std::fmt::Write as _;

impl Writer<'_> {
    /// The loop over units of work: (row, piece of it).
    pub(super) fn row_loop(&mut self, out: &mut String, body: &str, cut: &Pieces) {
        let Pieces {
            piece,
            pieces,
            extent,
        } = cut;
        self.declare_late(out);
        let _ = writeln!(out, "  for (long long u = begin; u < end; u++) {{");
        let _ = writeln!(
            out,
            "    long long row = u / {pieces}; const long long lo = u % {pieces} * {piece};"
        );
        let _ = writeln!(
            out,
            "    const long long hi = ft_min(lo + {piece}, {extent}); (void)hi;"
        );
        self.decode_row(out);
        match self.tile.clone() {
            Some(tile) => self.tile_text(out, &tile, body),
            None => {
                out.push_str(&self.preamble);
                out.push_str(body);
            }
        }
        out.push_str("  }\n");
    }

    /// The loop over units of work of a kernel that takes up a product: (piece of the columns, row), so that those of a
    /// panel follow each other. The last piece is what is left.
    pub(super) fn panel_loop(&mut self, out: &mut String, body: &str, cut: &Pieces, rows: &str) {
        let Pieces {
            piece,
            pieces,
            extent,
        } = cut;
        let _ = writeln!(
            out,
            "  for (long long u = begin; u < end; u++) {{\n    \
             long long row = u % {rows}; const long long part = u / {rows}, lo = part * {piece};\n    \
             const long long hi = part + 1 == {pieces} ? {extent} : lo + {piece}; (void)hi;"
        );
        self.decode_row(out);
        out.push_str(&self.preamble);
        out.push_str(body);
        out.push_str("  }\n");
    }

    /// Where the element of a row and column lies in a product with a distance of rows of its own.
    pub(super) fn place_in_panel(&mut self) -> Index {
        let pitch = self.pitch.unwrap_or_else(|| {
            self.param(self.node.cols() as i64);
            self.params.len() - 1
        });
        self.pitch = Some(pitch);
        let row = self.nested(&flat_index(&self.node.iter, 0));
        let name = format!("b{}", self.next_base());
        self.row_line(&format!("const long long {name} = {row}*P{pitch};"));
        Index {
            text: format!("({name} + @)"),
            step: Step::Unit,
        }
    }

    pub(super) fn decode_row(&mut self, out: &mut String) {
        let vars = self.row_vars();
        for (k, &v) in vars.iter().enumerate().rev() {
            if let Some(tile) = self.tile.clone().filter(|t| t.row == v) {
                self.decode_tile(out, &tile, k == 0);
            } else if k == 0 {
                let _ = writeln!(out, "    const long long i{v} = row;");
            } else {
                let n = self.param(self.extents[v] as i64);
                let _ = writeln!(out, "    const long long i{v} = row % {n}; row /= {n};");
            }
        }
    }

    /// All stages of a row, or of a piece of `piece` columns of it.
    pub(super) fn stage_text(&mut self, out: &mut String, piece: usize, cut: &Pieces) {
        if self.outer {
            self.outer_stages(out, cut);
            return;
        }
        for s in 0..self.stages.loops.len() {
            if !self.split || s == 0 {
                self.row_stage(out, s, !self.split);
            } else if s == 1 && !self.moments.is_empty() {
                self.piece_means(out);
            } else {
                break;
            }
            let l = self.stages.loops[s].clone();
            if !l.reduces.is_empty() || !l.stores.is_empty() {
                match (s, self.split) {
                    (1, true) => self.next_piece(piece),
                    (0, false) if self.tile.is_some() => self.next_tile(),
                    (0 | 1, false) if s == self.asking_loop() => self.look_ahead(),
                    _ => {}
                }
                self.inner_loop(out, &l);
                self.ahead.clear();
            }
        }
    }

    /// A row's values of one stage, uniform over the lanes, and the stores of such.
    pub(super) fn row_stage(&mut self, out: &mut String, s: usize, stores: bool) {
        let at = At {
            position: "0",
            lanes: None,
            indent: 4,
        };
        for v in self.stages.row[s].clone() {
            let text = self.statement(v, at);
            out.push_str(&text);
        }
        if stores {
            for store in self.stages.row_stores[s].clone() {
                let text = self.store(
                    store,
                    At {
                        lanes: Some("1"),
                        ..at
                    },
                );
                out.push_str(&text);
            }
        }
    }
}
