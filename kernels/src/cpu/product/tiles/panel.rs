//! Panels of a product: blocks of rows that stay in the second-level cache, run after run of terms, tile by tile.

use super::pack::pack;
use super::packed::Found;
use super::pair::{PAIR, Pair, SUMS};
use super::scaled::{correct_many, is_many};
use super::small::{Place, correct};
use super::source::{Format, Source};
use super::tile::{AHEAD, Configured, ELEMENTS, Factors, SIDE, TERMS};
use crate::cpu::dense::scratch_of_two;
use std::ops::Range;

/// Terms of a chain in binary32, of which each instruction adds the sum of 32; chains are added up in binary64.
pub(super) const RUN: usize = 1024;
/// Words of a line of the cache, at which tiles begin.
const LINE: usize = 16;

/// Columns that are packed at a time where they are multiplied.
fn packed_columns(format: Format) -> usize {
    match format {
        Format::Half => 4 * PAIR,
        Format::Single => PAIR,
    }
}

/// Rows of a block of a product of `k` terms: their factors of a run stay in the second-level cache beside the columns of a panel.
pub(super) fn block_rows(k: usize, format: Format) -> usize {
    /// Factors of a block of bf16, and of `f32`, of six bytes each.
    const BLOCK: [usize; 2] = [1 << 16, 3 << 16];
    match format {
        // Columns come from the third-level cache: more rows read them.
        Format::Half if k > RUN => 256,
        Format::Half => (BLOCK[0] / k.max(1)).clamp(128, 1024) / PAIR * PAIR,
        Format::Single => (BLOCK[1] / k.clamp(1, RUN)).min(1024) / PAIR * PAIR,
    }
}

/// A matrix's packed lines, from line `first` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed<'a> {
    /// The tiles of all terms of 16 lines, and then those of the next.
    pub tiles: *const u16,
    /// What is known of the matrix.
    pub found: &'a Found,
    pub first: usize,
}

impl Packed<'_> {
    /// The factors of a line, a multiple of 16, and a term, a multiple of 32, of `k` terms.
    fn from(&self, line: usize, term: usize, (k, format): (usize, Format)) -> Factors {
        let size = format.parts() * ELEMENTS;
        let next = k.div_ceil(TERMS) * size;
        let at = line / SIDE * next + term / TERMS * size;
        Factors {
            first: self.tiles.wrapping_add(at),
            next,
        }
    }

    /// What is known of some lines, which count from the first of them.
    fn found(&self, lines: Range<usize>) -> Found {
        let Found { small, extents } = self.found;
        let after = |line: usize| small.partition_point(|of| of.0 < self.first + line);
        let of = small[after(lines.start)..after(lines.end)].iter();
        let first = self.first + lines.start;
        let groups = first / SIDE..extents.len().min((self.first + lines.end).div_ceil(SIDE));
        Found {
            small: of.map(|&(line, term)| (line - first, term)).collect(),
            extents: extents.get(groups).unwrap_or_default().to_vec(),
        }
    }
}

/// A panel of a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel<'a> {
    pub rows: usize,
    pub columns: usize,
    pub k: usize,
    /// The left matrix from the first row on, and the right one from the first column on.
    pub of: [Source<'a>; 2],
    /// Their tiles; where there are none, lines are packed as they are multiplied, columns by one block of rows.
    pub packed: [Option<Packed<'a>>; 2],
    /// The result, with the distance of rows.
    pub to: (*mut f32, usize),
}

/// This thread's memory and registers for a block.
struct Block<'a> {
    registers: &'a Configured,
    /// Packed factors of a run.
    left: *mut u16,
    right: *mut u16,
    sums: *mut f32,
    /// The totals of all pairs of tiles; none where there is one chain.
    totals: &'a mut [f64],
}

impl Panel<'_> {
    fn format(&self) -> Format {
        self.of[0].format()
    }

    /// Computes the panel.
    ///
    /// # Safety
    /// The process may use tiles of this format; the factors may be read; the result may be written, and no other thread touches it
    /// meanwhile.
    pub unsafe fn run(self) {
        let format = self.format();
        let height = block_rows(self.k, format).min(self.rows);
        let (high, wide) = (
            height.next_multiple_of(PAIR),
            self.columns.next_multiple_of(PAIR),
        );
        let terms = RUN.min(self.k).next_multiple_of(TERMS);
        let totals = if self.k > RUN { high * wide } else { 0 };
        let lines = [(0, high), (1, packed_columns(format))];
        let [left, right] = lines.map(|(of, lines)| match self.packed[of] {
            Some(_) => 0,
            None => lines * terms * format.parts() / 2,
        });
        // SAFETY: the process may use tiles.
        let registers = unsafe { Configured::new() };
        let words = SUMS + left + right + LINE;
        scratch_of_two(totals, words, |totals: &mut [f64], memory: &mut [f32]| {
            let skip = memory.as_ptr().align_offset(LINE * size_of::<f32>());
            let sums = memory[skip.min(LINE)..].as_mut_ptr();
            for first in (0..self.rows).step_by(height) {
                let block = Block {
                    registers: &registers,
                    sums,
                    left: sums.wrapping_add(SUMS).cast(),
                    right: sums.wrapping_add(SUMS + left).cast(),
                    totals,
                };
                let rows = first..self.rows.min(first + height);
                // SAFETY: as the caller promises; the memory holds the factors of a block's run.
                unsafe { self.block(rows, block) };
            }
        });
    }

    /// Computes some rows.
    ///
    /// # Safety
    /// As for [`Panel::run`]; the memory holds the factors of a run.
    unsafe fn block(&self, rows: Range<usize>, mut block: Block<'_>) {
        let found = |of: usize, lines: Range<usize>| {
            let new = || Found::new(lines.len(), self.format());
            self.packed[of].map_or_else(new, |packed| packed.found(lines.clone()))
        };
        let mut found = [found(0, rows.clone()), found(1, 0..self.columns)];
        for run in (0..self.k).step_by(RUN) {
            let terms = run..self.k.min(run + RUN);
            // SAFETY: as the caller promises.
            unsafe { self.chains(&rows, terms, &mut block, &mut found) };
        }
        // SAFETY: as the caller promises.
        unsafe {
            match self.format() {
                Format::Half => {
                    self.correct(block.registers, rows, found.map(|found| found.small));
                }
                Format::Single => self.outside(rows, found.map(|found| found.extents)),
            }
        }
    }

    /// Sums a run of the terms of some rows.
    ///
    /// # Safety
    /// As for [`Panel::block`].
    unsafe fn chains(
        &self,
        rows: &Range<usize>,
        terms: Range<usize>,
        block: &mut Block<'_>,
        [of_left, of_right]: &mut [Found; 2],
    ) {
        let (run, count, format) = (terms.start, terms.len(), self.format());
        let steps = count.div_ceil(TERMS);
        let next = steps * format.parts() * ELEMENTS;
        let [left, right] = self.packed;
        let left = left.map_or_else(
            || {
                let mut found = of_left.at(0, run);
                let (lines, size) = (self.of[0].from(rows.start, run), (rows.len(), count));
                // SAFETY: rows of the left matrix, and room for their tiles.
                unsafe { pack(lines.lines(), size, false, block.left, next, &mut found) };
                let first = block.left.cast_const();
                Factors { first, next }
            },
            |packed| packed.from(rows.start, run, (self.k, format)),
        );
        let (to, pitch) = self.to;
        let mut totals = block.totals.chunks_exact_mut(SUMS);
        let at_once = packed_columns(format);
        for j in (0..self.columns).step_by(PAIR) {
            let columns = right.map_or_else(
                || {
                    let within = j % at_once;
                    if within == 0 {
                        let size = (at_once.min(self.columns - j), count);
                        let mut found = of_right.at(j, run);
                        let lines = self.of[1].from(run, j).transpose().lines();
                        // SAFETY: columns of the right matrix, and room for their tiles.
                        unsafe { pack(lines, size, true, block.right, next, &mut found) };
                    }
                    let first = block.right.wrapping_add(within / SIDE * next);
                    let first = first.cast_const();
                    Factors { first, next }
                },
                |packed| packed.from(j, run, (self.k, format)),
            );
            let found = [&of_left.extents[..], &of_right.extents[..]];
            let multiplies = format == Format::Half || self.some_suit(found, j);
            for i in (0..rows.len()).step_by(PAIR) {
                let totals = totals.next().unwrap_or_default();
                if !multiplies {
                    continue;
                }
                let pair = Pair {
                    format,
                    size: (PAIR.min(rows.len() - i), PAIR.min(self.columns - j)),
                    steps,
                    to: (to.wrapping_add((rows.start + i) * pitch + j), pitch),
                    first: run == 0,
                    last: terms.end == self.k,
                };
                let factors = [left.from(i), columns];
                // A part of the next pair of columns: of either tile a quarter.
                let part = i / PAIR % (2 * ELEMENTS / AHEAD);
                let after = columns.from(PAIR + part / (ELEMENTS / AHEAD) * SIDE);
                let part = part % (ELEMENTS / AHEAD) * steps * AHEAD;
                let ahead = after.first.wrapping_add(part);
                // SAFETY: factors of a run, and their place in the result.
                unsafe { pair.run(factors, ahead, block.registers, block.sums, totals) };
            }
        }
    }

    /// Adds what products by small factors lack to some rows.
    ///
    /// # Safety
    /// As for [`Panel::run`].
    unsafe fn correct(
        &self,
        registers: &Configured,
        rows: Range<usize>,
        [left, right]: [Vec<Place>; 2],
    ) {
        if left.is_empty() && right.is_empty() {
            return;
        }
        let a = self.of[0].from(rows.start, 0).lines();
        let b = self.of[1].transpose().lines();
        let (to, pitch) = self.to;
        let to = to.wrapping_add(rows.start * pitch);
        // SAFETY: as the caller promises.
        unsafe {
            for (of, small, others, by) in [
                (a, left, (b, self.columns), (pitch, 1)),
                (b, right, (a, rows.len()), (1, pitch)),
            ] {
                let [many, few] = parted(small, self.k);
                correct_many(registers, (of, self.k), &many, others, to, by);
                correct(of, &few, others, to, by);
            }
        }
    }
}

/// The places of lines of `k` terms that have many, and of those that have few, in order. Which a line is depends on it alone.
fn parted(mut places: Vec<Place>, k: usize) -> [Vec<Place>; 2] {
    places.sort_unstable();
    let (mut many, mut few) = (Vec::new(), Vec::new());
    for of_line in places.chunk_by(|a, b| a.0 == b.0) {
        let to = if is_many(of_line.len(), k) {
            &mut many
        } else {
            &mut few
        };
        to.extend_from_slice(of_line);
    }
    [many, few]
}
