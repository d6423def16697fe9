//! Cholesky's factorisation.

use super::{Lane, SIDE, by_rows, load, store};
use crate::cpu::dense::rows;
use crate::cpu::isa::Loop;
use crate::cpu::linalg::{Fault, First, Float};

/// The lower factors in place of matrices of `n` rows, at most [`SMALL`](super::SMALL), of which the lower triangles are read.
///
/// # Errors
/// The first matrix that is not positive definite, and how.
pub fn cholesky_small<T: Float>(all: &mut [T], n: usize) -> Result<(), (usize, Fault)> {
    let first = First::default();
    rows(all, n * n, n * n * n / 3, |start, block| {
        for (i, matrices) in block.chunks_mut(SIDE * n * n).enumerate() {
            let faults = by_rows!(n, Small::<T> { matrices, n });
            for (lane, &order) in faults.iter().enumerate().filter(|(_, order)| **order > 0) {
                first.note(start + i * SIDE + lane, Fault::NotPositive(order));
            }
        }
    });
    first.result()
}

/// At most [`SIDE`] matrices of `n` rows, at most `N`.
struct Small<'a, T, const N: usize> {
    matrices: &'a mut [T],
    n: usize,
}

impl<T: Float, const N: usize> Loop for Small<'_, T, N> {
    /// The order of each matrix's first leading minor that is not positive; 0 where all are.
    type Output = [usize; SIDE];

    #[inline(always)]
    fn run(self) -> [usize; SIDE] {
        let n = self.n;
        let mut x = [[[T::ONE; SIDE]; N]; N];
        load(&mut x, self.matrices.chunks_exact(n * n), n);
        let mut faults = [0; SIDE];
        for j in 0..n {
            // The row of the factor as far as it is known.
            let known = x[j];
            for row in &mut x[j..n] {
                let mut sum: Lane<T> = [T::ZERO; SIDE];
                for (own, known) in row.iter().zip(&known[..j]) {
                    for l in 0..SIDE {
                        sum[l] = sum[l] + own[l] * known[l];
                    }
                }
                for l in 0..SIDE {
                    row[j][l] = row[j][l] - sum[l];
                }
            }
            let mut roots = x[j][j];
            for (fault, root) in faults.iter_mut().zip(&mut roots) {
                // NaN is not positive either.
                let positive = !root.is_nan() && *root > T::ZERO;
                *fault = if positive || *fault > 0 {
                    *fault
                } else {
                    j + 1
                };
                *root = root.sqrt();
            }
            for row in &mut x[j + 1..n] {
                for l in 0..SIDE {
                    row[j][l] = row[j][l] / roots[l];
                }
            }
            x[j][j] = roots;
            x[j][j + 1..].fill([T::ZERO; SIDE]);
        }
        store(&x, self.matrices.chunks_exact_mut(n * n), n);
        // Places without a matrix are no faults.
        faults[self.matrices.len() / (n * n)..].fill(0);
        faults
    }
}
