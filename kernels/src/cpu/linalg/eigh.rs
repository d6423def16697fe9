//! Eigenvalues of symmetric matrices: reflections to a tridiagonal matrix, then the QL iteration with implicit shifts
//! (Golub and Van Loan, Matrix Computations, 8.3; Bowdler, Martin, Reinsch and Wilkinson, The QR and QL algorithms for
//! symmetric matrices, 1968).

use super::qr::reflector;
use super::row::{add, dot, pair, scale, transposed, turn};
use super::{Fault, Float};
use crate::cpu::dense::rows;

/// Steps for each eigenvalue; two or three are usual.
const STEPS: usize = 60;

/// The eigenvalues in ascending order, and the eigenvectors as columns in place of the matrix, whose lower triangle is read.
///
/// # Errors
/// An element is not finite; the iteration does not end.
pub fn eigh<T: Float>(a: &mut [T], n: usize, values: &mut [T]) -> Result<(), Fault> {
    for i in 0..n {
        for j in i + 1..n {
            a[i * n + j] = a[j * n + i];
        }
    }
    let scale = scale(a).ok_or(Fault::NotFinite)?;
    a.iter_mut().for_each(|x| *x = *x / scale);
    let (mut d, mut e) = (vec![T::ZERO; n], vec![T::ZERO; n]);
    tridiagonal(a, n, &mut d, &mut e);
    let mut vectors = transposed(a, n, n);
    iterate(&mut d, &mut e, &mut vectors, n)?;
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| d[i].partial_cmp(&d[j]).unwrap_or(std::cmp::Ordering::Equal));
    for (j, &from) in order.iter().enumerate() {
        values[j] = d[from] * scale;
        for i in 0..n {
            a[i * n + j] = vectors[from * n + i];
        }
    }
    Ok(())
}

/// Takes a symmetric matrix to a tridiagonal one, of diagonal `d`, with `e` below it, and leaves the orthogonal matrix that
/// does so.
fn tridiagonal<T: Float>(a: &mut [T], n: usize, d: &mut [T], e: &mut [T]) {
    let mut factors = vec![T::ZERO; n];
    let (mut v, mut w) = (vec![T::ZERO; n], vec![T::ZERO; n]);
    let half = T::from_f64(0.5);
    for k in 0..n.saturating_sub(1) {
        let first = k + 1;
        d[k] = a[k * n + k];
        let v = &mut v[first..n];
        v.copy_from_slice(&a[k * n + first..(k + 1) * n]);
        let factor = reflector(v);
        (e[k], v[0], factors[k]) = (v[0], T::ONE, factor);
        // Row k is not read again: it keeps the vector.
        a[k * n + first..(k + 1) * n].copy_from_slice(v);
        if factor == T::ZERO {
            continue;
        }
        let (v, rest, w) = (&*v, &mut a[first * n..], &mut w[first..n]);
        rows(w, 1, n - first, |from, w| {
            for (i, w) in w.iter_mut().enumerate() {
                *w = factor * dot(&rest[(from + i) * n + first..(from + i + 1) * n], v);
            }
        });
        let along = half * factor * dot(w, v);
        add(w, -along, v);
        let w = &*w;
        rows(rest, n, 2 * (n - first), |from, rest| {
            for (i, row) in rest.chunks_exact_mut(n).enumerate() {
                add(&mut row[first..], -v[from + i], w);
                add(&mut row[first..], -w[from + i], v);
            }
        });
    }
    if n > 0 {
        d[n - 1] = a[n * n - 1];
        a[n * n - 1] = T::ONE;
    }
    product(a, n, &factors, &mut w);
}

/// The product of the reflections, whose vectors stand behind the diagonal of each row, in their place.
fn product<T: Float>(a: &mut [T], n: usize, factors: &[T], sums: &mut [T]) {
    for k in (0..n.saturating_sub(1)).rev() {
        let first = k + 1;
        let (head, rest) = a.split_at_mut(first * n);
        let row = &mut head[k * n..];
        if factors[k] != T::ZERO {
            let (v, sums) = (&row[first..], &mut sums[first..n]);
            sums.fill(T::ZERO);
            for (row, &v) in rest.chunks_exact(n).zip(v) {
                add(sums, v, &row[first..]);
            }
            for (row, &v) in rest.chunks_exact_mut(n).zip(v) {
                add(&mut row[first..], -factors[k] * v, sums);
            }
        }
        row.fill(T::ZERO);
        row[k] = T::ONE;
        rest.chunks_exact_mut(n).for_each(|row| row[k] = T::ZERO);
    }
}

/// Takes a tridiagonal matrix to a diagonal one, and turns the rows of `vectors` with it.
fn iterate<T: Float>(d: &mut [T], e: &mut [T], vectors: &mut [T], n: usize) -> Result<(), Fault> {
    let small = |d: &[T], e: &[T], m: usize| {
        let near = d[m].abs() + d[m + 1].abs();
        e[m].abs() <= T::EPSILON * near || e[m].abs() <= T::LEAST
    };
    for l in 0..n {
        for step in 0.. {
            let end = (l..n - 1).find(|&m| small(d, e, m)).unwrap_or(n - 1);
            if end == l {
                break;
            }
            if step == STEPS {
                return Err(Fault::Diverged);
            }
            sweep(d, e, vectors, n, l..end);
        }
    }
    Ok(())
}

/// One step of the iteration on the rows of a range and the one behind it.
fn sweep<T: Float>(
    d: &mut [T],
    e: &mut [T],
    vectors: &mut [T],
    n: usize,
    block: std::ops::Range<usize>,
) {
    let (l, m, two) = (block.start, block.end, T::from_f64(2.0));
    let shift = (d[l + 1] - d[l]) / (two * e[l]);
    let root = shift.hypot(T::ONE).signed(shift);
    let mut g = d[m] - d[l] + e[l] / (shift + root);
    let (mut s, mut c, mut p) = (T::ONE, T::ONE, T::ZERO);
    for i in block.rev() {
        let (f, b) = (s * e[i], c * e[i]);
        let r = f.hypot(g);
        e[i + 1] = r;
        if r == T::ZERO {
            // The matrix falls apart here.
            d[i + 1] = d[i + 1] - p;
            e[m] = T::ZERO;
            return;
        }
        (s, c) = (f / r, g / r);
        g = d[i + 1] - p;
        let r = (d[i] - g) * s + two * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        let (x, y) = pair(vectors, n, i, i + 1);
        turn(x, y, (c, s));
    }
    d[l] = d[l] - p;
    e[l] = g;
    e[m] = T::ZERO;
}
