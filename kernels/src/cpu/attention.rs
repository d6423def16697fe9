//! Attention by blocks of queries and keys: the scores of a block lie in the cache, and no more of them exist.
//!
//! A block's softmax is taken about the greatest score met so far; when a later block brings a greater one, what was
//! summed is scaled down (Milakov and Gimelshein, 2018; Dao et al., FlashAttention, 2022). Blocks are cut by sizes
//! alone: results have the same bits on any number of threads.

pub mod gradient;

use super::dense::{Plain, Shared, ranges, scratch};
use super::isa::{Loop, dispatch};
use super::matmul::multiply;
use super::unary;
use super::vector::Real;
use super::view::{Sizes, View};
use crate::UnaryOp;
use ferrotrace_runtime::{Element, Error, Result};
use std::sync::{Mutex, PoisonError};

/// Queries of a block.
const QUERIES: usize = 128;
/// Keys of a block: its scores and weights take 256 KiB of binary32.
const KEYS: usize = 256;
/// Numbers added or compared side by side.
const LANES: usize = 16;

/// Matrices of a batch: number `i` starts `starts[i]` into the view.
#[derive(Debug)]
pub struct Matrices<'a, T> {
    /// The element at which each matrix starts.
    pub starts: Vec<usize>,
    /// The memory, and the distances of rows and columns.
    pub view: View<'a, T>,
}

impl<'a, T: Copy> Matrices<'a, T> {
    /// Matrix `i` from row `row` on.
    fn at(&self, i: usize, row: usize) -> View<'a, T> {
        View {
            start: self.view.start + self.starts[i],
            ..self.view
        }
        .from(row, 0)
    }
}

/// Which keys a query sees.
#[derive(Debug)]
pub enum Mask<'a, T> {
    /// Every key.
    None,
    /// The keys at its own position and before.
    Causal,
    /// The keys where the truth mask `[queries, keys]` holds.
    Truth(Matrices<'a, bool>),
    /// All, with these numbers added to the scores: −∞ hides a key.
    Added(Matrices<'a, T>),
}

/// Queries, keys, their width, and the width of the values.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Queries of each matrix.
    pub queries: usize,
    /// Keys and values of each matrix.
    pub keys: usize,
    /// Elements of a query and of a key.
    pub width: usize,
    /// Elements of a value.
    pub values: usize,
}

/// Writes softmax(q·kᵀ·scale, masked)·v to `out`, dense matrices `[queries, values]` one after the other. A query that
/// sees no key gives zeros, if there is a mask.
///
/// # Errors
/// `Internal`: a matrix leaves its memory.
pub fn attention<T: Real + Element + Plain>(
    extent: Extent,
    scale: T,
    q: &Matrices<'_, T>,
    k: &Matrices<'_, T>,
    v: &Matrices<'_, T>,
    mask: &Mask<'_, T>,
    out: &mut [T],
) -> Result<()> {
    let Extent {
        queries,
        keys,
        width,
        values,
    } = extent;
    let blocks = queries.div_ceil(QUERIES);
    let batch = q.starts.len();
    if out.len() != batch * queries * values {
        return Err(Error::internal("a result of another size"));
    }
    let exp = unary::kernel(UnaryOp::Exp, T::DTYPE)
        .ok_or_else(|| Error::internal("attention of another type"))?;
    let out = Shared::new(out);
    let failed = Mutex::new(Ok(()));
    let cost = QUERIES * keys * (width + values);
    ranges(batch * blocks, cost, |range| {
        for task in range {
            let (i, first) = (task / blocks, task % blocks * QUERIES);
            let rows = QUERIES.min(queries - first);
            let start = (i * queries + first) * values;
            // SAFETY: blocks of queries are disjoint.
            let out = unsafe { out.part(start..start + rows * values) };
            let block = Block {
                extent,
                scale,
                first,
                rows,
                exp,
            };
            let result = block.run(i, q.at(i, first), k, v, mask, out);
            if result.is_err() {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = result;
            }
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// A block of queries.
struct Block<T> {
    extent: Extent,
    scale: T,
    first: usize,
    rows: usize,
    exp: super::pointwise::Kernel,
}

impl<T: Real + Element + Plain> Block<T> {
    fn run(
        &self,
        i: usize,
        q: View<'_, T>,
        k: &Matrices<'_, T>,
        v: &Matrices<'_, T>,
        mask: &Mask<'_, T>,
        out: &mut [T],
    ) -> Result<()> {
        let Extent {
            keys,
            width,
            values,
            ..
        } = self.extent;
        let rows = self.rows;
        out.fill(T::ZERO);
        scratch::<T, _>(rows * (2 * KEYS + width + 2), |memory| {
            let (scores, memory) = memory.split_at_mut(rows * KEYS);
            let (weights, memory) = memory.split_at_mut(rows * KEYS);
            let (scaled, totals) = memory.split_at_mut(rows * width);
            let (greatest, sums) = totals.split_at_mut(rows);
            self.scale(q, scaled);
            greatest.fill(T::LOWEST);
            sums.fill(T::ZERO);
            for start in (0..keys).step_by(KEYS) {
                if matches!(mask, Mask::Causal) && start >= self.first + rows {
                    break;
                }
                let n = KEYS.min(keys - start);
                let (scores, weights) = (&mut scores[..rows * n], &mut weights[..rows * n]);
                let sizes = Sizes {
                    m: rows,
                    n,
                    k: width,
                };
                if width == 0 {
                    scores.fill(T::ZERO);
                } else {
                    let keys = k.at(i, start).transpose();
                    multiply(sizes, View::dense(&*scaled, width), keys, scores, n, false)?;
                }
                self.hide(i, start, scores, n, mask);
                let mut about = About {
                    scores,
                    n,
                    greatest,
                    sums,
                    out,
                    values,
                };
                dispatch(&mut about);
                let (from, to) = (scores.as_ptr().cast(), weights.as_mut_ptr().cast());
                // SAFETY: the kernel reads so many elements and writes as many others.
                unsafe { (self.exp)(scores.len(), [from; 3], to) };
                dispatch(Sum { weights, n, sums });
                let sizes = Sizes {
                    m: rows,
                    n: values,
                    k: n,
                };
                let weights = View::dense(&*weights, n);
                multiply(sizes, weights, v.at(i, start), out, values, true)?;
            }
            let hidden_rows_are_zero = !matches!(mask, Mask::None | Mask::Causal);
            for (row, out) in out.chunks_exact_mut(values.max(1)).enumerate() {
                let sum = sums[row];
                let nothing = keys == 0 || (sum == T::ZERO && hidden_rows_are_zero);
                for x in out {
                    *x = if nothing { T::ZERO } else { x.per(sum) };
                }
            }
            Ok(())
        })
    }

    /// The queries of the block, scaled, as dense rows.
    fn scale(&self, q: View<'_, T>, to: &mut [T]) {
        let at = |row: usize, column: usize| {
            let offset = row as isize * q.row + column as isize * q.col;
            q.data[(q.start as isize + offset) as usize]
        };
        for (row, to) in to.chunks_exact_mut(self.extent.width.max(1)).enumerate() {
            for (column, to) in to.iter_mut().enumerate() {
                *to = at(row, column).times(self.scale);
            }
        }
    }

    /// Applies the mask to the scores of `n` keys from `start` on.
    fn hide(&self, i: usize, start: usize, scores: &mut [T], n: usize, mask: &Mask<'_, T>) {
        let row_of = |view: View<'_, T>, row: usize, column: usize| {
            let at = row as isize * view.row + column as isize * view.col;
            view.data[(view.start as isize + at) as usize]
        };
        for (row, scores) in scores.chunks_exact_mut(n.max(1)).enumerate() {
            let query = self.first + row;
            match mask {
                Mask::None => {}
                Mask::Causal => {
                    let seen = (query + 1).saturating_sub(start).min(n);
                    scores[seen..].fill(T::LOWEST);
                }
                Mask::Added(added) => {
                    let view = added.at(i, query).from(0, start);
                    for (column, score) in scores.iter_mut().enumerate() {
                        *score = score.plus(row_of(view, 0, column));
                    }
                }
                Mask::Truth(seen) => {
                    let view = seen.at(i, query).from(0, start);
                    for (column, score) in scores.iter_mut().enumerate() {
                        let at = view.start as isize + column as isize * view.col;
                        if !view.data[at as usize] {
                            *score = T::LOWEST;
                        }
                    }
                }
            }
        }
    }
}

/// Rows of `n` scores become differences from the greatest so far; what was summed before is scaled to it.
struct About<'a, T> {
    scores: &'a mut [T],
    n: usize,
    /// For each row the greatest score so far; beside it, the sum of weights relative to that score.
    greatest: &'a mut [T],
    sums: &'a mut [T],
    /// Rows of `values`: weighted sums.
    out: &'a mut [T],
    values: usize,
}

impl<T: Real> Loop for &mut About<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let About {
            scores,
            n,
            greatest,
            sums,
            out,
            values,
        } = self;
        for (row, scores) in scores.chunks_exact_mut((*n).max(1)).enumerate() {
            // A NaN is not seen here: it shows in the sum.
            let greater = |a: T, b: T| if b > a { b } else { a };
            let mut lanes = [T::LOWEST; LANES];
            let mut chunks = scores.chunks_exact(LANES);
            for chunk in &mut chunks {
                for (lane, &score) in lanes.iter_mut().zip(chunk) {
                    *lane = greater(*lane, score);
                }
            }
            let rest = chunks.remainder().iter().copied();
            let most = rest.chain(lanes).fold(greatest[row], greater);
            // Where no key is seen yet there is no greatest score: 0 stands for it.
            let about = if most == T::LOWEST { T::ZERO } else { most };
            for score in scores {
                *score = score.minus(about);
            }
            let before = greatest[row];
            if before != most {
                let factor = match before == T::LOWEST {
                    true => T::ZERO,
                    false => T::from_f64(before.minus(most).to_f64().exp()),
                };
                sums[row] = sums[row].times(factor);
                for x in &mut out[row * *values..(row + 1) * *values] {
                    *x = x.times(factor);
                }
                greatest[row] = most;
            }
        }
    }
}

/// Adds the weights of each row of `n` to its sum.
struct Sum<'a, T> {
    weights: &'a [T],
    n: usize,
    sums: &'a mut [T],
}

impl<T: Real> Loop for Sum<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (row, weights) in self.weights.chunks_exact(self.n.max(1)).enumerate() {
            let mut lanes = [T::ZERO; LANES];
            let mut chunks = weights.chunks_exact(LANES);
            for chunk in &mut chunks {
                for (lane, &weight) in lanes.iter_mut().zip(chunk) {
                    *lane = lane.plus(weight);
                }
            }
            let mut half = LANES / 2;
            while half > 0 {
                for i in 0..half {
                    lanes[i] = lanes[i].plus(lanes[i + half]);
                }
                half /= 2;
            }
            let rest = chunks.remainder().iter();
            let sum = rest.fold(lanes[0], |sum, &weight| sum.plus(weight));
            self.sums[row] = self.sums[row].plus(sum);
        }
    }
}
