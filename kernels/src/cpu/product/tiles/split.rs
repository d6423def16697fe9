//! Numbers of binary32 as sums of three of bf16, in vectors of AVX-512.
//!
//! The first part is the number rounded to bf16, the second one what is left, rounded, the third the rest: 24 bits in three
//! times 8. (G. Henry, P. Tang, A. Heinecke: Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
//! Computations, 2019.)

use super::extent::Extent;
use super::source::Lines;
use super::tile::{ELEMENTS, SIDE, TERMS};
use super::vectors::{Rows, store, transposed, turns};
use super::windows::POSITION;
use std::arch::x86_64::{
    __m256i, __m512, __m512bh, __m512i, _mm512_and_si512, _mm512_castsi512_ps,
    _mm512_castsi512_si256, _mm512_cvtepu16_epi32, _mm512_cvtne2ps_pbh, _mm512_extracti64x4_epi64,
    _mm512_loadu_si512, _mm512_maskz_loadu_ps, _mm512_max_epu32, _mm512_min_epu32,
    _mm512_permutexvar_epi16, _mm512_reduce_max_epu32, _mm512_reduce_min_epu32, _mm512_set1_epi32,
    _mm512_setzero_ps, _mm512_setzero_si512, _mm512_slli_epi32, _mm512_storeu_si512,
    _mm512_sub_epi32, _mm512_sub_ps,
};
use std::mem::transmute;

/// The parts of 32 numbers, each part in a vector.
type Parts = [__m512i; 3];

/// Puts the two terms of each of 16 lines next to each other.
static TURNS: [u16; TERMS] = turns(SIDE);

/// Magnitudes of numbers, less one unit of the last place: zero is the largest.
struct Seen {
    least: __m512i,
    most: __m512i,
}

impl Seen {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    fn new() -> Seen {
        Seen {
            least: _mm512_set1_epi32(-1),
            most: _mm512_setzero_si512(),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    fn see(&mut self, numbers: __m512i) {
        let magnitude = _mm512_and_si512(numbers, _mm512_set1_epi32(0x7fff_ffff));
        self.most = _mm512_max_epu32(self.most, magnitude);
        let less = _mm512_sub_epi32(magnitude, _mm512_set1_epi32(1));
        self.least = _mm512_min_epu32(self.least, less);
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    fn extent(&self) -> Extent {
        let (below, most) = (
            _mm512_reduce_min_epu32(self.least),
            _mm512_reduce_max_epu32(self.most),
        );
        Extent::of_magnitudes(below, most)
    }
}

/// The parts of the numbers of two vectors, those of the first before those of the second.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn parts(mut first: __m512, mut second: __m512) -> Parts {
    let mut parts = [_mm512_setzero_si512(); 3];
    for part in &mut parts {
        // SAFETY: both types are vectors of 64 bytes without further meaning.
        *part = unsafe { transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first)) };
        first = _mm512_sub_ps(first, wide(_mm512_castsi512_si256(*part)));
        second = _mm512_sub_ps(second, wide(_mm512_extracti64x4_epi64::<1>(*part)));
    }
    parts
}

/// Numbers of bf16 as ones of binary32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn wide(halves: __m256i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves)))
}

/// Writes the tiles of some lines whose 32 terms are next to each other, and zeros.
///
/// # Safety
/// This machine has AVX-512 with bf16; the lines may be read, and three tiles written.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn parts_of_lines(of: Lines, lines: usize, pairs: bool, to: *mut u16) -> Extent {
    let mut seen = Seen::new();
    let mut rows = [[_mm512_setzero_si512(); SIDE]; 3];
    for l in 0..lines {
        let line = of.from(l, 0).first;
        // SAFETY: the caller gives 32 terms of the line.
        let [first, second] = [0, 64].map(|at| unsafe { _mm512_loadu_si512(line.add(at).cast()) });
        seen.see(first);
        seen.see(second);
        let parts = parts(_mm512_castsi512_ps(first), _mm512_castsi512_ps(second));
        for (rows, part) in rows.iter_mut().zip(parts) {
            rows[l] = part;
        }
    }
    // SAFETY: the caller gives the tiles.
    unsafe { write(rows, pairs, to) };
    seen.extent()
}

/// Writes the tiles of 32 terms of 16 lines that are next to each other.
///
/// # Safety
/// As for [`parts_of_lines`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn parts_of_pairs(of: Lines, pairs: bool, to: *mut u16) -> Extent {
    // SAFETY: the array is as long as a vector.
    let turns = unsafe { _mm512_loadu_si512(TURNS.as_ptr().cast()) };
    let mut seen = Seen::new();
    let mut rows = [[_mm512_setzero_si512(); SIDE]; 3];
    for pair in 0..SIDE {
        // SAFETY: the caller gives the terms of 16 lines.
        let [first, second] = [2 * pair, 2 * pair + 1]
            .map(|t| unsafe { _mm512_loadu_si512(of.from(0, t).first.cast()) });
        seen.see(first);
        seen.see(second);
        let parts = parts(_mm512_castsi512_ps(first), _mm512_castsi512_ps(second));
        for (rows, part) in rows.iter_mut().zip(parts) {
            rows[pair] = _mm512_permutexvar_epi16(turns, part);
        }
    }
    // SAFETY: the caller gives the tiles.
    unsafe { write(rows, !pairs, to) };
    seen.extent()
}

/// Writes three tiles, or their transposes.
///
/// # Safety
/// As for [`parts_of_lines`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn write(rows: [Rows; 3], turned: bool, to: *mut u16) {
    for (part, rows) in rows.into_iter().enumerate() {
        // SAFETY: the caller gives the tiles.
        unsafe { store(rows, turned, to.add(part * ELEMENTS)) };
    }
}

/// Writes the parts of some channels of at most 16 positions that are next to each other: of each position 32 channels of the first
/// part, of the second and of the third. Channels are `plane` elements apart; those that there are not are zeros.
///
/// # Safety
/// As for [`parts_of_lines`], of [`POSITION`] elements for each position.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn parts_of_positions(
    of: *const f32,
    (positions, channels): (usize, usize),
    plane: usize,
    to: *mut u16,
) {
    // SAFETY: the array is as long as a vector.
    let turns = unsafe { _mm512_loadu_si512(TURNS.as_ptr().cast()) };
    let some = ((1u32 << positions) - 1) as u16;
    let mut rows = [[_mm512_setzero_si512(); SIDE]; 3];
    for pair in 0..channels.div_ceil(2) {
        let mut terms = [_mm512_setzero_ps(); 2];
        for (t, term) in terms.iter_mut().enumerate().take(channels - 2 * pair) {
            // SAFETY: the caller gives these positions of the channel.
            *term = unsafe { _mm512_maskz_loadu_ps(some, of.add((2 * pair + t) * plane)) };
        }
        let parts = parts(terms[0], terms[1]);
        for (rows, part) in rows.iter_mut().zip(parts) {
            rows[pair] = _mm512_permutexvar_epi16(turns, part);
        }
    }
    for (part, rows) in rows.into_iter().enumerate() {
        for (i, row) in transposed(rows).into_iter().enumerate().take(positions) {
            // SAFETY: the caller gives room for the positions.
            unsafe { _mm512_storeu_si512(to.add(i * POSITION + part * TERMS).cast(), row) };
        }
    }
}
