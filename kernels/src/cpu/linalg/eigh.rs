//! Eigenvalues of symmetric matrices: reflections to a tridiagonal matrix, then the QL iteration with implicit shifts
//! (Golub and Van Loan, Matrix Computations, 8.3; Bowdler, Martin, Reinsch and Wilkinson, The QR and QL algorithms for
//! symmetric matrices, 1968).

use super::qr::reflector;
use super::reflections::orthonormal;
use super::row::{dot, scale, step};
use super::strips::{Strips, Turn};
use super::{Fault, Float};
use crate::cpu::dense::rows;

/// Steps for each eigenvalue; two or three are usual.
const STEPS: usize = 60;

/// The eigenvalues in ascending order, and the eigenvectors as columns in place of the matrix, whose lower triangle is read.
///
/// # Errors
/// An element is not finite; the iteration does not end.
pub fn eigh<T: Float>(a: &mut [T], n: usize, values: &mut [T]) -> Result<(), Fault> {
    let mut reduced = Tridiagonal::new(a, n)?;
    let mut vectors = vec![T::ZERO; n * n];
    orthonormal(a, &reduced.factors, (n, n), 1, &mut vectors);
    let mut strips = Strips::new(&vectors, n, n);
    iterate(&mut reduced, |turn| strips.turn(turn))?;
    let d = &reduced.d;
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| d[i].partial_cmp(&d[j]).unwrap_or(std::cmp::Ordering::Equal));
    for (value, &from) in values.iter_mut().zip(&order) {
        *value = d[from] * reduced.scale;
    }
    strips.each_row(&order, |i, row| a[i * n..(i + 1) * n].copy_from_slice(row));
    Ok(())
}

/// The eigenvalues in ascending order of a matrix, which is overwritten and of which the lower triangle is read.
///
/// # Errors
/// As [`eigh`].
pub fn eigenvalues<T: Float>(a: &mut [T], n: usize, values: &mut [T]) -> Result<(), Fault> {
    let mut reduced = Tridiagonal::new(a, n)?;
    iterate(&mut reduced, |_| ())?;
    for (value, &d) in values.iter_mut().zip(&reduced.d) {
        *value = d * reduced.scale;
    }
    values.sort_by(|x, y| x.partial_cmp(y).unwrap_or(std::cmp::Ordering::Equal));
    Ok(())
}

/// A symmetric tridiagonal matrix.
struct Tridiagonal<T> {
    /// The diagonal.
    d: Vec<T>,
    /// The elements below it; the last is 0.
    e: Vec<T>,
    /// The factors of the reflections that lead to it.
    factors: Vec<T>,
    /// What the matrix was divided by.
    scale: T,
}

impl<T: Float> Tridiagonal<T> {
    /// Reduces a matrix. Each row of it keeps the vector of a reflection, with zeros in front.
    ///
    /// # Errors
    /// An element is not finite.
    fn new(a: &mut [T], n: usize) -> Result<Tridiagonal<T>, Fault> {
        for i in 0..n {
            for j in i + 1..n {
                a[i * n + j] = a[j * n + i];
            }
        }
        let scale = scale(a).ok_or(Fault::NotFinite)?;
        a.iter_mut().for_each(|x| *x = *x / scale);
        let (mut d, mut e) = (vec![T::ZERO; n], vec![T::ZERO; n]);
        let mut factors = vec![T::ZERO; n.saturating_sub(1)];
        // A step's change of the rows behind it, v·wᵀ + w·vᵀ, is made by the step after it, which reads them anyway.
        let (mut v, mut w) = (vec![T::ZERO; n], vec![T::ZERO; n]);
        let (mut next, mut sums) = (vec![T::ZERO; n], vec![T::ZERO; n]);
        let half = T::from_f64(0.5);
        for k in 0..n {
            let first = k + 1;
            let (head, rest) = a.split_at_mut(first * n);
            let row = &mut head[k * n..];
            step(&mut row[k..], (v[k], &w[k..]), (w[k], &v[k..]), None);
            d[k] = row[k];
            row[..first].fill(T::ZERO);
            if first == n {
                break;
            }
            let factor = reflector(&mut row[first..]);
            e[k] = std::mem::replace(&mut row[first], T::ONE);
            factors[k] = factor;
            next[first..].copy_from_slice(&row[first..]);
            {
                let (v, w, next) = (&v, &w, &next[first..]);
                let changed = sums[first..].iter_mut();
                let mut pairs: Vec<(&mut T, &mut [T])> =
                    changed.zip(rest.chunks_exact_mut(n)).collect();
                rows(&mut pairs, 1, (n - first) / 2, |from, pairs| {
                    for (i, (sum, row)) in pairs.iter_mut().enumerate() {
                        let at = first + from + i;
                        let before = ((v[at], &w[first..]), (w[at], &v[first..]));
                        **sum = factor * step(&mut row[first..], before.0, before.1, Some(next));
                    }
                });
            }
            let along = half * factor * dot(&sums[first..], &next[first..]);
            for ((sum, &v), w) in sums[first..]
                .iter()
                .zip(&next[first..])
                .zip(&mut w[first..])
            {
                *w = *sum - along * v;
            }
            v[first..].copy_from_slice(&next[first..]);
        }
        Ok(Tridiagonal {
            d,
            e,
            factors,
            scale,
        })
    }
}

/// Takes a tridiagonal matrix to a diagonal one; `turn` is told each rotation.
fn iterate<T: Float>(of: &mut Tridiagonal<T>, mut turn: impl FnMut(Turn<T>)) -> Result<(), Fault> {
    let (d, e, n) = (&mut of.d, &mut of.e, of.factors.len() + 1);
    let small = |d: &[T], e: &[T], m: usize| {
        let near = d[m].abs() + d[m + 1].abs();
        e[m].abs() <= T::EPSILON * near || e[m].abs() <= T::LEAST
    };
    for l in 0..d.len() {
        for step in 0.. {
            let end = (l..n - 1).find(|&m| small(d, e, m)).unwrap_or(n - 1);
            if end == l {
                break;
            }
            if step == STEPS {
                return Err(Fault::Diverged);
            }
            sweep(d, e, &mut turn, l..end);
        }
    }
    Ok(())
}

/// One step of the iteration on the rows of a range and the one behind it.
fn sweep<T: Float>(
    d: &mut [T],
    e: &mut [T],
    turn: &mut impl FnMut(Turn<T>),
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
        let at = i as u32;
        turn(Turn { at, c, s });
    }
    d[l] = d[l] - p;
    e[l] = g;
    e[m] = T::ZERO;
}
