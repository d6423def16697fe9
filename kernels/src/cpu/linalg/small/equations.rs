//! Equations by factors and by triangles.

use super::{Lane, SIDE, by_rows, load};
use crate::cpu::dense::rows;
use crate::cpu::isa::Loop;
use crate::cpu::linalg::{Fault, First, Float, PACKED_HEAD as HEAD, Triangular};

/// Packed factors of matrices of `n` rows, at most [`SMALL`](super::SMALL).
#[derive(Clone, Copy, Debug)]
pub struct SmallPacked<'a, T> {
    /// All elements.
    pub elements: &'a [T],
    /// Which matrix the equations of each result are of.
    pub of: &'a [usize],
    /// Rows of a matrix.
    pub n: usize,
    /// Whether equations are those of the matrices with rows and columns exchanged.
    pub transposed: bool,
}

impl<T: Float> SmallPacked<'_, T> {
    /// Solves equations of `k` right-hand sides in place of these, by the factors.
    ///
    /// # Errors
    /// The first matrix that is singular, and its first pivot that is 0.
    pub fn solve(self, x: &mut [T], k: usize) -> Result<(), (usize, Fault)> {
        let (n, first) = (self.n, First::default());
        rows(x, n * k, 2 * n * n * k, |start, block| {
            for (i, x) in block.chunks_mut(SIDE * n * k).enumerate() {
                let at = start + i * SIDE;
                let count = x.len() / (n * k);
                let of = &self.of[at..at + count];
                let packed = SmallPacked { of, ..self };
                let faults = by_rows!(n, Solve::<T> { packed, x, k });
                for (lane, &pivot) in faults.iter().enumerate().filter(|(_, pivot)| **pivot > 0) {
                    first.note(at + lane, Fault::Singular(pivot));
                }
            }
        });
        first.into()
    }
}

/// Equations by the factors of at most [`SIDE`] matrices.
struct Solve<'a, T, const N: usize> {
    packed: SmallPacked<'a, T>,
    x: &'a mut [T],
    k: usize,
}

impl<T: Float, const N: usize> Loop for Solve<'_, T, N> {
    /// Of each matrix the first pivot that is 0, counted from 1; 0 where none is.
    type Output = [usize; SIDE];

    #[inline(always)]
    fn run(self) -> [usize; SIDE] {
        let SmallPacked {
            elements,
            of,
            n,
            transposed,
        } = self.packed;
        let (size, k) = ((HEAD + n) * n, self.k);
        let matrix = |at: &usize| &elements[at * size..(at + 1) * size];
        let mut f = [[[T::ONE; SIDE]; N]; N];
        load(&mut f, of.iter().map(|at| &matrix(at)[HEAD * n..]), n);
        let mut faults = [0; SIDE];
        for j in (0..n).rev() {
            for l in 0..SIDE {
                faults[l] = if f[j][j][l] == T::ZERO {
                    j + 1
                } else {
                    faults[l]
                };
            }
        }
        for column in 0..k {
            let mut x = [[T::ZERO; SIDE]; N];
            for ((lane, given), at) in self.x.chunks_exact(n * k).enumerate().zip(of) {
                let order = matrix(at);
                for (i, x) in x[..n].iter_mut().enumerate() {
                    let from = if transposed {
                        i
                    } else {
                        order[i].to_f64() as usize
                    };
                    x[lane] = given[from * k + column];
                }
            }
            if transposed {
                forward(&mut x[..n], |i, j| &f[j][i], true);
                backward(&mut x[..n], |i, j| &f[j][i], false);
            } else {
                forward(&mut x[..n], |i, j| &f[i][j], false);
                backward(&mut x[..n], |i, j| &f[i][j], true);
            }
            for ((lane, out), at) in self.x.chunks_exact_mut(n * k).enumerate().zip(of) {
                let order = matrix(at);
                for (i, x) in x[..n].iter().enumerate() {
                    let to = if transposed {
                        order[i].to_f64() as usize
                    } else {
                        i
                    };
                    out[to * k + column] = x[lane];
                }
            }
        }
        faults
    }
}

/// Triangular matrices of `n` rows, at most [`SMALL`](super::SMALL).
#[derive(Clone, Copy, Debug)]
pub struct SmallTriangles<'a, T> {
    /// All elements.
    pub elements: &'a [T],
    /// Which matrix the equations of each result are of.
    pub of: &'a [usize],
    /// Rows of a matrix.
    pub n: usize,
    /// What is read of them.
    pub form: Triangular,
}

impl<T: Float> SmallTriangles<'_, T> {
    /// Solves equations of `k` right-hand sides in place of these.
    pub fn solve(self, x: &mut [T], k: usize) {
        let n = self.n;
        rows(x, n * k, n * n * k, |start, block| {
            for (i, x) in block.chunks_mut(SIDE * n * k).enumerate() {
                let at = start + i * SIDE;
                let of = &self.of[at..at + x.len() / (n * k)];
                let triangles = SmallTriangles { of, ..self };
                by_rows!(n, Substitute::<T> { triangles, x, k });
            }
        });
    }
}

/// Equations by at most [`SIDE`] triangles.
struct Substitute<'a, T, const N: usize> {
    triangles: SmallTriangles<'a, T>,
    x: &'a mut [T],
    k: usize,
}

impl<T: Float, const N: usize> Loop for Substitute<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (
            SmallTriangles {
                elements,
                of,
                n,
                form,
            },
            k,
        ) = (self.triangles, self.k);
        let matrices = of.iter().map(|at| &elements[at * n * n..(at + 1) * n * n]);
        let mut f = [[[T::ONE; SIDE]; N]; N];
        load(&mut f, matrices, n);
        for column in 0..k {
            let mut x = [[T::ZERO; SIDE]; N];
            for (lane, given) in self.x.chunks_exact(n * k).enumerate() {
                for (i, x) in x[..n].iter_mut().enumerate() {
                    x[lane] = given[i * k + column];
                }
            }
            match form.upper {
                true => backward(&mut x[..n], |i, j| &f[i][j], !form.unit),
                false => forward(&mut x[..n], |i, j| &f[i][j], !form.unit),
            }
            for (lane, out) in self.x.chunks_exact_mut(n * k).enumerate() {
                for (i, x) in x[..n].iter().enumerate() {
                    out[i * k + column] = x[lane];
                }
            }
        }
    }
}

/// Solves by a lower triangle, whose diagonal is 1 where nothing is `divided`.
#[inline(always)]
fn forward<'a, T: Float>(
    x: &mut [Lane<T>],
    factor: impl Fn(usize, usize) -> &'a Lane<T>,
    divided: bool,
) {
    for i in 0..x.len() {
        let (known, own) = x.split_at_mut(i);
        let own = &mut own[0];
        for (j, known) in known.iter().enumerate() {
            subtract(own, factor(i, j), known);
        }
        if divided {
            divide(own, factor(i, i));
        }
    }
}

/// Solves by an upper triangle, whose diagonal is 1 where nothing is `divided`.
#[inline(always)]
fn backward<'a, T: Float>(
    x: &mut [Lane<T>],
    factor: impl Fn(usize, usize) -> &'a Lane<T>,
    divided: bool,
) {
    for i in (0..x.len()).rev() {
        let (own, known) = x.split_at_mut(i + 1);
        let own = &mut own[i];
        for (j, known) in known.iter().enumerate() {
            subtract(own, factor(i, i + 1 + j), known);
        }
        if divided {
            divide(own, factor(i, i));
        }
    }
}

#[inline(always)]
fn subtract<T: Float>(own: &mut Lane<T>, factor: &Lane<T>, known: &Lane<T>) {
    for l in 0..SIDE {
        own[l] = own[l] - factor[l] * known[l];
    }
}

#[inline(always)]
fn divide<T: Float>(own: &mut Lane<T>, by: &Lane<T>) {
    for l in 0..SIDE {
        own[l] = own[l] / by[l];
    }
}
