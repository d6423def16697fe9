//! Kernels of rows and of tiles, without scans: where a thread works, then stage by stage a row's values and the loop over
//! its columns.

use super::kernel::Writer;
use super::reduce::Reduction;
use super::shape::Form;
use super::stage::Loop;
use crate::kernel::ir::{self, Axis, Block, Expr, Local, OnDevice, Part, Stmt, Unroll};

/// Most values of a loop that is unrolled four times: memory bounds it, so several loads are to be in flight.
const LIGHT: usize = 12;

/// Sums that move their accumulators to a total, each with its number of accumulators.
type Long = [(Reduction, usize)];

impl Writer<'_> {
    /// The statements of the kernel, or of the first of two where rows are `split`.
    pub(super) fn main_block(&mut self, form: Form, split: bool) -> Block {
        if let Some(tile) = self.shape.tile.clone() {
            let mut out = self.place_tile(&tile);
            self.fill_tile(&mut out, &tile);
            let mut body = Block::new();
            self.stages(&mut body, form, split);
            self.walk_tile(&mut out, &tile, body);
            return out;
        }
        let mut out = self.place(form, split);
        out.append(self.row_variables());
        let mut body = Block::new();
        self.stages(&mut body, form, split);
        out.append(self.preamble.clone());
        out.append(body);
        out
    }

    fn stages(&mut self, out: &mut Block, form: Form, split: bool) {
        let stages = if split { 1 } else { self.stages.loops.len() };
        for s in 0..stages {
            self.stage(out, s, form, split);
        }
    }

    /// A stage: what a row computes before its loop, the loop, and the combination of what the row's threads reduced.
    fn stage(&mut self, out: &mut Block, s: usize, form: Form, split: bool) {
        let writes = writes(form);
        if !self.shape.across {
            let values = self.row_values(s, (!split).then(|| writes.clone()));
            out.append(values);
        }
        if let (0, Form::Inner { threads }, 1..) = (s, form, self.shape.turns) {
            let loads = self.shape.kept.clone();
            self.keep(out, threads, &loads);
        }
        if s == 1 && !self.moments.is_empty() {
            return self.move_to_means(out, form);
        }
        let l = self.stages.loops[s].clone();
        if l.reduces.is_empty() && l.stores.is_empty() {
            return;
        }
        let reductions: Vec<Reduction> = l.reduces.iter().map(|&r| self.reduction(r)).collect();
        self.declare_shifts(out);
        let alone = match s {
            0 => self.single(&reductions),
            _ => reductions.clone(),
        };
        for r in &alone {
            self.declare_accumulators(out, r, self.shape.lanes);
        }
        let mut long = self.long(&alone);
        if s == 0 {
            self.declare_pairs(out);
            long.extend(self.long(&self.paired(&reductions)));
        }
        self.columns(out, s, form, (&alone, &long));
        if self.shape.across {
            return self.put_across(out, &alone, form);
        }
        let (moments, plain) = self.parted(&alone);
        self.gather(out, &plain, self.shape.lanes, &form);
        if s == 0 {
            self.gather_pairs(out, &form);
        }
        if split {
            self.put_piece(out, form, (&reductions, &moments), writes);
            return;
        }
        let is_moment = |r: &&Reduction| moments.iter().any(|m| m.id == r.id);
        for r in reductions.iter().filter(|r| !is_moment(r)) {
            self.finished(out, r);
        }
    }

    /// Once the means are known: the sums about them, of the row's threads, moved there and combined.
    fn move_to_means(&mut self, out: &mut Block, form: Form) {
        let moments = self.moments.iter().map(|m| self.reduction(m.reduce));
        let moments: Vec<Reduction> = moments.collect();
        self.move_sums(out, &moments, Part::Value);
        self.gather(out, &moments, 1, &form);
        for r in &moments {
            self.finished(out, r);
        }
    }

    /// Leaves the partial results of a piece, its moments about its own means.
    fn put_piece(
        &mut self,
        out: &mut Block,
        form: Form,
        (reductions, moments): (&[Reduction], &[Reduction]),
        writes: Expr,
    ) {
        if !moments.is_empty() {
            self.piece_means(out);
            self.move_sums(out, moments, Part::PieceMean);
            self.gather(out, moments, 1, &form);
        }
        for r in reductions {
            self.put(out, r, writes.clone());
        }
    }

    /// The loop of a stage over the columns that a thread takes: `alone` are the reductions of its elements, `long` the
    /// sums that move their accumulators to a total.
    fn columns(
        &mut self,
        out: &mut Block,
        s: usize,
        form: Form,
        (alone, long): (&[Reduction], &Long),
    ) {
        let walks = self.shape.turns == 0;
        if let (true, Some(_), Form::Inner { threads }) = (walks, self.shape.shifted, form) {
            let of = |w: &mut Self, chunk: Block| w.walk(s, threads, chunk, long);
            let edges = self.with_edges(s, alone, of);
            return out.push(edges);
        }
        let l = self.stages.loops[s].clone();
        let chunk = self.chunk(s, &l, alone);
        match form {
            Form::Pointwise | Form::Tiled => out.append(chunk),
            Form::Inner { threads } if walks => {
                let walk = self.walk(s, threads, chunk, long);
                out.push(walk);
            }
            Form::Inner { threads } => out.push(self.turns(threads, chunk)),
            Form::Outer { groups, .. } => {
                let start = Expr::from(Local::Low) + OnDevice::Group;
                let unroll = Unroll::Times(if self.shape.across { 2 } else { 8 });
                out.push(self.in_runs(long, (start, groups as usize), (unroll, chunk)));
            }
        }
    }

    /// A loop over the chunks of a row that a thread does not keep.
    fn walk(&mut self, s: usize, threads: u32, chunk: Block, long: &Long) -> Stmt {
        let l = self.stages.loops[s].clone();
        if self.shape.batch > 0 {
            return self.walk_batches(&l, (s, threads), chunk, long);
        }
        // Several loads in flight where nothing but memory takes time.
        let unroll = match l.stores.is_empty() && l.compute.len() <= LIGHT {
            true => Unroll::Times(4),
            false => Unroll::AsIs,
        };
        let start = Expr::from(Local::Low) + OnDevice::InRow;
        self.in_runs(long, (start, threads as usize), (unroll, chunk))
    }

    /// A loop over the chunks of a row, some of which a thread loads before it works on them.
    fn walk_batches(
        &mut self,
        l: &Loop,
        (s, threads): (usize, u32),
        chunk: Block,
        long: &Long,
    ) -> Stmt {
        let step = self.shape.batch * threads as usize;
        let mut each = Block::new();
        self.keep(&mut each, threads, &l.compute);
        each.push(self.turns(threads, chunk));
        self.after_chunks(&mut each, long, self.shape.batch);
        let start = || Expr::from(Local::Low) + OnDevice::InRow;
        let batches = match s {
            0 => ir::Loop::over(OnDevice::FirstHeld, start(), Local::High).by(step),
            // What was read last is still in the cache.
            _ => {
                let before = (Expr::from(Local::High) - Local::Low - 1) / step as i64;
                let last = start() + before * step as i64;
                ir::Loop::over(OnDevice::FirstHeld, last, start()).down_by(step)
            }
        };
        let mut out = Block::new();
        Self::declare_taken(&mut out, long);
        out.push(batches.along(Axis::Chunk).each(each));
        Stmt::Scope(out)
    }
}

/// Whether a thread is the one of its row that writes what the row has one of.
pub(super) fn writes(form: Form) -> Expr {
    match form {
        Form::Tiled => (Expr::from(Local::TileColumn) + OnDevice::InTileColumn).equals(0),
        Form::Pointwise => Expr::from(Local::Index).equals(0),
        Form::Inner { threads } => {
            let first = Expr::from(OnDevice::InRow).equals(0);
            match threads < 32 {
                true => Expr::from(OnDevice::Live).and(first),
                false => first,
            }
        }
        Form::Outer { .. } => {
            let first = Expr::from(OnDevice::Group).equals(0);
            Expr::from(OnDevice::Live).and(first)
        }
    }
}
