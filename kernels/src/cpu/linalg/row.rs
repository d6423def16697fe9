//! Loops over rows, compiled for the machine's vectors. A row's length alone says how sums are cut.

use super::Float;
use crate::cpu::isa::{Loop, dispatch};

/// Running sums of a dot product.
const LANES: usize = 16;

struct Dot<'a, T> {
    x: &'a [T],
    y: &'a [T],
}

impl<T: Float> Loop for Dot<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run(self) -> T {
        let n = self.x.len().min(self.y.len());
        let whole = n / LANES * LANES;
        let (x, y) = (&self.x[..n], &self.y[..n]);
        let mut sums = [T::ZERO; LANES];
        for (x, y) in x[..whole]
            .chunks_exact(LANES)
            .zip(y[..whole].chunks_exact(LANES))
        {
            for l in 0..LANES {
                sums[l] = sums[l] + x[l] * y[l];
            }
        }
        let rest = x[whole..].iter().zip(&y[whole..]);
        rest.fold(total(sums), |sum, (&x, &y)| sum + x * y)
    }
}

/// The sum of running sums.
#[inline(always)]
fn total<T: Float>(mut sums: [T; LANES]) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            sums[l] = sums[l] + sums[l + width];
        }
        width /= 2;
    }
    sums[0]
}

/// Σ x·y.
#[inline]
pub fn dot<T: Float>(x: &[T], y: &[T]) -> T {
    dispatch(Dot { x, y })
}

struct Add<'a, T> {
    to: &'a mut [T],
    factor: T,
    x: &'a [T],
}

impl<T: Float> Loop for Add<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (to, &x) in self.to.iter_mut().zip(self.x) {
            *to = *to + self.factor * x;
        }
    }
}

/// to += factor · x.
#[inline]
pub fn add<T: Float>(to: &mut [T], factor: T, x: &[T]) {
    dispatch(Add { to, factor, x });
}

struct Step<'a, T> {
    row: &'a mut [T],
    first: (T, &'a [T]),
    second: (T, &'a [T]),
    with: Option<&'a [T]>,
}

impl<T: Float> Loop for Step<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run(self) -> T {
        let n = self.row.len();
        let ((f, x), (g, y)) = (self.first, self.second);
        let (row, x, y) = (self.row, &x[..n], &y[..n]);
        let Some(with) = self.with else {
            for ((to, &x), &y) in row.iter_mut().zip(x).zip(y) {
                *to = *to - f * x - g * y;
            }
            return T::ZERO;
        };
        let (with, whole) = (&with[..n], n / LANES * LANES);
        let (lanes, rest) = row.split_at_mut(whole);
        let mut sums = [T::ZERO; LANES];
        let others = x.chunks_exact(LANES).zip(y.chunks_exact(LANES));
        let all = lanes.chunks_exact_mut(LANES).zip(others);
        for ((row, (x, y)), with) in all.zip(with.chunks_exact(LANES)) {
            let mut now = [T::ZERO; LANES];
            for l in 0..LANES {
                now[l] = row[l] - f * x[l] - g * y[l];
            }
            row.copy_from_slice(&now);
            for l in 0..LANES {
                sums[l] = sums[l] + now[l] * with[l];
            }
        }
        let others = x[whole..].iter().zip(&y[whole..]).zip(&with[whole..]);
        rest.iter_mut()
            .zip(others)
            .fold(total(sums), |sum, (row, ((&x, &y), &with))| {
                *row = *row - f * x - g * y;
                sum + *row * with
            })
    }
}

/// row −= f·x + g·y, and its product with another row, if there is one.
#[inline]
pub fn step<T: Float>(row: &mut [T], first: (T, &[T]), second: (T, &[T]), with: Option<&[T]>) -> T {
    dispatch(Step {
        row,
        first,
        second,
        with,
    })
}

struct Turn<'a, T> {
    x: &'a mut [T],
    y: &'a mut [T],
    c: T,
    s: T,
}

impl<T: Float> Loop for Turn<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (x, y) in self.x.iter_mut().zip(self.y) {
            let (a, b) = (*x, *y);
            *x = self.c * a - self.s * b;
            *y = self.s * a + self.c * b;
        }
    }
}

/// Turns two rows by an angle of cosine `c` and sine `s`: (c·x − s·y, s·x + c·y).
#[inline]
pub fn turn<T: Float>(x: &mut [T], y: &mut [T], (c, s): (T, T)) {
    dispatch(Turn { x, y, c, s });
}

/// Rows `i` and `j` of rows of `n` elements, i < j.
pub fn pair<T>(a: &mut [T], n: usize, i: usize, j: usize) -> (&mut [T], &mut [T]) {
    let (head, tail) = a.split_at_mut(j * n);
    (&mut head[i * n..(i + 1) * n], &mut tail[..n])
}

/// The greatest magnitude; NaN if there is one.
pub fn greatest<T: Float>(x: &[T]) -> T {
    let larger = |most: T, &x: &T| {
        let x = x.abs();
        if x > most || x.is_nan() { x } else { most }
    };
    x.iter().fold(T::ZERO, larger)
}

/// The power of two to divide the elements by, so that their squares neither overflow nor vanish; `None` where one of them
/// is not finite.
pub fn scale<T: Float>(x: &[T]) -> Option<T> {
    let greatest = greatest(x);
    greatest.is_finite().then(|| match greatest > T::ZERO {
        true => greatest.binade(),
        false => T::ONE,
    })
}

/// The norm of a row, which does not overflow.
pub fn norm<T: Float>(x: &[T]) -> T {
    let greatest = greatest(x);
    if greatest == T::ZERO {
        return greatest;
    }
    let scale = greatest.binade();
    let sum = x.iter().fold(T::ZERO, |sum, &x| {
        let x = x / scale;
        sum + x * x
    });
    sum.sqrt() * scale
}

/// Rows and columns exchanged: `x` has `rows` of them.
pub fn transposed<T: Float>(x: &[T], rows: usize, columns: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(x.len());
    for j in 0..columns {
        out.extend((0..rows).map(|i| x[i * columns + j]));
    }
    out
}
