//! Factorisations of matrices, and equations of factors. The last two dimensions are rows and columns, earlier ones a batch;
//! elements are `F32` or `F64`. A factorisation with several results gives one tensor that holds them row below row: the
//! results are windows of it.

pub mod build;
pub mod cholesky;
pub mod eig;
pub mod eigh;
pub mod exchange;
pub mod exponential;
pub mod lu;
pub mod qr;
pub mod svd;
pub mod triangular;

use super::tensor;
use crate::copy::contiguous;
use crate::cpu::dense::{elements, elements_mut};
use crate::cpu::linalg::{Fault, Float, each};
use crate::op::operator::{Operator, operators};
use crate::op::{
    Cholesky, Eig, Eigh, Eigvalsh, ExchangeRows, Exponential, Lu, LuSolve, Qr, SolveTriangular,
    Svd, Svdvals,
};
use crate::{ArgMeta, Array, Sizes};
use ferrotrace_runtime::{DType, Error, Layout, Result, Shape};

operators! {
    /// A factorisation, or equations of factors.
    pub enum Factorisation: Operator {
        values {
            Cholesky(Cholesky),
            SolveTriangular(SolveTriangular),
            Lu(Lu),
            LuSolve(LuSolve),
            ExchangeRows(ExchangeRows),
            Qr(Qr),
            Eigh(Eigh),
            Eigvalsh(Eigvalsh),
            Eig(Eig),
            Svd(Svd),
            Svdvals(Svdvals),
            Exponential(Exponential),
        }
        boxed {}
        constants {}
        lists {}
    }
}

/// Runs an expression with a type that names the dtype's numbers: `F32` or `F64`.
macro_rules! with_float {
    ($name:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            ferrotrace_runtime::DType::F32 => {
                type $T = f32;
                $body
            }
            ferrotrace_runtime::DType::F64 => {
                type $T = f64;
                $body
            }
            other => Err($crate::ops::linalg::untaken($name, other)),
        }
    };
}
pub(super) use with_float;

/// The matrices of an operand.
pub(super) struct Matrices {
    /// The sizes of the batch.
    pub batch: Shape,
    /// Rows of a matrix.
    pub rows: usize,
    /// Columns of a matrix.
    pub columns: usize,
    /// The element type.
    pub dtype: DType,
}

impl Matrices {
    /// Matrices of these sizes in the same batch.
    pub fn sized(&self, rows: usize, columns: usize) -> Shape {
        let mut shape = self.batch.clone();
        shape.dims_mut().extend([rows, columns]);
        shape
    }
}

pub(super) fn untaken(name: &str, dtype: DType) -> Error {
    Error::untaken(name, dtype, DType::F32)
}

/// Whether matrices of the dtype are factorised.
///
/// # Errors
/// They are not: the error names the operator `name` and the cast that helps.
pub fn check_dtype(name: &str, dtype: DType) -> Result<()> {
    match dtype {
        DType::F32 | DType::F64 => Ok(()),
        other => Err(untaken(name, other)),
    }
}

/// The matrices of operand `i`.
fn matrices(name: &str, args: &[ArgMeta<'_>], i: usize) -> Result<Matrices> {
    let (shape, dtype) = tensor(args, i)?;
    check_dtype(name, dtype)?;
    let &[ref batch @ .., rows, columns] = shape.dims() else {
        return Err(Error::shape(format!("{shape} is no matrix")));
    };
    Ok(Matrices {
        batch: Shape::new(batch),
        rows,
        columns,
        dtype,
    })
}

/// The square matrices of operand `i`.
fn square(name: &str, args: &[ArgMeta<'_>], i: usize) -> Result<Matrices> {
    let of = matrices(name, args, i)?;
    if of.rows != of.columns {
        let (rows, columns) = (of.rows, of.columns);
        let why = format!("a matrix of {rows} by {columns} is not square");
        return Err(Error::shape(why));
    }
    Ok(of)
}

/// The right-hand sides at operand `i` of equations that `of` gives, and the shape of the solutions.
fn solutions(name: &str, args: &[ArgMeta<'_>], i: usize, of: &Matrices) -> Result<Shape> {
    let right = matrices(name, args, i)?;
    if right.dtype != of.dtype {
        let why = format!("matrices of {} and of {}", of.dtype, right.dtype);
        return Err(Error::dtype(why));
    }
    if right.rows != of.rows {
        let why = format!("{} equations of {} numbers", of.rows, right.rows);
        return Err(Error::shape(why));
    }
    let Some(batch) = of.batch.broadcast(&right.batch) else {
        let why = format!("batches {} and {} do not broadcast", of.batch, right.batch);
        return Err(Error::shape(why));
    };
    Ok(Matrices { batch, ..right }.sized(right.rows, right.columns))
}

/// The factors of each matrix of `x`: `f` writes those of one, of `from` elements, into `to` elements, by some `cost`
/// operations.
///
/// # Errors
/// Out of memory; the first matrix that has no such factors.
fn factorised<T: Float>(
    x: &Array,
    shape: &Shape,
    (from, to): (usize, usize),
    cost: usize,
    f: impl Fn(&[T], &mut [T]) -> Result<(), Fault> + Sync,
) -> Result<Array> {
    let x = contiguous(x)?;
    let mut out = Array::empty(x.buffer.device(), shape.clone(), x.dtype)?;
    let matrices = elements::<T>(&x)?;
    let one = |i: usize, out: &mut [T]| f(&matrices[i * from..(i + 1) * from], out);
    let count = matrices.len() / from.max(1);
    each(elements_mut::<T>(&mut out)?, to, cost, one).map_err(|e| failed(count, e))?;
    Ok(out)
}

/// The error of a matrix of a batch without such factors.
fn failed(count: usize, (at, fault): (usize, Fault)) -> Error {
    let whose = match count {
        1 => String::from("the matrix"),
        _ => format!("matrix {at} of the batch"),
    };
    Error::argument(match fault {
        Fault::NotPositive(order) => {
            format!("{whose} is not positive definite: nor is its leading minor of order {order}")
        }
        Fault::Singular(row) => format!("{whose} is singular: pivot {row} is 0"),
        Fault::NotFinite => format!("{whose} has elements that are not finite"),
        Fault::Diverged => format!("{whose} is too ill-conditioned: the iteration did not end"),
    })
}

/// Which matrix of a batch each matrix of the batch that it broadcasts to is.
fn spread(batch: &[usize], to: &[usize]) -> Vec<usize> {
    let own = Layout::contiguous(Shape::new(batch));
    let layout = own.broadcast_to(&Shape::new(to));
    layout.map_or_else(Vec::new, |layout| layout.offsets().collect())
}

/// n³ of each square matrix of the first operand, `by` times.
fn cubic(of: &Sizes<'_>, by: u64) -> u64 {
    of.numel(0)
        .saturating_mul(of.last(0, 1).min(of.last(0, 2)))
        .saturating_mul(by)
}
