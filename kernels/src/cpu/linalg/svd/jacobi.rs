//! Singular values by rotations of rows (Hestenes, Inversion of matrices by biorthogonalization, 1958) of the triangular
//! factor, whose rows differ in size: then few sweeps are needed (Drmač and Veselić, New fast and accurate Jacobi SVD
//! algorithm, 2008).

use super::super::row::{add, dot, norm, pair, scale, turn};
use super::super::{Fault, Float, qr};
use super::Svd;
use crate::cpu::matmul::multiply;
use crate::cpu::view::{Sizes, View};

/// Sweeps over all pairs of rows; six to ten are usual.
const SWEEPS: usize = 60;

/// The factors of a matrix of at least as many rows as columns.
pub(super) fn tall<T: Float>(mut q: Vec<T>, m: usize, n: usize) -> Result<Svd<T>, Fault> {
    let scale = scale(&q).ok_or(Fault::NotFinite)?;
    q.iter_mut().for_each(|x| *x = *x / scale);
    let mut r = vec![T::ZERO; n * n];
    qr(&mut q, m, n, &mut r);
    // Turned rows of R are the singular values times rows of the right factor.
    let mut turns = vec![T::ZERO; n * n];
    (0..n).for_each(|i| turns[i * n + i] = T::ONE);
    rotate(&mut r, &mut turns, n)?;
    let norms: Vec<T> = r.chunks_exact(n.max(1)).map(norm).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| {
        norms[j]
            .partial_cmp(&norms[i])
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let (mut vh, mut left) = (Vec::with_capacity(n * n), Vec::with_capacity(n * n));
    for &i in &order {
        vh.extend(r[i * n..(i + 1) * n].iter().map(|&x| x / norms[i]));
        left.extend_from_slice(&turns[i * n..(i + 1) * n]);
    }
    // Directions of rows whose squares vanish are not known.
    let least = vanishing::<T>().sqrt();
    let known = order.iter().filter(|&&i| norms[i] > least).count();
    (known..n).for_each(|i| complete(&mut vh, n, i));
    let mut u = vec![T::ZERO; m * n];
    let left = View::dense(&left, n).transpose();
    let product = multiply(
        Sizes { m, n, k: n },
        View::dense(&q, n),
        left,
        &mut u,
        n,
        false,
    );
    product.expect("the factors are dense, and as large as their sizes say");
    let values = order.iter().map(|&i| norms[i] * scale).collect();
    Ok(Svd { u, values, vh })
}

/// Squares below it have too few digits.
fn vanishing<T: Float>() -> T {
    T::LEAST / T::EPSILON
}

/// Turns pairs of rows until all are orthogonal, and the rows of `turns` with them.
fn rotate<T: Float>(a: &mut [T], turns: &mut [T], n: usize) -> Result<(), Fault> {
    let limit = T::EPSILON * T::from_f64(n as f64).sqrt();
    let (two, least) = (T::from_f64(2.0), vanishing::<T>());
    for _ in 0..SWEEPS {
        let mut squares: Vec<T> = a.chunks_exact(n.max(1)).map(|x| dot(x, x)).collect();
        let mut turned = false;
        for i in 0..n {
            for j in i + 1..n {
                let (x, y) = pair(a, n, i, j);
                let (own, other, along) = (squares[i], squares[j], dot(x, y));
                if own <= least
                    || other <= least
                    || along.abs() <= limit * own.sqrt() * other.sqrt()
                {
                    continue;
                }
                turned = true;
                let ratio = (other - own) / (two * along);
                let t = (T::ONE / (ratio.abs() + ratio.hypot(T::ONE))).signed(ratio);
                let c = T::ONE / t.hypot(T::ONE);
                turn(x, y, (c, c * t));
                let (x, y) = pair(turns, n, i, j);
                turn(x, y, (c, c * t));
                squares[i] = own - t * along;
                squares[j] = other + t * along;
            }
        }
        if !turned {
            return Ok(());
        }
    }
    Err(Fault::Diverged)
}

/// Makes row `i` a direction that the rows before it lack.
fn complete<T: Float>(rows: &mut [T], n: usize, i: usize) {
    let (known, row) = rows.split_at_mut(i * n);
    let row = &mut row[..n];
    let enough = T::from_f64(0.5 / n as f64).sqrt();
    // The axes' parts outside of the known directions have squares that add up to n − i.
    for axis in 0..n {
        row.fill(T::ZERO);
        row[axis] = T::ONE;
        // The second time takes away what rounding left.
        for _ in 0..2 {
            for known in known.chunks_exact(n) {
                let along = dot(row, known);
                add(row, -along, known);
            }
        }
        let length = norm(row);
        if length > enough {
            row.iter_mut().for_each(|x| *x = *x / length);
            return;
        }
    }
}
