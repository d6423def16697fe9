//! Transposed reads through shared memory.
//!
//! A load that is contiguous along a row variable and strided along the columns would touch a line for each element.
//! Such kernels work on square tiles, a block each: the lines of a tile are read whole and turned in shared memory, the
//! rest of the kernel reads a tile's rows there. Blocks walk along the rows of what is written.

use super::chunk::over_held;
use super::index::Position;
use super::kernel::Writer;
use super::name::{Divisor, Param};
use super::place::{index, thread};
use super::stage::Stages;
use crate::body::{BodyOp, Value};
use crate::expr::{Expr as Affine, Var};
use crate::kernel::ir::{
    Axis, Block, Cached, Expr, Extent, Function, Local, Loop, Meeting, Name, OnDevice, Part, Stmt,
    Type, ValueType,
};
use crate::schedule::FusedNode;
use ferrotrace_runtime::DType;

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
    if node.red.len() != 1 || extents[column.0 as usize] < FEWEST || node.scatters() {
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
    pub(super) fn place_tile(&mut self, tile: &Tile) -> Block {
        let column = self.extents.len() - 1;
        let across = self.divisor(self.extents[column].div_ceil(SIDE) as i64);
        let down = self.divisor(self.extents[tile.row].div_ceil(SIDE) as i64);
        let rest = || Expr::from(Local::Rows);
        let block = Expr::from(Local::Block).cast(Type::INDEX);
        let mut out = Block::from(Stmt::variable(Local::Rows, Type::INDEX, block));
        let mut take = |name: Name, value: Expr, by: Divisor| {
            out.push(Stmt::constant(name, Type::INDEX, value));
            out.push(Stmt::assign(Local::Rows, rest() / by));
        };
        let (first, side) = (|by| rest() % by, SIDE as i64);
        take(Local::TileColumn.into(), first(across) * side, across);
        take(Local::TileRow.into(), first(down) * side, down);
        for v in (0..column).rev().filter(|&v| v != tile.row) {
            let n = self.divisor(self.extents[v] as i64);
            take(Name::Loop(Var(v as u32)), first(n), n);
        }
        out
    }

    /// Reads the lines of a tile and writes them to shared memory turned, so that its rows are contiguous there.
    pub(super) fn fill_tile(&mut self, out: &mut Block, tile: &Tile) {
        let column = self.vector_var();
        let rows = self.param(self.extents[tile.row] as i64);
        let columns = self.param(self.extents[column.0 as usize] as i64);
        let node = self.node;
        for &v in &tile.loads {
            let BodyOp::Load {
                source,
                dtype,
                index,
                ..
            } = &node.body.value(v).op
            else {
                continue;
            };
            let start = index.sub(&Affine::from(Var(tile.row as u32)));
            let start = self.sum(&start).at(&Position::Column.into());
            let place = Expr::from(self.pointer(*source)) + (start + OnDevice::ReadRow);
            let pitch = pitch(dtype.size());
            let turned = Name::of(Part::Turned, v);
            let memory = ValueType::Memory(*dtype);
            out.push(Stmt::shared(turned, memory, Extent::array(SIDE * pitch)));
            out.push(self.turn(memory, turned, pitch, (place, [rows, columns])));
        }
        out.push(Stmt::Barrier(Meeting::Block));
    }

    /// Reads a tile by accesses of 16 bytes, some of which a thread makes before it writes what it read.
    fn turn(
        &self,
        memory: ValueType,
        turned: Name,
        pitch: usize,
        (place, [rows, columns]): (Expr, [Param; 2]),
    ) -> Stmt {
        let ValueType::Memory(dtype) = memory else {
            return Stmt::Scope(Block::new());
        };
        let threads = self.shape.threads as usize;
        let width = 16 / dtype.size();
        let (line, turns) = (SIDE / width, SIDE * SIDE / width / threads);
        let cell = || Expr::from(OnDevice::Cell);
        let in_tile = |threads: usize| {
            let at = thread() + Expr::from(Local::Held) * threads as i64;
            Stmt::constant(OnDevice::Cell, Type::INT, at)
        };
        let (line, wide) = (line as i64, width as i64);
        let read = || Expr::from(OnDevice::ReadRow);
        let inside = read().less(rows);
        let inside = inside.and(Expr::from(Local::Index).less(columns));
        let count = (Expr::from(rows) - read()).least(wide).cast(Type::INT);
        let elements = || Expr::from(Local::Elements).element(Local::Held);
        let load = Function::LoadChunk(Cached::Stays);
        let load = Stmt::Call(Expr::call(load, [elements(), place, count]));
        let reads = [
            in_tile(threads),
            index(
                OnDevice::ReadRow,
                Expr::from(Local::TileRow) + cell() % line * wide,
            ),
            index(Local::Index, Expr::from(Local::TileColumn) + cell() / line),
            Stmt::when(inside, load),
        ];
        let row = cell() % line * wide + Local::Lane;
        let at = row * pitch as i64 + cell() / line;
        let write = Stmt::assign(
            Expr::from(turned).element(at),
            elements().element(Local::Lane),
        );
        let lanes = Loop::over(Local::Lane, 0, wide).of_type(ValueType::Scalar(DType::I32));
        let writes = [
            in_tile(threads),
            lanes.along(Axis::Lane).unrolled().each(write),
        ];
        Stmt::Scope(Block::from([
            Stmt::array(
                Local::Elements,
                memory,
                Extent::Aligned([turns, width].into()),
            ),
            over_held(turns, reads),
            over_held(turns, writes),
        ]))
    }

    /// A loop over the chunks of a tile that a thread works on.
    pub(super) fn walk_tile(&mut self, out: &mut Block, tile: &Tile, body: Block) {
        let (threads, line) = (self.shape.threads as usize, SIDE / self.shape.lanes);
        let rows = self.param(self.extents[tile.row] as i64);
        let columns = self.param(self.extents[self.extents.len() - 1] as i64);
        let cell = || Expr::from(OnDevice::Cell);
        let (line_of, lanes) = (line as i64, self.shape.lanes as i64);
        let row = Name::Loop(Var(tile.row as u32));
        let at = thread() + Expr::from(Local::Held) * threads as i64;
        let column = Expr::from(Local::TileColumn) + OnDevice::InTileColumn;
        let inside = Expr::from(row).less(rows).and(column.less(columns));
        let mut chunk = std::mem::take(&mut self.preamble);
        chunk.append(body);
        let each = [
            Stmt::constant(OnDevice::Cell, Type::INT, at),
            Stmt::constant(OnDevice::InTileRow, Type::INT, cell() / line_of),
            Stmt::constant(OnDevice::InTileColumn, Type::INT, cell() % line_of * lanes),
            Stmt::constant(
                row,
                Type::INDEX,
                Expr::from(Local::TileRow) + OnDevice::InTileRow,
            ),
            Stmt::when(inside, chunk),
        ];
        out.push(over_held(SIDE * line / threads, each));
    }

    /// The element of a staged load.
    pub(super) fn staged(&self, v: Value) -> Option<Expr> {
        let tile = self.shape.tile.as_ref()?;
        let BodyOp::Load { dtype, .. } = self.node.body.value(v).op else {
            return None;
        };
        let row = Expr::from(OnDevice::InTileRow) * pitch(dtype.size()) as i64;
        let at = row + OnDevice::InTileColumn + Local::Lane;
        let turned = Expr::from(Name::of(Part::Turned, v)).element(at);
        tile.loads.contains(&v).then_some(turned)
    }
}
