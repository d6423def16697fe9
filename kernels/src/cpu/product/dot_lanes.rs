//! Dot products of binary32 whose running sums stay in registers: those of a loop over arrays that the compiler makes vectors of
//! may stay in memory, where each addition waits for the one before to be stored and read again.

use super::vector::LANES;
use std::arch::x86_64::*;

/// Elements of a vector, and vectors of the running sums of a column.
const WIDTH: usize = 16;
const VECTORS: usize = LANES / WIDTH;

/// `Σ x[i] · column[i]` of each column: lane `i % 64` of each sum first, then halves of the lanes.
///
/// # Safety
/// The machine has AVX-512; the columns have as many elements as `x`.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn dots<const R: usize>(x: &[f32], columns: [*const f32; R]) -> [f32; R] {
    let whole = x.len() / LANES * LANES;
    let mut sums = [[_mm512_setzero_ps(); VECTORS]; R];
    for i in (0..whole).step_by(LANES) {
        // SAFETY: whole groups of elements.
        unsafe { add(x, &columns, i, [u16::MAX; VECTORS], &mut sums) };
    }
    if whole < x.len() {
        let rest = u64::MAX >> (LANES - (x.len() - whole));
        let mut masks = [0; VECTORS];
        for (v, mask) in masks.iter_mut().enumerate() {
            *mask = (rest >> (v * WIDTH)) as u16;
        }
        // SAFETY: the masks name elements that are there. Zeros add nothing: no lane is -0.
        unsafe { add(x, &columns, whole, masks, &mut sums) };
    }
    let mut all = [0.0; R];
    for (all, [a, b, c, d]) in all.iter_mut().zip(sums) {
        *all = total(_mm512_add_ps(_mm512_add_ps(a, c), _mm512_add_ps(b, d)));
    }
    all
}

/// Adds the products of the elements from `i` on that the masks name.
///
/// # Safety
/// The machine has AVX-512; those elements are there.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add<const R: usize>(
    x: &[f32],
    columns: &[*const f32; R],
    i: usize,
    masks: [u16; VECTORS],
    sums: &mut [[__m512; VECTORS]; R],
) {
    for (v, mask) in masks.into_iter().enumerate() {
        let at = i + v * WIDTH;
        // SAFETY: as the caller promises.
        let x = unsafe { _mm512_maskz_loadu_ps(mask, x.as_ptr().wrapping_add(at)) };
        for (sums, column) in sums.iter_mut().zip(columns) {
            // SAFETY: as above.
            let y = unsafe { _mm512_maskz_loadu_ps(mask, column.wrapping_add(at)) };
            sums[v] = _mm512_fmadd_ps(x, y, sums[v]);
        }
    }
}

/// The sum of the lanes of a vector: of its halves, of theirs, and so on.
#[inline]
#[target_feature(enable = "avx512f")]
fn total(x: __m512) -> f32 {
    let high = _mm512_shuffle_f32x4::<0b11_10_11_10>(x, x);
    let x = _mm512_castps512_ps256(_mm512_add_ps(x, high));
    let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
}
