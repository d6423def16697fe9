//! Norms of vectors and matrices, and ranks.

use super::super::attempt;
use crate::Tensor;
use crate::args::Dims;
use ferrotrace_runtime::{DType, Error, Result};

/// A norm of matrices. Numbers and the words `"fro"` and `"nuc"` convert.
#[derive(Clone, Debug, PartialEq)]
pub enum MatrixNorm {
    /// The root of the sum of squares: `"fro"`.
    Frobenius,
    /// The sum of singular values: `"nuc"`.
    Nuclear,
    /// 1 and −1: the greatest and the least sum of magnitudes of a column; ∞ and −∞: of a row; 2 and −2: the greatest and the
    /// least singular value.
    Order(f64),
    /// A word that means nothing: an error where it is used.
    Unknown(String),
}

impl From<f64> for MatrixNorm {
    fn from(order: f64) -> MatrixNorm {
        MatrixNorm::Order(order)
    }
}

impl From<i32> for MatrixNorm {
    fn from(order: i32) -> MatrixNorm {
        MatrixNorm::Order(order.into())
    }
}

impl From<&str> for MatrixNorm {
    fn from(word: &str) -> MatrixNorm {
        match word {
            "fro" => MatrixNorm::Frobenius,
            "nuc" => MatrixNorm::Nuclear,
            word => MatrixNorm::Unknown(word.to_owned()),
        }
    }
}

impl Tensor {
    /// The norm of order `ord` over dimensions: another name of [`norm`](Tensor::norm).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3.0, -4.0], 2, &Device::cpu());
    /// assert_eq!(x.vector_norm(2.0, ..).item::<f64>()?, 5.0);
    /// assert_eq!(x.vector_norm(f64::INFINITY, 0).item::<f64>()?, 4.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn vector_norm(&self, ord: f64, dims: impl Into<Dims>) -> Tensor {
        self.norm(ord, dims).called("vector_norm", &[self])
    }

    /// As [`vector_norm`](Tensor::vector_norm), the dimensions staying with size 1.
    #[track_caller]
    pub fn vector_norm_keepdim(&self, ord: f64, dims: impl Into<Dims>) -> Tensor {
        self.norm_keepdim(ord, dims).called("vector_norm", &[self])
    }

    /// A norm of the matrices that two dimensions, rows and columns, are, of floats: `"fro"`, `"nuc"`, 1, 2, ∞ or their
    /// negatives ([`MatrixNorm`](crate::MatrixNorm)). The dimensions go away.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, -2.0, 2.0, 4.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.matrix_norm("fro", (-2, -1)).item::<f64>()?, 5.0);
    /// assert_eq!(x.matrix_norm(1, (0, 1)).item::<f64>()?, 6.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_norm(&self, ord: impl Into<MatrixNorm>, dims: impl Into<Dims>) -> Tensor {
        let norm = self.norm_of_matrices(&ord.into(), &dims.into());
        let (norm, dims) = attempt!("matrix_norm", norm, self);
        norm.squeeze(dims).called("matrix_norm", &[self])
    }

    /// As [`matrix_norm`](Tensor::matrix_norm), the dimensions staying with size 1.
    #[track_caller]
    pub fn matrix_norm_keepdim(&self, ord: impl Into<MatrixNorm>, dims: impl Into<Dims>) -> Tensor {
        let norm = self.norm_of_matrices(&ord.into(), &dims.into());
        let (norm, _) = attempt!("matrix_norm", norm, self);
        norm.called("matrix_norm", &[self])
    }

    /// The norm, its dimensions staying with size 1, and these.
    #[track_caller]
    fn norm_of_matrices(&self, ord: &MatrixNorm, dims: &Dims) -> Result<(Tensor, [usize; 2])> {
        let x = self.as_floats("matrix_norm")?;
        let dims = dims.list(x.rank())?;
        let &[rows, columns] = &dims[..] else {
            let why = format!("{} dimensions of a matrix, which has 2", dims.len());
            return Err(Error::argument(why));
        };
        let unknown = |ord: &dyn std::fmt::Display| {
            let why = format!("{ord} is no norm of matrices: fro, nuc, 1, 2, inf or a negative");
            Err(Error::argument(why))
        };
        let order = match ord {
            MatrixNorm::Frobenius => {
                let norm = x.norm_keepdim(2.0, [rows, columns]);
                return Ok((norm.to_dtype(self.dtype()), [rows, columns]));
            }
            MatrixNorm::Nuclear => 2.0,
            MatrixNorm::Order(order) => *order,
            MatrixNorm::Unknown(word) => return unknown(word),
        };
        if ![1.0, 2.0, f64::INFINITY].contains(&order.abs()) {
            return unknown(&order);
        }
        // Magnitudes whose extreme, or sum, over a dimension is the norm.
        let (sizes, along) = match order.abs() {
            1.0 => (x.abs().sum_keepdim(rows), columns),
            2.0 => (x.singular_beside(rows, columns), rows),
            _ => (x.abs().sum_keepdim(columns), rows),
        };
        sizes.recorded()?;
        let norm = match (ord, order > 0.0) {
            (MatrixNorm::Nuclear, _) => sizes.sum_keepdim(along),
            // No matrix has a negative size: that of no elements is 0.
            (_, true) if sizes.shape()[along] == 0 => sizes.sum_keepdim(along),
            (_, true) => sizes.max_keepdim(along),
            (_, false) => sizes.min_keepdim(along),
        };
        Ok((norm.to_dtype(self.dtype()), [rows, columns]))
    }

    /// The singular values of matrices in the place of rows, with columns of size 1.
    #[track_caller]
    fn singular_beside(&self, rows: usize, columns: usize) -> Tensor {
        let last = self.rank() - 2;
        let x = self.movedim([rows, columns], [last, last + 1]);
        let values = x.svdvals().unsqueeze(-1);
        values.movedim([last, last + 1], [rows, columns])
    }

    /// The numbers of independent rows of matrices, as `I64`: `[.., m, n]` of `F32` or `F64` gives `[..]`. Singular values count
    /// that are above `atol` and above `rtol` times the greatest. Unless given, `atol` is 0, and `rtol` the greater of m and n
    /// times the step of the dtype's numbers, or 0 beside a positive `atol`. With `hermitian`, matrices are symmetric, of which
    /// the lower triangle is read.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 2.0, 4.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.matrix_rank(None, None, false).item::<i64>()?, 1);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_rank(&self, atol: Option<f64>, rtol: Option<f64>, hermitian: bool) -> Tensor {
        let rank = self.independent(atol, rtol, hermitian);
        attempt!("matrix_rank", rank, self).called("matrix_rank", &[self])
    }

    #[track_caller]
    fn independent(&self, atol: Option<f64>, rtol: Option<f64>, hermitian: bool) -> Result<Tensor> {
        let [m, n] = self.matrices("matrix_rank")?.extents();
        let step = match self.dtype() {
            DType::F32 => f64::from(f32::EPSILON),
            _ => f64::EPSILON,
        };
        let atol = atol.unwrap_or(0.0);
        let rtol = rtol.unwrap_or(match atol > 0.0 {
            true => 0.0,
            false => step * m.max(n) as f64,
        });
        let sizes = match hermitian {
            true => self.eigvalsh().abs(),
            false => self.svdvals(),
        };
        sizes.recorded()?;
        if m.min(n) == 0 {
            return Ok(sizes.gt(0.0).sum(-1));
        }
        let least = (sizes.max_keepdim(-1) * rtol).maximum(atol);
        Ok(sizes.gt(&least).sum(-1))
    }
}
