//! Eigenvectors of a quasi-triangular matrix by substitution, in the basis of the matrix that it is of.

use crate::cpu::linalg::Float;
use crate::cpu::linalg::row::{add, dot};

/// A complex number: its real and imaginary parts.
type Complex<T> = (T, T);

fn times<T: Float>(x: Complex<T>, y: Complex<T>) -> Complex<T> {
    (x.0 * y.0 - x.1 * y.1, x.0 * y.1 + x.1 * y.0)
}

fn minus<T: Float>(x: Complex<T>, y: Complex<T>) -> Complex<T> {
    (x.0 - y.0, x.1 - y.1)
}

/// x / y by Smith's formula, which does not overflow.
fn over<T: Float>(x: Complex<T>, y: Complex<T>) -> Complex<T> {
    if y.0.abs() >= y.1.abs() {
        let ratio = y.1 / y.0;
        let by = y.0 + y.1 * ratio;
        return ((x.0 + x.1 * ratio) / by, (x.1 - x.0 * ratio) / by);
    }
    let ratio = y.0 / y.1;
    let by = y.0 * ratio + y.1;
    ((x.0 * ratio + x.1) / by, (x.1 * ratio - x.0) / by)
}

fn size<T: Float>(x: Complex<T>) -> T {
    x.0.abs() + x.1.abs()
}

/// Writes the eigenvectors of a matrix as columns, by its quasi-triangular form `t`, the rows of its `basis` and the `factors`
/// of balancing.
pub fn vectors<T: Float>(
    t: &[T],
    n: usize,
    (re, im): (&[T], &[T]),
    basis: &[T],
    factors: &[T],
    (of_re, of_im): (&mut [T], &mut [T]),
) {
    let magnitude = t.iter().fold(
        T::ZERO,
        |most, x| if x.abs() > most { x.abs() } else { most },
    );
    let least = T::EPSILON * magnitude + T::LEAST;
    let mut y = (vec![T::ZERO; n], vec![T::ZERO; n]);
    let mut v = (vec![T::ZERO; n], vec![T::ZERO; n]);
    let mut k = 0;
    while k < n {
        let value = (re[k], im[k]);
        let pair = im[k] != T::ZERO;
        let last = if pair { k + 1 } else { k };
        substitute(t, n, value, (k, last), least, &mut y);
        v.0.fill(T::ZERO);
        v.1.fill(T::ZERO);
        for (i, row) in basis.chunks_exact(n).enumerate().take(last + 1) {
            add(&mut v.0, y.0[i], row);
            if pair {
                add(&mut v.1, y.1[i], row);
            }
        }
        normalise(&mut v, factors);
        for i in 0..n {
            (of_re[i * n + k], of_im[i * n + k]) = (v.0[i], v.1[i]);
            if pair {
                (of_re[i * n + k + 1], of_im[i * n + k + 1]) = (v.0[i], -v.1[i]);
            }
        }
        k = last + 1;
    }
}

/// Solves (t − value)·y = 0 from the block of rows `first` to `last`, whose eigenvalue it is, upwards.
fn substitute<T: Float>(
    t: &[T],
    n: usize,
    value: Complex<T>,
    (first, last): (usize, usize),
    least: T,
    y: &mut (Vec<T>, Vec<T>),
) {
    let at = |i: usize, j: usize| t[i * n + j];
    let complex = first < last;
    (y.0[last], y.1[last]) = (T::ONE, T::ZERO);
    if complex {
        // The row of the block whose other element is the greater.
        let (above, below) = (at(first, last), at(last, first));
        if above.abs() >= below.abs() {
            (y.0[first], y.1[first]) = (T::ONE, T::ZERO);
            (y.0[last], y.1[last]) = ((value.0 - at(first, first)) / above, value.1 / above);
        } else {
            (y.0[first], y.1[first]) = ((value.0 - at(last, last)) / below, value.1 / below);
        }
    }
    let mut end = first;
    while end > 0 {
        let i = end - 1;
        let rest = |row: usize| {
            let known = &t[row * n + end..row * n + last + 1];
            let sum = |y: &[T]| -dot(known, &y[end..last + 1]);
            (sum(&y.0), if complex { sum(&y.1) } else { T::ZERO })
        };
        let own = minus((at(i, i), T::ZERO), value);
        if i == 0 || at(i, i - 1) == T::ZERO {
            let own = if size(own) < least {
                (least, T::ZERO)
            } else {
                own
            };
            (y.0[i], y.1[i]) = over(rest(i), own);
            end = i;
        } else {
            let (b, c) = ((at(i - 1, i), T::ZERO), (at(i, i - 1), T::ZERO));
            let above = minus((at(i - 1, i - 1), T::ZERO), value);
            let (r, s) = (rest(i - 1), rest(i));
            let det = minus(times(above, own), times(b, c));
            let det = if size(det) < least * least {
                (least * least, T::ZERO)
            } else {
                det
            };
            let x = over(minus(times(r, own), times(b, s)), det);
            let z = over(minus(times(above, s), times(r, c)), det);
            (y.0[i - 1], y.1[i - 1]) = x;
            (y.0[i], y.1[i]) = z;
            end = i - 1;
        }
        rescale(&mut y.0[end..last + 1], &mut y.1[end..last + 1]);
    }
}

/// Divides a vector whose elements would overflow.
fn rescale<T: Float>(re: &mut [T], im: &mut [T]) {
    let large = T::ONE / (T::EPSILON * T::EPSILON);
    let first = re[0].abs() + im[0].abs();
    let second = re.get(1).map_or(T::ZERO, |x| x.abs()) + im.get(1).map_or(T::ZERO, |x| x.abs());
    if first > large || second > large {
        let by = if first > second { first } else { second };
        re.iter_mut().chain(im).for_each(|x| *x = *x / by);
    }
}

/// Undoes the balancing, and takes a vector to norm 1 with a real greatest element.
fn normalise<T: Float>(v: &mut (Vec<T>, Vec<T>), factors: &[T]) {
    for ((re, im), &factor) in v.0.iter_mut().zip(&mut v.1).zip(factors) {
        (*re, *im) = (*re * factor, *im * factor);
    }
    let mut most = (T::ZERO, 0);
    for (i, (re, im)) in v.0.iter().zip(&v.1).enumerate() {
        let size = re.hypot(*im);
        if size > most.0 {
            most = (size, i);
        }
    }
    let (greatest, at) = most;
    if greatest == T::ZERO {
        return;
    }
    let elements = v.0.iter().zip(&v.1);
    let square = elements.fold(T::ZERO, |sum, (&re, &im)| {
        let (re, im) = (re / greatest, im / greatest);
        sum + re * re + im * im
    });
    let norm = square.sqrt() * greatest;
    // A real vector keeps its sign.
    let turn = match v.1[at] == T::ZERO {
        true => (T::ONE, T::ZERO),
        false => (v.0[at] / greatest, -v.1[at] / greatest),
    };
    for (re, im) in v.0.iter_mut().zip(&mut v.1) {
        (*re, *im) = times((*re / norm, *im / norm), turn);
    }
    if turn.1 != T::ZERO {
        v.1[at] = T::ZERO;
    }
}
