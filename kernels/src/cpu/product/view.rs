//! Matrices in memory, and the sizes of their products.

use ferrotrace_runtime::{Error, Result};

/// Sizes of a product `c[m, n] = a[m, k] · b[k, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Elements summed.
    pub k: usize,
}

impl Sizes {
    pub(in crate::cpu) fn work(self) -> usize {
        self.m.saturating_mul(self.n).saturating_mul(self.k)
    }
}

/// A matrix: element (i, j) is at `start + i · row + j · col` of `data`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T> {
    /// The memory.
    pub data: &'a [T],
    /// The place of element (0, 0).
    pub start: usize,
    /// The distance of rows.
    pub row: isize,
    /// The distance of columns.
    pub col: isize,
}

impl<'a, T> View<'a, T> {
    /// A row-major dense matrix of `columns` columns.
    pub fn dense(data: &'a [T], columns: usize) -> View<'a, T> {
        View {
            data,
            start: 0,
            row: columns as isize,
            col: 1,
        }
    }

    /// The matrix with rows and columns exchanged.
    pub fn transpose(self) -> View<'a, T> {
        View {
            row: self.col,
            col: self.row,
            ..self
        }
    }

    /// The matrix from element (i, j) on.
    pub fn from(self, i: usize, j: usize) -> View<'a, T> {
        let start = self.start as isize + i as isize * self.row + j as isize * self.col;
        View {
            start: start as usize,
            ..self
        }
    }

    pub(super) fn check(&self, rows: usize, columns: usize) -> Result<()> {
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let reach = |n: usize, stride: isize| (n as isize - 1) * stride;
        let (r, c) = (reach(rows, self.row), reach(columns, self.col));
        let low = self.start as isize + r.min(0) + c.min(0);
        let high = self.start as isize + r.max(0) + c.max(0);
        if low < 0 || high as usize >= self.data.len() {
            return Err(Error::internal("a matrix leaves its memory"));
        }
        Ok(())
    }
}
