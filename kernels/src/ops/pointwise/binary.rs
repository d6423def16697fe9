//! Gradients of the pointwise operators of two operands.

use crate::op::Full;
use crate::op::gradient::{Adjoint, Gradients, full, number, wide, wide_operand};
use crate::{BinaryOp, BinaryOp::*, Op, OpBuilder, OpBuilderExt, Operand, UnaryOp, ValueId};
use ferrotrace_runtime::{DType, Result, Scalar, Shape};

impl BinaryOp {
    /// The gradients of both operands from that of the result, of the broadcast shape.
    ///
    /// # Errors
    /// An operator of its definition that cannot be recorded.
    pub fn vjp(self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let mut gradients = of.none();
        for i in 0..2 {
            if of.wants(i) {
                gradients[i] = self.pull(b, of, i)?;
            }
        }
        Ok(gradients)
    }

    /// The gradient of operand `i`.
    fn pull(self, b: &mut dyn OpBuilder, of: &Adjoint<'_>, i: usize) -> Result<Option<ValueId>> {
        let g = wide(b, of.gradient)?;
        let operand = |b: &mut dyn OpBuilder, i: usize| wide_operand(b, of.args[i]);
        let pulled = match (self, i) {
            (Add, _) | (Sub | Mod | Fmod, 0) => g,
            (Sub, _) => b.unary(UnaryOp::Neg, g)?,
            (Mul, i) => operand(b, 1 - i).and_then(|x| b.mul(g, x))?,
            (Div, 0) => operand(b, 1).and_then(|x| b.div(g, x))?,
            (Div, _) => {
                // −g · (a / b) / b.
                let (quotient, below) = (wide(b, of.result)?, operand(b, 1)?);
                let product = b.mul(g, quotient).and_then(|p| b.div(p, below))?;
                b.unary(UnaryOp::Neg, product)?
            }
            (Mod | Fmod, _) => {
                let (above, below) = (operand(b, 0)?, operand(b, 1)?);
                let round = if self == Mod {
                    UnaryOp::Floor
                } else {
                    UnaryOp::Trunc
                };
                let times = b.div(above, below).and_then(|q| b.unary(round, q))?;
                let product = b.mul(g, times)?;
                b.unary(UnaryOp::Neg, product)?
            }
            (Pow, i) => return power(b, of, g, i),
            (Maximum | Minimum, i) if number(of.args[1 - i]).is_some() => {
                // Of what a number bounds: 0 where they are equal.
                let wins = if self == Maximum { Gt } else { Lt };
                let own = operand(b, i)?;
                let wins = b.binary(wins, own, of.args[1 - i])?;
                b.select(wins, g, 0.0)?
            }
            (Maximum | Minimum, i) => {
                // Half of it where both are equal; that of NaN goes to both.
                let (own, other) = (operand(b, i)?, operand(b, 1 - i)?);
                let loses = if self == Maximum { Lt } else { Gt };
                let (tie, lost) = (b.binary(Eq, own, other)?, b.binary(loses, own, other)?);
                let half = b.mul(g, 0.5)?;
                let shared = b.select(tie, half, g)?;
                b.select(lost, 0.0, shared)?
            }
            (Atan2, i) => {
                let (y, x) = (operand(b, 0)?, operand(b, 1)?);
                let (yy, xx) = (b.mul(y, y)?, b.mul(x, x)?);
                let square = b.add(yy, xx)?;
                let (other, sign) = if i == 0 { (x, 1.0) } else { (y, -1.0) };
                let product = b.mul(g, other).and_then(|p| b.mul(p, sign))?;
                let origin = b.binary(Eq, square, 0.0)?;
                // No division by 0, which second derivatives would multiply by 0.
                let divisor = b.select(origin, 1.0, square)?;
                let slope = b.div(product, divisor)?;
                b.select(origin, 0.0, slope)?
            }
            _ => return Ok(None),
        };
        Ok(Some(pulled))
    }
}

/// The gradient of the base (operand 0) or the exponent of a power, from `g`, that of the result.
fn power(b: &mut dyn OpBuilder, of: &Adjoint<'_>, g: ValueId, i: usize) -> Result<Option<ValueId>> {
    let (base, exponent) = (wide_operand(b, of.args[0])?, wide_operand(b, of.args[1])?);
    if i == 1 {
        // y ln a, or 0 where a is 0 and the exponent is not negative.
        let y = wide(b, of.result)?;
        let dtype = b.dtype(g);
        let above = match base {
            Operand::Value(base) => b.unary(UnaryOp::Log, base)?,
            number => {
                let number = full_of(b, number, dtype)?;
                b.unary(UnaryOp::Log, number)?
            }
        };
        let slope = b.mul(g, y).and_then(|p| b.mul(p, above))?;
        let zero = full(b, &Shape::scalar(), 0.0, dtype)?;
        let flat = b.binary(Eq, base, zero)?;
        let grows = b.binary(Ge, exponent, 0.0)?;
        let flat = b.binary(LogicalAnd, flat, grows)?;
        return b.select(flat, 0.0, slope).map(Some);
    }
    let Operand::Value(base) = base else {
        return Ok(None);
    };
    let slope = match number(exponent).map(Scalar::to_f64) {
        Some(0.0) => return Ok(None),
        Some(1.0) => return Ok(Some(g)),
        Some(2.0) => b.mul(base, 2.0)?,
        Some(p) => {
            let less = b.binary(Pow, base, p - 1.0)?;
            b.mul(less, p)?
        }
        None => {
            let less = b.sub(exponent, 1.0)?;
            let slope = b
                .binary(Pow, base, less)
                .and_then(|less| b.mul(less, exponent))?;
            let constant = b.binary(Eq, exponent, 0.0)?;
            b.select(constant, 0.0, slope)?
        }
    };
    b.mul(g, slope).map(Some)
}

/// A number as a 0-d tensor.
fn full_of(b: &mut dyn OpBuilder, number: Operand, dtype: DType) -> Result<ValueId> {
    let shape = Shape::scalar();
    b.push(Op::Full(Full { shape, dtype }), &[number])
}
