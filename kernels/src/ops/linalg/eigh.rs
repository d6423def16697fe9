//! Eigenvalues and eigenvectors of symmetric matrices.

use super::build::{on_diagonal, over_differences, product_turned, row, rows, turned_product};
use super::{cubic, factorised, square, with_float};
use crate::arg::{Arg, array};
use crate::cpu::linalg::{eigenvalues, eigh};
use crate::op::Factorisation;
use crate::op::gradient::{Adjoint, Gradients, transposed};
use crate::op::operator::{Inferred, Operator, facts, text};
use crate::{ArgMeta, Array, Class, Op, OpBuilder, OpBuilderExt};
use ferrotrace_runtime::{DType, Result, Shape};

/// Eigenvalues in ascending order, and eigenvectors as columns, of symmetric matrices, of which the lower triangle is read.
/// `[.., n, n]` gives `[.., 1 + n, n]`: the values, and the vectors below them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Eigh {}

impl Operator for Eigh {
    text!("eigh");
    facts! { class: Class::Library, light: false, jumps: true, work: |_, of| cubic(of, 9) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let of = square(self.name(), args, 0)?;
        Ok((of.sized(1 + of.rows, of.rows), of.dtype))
    }

    /// V·(diag(h) + Vᵀ·g / (λⱼ − λᵢ))·Vᵀ for gradients h of the values and g of the vectors (Giles, Collected matrix derivative
    /// results, 2008).
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let shape = b.shape(of.gradient).clone();
        let n = shape[shape.rank() - 1];
        let (values, vectors) = (rows(b, of.result, 0, 1)?, rows(b, of.result, 1, n)?);
        let (of_values, of_vectors) = (rows(b, of.gradient, 0, 1)?, rows(b, of.gradient, 1, n)?);
        let along = turned_product(b, vectors, of_vectors)?;
        let column = transposed(b, values)?;
        let apart = b.sub(values, column)?;
        let diagonal = on_diagonal(b, n)?;
        let inner = over_differences(b, along, apart, diagonal)?;
        let inner = b.select(diagonal, of_values, inner)?;
        let left = b.matmul(vectors, inner)?;
        product_turned(b, left, vectors).map(|found| of.first(found))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let (x, n) = (array(args, 0)?, shape.last().copied().unwrap_or(0));
        with_float!(self.name(), dtype, T => {
            factorised::<T>(x, shape, (n * n, (1 + n) * n), 9 * n * n * n, |x, out| {
                let (values, vectors) = out.split_at_mut(n);
                vectors.copy_from_slice(x);
                eigh(vectors, n, values)
            })
        })
    }
}

/// Eigenvalues alone, in ascending order, of symmetric matrices, of which the lower triangle is read: `[.., n, n]` gives `[.., n]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Eigvalsh {}

impl Operator for Eigvalsh {
    text!("eigvalsh");
    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| cubic(of, 4) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let of = square(self.name(), args, 0)?;
        let mut shape = of.batch.clone();
        shape.dims_mut().push(of.rows);
        Ok((shape, of.dtype))
    }

    /// V·diag(h)·Vᵀ for gradients h of the values, with the eigenvectors V. It exists where values are equal, too.
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let x = of.value(0)?;
        let shape = b.shape(x).clone();
        let n = shape[shape.rank() - 1];
        let factors = b.push(Op::from(Factorisation::from(Eigh {})), &[x.into()])?;
        let vectors = rows(b, factors, 1, n)?;
        let of_values = row(b, of.gradient)?;
        let left = b.mul(vectors, of_values)?;
        product_turned(b, left, vectors).map(|found| of.first(found))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let (x, n) = (array(args, 0)?, shape.last().copied().unwrap_or(0));
        with_float!(self.name(), dtype, T => {
            factorised::<T>(x, shape, (n * n, n), 4 * n * n * n, |x, out| {
                eigenvalues(&mut x.to_vec(), n, out)
            })
        })
    }
}
