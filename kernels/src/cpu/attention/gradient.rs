//! The gradients of attention by blocks of queries: the scores of one block are held, and no more of them exist.
//!
//! The blocks of a matrix are taken in order, since all of them add to the gradients of its keys and values: results have
//! the same bits on any number of threads.

use super::{About, Block, Extent, Mask, Matrices, QUERIES, Sum};
use crate::UnaryOp;
use crate::cpu::dense::{Plain, Shared, ranges, scratch};
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::matmul::multiply;
use crate::cpu::unary;
use crate::cpu::vector::Real;
use crate::cpu::view::{Sizes, View};
use ferrotrace_runtime::{Element, Error, Result};
use std::sync::{Mutex, PoisonError};

/// What the gradients of an attention follow from.
#[derive(Debug)]
pub struct Backward<'a, T> {
    /// The queries.
    pub q: Matrices<'a, T>,
    /// The keys.
    pub k: Matrices<'a, T>,
    /// The values.
    pub v: Matrices<'a, T>,
    /// Which keys a query sees.
    pub mask: Mask<'a, T>,
    /// The result.
    pub result: Matrices<'a, T>,
    /// The gradient of the result.
    pub gradient: Matrices<'a, T>,
}

impl<T: Real + Element + Plain> Backward<'_, T> {
    /// Writes the gradients of queries, keys and values to dense matrices, one after the other for each matrix of the batch.
    /// No extent is 0.
    ///
    /// # Errors
    /// `Internal`: a matrix leaves its memory.
    pub fn gradients(&self, extent: Extent, scale: T, to: [&mut [T]; 3]) -> Result<()> {
        let Extent {
            queries,
            keys,
            width,
            values,
        } = extent;
        let batch = self.q.starts.len();
        let sizes = [queries * width, keys * width, keys * values];
        if (0..3).any(|i| to[i].len() != batch * sizes[i]) {
            return Err(Error::internal("gradients of another size"));
        }
        let exp = unary::kernel(UnaryOp::Exp, T::DTYPE)
            .ok_or_else(|| Error::internal("attention of another type"))?;
        let to = to.map(Shared::new);
        let failed = Mutex::new(Ok(()));
        ranges(batch, queries * keys * (3 * width + 2 * values), |range| {
            for i in range {
                // SAFETY: each matrix of the batch has parts of its own.
                let part = |k: usize| unsafe { to[k].part(i * sizes[k]..(i + 1) * sizes[k]) };
                let [dq, dk, dv] = [0, 1, 2].map(part);
                dk.fill(T::ZERO);
                dv.fill(T::ZERO);
                for first in (0..queries).step_by(QUERIES) {
                    let rows = QUERIES.min(queries - first);
                    let block = Block {
                        extent,
                        scale,
                        first,
                        rows,
                        exp,
                    };
                    let dq = &mut dq[first * width..(first + rows) * width];
                    let result = block.pull(i, self, [dq, dk, dv]);
                    if result.is_err() {
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = result;
                    }
                }
            }
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Real + Element + Plain> Block<T> {
    /// Writes the gradient of the block's queries, and adds those of the keys and values that it sees.
    fn pull(&self, i: usize, of: &Backward<'_, T>, to: [&mut [T]; 3]) -> Result<()> {
        let Extent {
            keys,
            width,
            values,
            ..
        } = self.extent;
        let rows = self.rows;
        let n = match of.mask {
            Mask::Causal => keys.min(self.first + rows),
            _ => keys,
        };
        let [dq, dk, dv] = to;
        scratch::<T, _>(rows * (2 * n + width + 2), |memory| {
            let (scores, memory) = memory.split_at_mut(rows * n);
            let (weights, memory) = memory.split_at_mut(rows * n);
            let (scaled, totals) = memory.split_at_mut(rows * width);
            let (greatest, sums) = totals.split_at_mut(rows);
            let k = of.k.at(i, 0);
            self.scale(of.q.at(i, self.first), scaled);
            let queries = View::dense(&*scaled, width);
            let product = |m, n, k| Sizes { m, n, k };
            multiply(
                product(rows, n, width),
                queries,
                k.transpose(),
                scores,
                n,
                false,
            )?;
            self.hide(i, 0, scores, n, &of.mask);
            greatest.fill(T::LOWEST);
            sums.fill(T::ZERO);
            dispatch(&mut About {
                scores,
                n,
                greatest,
                sums,
                out: &mut [],
                values: 0,
            });
            let (from, into) = (scores.as_ptr().cast(), weights.as_mut_ptr().cast());
            // SAFETY: the kernel reads so many elements and writes as many others.
            unsafe { (self.exp)(scores.len(), [from; 3], into) };
            dispatch(Sum { weights, n, sums });
            let hidden_rows_are_zero = !matches!(of.mask, Mask::None | Mask::Causal);
            for (weights, sum) in weights.chunks_exact_mut(n).zip(&*sums) {
                let nothing = *sum == T::ZERO && hidden_rows_are_zero;
                let factor = if nothing { T::ZERO } else { T::ONE.per(*sum) };
                weights.iter_mut().for_each(|x| *x = x.times(factor));
            }
            let g = of.gradient.at(i, self.first);
            let columns = View::dense(&*weights, n).transpose();
            multiply(product(n, values, rows), columns, g, dv, values, true)?;
            let v = of.v.at(i, 0).transpose();
            multiply(product(rows, n, values), g, v, scores, n, false)?;
            self.along(g, of.result.at(i, self.first), sums);
            dispatch(Slope {
                scores,
                weights,
                along: sums,
                n,
            });
            let slopes = View::dense(&*scores, n);
            multiply(product(rows, width, n), slopes, k, dq, width, false)?;
            dq.iter_mut().for_each(|x| *x = x.times(self.scale));
            multiply(
                product(n, width, rows),
                slopes.transpose(),
                queries,
                dk,
                width,
                true,
            )
        })
    }

    /// The sum of products of gradient and result in each row.
    fn along(&self, g: View<'_, T>, result: View<'_, T>, to: &mut [T]) {
        let at = |x: &View<'_, T>, row: usize, column: usize| {
            let offset = row as isize * x.row + column as isize * x.col;
            x.data[(x.start as isize + offset) as usize]
        };
        for (row, to) in to.iter_mut().enumerate() {
            let product = |c| at(&g, row, c).times(at(&result, row, c)).total();
            let total: f64 = (0..self.extent.values).map(product).sum();
            *to = T::of_total(total);
        }
    }
}

/// Rows of `n` gradients of probabilities become those of scores.
struct Slope<'a, T> {
    scores: &'a mut [T],
    weights: &'a [T],
    /// What each row is less.
    along: &'a [T],
    n: usize,
}

impl<T: Real> Loop for Slope<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let rows = self
            .scores
            .chunks_exact_mut(self.n)
            .zip(self.weights.chunks_exact(self.n));
        for ((scores, weights), &along) in rows.zip(self.along) {
            for (score, weight) in scores.iter_mut().zip(weights) {
                *score = score.minus(along).times(*weight);
            }
        }
    }
}
