//! Diagonals of matrices, and matrices of diagonals.

use super::super::attempt;
use crate::Tensor;
use ferrotrace_kernels::op::{Diagonal, Reduce};
use ferrotrace_kernels::{BinaryOp, Op, ReduceKind};
use ferrotrace_runtime::{DType, Error, Result, Shape};

impl Tensor {
    /// The sum of the main diagonal of a matrix; integers and bools give `I64`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.trace().to_scalar::<f64>()?, 5.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn trace(&self) -> Tensor {
        attempt!("trace", self.check_rank(2, "a matrix"), self);
        let diagonal = Op::Diagonal(Diagonal {
            offset: 0,
            a: 0,
            b: 1,
        });
        let sum = Op::Reduce(Reduce {
            kind: ReduceKind::Sum,
            mask: 1,
            keepdim: false,
        });
        self.apply(diagonal).apply(sum)
    }

    /// # Errors
    /// The tensor has another rank.
    pub(crate) fn check_rank(&self, rank: usize, what: &str) -> Result<()> {
        self.check()?;
        if self.rank() == rank {
            return Ok(());
        }
        let (n, shape) = (self.rank(), self.sizes());
        Err(Error::shape(format!(
            "{what} has {rank} dimensions, not {n}: {shape}"
        )))
    }

    /// For a vector, the square matrix with it on diagonal `k` (0 the main one, positive above it) and zeros elsewhere;
    /// for a matrix, its diagonal `k`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], 2, &Device::cpu());
    /// assert_eq!(x.diag(0).to_vec::<i32>()?, [1, 0, 0, 2]);
    /// assert_eq!(x.diag(1).diag(1).to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn diag(&self, k: isize) -> Tensor {
        match self.rank() {
            2 => self.diagonal(k, 0, 1).called("diag", &[self]),
            _ => {
                attempt!("diag", self.check_rank(1, "a vector"), self);
                self.on_diagonal(k).called("diag", &[self])
            }
        }
    }

    /// The vector as rows of its own size, with zeros between: written in one line, each element is followed by as many
    /// zeros as there are to the next place of the diagonal.
    #[track_caller]
    fn on_diagonal(&self, k: isize) -> Tensor {
        let n = self.numel();
        let beside = k.unsigned_abs();
        let shape = || {
            let size = n.checked_add(beside)?;
            size.checked_mul(size).map(|_| size)
        };
        let Some(size) = shape().filter(|&size| size <= isize::MAX as usize) else {
            let why = Error::argument(format!("diagonal {k} of a matrix beyond any memory"));
            return Tensor::failed("diag", why, &[self]);
        };
        let edges = if k < 0 {
            [(beside as isize, 0), (0, beside as isize)]
        } else {
            [(0, beside as isize), (beside as isize, 0)]
        };
        let at = Tensor::arange(0, n as i64, 1, DType::I64, &self.device());
        let square = Shape::from([n, n]);
        let on = at.reshape([n, 1]).binary(BinaryOp::Eq, &at);
        let zero = self.full_like(0);
        let core = on.where_cond(self, &zero).expand(square);
        if size == n {
            core
        } else {
            core.pad(&edges, false)
        }
    }
}
