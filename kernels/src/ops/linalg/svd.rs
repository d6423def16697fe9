//! The singular value decomposition.

use super::build::{
    columns, on_diagonal, over_differences, product_turned, row, rows, turned_product,
};
use super::{cubic, factorised, matrices, with_float};
use crate::arg::{Arg, array};
use crate::cpu::linalg::{singular_values, svd};
use crate::op::Factorisation;
use crate::op::gradient::{Adjoint, Gradients, transposed};
use crate::op::operator::{Inferred, Operator, facts, text};
use crate::{ArgMeta, Array, BinaryOp, Class, Op, OpBuilder, OpBuilderExt, ValueId};
use ferrotrace_runtime::{DType, Result, Shape};

/// The factors of A = U·diag(S)·Vᵀ, S descending. `[.., m, n]` gives, with the lesser number k, `[.., m + 1 + k, n]`: U in the
/// first k columns, S in those of the row below, then Vᵀ. Other elements are 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Svd {
    /// The rows of a matrix.
    pub rows: usize,
}

/// The factors, or their gradients.
struct Factors {
    u: ValueId,
    /// As a row.
    values: ValueId,
    vh: ValueId,
}

impl Svd {
    /// The windows of a tensor of all factors.
    fn factors(&self, b: &mut dyn OpBuilder, of: ValueId) -> Result<Factors> {
        let shape = b.shape(of).clone();
        let (m, k) = (self.rows, self.rows.min(shape[shape.rank() - 1]));
        let u = rows(b, of, 0, m)?;
        let values = rows(b, of, m, 1)?;
        Ok(Factors {
            u: columns(b, u, 0, k)?,
            values: columns(b, values, 0, k)?,
            vh: rows(b, of, m + 1, k)?,
        })
    }
}

impl Operator for Svd {
    text!("svd" { rows });
    facts! { class: Class::Library, light: false, jumps: true, work: |_, of| cubic(of, 40) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let of = matrices(self.name(), args, 0)?;
        if of.rows != self.rows {
            let why = format!("matrices of {} rows, not {}", self.rows, of.rows);
            return Err(ferrotrace_runtime::Error::shape(why));
        }
        let k = of.rows.min(of.columns);
        Ok((of.sized(of.rows + 1 + k, of.columns), of.dtype))
    }

    /// U·((skew(Uᵀ·g)/E)·S + S·(skew(Vᵀ·h)/E) + diag(s))·Vᵀ, where E is Sⱼ² − Sᵢ², for gradients g of U, s of S and h of V, and
    /// what U and V do not span (Townsend, Differentiating the singular value decomposition, 2016).
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let Factors { u, values, vh } = self.factors(b, of.result)?;
        let g = self.factors(b, of.gradient)?;
        let shape = b.shape(of.result).clone();
        let (m, n) = (self.rows, shape[shape.rank() - 1]);
        let k = m.min(n);
        let column = transposed(b, values)?;
        let (squares, others) = (b.mul(values, values)?, b.mul(column, column)?);
        let apart = b.sub(squares, others)?;
        let diagonal = on_diagonal(b, k)?;
        let along = turned_product(b, u, g.u)?;
        let left = skew(b, along)?;
        let left = over_differences(b, left, apart, diagonal)?;
        let left = b.mul(left, values)?;
        let along = product_turned(b, vh, g.vh)?;
        let right = skew(b, along)?;
        let right = over_differences(b, right, apart, diagonal)?;
        let right = b.mul(right, column)?;
        let inner = b.add(left, right)?;
        let inner = b.select(diagonal, g.values, inner)?;
        let inner = b.matmul(u, inner)?;
        let mut found = b.matmul(inner, vh)?;
        if m > k {
            let divisor = nonzero(b, values)?;
            let own = b.div(g.u, divisor)?;
            let inside = turned_product(b, u, own)?;
            let inside = b.matmul(u, inside)?;
            let outside = b.sub(own, inside)?;
            let outside = b.matmul(outside, vh)?;
            found = b.add(found, outside)?;
        }
        if n > k {
            let divisor = nonzero(b, column)?;
            let own = b.div(g.vh, divisor)?;
            let inside = product_turned(b, own, vh)?;
            let inside = b.matmul(inside, vh)?;
            let outside = b.sub(own, inside)?;
            let outside = b.matmul(u, outside)?;
            found = b.add(found, outside)?;
        }
        Ok(of.first(found))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let (m, n) = (self.rows, shape[shape.rank() - 1]);
        let k = m.min(n);
        let sizes = (m * n, (m + 1 + k) * n);
        with_float!(self.name(), dtype, T => {
            factorised::<T>(array(args, 0)?, shape, sizes, 40 * m * n * k, |x, out| {
                out.fill(0.0);
                // A matrix without rows has no factors, but room for a row of values.
                if k == 0 {
                    return Ok(());
                }
                let found = svd(x, m, n)?;
                let (left, rest) = out.split_at_mut(m * n);
                for (to, from) in left.chunks_exact_mut(n).zip(found.u.chunks_exact(k)) {
                    to[..k].copy_from_slice(from);
                }
                rest[..k].copy_from_slice(&found.values);
                rest[n..].copy_from_slice(&found.vh);
                Ok(())
            })
        })
    }
}

/// Singular values alone, in descending order: `[.., m, n]` gives `[.., k]`, where k is the lesser number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Svdvals {}

impl Operator for Svdvals {
    text!("svdvals");
    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| cubic(of, 8) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let of = matrices(self.name(), args, 0)?;
        let mut shape = of.batch.clone();
        shape.dims_mut().push(of.rows.min(of.columns));
        Ok((shape, of.dtype))
    }

    /// U·diag(s)·Vᵀ for gradients s of the values. It exists where values are equal, too.
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let x = of.value(0)?;
        let shape = b.shape(x).clone();
        let op = Svd {
            rows: shape[shape.rank() - 2],
        };
        let factors = b.push(Op::from(Factorisation::from(op.clone())), &[x.into()])?;
        let Factors { u, vh, .. } = op.factors(b, factors)?;
        let of_values = row(b, of.gradient)?;
        let left = b.mul(u, of_values)?;
        b.matmul(left, vh).map(|found| of.first(found))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let x = array(args, 0)?;
        let &[.., m, n] = x.shape().dims() else {
            return Err(ferrotrace_runtime::Error::internal("a matrix was expected"));
        };
        let k = m.min(n);
        with_float!(self.name(), dtype, T => {
            factorised::<T>(x, shape, (m * n, k), 8 * m * n * k, |x, out| {
                singular_values(x, m, n, out)
            })
        })
    }
}

/// x − xᵀ.
fn skew(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let turned = transposed(b, x)?;
    b.sub(x, turned)
}

/// 1 in place of 0.
fn nonzero(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let zero = b.binary(BinaryOp::Eq, x, 0.0)?;
    b.select(zero, 1.0, x)
}
