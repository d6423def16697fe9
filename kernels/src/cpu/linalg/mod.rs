//! Factorisations of dense matrices, row by row in memory. A matrix of a batch is one thread's, a large one alone is updated
//! by tiles of fixed sizes: results have the same bits for any number of threads.

mod block;
mod cholesky;
mod eig;
mod eigh;
mod exponential;
mod float;
mod lu;
mod qr;
mod reflections;
mod row;
mod small;
mod strips;
mod svd;
mod triangular;

pub use cholesky::cholesky;
pub use eig::{Eig, eig};
pub use eigh::{eigenvalues, eigh};
pub use exponential::exponential;
pub use float::Float;
pub use lu::lu;
pub use qr::qr;
pub use row::transposed;
pub use small::{SMALL, SmallEquations, SmallForm, cholesky_small, lu_small};
pub use svd::{Svd, singular_values, svd};
pub use triangular::{Triangular, solve};

use super::dense::rows;
use std::sync::Mutex;

/// Rows in front of packed factors: the order of rows, and the exchanges.
pub const PACKED_HEAD: usize = 2;

/// Why a matrix has no such factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The leading minor of this order is not positive.
    NotPositive(usize),
    /// The pivot of this row is 0.
    Singular(usize),
    /// There is an element that is not finite.
    NotFinite,
    /// The iteration did not end.
    Diverged,
}

/// The first matrix of a batch that has a fault, and the fault.
#[derive(Default)]
struct First(Mutex<Option<(usize, Fault)>>);

impl First {
    /// Matrix `at` has this fault.
    fn note(&self, at: usize, fault: Fault) {
        let mut first = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if first.is_none_or(|(known, _)| at < known) {
            *first = Some((at, fault));
        }
    }

    /// It as an error, if there is one.
    fn result(self) -> Result<(), (usize, Fault)> {
        let first = self.0.into_inner().unwrap_or_else(|e| e.into_inner());
        first.map_or(Ok(()), Err)
    }
}

/// Calls `f(number, matrix)` on the results of a batch, each of `size` elements, which takes some `cost` operations.
///
/// # Errors
/// The first matrix that has a fault, and the fault.
pub fn each<T: Float>(
    out: &mut [T],
    size: usize,
    cost: usize,
    f: impl Fn(usize, &mut [T]) -> Result<(), Fault> + Sync,
) -> Result<(), (usize, Fault)> {
    let first = First::default();
    rows(out, size, cost, |start, block| {
        for (i, matrix) in block.chunks_exact_mut(size).enumerate() {
            if let Err(fault) = f(start + i, matrix) {
                first.note(start + i, fault);
            }
        }
    });
    first.result()
}
