//! The loops of a block of rows whose columns are strided: rows are the vector axis.

use crate::body::{BodyOp, Value};
use crate::emit::cpu::chunks::{PANEL, TWICE};
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::lanes::MANY_ROWS;
use crate::emit::cpu::pieces::{BLOCK, Pieces};
use crate::emit::cpu::reduce::Reduction;
use crate::emit::cpu::reduce::totals::{RUN, turn_of};
use crate::emit::cpu::stage::Loop;
use crate::emit::cpu::value::{At, COLUMN, COUNT};
use crate::kernel::ir::{Block, Copy, Expr, Function, Local, Name, Part, Stmt, Type, ValueType};
use ferrotrace_runtime::DType;
use std::collections::BTreeSet;

/// Columns that a unit in chunks takes at a time: each is a run of memory of its own, and the processor fetches ahead along
/// several at once.
const COLUMNS: usize = 4;
/// Columns that a unit in chunks takes at a time where a column is no more than one load: 8 runs of 16 KiB rows reach what one run through memory does.
const LIGHT_COLUMNS: usize = 8;

/// Vectors that the arrays of a short block have, unless it is a single vector.
const FEW: usize = 4;

impl Writer<'_> {
    /// The stages of a block of rows; of a chunk of its columns, the first, and what sums about the chunk's means.
    pub(super) fn outer_stages(&mut self, out: &mut Block, cut: &Pieces) {
        self.row_arrays(out);
        let all = !self.is_chunked();
        if !all {
            let parts = (Part::Accumulator, Part::Places);
            self.chunk_accumulators(out, parts, Local::Unit.into());
        }
        let loops = match (all, self.moments.is_empty()) {
            (true, _) => self.stages.loops.len(),
            (false, true) => 1,
            (false, false) => 2,
        };
        for s in 0..loops {
            if all || s == 0 {
                self.outer_row(out, s, all);
            } else {
                self.chunk_means(out);
            }
            self.outer_loop(out, s, cut);
        }
    }

    fn is_constant(&self, v: Value) -> bool {
        matches!(self.node.body.value(v).op, BodyOp::Number(_))
    }

    /// Vectors of an array over a block. The arrays of short blocks are shorter where there are many, since each block starts them
    /// anew.
    pub(super) fn most(&self) -> usize {
        let rows: usize = self.row_vars().iter().map(|&v| self.extents[v]).product();
        let block = match (self.is_chunked(), self.moments.is_empty()) {
            (false, _) => match self.block.div_ceil(self.lanes) {
                _ if rows < MANY_ROWS => BLOCK,
                0 | 1 => self.lanes,
                2..=FEW => FEW * self.lanes,
                _ => BLOCK,
            },
            (true, true) => PANEL,
            (true, false) => TWICE,
        };
        block / self.lanes.min(block)
    }

    /// Row values that a loop or a later stage reads are arrays over the block.
    pub(super) fn row_arrays(&mut self, out: &mut Block) {
        for &v in self.stages.row.iter().flatten() {
            if !self.is_constant(v) {
                let dtype = self.node.body.value(v).dtype;
                self.block_array(out, Name::of(Part::Row, v), dtype);
            }
        }
    }

    /// The row values of one stage.
    pub(super) fn outer_row(&mut self, out: &mut Block, s: usize, stores: bool) {
        let row = self.stages.row[s].clone();
        let row_stores = if stores {
            self.stages.row_stores[s].clone()
        } else {
            Vec::new()
        };
        let earlier: Vec<Value> = self.stages.row[..s].iter().flatten().copied().collect();
        if row.iter().all(|&v| self.is_constant(v)) && row_stores.is_empty() {
            return;
        }
        let mut step = |w: &mut Self, text: &mut Block, at: At<'_>| {
            let wanted: BTreeSet<Value> = row
                .iter()
                .flat_map(|&v| w.node.body.operands(v))
                .chain(row_stores.iter().map(|&s| w.node.stores[s].value))
                .collect();
            for &v in earlier.iter().filter(|v| wanted.contains(v)) {
                text.push(w.recall(v));
            }
            for &v in &row {
                w.row_value(text, v, at);
            }
            for &s in &row_stores {
                w.store(text, s, at);
            }
        };
        self.block_loop(out, Local::Low.into(), &mut step);
    }

    /// Computes a row's value of a vector of the block, and keeps it in its array.
    fn row_value(&mut self, out: &mut Block, v: Value, at: At<'_>) {
        let k = self.vector_of_block();
        if matches!(self.node.body.value(v).op, BodyOp::Reduce { .. }) {
            let ty = self.vector_type(self.node.body.value(v).dtype);
            let r = self.reduction(v);
            let of = |part| Expr::from(Name::of(part, v)).element(k.clone());
            let result = match (r.has_position(), self.place_dtype(&r)) {
                (false, _) => of(Part::Accumulator),
                (true, DType::I64) => of(Part::Places),
                (true, dtype) => {
                    let cast = Function::Cast(dtype, DType::I64, self.lanes as u16);
                    Expr::call(cast, [of(Part::Places)])
                }
            };
            out.push(Stmt::constant(Name::of(Part::Result, v), ty, result));
        }
        self.statement(out, v, at);
        if !self.is_constant(v) {
            let kept = Expr::from(Name::of(Part::Row, v)).element(k);
            out.push(Stmt::assign(kept, Name::value(v)));
        }
    }

    /// Declares the accumulators of a loop, and starts them.
    fn begin_accumulators(&mut self, out: &mut Block, l: &Loop) {
        for &id in &l.reduces {
            let r = self.reduction(id);
            if !self.is_chunked() {
                let most = Expr::Integer(self.most() as i64);
                self.array_accumulators(out, &r, most);
                continue;
            }
            for (name, _, start) in self.array_starts(&r) {
                let start = Stmt::assign(Self::of_accumulator(name), start);
                out.push(Self::each_accumulator(self.vectors(), start));
            }
        }
    }

    /// The loop over the columns of one stage.
    fn outer_loop(&mut self, out: &mut Block, s: usize, cut: &Pieces) {
        let mut l = self.stages.loops[s].clone();
        if l.reduces.is_empty() && l.stores.is_empty() {
            return;
        }
        self.begin_accumulators(out, &l);
        let several = self.columns_at_once(&l, s);
        let terms = self.terms_of_lane();
        // Columns that are added together first are one term of the accumulator.
        let sums = self.long_sums(&l, several - 1 + terms.div_ceil(several));
        self.declare_block_totals(out, &sums);
        self.declare_carries(out, &l);
        let available: Vec<Value> = self.stages.row[..=s].iter().flatten().copied().collect();
        let shared = self.shared_values(&l, &available);
        let left = Name::Left(s as u32);
        let held = self.gathered_loop(out, &l, (&available, &shared), cut, (left, &sums));
        if !sums.is_empty() {
            out.push(Stmt::variable(turn_of(&sums), Type::INDEX, 0));
        }
        let start = if held { left } else { Local::Low.into() };
        let mut body = Block::new();
        self.shared_statements(&shared, &available, &mut body);
        self.prefetch_gathered(&l, &shared, cut, (start, None), &mut body);
        l.compute.retain(|v| !shared.contains(v));
        let mut step =
            |w: &mut Self, out: &mut Block, at: At<'_>| w.outer_step(out, &l, &available, at, 1);
        self.block_loop(&mut body, start.into(), &mut step);
        let ended = self.end_run(&sums, several);
        body.append(ended.clone());
        let bounds = self
            .is_chunked()
            .then(|| (Local::ChunkLow.into(), Local::ChunkHigh.into()));
        if several == 1 {
            let mut walk = Block::new();
            self.walk(&mut walk, bounds, body);
            match held {
                true => out.push(Stmt::when(Expr::from(left).less(Local::High), walk)),
                false => out.append(walk),
            }
            self.end_block(out, &sums);
            return;
        }
        let mut step = |w: &mut Self, out: &mut Block, at: At<'_>| {
            w.outer_step(out, &l, &available, at, several);
        };
        let mut bodies = Block::new();
        self.block_loop(&mut bodies, Local::Low.into(), &mut step);
        bodies.append(ended);
        self.walk_several(out, bounds, (several, bodies), body);
        self.end_block(out, &sums);
    }

    /// Columns that a pass over the vectors of a block takes: several where accumulators are in memory.
    fn columns_at_once(&self, l: &Loop, s: usize) -> usize {
        let available: Vec<Value> = self.stages.row[..=s].iter().flatten().copied().collect();
        let plain = self.is_chunked() && self.shared_values(l, &available).is_empty();
        match (plain, l.compute.len()) {
            (false, _) => 1,
            (true, 0..=1) => LIGHT_COLUMNS,
            (true, _) => COLUMNS,
        }
    }

    /// Terms that an accumulator takes in.
    fn terms_of_lane(&self) -> usize {
        let first = self.walked_vars().first().map_or(1, |&v| self.extents[v]);
        let all = self.walked();
        match self.chunks {
            Some(chunks) => all / first.max(1) * chunks.length,
            None => all,
        }
    }

    /// After a term of the accumulators, made of at most so many columns: whether they are moved to the totals.
    fn end_run(&mut self, sums: &[Reduction], columns: usize) -> Block {
        if sums.is_empty() {
            return Block::new();
        }
        let moved = self.move_block(sums);
        self.every(sums, (RUN + 1 - columns) as i64, moved)
    }

    /// Which vector of the block the position is in.
    pub(super) fn vector_of_block(&self) -> Expr {
        let offset = Expr::from(Local::Column) - Local::Low;
        offset.cast(ValueType::LongWord) / self.lanes as i64
    }

    /// The values of a loop that all lanes share.
    fn shared_values(&self, l: &Loop, available: &[Value]) -> Vec<Value> {
        let mut shared: Vec<Value> = Vec::new();
        for &v in &l.compute {
            let operands = self.node.body.operands(v);
            let known = |o: &Value| shared.contains(o) || available.contains(o);
            if !self.differ[v as usize] && !l.save.contains(&v) && operands.iter().all(known) {
                shared.push(v);
            }
        }
        shared
    }

    /// Computes once for a column what all lanes share.
    pub(super) fn shared_statements(
        &mut self,
        shared: &[Value],
        available: &[Value],
        out: &mut Block,
    ) {
        if shared.is_empty() {
            return;
        }
        let low = Expr::from(Local::Low);
        let at = At {
            position: &low,
            lanes: None,
        };
        let wanted: BTreeSet<Value> = shared
            .iter()
            .flat_map(|&v| self.node.body.operands(v))
            .collect();
        // A row value that all lanes share is the same in every vector of its array.
        out.push(Stmt::constant(Local::Column, Type::INDEX, Local::Low));
        out.push(Stmt::Unused(Local::Column.into()));
        for &v in available.iter().filter(|v| wanted.contains(v)) {
            out.push(self.recall(v));
        }
        for &v in shared {
            self.statement(out, v, at);
        }
    }

    /// Reads a row value back from its array.
    pub(super) fn recall(&self, v: Value) -> Stmt {
        let value = match self.node.body.value(v).op {
            BodyOp::Number(n) => Name::Number(n).into(),
            _ => Expr::from(Name::of(Part::Row, v)).element(self.vector_of_block()),
        };
        let ty = self.vector_type(self.node.body.value(v).dtype);
        Stmt::constant(Name::value(v), ty, value)
    }

    /// Reads back the row values that a loop uses.
    pub(super) fn recalled(&self, out: &mut Block, l: &Loop, available: &[Value]) {
        let reduced = l.reduces.iter().map(|&r| self.reduction(r).value);
        let stored = l.stores.iter().map(|&s| self.node.stores[s].value);
        let wanted: BTreeSet<Value> = l
            .compute
            .iter()
            .flat_map(|&v| self.node.body.operands(v))
            .chain(reduced)
            .chain(stored)
            .chain(l.stores.iter().flat_map(|&s| self.place_operands(s)))
            .collect();
        let used = available.iter().filter(|v| wanted.contains(v));
        out.extend(used.map(|&v| self.recall(v)));
    }

    /// The values and updates of one vector of rows at `columns` columns, of which the first is the loop's.
    fn outer_step(
        &mut self,
        out: &mut Block,
        l: &Loop,
        available: &[Value],
        at: At<'_>,
        columns: usize,
    ) {
        self.recalled(out, l, available);
        if columns == 1 {
            return self.outer_column(out, l, at, None);
        }
        // Accumulators stay in registers from one column to the next. Sums of the columns begin anew, and are one term of
        // the accumulator: so fewer additions are rounded one after the other.
        let k = self.vector_of_block();
        let mut ends = Block::new();
        for &id in &l.reduces {
            let r = self.reduction(id);
            let kept = |part| Expr::from(r.part(part)).element(k.clone());
            let register = |part| Name::Of(part, id, Copy::Register);
            let (acc, all) = (register(Part::Accumulator), kept(Part::Accumulator));
            let (start, end) = match r.is_rounded_sum() {
                true => (self.identity(&r), self.combine(&r, all.clone(), acc)),
                false => (all.clone(), acc.into()),
            };
            out.push(Stmt::variable(acc, self.vector_type(r.dtype), start));
            ends.push(Stmt::assign(all, end));
            if r.has_position() {
                let (places, all) = (register(Part::Places), kept(Part::Places));
                let ty = self.vector_type(self.place_dtype(&r));
                out.push(Stmt::variable(places, ty, all.clone()));
                ends.push(Stmt::assign(all, places));
            }
        }
        let walked = self.walked_vars().last().copied().unwrap_or_default();
        for c in 0..columns {
            let column = Expr::from(Local::Walked) + c as i64;
            let name = Self::loop_name(walked);
            let mut block = Block::from(Stmt::constant(name, Type::INDEX, column));
            self.outer_column(&mut block, l, at, Some(Copy::Register));
            out.push(Stmt::Scope(block));
        }
        out.append(ends);
    }

    /// What one column adds: to accumulators in arrays over the block, or to those in registers.
    pub(super) fn outer_column(
        &mut self,
        out: &mut Block,
        l: &Loop,
        at: At<'_>,
        registers: Option<Copy>,
    ) {
        for &v in &l.restore {
            let (place, dtype) = self.outer_place(v);
            let load = self.support("load", kept_type(dtype), [place]);
            out.push(Stmt::constant(
                Name::value(v),
                self.vector_type(dtype),
                load,
            ));
        }
        self.compute_all(out, l, at, |w, out, v| {
            let (place, dtype) = w.outer_place(v);
            let value = Name::value(v).into();
            let store = w.support("store", kept_type(dtype), [place, value]);
            out.push(Stmt::Call(store));
        });
        for &id in &l.reduces {
            let r = self.reduction(id);
            let position = self.position(&r, at);
            let of = |part| match registers {
                Some(copy) => Name::Of(part, id, copy).into(),
                None => Expr::from(r.part(part)).element(self.vector_of_block()),
            };
            let into = (of(Part::Accumulator), of(Part::Places));
            out.push(self.update(&r, into, position, None));
        }
        self.store_all(out, &l.stores, at);
    }

    /// The place in the scratch rows of a kept value, and its type.
    fn outer_place(&mut self, v: Value) -> (Expr, DType) {
        let (row, _) = self.scratch_row(v);
        let column = Expr::sum(self.flat_column(Expr::Integer(0)));
        let block = self.param(self.block as i64);
        let column = column.unwrap_or(Expr::Integer(0)) * block;
        let offset = Expr::from(Local::Column) - Local::Low;
        (row + column + offset, self.node.body.value(v).dtype)
    }

    /// A loop over the vectors of a block from a position on, full ones and the last.
    pub(super) fn block_loop(
        &mut self,
        out: &mut Block,
        start: Expr,
        step: &mut dyn FnMut(&mut Self, &mut Block, At<'_>),
    ) {
        let at = At {
            position: &COLUMN,
            lanes: None,
        };
        let (mut full, mut tail) = (Block::new(), Block::new());
        step(self, &mut full, at);
        let left = Expr::from(Local::High) - Local::Column;
        tail.push(Stmt::constant(Local::Count, Type::LONG, left));
        let at = At {
            lanes: Some(&COUNT),
            ..at
        };
        step(self, &mut tail, at);
        out.push(Stmt::Scope(Block::from([
            Stmt::variable(Local::Column, Type::INDEX, start),
            Self::along_vectors(Local::High.into(), self.lanes, full),
            Stmt::when(COLUMN.less(Local::High), tail),
        ])));
    }
}

/// How a value is kept between loops.
fn kept_type(dtype: DType) -> DType {
    if dtype == DType::Bool {
        DType::I32
    } else {
        dtype
    }
}
