//! Factors in the order in which tiles are loaded.
//!
//! A line is a row of the left matrix or a column of the right one. A tile holds 32 terms of 16 lines: the left matrix's a line
//! a row, the right one's a pair of terms a row. Lines and terms that there are not are zeros.

use super::small::{self, Place};
use super::tile::{ELEMENTS, SIDE, TERMS};

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
            // SAFETY: a part of the lines, and a tile of the result.
            unsafe {
                let tile = to.add(group * pitch + step * ELEMENTS);
                pack_tile(of.from(line, term), size, pairs, tile);
                #[cfg(target_arch = "x86_64")]
                if small::are_in(tile) {
                    small::replace(tile, pairs, |(l, t)| tell((line + l, term + t)));
                }
            }
        }
    }
}

/// Writes one tile.
///
/// # Safety
/// As for [`pack`].
#[inline]
unsafe fn pack_tile(of: Lines, (lines, terms): (usize, usize), pairs: bool, to: *mut u16) {
    let whole = lines == SIDE && terms == TERMS;
    // SAFETY: the caller answers for what is read and written.
    unsafe {
        let as_pairs = if whole && of.line == 1 {
            #[cfg(target_arch = "x86_64")]
            copy_pairs(of, to);
            true
        } else if terms == TERMS && of.term == 1 {
            copy_lines(of, lines, to);
            false
        } else {
            copy_elements(of, (lines, terms), to);
            false
        };
        #[cfg(target_arch = "x86_64")]
        if as_pairs != pairs {
            transpose(to.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (as_pairs, pairs);
    }
}

/// Lines whose terms are next to each other.
#[inline]
unsafe fn copy_lines(of: Lines, lines: usize, to: *mut u16) {
    for l in 0..SIDE {
        // SAFETY: the caller gives 32 terms of as many lines, and room for a tile.
        unsafe {
            let to = to.add(l * TERMS).cast::<[u16; TERMS]>();
            to.write_unaligned(match l < lines {
                true => of.from(l, 0).first.cast::<[u16; TERMS]>().read_unaligned(),
                false => [0; TERMS],
            });
        }
    }
}

/// Lines of any distances.
unsafe fn copy_elements(of: Lines, (lines, terms): (usize, usize), to: *mut u16) {
    // SAFETY: the caller gives as many terms of as many lines, and room for a tile.
    unsafe {
        to.write_bytes(0, ELEMENTS);
        for l in 0..lines {
            for t in 0..terms {
                to.add(l * TERMS + t).write(*of.from(l, t).first);
            }
        }
    }
}

/// Pairs of terms of 16 lines that are next to each other.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx2")]
unsafe fn copy_pairs(of: Lines, to: *mut u16) {
    use std::arch::x86_64::{
        _mm256_loadu_si256, _mm256_permute2x128_si256, _mm256_storeu_si256, _mm256_unpackhi_epi16,
        _mm256_unpacklo_epi16,
    };
    for pair in 0..SIDE {
        // SAFETY: the caller gives 32 terms of 16 lines, and room for a tile.
        unsafe {
            let first = _mm256_loadu_si256(of.from(0, 2 * pair).first.cast());
            let second = _mm256_loadu_si256(of.from(0, 2 * pair + 1).first.cast());
            let low = _mm256_unpacklo_epi16(first, second);
            let high = _mm256_unpackhi_epi16(first, second);
            let to = to.add(pair * TERMS);
            _mm256_storeu_si256(to.cast(), _mm256_permute2x128_si256::<0x20>(low, high));
            let to = to.add(TERMS / 2);
            _mm256_storeu_si256(to.cast(), _mm256_permute2x128_si256::<0x31>(low, high));
        }
    }
}

/// Exchanges rows and columns of 16 by 16 pairs of terms.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn transpose(tile: *mut u32) {
    use std::arch::x86_64::{
        _mm512_loadu_si512, _mm512_shuffle_i32x4, _mm512_storeu_si512, _mm512_unpackhi_epi32,
        _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    };
    // SAFETY: the caller gives a tile.
    let rows: [_; SIDE] =
        std::array::from_fn(|i| unsafe { _mm512_loadu_si512(tile.add(i * SIDE).cast()) });
    let mut fours = rows;
    for i in (0..SIDE).step_by(4) {
        let [a, b, c, d] = [rows[i], rows[i + 1], rows[i + 2], rows[i + 3]];
        let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        fours[i] = _mm512_unpacklo_epi64(ab, cd);
        fours[i + 1] = _mm512_unpackhi_epi64(ab, cd);
        let (ab, cd) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        fours[i + 2] = _mm512_unpacklo_epi64(ab, cd);
        fours[i + 3] = _mm512_unpackhi_epi64(ab, cd);
    }
    // Lane `l` of `fours[4 · g + c]` holds column `4 · l + c` of rows `4 · g` on.
    for c in 0..4 {
        let [a, b, d, e] = [fours[c], fours[4 + c], fours[8 + c], fours[12 + c]];
        let even = [
            _mm512_shuffle_i32x4::<0x88>(a, b),
            _mm512_shuffle_i32x4::<0x88>(d, e),
        ];
        let odd = [
            _mm512_shuffle_i32x4::<0xdd>(a, b),
            _mm512_shuffle_i32x4::<0xdd>(d, e),
        ];
        let columns = [
            _mm512_shuffle_i32x4::<0x88>(even[0], even[1]),
            _mm512_shuffle_i32x4::<0x88>(odd[0], odd[1]),
            _mm512_shuffle_i32x4::<0xdd>(even[0], even[1]),
            _mm512_shuffle_i32x4::<0xdd>(odd[0], odd[1]),
        ];
        for (l, column) in columns.into_iter().enumerate() {
            // SAFETY: the caller gives a tile.
            unsafe { _mm512_storeu_si512(tile.add((4 * l + c) * SIDE).cast(), column) };
        }
    }
}
