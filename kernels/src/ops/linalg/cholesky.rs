//! Cholesky's factorisation.

use super::build::{mirrored, solved, solved_behind, triangle, turned_product};
use super::triangular::SolveTriangular;
use super::{check_dtype, cubic, failed, square, with_float};
use crate::arg::{Arg, array};
use crate::copy::{Dense, copied};
use crate::cpu::dense::elements_mut;
use crate::cpu::linalg::{Fault, SMALL, cholesky, cholesky_small, each};
use crate::cuda;
use crate::op::gradient::{Adjoint, Gradients, transposed};
use crate::op::operator::{Inferred, OnDevice, Operator, facts, text};
use crate::{ArgMeta, Array, Class, OpBuilder, OpBuilderExt};
use ferrotrace_runtime::{DType, Device, Result, Shape};

/// The lower triangular L with L·Lᵀ equal to a symmetric positive definite matrix, of which the lower triangle is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cholesky {}

impl Operator for Cholesky {
    text!("cholesky");
    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| cubic(of, 1) / 3 }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let of = square(self.name(), args, 0)?;
        Ok((of.sized(of.rows, of.rows), of.dtype))
    }

    /// L⁻ᵀ·S·L⁻¹, where S is half of the lower triangle of Lᵀ·g and its mirror image (Murray, Differentiation of the Cholesky
    /// decomposition, 2016).
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let gradient = triangle(b, of.gradient, 0, false)?;
        let inner = turned_product(b, of.result, gradient)?;
        let inner = mirrored(b, inner)?;
        let inner = b.mul(inner, 0.5)?;
        let factor = transposed(b, of.result)?;
        let upper = SolveTriangular::UPPER;
        let left = solved(b, upper, factor, inner)?;
        solved_behind(b, upper, factor, left).map(|found| of.first(found))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let mut out = copied(array(args, 0)?)?;
        let n = shape.last().copied().unwrap_or(0);
        with_float!(self.name(), dtype, T => {
            let all = elements_mut::<T>(&mut out)?;
            let count = all.len() / (n * n).max(1);
            let found = match n <= SMALL {
                true => cholesky_small(all, n),
                false => each(all, n * n, n * n * n / 3, |_, a| cholesky(a, n)),
            };
            found.map_err(|e| failed(count, e))
        })?;
        Ok(out)
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl OnDevice for Cholesky {
    fn run_on(
        &self,
        _: &Device,
        args: &[Arg],
        shape: &Shape,
        dtype: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>> {
        check_dtype(self.name(), dtype)?;
        let n = shape.last().copied().unwrap_or(0);
        let found = cuda::linalg::cholesky::cholesky(&dense(array(args, 0)?)?, n)?;
        found.map(Some).map_err(|(at, order)| {
            let count = shape.numel() / (n * n).max(1);
            failed(count, (at, Fault::NotPositive(order)))
        })
    }
}
