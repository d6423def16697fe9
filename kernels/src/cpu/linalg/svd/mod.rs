//! The singular value decomposition: reflections to a triangular and to a bidiagonal matrix, then the QR iteration with
//! implicit shifts (Golub and Van Loan, Matrix Computations, 8.6); small matrices by rotations of rows.

mod bidiagonal;
mod iteration;
mod jacobi;

use super::block::product;
use super::reflections::orthonormal;
use super::row::{scale, transposed};
use super::strips::Strips;
use super::{Fault, Float, qr};
use bidiagonal::Bidiagonal;
use iteration::iterate;

/// Columns up to which rotations of rows take less time.
const SMALL: usize = 16;

/// The factors of a matrix of `m` rows and `n` columns; k is the lesser number.
#[derive(Debug)]
pub struct Svd<T> {
    /// Orthonormal columns, m by k.
    pub u: Vec<T>,
    /// The singular values in descending order.
    pub values: Vec<T>,
    /// Orthonormal rows, k by n.
    pub vh: Vec<T>,
}

/// The singular value decomposition.
///
/// # Errors
/// An element is not finite; the iteration does not end.
pub fn svd<T: Float>(a: &[T], m: usize, n: usize) -> Result<Svd<T>, Fault> {
    if m < n {
        let turned = tall(transposed(a, m, n), n, m)?;
        return Ok(Svd {
            u: transposed(&turned.vh, m, m),
            values: turned.values,
            vh: transposed(&turned.u, n, m),
        });
    }
    tall(a.to_vec(), m, n)
}

/// The singular values in descending order.
///
/// # Errors
/// As [`svd`].
pub fn singular_values<T: Float>(
    a: &[T],
    m: usize,
    n: usize,
    values: &mut [T],
) -> Result<(), Fault> {
    let (a, m, n) = match m < n {
        true => (transposed(a, m, n), n, m),
        false => (a.to_vec(), m, n),
    };
    let Upper { mut r, scale, .. } = Upper::new(a, m, n)?;
    let mut reduced = Bidiagonal::new(&mut r, n, None);
    iterate(&mut reduced, |_, _, _| ())?;
    for (value, d) in values.iter_mut().zip(&reduced.d) {
        *value = d.abs() * scale;
    }
    values.sort_by(|x, y| y.partial_cmp(x).unwrap_or(std::cmp::Ordering::Equal));
    Ok(())
}

/// A matrix of as many rows as columns with the same singular values.
struct Upper<T> {
    r: Vec<T>,
    /// Orthonormal columns whose product with it is the matrix; nothing where it is the matrix.
    q: Option<Vec<T>>,
    /// What the matrix was divided by.
    scale: T,
}

impl<T: Float> Upper<T> {
    /// The triangular factor of a matrix of more rows than columns.
    fn new(mut a: Vec<T>, m: usize, n: usize) -> Result<Upper<T>, Fault> {
        let scale = scale(&a).ok_or(Fault::NotFinite)?;
        a.iter_mut().for_each(|x| *x = *x / scale);
        if m == n {
            let (r, q) = (a, None);
            return Ok(Upper { r, q, scale });
        }
        let mut r = vec![T::ZERO; n * n];
        qr(&mut a, m, n, &mut r);
        let q = Some(a);
        Ok(Upper { r, q, scale })
    }
}

/// The factors of a matrix of at least as many rows as columns.
fn tall<T: Float>(a: Vec<T>, m: usize, n: usize) -> Result<Svd<T>, Fault> {
    if n <= SMALL {
        return jacobi::tall(a, m, n);
    }
    let Upper { mut r, q, scale } = Upper::new(a, m, n)?;
    let mut vectors = (vec![T::ZERO; n * n], vec![T::ZERO; n * n]);
    let mut reduced = Bidiagonal::new(&mut r, n, Some((&mut vectors.0, &mut vectors.1)));
    let (mut left, mut right) = (vec![T::ZERO; n * n], r);
    orthonormal(&vectors.0, &reduced.left, (n, n), 0, &mut left);
    orthonormal(&vectors.1, &reduced.right, (n, n), 1, &mut right);
    let (mut left, mut right) = (Strips::new(&left, n, n), Strips::new(&right, n, n));
    iterate(&mut reduced, |at, first, second| {
        right.turn(first.at(at));
        left.turn(second.at(at));
    })?;
    let d = &reduced.d;
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| {
        let (x, y) = (d[i].abs(), d[j].abs());
        y.partial_cmp(&x).unwrap_or(std::cmp::Ordering::Equal)
    });
    let values = order.iter().map(|&i| d[i].abs() * scale).collect();
    let (mut own, mut vh) = (vec![T::ZERO; n * n], vec![T::ZERO; n * n]);
    left.each_row(&order, |i, row| {
        own[i * n..(i + 1) * n].copy_from_slice(row)
    });
    right.each_row(&order, |i, row| {
        for (j, (&x, &from)) in row.iter().zip(&order).enumerate() {
            // A singular value is not negative: the sign goes to the right.
            vh[j * n + i] = if d[from] < T::ZERO { -x } else { x };
        }
    });
    let Some(q) = q else {
        let u = own;
        return Ok(Svd { u, values, vh });
    };
    let mut u = vec![T::ZERO; m * n];
    product(&q, &own, n, &mut u);
    Ok(Svd { u, values, vh })
}
