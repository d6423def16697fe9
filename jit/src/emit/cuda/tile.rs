//! Transposed reads through shared memory.
//!
//! A load that is contiguous along a row variable and strided along the columns would touch a line for each element.
//! Such kernels work on square tiles, a block each: the lines of a tile are read whole and turned in shared memory, the
//! rest of the kernel reads a tile's rows there. Blocks walk along the rows of what is written.

use super::index::Position;
use super::kernel::Writer;
use super::stage::Stages;
use crate::body::{BodyOp, Value};
use crate::expr::{Expr, Var};
use crate::print::cuda::memory_type;
use crate::schedule::FusedNode;
use std::fmt::Write as _;

/// Rows and columns of a tile.
pub(super) const SIDE: usize = 64;
/// Fewest rows and columns that are worth a tile.
const FEWEST: usize = 16;
/// Bytes of shared memory that any device gives a block.
const SHARED: usize = 48 << 10;

/// The row variable whose tiles are walked, and the loads that are staged.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    pub row: usize,
    pub loads: Vec<Value>,
}

/// Elements of a row of a tile in shared memory: neighbours of a column lie in different banks of 4 bytes.
fn pitch(size: usize) -> usize {
    SIDE + 4usize.div_ceil(size)
}

/// The tile of a kernel without reductions, if a load asks for one: the row variable along which the most loads are
/// contiguous that are strided along the columns.
pub(super) fn find(node: &FusedNode, stages: &Stages) -> Option<Tile> {
    let extents = node.extents();
    let column = Var(extents.len() as u32 - 1);
    if node.red.len() != 1 || extents[column.0 as usize] < FEWEST {
        return None;
    }
    let strided = |v: Value, row: usize| match &node.body.value(v).op {
        BodyOp::Load {
            index,
            mask: None,
            dtype,
            ..
        } => {
            let turned = index.is_affine()
                && index.coefficient(Var(row as u32)) == 1
                && index.coefficient(column).abs() > 1;
            turned.then_some(SIDE * pitch(dtype.size()) * dtype.size())
        }
        _ => None,
    };
    let of = |row: usize| {
        let mut left = SHARED;
        let mut loads = stages.loops[0].compute.clone();
        loads.retain(|&v| match strided(v, row) {
            Some(bytes) if bytes <= left => {
                left -= bytes;
                true
            }
            _ => false,
        });
        Tile { row, loads }
    };
    let rows = (0..node.iter.len()).filter(|&row| extents[row] >= FEWEST);
    rows.map(of)
        .filter(|t| !t.loads.is_empty())
        .max_by_key(|t| t.loads.len())
}

impl Writer<'_> {
    /// Which tile is this block's: where it begins, and the row variables that it does not go along.
    pub(super) fn place_tile(&mut self, out: &mut String, tile: &Tile) {
        let column = self.extents.len() - 1;
        let across = self.divisor(self.extents[column].div_ceil(SIDE) as i64);
        let down = self.divisor(self.extents[tile.row].div_ceil(SIDE) as i64);
        let _ = writeln!(
            out,
            "  const int tid = threadIdx.x;\n  ft_int rest = (ft_int)ft_block;\n  \
             const ft_int c0 = rest % {across} * {SIDE}; rest = rest / {across};\n  \
             const ft_int r0 = rest % {down} * {SIDE}; rest = rest / {down};"
        );
        for v in (0..column).rev().filter(|&v| v != tile.row) {
            let n = self.divisor(self.extents[v] as i64);
            let _ = writeln!(out, "  const ft_int i{v} = rest % {n}; rest = rest / {n};");
        }
    }

    /// Reads the lines of a tile and writes them to shared memory turned, so that its rows are contiguous there.
    pub(super) fn fill_tile(&mut self, out: &mut String, tile: &Tile) {
        let threads = self.shape.threads as usize;
        let column = self.vector_var();
        let rows = self.param(self.extents[tile.row] as i64);
        let columns = self.param(self.extents[column.0 as usize] as i64);
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
            let (source, dtype, index) = (*source, *dtype, index.clone());
            let (ty, pointer) = (memory_type(dtype), self.pointer(source));
            let width = 16 / dtype.size();
            let (line, turns) = (SIDE / width, SIDE * SIDE / width / threads);
            let start = index.sub(&Expr::from(Var(tile.row as u32)));
            let start = self.sum(&start);
            let start = start.at(&Position::Column.into());
            let start = self.text(&start);
            let pitch = pitch(dtype.size());
            let _ = write!(
                out,
                "  __shared__ {ty} w{v}[{SIDE} * {pitch}];\n  {{\n    __align__(16) {ty} g[{turns}][{width}];\n    \
                 #pragma unroll\n    for (int k = 0; k < {turns}; k++) {{\n      const int q = tid + k * {threads};\n      \
                 const ft_int r = r0 + q % {line} * {width}, c = c0 + q / {line};\n      \
                 if (r < {rows} && c < {columns}) ft_load(g[k], {pointer} + ({start} + r), (int)ft_least({rows} - r, {width}));\n    \
                 }}\n    #pragma unroll\n    for (int k = 0; k < {turns}; k++) {{\n      const int q = tid + k * {threads};\n      \
                 #pragma unroll\n      for (int l = 0; l < {width}; l++) \
                 w{v}[(q % {line} * {width} + l) * {pitch} + q / {line}] = g[k][l];\n    }}\n  }}\n"
            );
        }
        out.push_str("  __syncthreads();\n");
    }

    /// A loop over the chunks of a tile that a thread works on.
    pub(super) fn tile_text(&mut self, out: &mut String, tile: &Tile, body: &str) {
        let (threads, line) = (self.shape.threads as usize, SIDE / self.shape.lanes);
        let rows = self.param(self.extents[tile.row] as i64);
        let columns = self.param(self.extents[self.extents.len() - 1] as i64);
        let turns = SIDE * line / threads;
        let preamble = self.preamble_text();
        let _ = writeln!(
            out,
            "  #pragma unroll\n  for (int k = 0; k < {turns}; k++) {{\n    const int q = tid + k * {threads}, tr = q / {line}, \
             tc = q % {line} * {};\n    const ft_int i{} = r0 + tr;\n    if (i{} >= {rows} || c0 + tc >= {columns}) continue;\n\
             {}{body}  }}",
            self.shape.lanes, tile.row, tile.row, preamble
        );
    }

    /// The element of a staged load.
    pub(super) fn staged(&self, v: Value) -> Option<String> {
        let tile = self.shape.tile.as_ref()?;
        let BodyOp::Load { dtype, .. } = self.node.body.value(v).op else {
            return None;
        };
        let pitch = pitch(dtype.size());
        let staged = tile.loads.contains(&v);
        staged.then(|| format!("w{v}[tr * {pitch} + tc + l]"))
    }
}
