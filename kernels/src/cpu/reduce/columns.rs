//! Reductions across the dimension in which memory runs.

use super::Job;
use super::fold::Fold;
use super::plan::{count, offset};
use crate::cpu::operand::{Scratch, TILE, fetch};
use crate::cpu::par::{Shared, ranges};
use crate::cpu::strided::Window;

/// Elements of a chunk, of which partial states are made.
const CHUNK: usize = 1 << 18;
/// Columns joined side by side: their states stay in the first-level cache.
const COLUMNS: usize = 4096;

impl Job<'_> {
    /// Joins rows of memory to states of columns, a chunk of rows at a time, and the chunks in order.
    pub(super) fn columns<F: Fold>(&self) {
        let plan = &self.plan;
        let cols = plan.last(&plan.kept);
        let around = &plan.kept[..plan.kept.len() - 1];
        let inner = plan.last(&plan.reduced);
        let outer = &plan.reduced[..plan.reduced.len() - 1];
        let direct = cols.input == 1 && self.input.is_native();
        let short = inner.input == 1 && self.input.is_native();
        let most = match (
            direct,
            cols.input.unsigned_abs() <= inner.input.unsigned_abs(),
        ) {
            (true, _) => COLUMNS,
            _ if short => 512,
            (false, true) => 512,
            // Gathered along the reduced dimension: a block of both.
            (false, false) => 128,
        };
        let strips = cols.size.div_ceil(most);
        let wide = cols.size.div_ceil(strips);
        let height = count(outer) * inner.size;
        // Rows that come few at a time join one by one.
        let most_tall = if inner.size < 8 { 32 } else { 256 };
        let tall = (CHUNK / wide).clamp(16, most_tall);
        let chunks = height.div_ceil(tall);
        let places = count(around) * strips;
        let join = |place: usize, chunk: usize, states: &mut [F::State], scratch: &mut Pair| {
            let (from, first) = (offset(around, place / strips).0, place % strips * wide);
            let from = plan.start + from + first as isize * cols.input;
            let n = wide.min(cols.size - first);
            let mut row = chunk * tall;
            let end = (row + tall).min(height);
            while row < end {
                let (line, at) = (row / inner.size, row % inner.size);
                let most = if direct || short { tall } else { TILE / wide };
                let rows = (inner.size - at).min(end - row).min(most);
                let window = Window {
                    rows,
                    cols: n,
                    row: inner.input,
                    col: cols.input,
                };
                let offset = from + offset(outer, line).0 + at as isize * inner.input;
                self.block::<F>(states, window, offset, row, direct, scratch);
                row += rows;
            }
        };
        let put = |place: usize, states: &[F::State]| {
            let first = place % strips * wide;
            let to = offset(around, place / strips).1 + first as isize * cols.output;
            for (i, &state) in states.iter().take(cols.size - first).enumerate() {
                // SAFETY: each place is of one range.
                unsafe { self.put::<F>(to + i as isize * cols.output, state) };
            }
        };
        let total = places * wide * height;
        if chunks == 1 {
            ranges(places, total, &|range| {
                let mut scratch = (Scratch::new(), Scratch::new());
                let mut states = vec![F::START; wide];
                for place in range {
                    states.fill(F::START);
                    join(place, 0, &mut states, &mut scratch);
                    put(place, &states);
                }
            });
            return;
        }
        let mut partial = vec![F::START; places * chunks * wide];
        let shared = Shared::new(partial.as_mut_ptr().cast());
        ranges(places * chunks, total, &|range| {
            let mut scratch = (Scratch::new(), Scratch::new());
            for i in range {
                // SAFETY: each strip of states is of one range.
                let states = unsafe {
                    let at = shared.get().cast::<F::State>().add(i * wide);
                    std::slice::from_raw_parts_mut(at, wide)
                };
                join(i / chunks, i % chunks, states, &mut scratch);
            }
        });
        // A tree over neighbouring strips, each pair joined into the place of the first.
        ranges(places, places * chunks * wide, &|range| {
            for place in range {
                // SAFETY: the strips of a place are of one range.
                let strips = unsafe {
                    let at = shared.get().cast::<F::State>().add(place * chunks * wide);
                    std::slice::from_raw_parts_mut(at, chunks * wide)
                };
                let mut apart = 1;
                while apart < chunks {
                    for i in (apart..chunks).step_by(2 * apart) {
                        let (before, after) = strips.split_at_mut(i * wide);
                        let before = &mut before[(i - apart) * wide..][..wide];
                        before
                            .iter_mut()
                            .zip(&after[..wide])
                            .for_each(|(a, &b)| *a = F::join(*a, b));
                    }
                    apart *= 2;
                }
                put(place, &strips[..wide]);
            }
        });
    }

    /// Joins a block of rows; row 0 has position `position`.
    fn block<F: Fold>(
        &self,
        states: &mut [F::State],
        window: Window,
        at: isize,
        position: usize,
        direct: bool,
        scratch: &mut Pair,
    ) {
        let states = states.as_mut_ptr();
        let Window {
            rows, cols, row, ..
        } = window;
        // SAFETY: the plan's offsets are inside the input, scratch holds a tile, and there is a state for each column.
        unsafe {
            if direct && row >= 0 {
                let x = self.input.at(at).cast();
                return F::columns(states, rows, cols, x, row as usize, position);
            }
            if row == 1 && self.input.is_native() {
                return F::short(
                    states,
                    cols,
                    rows,
                    self.input.at(at).cast(),
                    window.col,
                    position,
                );
            }
            if direct {
                for r in 0..rows {
                    let x = self.input.at(at + r as isize * row).cast();
                    F::columns(states, 1, cols, x, 0, position + r);
                }
                return;
            }
            let tile = fetch(
                &self.input,
                window,
                at,
                scratch.0.ptr(),
                scratch.1.ptr(),
                &mut None,
            );
            F::columns(states, rows, cols, tile.ptr.cast(), tile.pitch, position);
        }
    }
}

type Pair = (Scratch<TILE>, Scratch<TILE>);
