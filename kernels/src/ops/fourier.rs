//! Discrete Fourier transforms. Complex numbers are pairs: a last dimension of 2, the real part first. Elements are `F32` or `F64`.

use super::linalg::{check_dtype, with_float};
use super::scan::check_dim;
use super::tensor;
use crate::arg::{Arg, array};
use crate::copy::contiguous;
use crate::cpu::dense::{elements, elements_mut};
use crate::cpu::fourier;
use crate::op::Cat;
use crate::op::gradient::{Adjoint, Gradients, full};
use crate::op::operator::{Inferred, Operator, facts, operators, text};
use crate::{ArgMeta, Array, BinaryOp, Class, Op, OpBuilder, OpBuilderExt, Sizes, ValueId};
use ferrotrace_runtime::{DType, Error, Result, Shape};

operators! {
    /// A discrete Fourier transform.
    pub enum Fourier: Operator {
        values {
            Complex(ComplexFourier),
            RealToHalf(RealToHalf),
            HalfToReal(HalfToReal),
        }
        boxed {}
        constants {}
        lists {}
    }
}

/// The transforms of complex numbers along a dimension of n: Σⱼ `x[j]`·exp(−2πijk/n) at k.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ComplexFourier {
    /// The dimension.
    pub dim: usize,
    /// Exponents are positive.
    pub inverse: bool,
    /// Sums are divided by n.
    pub divided: bool,
}

impl Operator for ComplexFourier {
    text!("fourier" { dim, inverse, divided });
    facts! { class: Class::Library, light: false, jumps: false, work: |op, of| work(of, of.size(0, op.dim)) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (shape, dtype) = pairs(self.name(), args)?;
        check_dim(self.dim, &Shape::new(&shape[..shape.rank() - 1]))?;
        some(shape[self.dim])?;
        Ok((shape.clone(), dtype))
    }

    /// The matrix of a transform is symmetric, and the adjoint of a complex matrix its conjugate transpose.
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let inverse = !self.inverse;
        let found = transformed(b, ComplexFourier { inverse, ..*self }, of.gradient)?;
        Ok(of.first(found))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let x = contiguous(array(args, 0)?)?;
        let mut out = Array::empty(x.buffer.device(), shape.clone(), dtype)?;
        let n = shape[self.dim];
        let inner = shape[self.dim + 1..shape.rank() - 1].iter().product();
        let scale = if self.divided { 1.0 / n as f64 } else { 1.0 };
        with_float!(self.name(), dtype, T => {
            let x = elements::<T>(&x)?.as_chunks().0;
            let to = elements_mut::<T>(&mut out)?.as_chunks_mut().0;
            fourier::complex(x, to, [n, inner], self.inverse, scale);
            Ok(out)
        })
    }
}

/// The transforms of n real numbers along the last dimension: the n / 2 + 1 frequencies that are not conjugates of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RealToHalf {}

impl Operator for RealToHalf {
    text!("real_to_half");
    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| work(of, of.last(0, 1)) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (shape, dtype) = tensor(args, 0)?;
        check_dtype(self.name(), dtype)?;
        let n = *shape
            .last()
            .ok_or_else(|| Error::shape("a transform of one number"))?;
        some(n)?;
        let mut shape = shape.clone();
        let dims = shape.dims_mut();
        dims.pop();
        dims.extend([n / 2 + 1, 2]);
        Ok((shape, dtype))
    }

    /// Conjugates of the other frequencies have weight too in the inverse: half of it is left to each.
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let n = b.shape(of.value(0)?).last().copied().unwrap_or(1);
        let weighted = weighted(b, of.gradient, n, |weight| n as f64 / weight)?;
        let found = transformed(b, HalfToReal { n }, weighted)?;
        Ok(of.first(found))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let x = contiguous(array(args, 0)?)?;
        let mut out = Array::empty(x.buffer.device(), shape.clone(), dtype)?;
        let n = x.shape().last().copied().unwrap_or(1);
        with_float!(self.name(), dtype, T => {
            let to = elements_mut::<T>(&mut out)?.as_chunks_mut().0;
            fourier::real_to_half(elements::<T>(&x)?, to, n);
            Ok(out)
        })
    }
}

/// The inverse of [`RealToHalf`], over n, to the last dimension: the imaginary parts of the frequency 0, and for an even n of the
/// highest one, count as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HalfToReal {
    /// How many real numbers.
    pub n: usize,
}

impl Operator for HalfToReal {
    text!("half_to_real" { n });
    facts! { class: Class::Library, light: false, jumps: false, work: |op, of| work(of, op.n as u64) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (shape, dtype) = pairs(self.name(), args)?;
        some(self.n)?;
        let half = shape.rank().checked_sub(2).map(|dim| shape[dim]);
        if half != Some(self.n / 2 + 1) {
            return Err(Error::shape(format!(
                "{shape} for {} frequencies",
                self.n / 2 + 1
            )));
        }
        let mut shape = shape.clone();
        let dims = shape.dims_mut();
        dims.truncate(dims.len() - 2);
        dims.push(self.n);
        Ok((shape, dtype))
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let found = transformed(b, RealToHalf {}, of.gradient)?;
        let n = self.n;
        weighted(b, found, n, |weight| weight / n as f64).map(|found| of.first(found))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let x = contiguous(array(args, 0)?)?;
        let mut out = Array::empty(x.buffer.device(), shape.clone(), dtype)?;
        with_float!(self.name(), dtype, T => {
            let x = elements::<T>(&x)?.as_chunks().0;
            fourier::half_to_real(x, elements_mut::<T>(&mut out)?, self.n);
            Ok(out)
        })
    }
}

/// Operations of transforms of `n` numbers.
fn work(of: &Sizes<'_>, n: u64) -> u64 {
    3 * of.elements() * u64::from(n.max(2).ilog2() + 1)
}

/// The complex numbers of the operand.
fn pairs<'a>(name: &str, args: &[ArgMeta<'a>]) -> Result<(&'a Shape, DType)> {
    let (shape, dtype) = tensor(args, 0)?;
    check_dtype(name, dtype)?;
    match shape.last() {
        Some(2) => Ok((shape, dtype)),
        _ => Err(Error::shape(format!("{shape} has no pairs"))),
    }
}

fn some(n: usize) -> Result<()> {
    match n {
        0 => Err(Error::shape("a transform of no numbers")),
        _ => Ok(()),
    }
}

/// A transform of a value.
fn transformed(b: &mut dyn OpBuilder, op: impl Into<Fourier>, x: ValueId) -> Result<ValueId> {
    b.push(Op::Fourier(op.into()), &[x.into()])
}

/// Frequencies of `n` real numbers times what `of` gives for how many each stands for: 2 where another is its conjugate.
fn weighted(
    b: &mut dyn OpBuilder,
    x: ValueId,
    n: usize,
    of: impl Fn(f64) -> f64,
) -> Result<ValueId> {
    let (half, dtype) = (n / 2 + 1, b.dtype(x));
    let last = usize::from(n > 1 && n.is_multiple_of(2));
    let mut parts = Vec::new();
    for (count, weight) in [(1, 1.0), (half - 1 - last, 2.0), (last, 1.0)] {
        if count > 0 {
            let part = full(b, &Shape::from([count, 1]), of(weight), dtype)?;
            parts.push(part.into());
        }
    }
    let weights = b.push(Op::Cat(Cat { dim: 0 }), &parts)?;
    b.binary(BinaryOp::Mul, x, weights)
}
