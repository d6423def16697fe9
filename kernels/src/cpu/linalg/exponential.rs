//! The exponential of a matrix by Padé approximants of scaled matrices, which are squared (Higham, The scaling and squaring
//! method for the matrix exponential revisited, 2005).

use super::block::product;
use super::row::pair;
use super::triangular::{Triangular, solve};
use super::{Float, lu};

/// Degrees of approximants and up to which 1-norm they have the full precision of the type's numbers.
const SINGLE: [(usize, f64); 3] = [
    (3, 4.258_730_016_922_831e-1),
    (5, 1.880_152_677_804_762),
    (7, 3.925_724_783_138_66),
];
const DOUBLE: [(usize, f64); 5] = [
    (3, 1.495_585_217_958_292e-2),
    (5, 2.539_398_330_063_23e-1),
    (7, 9.504_178_996_162_932e-1),
    (9, 2.097_847_961_257_068),
    (13, 5.371_920_351_148_152),
];

/// The exponential of a matrix of `n` rows in its place; NaN where an element is not finite.
pub fn exponential<T: Float>(a: &mut [T], n: usize) {
    let norm = norm(a, n);
    if !norm.is_finite() {
        return a.fill(T::from_f64(f64::NAN));
    }
    let forms: &[(usize, f64)] = match T::EPSILON.to_f64() < 1e-10 {
        true => &DOUBLE,
        false => &SINGLE,
    };
    let fits = forms.iter().find(|(_, most)| norm <= *most);
    let (degree, squarings) = match (fits, forms.last()) {
        (Some(&(degree, _)), _) => (degree, 0),
        (None, Some(&(degree, most))) => (degree, (norm / most).log2().ceil() as i32),
        (None, None) => return,
    };
    // A power of two at a time, so that the factor neither overflows nor vanishes.
    let half = T::from_f64(0.5);
    for _ in 0..squarings {
        a.iter_mut().for_each(|x| *x = *x * half);
    }
    approximate(a, n, degree);
    let mut squared = vec![T::ZERO; n * n];
    for _ in 0..squarings {
        product(a, a, n, &mut squared);
        a.copy_from_slice(&squared);
    }
}

/// The greatest sum of magnitudes of a column.
fn norm<T: Float>(a: &[T], n: usize) -> f64 {
    let mut sums = vec![0.0; n];
    for row in a.chunks_exact(n.max(1)) {
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum += x.to_f64().abs();
        }
    }
    let larger = |most: f64, sum: f64| {
        if sum > most || sum.is_nan() {
            sum
        } else {
            most
        }
    };
    sums.into_iter().fold(0.0, larger)
}

/// The coefficients of the approximant's numerator, from the constant on; those of the denominator differ in the signs of odd
/// powers.
fn coefficients(degree: usize) -> Vec<f64> {
    let mut all = vec![1.0];
    for k in 1..=degree {
        let factor = (degree + 1 - k) as f64 / ((2 * degree + 1 - k) * k) as f64;
        all.push(all[k - 1] * factor);
    }
    all
}

/// The approximant (V − U)⁻¹·(V + U) of a matrix in its place, where U holds odd powers and V even ones.
fn approximate<T: Float>(a: &mut [T], n: usize, degree: usize) {
    let c = coefficients(degree);
    let fresh = || vec![T::ZERO; n * n];
    let (mut inner, mut odd) = (fresh(), fresh());
    // Even powers from the second on, up to the sixth where higher ones are products of it.
    let count = if degree > 9 { 3 } else { degree / 2 };
    let mut powers: Vec<Vec<T>> = Vec::with_capacity(count);
    for i in 0..count {
        let mut next = fresh();
        match i {
            0 => product(a, a, n, &mut next),
            _ => product(&powers[i - 1], &powers[0], n, &mut next),
        }
        powers.push(next);
    }
    let sum = |out: &mut [T], terms: &mut dyn Iterator<Item = (usize, f64)>| {
        for (i, c) in terms {
            let c = T::from_f64(c);
            for (out, &x) in out.iter_mut().zip(&powers[i]) {
                *out = *out + c * x;
            }
        }
    };
    // Coefficients of the same parity; terms behind the third power of the square are the sixth power's multiples.
    let parity = |from: usize| {
        c.iter()
            .copied()
            .skip(from)
            .step_by(2)
            .collect::<Vec<f64>>()
    };
    let mut half = |out: &mut [T], from: usize| {
        let c = parity(from);
        if c.len() > count + 1 {
            inner.fill(T::ZERO);
            sum(&mut inner, &mut c[count + 1..].iter().copied().enumerate());
            product(&powers[count - 1], &inner, n, out);
        }
        sum(out, &mut c[1..=count].iter().copied().enumerate());
        for i in 0..n {
            out[i * n + i] = out[i * n + i] + T::from_f64(c[0]);
        }
    };
    let mut even = fresh();
    half(&mut even, 0);
    let mut factor = fresh();
    half(&mut factor, 1);
    product(a, &factor, n, &mut odd);
    for ((even, odd), x) in even.iter_mut().zip(&odd).zip(a.iter_mut()) {
        (*even, *x) = (*even - *odd, *even + *odd);
    }
    divide(&mut even, a, n);
}

/// Solves by a matrix, which is overwritten, in place of the right-hand sides.
fn divide<T: Float>(by: &mut [T], x: &mut [T], n: usize) {
    let (mut order, mut exchanged) = (vec![0; n], vec![0; n]);
    lu(by, n, &mut order, &mut exchanged);
    for (j, &other) in exchanged
        .iter()
        .enumerate()
        .filter(|(j, other)| j != *other)
    {
        let (x, y) = pair(x, n, j, other);
        x.swap_with_slice(y);
    }
    let form = |upper, unit| Triangular { upper, unit };
    solve(by, n, x, n, form(false, true));
    solve(by, n, x, n, form(true, false));
}
