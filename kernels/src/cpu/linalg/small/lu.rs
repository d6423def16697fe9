//! Gaussian elimination with partial pivoting.

use super::{Lane, Matrices, SIDE, by_rows, load, store};
use crate::cpu::dense::rows;
use crate::cpu::isa::Loop;
use crate::cpu::linalg::{Float, PACKED_HEAD as HEAD};

/// The packed factors of matrices of `n` rows, at most [`SMALL`](super::SMALL): of each, the order of rows, the exchanges, and U with L below it.
pub fn lu_small<T: Float>(matrices: &[T], out: &mut [T], n: usize) {
    let size = (HEAD + n) * n;
    rows(out, size, n * n * n, |start, block| {
        for (i, packed) in block.chunks_mut(SIDE * size).enumerate() {
            let from = (start + i * SIDE) * n * n;
            let matrices = &matrices[from..from + packed.len() / size * n * n];
            by_rows!(
                n,
                Eliminate::<T> {
                    matrices,
                    packed,
                    n
                }
            );
        }
    });
}

/// At most [`SIDE`] matrices.
struct Eliminate<'a, T, const N: usize> {
    matrices: &'a [T],
    packed: &'a mut [T],
    n: usize,
}

impl<T: Float, const N: usize> Loop for Eliminate<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let n = self.n;
        let mut x = [[[T::ONE; SIDE]; N]; N];
        load(&mut x, self.matrices.chunks_exact(n * n), n);
        // Which row lies in each place, as numbers.
        let mut order = [[T::ZERO; SIDE]; N];
        for i in 1..n {
            order[i] = order[i - 1].map(|number| number + T::ONE);
        }
        let mut exchanged = [[T::ZERO; SIDE]; N];
        for j in 0..n {
            let pivots = greatest(&x, n, j);
            for i in j + 1..n {
                let moves = pivots.map(|at| usize::from(at) == i);
                if moves.contains(&true) {
                    exchange(&mut x, [j, i], &moves);
                    let (above, below) = order.split_at_mut(i);
                    swap(&mut above[j], &mut below[0], &moves);
                }
            }
            exchanged[j] = pivots.map(|at| T::from_f64(f64::from(at)));
            eliminate(&mut x, n, j);
        }
        let size = (HEAD + n) * n;
        let heads = self
            .packed
            .chunks_exact_mut(size)
            .map(|packed| &mut packed[..HEAD * n]);
        for (lane, head) in heads.enumerate() {
            for i in 0..n {
                head[i] = order[i][lane];
                head[n + i] = exchanged[i][lane];
            }
        }
        let factors = self
            .packed
            .chunks_exact_mut(size)
            .map(|packed| &mut packed[HEAD * n..]);
        store(&x, factors, n);
    }
}

/// The rows from `j` on whose elements of column `j` are the greatest, the first of equals.
#[inline(always)]
fn greatest<T: Float, const N: usize>(x: &Matrices<T, N>, n: usize, j: usize) -> Lane<u8> {
    let mut found = [j as u8; SIDE];
    let mut most = x[j][j].map(|x| x.abs());
    for (i, row) in x.iter().enumerate().take(n).skip(j + 1) {
        for l in 0..SIDE {
            let own = row[j][l].abs();
            let greater = own > most[l];
            found[l] = if greater { i as u8 } else { found[l] };
            most[l] = if greater { own } else { most[l] };
        }
    }
    found
}

/// Exchanges two rows of the matrices that `moves` names.
#[inline(always)]
fn exchange<T: Float, const N: usize>(
    x: &mut Matrices<T, N>,
    [j, i]: [usize; 2],
    moves: &Lane<bool>,
) {
    let (above, below) = x.split_at_mut(i);
    for (a, b) in above[j].iter_mut().zip(&mut below[0]) {
        swap(a, b, moves);
    }
}

#[inline(always)]
fn swap<E: Copy>(a: &mut Lane<E>, b: &mut Lane<E>, moves: &Lane<bool>) {
    for l in 0..SIDE {
        let (own, other) = (a[l], b[l]);
        a[l] = if moves[l] { other } else { own };
        b[l] = if moves[l] { own } else { other };
    }
}

/// Takes row `j` from the rows below it. A column of zeros is left as it is.
#[inline(always)]
fn eliminate<T: Float, const N: usize>(x: &mut Matrices<T, N>, n: usize, j: usize) {
    let (above, below) = x.split_at_mut(j + 1);
    let row = &above[j];
    for other in &mut below[..n - j - 1] {
        let mut factors = [T::ZERO; SIDE];
        for l in 0..SIDE {
            let zero = row[j][l] == T::ZERO;
            factors[l] = other[j][l] / row[j][l];
            other[j][l] = if zero { other[j][l] } else { factors[l] };
        }
        for c in j + 1..n {
            for l in 0..SIDE {
                let rest = other[c][l] - factors[l] * row[c][l];
                let zero = row[j][l] == T::ZERO;
                other[c][l] = if zero { other[c][l] } else { rest };
            }
        }
    }
}
