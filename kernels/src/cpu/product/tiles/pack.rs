//! Factors in the order in which tiles are loaded.
//!
//! A line is a row of the left matrix or a column of the right one. A tile holds 32 terms of 16 lines: the left matrix's a line
//! a row, the right one's a pair of terms a row. Lines and terms that there are not are zeros. Factors of `f32` have three tiles, one
//! for each part.

use super::extent::Extent;
use super::small::{self, Place};
use super::source::{Format, Lines};
#[cfg(target_arch = "x86_64")]
use super::split::{parts_of_lines, parts_of_pairs};
use super::tile::{ELEMENTS, SIDE, TERMS};
#[cfg(target_arch = "x86_64")]
use super::vectors::{rows_of_lines, rows_of_pairs};
use crate::cpu::strided::prefetch;

/// What becomes known of lines as they are packed.
pub(super) trait Findings {
    /// Takes the extent of factors of `f32` among 16 lines: the first ones, the next ones.
    fn extent(&mut self, group: usize, extent: Extent);
    /// Takes the line and the term of a factor of bf16 that is small.
    fn small(&mut self, place: Place);
}

/// Writes the tiles of some lines and terms: those of 16 lines after those of the 16 before, `pitch` elements apart. `pairs` says
/// whether a row of a tile is a pair of terms, else it is a line.
///
/// # Safety
/// This machine has tiles of this format; the lines may be read; `to` has room for the tiles.
pub(super) unsafe fn pack(
    of: Lines,
    (lines, terms): (usize, usize),
    pairs: bool,
    to: *mut u16,
    pitch: usize,
    findings: &mut impl Findings,
) {
    let (groups, steps) = (lines.div_ceil(SIDE), terms.div_ceil(TERMS));
    let size = of.format.parts() * ELEMENTS;
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
            let these = (SIDE.min(lines - line), TERMS.min(terms - term));
            if !across {
                // Lines are far from each other: the next ones are asked for.
                for l in line + SIDE..lines.min(line + 2 * SIDE) {
                    prefetch(of.from(l, term).first);
                }
            }
            // SAFETY: a part of the lines, and tiles of the result.
            unsafe {
                let tile = to.add(group * pitch + step * size);
                match of.format {
                    Format::Single => {
                        findings.extent(group, pack_parts(of.from(line, term), these, pairs, tile));
                    }
                    Format::Half => {
                        if pack_tile(of.from(line, term), these, pairs, tile) {
                            let mut tell = |(l, t)| findings.small((line + l, term + t));
                            small::replace(tile, pairs, &mut tell);
                        }
                    }
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
                to.add(l * TERMS + t).write(*of.from(l, t).first.cast());
            }
        }
        let tile = Lines {
            first: to.cast(),
            line: TERMS as isize,
            term: 1,
            ..of
        };
        rows_of_lines(tile, SIDE, pairs, to)
    }
}

/// Writes the three tiles of factors of `f32`.
///
/// # Safety
/// As for [`pack`].
#[inline]
unsafe fn pack_parts(
    of: Lines,
    (lines, terms): (usize, usize),
    pairs: bool,
    to: *mut u16,
) -> Extent {
    // SAFETY: the caller answers for what is read and written.
    unsafe {
        if lines == SIDE && terms == TERMS && of.line == 1 {
            return parts_of_pairs(of, pairs, to);
        }
        if terms == TERMS && of.term == 1 {
            return parts_of_lines(of, lines, pairs, to);
        }
        let mut some = [0.0f32; ELEMENTS];
        for l in 0..lines {
            for t in 0..terms {
                some[l * TERMS + t] = *of.from(l, t).first.cast();
            }
        }
        let tile = Lines {
            first: some.as_ptr().cast(),
            line: TERMS as isize,
            term: 1,
            ..of
        };
        parts_of_lines(tile, SIDE, pairs, to)
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

#[cfg(not(target_arch = "x86_64"))]
unsafe fn parts_of_lines(_: Lines, _: usize, _: bool, _: *mut u16) -> Extent {
    Extent::NONE
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn parts_of_pairs(_: Lines, _: bool, _: *mut u16) -> Extent {
    Extent::NONE
}
