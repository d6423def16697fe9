//! Transposed reads through small tiles (codegen A2.1).
//!
//! A load that is contiguous along a row variable and strided along the vector axis touches a cache line for each lane.
//! Such kernels work on tiles of rows by columns: whole lines are transposed in registers into a staging array, and the
//! loop over the columns then reads the array. Neither the lines nor the rows' short runs are what the processor would
//! foresee, so those of the next tile are asked for.

use crate::body::{BodyOp, Value};
use crate::emit::cpu::index::Index;
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::lanes::TILED;
use crate::expr::Var;
use crate::kernel::ir::{
    self, Axis, Block, Expr, Extent, Function, Local, Name, Part, Stmt, Type, ValueType,
};
use ferrotrace_runtime::DType;

/// Rows of a tile.
const ROWS: usize = 64;
/// Columns of a tile.
const COLUMNS: usize = 64;
/// More columns than there are.
const FAR: i64 = 1 << 48;
/// Columns of a unit of work.
pub(in crate::emit::cpu) const PIECE: usize = 4096;

/// The row variable whose tiles are walked, and the loads that are staged.
#[derive(Clone, Debug)]
pub(in crate::emit::cpu) struct Tile {
    pub row: usize,
    pub loads: Vec<Value>,
}

impl Writer<'_> {
    /// The tile of a kernel without reductions, if a load asks for one: the row variable along which loads of the most
    /// bytes are contiguous that are strided along the columns (codegen A2.3).
    pub(in crate::emit::cpu) fn find_tile(&self) -> Option<Tile> {
        let node = self.node;
        let column = self.vector_var()?;
        if node.reduces()
            || self.ordered
            || node.scatters()
            || !self.walked_vars().is_empty()
            || self.extents[column.0 as usize] < TILED
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
            .filter(|&row| self.extents[row] >= TILED)
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
    pub(in crate::emit::cpu) fn stage_loads(&mut self, tile: &Tile) {
        for &v in &tile.loads {
            let row = Expr::from(Self::loop_name(tile.row)) - Local::TileRow;
            let expr = row * COLUMNS as i64 + Expr::Position - Local::TileColumn;
            self.indices.insert(v, Index::by_one(expr));
            self.staged.insert(v, Name::of(Part::Staged, v));
        }
    }

    /// Asks for the next tile of what is read as it lies.
    pub(in crate::emit::cpu) fn next_tile(&mut self) {
        if let (Some(_), Some(column)) = (&self.tile, self.vector_var()) {
            self.prefetch_along(column, COLUMNS as i64);
        }
    }

    /// Tiles along the row variable.
    pub(in crate::emit::cpu) fn tiles(&self, tile: &Tile) -> usize {
        self.extents[tile.row].div_ceil(ROWS)
    }

    /// A unit: its tiles, each staged and then computed row by row.
    pub(in crate::emit::cpu) fn tiles_of_unit(
        &mut self,
        out: &mut Block,
        tile: &Tile,
        body: Block,
    ) {
        let rows = self.param(self.extents[tile.row] as i64);
        let first = || Expr::from(Local::TileRow);
        let end = (first() + ROWS as i64).least(rows);
        let count = Expr::from(Local::TileRowEnd) - Local::TileRow;
        out.push(Stmt::constant(Local::TileRowEnd, Type::INDEX, end));
        out.push(Stmt::constant(Local::TileRows, Type::LONG, count));
        let columns = (Expr::from(Local::TileColumn) + COLUMNS as i64).least(Local::High);
        let column_end = Stmt::constant(Local::TileColumnEnd, Type::INDEX, columns);
        let mut each = Block::from(column_end);
        for &v in &tile.loads {
            self.stage_load(&mut each, tile, v);
        }
        let mut row = Block::from([
            Stmt::constant(Local::Low, Type::INDEX, Local::TileColumn),
            Stmt::constant(Local::High, Type::INDEX, Local::TileColumnEnd),
        ]);
        row.append(self.preamble.clone());
        row.append(body);
        let i = Self::loop_name(tile.row);
        let rows = ir::Loop::over(i, Local::TileRow, Local::TileRowEnd).along(Axis::Row);
        each.push(rows.each(row));
        let tiles = ir::Loop::over(Local::TileColumn, Local::Low, Local::High);
        out.push(tiles.by(COLUMNS).each(each));
    }

    /// Fills the array of a load with a tile, whole squares of vectors first, and asks for the next tile.
    fn stage_load(&mut self, out: &mut Block, tile: &Tile, v: Value) {
        let BodyOp::Load {
            source,
            dtype,
            index,
            ..
        } = &self.node.body.value(v).op
        else {
            return;
        };
        let (source, dtype) = (*source, *dtype);
        let along = self.vector_var().unwrap_or(Var(0));
        let stride = self.param(index.coefficient(along));
        let start = self.nested(&index.sub(&crate::expr::Expr::from(Var(tile.row as u32))));
        let pointer = Expr::from(self.pointer(source));
        let column = || Expr::from(Local::Column);
        let first = pointer + start.at(&column()) + Local::TileRow;
        let memory = ValueType::Memory(dtype);
        let staged = Name::of(Part::Staged, v);
        out.push(Stmt::array(
            staged,
            memory,
            Extent::Aligned((ROWS * COLUMNS).into()),
        ));
        // What the caches hold needs no asking for: then the next tile is beyond all columns.
        let ahead = match self.bytes_met(v) > self.stream {
            true => COLUMNS as i64,
            false => FAR,
        };
        let ahead = self.param(ahead);
        out.push(ask_for_next(&first, ahead, 64 / dtype.size()));
        out.push(self.transpose_squares((&first, stride), staged, dtype.size()));
    }

    /// Transposes a tile square by square in registers. Those at its edges may reach beyond it, and read no element there.
    fn transpose_squares(&self, (first, stride): (&Expr, Name), staged: Name, size: usize) -> Stmt {
        let side = square(size, self.lanes);
        let call = |function: fn(u16, u16) -> Function, more: Vec<Expr>| {
            let to = Expr::from(staged) + Expr::from(Local::Lane) * COLUMNS as i64;
            let to = to + Local::Column - Local::TileColumn;
            let from = first.clone() + Local::Lane;
            let mut arguments = vec![from, stride.into(), to, Expr::Integer(COLUMNS as i64)];
            arguments.extend(more);
            Stmt::Call(Expr::call(function(size as u16, side as u16), arguments))
        };
        let rows = Expr::from(Local::TileRows) - Local::Lane;
        let columns = Expr::from(Local::TileColumnEnd) - Local::Column;
        let fits = |left: &Expr| Expr::Integer(side as i64 - 1).less(left.clone());
        let whole = fits(&rows).and(fits(&columns));
        let edge = call(Function::TransposeEdge, vec![rows, columns]);
        let square = Stmt::either(whole, call(Function::Transpose, Vec::new()), edge);
        let columns = ir::Loop::over(Local::Column, Local::TileColumn, Local::TileColumnEnd);
        columns.by(side).each(over_rows().by(side).each(square))
    }

    /// Decodes a tile's first row from the unit's row number.
    pub(in crate::emit::cpu) fn decode_tile(
        &mut self,
        out: &mut Block,
        tile: &Tile,
        outermost: bool,
    ) {
        let row = || Expr::from(Local::Row);
        if outermost {
            let first = row() * ROWS as i64;
            return out.push(Stmt::constant(Local::TileRow, Type::INDEX, first));
        }
        let n = self.param(self.tiles(tile) as i64);
        let first = row() % n * ROWS as i64;
        out.push(Stmt::constant(Local::TileRow, Type::INDEX, first));
        out.push(Stmt::assign(row(), row() / n));
    }
}

/// Rows and columns of the squares of elements of so many bytes: a vector of the kernel's lanes, but one of 16 bytes where
/// elements are narrow, since registers hold no square of more.
fn square(size: usize, lanes: usize) -> usize {
    match size {
        1 | 2 => 16 / size,
        _ => lanes.max(2),
    }
}

/// A loop over the rows of a tile.
fn over_rows() -> ir::Loop {
    ir::Loop::over(Local::Lane, 0, Local::TileRows)
        .of_type(ValueType::Scalar(DType::I64))
        .along(Axis::Row)
}

/// Asks for the tile that is so many columns ahead, a cache line at a time; `first` is the place of its first row in a
/// column.
fn ask_for_next(first: &Expr, ahead: Name, line: usize) -> Stmt {
    let ask = Expr::call(Function::Prefetch(2), [first.clone() + Local::Lane]);
    let rows = over_rows().by(line).each(Stmt::Call(ask));
    let next = |column: Local| Expr::from(column) + ahead;
    let end = next(Local::TileColumnEnd).least(Local::High);
    ir::Loop::over(Local::Column, next(Local::TileColumn), end).each(rows)
}
