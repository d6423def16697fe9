//! The exponential of matrices.

use super::build::{columns, joined, rows};
use super::{cubic, factorised, square, with_float};
use crate::arg::{Arg, array};
use crate::cpu::linalg::exponential;
use crate::op::gradient::{Adjoint, Gradients, full, transposed};
use crate::op::operator::{Inferred, Operator, facts, text};
use crate::{ArgMeta, Array, Class, Op, OpBuilder};
use ferrotrace_runtime::{DType, Result, Shape};

/// Σ Aᵏ / k! of square matrices A; NaN where an element of the matrix is not finite. `[.., n, n]` gives the same shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exponential {}

impl Operator for Exponential {
    text!("matrix_exp");
    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| cubic(of, 16) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let of = square(self.name(), args, 0)?;
        Ok((of.sized(of.rows, of.rows), of.dtype))
    }

    /// The upper right block of exp [[Aᵀ, g], [0, Aᵀ]] (Najfeld and Havel, Derivatives of the matrix exponential and their
    /// computation, 1995).
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let shape = b.shape(of.gradient).clone();
        let (n, dtype) = (shape[shape.rank() - 1], b.dtype(of.gradient));
        let turned = transposed(b, of.value(0)?)?;
        let zero = full(b, &shape, 0.0, dtype)?;
        let block = joined(b, [[turned, of.gradient], [zero, turned]])?;
        let whole = b.push(Op::Factorisation(Exponential {}.into()), &[block.into()])?;
        let above = rows(b, whole, 0, n)?;
        columns(b, above, n, n).map(|found| of.first(found))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let (x, n) = (array(args, 0)?, shape.last().copied().unwrap_or(0));
        with_float!(self.name(), dtype, T => {
            factorised::<T>(x, shape, (n * n, n * n), 16 * n * n * n, |x, out| {
                out.copy_from_slice(x);
                exponential(out, n);
                Ok(())
            })
        })
    }
}
