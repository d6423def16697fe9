//! Where a thread works: its row, its chunks, and the values that a row has before any loop.

use super::index::Position;
use super::kernel::Writer;
use super::name::Param;
use super::shape::Form;
use super::value::At;
use crate::expr::Var;
use crate::kernel::ir::{
    Block, Expr, Extent, Function, Local, Meeting, Name, OnDevice, Stmt, Type, ValueType,
};
use ferrotrace_runtime::DType;

/// Declares a position or size.
pub(super) fn index(name: impl Into<Name>, value: impl Into<Expr>) -> Stmt {
    Stmt::constant(name, Type::INDEX, value)
}

/// The number of a thread in its block, of type `int`.
pub(super) fn thread() -> Expr {
    Expr::from(Local::Thread).cast(Type::INT)
}

/// Whether a thread that works with others has a row, and its row: the last one where it has none.
fn live_row(row: Expr, rows: Param) -> [Stmt; 2] {
    let live = row.clone().less(rows);
    let last = Expr::from(rows) - 1;
    [
        Stmt::constant(OnDevice::Live, Type::scalar(DType::Bool), live),
        index(
            Local::RowNumber,
            Expr::from(OnDevice::Live).choose(row, last),
        ),
    ]
}

/// Where the chunks of a thread end that has none without a row.
fn live_end() -> Expr {
    Expr::from(OnDevice::Live).choose(Local::End, Local::Low)
}

impl Writer<'_> {
    /// Which row and which chunks are this thread's.
    pub(super) fn place(&mut self, form: Form, split: bool) -> Block {
        let mut out = Block::new();
        let (mut row_count, chunk_count) = (self.node.rows() as i64, self.shape.chunks as i64);
        if self.shape.across {
            row_count /= self.shape.lanes as i64;
        }
        let rows = self.param(row_count);
        let chunks = self.param(chunk_count);
        let block = match self.shape.looks_back {
            true => draw(&mut out),
            false => Expr::from(Local::Block).cast(Type::INDEX),
        };
        if split {
            let pieces = self.divisor(self.shape.pieces() as i64);
            let per = self.param(self.shape.per_piece() as i64);
            let low = Expr::from(Local::Piece) * per;
            let end = (Expr::from(Local::Low) + per).least(chunks);
            out.extend([
                index(OnDevice::Pieces, Param(pieces.0)),
                index(Local::Piece, block.clone() % pieces),
                index(OnDevice::RowBlock, block / pieces),
                index(Local::Low, low),
                index(Local::End, end),
            ]);
        } else {
            out.extend([
                index(OnDevice::RowBlock, block),
                index(Local::Low, 0),
                index(Local::End, chunks),
            ]);
        }
        self.place_row(&mut out, form, split, rows);
        out
    }

    /// The row of a thread among those of its block, and which of the row's threads it is.
    fn place_row(&self, out: &mut Block, form: Form, split: bool, rows: Param) {
        let int = |name: OnDevice, value: Expr| Stmt::constant(name, Type::INT, value);
        let block = || Expr::from(OnDevice::RowBlock);
        match form {
            Form::Pointwise | Form::Tiled => {}
            Form::Inner { threads } if threads <= 32 && !split => {
                let row = || {
                    let rows_of_block = i64::from(self.shape.threads / threads);
                    block() * rows_of_block + (thread() >> i64::from(threads.ilog2()))
                };
                if threads == 32 {
                    out.extend([
                        index(Local::RowNumber, row()),
                        index(Local::High, Local::End),
                        Stmt::when(Expr::from(Local::RowNumber).at_least(rows), Stmt::Leave),
                    ]);
                } else {
                    out.extend(live_row(row(), rows));
                    out.push(index(Local::High, live_end()));
                }
                let lane = Expr::from(Local::Thread) & i64::from(threads - 1);
                out.push(int(OnDevice::InRow, lane));
            }
            Form::Inner { .. } => out.extend([
                index(Local::RowNumber, block()),
                index(Local::High, Local::End),
                int(OnDevice::InRow, Local::Thread.into()),
            ]),
            Form::Outer { width, .. } => {
                let width = i64::from(width);
                out.extend([
                    int(OnDevice::Across, Expr::from(Local::Thread) % width),
                    int(OnDevice::Group, Expr::from(Local::Thread) / width),
                ]);
                let row = block() * width + OnDevice::Across;
                out.extend(live_row(row, rows));
                // All threads of a block meet at the barriers of a scan.
                let high = match self.scans {
                    true => Local::End.into(),
                    false => live_end(),
                };
                out.push(index(Local::High, high));
            }
        }
    }

    /// Which chunk of all rows is this thread's.
    fn place_chunk(&mut self) -> Block {
        let (row_count, chunk_count) = (self.node.rows() as i64, self.shape.chunks as i64);
        let units = self.param(row_count.saturating_mul(chunk_count));
        let chunk = || Expr::from(Local::Chunk);
        let first = Expr::from(Local::Block).cast(Type::INDEX) * i64::from(self.shape.threads);
        let constant = |name: Local, value| Stmt::constant(name, Type::INDEX, value);
        let mut block = Block::from([
            constant(
                Local::Chunk,
                first + Expr::from(Local::Thread).cast(Type::INDEX),
            ),
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
    pub(super) fn row_variables(&mut self) -> Block {
        let rows = self.node.iter.len();
        let mut block = Block::new();
        if rows > 0 && self.node.rows() == 1 {
            let of = |v: usize| Name::Loop(Var(v as u32));
            block.extend((0..rows).map(|v| Stmt::constant(of(v), Type::INDEX, 0)));
        } else if rows > 0 {
            let rest = Name::from(Local::Rows);
            block.push(Stmt::variable(rest, Type::INDEX, Local::RowNumber));
            let whole = self.extents[rows - 1];
            // The first kernel counts chunks of rows side by side.
            if self.shape.across && !self.finishing {
                self.extents[rows - 1] /= self.shape.lanes;
            }
            self.take_apart(&mut block, rest, 0..rows);
            self.extents[rows - 1] = whole;
        }
        block
    }

    /// A row's values of one stage, and its stores of such where `writes` holds.
    pub(super) fn row_values(&mut self, s: usize, writes: Option<Expr>) -> Block {
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
        let first = Expr::from(Local::Index).equals(0);
        let values = self.row_values(0, Some(first));
        let l = self.stages.loops[0].clone();
        let chunk = match l.stores.is_empty() {
            true => Block::new(),
            false => self.chunk(0, &l, &[]),
        };
        let preamble = std::mem::take(&mut self.preamble);
        [place, preamble, values, chunk]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// The number that this block draws of a counter, so that blocks with lesser numbers run before it or at once.
fn draw(out: &mut Block) -> Expr {
    let word = Type::Value(ValueType::Word);
    let counter = Expr::from(Local::Scratch).cast(Type::write(ValueType::Word));
    let drawn = Expr::call(Function::AtomicAdd, [counter, Expr::Integer(1).cast(word)]);
    let first = Expr::from(Local::Thread).equals(0);
    out.extend([
        Stmt::shared(OnDevice::Counter, word, Extent::One),
        Stmt::when(first, Stmt::assign(OnDevice::Counter, drawn)),
        Stmt::Barrier(Meeting::Block),
        Stmt::constant(OnDevice::Drawn, word, OnDevice::Counter),
    ]);
    Expr::from(OnDevice::Drawn).cast(Type::INDEX)
}
