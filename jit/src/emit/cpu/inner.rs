//! The loops of a row whose columns are the vector axis.

use crate::body::{BodyOp, Value};
use crate::emit::cpu::index::Step;
use crate::emit::cpu::kernel::{UNROLL, Writer};
use crate::emit::cpu::reduce::Reduction;
use crate::emit::cpu::reduce::totals::{RUN, turn_of};
use crate::emit::cpu::stage::Loop;
use crate::emit::cpu::value::{At, COLUMN, COUNT};
use crate::kernel::ir::{
    self, Axis, Block, Expr, Function, Infix, Local, Name, Part, Stmt, Type, ValueType,
};
use ferrotrace_runtime::DType;

/// The columns of a loop: from the first to before the last.
pub(super) type Bounds = (Expr, Expr);

/// How a loop over the columns of a row is written.
struct Shape {
    /// Copies of the accumulators, and vectors at a time.
    copies: usize,
    /// Whether the copies are written in turns.
    lockstep: bool,
    /// Sums that are moved to totals.
    sums: Vec<Reduction>,
    /// Whether they are moved after runs of columns; otherwise after so many columns of the loops around.
    runs: bool,
    start: Expr,
    end: Expr,
}

impl Writer<'_> {
    /// Nested loops over the walked columns, `body` inside; the outermost within `bounds`.
    pub(super) fn walk(&mut self, out: &mut Block, bounds: Option<Bounds>, body: Block) {
        let all = self.all_bounds(bounds);
        if all.is_empty() {
            return out.push(Stmt::Scope(body));
        }
        out.append(nested(all, body));
    }

    /// `body` within the loops that a stage walks besides its row, the innermost taken several at a time by bodies for `w`, `w + 1`, ..
    /// as long as enough are left.
    pub(super) fn walk_several(
        &mut self,
        out: &mut Block,
        bounds: Option<Bounds>,
        (several, bodies): (usize, Block),
        body: Block,
    ) {
        let mut all = self.all_bounds(bounds);
        let Some((v, (low, high))) = all.pop() else {
            return;
        };
        let range = || ir::Loop::over(Local::Walked, 0, high.clone()).from_here();
        let mut single = Block::from(Stmt::constant(v, Type::INDEX, Local::Walked));
        single.append(body);
        let both = Stmt::Scope(Block::from([
            Stmt::variable(Local::Walked, Type::INDEX, low),
            range().by_whole(several).each(bodies),
            range().each(single),
        ]));
        out.append(nested(all, both.into()));
    }

    /// The walked variables with their bounds, outermost first.
    fn all_bounds(&mut self, bounds: Option<Bounds>) -> Vec<(Name, Bounds)> {
        let (mut all, mut given) = (Vec::new(), bounds);
        for v in self.walked_vars() {
            let bounds = match given.take() {
                Some(bounds) => bounds,
                None => (0.into(), self.param(self.extents[v] as i64).into()),
            };
            all.push((Self::loop_name(v), bounds));
        }
        all
    }

    pub(super) fn is_heavy(&self, v: Value) -> bool {
        match self.node.body.value(v).op {
            BodyOp::Unary(op, _) => op.heavy(),
            BodyOp::Binary(op, ..) => op.heavy(),
            _ => false,
        }
    }

    /// The summands of the flat column at a vector position.
    pub(super) fn flat_column(&mut self, position: Expr) -> Vec<Expr> {
        let mut parts = vec![position];
        let mut stride = if self.outer {
            1
        } else {
            self.extents[self.extents.len() - 1] as i64
        };
        for v in self.walked_vars().into_iter().rev() {
            let by = self.param(stride);
            parts.push(Expr::from(Self::loop_name(v)) * by);
            stride *= self.extents[v] as i64;
        }
        parts
    }

    fn declare_accumulators(&mut self, out: &mut Block, l: &Loop, copies: usize) {
        for &id in &l.reduces {
            let r = self.reduction(id);
            let (ty, identity) = (self.vector_type(r.dtype), self.identity(&r));
            for c in 0..copies {
                out.push(Stmt::variable(r.accumulator(c), ty, identity.clone()));
            }
            if r.has_position() && self.counting {
                self.declare_extreme(out, &r, copies);
            } else if r.has_position() {
                let dtype = self.place_dtype(&r);
                let (ty, unset) = (self.vector_type(dtype), self.set(dtype, -1));
                out.push(Stmt::variable(r.part(Part::Places), ty, unset));
            }
        }
    }

    /// The place of a value in its scratch row, and the dtype it has there.
    fn scratch_place(&mut self, v: Value, at: At<'_>) -> (Expr, DType) {
        let (row, dtype) = self.scratch_row(v);
        let column = self.flat_column(at.position.clone());
        let place = column.into_iter().fold(row, |place, part| place + part);
        (place, dtype)
    }

    /// Reads a value back from its scratch row.
    pub(super) fn restore(&mut self, out: &mut Block, v: Value, at: At<'_>) {
        let (place, memory) = self.scratch_place(v, at);
        let load = self.support("load", memory, [place]);
        let ty = self.vector_type(self.node.body.value(v).dtype);
        out.push(Stmt::constant(self.name(v), ty, load));
    }

    /// Puts a value into its scratch row.
    pub(super) fn save(&mut self, out: &mut Block, v: Value, at: At<'_>) {
        let (place, memory) = self.scratch_place(v, at);
        let store = self.support("store", memory, [place, self.name(v).into()]);
        out.push(Stmt::Call(store));
    }

    /// One iteration of an inner loop at a vector position.
    pub(super) fn inner_step(&mut self, out: &mut Block, l: &Loop, at: At<'_>, copy: usize) {
        if at.lanes.is_none() {
            self.prefetches(out, at);
        }
        for &v in &l.restore {
            self.restore(out, v, at);
        }
        self.compute_all(out, l, at, |w, out, v| w.save(out, v, at));
        for &id in &l.reduces {
            let r = self.reduction(id);
            if r.has_position() && self.counting {
                let update = self.update_extreme(&r, copy, at.lanes);
                out.push(update);
                continue;
            }
            let position = self.position(&r, at);
            let into = (r.accumulator(copy).into(), r.part(Part::Places).into());
            out.push(self.update(&r, into, position, at.lanes));
        }
        self.store_all(out, &l.stores, at);
    }

    /// The vector of row-major positions in the reduced dimensions, of a reduction that keeps one.
    pub(super) fn position(&mut self, r: &Reduction, at: At<'_>) -> Option<Expr> {
        let BodyOp::Reduce {
            position: Some(e), ..
        } = &self.node.body.value(r.id).op
        else {
            return None;
        };
        if !r.has_position() {
            return None;
        }
        let index = self.index(&e.clone());
        let dtype = self.place_dtype(r);
        let set = self.set(dtype, index.at(at.position));
        Some(match index.step {
            Step::Unit => set + self.iota(dtype),
            _ => set,
        })
    }

    /// Declares the totals of a loop's long sums; of columns walked in runs too short for that, the number of runs after
    /// which accumulators move to them.
    fn declare_runs(
        &mut self,
        out: &mut Block,
        l: &Loop,
        copies: usize,
    ) -> (Vec<Reduction>, Option<usize>) {
        let extent = self.extents.last().map_or(1, |&n| n);
        let width = copies * self.lanes;
        let (steps, rest) = (extent / width, (extent % width).div_ceil(self.lanes));
        let sums = self.long_sums(l, (steps + rest).saturating_mul(self.walked()));
        self.declare_totals(out, &sums);
        let walked = !self.walked_vars().is_empty();
        if walked && !sums.is_empty() {
            out.push(Stmt::variable(turn_of(&sums), Type::INDEX, 0));
        }
        let short = walked && steps <= RUN;
        let several = short.then(|| RUN / (steps + rest).clamp(1, RUN));
        (sums, several)
    }

    /// Declares of a loop's divisions by a row's number whether that and its reciprocal are normal, unless a loop of the row
    /// before it, which computes them too, has.
    fn declare_normals(&mut self, out: &mut Block, l: &Loop) {
        for &v in &l.compute {
            if let BodyOp::Divide(_, b, r) = self.node.body.value(v).op
                && self.normals.insert(v)
            {
                let normal = |v| {
                    let number = Expr::from(Name::value(v)).element(0);
                    Expr::call(Function::IsNormal, [number])
                };
                let name = Name::of(Part::Normal, v);
                out.push(Stmt::constant(name, Type::INT, normal(b).and(normal(r))));
            }
        }
    }

    /// The loop of one stage: full vectors, several at once where the body is light, then the rest.
    pub(super) fn inner_loop(&mut self, out: &mut Block, l: &Loop) {
        let position = l.reduces.iter().any(|&r| self.reduction(r).has_position());
        self.counting = position && self.counts_vectors(l);
        let light = self.is_light(l);
        let copies = if light && self.lanes > 1 { UNROLL } else { 1 };
        self.declare_normals(out, l);
        self.declare_accumulators(out, l, copies);
        let lockstep = copies > 1 && self.is_jammed(l);
        let (sums, several) = self.declare_runs(out, l, copies);
        let reductions = l.reduces.iter().map(|&r| self.reduction(r));
        let flagged: Vec<Value> = reductions
            .filter(|r| lockstep && self.pairs(r))
            .map(|r| r.id)
            .collect();
        for &id in &flagged {
            let nans = Name::of(Part::Nans, id);
            out.push(Stmt::variable(nans, ValueType::Word, 0));
        }
        self.declare_carries(out, l);
        let left = self.decide_pipelined(out, l);
        let walked = !self.walked_vars().is_empty();
        let whole_rows = (self.node.reduces() || self.ordered) && !self.split;
        let (start, end) = if walked || whole_rows {
            let n = self.param(*self.extents.last().unwrap_or(&1) as i64);
            (Expr::Integer(0), n.into())
        } else {
            (Local::Low.into(), Local::High.into())
        };
        let shape = Shape {
            copies,
            lockstep,
            runs: !sums.is_empty() && several.is_none(),
            sums,
            start,
            end,
        };
        let mut body = self.columns(l, &shape);
        if walked && !shape.sums.is_empty() {
            let times = self.param(several.unwrap_or(1) as i64);
            let moved = self.move_copies(&shape.sums, copies);
            body.append(self.every(&shape.sums, times, moved));
        }
        let bounds = (self.split && walked).then(|| (Local::Low.into(), Local::High.into()));
        match left {
            true => {
                let mut own = Block::new();
                self.walk(&mut own, bounds, body);
                out.push(Stmt::when(!Expr::from(Local::Pipelined), own));
            }
            false => self.walk(out, bounds, body),
        }
        out.append(self.move_copies(&shape.sums, copies));
        for &id in &l.reduces {
            let r = self.reduction(id);
            if r.has_position() && self.counting {
                self.end_extreme(out, l, &r, copies, (&shape.start, &shape.end));
            } else if r.has_position() {
                self.declare_best(out, &r);
                out.push(self.best_lane(&r, r.accumulator(0), r.part(Part::Places)));
            }
            let long = shape.sums.iter().any(|s| s.id == id);
            self.end_reduction(out, &r, copies, (flagged.contains(&id), long));
        }
        self.counting = false;
    }

    /// Moves the accumulators of sums every so many times.
    pub(super) fn every(&self, sums: &[Reduction], times: impl Into<Expr>, moved: Block) -> Block {
        let turn = turn_of(sums);
        let mut then = Block::from(Stmt::assign(turn, 0));
        then.append(moved);
        Block::from([
            Stmt::update(turn, Infix::Add, 1),
            Stmt::when(Expr::from(turn).at_least(times), then),
        ])
    }

    /// The loops over the columns of a row.
    fn columns(&mut self, l: &Loop, shape: &Shape) -> Block {
        let (w, copies) = (self.lanes, shape.copies);
        let width = (copies * w) as i64;
        let mut body = Block::from(Stmt::variable(
            Local::Column,
            Type::INDEX,
            shape.start.clone(),
        ));
        if self.counting {
            let zero = self.set(DType::I32, 0);
            let ty = self.vector_type(DType::I32);
            body.push(Stmt::variable(Local::Vector, ty, zero));
        }
        let stop = match shape.runs {
            true => Expr::from(Local::Stop),
            false => shape.end.clone(),
        };
        let mut first = match copies {
            1 => Block::new(),
            _ if shape.lockstep => self.jammed_loop(l, stop.clone()),
            _ => self.unrolled_loop(l, copies, stop.clone()),
        };
        if copies == 1
            && !shape.runs
            && let Some(sets) = self.index_sets(l)
        {
            body.append(self.over_index_sets(l, &sets, &shape.end));
            body.append(self.last_step(l, shape));
            return body;
        }
        if copies == 1 && !shape.runs && self.is_chain(l) {
            body.append(self.jammed_loop(l, shape.end.clone()));
        } else if copies == 1 && self.has_usual_case(l) {
            body.append(self.usual_loop(l, shape.end.clone()));
        }
        let single = if copies == 1 { &stop } else { &shape.end };
        let single = self.vector_loop(l, single.clone());
        let mut rest = Block::new();
        if copies == 1 { &mut first } else { &mut rest }.push(single);
        if shape.runs {
            let least = shape.end.clone().least(COLUMN + (RUN as i64 * width));
            let mut run = Block::from(Stmt::constant(Local::Stop, Type::INDEX, least));
            run.append(first);
            run.append(self.move_copies(&shape.sums, copies));
            let more = (COLUMN + width).at_most(shape.end.clone());
            body.push(Stmt::While(more, run));
        } else {
            body.append(first);
        }
        body.append(rest);
        body.append(self.last_step(l, shape));
        body
    }

    /// The step for the columns that fill no vector.
    fn last_step(&mut self, l: &Loop, shape: &Shape) -> Block {
        if self.lanes < 2 {
            return Block::new();
        }
        let at = At {
            position: &COLUMN,
            lanes: Some(&COUNT),
        };
        let left = shape.end.clone() - Local::Column;
        let mut tail = Block::from(Stmt::constant(Local::Count, Type::LONG, left));
        self.pipelined_steps(&mut tail, l, &[at]);
        self.inner_step(&mut tail, l, at, 0);
        Stmt::when(COLUMN.less(shape.end.clone()), tail).into()
    }

    /// A loop over vectors, by so many lanes at a time.
    pub(super) fn along_vectors(to: Expr, lanes: usize, body: Block) -> Stmt {
        ir::Loop::over(Local::Column, 0, to)
            .from_here()
            .by_whole(lanes)
            .along(Axis::Vector)
            .each(body)
    }

    /// The loop over single vectors.
    pub(super) fn vector_loop(&mut self, l: &Loop, to: Expr) -> Stmt {
        let at = At {
            position: &COLUMN,
            lanes: None,
        };
        let mut body = Block::new();
        self.pipelined_steps(&mut body, l, &[at]);
        self.inner_step(&mut body, l, at, 0);
        self.count_vectors(&mut body, 1);
        Self::along_vectors(to, self.lanes, body)
    }

    /// The loop over as many vectors at a time as there are copies, one after another.
    fn unrolled_loop(&mut self, l: &Loop, copies: usize, to: Expr) -> Block {
        let mut body = Block::new();
        for c in 0..copies {
            let position = COLUMN + (c * self.lanes) as i64;
            let at = At {
                position: &position,
                lanes: None,
            };
            let mut step = Block::new();
            self.inner_step(&mut step, l, at, c);
            body.push(Stmt::Scope(step));
        }
        self.count_vectors(&mut body, copies);
        Self::along_vectors(to, copies * self.lanes, body).into()
    }

    /// Goes on in the count of vectors, if there is one.
    fn count_vectors(&self, body: &mut Block, vectors: usize) {
        if self.counting {
            body.push(Stmt::update(Local::Vector, Infix::Add, vectors as i64));
        }
    }
}

/// Loops over variables, outermost first, around a body.
fn nested(all: Vec<(Name, Bounds)>, body: Block) -> Block {
    let around = |body: Block, (v, (low, high)): (Name, Bounds)| -> Block {
        ir::Loop::over(v, low, high).each(body).into()
    };
    all.into_iter().rev().fold(body, around)
}
