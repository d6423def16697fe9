//! Panels of a product: blocks of rows that stay in the second-level cache, run after run of terms, tile by tile.

use super::pack::{Lines, pack};
use super::pair::{PAIR, Pair, SUMS};
use super::small::{Place, correct};
use super::tile::{AHEAD, Configured, ELEMENTS, Factors, SIDE, TERMS};
use crate::cpu::dense::scratch_of_two;
use std::ops::Range;

/// Terms of a chain in binary32, of which each instruction adds the sum of 32; chains are added up in binary64.
const RUN: usize = 1024;
/// Columns that are packed at a time where they are multiplied.
const COLUMNS: usize = 4 * PAIR;
/// Words of a line of the cache, at which tiles begin.
const LINE: usize = 16;
/// Rows of a block of a product of `k` terms: their factors of a run stay in the second-level cache beside the columns of a panel.
pub(super) fn block_rows(k: usize) -> usize {
    /// Factors of a block.
    const BLOCK: usize = 1 << 16;
    match k {
        // Columns come from the third-level cache: more rows read them.
        k if k > RUN => 256,
        k => (BLOCK / k.max(1)).clamp(128, 1024) / PAIR * PAIR,
    }
}

/// A matrix's packed lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed<'a> {
    /// The tiles of all terms of 16 lines, and then those of the next.
    pub tiles: *const u16,
    /// Where factors are small: the line, in order, and the term. Lines count from `first`.
    pub small: &'a [Place],
    pub first: usize,
}

impl Packed<'_> {
    /// The factors of a line, a multiple of 16, and a term, a multiple of 32, of `k` terms.
    fn from(&self, line: usize, term: usize, k: usize) -> Factors {
        let next = k.div_ceil(TERMS) * ELEMENTS;
        let at = line / SIDE * next + term / TERMS * ELEMENTS;
        Factors {
            first: self.tiles.wrapping_add(at),
            next,
        }
    }

    /// Where factors of some lines are small; these lines count from the first of them.
    fn small(&self, lines: Range<usize>) -> Vec<Place> {
        let after = |line: usize| self.small.partition_point(|of| of.0 < self.first + line);
        let of = self.small[after(lines.start)..after(lines.end)].iter();
        let first = self.first + lines.start;
        of.map(|&(line, term)| (line - first, term)).collect()
    }
}

/// A panel of a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel<'a> {
    pub rows: usize,
    pub columns: usize,
    pub k: usize,
    /// The left matrix's rows and the right one's columns.
    pub lines: [Lines; 2],
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
    /// Computes the panel.
    ///
    /// # Safety
    /// The process may use tiles; the factors may be read; the result may be written, and no other thread touches it meanwhile.
    pub unsafe fn run(self) {
        let height = block_rows(self.k).min(self.rows);
        let (high, wide) = (
            height.next_multiple_of(PAIR),
            self.columns.next_multiple_of(PAIR),
        );
        let terms = RUN.min(self.k).next_multiple_of(TERMS);
        let totals = if self.k > RUN { high * wide } else { 0 };
        let [left, right] = [(0, high), (1, COLUMNS)].map(|(of, lines)| match self.packed[of] {
            Some(_) => 0,
            None => lines * terms / 2,
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
        let [left, right] = self.packed;
        let mut small = Small {
            left: left.map_or_else(Vec::new, |of| of.small(rows.clone())),
            right: right.map_or_else(Vec::new, |of| of.small(0..self.columns)),
        };
        for run in (0..self.k).step_by(RUN) {
            let terms = run..self.k.min(run + RUN);
            // SAFETY: as the caller promises.
            unsafe { self.chains(&rows, terms, &mut block, &mut small) };
        }
        if !small.left.is_empty() || !small.right.is_empty() {
            // SAFETY: as the caller promises.
            unsafe { self.correct(rows, small) };
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
        small: &mut Small,
    ) {
        let (run, count) = (terms.start, terms.len());
        let steps = count.div_ceil(TERMS);
        let next = steps * ELEMENTS;
        let [left, right] = self.packed;
        let left = left.map_or_else(
            || {
                let tell = |(row, term)| small.left.push((row, run + term));
                let lines = self.lines[0].from(rows.start, run);
                // SAFETY: rows of the left matrix, and room for their tiles.
                unsafe { pack(lines, (rows.len(), count), false, block.left, next, tell) };
                let first = block.left.cast_const();
                Factors { first, next }
            },
            |packed| packed.from(rows.start, run, self.k),
        );
        let (to, pitch) = self.to;
        let mut totals = block.totals.chunks_exact_mut(SUMS);
        for j in (0..self.columns).step_by(PAIR) {
            let columns = right.map_or_else(
                || {
                    let within = j % COLUMNS;
                    if within == 0 {
                        let size = (COLUMNS.min(self.columns - j), count);
                        let tell = |(column, term)| small.right.push((j + column, run + term));
                        let lines = self.lines[1].from(j, run);
                        // SAFETY: columns of the right matrix, and room for their tiles.
                        unsafe { pack(lines, size, true, block.right, next, tell) };
                    }
                    let first = block.right.wrapping_add(within / SIDE * next);
                    let first = first.cast_const();
                    Factors { first, next }
                },
                |packed| packed.from(j, run, self.k),
            );
            for i in (0..rows.len()).step_by(PAIR) {
                let pair = Pair {
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
                let totals = totals.next().unwrap_or_default();
                // SAFETY: factors of a run, and their place in the result.
                unsafe { pair.run(factors, ahead, block.registers, block.sums, totals) };
            }
        }
    }

    /// Adds what products by small factors lack to some rows.
    ///
    /// # Safety
    /// As for [`Panel::run`].
    #[cold]
    unsafe fn correct(&self, rows: Range<usize>, mut small: Small) {
        small.left.sort_unstable();
        small.right.sort_unstable();
        let (a, b) = (self.lines[0].from(rows.start, 0), self.lines[1]);
        let (to, pitch) = self.to;
        let to = to.wrapping_add(rows.start * pitch);
        // SAFETY: as the caller promises.
        unsafe {
            correct(a, &small.left, (b, self.columns), to, (pitch, 1));
            correct(b, &small.right, (a, rows.len()), to, (1, pitch));
        }
    }
}

/// Where factors are small: rows of a block and columns of a panel, and terms.
#[derive(Default)]
struct Small {
    left: Vec<Place>,
    right: Vec<Place>,
}
