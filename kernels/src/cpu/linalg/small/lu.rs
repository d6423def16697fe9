//! Gaussian elimination with partial pivoting.

use super::{Lane, Matrices, SIDE, SMALL, matrices};
use crate::cpu::dense::rows;
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::linalg::{Float, PACKED_HEAD as HEAD};

/// The packed factors of matrices of `n` rows, at most [`SMALL`](super::SMALL): of each, the order of rows, the exchanges, and U with L below it.
pub fn lu_small<T: Float>(matrices: &[T], out: &mut [T], n: usize) {
    let size = (HEAD + n) * n;
    rows(out, size, n * n * n, |start, block| {
        for (i, packed) in block.chunks_mut(SIDE * size).enumerate() {
            let from = (start + i * SIDE) * n * n;
            let matrices = &matrices[from..from + packed.len() / size * n * n];
            dispatch(Eliminate {
                matrices,
                packed,
                n,
            });
        }
    });
}

/// At most [`SIDE`] matrices.
struct Eliminate<'a, T> {
    matrices: &'a [T],
    packed: &'a mut [T],
    n: usize,
}

impl<T: Float> Loop for Eliminate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let n = self.n;
        matrices!(x, n, T);
        x.load(self.matrices.chunks_exact(n * n));
        // Which row lies in each place, and which was exchanged with each.
        let mut order = [[0u8; SIDE]; SMALL];
        for (i, order) in order.iter_mut().enumerate() {
            order.fill(i as u8);
        }
        let mut exchanged = [[0u8; SIDE]; SMALL];
        for j in 0..n {
            let pivots = greatest(&x, j);
            for i in j + 1..n {
                let (mut moves, mut any) = ([false; SIDE], false);
                for l in 0..SIDE {
                    moves[l] = pivots[l] == i as u8;
                    any |= moves[l];
                }
                if !any {
                    continue;
                }
                exchange(&mut x, [j, i], &moves);
                let (above, below) = order.split_at_mut(i);
                swap(&mut above[j], &mut below[0], &moves);
            }
            exchanged[j] = pivots;
            eliminate(&mut x, j);
        }
        let size = (HEAD + n) * n;
        let heads = self
            .packed
            .chunks_exact_mut(size)
            .map(|packed| &mut packed[..HEAD * n]);
        for (lane, head) in heads.enumerate() {
            for i in 0..n {
                head[i] = T::from_f64(f64::from(order[i][lane]));
                head[n + i] = T::from_f64(f64::from(exchanged[i][lane]));
            }
        }
        let factors = self
            .packed
            .chunks_exact_mut(size)
            .map(|packed| &mut packed[HEAD * n..]);
        x.store(factors);
    }
}

/// The rows from `j` on whose elements of column `j` are the greatest, the first of equals.
#[inline(always)]
fn greatest<T: Float>(x: &Matrices<'_, T>, j: usize) -> Lane<u8> {
    let mut found = [j as u8; SIDE];
    let mut most = *x.at(j, j);
    for most in &mut most {
        *most = most.abs();
    }
    for i in j + 1..x.n {
        let row = x.at(i, j);
        for l in 0..SIDE {
            let own = row[l].abs();
            let greater = own > most[l];
            found[l] = if greater { i as u8 } else { found[l] };
            most[l] = if greater { own } else { most[l] };
        }
    }
    found
}

/// Exchanges two rows of the matrices that `moves` names.
#[inline(always)]
fn exchange<T: Float>(x: &mut Matrices<'_, T>, [j, i]: [usize; 2], moves: &Lane<bool>) {
    let n = x.n;
    let (row, below) = x.row_and_rest(j);
    let other = &mut below[(i - j - 1) * n..(i - j) * n];
    for (a, b) in row.iter_mut().zip(other) {
        swap(a, b, moves);
    }
}

#[inline(always)]
fn swap<E: Copy>(a: &mut Lane<E>, b: &mut Lane<E>, moves: &Lane<bool>) {
    // Read before any is written: lanes that may be the same memory are not vectors.
    let (own, other) = (*a, *b);
    for l in 0..SIDE {
        a[l] = if moves[l] { other[l] } else { own[l] };
    }
    for l in 0..SIDE {
        b[l] = if moves[l] { own[l] } else { other[l] };
    }
}

/// Takes row `j` from the rows below it. A column of zeros is left as it is.
#[inline(always)]
fn eliminate<T: Float>(x: &mut Matrices<'_, T>, j: usize) {
    let n = x.n;
    let (row, below) = x.row_and_rest(j);
    let pivot = row[j];
    for other in below.chunks_exact_mut(n) {
        let mut factors = [T::ZERO; SIDE];
        let first = other[j];
        for l in 0..SIDE {
            factors[l] = first[l] / pivot[l];
        }
        for l in 0..SIDE {
            let zero = pivot[l] == T::ZERO;
            other[j][l] = if zero { first[l] } else { factors[l] };
        }
        for (other, row) in other[j + 1..].iter_mut().zip(&row[j + 1..]) {
            let (own, row) = (*other, *row);
            for l in 0..SIDE {
                let zero = pivot[l] == T::ZERO;
                let rest = own[l] - factors[l] * row[l];
                other[l] = if zero { own[l] } else { rest };
            }
        }
    }
}
