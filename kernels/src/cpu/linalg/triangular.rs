//! Equations of triangular matrices by substitution, block by block (Golub and Van Loan, Matrix Computations, 3.1).

use super::Float;
use super::block::{BLOCK, Target, panel, subtract};
use super::row::{add, dot};
use crate::cpu::view::View;
use std::ops::Range;

/// What is read of a square matrix.
#[derive(Clone, Copy, Debug)]
pub struct Triangular {
    /// The upper triangle instead of the lower one.
    pub upper: bool,
    /// The diagonal is taken to be 1.
    pub unit: bool,
}

/// Solves a·x = b in place of b, rows of `k` numbers.
pub fn solve<T: Float>(a: &[T], n: usize, x: &mut [T], k: usize, form: Triangular) {
    if k == 1 {
        return one(a, n, x, form);
    }
    let blocks = n.div_ceil(BLOCK);
    for block in 0..blocks {
        let block = if form.upper {
            blocks - 1 - block
        } else {
            block
        };
        let (start, end) = (block * BLOCK, (block * BLOCK + BLOCK).min(n));
        within(a, n, x, k, start..end, form);
        let known = x[start * k..end * k].to_vec();
        let rest = if form.upper { 0..start } else { end..n };
        let left = panel(&a[rest.start * n..rest.end * n], n, start, end);
        let to = Target {
            rows: &mut x[rest.start * k..rest.end * k],
            row: k,
            column: 0,
        };
        subtract(to, &left, View::dense(&known, k), end - start, |_| k);
    }
}

/// The rows of one block, from what is known of them.
fn within<T: Float>(
    a: &[T],
    n: usize,
    x: &mut [T],
    k: usize,
    block: Range<usize>,
    form: Triangular,
) {
    for step in 0..block.len() {
        let i = match form.upper {
            true => block.end - 1 - step,
            false => block.start + step,
        };
        let (head, tail) = x.split_at_mut(i * k);
        let (row, tail) = tail.split_at_mut(k);
        if form.upper {
            for j in i + 1..block.end {
                add(row, -a[i * n + j], &tail[(j - i - 1) * k..(j - i) * k]);
            }
        } else {
            for j in block.start..i {
                add(row, -a[i * n + j], &head[j * k..(j + 1) * k]);
            }
        }
        if !form.unit {
            let pivot = a[i * n + i];
            row.iter_mut().for_each(|x| *x = *x / pivot);
        }
    }
}

/// One right-hand side.
fn one<T: Float>(a: &[T], n: usize, x: &mut [T], form: Triangular) {
    for step in 0..n {
        let i = if form.upper { n - 1 - step } else { step };
        let row = &a[i * n..(i + 1) * n];
        let sum = match form.upper {
            true => dot(&row[i + 1..], &x[i + 1..]),
            false => dot(&row[..i], &x[..i]),
        };
        let rest = x[i] - sum;
        x[i] = if form.unit { rest } else { rest / row[i] };
    }
}
