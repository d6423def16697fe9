//! Kernels of rows and of tiles, without scans: where a thread works, then stage by stage a row's values and the loop over
//! its columns.

use super::kernel::Writer;
use super::reduce::Reduction;
use super::shape::Form;
use super::stage::Loop;
use std::fmt::Write as _;

/// Most values of a loop that is unrolled four times: memory bounds it, so several loads are to be in flight.
const LIGHT: usize = 12;

impl Writer<'_> {
    /// The statements of the kernel, or of the first of two where rows are `split`.
    pub(super) fn main_text(&mut self, form: Form, split: bool) -> String {
        let mut out = String::new();
        let tile = self.shape.tile.clone();
        if let Some(tile) = &tile {
            self.place_tile(&mut out, tile);
            self.fill_tile(&mut out, tile);
        } else {
            self.place(&mut out, form, split);
            self.decode_row(&mut out);
        }
        let mut body = String::new();
        let stages = if split { 1 } else { self.stages.loops.len() };
        for s in 0..stages {
            self.stage(&mut body, s, form, split);
        }
        match &tile {
            Some(tile) => self.tile_text(&mut out, tile, &body),
            None => {
                out.push_str(&self.preamble_text());
                out.push_str(&body);
            }
        }
        out
    }

    /// A stage: what a row computes before its loop, the loop, and the combination of what the row's threads reduced.
    fn stage(&mut self, out: &mut String, s: usize, form: Form, split: bool) {
        let writes = match form {
            // Pointwise kernels are built whole elsewhere.
            Form::Pointwise | Form::Tiled => "c0 + tc == 0",
            Form::Inner { .. } => "t == 0",
            Form::Outer { .. } => "live && ty == 0",
        };
        self.row_stage(out, s, (!split).then_some(writes));
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
    fn move_to_means(&mut self, out: &mut String, form: Form) {
        let moments = self.moments.iter().map(|m| self.reduction(m.reduce));
        let moments: Vec<Reduction> = moments.collect();
        self.move_sums(out, &moments, "v");
        self.gather(out, &moments, 1, &form);
        for r in &moments {
            self.finished(out, r);
        }
    }

    /// Leaves the partial results of a piece, its moments about its own means.
    fn put_piece(
        &mut self,
        out: &mut String,
        form: Form,
        (reductions, moments): (&[Reduction], &[Reduction]),
        writes: &str,
    ) {
        if !moments.is_empty() {
            self.piece_means(out);
            self.move_sums(out, moments, "e");
            self.gather(out, moments, 1, &form);
        }
        for r in reductions {
            self.put(out, r, writes);
        }
    }

    /// The loop of a stage over the columns that a thread takes: `alone` are the reductions of its elements, `long` the
    /// sums that move their accumulators to a total.
    fn columns(
        &mut self,
        out: &mut String,
        s: usize,
        form: Form,
        (alone, long): (&[Reduction], &[(Reduction, usize)]),
    ) {
        let walks = self.shape.turns == 0;
        if let (true, Some(_), Form::Inner { threads }) = (walks, self.shape.shifted, form) {
            let of = |w: &mut Self, chunk: &str| w.walk(s, threads, chunk, long);
            let text = self.with_edges(s, alone, of);
            out.push_str(&text);
            return;
        }
        let chunk = self.chunk(s, alone);
        match form {
            Form::Pointwise | Form::Tiled => out.push_str(&chunk),
            Form::Inner { threads } if walks => {
                let text = self.walk(s, threads, &chunk, long);
                out.push_str(&text);
            }
            Form::Inner { threads } => out.push_str(&self.turns(threads, &chunk)),
            Form::Outer { groups, .. } => {
                let parts = ("  #pragma unroll 8\n", &*chunk);
                let text = self.in_runs(long, ("lo + ty", groups as usize), parts);
                out.push_str(&text);
            }
        }
    }

    /// A loop over the chunks of a row that a thread does not keep.
    fn walk(&mut self, s: usize, threads: u32, chunk: &str, long: &[(Reduction, usize)]) -> String {
        let l = self.stages.loops[s].clone();
        if self.shape.batch > 0 {
            return self.walk_batches(&l, (s, threads), chunk, long);
        }
        // Several loads in flight where nothing but memory takes time.
        let unroll = match l.stores.is_empty() && l.compute.len() <= LIGHT {
            true => "  #pragma unroll 4\n",
            false => "",
        };
        self.in_runs(long, ("lo + t", threads as usize), (unroll, chunk))
    }

    /// A loop over the chunks of a row, some of which a thread loads before it works on them.
    fn walk_batches(
        &mut self,
        l: &Loop,
        (s, threads): (usize, u32),
        chunk: &str,
        long: &[(Reduction, usize)],
    ) -> String {
        let step = self.shape.batch * threads as usize;
        let mut out = match long.is_empty() {
            true => "  {\n".to_owned(),
            false => "  {\n  int taken = 0;\n".to_owned(),
        };
        let _ = match s {
            0 => writeln!(
                out,
                "  for (ft_int base = lo + t; base < hi; base += {step}) {{"
            ),
            // What was read last is still in the cache.
            _ => writeln!(
                out,
                "  for (ft_int base = lo + t + (hi - lo - 1) / {step} * {step}; base >= lo + t; base -= {step}) {{"
            ),
        };
        self.keep(&mut out, threads, &l.compute);
        out.push_str(&self.turns(threads, chunk));
        out.push_str(&self.after_chunks(long, self.shape.batch));
        out.push_str("  }\n  }\n");
        out
    }
}
