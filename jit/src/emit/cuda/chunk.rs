//! A chunk of a row: where it lies, its loads, its elements.

use super::index::Position;
use super::kernel::Writer;
use super::place::index;
use super::reduce::Reduction;
use super::shape::Form;
use super::stage::Loop;
use crate::body::{BodyOp, Source, Value};
use crate::expr::Var;
use crate::kernel::ir::{
    self, Axis, Block, Cached, Expr, Extent, Function, Infix, Local, Name, OnDevice, Part, Stmt,
    Type, ValueType,
};
use ferrotrace_runtime::DType;
use std::ops::Range;

impl Writer<'_> {
    /// A loop over the chunks that a thread keeps, unrolled, so that they stay in registers.
    pub(super) fn turns(&self, threads: u32, chunk: Block) -> Stmt {
        if self.scans {
            return self.scan_turns(chunk);
        }
        let (turns, start) = match self.shape.turns {
            0 => (self.shape.batch, Expr::from(OnDevice::FirstHeld)),
            turns => (turns, Expr::from(Local::Low) + OnDevice::InRow),
        };
        // All threads have as many chunks, or some have fewer.
        let all = self.shape.chunks.is_multiple_of(turns * threads as usize)
            && !self.shape.has_idle_threads();
        let whole = self.shape.turns > 0 || self.shape.shifted.is_none();
        let at = start + Expr::from(Local::Held) * i64::from(threads);
        let mut each = Block::from(Stmt::constant(Local::Index, Type::INDEX, at));
        if all && whole && self.shape.split.is_none() {
            each.append(chunk);
        } else {
            let counts = Expr::from(Local::Index).less(Local::High);
            each.push(Stmt::when(counts, chunk));
        }
        over_held(turns, each)
    }

    /// Loads what more than one loop of a row needs, of the values of this one: the row, or the chunks of some turns.
    pub(super) fn keep(&mut self, out: &mut Block, threads: u32, values: &[Value]) {
        let (lanes, turns) = (self.shape.lanes, self.shape.turns.max(self.shape.batch));
        let mut chunk = self.decode_chunk();
        let cached = match self.reads_again(values) {
            true => Cached::Stays,
            false => Cached::Leaves,
        };
        for v in self.shape.kept.clone() {
            if !values.contains(&v) {
                continue;
            }
            let BodyOp::Load { source, dtype, .. } = self.node.body.value(v).op else {
                continue;
            };
            let kept = Name::of(Part::Kept, v);
            let extent = Extent::Aligned([turns, lanes].into());
            out.push(Stmt::array(kept, ValueType::Memory(dtype), extent));
            let kept = Expr::from(kept).element(Local::Held);
            chunk.push(self.load_elements(kept, v, source, cached));
        }
        if !self.shape.kept.is_empty() {
            out.push(self.turns(threads, chunk));
        }
        for &v in &self.shape.saved {
            let extent = Extent::array([turns, lanes]);
            out.push(Stmt::array(Name::of(Part::Row, v), self.type_of(v), extent));
        }
    }

    /// Where chunk `c` of a row lies: the positions of its first element, and how many count.
    pub(super) fn decode_chunk(&mut self) -> Block {
        let mut out = Block::new();
        let lanes = self.shape.lanes as i64;
        let (first, last) = (self.node.iter.len(), self.extents.len() - 1);
        let chunk = || Expr::from(Local::Index);
        let column = |value| Stmt::constant(Local::Column, Type::INDEX, value);
        let count = |value| Stmt::constant(Local::Count, Type::INT, value);
        if self.shape.across {
            let walked = Name::from(Local::Chunks);
            out.push(Stmt::variable(walked, Type::INDEX, chunk()));
            self.take_apart(&mut out, walked, first..last + 1);
            let row = Expr::from(Name::Loop(self.vector_var()));
            out.extend([column(row * lanes), count(Expr::Integer(lanes))]);
            return out;
        }
        if self.shape.tile.is_some() {
            out.push(column(
                Expr::from(Local::TileColumn) + OnDevice::InTileColumn,
            ));
        } else if self.shape.shifted.is_some() {
            out.push(column(chunk() * lanes - Local::Shift));
        } else if first == last {
            out.push(column(chunk() * lanes));
        } else {
            let line = self.divisor(self.shape.line as i64);
            out.push(column(chunk() % line * lanes));
            let walked = Name::from(Local::Chunks);
            out.push(Stmt::variable(walked, Type::INDEX, chunk() / line));
            self.take_apart(&mut out, walked, first..last);
        }
        let last = self.extents[last];
        if self.middle || !self.has_heads() && last.is_multiple_of(lanes as usize) {
            out.push(count(self.on_row(Expr::Integer(lanes))));
            return out;
        }
        let left = Expr::from(self.param(last as i64)) - Local::Column;
        let left = left.least(lanes).cast(Type::INT);
        if self.has_heads() {
            let head = (-Expr::from(Local::Column)).greatest(0).cast(Type::INT);
            out.extend([count(left), Stmt::constant(Local::Head, Type::INT, head)]);
        } else {
            out.push(count(self.on_row(left)));
        }
        out
    }

    /// How many elements of a chunk count, none where it is beyond the row.
    fn on_row(&self, count: Expr) -> Expr {
        match self.scans && !self.full_tiles() {
            true => (!Expr::from(Local::OnRow)).choose(0, count),
            false => count,
        }
    }

    /// The variables of a part of the loop nest from their number, which is left in `rest`.
    pub(super) fn take_apart(&mut self, out: &mut Block, rest: Name, variables: Range<usize>) {
        let of = |v: usize| Name::Loop(Var(v as u32));
        let first = variables.start;
        for v in variables.skip(1).rev() {
            let n = self.divisor(self.extents[v] as i64);
            out.push(Stmt::constant(of(v), Type::INDEX, Expr::from(rest) % n));
            out.push(Stmt::assign(rest, Expr::from(rest) / n));
        }
        out.push(Stmt::constant(of(first), Type::INDEX, rest));
    }

    /// Whether chunks may begin before their row.
    pub(super) fn has_heads(&self) -> bool {
        self.shape.shifted.is_some() && !self.middle
    }

    /// The elements of a chunk that an access is of: where they end and begin.
    pub(super) fn span(&self) -> impl Iterator<Item = Expr> {
        let head = self.has_heads().then_some(Local::Head);
        [Local::Count].into_iter().chain(head).map(Expr::from)
    }

    /// Loads the elements of a chunk, zeros where its mask says no.
    fn load_elements(&self, to: Expr, v: Value, source: Source, cached: Cached) -> Stmt {
        let index = self.indices[&v].at(Position::Chunk);
        let place = Expr::from(self.pointer(source)) + index;
        let mut span: Vec<Expr> = self.span().collect();
        if let BodyOp::Load { mask: Some(m), .. } = self.node.body.value(v).op {
            let conditions = self.masks[&m].iter();
            let holds = Expr::all(conditions.map(|c| c.at(Position::Chunk).at_least(0)));
            span[0] = match holds {
                Some(holds) => holds.choose(span[0].clone(), 0),
                None => span[0].clone(),
            };
        }
        let arguments = [to, place].into_iter().chain(span);
        Stmt::Call(Expr::call(Function::LoadChunk(cached), arguments))
    }

    /// A loop over a long row whose first and last chunks, alone, may not be whole: the others without a thought of
    /// that, then those two, by the first threads.
    pub(super) fn with_edges(
        &mut self,
        s: usize,
        reductions: &[Reduction],
        middle: impl FnOnce(&mut Self, Block) -> Stmt,
    ) -> Stmt {
        let l = self.stages.loops[s].clone();
        self.middle = true;
        let chunk = self.chunk(s, &l, reductions);
        let middle = middle(self, chunk);
        self.middle = false;
        let kept = std::mem::take(&mut self.shape.kept);
        let edge = self.chunk(s, &l, reductions);
        self.shape.kept = kept;
        let n = self.param(self.extents[self.extents.len() - 1] as i64);
        let elements = Expr::from(n) + Local::Shift - 1;
        let last = elements.cast(ValueType::Word) / self.shape.lanes as i64;
        let within = Block::from([
            index(Local::Low, Expr::from(OnDevice::FirstEdge) + 1),
            index(Local::High, OnDevice::LastEdge),
            middle,
        ]);
        let is_first = Expr::from(OnDevice::InRow).equals(0);
        let at = is_first.choose(OnDevice::FirstEdge, OnDevice::LastEdge);
        let mut edges = Block::from(index(Local::Index, at));
        edges.append(edge);
        let row = Block::from([
            index(OnDevice::FirstEdge, Local::Low),
            index(OnDevice::LastEdge, last.cast(Type::INDEX)),
            Stmt::Scope(within),
            Stmt::when(Expr::from(OnDevice::InRow).less(2), edges),
        ]);
        match self.shape.has_idle_threads() {
            true => Stmt::when(OnDevice::Live.into(), row),
            false => Stmt::Scope(row),
        }
    }

    /// The whole loads of a chunk that a thread does not keep.
    pub(super) fn load_chunk(&self, out: &mut Block, l: &Loop) {
        let extent = Extent::Aligned(self.shape.lanes.into());
        for &v in &l.compute {
            if let BodyOp::Load { source, dtype, .. } = self.node.body.value(v).op
                && self.whole.contains(&v)
                && !self.shape.kept.contains(&v)
            {
                let loaded = Name::of(Part::Loaded, v);
                out.push(Stmt::array(loaded, ValueType::Memory(dtype), extent));
                out.push(self.load_elements(loaded.into(), v, source, Cached::Stays));
            }
        }
    }

    /// A loop over the elements `l` of a chunk.
    pub(super) fn each_element(&self, step: usize, body: impl Into<Block>) -> Stmt {
        ir::Loop::over(Local::Lane, 0, self.shape.lanes as i64)
            .of_type(ValueType::Scalar(DType::I32))
            .along(Axis::Lane)
            .by(step)
            .unrolled()
            .each(body)
    }

    /// A chunk of a loop of stage `s`: its whole loads, each element, its stores.
    pub(super) fn chunk(&mut self, s: usize, l: &Loop, reductions: &[Reduction]) -> Block {
        let stores = if self.silent { &[][..] } else { &l.stores };
        let mut out = self.decode_chunk();
        // A product's template loads before it calls.
        if self.given.is_none() && !self.gives {
            self.load_chunk(&mut out, l);
        }
        self.declare_stored(&mut out, stores);
        if s == 0 {
            self.declare_elements(&mut out);
        }
        let mut element = self.element(s, l, reductions);
        self.element_stored(&mut element, stores);
        out.push(self.each_element(1, element));
        if s == 0 {
            self.take_pairs(&mut out);
        }
        if s == 0 && !self.moments.is_empty() {
            out.push(Stmt::update(OnDevice::Counted, Infix::Add, Local::Count));
        }
        self.store_chunk(&mut out, stores);
        out
    }

    /// The element of a value that a thread keeps from one loop to later ones.
    fn saved_element(v: Value) -> Expr {
        let row = Expr::from(Name::of(Part::Row, v));
        row.element(Local::Held).element(Local::Lane)
    }

    /// The values of an element that earlier loops left in registers.
    pub(super) fn restored(&self, l: &Loop) -> Vec<Stmt> {
        let restored = l.restore.iter();
        let value = |&v| Stmt::constant(Name::value(v), self.type_of(v), Self::saved_element(v));
        restored.map(value).collect()
    }

    /// Keeps a value of an element for later loops, if they need it.
    pub(super) fn saved(&self, l: &Loop, v: Value) -> Option<Stmt> {
        let keep = || Stmt::assign(Self::saved_element(v), Name::value(v));
        l.save.contains(&v).then(keep)
    }

    /// What a loop of stage `s` computes and reduces of element `l`.
    fn element(&mut self, s: usize, l: &Loop, reductions: &[Reduction]) -> Block {
        let mut out = Block::new();
        let at = self.in_chunk();
        let first = match self.shape.form {
            Form::Outer { .. } => Expr::from(Local::Low) + OnDevice::Group,
            _ => Expr::from(Local::Low) + OnDevice::InRow,
        };
        out.extend(self.restored(l));
        for &v in &l.compute {
            out.push(self.statement(v, &at));
            self.take_shift(&mut out, v, &first);
            if s == 0 {
                self.keep_element(&mut out, v);
            }
            out.extend(self.saved(l, v));
        }
        for r in reductions {
            let position = self.position(r.id, at.position);
            self.accumulate(&mut out, r, position);
        }
        if self.gives {
            let value = Expr::from(Name::value(self.unrounded(0)));
            let counts = Expr::from(Local::Lane).less(Local::Count);
            let given = counts.choose(value, Expr::float(DType::F32, 0.0));
            out.push(Stmt::assign(Expr::text("out[l]"), given));
        }
        out
    }

    /// Whether a loop after that of these values reads a row again.
    fn reads_again(&self, values: &[Value]) -> bool {
        let at = self.stages.loops.iter().rposition(|l| l.compute == values);
        let later = at.map_or(&[][..], |at| &self.stages.loops[at + 1..]);
        later
            .iter()
            .any(|l| self.shape.kept.iter().any(|v| l.compute.contains(v)))
            || self.shape.turns > 0
    }

    /// The row-major position in the reduced dimensions, of a reduction that keeps it.
    fn position(&mut self, id: Value, at: Position) -> Option<Expr> {
        let node = self.node;
        match &node.body.value(id).op {
            BodyOp::Reduce {
                position: Some(e), ..
            } => Some(self.index(e).at(at)),
            _ => None,
        }
    }
}

/// A loop over the chunks that a thread holds, unrolled.
pub(super) fn over_held(turns: usize, each: impl Into<Block>) -> Stmt {
    ir::Loop::over(Local::Held, 0, turns as i64)
        .of_type(ValueType::Scalar(DType::I32))
        .along(Axis::Chunk)
        .unrolled()
        .each(each)
}
