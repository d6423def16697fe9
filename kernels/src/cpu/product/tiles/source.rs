//! Where factors lie, and the parts of bf16 that tiles hold of each.

use crate::cpu::view::View;
use ferrotrace_runtime::Result;
use half::bf16;

/// The type of factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Numbers of bf16, as they are.
    Half,
    /// Numbers of `f32`, each the sum of three of bf16.
    Single,
}

impl Format {
    /// Numbers of bf16 that are a factor: as many tiles follow each other for every 32 terms.
    pub(super) fn parts(self) -> usize {
        match self {
            Format::Half => 1,
            Format::Single => 3,
        }
    }

    /// Bytes of a factor.
    fn size(self) -> usize {
        match self {
            Format::Half => size_of::<bf16>(),
            Format::Single => size_of::<f32>(),
        }
    }
}

/// A matrix of factors.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Of bf16.
    Half(View<'a, bf16>),
    /// Of `f32`.
    Single(View<'a, f32>),
}

/// A matrix made of another's view, of whichever type.
macro_rules! each {
    ($source:expr, $view:ident => $result:expr) => {
        match $source {
            Source::Half($view) => Source::Half($result),
            Source::Single($view) => Source::Single($result),
        }
    };
}

impl<'a> Source<'a> {
    /// The type of its elements.
    pub fn format(&self) -> Format {
        match self {
            Source::Half(_) => Format::Half,
            Source::Single(_) => Format::Single,
        }
    }

    /// The matrix that starts at a place of its memory.
    pub fn at(self, start: usize) -> Source<'a> {
        each!(self, view => View { start, ..view })
    }

    /// The matrix from a row and a column on.
    pub(super) fn from(self, row: usize, column: usize) -> Source<'a> {
        each!(self, view => view.from(row, column))
    }

    /// The matrix with rows and columns exchanged.
    pub(super) fn transpose(self) -> Source<'a> {
        each!(self, view => view.transpose())
    }

    /// # Errors
    /// `Internal`: the matrix leaves its memory.
    pub(super) fn check(&self, rows: usize, columns: usize) -> Result<()> {
        match self {
            Source::Half(view) => view.check(rows, columns),
            Source::Single(view) => view.check(rows, columns),
        }
    }

    /// The rows.
    pub(super) fn lines(&self) -> Lines {
        fn of<T>(view: &View<'_, T>, format: Format) -> Lines {
            Lines {
                first: view.data.as_ptr().wrapping_add(view.start).cast(),
                line: view.row,
                term: view.col,
                format,
            }
        }
        match self {
            Source::Half(view) => of(view, Format::Half),
            Source::Single(view) => of(view, Format::Single),
        }
    }

    /// Where the matrix starts, and the distances of its rows and columns.
    pub(super) fn place(&self) -> (usize, isize, isize) {
        match self {
            Source::Half(view) => (view.start, view.row, view.col),
            Source::Single(view) => (view.start, view.row, view.col),
        }
    }
}

/// Lines of a matrix: term `t` of line `l` is `l · line + t · term` elements after the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    pub first: *const u8,
    pub line: isize,
    pub term: isize,
    pub format: Format,
}

impl Lines {
    /// The lines from a line and a term on.
    pub fn from(self, line: usize, term: usize) -> Lines {
        let by = line as isize * self.line + term as isize * self.term;
        Lines {
            first: self.first.wrapping_offset(by * self.format.size() as isize),
            ..self
        }
    }
}
