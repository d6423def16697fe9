//! Gradients of the pointwise operators of one operand.

use crate::op::gradient::{Adjoint, Gradients, wide};
use crate::{BinaryOp, OpBuilder, OpBuilderExt, UnaryOp, UnaryOp::*, ValueId};
use ferrotrace_runtime::{Error, Result};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LOG2_E, LOG10_E};

impl UnaryOp {
    /// The gradient of the operand from that of the result.
    ///
    /// # Errors
    /// An operator of its definition that cannot be recorded.
    pub fn vjp(self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let g = wide(b, of.gradient)?;
        let product = match self {
            Sign | Floor | Ceil | Round | Trunc => return Ok(of.none()),
            LogicalNot | BitwiseNot | IsNan | IsInf | IsFinite => return Ok(of.none()),
            Neg => b.unary(Neg, g)?,
            Relu => {
                let y = wide(b, of.result)?;
                let zero = b.binary(BinaryOp::Le, y, 0.0)?;
                b.select(zero, 0.0, g)?
            }
            Log => {
                let x = wide(b, of.value(0)?)?;
                b.div(g, x)?
            }
            _ => {
                let slope = self.slope(b, of)?;
                b.mul(g, slope)?
            }
        };
        Ok(of.first(product))
    }

    /// The derivative by the operand, of the operand or of the result.
    fn slope(self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<ValueId> {
        let x = |b: &mut dyn OpBuilder| wide(b, of.value(0)?);
        let y = |b: &mut dyn OpBuilder| wide(b, of.result);
        match self {
            Abs => x(b).and_then(|x| b.unary(Sign, x)),
            Exp => y(b),
            Exp2 => y(b).and_then(|y| b.mul(y, LN_2)),
            Expm1 => y(b).and_then(|y| b.add(y, 1.0)),
            Log2 => x(b).and_then(|x| b.div(LOG2_E, x)),
            Log10 => x(b).and_then(|x| b.div(LOG10_E, x)),
            Log1p => x(b)
                .and_then(|x| b.add(x, 1.0))
                .and_then(|x| b.unary(Recip, x)),
            Sqrt => y(b).and_then(|y| b.div(0.5, y)),
            Rsqrt => {
                let y = y(b)?;
                let square = b.unary(Square, y)?;
                b.mul(square, y).and_then(|cube| b.mul(cube, -0.5))
            }
            Recip => y(b)
                .and_then(|y| b.unary(Square, y))
                .and_then(|s| b.unary(Neg, s)),
            Square => x(b).and_then(|x| b.mul(x, 2.0)),
            Sin => x(b).and_then(|x| b.unary(Cos, x)),
            Cos => x(b)
                .and_then(|x| b.unary(Sin, x))
                .and_then(|s| b.unary(Neg, s)),
            Tan => y(b)
                .and_then(|y| b.unary(Square, y))
                .and_then(|s| b.add(s, 1.0)),
            Asin => x(b).and_then(|x| arc(b, x)),
            Acos => x(b).and_then(|x| arc(b, x)).and_then(|s| b.unary(Neg, s)),
            Atan => {
                let below = x(b)
                    .and_then(|x| b.unary(Square, x))
                    .and_then(|s| b.add(s, 1.0))?;
                b.unary(Recip, below)
            }
            Sinh => x(b).and_then(|x| b.unary(Cosh, x)),
            Cosh => x(b).and_then(|x| b.unary(Sinh, x)),
            Tanh => y(b)
                .and_then(|y| b.unary(Square, y))
                .and_then(|s| b.sub(1.0, s)),
            Asinh | Acosh => {
                let one = if matches!(self, Asinh) { 1.0 } else { -1.0 };
                let below = x(b)
                    .and_then(|x| b.unary(Square, x))
                    .and_then(|s| b.add(s, one))?;
                b.unary(Rsqrt, below)
            }
            Atanh => {
                let below = x(b)
                    .and_then(|x| b.unary(Square, x))
                    .and_then(|s| b.sub(1.0, s))?;
                b.unary(Recip, below)
            }
            Erf | Erfc => {
                let scale = if matches!(self, Erf) {
                    FRAC_2_SQRT_PI
                } else {
                    -FRAC_2_SQRT_PI
                };
                let square = x(b).and_then(|x| b.unary(Square, x))?;
                let bell = b.unary(Neg, square).and_then(|s| b.unary(Exp, s))?;
                b.mul(bell, scale)
            }
            Sigmoid => {
                let y = y(b)?;
                b.sub(1.0, y).and_then(|rest| b.mul(rest, y))
            }
            _ => Err(Error::internal("the slope of a function without one")),
        }
    }
}

/// 1 / √(1 − x²), the slope of asin.
fn arc(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let square = b.unary(Square, x)?;
    let below = b.sub(1.0, square)?;
    b.unary(Rsqrt, below)
}
