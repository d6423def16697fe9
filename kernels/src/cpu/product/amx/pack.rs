//! Factors in the order in which tiles are loaded.
//!
//! A line is a row of the left matrix or a column of the right one. A tile holds 32 terms of 16 lines: the left matrix's a line
//! a row, the right one's a pair of terms a row. Lines and terms that there are not are zeros.

use super::small::{self, Place};
use super::tile::{ELEMENTS, SIDE, TERMS};
#[cfg(target_arch = "x86_64")]
use super::vectors::{rows_of_lines, rows_of_pairs};
use crate::cpu::strided::prefetch;

/// Lines of a matrix of bf16: term `t` of line `l` is at `first + l · line + t · term`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    pub first: *const u16,
    pub line: isize,
    pub term: isize,
}

impl Lines {
    pub fn from(self, line: usize, term: usize) -> Lines {
        let by = line as isize * self.line + term as isize * self.term;
        Lines {
            first: self.first.wrapping_offset(by),
            ..self
        }
    }
}

/// Writes the tiles of some lines and terms: those of 16 lines after those of the 16 before, `pitch` elements apart. `pairs` says
/// whether a row of a tile is a pair of terms, else it is a line. `tell` is told where factors are small (`small.rs`).
///
/// # Safety
/// This machine has AVX-512; the lines may be read; `to` has room for the tiles.
pub(super) unsafe fn pack(
    of: Lines,
    (lines, terms): (usize, usize),
    pairs: bool,
    to: *mut u16,
    pitch: usize,
    mut tell: impl FnMut(Place),
) {
    let (groups, steps) = (lines.div_ceil(SIDE), terms.div_ceil(TERMS));
    // In the order in which the lines lie.
    let across = of.line == 1;
    let (outer, inner) = if across {
        (steps, groups)
    } else {
        (groups, steps)
    };
    for outer in 0..outer {
        for inner in 0..inner {
            let (group, step) = if across {
                (inner, outer)
            } else {
                (outer, inner)
            };
            let (line, term) = (group * SIDE, step * TERMS);
            let size = (SIDE.min(lines - line), TERMS.min(terms - term));
            if !across {
                // Lines are far from each other: the next ones are asked for.
                for l in line + SIDE..lines.min(line + 2 * SIDE) {
                    prefetch(of.from(l, term).first.cast());
                }
            }
            // SAFETY: a part of the lines, and a tile of the result.
            unsafe {
                let tile = to.add(group * pitch + step * ELEMENTS);
                if pack_tile(of.from(line, term), size, pairs, tile) {
                    small::replace(tile, pairs, |(l, t)| tell((line + l, term + t)));
                }
            }
        }
    }
}

/// Writes one tile; tells whether factors are small.
///
/// # Safety
/// As for [`pack`].
#[inline]
unsafe fn pack_tile(of: Lines, (lines, terms): (usize, usize), pairs: bool, to: *mut u16) -> bool {
    // SAFETY: the caller answers for what is read and written.
    unsafe {
        if lines == SIDE && terms == TERMS && of.line == 1 {
            return rows_of_pairs(of, pairs, to);
        }
        if terms == TERMS && of.term == 1 {
            return rows_of_lines(of, lines, pairs, to);
        }
        to.write_bytes(0, ELEMENTS);
        for l in 0..lines {
            for t in 0..terms {
                to.add(l * TERMS + t).write(*of.from(l, t).first);
            }
        }
        let tile = Lines {
            first: to,
            line: TERMS as isize,
            term: 1,
        };
        rows_of_lines(tile, SIDE, pairs, to)
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn rows_of_lines(_: Lines, _: usize, _: bool, _: *mut u16) -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn rows_of_pairs(_: Lines, _: bool, _: *mut u16) -> bool {
    false
}
