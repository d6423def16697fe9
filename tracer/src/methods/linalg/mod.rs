//! Factorisations of matrices, equations and determinants, with PyTorch's names and meaning. The last two dimensions are rows
//! and columns, earlier ones a batch.

mod elimination;
mod equations;
mod factors;
mod general;
mod norms;

pub use norms::MatrixNorm;

use crate::{Input, Tensor};
use ferrotrace_kernels::op::{Factorisation, Lu, LuSolve};
use ferrotrace_kernels::ops::linalg::check_dtype;
use ferrotrace_kernels::ops::pointwise::promote;
use ferrotrace_kernels::{ArgMeta, Op};
use ferrotrace_runtime::{Error, Result};

/// A factorisation as an operator.
fn factor(op: impl Into<Factorisation>) -> Op {
    Op::Factorisation(op.into())
}

impl Tensor {
    /// This tensor, if the method of this name takes it as a batch of matrices.
    fn matrices(&self, name: &str) -> Result<&Tensor> {
        self.check()?;
        check_dtype(name, self.dtype())?;
        match self.rank() {
            0 | 1 => Err(Error::shape(format!("{} is no matrix", self.sizes()))),
            _ => Ok(self),
        }
    }

    /// Rows and columns, which end up in operators.
    fn extents(&self) -> [usize; 2] {
        let rank = self.rank();
        [self.shape()[rank - 2], self.shape()[rank - 1]]
    }

    /// Both in the dtype that they promote to, which the method of this name takes.
    #[track_caller]
    fn promoted(&self, name: &str, b: &Tensor) -> Result<(Tensor, Tensor)> {
        self.check()?;
        b.check()?;
        let dtype = promote(&[self, b].map(|x| ArgMeta::Tensor(x.sizes(), x.dtype())));
        check_dtype(name, dtype)?;
        let (a, b) = (self.to_dtype(dtype), b.to_dtype(dtype));
        a.matrices(name)?;
        Ok((a, b))
    }

    /// Rows and columns exchanged.
    #[track_caller]
    fn turned(&self) -> Tensor {
        self.transpose(-2, -1)
    }

    /// The solution of equations for the method of this name.
    #[track_caller]
    fn solution(&self, name: &'static str, b: &Tensor) -> Tensor {
        let factors = Tensor::record_as(name, factor(Lu {}), &[Input::Tensor(self)]);
        let op = factor(LuSolve { transposed: false });
        let inputs = [
            Input::Tensor(self),
            Input::Tensor(&factors),
            Input::Tensor(b),
        ];
        Tensor::record_as(name, op, &inputs)
    }

    /// The inverse, for the method of this name.
    #[track_caller]
    pub(super) fn inverted(&self, name: &'static str) -> Result<Tensor> {
        let [_, n] = self.matrices(name)?.extents();
        Ok(self.solution(name, &Tensor::eye(n, self.dtype(), &self.device())))
    }
}
