//! Orthonormal columns times an upper triangle.

use super::build::{mirrored, product_turned, rows, solved_behind, triangle, turned_product};
use super::triangular::SolveTriangular;
use super::{cubic, factorised, matrices, with_float};
use crate::arg::{Arg, array};
use crate::cpu::linalg::qr;
use crate::op::gradient::{Adjoint, Gradients};
use crate::op::operator::{Inferred, Operator, facts, text};
use crate::{ArgMeta, Array, Class, OpBuilder, OpBuilderExt};
use ferrotrace_runtime::{DType, Error, Result, Shape};

/// The factors Q, of orthonormal columns, and R, upper triangular, of matrices of at least as many rows as columns. `[.., m, n]`
/// gives `[.., m + n, n]`: Q, and R below it. The signs are LAPACK's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Qr {}

impl Operator for Qr {
    text!("qr");
    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| cubic(of, 4) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let of = matrices(self.name(), args, 0)?;
        if of.rows < of.columns {
            let (m, n) = (of.rows, of.columns);
            let why = format!("a matrix of {m} by {n} has fewer rows than columns");
            return Err(Error::shape(why));
        }
        Ok((of.sized(of.rows + of.columns, of.columns), of.dtype))
    }

    /// (g + Q·S)·R⁻ᵀ, where S mirrors the lower triangle of R·hᵀ − gᵀ·Q, for gradients g of Q and h of R (Seeger et al.,
    /// Auto-differentiating linear algebra, 2017).
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let shape = b.shape(of.gradient).clone();
        let n = shape[shape.rank() - 1];
        let m = shape[shape.rank() - 2] - n;
        let (q, r) = (rows(b, of.result, 0, m)?, rows(b, of.result, m, n)?);
        let (of_q, of_r) = (rows(b, of.gradient, 0, m)?, rows(b, of.gradient, m, n)?);
        let of_r = triangle(b, of_r, 0, true)?;
        let first = product_turned(b, r, of_r)?;
        let second = turned_product(b, of_q, q)?;
        let inner = b.sub(first, second)?;
        let inner = mirrored(b, inner)?;
        let inner = b.matmul(q, inner)?;
        let inner = b.add(of_q, inner)?;
        solved_behind(b, SolveTriangular::UPPER, r, inner).map(|found| of.first(found))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let (x, n) = (array(args, 0)?, shape[shape.rank() - 1]);
        let m = shape[shape.rank() - 2] - n;
        with_float!(self.name(), dtype, T => {
            factorised::<T>(x, shape, (m * n, (m + n) * n), 4 * m * n * n, |x, out| {
                let (q, r) = out.split_at_mut(m * n);
                q.copy_from_slice(x);
                qr(q, m, n, r);
                Ok(())
            })
        })
    }
}
