//! Equations by factors and by triangles.

use super::{Lane, Matrices, SIDE, SMALL, matrices};
use crate::cpu::dense::rows;
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::linalg::{Fault, First, Float, PACKED_HEAD, Triangular};

/// What equations are solved by.
#[derive(Clone, Copy, Debug)]
pub enum SmallForm {
    /// A triangle of a matrix.
    Triangle(Triangular),
    /// Packed factors.
    Packed {
        /// Whether equations are those of the matrix with rows and columns exchanged.
        transposed: bool,
    },
}

/// Equations by matrices of `n` rows, at most [`SMALL`](super::SMALL).
#[derive(Clone, Copy, Debug)]
pub struct SmallEquations<'a, T> {
    /// The matrices, or their packed factors.
    pub elements: &'a [T],
    /// Which matrix the equations of each result are of.
    pub of: &'a [usize],
    /// Rows of a matrix.
    pub n: usize,
    /// What they are solved by.
    pub form: SmallForm,
}

impl<'a, T: Float> SmallEquations<'a, T> {
    /// Solves for `k` right-hand sides in place of these.
    ///
    /// # Errors
    /// The first matrix whose factors have a pivot of 0, and which.
    pub fn solve(self, x: &mut [T], k: usize) -> Result<(), (usize, Fault)> {
        let (n, first) = (self.n, First::default());
        rows(x, n * k, 2 * n * n * k, |start, block| {
            for (i, x) in block.chunks_mut(SIDE * n * k).enumerate() {
                let at = start + i * SIDE;
                let of = &self.of[at..at + x.len() / (n * k)];
                let equations = SmallEquations { of, ..self };
                let faults = dispatch(Solve { equations, x, k });
                for (lane, &pivot) in faults.iter().enumerate().filter(|(_, pivot)| **pivot > 0) {
                    first.note(at + lane, Fault::Singular(pivot));
                }
            }
        });
        first.result()
    }

    /// Rows in front of a matrix's elements.
    fn head(&self) -> usize {
        match self.form {
            SmallForm::Triangle(_) => 0,
            SmallForm::Packed { .. } => PACKED_HEAD,
        }
    }

    /// All elements of a matrix, with those in front.
    fn matrix(&self, at: usize) -> &'a [T] {
        let size = (self.head() + self.n) * self.n;
        &self.elements[at * size..(at + 1) * size]
    }
}

/// Equations by at most [`SIDE`] matrices.
struct Solve<'a, T> {
    equations: SmallEquations<'a, T>,
    x: &'a mut [T],
    k: usize,
}

impl<T: Float> Loop for Solve<'_, T> {
    /// Of each matrix the first pivot that is 0, counted from 1; 0 where none is.
    type Output = [usize; SIDE];

    #[inline(always)]
    fn run(self) -> [usize; SIDE] {
        let (equations, k) = (self.equations, self.k);
        let SmallEquations { of, n, form, .. } = equations;
        let head = equations.head() * n;
        matrices!(f, n, T);
        f.load(of.iter().map(|&at| &equations.matrix(at)[head..]));
        // Rows of the right-hand side are given, or rows of the result are put, in the order of the factors.
        let (given, put) = match form {
            SmallForm::Triangle(_) => (false, false),
            SmallForm::Packed { transposed } => (!transposed, transposed),
        };
        let place = |ordered: bool, at: usize, i: usize| match ordered {
            true => equations.matrix(at)[i].to_f64() as usize,
            false => i,
        };
        let mut x = [[T::ZERO; SIDE]; SMALL];
        for column in 0..k {
            for ((lane, from), &at) in self.x.chunks_exact(n * k).enumerate().zip(of) {
                for (i, x) in x[..n].iter_mut().enumerate() {
                    x[lane] = from[place(given, at, i) * k + column];
                }
            }
            substitute(&f, &mut x[..n], form);
            for ((lane, to), &at) in self.x.chunks_exact_mut(n * k).enumerate().zip(of) {
                for (i, x) in x[..n].iter().enumerate() {
                    to[place(put, at, i) * k + column] = x[lane];
                }
            }
        }
        match form {
            SmallForm::Triangle(_) => [0; SIDE],
            SmallForm::Packed { .. } => zeros(&f),
        }
    }
}

/// The first zero on each diagonal, counted from 1; 0 where none is.
#[inline(always)]
fn zeros<T: Float>(f: &Matrices<'_, T>) -> [usize; SIDE] {
    let mut found = [0; SIDE];
    for j in (0..f.n).rev() {
        for (found, &pivot) in found.iter_mut().zip(f.at(j, j)) {
            if pivot == T::ZERO {
                *found = j + 1;
            }
        }
    }
    found
}

/// Solves for one right-hand side.
#[inline(always)]
fn substitute<T: Float>(f: &Matrices<'_, T>, x: &mut [Lane<T>], form: SmallForm) {
    let (rows, columns) = (|i, j| f.row_from(i, j), |j, i| f.column_from(i, j));
    match form {
        SmallForm::Triangle(Triangular { upper: false, unit }) => forward(x, f, rows, !unit),
        SmallForm::Triangle(Triangular { upper: true, unit }) => backward(x, f, rows, !unit),
        SmallForm::Packed { transposed: false } => {
            forward(x, f, rows, false);
            backward(x, f, rows, true);
        }
        SmallForm::Packed { transposed: true } => {
            forward(x, f, columns, true);
            backward(x, f, columns, false);
        }
    }
}

/// Solves by a lower triangle, whose diagonal is 1 where nothing is `divided`. `line(i, j)` has the factors of equation `i` from
/// unknown `j` on.
#[inline(always)]
fn forward<'a, T: Float, I: Iterator<Item = &'a Lane<T>>>(
    x: &mut [Lane<T>],
    f: &Matrices<'_, T>,
    line: impl Fn(usize, usize) -> I,
    divided: bool,
) {
    for i in 0..x.len() {
        let (known, own) = x.split_at_mut(i);
        subtract(&mut own[0], line(i, 0), known);
        if divided {
            divide(&mut own[0], f.at(i, i));
        }
    }
}

/// Solves by an upper triangle, whose diagonal is 1 where nothing is `divided`.
#[inline(always)]
fn backward<'a, T: Float, I: Iterator<Item = &'a Lane<T>>>(
    x: &mut [Lane<T>],
    f: &Matrices<'_, T>,
    line: impl Fn(usize, usize) -> I,
    divided: bool,
) {
    for i in (0..x.len()).rev() {
        let (own, known) = x.split_at_mut(i + 1);
        subtract(&mut own[i], line(i, i + 1), known);
        if divided {
            divide(&mut own[i], f.at(i, i));
        }
    }
}

/// Subtracts what is known times its factors.
#[inline(always)]
fn subtract<'a, T: Float>(
    own: &mut Lane<T>,
    factors: impl Iterator<Item = &'a Lane<T>>,
    known: &[Lane<T>],
) {
    let mut rest = *own;
    for (known, factor) in known.iter().zip(factors) {
        for l in 0..SIDE {
            rest[l] = rest[l] - factor[l] * known[l];
        }
    }
    *own = rest;
}

#[inline(always)]
fn divide<T: Float>(own: &mut Lane<T>, by: &Lane<T>) {
    for l in 0..SIDE {
        own[l] = own[l] / by[l];
    }
}
