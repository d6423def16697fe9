//! Gradients of functions of one element in closed form: they compute less than what follows from the definitions, and at
//! kinks they are PyTorch's.

use super::activation::{SELU_ALPHA, SELU_SCALE, SOFTPLUS_THRESHOLD};
use super::build::tensor_of;
use crate::op::gradient::{Adjoint, Gradients, wide, wide_operand};
use crate::{BinaryOp, OpBuilder, OpBuilderExt, Operand, UnaryOp, ValueId};
use ferrotrace_runtime::Result;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, FRAC_2_SQRT_PI};

/// A gradient rule; nothing where that of the definition is taken.
pub(super) type Pull = fn(&mut dyn OpBuilder, &Adjoint<'_>) -> Result<Option<Gradients>>;

/// The gradient times the derivative by x, `slope` of x.
fn times(
    b: &mut dyn OpBuilder,
    of: &Adjoint<'_>,
    slope: impl FnOnce(&mut dyn OpBuilder, ValueId) -> Result<ValueId>,
) -> Result<Option<Gradients>> {
    if !of.wants_first_alone() {
        return Ok(None);
    }
    let (x, g) = (wide(b, of.value(0)?)?, wide(b, of.gradient)?);
    let slope = slope(b, x)?;
    b.mul(g, slope).map(|g| Some(of.first(g)))
}

/// `x`, 0 where it is greater than `bound`: no exponential of what is left overflows.
fn below(b: &mut dyn OpBuilder, x: ValueId, bound: f64) -> Result<(ValueId, ValueId)> {
    let greater = b.binary(BinaryOp::Gt, x, bound)?;
    Ok((greater, b.select(greater, 0.0, x)?))
}

/// Φ(x) + x φ(x).
pub(super) fn gelu(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    times(b, of, |b, x| {
        let z = b.mul(x, FRAC_1_SQRT_2)?;
        let t = b.unary(UnaryOp::Erf, z)?;
        let half = b.mul(t, 0.5)?;
        let cumulative = b.add(half, 0.5)?;
        let square = b.mul(z, z)?;
        let negated = b.unary(UnaryOp::Neg, square)?;
        let bell = b.unary(UnaryOp::Exp, negated)?;
        let density = b.mul(bell, 0.5 * FRAC_1_SQRT_2 * FRAC_2_SQRT_PI)?;
        let rest = b.mul(x, density)?;
        b.add(cumulative, rest)
    })
}

/// ½(1 + t) + ½x(1 − t²)z′, where t = tanh z.
pub(super) fn gelu_tanh(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    times(b, of, |b, x| {
        let square = b.unary(UnaryOp::Square, x)?;
        let cube = b.mul(square, x)?;
        let bend = b.mul(cube, 0.044715)?;
        let sum = b.add(x, bend)?;
        let z = b.mul(sum, FRAC_2_PI.sqrt())?;
        let t = b.unary(UnaryOp::Tanh, z)?;
        let steep = b.mul(square, 3.0 * 0.044715 * FRAC_2_PI.sqrt())?;
        let steep = b.add(steep, FRAC_2_PI.sqrt())?;
        let rest = b.mul(t, t).and_then(|tt| b.sub(1.0, tt))?;
        let rest = b.mul(rest, steep)?;
        let rest = b.mul(x, rest)?;
        let gate = b.add(t, 1.0)?;
        let sum = b.add(gate, rest)?;
        b.mul(sum, 0.5)
    })
}

/// σ(1 + x(1 − σ)).
pub(super) fn silu(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    times(b, of, |b, x| {
        let gate = b.unary(UnaryOp::Sigmoid, x)?;
        let rest = b.sub(1.0, gate)?;
        let bend = b.mul(x, rest).and_then(|bend| b.add(bend, 1.0))?;
        b.mul(gate, bend)
    })
}

/// σ(x), 1 beyond 20.
pub(super) fn softplus(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    times(b, of, |b, x| {
        let greater = b.binary(BinaryOp::Gt, x, SOFTPLUS_THRESHOLD)?;
        let gate = b.unary(UnaryOp::Sigmoid, x)?;
        b.select(greater, 1.0, gate)
    })
}

/// (1 + |x|)⁻².
pub(super) fn softsign(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    times(b, of, |b, x| {
        let size = b.unary(UnaryOp::Abs, x)?;
        let divisor = b.add(size, 1.0)?;
        let share = b.unary(UnaryOp::Recip, divisor)?;
        b.mul(share, share)
    })
}

/// σ(−x).
pub(super) fn log_sigmoid(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    times(b, of, |b, x| {
        let negated = b.unary(UnaryOp::Neg, x)?;
        b.unary(UnaryOp::Sigmoid, negated)
    })
}

/// The scale, or that of what is not above 0 times eˣ.
pub(super) fn selu(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    times(b, of, |b, x| {
        let (greater, rest) = below(b, x, 0.0)?;
        let e = b.unary(UnaryOp::Exp, rest)?;
        let curve = b.mul(e, SELU_ALPHA * SELU_SCALE)?;
        b.select(greater, SELU_SCALE, curve)
    })
}

/// 1, or a·eˣ.
pub(super) fn elu(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    times(b, of, |b, x| {
        let a = wide_operand(b, of.args[1])?;
        let (greater, rest) = below(b, x, 0.0)?;
        let e = b.unary(UnaryOp::Exp, rest)?;
        let curve = b.mul(e, a)?;
        b.select(greater, 1.0, curve)
    })
}

/// 1, or e^(x/a).
pub(super) fn celu(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    times(b, of, |b, x| {
        let a = wide_operand(b, of.args[1])?;
        let (greater, rest) = below(b, x, 0.0)?;
        let ratio = b.div(rest, a)?;
        let curve = b.unary(UnaryOp::Exp, ratio)?;
        b.select(greater, 1.0, curve)
    })
}

/// 1, or a.
pub(super) fn leaky_relu(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    if !of.wants_first_alone() {
        return Ok(None);
    }
    let a = wide_operand(b, of.args[1])?;
    let (x, g) = (of.value(0)?, wide(b, of.gradient)?);
    let greater = b.binary(BinaryOp::Gt, x, 0.0)?;
    let less = b.mul(g, a)?;
    b.select(greater, g, less).map(|g| Some(of.first(g)))
}

/// The gradient where the result lies between two numbers, 0 at them and beyond; that of NaN passes.
fn between(
    b: &mut dyn OpBuilder,
    of: &Adjoint<'_>,
    (lo, hi): (f64, f64),
) -> Result<Option<Gradients>> {
    let y = of.result;
    let (low, high) = (
        b.binary(BinaryOp::Le, y, lo)?,
        b.binary(BinaryOp::Ge, y, hi)?,
    );
    let outside = b.binary(BinaryOp::LogicalOr, low, high)?;
    b.select(outside, 0.0, of.gradient)
        .map(|g| Some(of.first(g)))
}

/// 1 between −1 and 1.
pub(super) fn hardtanh(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    between(b, of, (-1.0, 1.0))
}

/// 1 between 0 and 6.
pub(super) fn relu6(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    between(b, of, (0.0, 6.0))
}

/// Whether x is greater than `lo` and less than `hi`.
fn inside(
    b: &mut dyn OpBuilder,
    x: ValueId,
    (lo, hi): (impl Into<Operand>, impl Into<Operand>),
) -> Result<ValueId> {
    let (above, under) = (
        b.binary(BinaryOp::Gt, x, lo)?,
        b.binary(BinaryOp::Lt, x, hi)?,
    );
    b.binary(BinaryOp::LogicalAnd, above, under)
}

/// 1/6 between −3 and 3.
pub(super) fn hardsigmoid(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    let g = wide(b, of.gradient)?;
    let part = b.div(g, 6.0)?;
    let inside = inside(b, of.value(0)?, (-3.0, 3.0))?;
    b.select(inside, part, 0.0).map(|g| Some(of.first(g)))
}

/// x/3 + ½ between −3 and 3, 0 below and 1 above.
pub(super) fn hardswish(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    times(b, of, |b, x| {
        let line = b.div(x, 3.0).and_then(|third| b.add(third, 0.5))?;
        let (low, mid) = (
            b.binary(BinaryOp::Le, x, -3.0)?,
            b.binary(BinaryOp::Lt, x, 3.0)?,
        );
        let slope = b.select(mid, line, 1.0)?;
        b.select(low, 0.0, slope)
    })
}

/// 1 between two numbers. Limits that are tensors share the gradient with what equals them, as `maximum` and `minimum`.
pub(super) fn clamp(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    let (lo, hi) = (of.args[1], of.args[2]);
    if matches!((lo, hi), (Operand::Value(_), _) | (_, Operand::Value(_))) {
        return Ok(None);
    }
    let inside = inside(b, of.value(0)?, (lo, hi))?;
    b.select(inside, of.gradient, 0.0)
        .map(|g| Some(of.first(g)))
}

/// 1 − w, w, and end − start.
pub(super) fn lerp(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Option<Gradients>> {
    let (mut gradients, g) = (of.none(), wide(b, of.gradient)?);
    let dtype = b.dtype(g);
    let w = tensor_of(b, of.args[2], dtype)?;
    if of.wants(0) {
        let rest = b.sub(1.0, w)?;
        gradients[0] = Some(b.mul(g, rest)?);
    }
    if of.wants(1) {
        gradients[1] = Some(b.mul(g, w)?);
    }
    if of.wants(2) {
        let (start, end) = (b.cast(of.value(0)?, dtype)?, b.cast(of.value(1)?, dtype)?);
        let span = b.sub(end, start)?;
        gradients[2] = Some(b.mul(g, span)?);
    }
    Ok(Some(gradients))
}
