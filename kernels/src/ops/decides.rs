//! Where an operator decides by its operand: what the least change of a number turns into another result.

use crate::Op;
use ferrotrace_runtime::DType;

impl Op {
    /// Whether the result, of dtype `to`, is no continuous function of operand number `operand`, of dtype `from`: a
    /// comparison, an order or a position in one, a test, a function that jumps, or a cast, which is for the number as the
    /// dtype holds it. Such an operator reads a value rounded, however precisely it was computed. Arithmetic that promotes
    /// an operand to another float does not decide.
    ///
    /// ```
    /// use ferrotrace_kernels::{BinaryOp, Op, UnaryOp, op::Cast};
    /// use ferrotrace_runtime::DType::{BF16, Bool, F32};
    ///
    /// assert!(Op::Binary(BinaryOp::Gt).decides(0, BF16, Bool));
    /// assert!(Op::Unary(UnaryOp::Floor).decides(0, BF16, BF16));
    /// assert!(Op::Cast(Cast(F32)).decides(0, BF16, F32));
    /// assert!(!Op::Unary(UnaryOp::Exp).decides(0, BF16, BF16));
    /// ```
    pub fn decides(&self, operand: usize, from: DType, to: DType) -> bool {
        match self.as_cast() {
            Some(_) => from != to,
            None => from.is_float() != to.is_float() || self.entry().jumps(operand),
        }
    }
}
