//! Products of Householder's reflections as blocks, 1 − V·T·Vᵀ, which apply by products of matrices (Schreiber and Van Loan,
//! A storage-efficient WY representation for products of Householder transformations, 1989).

use super::Float;
use super::block::{Target, by_tiles, subtract};
use crate::cpu::matmul::multiply;
use crate::cpu::view::{Sizes, View};
use std::ops::Range;

/// Reflections of a block.
pub(super) const BLOCK: usize = 32;

/// A product of reflections 1 − f·v·vᵀ, the first leftmost.
pub(super) struct Reflections<'a, T> {
    /// The vectors as rows; a row is [`row`](Self::row) behind the one before it.
    vectors: &'a [T],
    row: usize,
    /// Elements of a vector.
    m: usize,
    /// How many there are.
    k: usize,
    /// The triangle T.
    t: Vec<T>,
}

impl<'a, T: Float> Reflections<'a, T> {
    /// The product of reflections of these vectors of `m` elements and these factors f.
    pub fn new(vectors: &'a [T], row: usize, m: usize, factors: &[T]) -> Reflections<'a, T> {
        let k = factors.len();
        let of = View::dense(vectors, row);
        let (mut along, mut t) = (vec![T::ZERO; k * k], vec![T::ZERO; k * k]);
        let sizes = Sizes { m: k, n: k, k: m };
        let product = multiply(sizes, of, of.transpose(), &mut along, k, false);
        product.expect("the vectors are as long as their sizes say");
        for (i, &factor) in factors.iter().enumerate() {
            for j in 0..i {
                let sum = (j..i).fold(T::ZERO, |sum, l| sum + t[j * k + l] * along[l * k + i]);
                t[j * k + i] = -factor * sum;
            }
            t[i * k + i] = factor;
        }
        Reflections {
            vectors,
            row,
            m,
            k,
            t,
        }
    }

    /// Multiplies columns of `a`, whose rows are `row` apart, by the product from the left, or by its inverse.
    pub fn apply(&self, a: &mut [T], row: usize, columns: Range<usize>, inverse: bool) {
        let (m, k, width) = (self.m, self.k, columns.len());
        if width == 0 || m == 0 {
            return;
        }
        let vectors = View::dense(self.vectors, self.row);
        let t = View::dense(&self.t, k);
        // (V·a)ᵀ·T, where V has the vectors as rows: a row a column of `a`.
        let mut sums = vec![T::ZERO; width * k];
        let of = View::dense(a, row).from(0, columns.start).transpose();
        by_tiles(&mut sums, k, m * k, |first, tile| {
            let n = tile.len() / k;
            let mut along = vec![T::ZERO; tile.len()];
            let sizes = Sizes { m: n, n: k, k: m };
            let part = of.from(first, 0);
            let inner = multiply(sizes, part, vectors.transpose(), &mut along, k, false);
            let t = if inverse { t } else { t.transpose() };
            let sizes = Sizes { m: n, n: k, k };
            let outer = multiply(sizes, View::dense(&along, k), t, tile, k, false);
            inner.and(outer).expect("tiles are inside the matrix");
        });
        let mut left = Vec::with_capacity(m * k);
        for i in 0..m {
            left.extend((0..k).map(|j| self.vectors[j * self.row + i]));
        }
        let to = Target {
            rows: &mut a[..m * row],
            row,
            column: columns.start,
        };
        subtract(to, &left, View::dense(&sums, k).transpose(), k, |_| width);
    }
}

/// Writes the first `n` columns of the product of reflections, a matrix of `m` rows. Row k of `vectors`, of `m` elements, holds
/// vector k, whose first element is `shift` behind its place on the diagonal; zeros stand before it.
pub(super) fn orthonormal<T: Float>(
    vectors: &[T],
    factors: &[T],
    (m, n): (usize, usize),
    shift: usize,
    q: &mut [T],
) {
    q.fill(T::ZERO);
    (0..n.min(m)).for_each(|i| q[i * n + i] = T::ONE);
    let starts = (0..factors.len()).step_by(BLOCK);
    for start in starts.rev() {
        let end = (start + BLOCK).min(factors.len());
        let first = start + shift;
        let of = &vectors[start * m + first..];
        let block = Reflections::new(of, m, m - first, &factors[start..end]);
        block.apply(&mut q[first * n..], n, first..n, false);
    }
}
