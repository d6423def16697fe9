//! Cholesky's factorisation.

use super::{Lane, SIDE, SMALL, matrices};
use crate::cpu::dense::rows;
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::linalg::{Fault, First, Float};

/// The lower factors in place of matrices of `n` rows, at most [`SMALL`](super::SMALL), of which the lower triangles are read.
///
/// # Errors
/// The first matrix that is not positive definite, and how.
pub fn cholesky_small<T: Float>(all: &mut [T], n: usize) -> Result<(), (usize, Fault)> {
    let first = First::default();
    rows(all, n * n, n * n * n / 3, |start, block| {
        for (i, matrices) in block.chunks_mut(SIDE * n * n).enumerate() {
            let faults = dispatch(Small { matrices, n });
            for (lane, &order) in faults.iter().enumerate().filter(|(_, order)| **order > 0) {
                first.note(start + i * SIDE + lane, Fault::NotPositive(order));
            }
        }
    });
    first.result()
}

/// At most [`SIDE`] matrices of `n` rows.
struct Small<'a, T> {
    matrices: &'a mut [T],
    n: usize,
}

impl<T: Float> Loop for Small<'_, T> {
    /// The order of each matrix's first leading minor that is not positive; 0 where all are.
    type Output = [usize; SIDE];

    #[inline(always)]
    fn run(self) -> [usize; SIDE] {
        let n = self.n;
        matrices!(x, n, T);
        x.load(self.matrices.chunks_exact(n * n));
        let mut faults = [0; SIDE];
        for j in 0..n {
            let (row, below) = x.row_and_rest(j);
            // The row of the factor as far as it is known.
            let (known, behind) = row.split_at_mut(j);
            let mut roots = behind[0];
            subtract_products(&mut roots, known, known);
            for other in below.chunks_exact_mut(n) {
                let (other, behind) = other.split_at_mut(j);
                subtract_products(&mut behind[0], other, known);
            }
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
            for other in below.chunks_exact_mut(n) {
                let own = other[j];
                for l in 0..SIDE {
                    other[j][l] = own[l] / roots[l];
                }
            }
            behind.fill([T::ZERO; SIDE]);
            behind[0] = roots;
        }
        x.store(self.matrices.chunks_exact_mut(n * n));
        // Places without a matrix are no faults.
        faults[self.matrices.len() / (n * n)..].fill(0);
        faults
    }
}

/// Subtracts the sum of the products of some elements.
#[inline(always)]
fn subtract_products<T: Float>(from: &mut Lane<T>, a: &[Lane<T>], b: &[Lane<T>]) {
    let mut sum: Lane<T> = [T::ZERO; SIDE];
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (*a, *b);
        for l in 0..SIDE {
            sum[l] = sum[l] + a[l] * b[l];
        }
    }
    let own = *from;
    for l in 0..SIDE {
        from[l] = own[l] - sum[l];
    }
}
