//! The QR iteration of a bidiagonal matrix (Golub and Kahan, Calculating the singular values and pseudo-inverse of a matrix,
//! 1965), without a shift where a singular value is as good as 0 (Demmel and Kahan, Accurate singular values of bidiagonal
//! matrices, 1990).

use super::super::strips::Turn;
use super::bidiagonal::Bidiagonal;
use crate::cpu::linalg::{Fault, Float};
use std::ops::Range;

/// Steps for each singular value; two are usual.
const STEPS: usize = 60;

/// A rotation by the angle of a pair of numbers.
#[derive(Clone, Copy)]
pub(super) struct Rotation<T> {
    c: T,
    s: T,
}

impl<T: Float> Rotation<T> {
    /// The rotation that takes (f, g) to (r, 0), and r.
    fn of(f: T, g: T) -> (Rotation<T>, T) {
        if g == T::ZERO {
            let (c, s) = (T::ONE, T::ZERO);
            return (Rotation { c, s }, f);
        }
        let r = f.hypot(g);
        let (c, s) = (f / r, g / r);
        (Rotation { c, s }, r)
    }

    /// (c·f + s·g, c·g − s·f).
    fn turned(self, f: T, g: T) -> (T, T) {
        (self.c * f + self.s * g, self.c * g - self.s * f)
    }

    /// It as a rotation of columns `at` and `at + 1`.
    pub fn at(self, at: usize) -> Turn<T> {
        let (at, c, s) = (at as u32, self.c, -self.s);
        Turn { at, c, s }
    }
}

/// Takes a bidiagonal matrix to a diagonal one, whose elements may be negative. `turn` is told the rotations of columns i and
/// i + 1 of the right and of the left vectors.
///
/// # Errors
/// The iteration does not end.
pub(super) fn iterate<T: Float>(
    of: &mut Bidiagonal<T>,
    mut turn: impl FnMut(usize, Rotation<T>, Rotation<T>),
) -> Result<(), Fault> {
    let (d, e) = (&mut of.d, &mut of.e);
    let greatest = d
        .iter()
        .chain(e.iter())
        .fold(T::ZERO, |most, x| match x.abs() > most {
            true => x.abs(),
            false => most,
        });
    let least = T::LEAST / T::EPSILON * greatest;
    let small = |d: &[T], e: &[T], i: usize| {
        e[i].abs() <= T::EPSILON * (d[i].abs() + d[i + 1].abs()) || e[i].abs() <= least
    };
    let mut end = d.len().saturating_sub(1);
    let mut steps = 0;
    while end > 0 {
        if small(d, e, end - 1) {
            e[end - 1] = T::ZERO;
            (end, steps) = (end - 1, 0);
            continue;
        }
        if steps == STEPS {
            return Err(Fault::Diverged);
        }
        steps += 1;
        let start = (0..end - 1)
            .rev()
            .find(|&i| small(d, e, i))
            .map_or(0, |i| i + 1);
        if start > 0 {
            e[start - 1] = T::ZERO;
        }
        let block = start..end;
        match shift(d, e, block.clone()) {
            Some(shift) => shifted(d, e, block, shift, &mut turn),
            None => unshifted(d, e, block, &mut turn),
        }
    }
    Ok(())
}

/// The singular value of the last two rows of a block that is nearer to the last element; nothing where it, or a singular value
/// of the block, is too small to shift by without losing digits.
fn shift<T: Float>(d: &[T], e: &[T], block: Range<usize>) -> Option<T> {
    let Range { start, end } = block;
    // A bound of the least singular value, and the greatest element.
    let (mut part, mut greatest) = (d[start].abs(), d[start].abs());
    let mut least = part;
    for i in start..end {
        let (next, above) = (d[i + 1].abs(), e[i].abs());
        part = if part == T::ZERO {
            part
        } else {
            next * (part / (part + above))
        };
        least = if part < least { part } else { least };
        for x in [next, above] {
            greatest = if x > greatest { x } else { greatest };
        }
    }
    let count = T::from_f64((end - start + 1) as f64);
    if count * least <= T::EPSILON * greatest {
        return None;
    }
    let shift = lesser(d[end - 1].abs(), e[end - 1].abs(), d[end].abs());
    let ratio = shift / d[start].abs();
    (ratio * ratio > T::EPSILON).then_some(shift)
}

/// The lesser singular value of the upper triangle of rows (f, g) and (0, h), none of them negative.
fn lesser<T: Float>(f: T, g: T, h: T) -> T {
    let (less, more) = if f < h { (f, h) } else { (h, f) };
    if less == T::ZERO {
        return T::ZERO;
    }
    let (two, ratio) = (T::from_f64(2.0), less / more);
    let (sum, apart) = (T::ONE + ratio, (more - less) / more);
    if g < more {
        let square = (g / more) * (g / more);
        let root = (sum * sum + square).sqrt() + (apart * apart + square).sqrt();
        return less * (two / root);
    }
    let inverse = more / g;
    if inverse == T::ZERO {
        return less * more / g;
    }
    let (near, far) = (sum * inverse, apart * inverse);
    let root = T::ONE / ((T::ONE + near * near).sqrt() + (T::ONE + far * far).sqrt());
    two * (less * root * inverse)
}

/// One step with a shift.
fn shifted<T: Float>(
    d: &mut [T],
    e: &mut [T],
    block: Range<usize>,
    shift: T,
    turn: &mut impl FnMut(usize, Rotation<T>, Rotation<T>),
) {
    let Range { start, end } = block;
    let mut f = (d[start].abs() - shift) * (T::ONE.signed(d[start]) + shift / d[start]);
    let mut g = e[start];
    for i in start..end {
        let (right, r) = Rotation::of(f, g);
        if i > start {
            e[i - 1] = r;
        }
        (f, e[i]) = right.turned(d[i], e[i]);
        (g, d[i + 1]) = (right.s * d[i + 1], right.c * d[i + 1]);
        let (left, r) = Rotation::of(f, g);
        d[i] = r;
        (f, d[i + 1]) = left.turned(e[i], d[i + 1]);
        if i + 1 < end {
            (g, e[i + 1]) = (left.s * e[i + 1], left.c * e[i + 1]);
        }
        turn(i, right, left);
    }
    e[end - 1] = f;
}

/// One step with a shift of 0, which keeps the digits of small singular values.
fn unshifted<T: Float>(
    d: &mut [T],
    e: &mut [T],
    block: Range<usize>,
    turn: &mut impl FnMut(usize, Rotation<T>, Rotation<T>),
) {
    let Range { start, end } = block;
    let (mut c, mut left) = (
        T::ONE,
        Rotation {
            c: T::ONE,
            s: T::ZERO,
        },
    );
    for i in start..end {
        let (right, r) = Rotation::of(d[i] * c, e[i]);
        if i > start {
            e[i - 1] = left.s * r;
        }
        (left, d[i]) = Rotation::of(left.c * r, d[i + 1] * right.s);
        c = right.c;
        turn(i, right, left);
    }
    let h = d[end] * c;
    (d[end], e[end - 1]) = (h * left.c, h * left.s);
}
