//! Functions of one element, some with a number beside it.

use super::build::{float, in_float, operand, value};
use crate::ops::Inferred;
use crate::{ArgMeta, BinaryOp, Composite, OpBuilder, OpBuilderExt, Operand, UnaryOp, ValueId};
use ferrotrace_runtime::{Error, Result, Scalar};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

/// α and λ of selu (Klambauer et al., Self-Normalizing Neural Networks, 2017).
const SELU_ALPHA: f64 = 1.6732632423543772;
const SELU_SCALE: f64 = 1.0507009873554805;

/// Beyond it softplus is the identity.
const SOFTPLUS_THRESHOLD: f64 = 20.0;

pub(super) fn decompose(
    op: &Composite,
    b: &mut dyn OpBuilder,
    args: &[Operand],
) -> Result<ValueId> {
    let x = value(args, 0)?;
    match op {
        // Exact in every dtype, integers included.
        Composite::Hardtanh => clip(b, x, -1, 1),
        Composite::Relu6 => clip(b, x, 0, 6),
        Composite::Frac => {
            let whole = b.unary(UnaryOp::Trunc, x)?;
            b.sub(x, whole)
        }
        Composite::LeakyRelu | Composite::Elu | Composite::Celu => {
            let a = operand(args, 1)?;
            in_float(b, x, |b, x| with_number(op, b, x, a))
        }
        _ => in_float(b, x, |b, x| plain(op, b, x)),
    }
}

/// The direct rule: `x`'s shape, and its dtype or F32. `None` where the decomposition is the rule.
pub(super) fn infer(op: &Composite, args: &[ArgMeta<'_>]) -> Option<Inferred> {
    use Composite::*;
    match op {
        Gelu | GeluTanh | Silu | Mish | Softplus | Softsign | Hardswish | Hardsigmoid
        | LogSigmoid | Selu => {}
        LeakyRelu | Elu | Celu if matches!(args.get(1), Some(ArgMeta::Scalar(_))) => {}
        _ => return None,
    }
    let (shape, dtype) = args.first()?.tensor()?;
    Some(Ok((shape.clone(), float(dtype))))
}

/// min(max(x, lo), hi), which passes NaN on.
fn clip(b: &mut dyn OpBuilder, x: ValueId, lo: i64, hi: i64) -> Result<ValueId> {
    let above = b.binary(BinaryOp::Maximum, x, lo)?;
    b.binary(BinaryOp::Minimum, above, hi)
}

/// `x` where it is greater than `bound`; elsewhere `f` of it. `f` gets 0 in place of the greater ones, so that it
/// overflows nowhere (an infinity in the branch not taken would be a NaN in a gradient).
fn above_or(
    b: &mut dyn OpBuilder,
    x: ValueId,
    bound: f64,
    f: impl FnOnce(&mut dyn OpBuilder, ValueId) -> Result<ValueId>,
) -> Result<ValueId> {
    let greater = b.binary(BinaryOp::Gt, x, bound)?;
    let rest = b.select(greater, 0.0, x)?;
    let other = f(b, rest)?;
    b.select(greater, x, other)
}

/// log(1 + eˣ), `x` beyond 20.
fn softplus(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    above_or(b, x, SOFTPLUS_THRESHOLD, |b, x| {
        let e = b.unary(UnaryOp::Exp, x)?;
        b.unary(UnaryOp::Log1p, e)
    })
}

/// log(1 + e^−|x|), which overflows nowhere.
pub(super) fn log1p_exp_neg_abs(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let abs = b.unary(UnaryOp::Abs, x)?;
    let neg = b.unary(UnaryOp::Neg, abs)?;
    let e = b.unary(UnaryOp::Exp, neg)?;
    b.unary(UnaryOp::Log1p, e)
}

/// x·(1 + t) / 2.
fn half_of(b: &mut dyn OpBuilder, x: ValueId, t: ValueId) -> Result<ValueId> {
    let half = b.mul(x, 0.5)?;
    let gate = b.add(t, 1.0)?;
    b.mul(half, gate)
}

fn plain(op: &Composite, b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    match op {
        Composite::Gelu => {
            let z = b.mul(x, FRAC_1_SQRT_2)?;
            let t = b.unary(UnaryOp::Erf, z)?;
            half_of(b, x, t)
        }
        Composite::GeluTanh => {
            let square = b.unary(UnaryOp::Square, x)?;
            let cube = b.mul(square, x)?;
            let bend = b.mul(cube, 0.044715)?;
            let sum = b.add(x, bend)?;
            let z = b.mul(sum, FRAC_2_PI.sqrt())?;
            let t = b.unary(UnaryOp::Tanh, z)?;
            half_of(b, x, t)
        }
        Composite::Silu => {
            let gate = b.unary(UnaryOp::Sigmoid, x)?;
            b.mul(x, gate)
        }
        Composite::Mish => {
            let soft = softplus(b, x)?;
            let gate = b.unary(UnaryOp::Tanh, soft)?;
            b.mul(x, gate)
        }
        Composite::Softplus => softplus(b, x),
        Composite::Softsign => {
            let abs = b.unary(UnaryOp::Abs, x)?;
            let below = b.add(abs, 1.0)?;
            b.div(x, below)
        }
        Composite::Hardswish | Composite::Hardsigmoid => {
            let shifted = b.add(x, 3.0)?;
            let gate = clip(b, shifted, 0, 6)?;
            if matches!(op, Composite::Hardsigmoid) {
                return b.div(gate, 6.0);
            }
            let product = b.mul(x, gate)?;
            b.div(product, 6.0)
        }
        Composite::LogSigmoid => {
            let least = b.binary(BinaryOp::Minimum, x, 0.0)?;
            let tail = log1p_exp_neg_abs(b, x)?;
            b.sub(least, tail)
        }
        Composite::Selu => {
            let greater = b.binary(BinaryOp::Gt, x, 0.0)?;
            let rest = b.select(greater, 0.0, x)?;
            let e = b.unary(UnaryOp::Expm1, rest)?;
            let below = b.mul(e, SELU_ALPHA * SELU_SCALE)?;
            let above = b.mul(x, SELU_SCALE)?;
            b.select(greater, above, below)
        }
        other => Err(Error::internal(format!(
            "{other:?} is no function of one element"
        ))),
    }
}

fn with_number(op: &Composite, b: &mut dyn OpBuilder, x: ValueId, a: Operand) -> Result<ValueId> {
    match op {
        Composite::LeakyRelu => {
            let greater = b.binary(BinaryOp::Gt, x, Operand::Const(Scalar::Int(0)))?;
            let below = b.mul(x, a)?;
            b.select(greater, x, below)
        }
        Composite::Elu => above_or(b, x, 0.0, |b, x| {
            let e = b.unary(UnaryOp::Expm1, x)?;
            b.mul(e, a)
        }),
        Composite::Celu => above_or(b, x, 0.0, |b, x| {
            let ratio = b.div(x, a)?;
            let e = b.unary(UnaryOp::Expm1, ratio)?;
            b.mul(e, a)
        }),
        other => Err(Error::internal(format!("{other:?} takes no number"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use Composite::*;
    use DType::{Bool, F16, F32, I32, I64};
    use ferrotrace_runtime::DType;

    /// The error function by its series, for |x| < 3.
    fn erf(x: f64) -> f64 {
        let mut term = x;
        let mut sum = x;
        for k in 1..100 {
            term *= -x * x / k as f64;
            sum += term / (2 * k + 1) as f64;
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    fn softplus(x: f64) -> f64 {
        if x > 20.0 { x } else { x.exp().ln_1p() }
    }

    fn sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    type Reference = fn(f64) -> f64;

    /// Values taken from the definition of each function, at numbers with and without a fraction.
    fn table() -> Vec<(Composite, Reference)> {
        vec![
            (Gelu, |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()))),
            (GeluTanh, |x| {
                0.5 * x
                    * (1.0
                        + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
            }),
            (Silu, |x| x * sigmoid(x)),
            (Mish, |x| x * softplus(x).tanh()),
            (Softplus, softplus),
            (Softsign, |x| x / (1.0 + x.abs())),
            (Hardswish, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
            (Hardsigmoid, |x| (x + 3.0).clamp(0.0, 6.0) / 6.0),
            (LogSigmoid, |x| x.min(0.0) - (-x.abs()).exp().ln_1p()),
            (Selu, |x| {
                if x > 0.0 {
                    SELU_SCALE * x
                } else {
                    SELU_SCALE * SELU_ALPHA * x.exp_m1()
                }
            }),
            (Hardtanh, |x| x.clamp(-1.0, 1.0)),
            (Relu6, |x| x.clamp(0.0, 6.0)),
            (Frac, |x| x - x.trunc()),
        ]
    }

    #[test]
    fn values_in_every_float() {
        let mut x = sample(30, 1);
        x.extend([0.0, -0.0, 3.5, -3.5, 3.0, -3.0]);
        for dtype in FLOATS {
            for (op, f) in table() {
                let want: Vec<f64> = x.iter().map(|&x| f(x)).collect();
                check(op, &[t(&[4, 9], dtype, &x)], &[4, 9], dtype, &want);
            }
        }
    }

    #[test]
    fn values_with_a_number() {
        let x = sample(24, 2);
        for dtype in FLOATS {
            for a in [0.25, 2.0] {
                for (op, f) in [
                    (
                        LeakyRelu,
                        (|x, a| if x > 0.0 { x } else { a * x }) as fn(f64, f64) -> f64,
                    ),
                    (Elu, |x, a| if x > 0.0 { x } else { a * x.exp_m1() }),
                    (Celu, |x, a| x.max(0.0) + (a * (x / a).exp_m1()).min(0.0)),
                ] {
                    let want: Vec<f64> = x.iter().map(|&x| f(x, a)).collect();
                    check(
                        op,
                        &[t(&[2, 3, 4], dtype, &x), n(a)],
                        &[2, 3, 4],
                        dtype,
                        &want,
                    );
                }
            }
            check(
                LeakyRelu,
                &[t(&[2], dtype, &[-1.5, 2.0]), n(2)],
                &[2],
                dtype,
                &[-3.0, 2.0],
            );
        }
    }

    #[test]
    fn far_from_zero() {
        const INF: f64 = f64::INFINITY;
        let x = [INF, -INF, f64::NAN, 1000.0, -1000.0, 60.0, -60.0];
        let f = |op, want: [f64; 7]| check(op, &[t(&[7], F32, &x)], &[7], F32, &want);
        let tiny = (-60f64).exp();
        f(Softplus, [INF, 0.0, f64::NAN, 1000.0, 0.0, 60.0, tiny]);
        f(
            LogSigmoid,
            [0.0, -INF, f64::NAN, 0.0, -1000.0, -tiny, -60.0],
        );
        f(Relu6, [6.0, 0.0, f64::NAN, 6.0, 0.0, 6.0, 0.0]);
        f(Hardtanh, [1.0, -1.0, f64::NAN, 1.0, -1.0, 1.0, -1.0]);
        f(Hardsigmoid, [1.0, 0.0, f64::NAN, 1.0, 0.0, 1.0, 0.0]);
        f(
            Selu,
            [
                INF,
                -SELU_ALPHA * SELU_SCALE,
                f64::NAN,
                1050.7009874,
                -1.7580993,
                63.042059,
                -1.7580993,
            ],
        );
        let elu = [INF, -0.5, f64::NAN, 1000.0, -0.5, 60.0, -0.5];
        check(Elu, &[t(&[7], F32, &x), n(0.5)], &[7], F32, &elu);
        check(Celu, &[t(&[7], F32, &x), n(0.5)], &[7], F32, &elu);
        check(
            Frac,
            &[t(&[2], F32, &[INF, f64::NAN])],
            &[2],
            F32,
            &[f64::NAN, f64::NAN],
        );
    }

    #[test]
    fn integers_empties_and_scalars() {
        let x = [-7.0, 0.0, 7.0];
        check(Relu6, &[t(&[3], I32, &x)], &[3], I32, &[0.0, 0.0, 6.0]);
        check(Hardtanh, &[t(&[3], I64, &x)], &[3], I64, &[-1.0, 0.0, 1.0]);
        check(Frac, &[t(&[3], I64, &x)], &[3], I64, &[0.0; 3]);
        check(
            Softsign,
            &[t(&[3], I64, &x)],
            &[3],
            F32,
            &[-0.875, 0.0, 0.875],
        );
        check(
            Silu,
            &[t(&[2], Bool, &[0.0, 1.0])],
            &[2],
            F32,
            &[0.0, sigmoid(1.0)],
        );
        check(
            LeakyRelu,
            &[t(&[2], I32, &[-4.0, 4.0]), n(0.25)],
            &[2],
            F32,
            &[-1.0, 4.0],
        );
        for (op, f) in table() {
            check(op.clone(), &[t(&[2, 0], F16, &[])], &[2, 0], F16, &[]);
            check(op, &[t(&[], F32, &[0.5])], &[], F32, &[f(0.5)]);
        }
        refused(&Gelu, &[n(1.0)]);
        refused(&Elu, &[n(1.0), n(1.0)]);
    }
}
