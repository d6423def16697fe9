//! Gaussian elimination with partial pivoting, by blocks (Golub and Van Loan, Matrix Computations, 3.4).

use super::Float;
use super::block::{BLOCK, Target, panel, subtract};
use super::row::{add, pair};
use crate::cpu::view::View;

/// Factors a matrix of `n` rows in place: L without its diagonal, of ones, below U. `order` gets which row of the matrix each
/// row was, `exchanged` the row that each step exchanged with its own. A column of zeros is left as it is.
pub fn lu<T: Float>(a: &mut [T], n: usize, order: &mut [usize], exchanged: &mut [usize]) {
    order.iter_mut().enumerate().for_each(|(i, at)| *at = i);
    for start in (0..n).step_by(BLOCK) {
        let end = (start + BLOCK).min(n);
        for (j, exchanged) in exchanged.iter_mut().enumerate().take(end).skip(start) {
            let pivot = greatest(a, n, j);
            if pivot != j {
                let (x, y) = pair(a, n, j, pivot);
                x.swap_with_slice(y);
                order.swap(j, pivot);
            }
            *exchanged = pivot;
            eliminate(a, n, j, end);
        }
        for i in start + 1..end {
            for j in start..i {
                let (above, row) = pair(a, n, j, i);
                let factor = row[j];
                add(&mut row[end..], -factor, &above[end..]);
            }
        }
        let (factors, below) = a.split_at_mut(end * n);
        let left = panel(below, n, start, end);
        let right = View::dense(&factors[start * n..], n).from(0, end);
        let to = Target {
            rows: below,
            row: n,
            column: end,
        };
        subtract(to, &left, right, end - start, |_| n - end);
    }
}

/// The row from `j` on whose element of column `j` is the greatest, the first of equals.
fn greatest<T: Float>(a: &[T], n: usize, j: usize) -> usize {
    let mut found = j;
    for i in j + 1..n {
        if a[i * n + j].abs() > a[found * n + j].abs() {
            found = i;
        }
    }
    found
}

/// Takes row `j` from the rows below it, in columns up to `end`.
fn eliminate<T: Float>(a: &mut [T], n: usize, j: usize, end: usize) {
    let (above, below) = a.split_at_mut((j + 1) * n);
    let row = &above[j * n..];
    if row[j] == T::ZERO {
        return;
    }
    for other in below.chunks_exact_mut(n) {
        let factor = other[j] / row[j];
        other[j] = factor;
        add(&mut other[j + 1..end], -factor, &row[j + 1..end]);
    }
}
