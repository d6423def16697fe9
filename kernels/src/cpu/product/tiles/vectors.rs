//! A tile of factors in vectors of AVX-512.

use super::small::LEAST;
use super::source::Lines;
use super::tile::{SIDE, TERMS};
use std::arch::x86_64::{
    __m512i, _mm256_loadu_si256, _mm512_and_si512, _mm512_castsi256_si512, _mm512_cmplt_epu16_mask,
    _mm512_loadu_si512, _mm512_min_epu16, _mm512_permutex2var_epi16, _mm512_set1_epi16,
    _mm512_setzero_si512, _mm512_shuffle_i32x4, _mm512_storeu_si512, _mm512_sub_epi16,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

pub(super) type Rows = [__m512i; SIDE];

/// The order in which the first 16 elements and those from `second` on take turns.
pub(super) const fn turns(second: usize) -> [u16; TERMS] {
    let mut turns = [0; TERMS];
    let mut i = 0;
    while i < TERMS {
        turns[i] = (i / 2 + i % 2 * second) as u16;
        i += 1;
    }
    turns
}

/// Writes a tile of some lines whose 32 terms are next to each other, and zeros; tells whether factors are small.
///
/// # Safety
/// This machine has AVX-512; the lines may be read, and the tile written.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn rows_of_lines(of: Lines, lines: usize, pairs: bool, to: *mut u16) -> bool {
    let mut rows = [_mm512_setzero_si512(); SIDE];
    for (l, row) in rows.iter_mut().enumerate().take(lines) {
        // SAFETY: the caller gives 32 terms of the line.
        *row = unsafe { _mm512_loadu_si512(of.from(l, 0).first.cast()) };
    }
    // SAFETY: the caller gives the tile.
    unsafe { write(rows, pairs, to) }
}

/// Writes a tile of 32 terms of 16 lines that are next to each other; tells whether factors are small.
///
/// # Safety
/// As for [`rows_of_lines`].
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn rows_of_pairs(of: Lines, pairs: bool, to: *mut u16) -> bool {
    static TURNS: [u16; TERMS] = turns(TERMS);
    // SAFETY: the array is as long as a vector.
    let turns = unsafe { _mm512_loadu_si512(TURNS.as_ptr().cast()) };
    let rows: Rows = std::array::from_fn(|pair| {
        let [first, second] = [2 * pair, 2 * pair + 1].map(|t| of.from(0, t).first);
        // SAFETY: the caller gives the terms of 16 lines.
        let (first, second) = unsafe {
            (
                _mm512_castsi256_si512(_mm256_loadu_si256(first.cast())),
                _mm512_castsi256_si512(_mm256_loadu_si256(second.cast())),
            )
        };
        _mm512_permutex2var_epi16(first, turns, second)
    });
    // SAFETY: the caller gives the tile.
    unsafe { write(rows, !pairs, to) }
}

/// Writes a tile, or its transpose; tells whether factors are small.
///
/// # Safety
/// As for [`rows_of_lines`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn write(rows: Rows, turned: bool, to: *mut u16) -> bool {
    let (magnitude, one) = (_mm512_set1_epi16(0x7fff), _mm512_set1_epi16(1));
    let mut least = magnitude;
    for &row in &rows {
        // Zero becomes the largest number.
        let less = _mm512_sub_epi16(_mm512_and_si512(row, magnitude), one);
        least = _mm512_min_epu16(least, less);
    }
    let small = _mm512_cmplt_epu16_mask(least, _mm512_set1_epi16(LEAST as i16 - 1));
    // SAFETY: as the caller promises.
    unsafe { store(rows, turned, to) };
    small != 0
}

/// Writes the rows of a tile, or of its transpose.
///
/// # Safety
/// As for [`rows_of_lines`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn store(rows: Rows, turned: bool, to: *mut u16) {
    let rows = if turned { transposed(rows) } else { rows };
    for (i, row) in rows.into_iter().enumerate() {
        // SAFETY: the caller gives the tile.
        unsafe { _mm512_storeu_si512(to.add(i * TERMS).cast(), row) };
    }
}

/// 16 by 16 pairs of terms with rows and columns exchanged.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transposed(rows: Rows) -> Rows {
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
    let mut columns = rows;
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
        columns[c] = _mm512_shuffle_i32x4::<0x88>(even[0], even[1]);
        columns[4 + c] = _mm512_shuffle_i32x4::<0x88>(odd[0], odd[1]);
        columns[8 + c] = _mm512_shuffle_i32x4::<0xdd>(even[0], even[1]);
        columns[12 + c] = _mm512_shuffle_i32x4::<0xdd>(odd[0], odd[1]);
    }
    columns
}

/// Writes 16 by 16 numbers of `f32` with rows and columns exchanged; rows are so many elements apart.
///
/// # Safety
/// This machine has AVX-512; the numbers may be read, and as many written.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn turn((from, row): (*const f32, usize), (to, pitch): (*mut f32, usize)) {
    let mut rows = [_mm512_setzero_si512(); SIDE];
    for (i, of) in rows.iter_mut().enumerate() {
        // SAFETY: the caller gives 16 rows.
        *of = unsafe { _mm512_loadu_si512(from.add(i * row).cast()) };
    }
    for (i, of) in transposed(rows).into_iter().enumerate() {
        // SAFETY: the caller gives room for 16 rows.
        unsafe { _mm512_storeu_si512(to.add(i * pitch).cast(), of) };
    }
}
