//! Cholesky's factorisation by blocks, right-looking (Golub and Van Loan, Matrix Computations, 4.2.9).

use super::block::{BLOCK, Target, panel, subtract};
use super::row::dot;
use super::{Fault, Float};
use crate::cpu::dense::rows;
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::view::View;
use std::ops::Range;

/// Rows below a block that are solved side by side.
const LINES: usize = 64;

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
            for rows in block.chunks_mut(LINES * n) {
                dispatch(Below {
                    factors,
                    rows,
                    n,
                    columns: start..end,
                });
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

/// Columns of a block, at most [`LINES`] rows below it, from the rows of the factor above: a vector has an element of each row.
struct Below<'a, T> {
    factors: &'a [T],
    rows: &'a mut [T],
    n: usize,
    columns: Range<usize>,
}

impl<T: Float> Loop for Below<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Range { start, end } = self.columns;
        let mut columns = [[T::ZERO; LINES]; BLOCK];
        for (i, row) in self.rows.chunks_exact(self.n).enumerate() {
            for (column, &x) in columns.iter_mut().zip(&row[start..end]) {
                column[i] = x;
            }
        }
        for j in 0..end - start {
            let (known, own) = columns.split_at_mut(j);
            let own = &mut own[0];
            let factors = &self.factors[(start + j) * self.n + start..][..=j];
            for (known, &factor) in known.iter().zip(factors) {
                for l in 0..LINES {
                    own[l] = own[l] - factor * known[l];
                }
            }
            own.iter_mut().for_each(|x| *x = *x / factors[j]);
        }
        for (i, row) in self.rows.chunks_exact_mut(self.n).enumerate() {
            for (column, x) in columns.iter().zip(&mut row[start..end]) {
                *x = column[i];
            }
        }
    }
}
