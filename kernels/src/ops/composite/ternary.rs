//! Pointwise functions of several operands.

use super::activation::Function;
use super::build::{float, operand, promoted, tensor_of, value};
use super::slope;
use crate::{BinaryOp, OpBuilder, OpBuilderExt, Operand, UnaryOp, ValueId};
use ferrotrace_runtime::{DType, Error, Result};

/// min(max(x, lo), hi): operands x, lo, hi.
pub(super) const CLAMP: Function = Function::light("clamp", clamp).pulled(slope::clamp);

/// start + w(end − start): operands start, end, w.
pub(super) const LERP: Function = Function::light("lerp", lerp).pulled(slope::lerp);

/// x + v·a·b: operands x, a, b, v.
pub(super) const ADDCMUL: Function = Function::light("addcmul", addcmul);

/// x + v·a/b: operands x, a, b, v.
pub(super) const ADDCDIV: Function = Function::light("addcdiv", addcdiv);

/// NaN, ∞, −∞ replaced: operands x, nan, posinf, neginf.
pub(super) const NAN_TO_NUM: Function = Function::light("nan_to_num", nan_to_num).jumping();

/// min(max(x, lo), hi): NaN in any operand is passed on; `hi` where `lo > hi`.
fn clamp(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
    let (x, lo, hi) = (value(args, 0)?, operand(args, 1)?, operand(args, 2)?);
    let dtype = promoted(b, &[x.into(), lo, hi]);
    let x = b.cast(x, dtype)?;
    let above = b.binary(BinaryOp::Maximum, x, lo)?;
    b.binary(BinaryOp::Minimum, above, hi)
}

/// start + w(end − start) for |w| < ½, else end − (end − start)(1 − w): exact at both ends.
fn lerp(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
    let (start, end, w) = (value(args, 0)?, value(args, 1)?, operand(args, 2)?);
    let dtype = float(promoted(b, &[start.into(), end.into(), w]));
    let (start, end) = (
        b.cast(start, dtype.compute())?,
        b.cast(end, dtype.compute())?,
    );
    let w = tensor_of(b, w, dtype.compute())?;
    let span = b.sub(end, start)?;
    let magnitude = b.unary(UnaryOp::Abs, w)?;
    let near = b.binary(BinaryOp::Lt, magnitude, 0.5)?;
    let step = b.mul(span, w)?;
    let from_start = b.add(start, step)?;
    let rest = b.sub(1.0, w)?;
    let back = b.mul(span, rest)?;
    let from_end = b.sub(end, back)?;
    let y = b.select(near, from_start, from_end)?;
    b.cast(y, dtype)
}

/// The tensors x, a and b in the dtype of their arithmetic, the number v, and the dtype of the result.
fn scaled(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<([ValueId; 3], Operand, DType)> {
    let mut tensors = [value(args, 0)?, value(args, 1)?, value(args, 2)?];
    let v = operand(args, 3)?;
    let dtype = promoted(b, &tensors.map(Operand::Value));
    let of_v = promoted(b, &[v]);
    if of_v.category() > dtype.category() {
        return Err(Error::dtype(format!(
            "the factor of {dtype} tensors cannot be {of_v}"
        )));
    }
    for tensor in &mut tensors {
        *tensor = b.cast(*tensor, dtype.compute())?;
    }
    Ok((tensors, v, dtype))
}

/// x + v·a·b.
fn addcmul(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
    let ([x, p, q], v, dtype) = scaled(b, args)?;
    let scaled = b.mul(p, v)?;
    let product = b.mul(scaled, q)?;
    let y = b.add(x, product)?;
    b.cast(y, dtype)
}

/// x + v·a/b; two integer tensors have no quotient here, as in PyTorch.
fn addcdiv(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
    let quotient = [operand(args, 1)?, operand(args, 2)?];
    let of_quotient = promoted(b, &quotient);
    if !of_quotient.is_float() {
        return Err(Error::dtype(format!(
            "addcdiv does not divide {of_quotient} by integers"
        )));
    }
    let ([x, p, q], v, dtype) = scaled(b, args)?;
    let scaled = b.mul(p, v)?;
    let quotient = b.div(scaled, q)?;
    let y = b.add(x, quotient)?;
    b.cast(y, dtype)
}

/// NaN, ∞ and −∞ replaced by numbers; integers stay.
fn nan_to_num(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
    let x = value(args, 0)?;
    let (nan, posinf, neginf) = (operand(args, 1)?, operand(args, 2)?, operand(args, 3)?);
    if !b.dtype(x).is_float() {
        return Ok(x);
    }
    let least = b.binary(BinaryOp::Eq, x, f64::NEG_INFINITY)?;
    let y = b.select(least, neginf, x)?;
    let greatest = b.binary(BinaryOp::Eq, x, f64::INFINITY)?;
    let y = b.select(greatest, posinf, y)?;
    let missing = b.unary(UnaryOp::IsNan, x)?;
    b.select(missing, nan, y)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::Composite::*;
    use ferrotrace_runtime::DType::*;

    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;

    #[test]
    fn clamp_keeps_nan_and_promotes() {
        let x = [NAN, -INF, INF, -0.5, 0.75];
        for dtype in FLOATS {
            check(
                Clamp,
                &[t(&[5], dtype, &x), n(-0.25), n(0.5)],
                &[5],
                dtype,
                &[NAN, -0.25, 0.5, -0.25, 0.5],
            );
            check(
                Clamp,
                &[t(&[5], dtype, &x), n(2), n(1)],
                &[5],
                dtype,
                &[NAN, 1.0, 1.0, 1.0, 1.0],
            );
        }
        let i = t(&[3], I64, &[-5.0, 0.0, 5.0]);
        check(
            Clamp,
            &[i.clone(), n(-1), n(1.5)],
            &[3],
            F32,
            &[-1.0, 0.0, 1.5],
        );
        check(
            Clamp,
            &[i.clone(), n(-1), n(1)],
            &[3],
            I64,
            &[-1.0, 0.0, 1.0],
        );
        check(
            Clamp,
            &[i, t(&[2, 1], I64, &[1.0, 2.0]), n(9)],
            &[2, 3],
            I64,
            &[1.0, 1.0, 5.0, 2.0, 2.0, 5.0],
        );
        check(
            Clamp,
            &[t(&[1], F32, &[0.0]), n(NAN), n(1.0)],
            &[1],
            F32,
            &[NAN],
        );
    }

    #[test]
    fn lerp_is_exact_at_both_ends() {
        let (a, b) = (sample(12, 3), sample(12, 4));
        for dtype in FLOATS {
            let args = |w| [t(&[3, 4], dtype, &a), t(&[3, 4], dtype, &b), w];
            check(Lerp, &args(n(0)), &[3, 4], dtype, &a);
            check(Lerp, &args(n(1.0)), &[3, 4], dtype, &b);
            for w in [0.25, 0.5, -3.0, 2.0] {
                let want: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + w * (b - a)).collect();
                check(Lerp, &args(n(w)), &[3, 4], dtype, &want);
                check(Lerp, &args(t(&[], dtype, &[w])), &[3, 4], dtype, &want);
            }
            let w = sample(4, 5);
            let want: Vec<f64> = (0..12).map(|i| a[i] + w[i % 4] * (b[i] - a[i])).collect();
            check(Lerp, &args(t(&[4], dtype, &w)), &[3, 4], dtype, &want);
        }
        // The number keeps its 53 bits beside binary64 tensors.
        check(
            Lerp,
            &[t(&[], F64, &[0.0]), t(&[], F64, &[1.0]), n(0.1)],
            &[],
            F64,
            &[0.1],
        );
        check(
            Lerp,
            &[t(&[1], I32, &[2.0]), t(&[1], I32, &[3.0]), n(0.5)],
            &[1],
            F32,
            &[2.5],
        );
    }

    #[test]
    fn addcmul_and_addcdiv() {
        let (x, p, q) = (sample(6, 6), sample(3, 7), [0.5, 4.0]);
        for dtype in FLOATS {
            let args = [
                t(&[2, 3], dtype, &x),
                t(&[3], dtype, &p),
                t(&[2, 1], dtype, &q),
                n(0.5),
            ];
            let product: Vec<f64> = (0..6).map(|i| x[i] + 0.5 * p[i % 3] * q[i / 3]).collect();
            check(Addcmul, &args, &[2, 3], dtype, &product);
            let quotient: Vec<f64> = (0..6).map(|i| x[i] + 0.5 * p[i % 3] / q[i / 3]).collect();
            check(Addcdiv, &args, &[2, 3], dtype, &quotient);
        }
        let i = |v: f64| t(&[1], I32, &[v]);
        check(Addcmul, &[i(1.0), i(2.0), i(3.0), n(4)], &[1], I32, &[25.0]);
        refused(&Addcmul, &[i(1.0), i(2.0), i(3.0), n(0.5)]);
        refused(&Addcdiv, &[i(1.0), i(2.0), i(3.0), n(1)]);
        check(
            Addcdiv,
            &[i(1.0), t(&[1], F32, &[3.0]), i(2.0), n(1)],
            &[1],
            F32,
            &[2.5],
        );
        check(
            Addcdiv,
            &[t(&[1], F32, &[1.0]), t(&[1], F32, &[1.0]), i(0.0), n(1)],
            &[1],
            F32,
            &[INF],
        );
        refused(
            &Addcmul,
            &[
                t(&[2], F32, &[0.0; 2]),
                t(&[3], F32, &[0.0; 3]),
                i(1.0),
                n(1),
            ],
        );
    }

    #[test]
    fn nan_to_num_replaces() {
        let x = [NAN, INF, -INF, 1.5];
        for dtype in FLOATS {
            let args = [t(&[4], dtype, &x), n(0), n(9.0), n(-9.0)];
            check(NanToNum, &args, &[4], dtype, &[0.0, 9.0, -9.0, 1.5]);
        }
        check(
            NanToNum,
            &[t(&[2], I8, &[1.0, -2.0]), n(0.5), n(1.0), n(2.0)],
            &[2],
            I8,
            &[1.0, -2.0],
        );
        check(
            NanToNum,
            &[t(&[1], F32, &[INF]), n(0), n(INF), n(0)],
            &[1],
            F32,
            &[INF],
        );
        check(
            NanToNum,
            &[t(&[0], F32, &[]), n(0), n(0), n(0)],
            &[0],
            F32,
            &[],
        );
    }
}
