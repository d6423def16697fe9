//! Sums of products of tiles by AVX-512's dot products: an instruction adds a pair of terms to each of 16 sums.

use super::tile::{AHEAD, Factors, SIDE, TERMS};
use crate::cpu::strided::prefetch;
use std::arch::x86_64::{
    __m512bh, __m512i, _mm512_add_ps, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_set1_epi32,
    _mm512_setzero_ps, _mm512_storeu_ps,
};

/// Rows that are summed at once: with two vectors of columns each, half of the registers.
const ROWS: usize = 8;
/// Steps of a chain, 64 terms that are added one after another; chains are added up.
const CHAIN: usize = 2;
/// Elements of a line of the cache.
const LINE: usize = 32;

/// Writes the sums of products of so many rows and columns, at most two tiles of each side, to `to`, whose rows are `pitch` apart. It
/// writes whole vectors of columns, and rows that there are not. Each step asks for elements from `ahead` on.
///
/// # Safety
/// This process may use these instructions (`ferrotrace_runtime::has_bf16_dots`); the factors may be read, the result written.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn sums(
    (rows, columns): (usize, usize),
    steps: usize,
    [a, b]: [Factors; 2],
    ahead: *const u16,
    (to, pitch): (*mut f32, usize),
) {
    for step in 0..steps {
        for line in (0..AHEAD).step_by(LINE) {
            prefetch(ahead.wrapping_add(step * AHEAD + line).cast());
        }
    }
    for first in (0..rows).step_by(ROWS) {
        let tile = a.from(first / SIDE * SIDE).first;
        let a = tile.wrapping_add(first % SIDE * TERMS);
        let to = (to.wrapping_add(first * pitch), pitch);
        // SAFETY: as the caller promises; what is left of the tiles are zeros.
        unsafe {
            match (rows - first > ROWS / 2, columns > SIDE) {
                (true, true) => block::<ROWS, 2>(steps, a, b, to),
                (true, false) => block::<ROWS, 1>(steps, a, b, to),
                (false, true) => block::<{ ROWS / 2 }, 2>(steps, a, b, to),
                (false, false) => block::<{ ROWS / 2 }, 1>(steps, a, b, to),
            }
        }
    }
}

/// Sums of `R` rows of a tile and the columns of `C` tiles.
///
/// # Safety
/// As for [`sums`].
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn block<const R: usize, const C: usize>(
    steps: usize,
    a: *const u16,
    b: Factors,
    (to, pitch): (*mut f32, usize),
) {
    let mut totals = [[_mm512_setzero_ps(); C]; R];
    for chain in (0..steps).step_by(CHAIN) {
        let mut sums = [[_mm512_setzero_ps(); C]; R];
        for step in chain..steps.min(chain + CHAIN) {
            let tile = step * SIDE * TERMS;
            let a = a.wrapping_add(tile);
            let b: [_; C] = std::array::from_fn(|c| b.first.wrapping_add(c * b.next + tile));
            for pair in 0..TERMS / 2 {
                // SAFETY: a row of a tile of columns is the pair of terms of 16 of them.
                let right: [__m512bh; C] =
                    std::array::from_fn(|c| unsafe { terms(b[c].add(pair * TERMS)) });
                for (r, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: a row of a tile of rows has 16 pairs.
                    let left = unsafe { spread(a.add(r * TERMS + 2 * pair)) };
                    for (sum, &right) in sums.iter_mut().zip(&right) {
                        *sum = _mm512_dpbf16_ps(*sum, left, right);
                    }
                }
            }
        }
        for (totals, sums) in totals.iter_mut().zip(&sums) {
            for (total, &sum) in totals.iter_mut().zip(sums) {
                *total = _mm512_add_ps(*total, sum);
            }
        }
    }
    for (r, totals) in totals.iter().enumerate() {
        for (c, &total) in totals.iter().enumerate() {
            // SAFETY: the caller gives room for the rows.
            unsafe { _mm512_storeu_ps(to.add(r * pitch + c * SIDE), total) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn terms(of: *const u16) -> __m512bh {
    // SAFETY: the caller gives a vector; all bits are some numbers of bf16.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(of.cast())) }
}

/// A pair of terms for each of 16 sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn spread(pair: *const u16) -> __m512bh {
    // SAFETY: the caller gives a pair; all bits are some numbers of bf16.
    unsafe {
        let pair = pair.cast::<i32>().read_unaligned();
        std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(pair))
    }
}
