//! Windows of 3, 5 or 7 by as many taps over binary32 with AVX-512: a plane is read where it lies, the zeros around it by
//! masks.
//!
//! A tile of output rows by a vector of columns is kept in registers while the input rows that it reads go by: each is
//! loaded once for every tap of a row of the window, and added to all output rows that it belongs to.

use crate::cpu::conv::{Axis, Geometry};
use ferrotrace_runtime::Isa;
use std::arch::x86_64::*;
use std::ops::Range;

/// Output rows of a tile.
const ROWS: usize = 4;
/// Columns of a vector.
const LANES: usize = 16;

/// The loop over the tiles of a plane.
type Plane = unsafe fn(&Windows, &[f32], &[f32], &mut [f32]);

/// How planes are gone through.
pub(super) struct Windows {
    height: Axis,
    row: Axis,
    /// By vector of columns and tap of a row: which lanes of one or two vectors of the input are read.
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
        let vectors = row.output.div_ceil(LANES);
        let mask = |i: usize| {
            let (vector, tap) = (i / row.kernel, i % row.kernel);
            let first = vector * LANES;
            let lanes = LANES.min(row.output - first);
            let mut bits = 0u32;
            for lane in 0..lanes {
                if row.source(first + lane, tap).is_some() {
                    bits |= 1 << (lane * row.stride);
                }
            }
            [bits as u16, (bits >> 16) as u16]
        };
        Some(Windows {
            height,
            row,
            masks: (0..vectors * row.kernel).map(mask).collect(),
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
    for (vector, masks) in of.masks.chunks_exact(K).enumerate() {
        let column = vector * LANES;
        let stored = lanes(row.output - column);
        let first = (column * S).wrapping_sub(row.padding);
        for start in (0..height.output).step_by(ROWS) {
            let rows = start..height.output.min(start + ROWS);
            // SAFETY: as the caller promises.
            unsafe { tile::<K, S>(of, (x, first), w, masks, (out, column, stored), rows) };
        }
    }
}

/// The lanes of `n` elements, at most a vector.
fn lanes(n: usize) -> __mmask16 {
    (u32::MAX >> (32 - n.min(LANES))) as u16
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
    let mut sums = [_mm512_setzero_ps(); ROWS];
    // Unrolled: `K`, `S` and `ROWS` are constants, and so is which sums a row belongs to.
    for i in 0..(ROWS - 1) * S + K {
        let at = (rows.start * S + i).wrapping_sub(height.padding);
        if at >= height.input {
            continue;
        }
        let line = x.as_ptr().wrapping_add(at * row.input).wrapping_add(first);
        for t in 0..K {
            let from = line.wrapping_add(t);
            // SAFETY: masks name elements of the row alone.
            let x = unsafe {
                let low = _mm512_maskz_loadu_ps(masks[t][0], from);
                match S {
                    1 => low,
                    _ => {
                        let high = _mm512_maskz_loadu_ps(masks[t][1], from.wrapping_add(LANES));
                        _mm512_permutex2var_ps(low, even(), high)
                    }
                }
            };
            for (r, sum) in sums.iter_mut().enumerate() {
                if i >= r * S && i - r * S < K {
                    let factor = _mm512_set1_ps(w[(i - r * S) * K + t]);
                    *sum = _mm512_fmadd_ps(factor, x, *sum);
                }
            }
        }
    }
    for (line, sum) in rows.zip(sums) {
        let to = out.as_mut_ptr().wrapping_add(line * row.output + column);
        // SAFETY: the lanes that are stored are columns of the row.
        unsafe { _mm512_mask_storeu_ps(to, stored, sum) };
    }
}

/// The numbers of the even elements of two vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn even() -> __m512i {
    _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
}
