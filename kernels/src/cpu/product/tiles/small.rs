//! Factors of less than 2⁻¹²⁶ in magnitude, which the processor takes for zeros.
//!
//! In tiles they are ±2⁻¹²⁶, so that their products with infinities are infinite; what they are less is added in binary64.

use super::source::Lines;
use super::tile::{ELEMENTS, TERMS};

/// The least number that the processor does not take for zero: 2⁻¹²⁶.
pub(super) const LEAST: u16 = 0x0080;

/// A line and a term.
pub(super) type Place = (usize, usize);

fn is_small(x: u16) -> bool {
    (x & 0x7fff).wrapping_sub(1) < LEAST - 1
}

/// Replaces such factors of a tile, whose rows are lines, or pairs of terms; tells where they are.
///
/// # Safety
/// The tile may be read and written.
#[cold]
pub(super) unsafe fn replace(tile: *mut u16, pairs: bool, mut tell: impl FnMut(Place)) {
    for at in 0..ELEMENTS {
        // SAFETY: the caller gives a tile.
        let x = unsafe { &mut *tile.add(at) };
        if is_small(*x) {
            *x = *x & 0x8000 | LEAST;
            let (row, within) = (at / TERMS, at % TERMS);
            tell(match pairs {
                true => (within / 2, 2 * row + within % 2),
                false => (row, within),
            });
        }
    }
}

fn wide(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

/// Adds what products by replaced factors lack to sums: of the factors at `places` of `lines`, in order, by all of the other
/// matrix's `count` lines. A sum of two lines is as far from `to` as their numbers by its distances.
///
/// # Safety
/// The factors may be read; the sums are this thread's alone.
pub(super) unsafe fn correct(
    lines: Lines,
    places: &[Place],
    (others, count): (Lines, usize),
    to: *mut f32,
    (by_line, by_other): (usize, usize),
) {
    let mut totals = vec![0.0; count];
    for places in places.chunk_by(|a, b| a.0 == b.0) {
        let to = to.wrapping_add(places[0].0 * by_line);
        for (i, total) in totals.iter_mut().enumerate() {
            // SAFETY: as the caller promises.
            *total = f64::from(unsafe { *to.add(i * by_other) });
        }
        for &(line, term) in places {
            // SAFETY: as the caller promises.
            let x = unsafe { *lines.from(line, term).first.cast::<u16>() };
            let lacks = wide(x) - wide(x & 0x8000 | LEAST);
            for (i, total) in totals.iter_mut().enumerate() {
                // SAFETY: as the caller promises.
                let other = wide(unsafe { *others.from(i, term).first.cast() });
                if other.is_finite() {
                    *total += lacks * other;
                }
            }
        }
        for (i, &total) in totals.iter().enumerate() {
            // SAFETY: as the caller promises.
            unsafe { *to.add(i * by_other) = total as f32 };
        }
    }
}
