//! Sums of matrix products, as one product of rows as long as those of all together.

use super::matmul::products_into;
use super::view::{Sizes, View};
use crate::cpu::dense::{Plain, Shared, ranges, scratch};
use crate::cpu::strided::{self, Window};
use crate::cpu::vector::Real;
use ferrotrace_runtime::Result;

/// A product of the sum: `a` is of `k` columns, `b` of `k` rows.
#[derive(Clone, Copy, Debug)]
pub struct Term<'a, T> {
    /// The left matrix.
    pub a: View<'a, T>,
    /// The right matrix.
    pub b: View<'a, T>,
    /// Elements summed.
    pub k: usize,
}

/// Writes the sum of products of `m` rows and `n` columns to the start of `out`, dense, spread over the pool. The operands
/// are copied next to each other first.
///
/// # Errors
/// `Internal`: a matrix leaves its memory.
pub fn sum_of_products<T: Real + Plain>(
    (m, n): (usize, usize),
    terms: &[Term<'_, T>],
    out: &Shared<'_, T>,
) -> Result<()> {
    let mut starts = Vec::with_capacity(terms.len());
    let mut k = 0;
    for term in terms {
        term.a.check(m, term.k)?;
        term.b.check(term.k, n)?;
        starts.push(k);
        k += term.k;
    }
    scratch(k * (m + n), |memory: &mut [T]| {
        // One row for each element summed: a column of the left matrix, a row of the right one.
        let (left, right) = memory.split_at_mut(k * m);
        let (to_left, to_right) = (Shared::new(left), Shared::new(right));
        let cost = k / terms.len().max(1) * (m + n) / 8;
        ranges(terms.len(), cost, |range| {
            for (term, &start) in terms[range.clone()].iter().zip(&starts[range]) {
                // SAFETY: terms have rows of their own.
                let (left, right) = unsafe {
                    let rows = start..start + term.k;
                    (
                        to_left.part(rows.start * m..rows.end * m),
                        to_right.part(rows.start * n..rows.end * n),
                    )
                };
                copy(&term.a.transpose(), (term.k, m), left);
                copy(&term.b, (term.k, n), right);
            }
        });
        let (a, b) = (View::dense(left, m).transpose(), View::dense(right, n));
        products_into(Sizes { m, n, k }, a, b, &[[0, 0, 0]], out, n)
    })
}

/// Copies a matrix inside its memory to dense rows.
fn copy<T: Plain>(x: &View<'_, T>, (rows, cols): (usize, usize), to: &mut [T]) {
    if rows * cols == 0 || to.len() < rows * cols {
        return;
    }
    let window = Window {
        rows,
        cols,
        row: x.row,
        col: x.col,
    };
    // SAFETY: the matrix is inside its memory, as was checked; there is room for it, in memory of nobody else.
    unsafe {
        let from = x.data.as_ptr().add(x.start).cast();
        strided::gather(size_of::<T>(), window, from, to.as_mut_ptr().cast(), cols);
    }
}
