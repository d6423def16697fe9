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

/// Matrices of `n` rows and columns, a lane each: elements row by row. Lanes without a matrix have ones.
///
/// `n` is no constant: the code for each would take as long to compile as all other factorisations do.
struct Matrices<'a, T> {
    elements: &'a mut [Lane<T>],
    n: usize,
}

impl<T: Float> Matrices<'_, T> {
    /// Reads at most [`SIDE`] matrices; other lanes are left as they are.
    #[inline(always)]
    fn load<'a>(&mut self, matrices: impl Iterator<Item = &'a [T]>) {
        for (lane, matrix) in matrices.enumerate() {
            for (x, &element) in self.elements.iter_mut().zip(matrix) {
                x[lane] = element;
            }
        }
    }

    /// Writes what [`load`](Self::load) reads.
    #[inline(always)]
    fn store<'a>(&self, matrices: impl Iterator<Item = &'a mut [T]>) {
        for (lane, matrix) in matrices.enumerate() {
            for (x, element) in self.elements.iter().zip(matrix) {
                *element = x[lane];
            }
        }
    }

    #[inline(always)]
    fn at(&self, i: usize, j: usize) -> &Lane<T> {
        &self.elements[i * self.n + j]
    }

    /// The elements of row `i` from column `j` on.
    #[inline(always)]
    fn row_from(&self, i: usize, j: usize) -> impl Iterator<Item = &Lane<T>> {
        self.elements[i * self.n + j..(i + 1) * self.n].iter()
    }

    /// The elements of column `j` from row `i` on.
    #[inline(always)]
    fn column_from(&self, i: usize, j: usize) -> impl Iterator<Item = &Lane<T>> {
        let from = self.elements.len().min(i * self.n + j);
        self.elements[from..].iter().step_by(self.n)
    }

    /// Row `j` and the rows behind it.
    #[inline(always)]
    fn row_and_rest(&mut self, j: usize) -> (&mut [Lane<T>], &mut [Lane<T>]) {
        let behind = &mut self.elements[j * self.n..];
        behind.split_at_mut(self.n)
    }
}

/// Binds `$x` to matrices of ones, of `$n` rows, in no more memory than matrices of 4, 8 or [`SMALL`] rows need.
macro_rules! matrices {
    ($x:ident, $n:expr, $T:ty) => {
        let (mut few, mut some, mut most);
        let n: usize = $n;
        let one = [<$T>::ONE; $crate::cpu::linalg::small::SIDE];
        let elements: &mut [$crate::cpu::linalg::small::Lane<$T>] = match n {
            0..=4 => {
                few = [one; 16];
                &mut few[..n * n]
            }
            5..=8 => {
                some = [one; 64];
                &mut some[..n * n]
            }
            _ => {
                most = [one; SMALL * SMALL];
                &mut most[..n * n]
            }
        };
        let mut $x = $crate::cpu::linalg::small::Matrices { elements, n };
    };
}
use matrices;
