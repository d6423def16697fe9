//! Transposed reads through small tiles (codegen A2.1).
//!
//! A load that is contiguous along a row variable and strided along the vector axis touches a cache line for each lane.
//! Such kernels work on tiles of rows by columns: whole lines are transposed in registers into a staging array, and the
//! loop over the columns then reads the array. Neither the lines nor the rows' short runs are what the processor would
//! foresee, so those of the next tile are asked for.

use super::index::{Index, Step};
use super::kernel::Writer;
use super::value::memory_type;
use crate::body::{BodyOp, Value};
use crate::expr::{Expr, Var};
use ferrotrace_kernels::support::need;
use std::fmt::Write as _;

/// Rows of a tile.
const ROWS: usize = 64;
/// Columns of a tile.
const COLUMNS: usize = 64;
/// Fewest rows and columns that are worth a tile.
const FEWEST: usize = 16;
/// Columns of a unit of work.
pub(super) const PIECE: usize = 4096;

/// The row variable whose tiles are walked, and the loads that are staged.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    pub row: usize,
    pub loads: Vec<Value>,
}

impl Writer<'_> {
    /// The tile of a kernel without reductions, if a load asks for one: the row variable along which loads of the most
    /// bytes are contiguous that are strided along the columns (codegen A2.3).
    pub(super) fn find_tile(&self) -> Option<Tile> {
        let node = self.node;
        let column = self.vector_var()?;
        if node.reduces()
            || self.ordered
            || node.scatters()
            || !self.walked_vars().is_empty()
            || self.extents[column.0 as usize] < FEWEST
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
            .filter(|&row| self.extents[row] >= FEWEST)
            .map(of);
        tiles
            .filter(|t| !t.loads.is_empty())
            .max_by_key(|t| t.loads.iter().map(|&v| self.bytes_met(v)).sum::<usize>())
    }

    /// Bytes of the elements that a load meets; where it is broadcast, once.
    fn bytes_met(&self, v: Value) -> usize {
        let BodyOp::Load { index, dtype, .. } = &self.node.body.value(v).op else {
            return 0;
        };
        let extents = self.extents.iter().enumerate();
        let met = extents.filter(|(var, _)| index.coefficient(Var(*var as u32)) != 0);
        met.fold(dtype.size(), |bytes, (_, &n)| bytes.saturating_mul(n))
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

    /// Asks for the next tile of what is read as it lies.
    pub(super) fn next_tile(&mut self) {
        if let (Some(_), Some(column)) = (&self.tile, self.vector_var()) {
            self.look_ahead_along(column, COLUMNS as i64);
        }
    }

    /// Tiles along the row variable.
    pub(super) fn tiles(&self, tile: &Tile) -> usize {
        self.extents[tile.row].div_ceil(ROWS)
    }

    /// The body of a unit: its tiles, each staged and then computed row by row.
    pub(super) fn tile_text(&mut self, out: &mut String, tile: &Tile, body: &str) {
        let rows = self.param(self.extents[tile.row] as i64);
        let _ = writeln!(
            out,
            "    const long long r1 = ft_min(r0 + {ROWS}, {rows}); const long rows = r1 - r0;"
        );
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
            let along = self.vector_var().unwrap_or(Var(0));
            let stride = self.param(index.coefficient(along));
            let start = self.nested(&index.sub(&Expr::from(Var(tile.row as u32))));
            let pointer = self.pointer(source);
            let size = dtype.size();
            let at = |column: &str| format!("{pointer} + {} + r0", start.replace('@', column));
            let _ = writeln!(
                out,
                "    {ty} g{v}[{}] __attribute__((aligned(64)));",
                ROWS * COLUMNS
            );
            let _ = writeln!(
                out,
                "    for (long long j = jb + {COLUMNS}; j < ft_min(je + {COLUMNS}, hi); j++) \
                 for (long l = 0; l < rows; l += {}) __builtin_prefetch({} + l, 0, 2);",
                64 / size,
                at("j")
            );
            // Squares of whole vectors, then the edges.
            let (mut whole_rows, mut whole_columns) = ("0".to_owned(), "jb".to_owned());
            let (w, integer) = (self.lanes, format!("i{}", size * 8));
            if size > 1 && w > 1 {
                self.needs
                    .insert(need(&format!("ft_transpose_{integer}"), w));
                let _ = writeln!(
                    out,
                    "    for (long long j = jb; j + {w} <= je; j += {w}) for (long l = 0; l + {w} <= rows; l += {w}) \
                     ft_transpose_{integer}x{w}({} + l, {stride}, g{v} + l*{COLUMNS} + j - jb, {COLUMNS});",
                    at("j")
                );
                whole_rows = format!("rows - rows % {w}");
                whole_columns = format!("je - (je - jb) % {w}");
            }
            let _ = writeln!(
                out,
                "    for (long long j = jb; j < je; j++) {{ const {ty} *q = {};\n      \
                 for (long l = j < {whole_columns} ? {whole_rows} : 0; l < rows; l++) g{v}[l*{COLUMNS} + j - jb] = q[l]; }}",
                at("j")
            );
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
