//! Exponentials over a dimension, shifted by its greatest element.

use super::build::{check_dim, float, in_float, reduced_count, value};
use super::{Definition, inferred, run_definition};
use crate::op::Squeeze;
use crate::op::gradient::{Adjoint, Gradients, kept, wide};
use crate::op::operator::{Inferred, Operator, facts, text};
use crate::ops::tensor;
use crate::{
    Arg, ArgMeta, Array, BinaryOp, Class, Op, OpBuilder, OpBuilderExt, Operand, ReduceKind,
    UnaryOp, ValueId,
};
use ferrotrace_runtime::{DType, Result, Shape};

/// eˣ / Σ eˣ along a dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Softmax {
    /// The dimension.
    pub dim: usize,
}

impl Operator for Softmax {
    text!("softmax" { dim });
    facts! { class: Class::Reduce, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer(self.dim, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        // y (g − Σ g y).
        let (_, mask) = operand_of(b, of.args, self.dim)?;
        let (y, g) = (wide(b, of.result)?, wide(b, of.gradient)?);
        let product = b.mul(g, y)?;
        let sum = b.reduce(ReduceKind::Sum, product, mask, true)?;
        let part = b.mul(y, sum)?;
        b.sub(product, part).map(|g| of.first(g))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run_definition(self, args, shape, dtype)
    }
}

impl Definition for Softmax {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        softmax(b, args, self.dim)
    }
}

/// x − log Σ eˣ along a dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogSoftmax {
    /// The dimension.
    pub dim: usize,
}

impl Operator for LogSoftmax {
    text!("log_softmax" { dim });
    facts! { class: Class::Reduce, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer(self.dim, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        // g − eʸ Σ g.
        let (_, mask) = operand_of(b, of.args, self.dim)?;
        let (y, g) = (wide(b, of.result)?, wide(b, of.gradient)?);
        let sum = b.reduce(ReduceKind::Sum, g, mask, true)?;
        let share = b.unary(UnaryOp::Exp, y)?;
        let part = b.mul(share, sum)?;
        b.sub(g, part).map(|g| of.first(g))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run_definition(self, args, shape, dtype)
    }
}

impl Definition for LogSoftmax {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        log_softmax(b, args, self.dim)
    }
}

/// log Σ eˣ over dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogSumExp {
    /// Bit per reduced dimension.
    pub mask: u64,
    /// Whether they stay as 1.
    pub keepdim: bool,
}

impl Operator for LogSumExp {
    text!("logsumexp" { dims = mask as dims, keepdim = keepdim });
    facts! { class: Class::Reduce, light: false, jumps: false, work: |_, of| of.elements() }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        // g eˣ⁻ʸ.
        let x = wide(b, of.value(0)?)?;
        let shape = b.shape(x).clone();
        let mut row = |of: ValueId| {
            let wide = wide(b, of)?;
            kept(b, wide, &shape, self.mask)
        };
        let (y, g) = (row(of.result)?, row(of.gradient)?);
        let share = b.sub(x, y).and_then(|d| b.unary(UnaryOp::Exp, d))?;
        b.mul(g, share).map(|g| of.first(g))
    }

    inferred!();
}

impl Definition for LogSumExp {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        logsumexp(b, args, self.mask, self.keepdim)
    }
}

/// The direct rule of softmax and log-softmax.
pub(super) fn infer(dim: usize, args: &[ArgMeta<'_>]) -> Inferred {
    let (shape, dtype) = tensor(args, 0)?;
    check_dim(dim, shape)?;
    Ok((shape.clone(), float(dtype)))
}

/// `x` less its greatest element over the dimensions of `mask`.
fn shifted(b: &mut dyn OpBuilder, x: ValueId, mask: u64) -> Result<ValueId> {
    let greatest = b.reduce(ReduceKind::Max, x, mask, true)?;
    b.sub(x, greatest)
}

/// The operand, and the bit of its dimension (none of a 0-d tensor, which is one element).
fn operand_of(b: &dyn OpBuilder, args: &[Operand], dim: usize) -> Result<(ValueId, u64)> {
    let x = value(args, 0)?;
    check_dim(dim, b.shape(x))?;
    Ok((x, if b.shape(x).rank() == 0 { 0 } else { 1 << dim }))
}

/// eˣ⁻ᵐ / Σ eˣ⁻ᵐ with m = max x along a dimension; NaN where m is −∞, ∞ or NaN.
pub(super) fn softmax(b: &mut dyn OpBuilder, args: &[Operand], dim: usize) -> Result<ValueId> {
    let (x, mask) = operand_of(b, args, dim)?;
    in_float(b, x, |b, x| over(b, x, mask))
}

/// Softmax over the dimensions of `mask` of a tensor of F32 or F64.
pub(super) fn over(b: &mut dyn OpBuilder, x: ValueId, mask: u64) -> Result<ValueId> {
    if b.shape(x).numel() == 0 {
        return Ok(x);
    }
    let d = shifted(b, x, mask)?;
    let e = b.unary(UnaryOp::Exp, d)?;
    let sum = b.reduce(ReduceKind::Sum, e, mask, true)?;
    b.div(e, sum)
}

/// d − log Σ eᵈ with d = x − max x along a dimension.
pub(super) fn log_softmax(b: &mut dyn OpBuilder, args: &[Operand], dim: usize) -> Result<ValueId> {
    let (x, mask) = operand_of(b, args, dim)?;
    in_float(b, x, |b, x| {
        if b.shape(x).numel() == 0 {
            return Ok(x);
        }
        let d = shifted(b, x, mask)?;
        let e = b.unary(UnaryOp::Exp, d)?;
        let sum = b.reduce(ReduceKind::Sum, e, mask, true)?;
        let log = b.unary(UnaryOp::Log, sum)?;
        b.sub(d, log)
    })
}

/// Softmax over the dimensions of `mask`, but that rows of −∞ throughout give zeros, as in PyTorch's attention.
pub(super) fn over_masked(b: &mut dyn OpBuilder, x: ValueId, mask: u64) -> Result<ValueId> {
    if b.shape(x).numel() == 0 {
        return Ok(x);
    }
    let greatest = b.reduce(ReduceKind::Max, x, mask, true)?;
    let hidden = b.binary(BinaryOp::Eq, greatest, f64::NEG_INFINITY)?;
    let origin = b.select(hidden, 0.0, greatest)?;
    let d = b.sub(x, origin)?;
    let e = b.unary(UnaryOp::Exp, d)?;
    let sum = b.reduce(ReduceKind::Sum, e, mask, true)?;
    let divisor = b.select(hidden, 1.0, sum)?;
    b.div(e, divisor)
}

/// m + log Σ eˣ⁻ᵐ over the dimensions of `mask`, with m = max x, or 0 where that is infinite: −∞ for elements that all
/// are (or that are none), ∞ where one is.
pub(super) fn logsumexp(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    mask: u64,
    keepdim: bool,
) -> Result<ValueId> {
    let x = value(args, 0)?;
    in_float(b, x, |b, x| {
        if reduced_count(b.shape(x), mask) == 0 {
            let sum = b.reduce(ReduceKind::Sum, x, mask, keepdim)?;
            return b.unary(UnaryOp::Log, sum);
        }
        let greatest = b.reduce(ReduceKind::Max, x, mask, true)?;
        let infinite = b.unary(UnaryOp::IsInf, greatest)?;
        let origin = b.select(infinite, 0.0, greatest)?;
        let d = b.sub(x, origin)?;
        let e = b.unary(UnaryOp::Exp, d)?;
        let sum = b.reduce(ReduceKind::Sum, e, mask, true)?;
        let log = b.unary(UnaryOp::Log, sum)?;
        let y = b.add(log, origin)?;
        if keepdim || mask == 0 {
            Ok(y)
        } else {
            b.push(Op::Squeeze(Squeeze { mask }), &[y.into()])
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::{LogSoftmax, LogSumExp, Softmax};
    use crate::Composite::*;
    use ferrotrace_runtime::DType::*;

    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;

    fn logs(row: &[f64]) -> f64 {
        let m = row.iter().copied().fold(-INF, f64::max);
        m + row.iter().map(|x| (x - m).exp()).sum::<f64>().ln()
    }

    #[test]
    fn along_each_dimension() {
        let dims = [2, 3, 5];
        let x = sample(30, 8);
        for dtype in FLOATS {
            for dim in 0..3 {
                let log = along(&dims, dim, &x, |row| {
                    row.iter().map(|x| x - logs(row)).collect()
                });
                let soft: Vec<f64> = log.iter().map(|x| x.exp()).collect();
                check(
                    Softmax(Softmax { dim }),
                    &[t(&dims, dtype, &x)],
                    &dims,
                    dtype,
                    &soft,
                );
                check(
                    LogSoftmax(LogSoftmax { dim }),
                    &[t(&dims, dtype, &x)],
                    &dims,
                    dtype,
                    &log,
                );
            }
            for (mask, shape, kept) in [
                (0b010, vec![2, 5], vec![2, 1, 5]),
                (0b100, vec![2, 3], vec![2, 3, 1]),
                (0b111, vec![], vec![1, 1, 1]),
            ] {
                let want = match mask {
                    0b111 => vec![logs(&x)],
                    0b010 => along(&dims, 1, &x, |row| vec![logs(row)]),
                    _ => along(&dims, 2, &x, |row| vec![logs(row)]),
                };
                check(
                    LogSumExp(LogSumExp {
                        mask,
                        keepdim: false,
                    }),
                    &[t(&dims, dtype, &x)],
                    &shape,
                    dtype,
                    &want,
                );
                check(
                    LogSumExp(LogSumExp {
                        mask,
                        keepdim: true,
                    }),
                    &[t(&dims, dtype, &x)],
                    &kept,
                    dtype,
                    &want,
                );
            }
        }
    }

    #[test]
    fn large_and_infinite() {
        let x = [1e30, 1e30, -INF, 0.0, INF, 0.0, NAN, 0.0, -INF, -INF];
        let args = [t(&[5, 2], F32, &x)];
        let soft = [0.5, 0.5, 0.0, 1.0, NAN, NAN, NAN, NAN, NAN, NAN];
        check(Softmax(Softmax { dim: 1 }), &args, &[5, 2], F32, &soft);
        let soft = [1.0, NAN, 0.0, NAN];
        check(
            Softmax(Softmax { dim: 0 }),
            &[t(&[2, 2], F32, &[0.0, -INF, -INF, -INF])],
            &[2, 2],
            F32,
            &soft,
        );
        let log = [
            -(2f64.ln()),
            -(2f64.ln()),
            -INF,
            0.0,
            NAN,
            NAN,
            NAN,
            NAN,
            NAN,
            NAN,
        ];
        check(LogSoftmax(LogSoftmax { dim: 1 }), &args, &[5, 2], F32, &log);
        check(
            LogSumExp(LogSumExp {
                mask: 0b10,
                keepdim: false,
            }),
            &args,
            &[5],
            F32,
            &[1e30, 0.0, INF, NAN, -INF],
        );
        let half = t(&[2], F16, &[60000.0, 60000.0]);
        check(
            LogSumExp(LogSumExp {
                mask: 1,
                keepdim: false,
            }),
            &[half],
            &[],
            F16,
            &[60000.0],
        );
    }

    #[test]
    fn empty_0d_and_integers() {
        for dims in [[2, 0], [0, 2]] {
            check(
                Softmax(Softmax { dim: 1 }),
                &[t(&dims, BF16, &[])],
                &dims,
                BF16,
                &[],
            );
            check(
                LogSoftmax(LogSoftmax { dim: 0 }),
                &[t(&dims, F32, &[])],
                &dims,
                F32,
                &[],
            );
        }
        check(
            LogSumExp(LogSumExp {
                mask: 0b10,
                keepdim: false,
            }),
            &[t(&[2, 0], F32, &[])],
            &[2],
            F32,
            &[-INF, -INF],
        );
        check(
            LogSumExp(LogSumExp {
                mask: 0b10,
                keepdim: true,
            }),
            &[t(&[0, 2], F32, &[])],
            &[0, 1],
            F32,
            &[],
        );
        check(
            LogSumExp(LogSumExp {
                mask: 0,
                keepdim: false,
            }),
            &[t(&[], F32, &[2.5])],
            &[],
            F32,
            &[2.5],
        );
        check(
            Softmax(Softmax { dim: 0 }),
            &[t(&[], F32, &[2.5])],
            &[],
            F32,
            &[1.0],
        );
        check(
            LogSoftmax(LogSoftmax { dim: 0 }),
            &[t(&[], F64, &[2.5])],
            &[],
            F64,
            &[0.0],
        );
        check(
            Softmax(Softmax { dim: 0 }),
            &[t(&[2], I64, &[3.0, 3.0])],
            &[2],
            F32,
            &[0.5, 0.5],
        );
        refused(&Softmax(Softmax { dim: 2 }), &[t(&[2, 2], F32, &[0.0; 4])]);
        refused(
            &LogSumExp(LogSumExp {
                mask: 0b100,
                keepdim: false,
            }),
            &[t(&[2, 2], F32, &[0.0; 4])],
        );
    }
}
