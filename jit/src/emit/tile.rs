//! Transposed reads through small tiles (codegen A2.1).
//!
//! A load that is contiguous along a row variable and strided along the vector axis touches a cache line for each lane.
//! Such kernels work on tiles of rows by columns: lines are copied whole into a staging array, transposed, and the
//! loop over the columns then reads the array.

use super::index::{Index, Step};
use super::kernel::Writer;
use super::value::memory_type;
use crate::body::{BodyOp, Value};
use crate::expr::{Expr, Var};
use std::fmt::Write as _;

/// Rows of a tile: a cache line of 4-byte elements.
const ROWS: usize = 16;
/// Columns of a tile.
const COLUMNS: usize = 64;
/// Columns of a unit of work.
pub(super) const PIECE: usize = 4096;

/// The row variable whose tiles are walked, and the loads that are staged.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    pub row: usize,
    pub loads: Vec<Value>,
}

impl Writer<'_> {
    /// The tile of a kernel without reductions, if a load asks for one: the row variable along which the most loads
    /// are contiguous that are strided along the columns.
    pub(super) fn find_tile(&self) -> Option<Tile> {
        let node = self.node;
        let column = self.vector_var()?;
        if node.reduces()
            || !self.walked_vars().is_empty()
            || self.extents[column.0 as usize] < ROWS
        {
            return None;
        }
        let strided = |v: Value, row: usize| match &node.body.value(v).op {
            BodyOp::Load {
                index, mask: None, ..
            } => {
                index.is_affine()
                    && index.coefficient(Var(row as u32)) == 1
                    && index.coefficient(column) > 1
            }
            _ => false,
        };
        let inner = &self.stages.loops[0].compute;
        let of = |row: usize| Tile {
            row,
            loads: inner.iter().copied().filter(|&v| strided(v, row)).collect(),
        };
        let tiles = self
            .row_vars()
            .into_iter()
            .filter(|&row| self.extents[row] >= ROWS)
            .map(of);
        tiles
            .filter(|t| !t.loads.is_empty())
            .max_by_key(|t| t.loads.len())
    }

    /// Makes the staged loads read their arrays.
    pub(super) fn stage_loads(&mut self, tile: &Tile) {
        for &v in &tile.loads {
            let text = format!("((i{} - r0)*{COLUMNS} + @ - jb)", tile.row);
            self.indices.insert(
                v,
                Index {
                    text,
                    step: Step::Unit,
                },
            );
            self.staged.insert(v, format!("g{v}"));
        }
    }

    /// Tiles along the row variable.
    pub(super) fn tiles(&self, tile: &Tile) -> usize {
        self.extents[tile.row].div_ceil(ROWS)
    }

    /// The body of a unit: its tiles, each staged and then computed row by row.
    pub(super) fn tile_text(&mut self, out: &mut String, tile: &Tile, body: &str) {
        let rows = self.param(self.extents[tile.row] as i64);
        let _ = writeln!(out, "    const long long r1 = ft_min(r0 + {ROWS}, {rows});");
        let _ = writeln!(
            out,
            "    for (long long jb = lo; jb < hi; jb += {COLUMNS}) {{"
        );
        let _ = writeln!(out, "    const long long je = ft_min(jb + {COLUMNS}, hi);");
        for &v in &tile.loads {
            let BodyOp::Load {
                source,
                dtype,
                index,
                ..
            } = &self.node.body.value(v).op
            else {
                continue;
            };
            let (source, ty) = (*source, memory_type(*dtype));
            let start = self
                .nested(&index.sub(&Expr::from(Var(tile.row as u32))))
                .replace('@', "j");
            let pointer = self.pointer(source);
            let _ = writeln!(out, "    {ty} g{v}[{}];", ROWS * COLUMNS);
            let _ = writeln!(
                out,
                "    for (long long j = jb; j < je; j++) {{ const {ty} *q = {pointer} + {start} + r0;"
            );
            let copy = |count: &str| {
                format!("for (long l = 0; l < {count}; l++) g{v}[l*{COLUMNS} + j - jb] = q[l];")
            };
            let _ = writeln!(
                out,
                "      if (r1 - r0 == {ROWS}) {{ {} }}",
                copy(&ROWS.to_string())
            );
            let _ = writeln!(out, "      else {{ {} }} }}", copy("r1 - r0"));
        }
        let i = format!("i{}", tile.row);
        let _ = writeln!(
            out,
            "    for (long long {i} = r0; {i} < r1; {i}++) {{ const long long lo = jb, hi = je;"
        );
        out.push_str(&self.preamble);
        out.push_str(body);
        out.push_str("    }\n    }\n");
    }

    /// The line that decodes a tile's first row from the unit's row number.
    pub(super) fn decode_tile(&mut self, out: &mut String, tile: &Tile, outermost: bool) {
        if outermost {
            let _ = writeln!(out, "    const long long r0 = row * {ROWS};");
        } else {
            let n = self.param(self.tiles(tile) as i64);
            let _ = writeln!(
                out,
                "    const long long r0 = row % {n} * {ROWS}; row /= {n};"
            );
        }
    }
}
