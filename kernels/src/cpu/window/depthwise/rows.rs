//! Windows of 3, 5 or 7 by as many taps over binary32 with AVX-512: a plane is read where it lies, the zeros around it by
//! masks.
//!
//! A tile of output rows by a vector of columns is kept in registers while the input rows that it reads go by: each is
//! loaded once for every tap of a row of the window, and added to all output rows that it belongs to.

use crate::cpu::conv::{Axis, Geometry};
use ferrotrace_runtime::Isa;

use std::arch::x86_64::*;
use std::ops::Range;

/// Output rows of a tile: planes of images are mostly of 7 times a power of two.
const ROWS: usize = 7;
/// Columns of a vector.
const LANES: usize = 16;

/// The loop over the tiles of a plane.
type Plane = unsafe fn(&Windows, &[f32], &[f32], &mut [f32]);

/// How planes are gone through.
pub(super) struct Windows {
    height: Axis,
    row: Axis,
    /// By vector of columns and load of a row: which lanes of one or two vectors are inside the input.
    masks: Vec<[__mmask16; 2]>,
    plane: Plane,
}

impl Windows {
    /// `None` for windows that are not gone through so.
    pub fn of(g: &Geometry) -> Option<Windows> {
        let [_, height, row] = g.axes;
        let plain = |a: &Axis| a.dilation == 1 && a.padding < a.kernel && a.input > 0;
        let square = height.kernel == row.kernel && height.stride == row.stride;
        if Isa::host() != Isa::Avx512 || !square || !plain(&height) || !plain(&row) {
            return None;
        }
        let plane: Plane = match (row.kernel, row.stride) {
            (3, 1) => plane::<3, 1>,
            (3, 2) => plane::<3, 2>,
            (5, 1) => plane::<5, 1>,
            (5, 2) => plane::<5, 2>,
            (7, 1) => plane::<7, 1>,
            (7, 2) => plane::<7, 2>,
            _ => return None,
        };
        let (vectors, loads) = (row.output.div_ceil(LANES), row.kernel.div_ceil(row.stride));
        let mask = |i: usize| {
            let (vector, load) = (i / loads, i % loads);
            let first = (vector * LANES + load) * row.stride;
            let is_inside = |lane: &usize| {
                let at = (first + lane).wrapping_sub(row.padding);
                at < row.input
            };
            let lanes = (0..LANES * row.stride).filter(is_inside);
            let bits = lanes.fold(0u32, |bits, lane| bits | 1 << lane);
            [bits as u16, (bits >> 16) as u16]
        };
        Some(Windows {
            height,
            row,
            masks: (0..vectors * loads).map(mask).collect(),
            plane,
        })
    }

    /// The plane `out` of the result of the plane `x` and the windows `w`.
    pub fn convolve(&self, x: &[f32], w: &[f32], out: &mut [f32]) {
        assert!(x.len() >= self.height.input * self.row.input);
        assert!(w.len() >= self.height.kernel * self.row.kernel);
        assert!(out.len() >= self.height.output * self.row.output);
        // SAFETY: the machine has AVX-512, and the operands are as large as the geometry says.
        unsafe { (self.plane)(self, x, w, out) }
    }
}

/// # Safety
/// The machine has AVX-512; the operands are as large as the geometry says, whose windows are `K` by `K` with step `S`.
#[target_feature(enable = "avx512f")]
unsafe fn plane<const K: usize, const S: usize>(
    of: &Windows,
    x: &[f32],
    w: &[f32],
    out: &mut [f32],
) {
    let (height, row) = (of.height, of.row);
    let masks = of.masks.chunks_exact(K.div_ceil(S));
    for start in (0..height.output).step_by(ROWS) {
        let rows = start..height.output.min(start + ROWS);
        for (vector, masks) in masks.clone().enumerate() {
            let column = vector * LANES;
            let stored = lanes(row.output - column);
            let first = (column * S).wrapping_sub(row.padding);
            // SAFETY: as the caller promises.
            unsafe {
                tile::<K, S>(
                    of,
                    (x, first),
                    w,
                    masks,
                    (out, column, stored),
                    rows.clone(),
                )
            };
        }
    }
}

/// The lanes of `n` elements, at most a vector.
fn lanes(n: usize) -> __mmask16 {
    (u32::MAX >> (32 - n.min(LANES))) as u16
}

/// A statement for each input row of a tile of output rows, with its number as a constant: so sums stay in registers.
macro_rules! each_row {
    ($count:expr, $row:ident, $body:block) => {
        each_row!($count, $row, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18)
    };
    ($count:expr, $row:ident, $body:block, $($number:literal)*) => {
        $(if $number < $count {
            let $row: usize = $number;
            $body
        })*
    };
}

/// # Safety
/// As of [`plane`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn tile<const K: usize, const S: usize>(
    of: &Windows,
    (x, first): (&[f32], usize),
    w: &[f32],
    masks: &[[__mmask16; 2]],
    (out, column, stored): (&mut [f32], usize, __mmask16),
    rows: Range<usize>,
) {
    let (height, row) = (of.height, of.row);
    let (top, w) = ((rows.start * S).wrapping_sub(height.padding), w.as_ptr());
    let mut sums = [_mm512_setzero_ps(); ROWS];
    each_row!((ROWS - 1) * S + K, i, {
        let at = top.wrapping_add(i);
        if at < height.input {
            let line = x.as_ptr().wrapping_add(at * row.input).wrapping_add(first);
            for (load, mask) in masks.iter().enumerate().take(K.div_ceil(S)) {
                // SAFETY: masks name elements of the row alone, and the window has as many.
                unsafe {
                    let taps = taps::<S>(line.wrapping_add(S * load), mask);
                    for (t, x) in taps.into_iter().enumerate().take(K - S * load) {
                        let factor = w.add(S * load + t);
                        for (r, sum) in sums.iter_mut().enumerate() {
                            if i >= r * S && i - r * S < K {
                                let factor = _mm512_set1_ps(*factor.add((i - r * S) * K));
                                *sum = _mm512_fmadd_ps(factor, x, *sum);
                            }
                        }
                    }
                }
            }
        }
    });
    for (line, sum) in rows.zip(sums) {
        let to = out.as_mut_ptr().wrapping_add(line * row.output + column);
        // SAFETY: the lanes that are stored are columns of the row.
        unsafe { _mm512_mask_storeu_ps(to, stored, sum) };
    }
}

/// What `S` taps from `from` on read.
///
/// # Safety
/// Elements that the masks name may be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn taps<const S: usize>(from: *const f32, mask: &[__mmask16; 2]) -> [__m512; S] {
    // SAFETY: as the caller promises.
    let low = unsafe { _mm512_maskz_loadu_ps(mask[0], from) };
    let mut taps = [low; S];
    if S == 2 {
        // SAFETY: as above.
        let high = unsafe { _mm512_maskz_loadu_ps(mask[1], from.wrapping_add(LANES)) };
        for (t, tap) in taps.iter_mut().enumerate() {
            *tap = _mm512_permutex2var_ps(low, alternate(t as i32), high);
        }
    }
    taps
}

/// The numbers of every second element of two vectors, from the first on.
#[inline]
#[target_feature(enable = "avx512f")]
fn alternate(first: i32) -> __m512i {
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    _mm512_add_epi32(even, _mm512_set1_epi32(first))
}
