//! Where an operator decides by its operand: what the least change of a number turns into another result.

use crate::{BinaryOp, Composite, Op, UnaryOp};
use ferrotrace_runtime::DType;

impl Op {
    /// Whether the result, of dtype `to`, is no continuous function of operand number `operand`, of dtype `from`: a
    /// comparison, an order or a position in one, a test, a function that jumps, or a cast, which is for the number as the
    /// dtype holds it. Such an operator reads a value rounded, however precisely it was computed. Arithmetic that promotes
    /// an operand to another float does not decide.
    ///
    /// ```
    /// use ferrotrace_kernels::{BinaryOp, Op, UnaryOp};
    /// use ferrotrace_runtime::DType::{BF16, Bool, F32};
    ///
    /// assert!(Op::Binary(BinaryOp::Gt).decides(0, BF16, Bool));
    /// assert!(Op::Unary(UnaryOp::Floor).decides(0, BF16, BF16));
    /// assert!(Op::Cast(F32).decides(0, BF16, F32));
    /// assert!(!Op::Unary(UnaryOp::Exp).decides(0, BF16, BF16));
    /// ```
    pub fn decides(&self, operand: usize, from: DType, to: DType) -> bool {
        match self {
            Op::Cast(_) => from != to,
            _ => from.is_float() != to.is_float() || self.jumps(operand),
        }
    }

    /// Whether the result jumps where the operand passes some number.
    fn jumps(&self, operand: usize) -> bool {
        match self {
            Op::Unary(op) => matches!(
                op,
                UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc | UnaryOp::Sign
            ),
            Op::Binary(op) => match op {
                BinaryOp::FloorDiv | BinaryOp::Mod | BinaryOp::Fmod => true,
                // Of a negative base: a number for whole exponents alone.
                BinaryOp::Pow => operand == 1,
                _ => false,
            },
            Op::Sort { .. } | Op::ArgSort { .. } | Op::TopK { .. } | Op::ArgTopK { .. } => true,
            Op::Composite(op) => match op {
                Composite::Frac | Composite::NanToNum => operand == 0,
                // How many are not zero.
                Composite::Norm { p, .. } => f64::from_bits(*p) == 0.0,
                _ => false,
            },
            _ => false,
        }
    }
}
