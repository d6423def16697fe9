//! Cholesky's factorisation by blocks, right-looking (Golub and Van Loan, Matrix Computations, 4.2.9).

use super::block::{BLOCK, Target, panel, subtract};
use super::row::dot;
use super::{Fault, Float};
use crate::cpu::dense::rows;
use crate::cpu::view::View;

/// The lower factor in place of a matrix of `n` rows, of which the lower triangle is read.
///
/// # Errors
/// The matrix is not positive definite.
pub fn cholesky<T: Float>(a: &mut [T], n: usize) -> Result<(), Fault> {
    for start in (0..n).step_by(BLOCK) {
        let end = (start + BLOCK).min(n);
        for i in start..end {
            let (above, row) = a.split_at_mut(i * n);
            let row = &mut row[..n];
            solve_row(above, row, n, start, i);
            let known = &row[start..i];
            let pivot = row[i] - dot(known, known);
            // NaN is not positive either.
            if pivot.is_nan() || pivot <= T::ZERO {
                return Err(Fault::NotPositive(i + 1));
            }
            row[i] = pivot.sqrt();
            row[i + 1..].fill(T::ZERO);
        }
        let (factors, below) = a.split_at_mut(end * n);
        rows(below, n, (end - start) * (end - start), |_, block| {
            for row in block.chunks_exact_mut(n) {
                solve_row(factors, row, n, start, end);
            }
        });
        let k = end - start;
        let found = panel(below, n, start, end);
        let to = Target {
            rows: below,
            row: n,
            column: end,
        };
        // Of a tile the columns up to its last diagonal element.
        subtract(to, &found, View::dense(&found, k).transpose(), k, |rows| {
            rows
        });
    }
    Ok(())
}

/// Columns `start..end` of a row from the rows of the factor above: what columns before them have to do with is subtracted.
fn solve_row<T: Float>(above: &[T], row: &mut [T], n: usize, start: usize, end: usize) {
    for j in start..end {
        let factor = &above[j * n..j * n + j + 1];
        row[j] = (row[j] - dot(&row[start..j], &factor[start..j])) / factor[j];
    }
}
