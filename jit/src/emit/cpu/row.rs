//! The loop over units of work, and the stages of a row.

use crate::emit::cpu::index::Index;
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::pieces::Pieces;
use crate::emit::cpu::value::At;
use crate::kernel::ir::{self, Axis, Block, Expr, Infix, Local, Name, Stmt, Type};
use crate::nest::flat_index;

impl Writer<'_> {
    /// The name of a variable of the loop nest.
    pub(super) fn loop_name(v: usize) -> Name {
        Name::Loop(crate::expr::Var(v as u32))
    }

    /// A loop over the units of work.
    pub(super) fn each_unit(body: Block) -> Stmt {
        ir::Loop::over(Local::Unit, Local::Begin, Local::End)
            .along(Axis::Parallel)
            .each(body)
    }

    /// Declares the row of a unit, and where its piece of the columns begins and ends.
    pub(super) fn declare_unit(out: &mut Block, row: Expr, low: Expr, high: Expr) {
        out.push(Stmt::variable(Local::Row, Type::INDEX, row));
        Self::declare_piece(out, low, high);
    }

    /// Declares where a unit's piece of the columns begins and ends.
    fn declare_piece(out: &mut Block, low: Expr, high: Expr) {
        out.push(Stmt::constant(Local::Low, Type::INDEX, low));
        out.push(Stmt::constant(Local::High, Type::INDEX, high));
        out.push(Stmt::Unused(Local::High.into()));
    }

    /// The loop over units of work: (row, piece of it). The row's variables are counted up from one unit to the next, since a
    /// division takes as long as a row of few columns.
    pub(super) fn row_loop(&mut self, body: Block, cut: &Pieces) -> Block {
        let mut out = Block::new();
        self.declare_pipelined(&mut out);
        if let Some(tile) = self.tile.clone() {
            let unit = || Expr::from(Local::Unit);
            let low = unit() % cut.pieces * cut.piece;
            let high = (Expr::from(Local::Low) + cut.piece).least(cut.extent);
            let mut each = Block::new();
            Self::declare_unit(&mut each, unit() / cut.pieces, low, high);
            self.decode_row(&mut each, Stmt::constant);
            self.tiles_of_unit(&mut each, &tile, body);
            out.push(Self::each_unit(each));
            return out;
        }
        let (first, part) = (|| Expr::from(Local::Begin), || Expr::from(Local::Piece));
        out.push(Stmt::variable(
            Local::Piece,
            Type::INDEX,
            first() % cut.pieces,
        ));
        out.push(Stmt::variable(
            Local::Row,
            Type::INDEX,
            first() / cut.pieces,
        ));
        let counters = self.decode_row(&mut out, Stmt::variable);
        let mut each = Block::new();
        let high = (Expr::from(Local::Low) + cut.piece).least(cut.extent);
        Self::declare_piece(&mut each, part() * cut.piece, high);
        each.append(self.preamble.clone());
        each.append(body);
        each.append(Self::count_up(counters, cut));
        out.push(Self::each_unit(each));
        out
    }

    /// Goes on to the next piece of a row, after the last to the next row. `counters` are the row's variables, the last first,
    /// each with its extent but the first, which grows until the units end.
    fn count_up(counters: Vec<(Name, Option<Name>)>, cut: &Pieces) -> Block {
        let pieces = (Name::from(Local::Piece), Some(cut.pieces));
        let all = [pieces].into_iter().chain(counters);
        let up = |(counter, extent): (Name, Option<Name>), carry: Block| {
            let mut out = Block::from(Stmt::update(counter, Infix::Add, 1));
            if let Some(extent) = extent.filter(|_| !carry.is_empty()) {
                let mut full = Block::from(Stmt::assign(counter, 0));
                full.append(carry);
                out.push(Stmt::when(Expr::from(counter).equals(extent), full));
            }
            out
        };
        let all: Vec<_> = all.collect();
        all.into_iter()
            .rev()
            .fold(Block::new(), |carry, counter| up(counter, carry))
    }

    /// The loop over units of work of a kernel that takes up a product: (piece of the columns, row), so that those of a
    /// panel follow each other. The last piece is what is left.
    pub(super) fn panel_loop(&mut self, body: Block, cut: &Pieces, rows: Name) -> Block {
        let (unit, part) = (|| Expr::from(Local::Unit), || Expr::from(Local::Piece));
        let last = (part() + 1).equals(cut.pieces);
        let high = last.choose(cut.extent, Expr::from(Local::Low) + cut.piece);
        let mut each = Block::from(Stmt::constant(Local::Piece, Type::INDEX, unit() / rows));
        Self::declare_unit(&mut each, unit() % rows, part() * cut.piece, high);
        self.decode_row(&mut each, Stmt::constant);
        each.append(self.preamble.clone());
        each.append(body);
        Self::each_unit(each).into()
    }

    /// Where the element of a row and column lies in a product with a distance of rows of its own.
    pub(super) fn place_in_panel(&mut self) -> Index {
        let pitch = match self.pitch {
            Some(pitch) => pitch,
            None => self.param(self.node.cols() as i64),
        };
        self.pitch = Some(pitch);
        let row = self.nested(&flat_index(&self.node.iter, 0));
        let base = self.base(row * pitch);
        Index::by_one(Expr::from(base) + Expr::Position)
    }

    /// Declares the variables of a row by its number, and gives them with their extents, the last first.
    pub(super) fn decode_row(
        &mut self,
        out: &mut Block,
        declare: impl Fn(Name, Type, Expr) -> Stmt,
    ) -> Vec<(Name, Option<Name>)> {
        let vars = self.row_vars();
        let row = || Expr::from(Local::Row);
        let mut all = Vec::new();
        for (k, &v) in vars.iter().enumerate().rev() {
            let name = Self::loop_name(v);
            if let Some(tile) = self.tile.clone().filter(|t| t.row == v) {
                self.decode_tile(out, &tile, k == 0);
            } else if k == 0 {
                out.push(declare(name, Type::INDEX, row()));
                all.push((name, None));
            } else {
                let n = self.param(self.extents[v] as i64);
                out.push(declare(name, Type::INDEX, row() % n));
                out.push(Stmt::assign(row(), row() / n));
                all.push((name, Some(n)));
            }
        }
        all
    }

    /// All stages of a row, or of a piece of `piece` columns of it.
    pub(super) fn stages_of_row(&mut self, out: &mut Block, piece: usize, cut: &Pieces) {
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
                    (0 | 1, false) if s == self.prefetching_loop() => self.prefetch_loads(),
                    _ => {}
                }
                self.inner_loop(out, &l);
                self.ahead.clear();
            }
        }
    }

    /// A row's values of one stage, uniform over the lanes, and the stores of such.
    pub(super) fn row_stage(&mut self, out: &mut Block, s: usize, stores: bool) {
        let (zero, one) = (Expr::Integer(0), Expr::Integer(1));
        let at = At {
            position: &zero,
            lanes: None,
        };
        for v in self.stages.row[s].clone() {
            self.statement(out, v, at);
        }
        if stores {
            let at = At {
                lanes: Some(&one),
                ..at
            };
            for store in self.stages.row_stores[s].clone() {
                self.store(out, store, at);
            }
        }
    }
}
