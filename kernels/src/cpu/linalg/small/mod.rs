//! Factorisations of batches of small matrices: a vector has an element of each of several matrices. A matrix's results are the
//! same wherever it lies in a batch.

mod cholesky;
mod equations;
mod lu;

pub use cholesky::cholesky_small;
pub use equations::{SmallEquations, SmallForm};
pub use lu::lu_small;

use super::Float;

/// Rows of a small matrix at most.
pub const SMALL: usize = 16;
/// Matrices side by side.
const SIDE: usize = 16;

/// An element of each matrix.
type Lane<T> = [T; SIDE];

/// Matrices of at most `N` rows and columns, a lane each. Lanes without a matrix have ones.
type Matrices<T, const N: usize> = [[Lane<T>; N]; N];

/// Reads at most [`SIDE`] matrices of `n` rows; other lanes are left as they are.
#[inline(always)]
fn load<'a, T: Float, const N: usize>(
    x: &mut Matrices<T, N>,
    matrices: impl Iterator<Item = &'a [T]>,
    n: usize,
) {
    for (lane, matrix) in matrices.enumerate() {
        for (x, row) in x.iter_mut().zip(matrix.chunks_exact(n)) {
            for (x, &element) in x.iter_mut().zip(row) {
                x[lane] = element;
            }
        }
    }
}

/// Writes what [`load`] reads.
#[inline(always)]
fn store<'a, T: Float, const N: usize>(
    x: &Matrices<T, N>,
    matrices: impl Iterator<Item = &'a mut [T]>,
    n: usize,
) {
    for (lane, matrix) in matrices.enumerate() {
        for (x, row) in x.iter().zip(matrix.chunks_exact_mut(n)) {
            for (x, element) in x.iter().zip(row) {
                *element = x[lane];
            }
        }
    }
}

/// Runs a loop of matrices of at most 4, 8 or [`SMALL`] rows.
macro_rules! by_rows {
    ($n:expr, $loop:ident::<$T:ident> $fields:tt) => {
        match $n {
            0..=4 => $crate::cpu::isa::dispatch($loop::<$T, 4> $fields),
            5..=8 => $crate::cpu::isa::dispatch($loop::<$T, 8> $fields),
            _ => $crate::cpu::isa::dispatch($loop::<$T, { $crate::cpu::linalg::SMALL }> $fields),
        }
    };
}
use by_rows;
