//! Eigenvalues and eigenvectors of general matrices.

use super::build::{columns, joined, minus, on_diagonal, rows, turned_product};
use super::{cubic, factorised, square, with_float};
use crate::arg::{Arg, array};
use crate::cpu::linalg::{self, eig};
use crate::op::gradient::{Adjoint, Gradients, expanded, full, transposed};
use crate::op::operator::{Inferred, Operator, facts, text};
use crate::op::{Lu, LuSolve};
use crate::{ArgMeta, Array, BinaryOp, Class, Op, OpBuilder, OpBuilderExt, ValueId};
use ferrotrace_runtime::{DType, Result, Shape};

/// The eigenvalues of square matrices, and eigenvectors as columns, of norm 1. `[.., n, n]` gives `[.., 2, n]`, the real and the
/// imaginary parts of the values, with `vectors` `[.., 2 + 2 * n, n]`: those, the real parts of the vectors, the imaginary ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Eig {
    /// Eigenvectors too.
    pub vectors: bool,
}

impl Operator for Eig {
    text!("eig" { vectors });
    facts! { class: Class::Library, light: false, jumps: true, work: |_, of| cubic(of, 25) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let of = square(self.name(), args, 0)?;
        let rows = if self.vectors { 2 + 2 * of.rows } else { 2 };
        Ok((of.sized(rows, of.rows), of.dtype))
    }

    /// The real part of V⁻ᴴ·(diag(h) + (Vᴴ·g − Vᴴ·V·diag(Re Vᴴ·g)) / conj(λⱼ − λᵢ))·Vᴴ for gradients h of the values and g of
    /// the vectors (Boeddeker et al., On the computation of complex-valued gradients, 2017). A complex matrix X + i·Y stands as
    /// the real one [[X, −Y], [Y, X]], whose products and transposes are its own.
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let n = b.shape(of.gradient).last().copied().unwrap_or(0);
        let found = match self.vectors {
            true => of.result,
            false => {
                let op = Eig { vectors: true };
                b.push(Op::Factorisation(op.into()), &[of.args[0]])?
            }
        };
        let vectors = Complex::rows(b, found, 2, n)?;
        let whole = vectors.whole(b)?;
        let own = Complex::rows(b, of.gradient, 0, 1)?;
        let inner = match self.vectors {
            true => {
                let along = Complex::rows(b, of.gradient, 2, n)?;
                let values = Complex::rows(b, found, 0, 1)?;
                between(b, &vectors, &along, &values, n)?
            }
            false => {
                let shape = b.shape(vectors.re).clone();
                let dtype = b.dtype(of.gradient);
                let zero = full(b, &shape, 0.0, dtype)?;
                Complex { re: zero, im: zero }
            }
        };
        let diagonal = on_diagonal(b, n)?;
        let inner = Complex {
            re: b.select(diagonal, own.re, inner.re)?,
            im: b.select(diagonal, own.im, inner.im)?,
        };
        let inner = inner.whole(b)?;
        let turned = transposed(b, whole)?;
        let right = b.matmul(inner, turned)?;
        let factors = b.push(Op::Factorisation(Lu {}.into()), &[turned.into()])?;
        let solve = LuSolve { transposed: false };
        let operands = [turned.into(), factors.into(), right.into()];
        let all = b.push(Op::Factorisation(solve.into()), &operands)?;
        let above = rows(b, all, 0, n)?;
        columns(b, above, 0, n).map(|found| of.first(found))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let (x, n) = (array(args, 0)?, shape.last().copied().unwrap_or(0));
        let size = shape[shape.rank() - 2] * n;
        with_float!(self.name(), dtype, T => {
            factorised::<T>(x, shape, (n * n, size), 25 * n * n * n, |x, out| {
                let (values, vectors) = out.split_at_mut(2 * n);
                eig(&mut x.to_vec(), n, linalg::Eig { values, vectors })
            })
        })
    }
}

/// A complex matrix: its real and its imaginary part.
struct Complex {
    re: ValueId,
    im: ValueId,
}

impl Complex {
    /// `len` rows from `start` on, and as many behind them.
    fn rows(b: &mut dyn OpBuilder, x: ValueId, start: usize, len: usize) -> Result<Complex> {
        Ok(Complex {
            re: rows(b, x, start, len)?,
            im: rows(b, x, start + len, len)?,
        })
    }

    /// As a real matrix of twice as many rows.
    fn whole(&self, b: &mut dyn OpBuilder) -> Result<ValueId> {
        let negative = minus(b, self.im)?;
        joined(b, [[self.re, negative], [self.im, self.re]])
    }

    /// Of what [`Complex::whole`] makes of a matrix of `n` rows.
    fn of(b: &mut dyn OpBuilder, whole: ValueId, n: usize) -> Result<Complex> {
        let left = columns(b, whole, 0, n)?;
        Complex::rows(b, left, 0, n)
    }
}

/// (Vᴴ·g − Vᴴ·V·diag(Re Vᴴ·g)) / conj(λⱼ − λᵢ), of which the diagonal is not read.
fn between(
    b: &mut dyn OpBuilder,
    vectors: &Complex,
    along: &Complex,
    values: &Complex,
    n: usize,
) -> Result<Complex> {
    let (whole, along) = (vectors.whole(b)?, along.whole(b)?);
    let product = turned_product(b, whole, along)?;
    let product = Complex::of(b, product, n)?;
    let squares = turned_product(b, whole, whole)?;
    let squares = Complex::of(b, squares, n)?;
    let diagonal = on_diagonal(b, n)?;
    let shape = b.shape(product.re).clone();
    let mask = expanded(b, diagonal, &shape)?;
    let own = b.select(mask, product.re, 0.0)?;
    let own = b.reduce(crate::ReduceKind::Sum, own, 1 << (shape.rank() - 2), true)?;
    let mut part = |x: ValueId, square: ValueId| {
        let norm = b.mul(square, own)?;
        b.sub(x, norm)
    };
    let (re, im) = (part(product.re, squares.re)?, part(product.im, squares.im)?);
    let mut apart = |x: ValueId| {
        let column = transposed(b, x)?;
        b.sub(x, column)
    };
    let (x, y) = (apart(values.re)?, apart(values.im)?);
    // (re + i·im) / (x − i·y) = (re + i·im)·(x + i·y) / (x² + y²).
    let (xx, yy) = (b.mul(x, x)?, b.mul(y, y)?);
    let square = b.add(xx, yy)?;
    let square = b.select(mask, 1.0, square)?;
    let mut over = |[a, c, d, e]: [ValueId; 4], op: BinaryOp| {
        let (first, second) = (b.mul(a, c)?, b.mul(d, e)?);
        let sum = b.binary(op, first, second)?;
        b.div(sum, square)
    };
    Ok(Complex {
        re: over([re, x, im, y], BinaryOp::Sub)?,
        im: over([re, y, im, x], BinaryOp::Add)?,
    })
}
