//! Reductions along the dimension in which memory runs.

use super::Job;
use super::fold::{Cascade, Fold, tree};
use super::plan::{count, offset};
use crate::cpu::operand::{Scratch, TILE, fetch};
use crate::cpu::par::{Shared, ranges};
use crate::cpu::strided::Window;

/// Elements of a chunk, of which partial states are made.
const CHUNK: usize = 1 << 16;

impl Job<'_> {
    /// Folds rows: each chunk of a result's elements to a state, and the states of a result in order.
    pub(super) fn rows<F: Fold>(&self) {
        let plan = &self.plan;
        let inner = plan.last(&plan.reduced);
        let outer = &plan.reduced[..plan.reduced.len() - 1];
        let (results, lines) = (count(&plan.kept), count(outer));
        // A line is cut into equal pieces, or a chunk is made of several lines.
        let pieces = inner.size.div_ceil(CHUNK);
        let piece = inner.size.div_ceil(pieces);
        let units = lines * pieces;
        let group = (CHUNK / piece).max(1);
        let chunks = units.div_ceil(group);
        let fold = |result: usize, chunk: usize, scratch: &mut Pair| {
            let from = plan.start + offset(&plan.kept, result).0;
            let mut states = Cascade::<F>::new();
            for unit in chunk * group..((chunk + 1) * group).min(units) {
                let (line, begin) = if pieces == 1 {
                    (unit, 0)
                } else {
                    (unit / pieces, unit % pieces * piece)
                };
                let at = from + offset(outer, line).0 + begin as isize * inner.input;
                let n = piece.min(inner.size - begin);
                self.line::<F>(
                    &mut states,
                    n,
                    at,
                    inner.input,
                    line * inner.size + begin,
                    scratch,
                );
            }
            states.state()
        };
        let total = results * lines * inner.size;
        let plain = lines == 1 && inner.input == 1 && self.input.is_native();
        if let ([rows], 1, true) = (&plan.kept[..], chunks, plain)
            && (rows.output == 1 || results == 1)
        {
            ranges(results, total, &|range| {
                let x = self
                    .input
                    .at(plan.start + range.start as isize * rows.input);
                let out = self.to.get().cast::<F::Out>().wrapping_add(range.start);
                // SAFETY: the plan's rows are inside the input; each result is of one range.
                unsafe { F::each(range.len(), inner.size, x.cast(), rows.input, out) };
            });
            return;
        }
        if chunks == 1 {
            ranges(results, total, &|range| {
                let mut scratch = (Scratch::new(), Scratch::new());
                for result in range {
                    let state = fold(result, 0, &mut scratch);
                    // SAFETY: each result is of one range.
                    unsafe { self.put::<F>(offset(&plan.kept, result).1, state) };
                }
            });
            return;
        }
        let mut partial = vec![F::START; results * chunks];
        let states = Shared::new(partial.as_mut_ptr().cast());
        ranges(partial.len(), total, &|range| {
            let mut scratch = (Scratch::new(), Scratch::new());
            for i in range {
                let state = fold(i / chunks, i % chunks, &mut scratch);
                // SAFETY: each state is of one range.
                unsafe { states.get().cast::<F::State>().add(i).write(state) };
            }
        });
        for (result, states) in partial.chunks_exact_mut(chunks).enumerate() {
            let state = tree::<F>(states);
            // SAFETY: this thread alone writes.
            unsafe { self.put::<F>(offset(&plan.kept, result).1, state) };
        }
    }

    /// Folds `n` elements from `at` on, `stride` apart; the first has the position `position`.
    fn line<F: Fold>(
        &self,
        states: &mut Cascade<F>,
        n: usize,
        at: isize,
        stride: isize,
        position: usize,
        scratch: &mut Pair,
    ) {
        // What lies dense in its own type is folded at once.
        let step = if stride == 1 && self.input.is_native() {
            n
        } else {
            TILE
        };
        for begin in (0..n).step_by(step) {
            let cols = step.min(n - begin);
            let window = Window {
                rows: 1,
                cols,
                row: 0,
                col: stride,
            };
            let at = at + begin as isize * stride;
            // SAFETY: the plan's offsets are inside the input, and scratch holds a tile.
            unsafe {
                let run = fetch(
                    &self.input,
                    window,
                    at,
                    scratch.0.ptr(),
                    scratch.1.ptr(),
                    &mut None,
                );
                states.add(|state| F::run(state, cols, run.ptr.cast(), position + begin));
            }
        }
    }
}

type Pair = (Scratch<TILE>, Scratch<TILE>);
