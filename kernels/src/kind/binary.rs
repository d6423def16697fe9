//! The pointwise operators of two operands: dtype rules and C text.

use super::unary::unsigned;
use crate::WEIGHTS;
use crate::support::{Need, SCALAR, call, compares_by_call, mask, scalar_type};
use ferrotrace_runtime::{Category, DType};
use std::collections::BTreeSet;

/// A pointwise operator of two operands. Names and semantics are PyTorch's; where C leaves an integer result
/// undefined it is defined here, alike on every device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BinaryOp {
    /// a + b; integers wrap, truth values: or.
    Add,
    /// a − b; integers wrap.
    Sub,
    /// a · b; integers wrap, truth values: and.
    Mul,
    /// a / b, a float whatever the operands.
    Div,
    /// ⌊a / b⌋; of integers, x / 0 = 0 and MIN / −1 wraps to MIN.
    FloorDiv,
    /// a − b·⌊a / b⌋, with the sign of b (Python's `%`); of integers, x mod 0 = x and MIN mod −1 = 0.
    Mod,
    /// The remainder of the truncated quotient, with the sign of a; of integers, x mod 0 = x and MIN mod −1 = 0.
    Fmod,
    /// aᵇ; of integers by repeated squaring, wrapping; a negative exponent gives 0 but for the bases 1 and −1.
    Pow,
    /// The larger; NaN if either is NaN.
    Maximum,
    /// The smaller; NaN if either is NaN.
    Minimum,
    /// The angle of the point (b, a).
    Atan2,
    /// a = b.
    Eq,
    /// a ≠ b (true of NaN).
    Ne,
    /// a < b.
    Lt,
    /// a ≤ b.
    Le,
    /// a > b.
    Gt,
    /// a ≥ b.
    Ge,
    /// Both operands are true.
    LogicalAnd,
    /// Either operand is true.
    LogicalOr,
    /// One operand is true and the other is not.
    LogicalXor,
    /// The bits set in both.
    BitwiseAnd,
    /// The bits set in either.
    BitwiseOr,
    /// The bits that differ.
    BitwiseXor,
    /// a shifted left by b bits; 0 where b is negative or not below the width.
    Shl,
    /// a shifted right by b bits, filling with the sign; the fill alone where b is negative or not below the width.
    Shr,
    /// The greatest common divisor of magnitudes, of integers; that of 0 and x is |x|. That of 0 or MIN and MIN wraps to MIN.
    Gcd,
}

use BinaryOp::*;

impl BinaryOp {
    /// Every operator, in order of declaration.
    pub const ALL: [BinaryOp; 26] = [
        Add, Sub, Mul, Div, FloorDiv, Mod, Fmod, Pow, Maximum, Minimum, Atan2, Eq, Ne, Lt, Le, Gt,
        Ge, LogicalAnd, LogicalOr, LogicalXor, BitwiseAnd, BitwiseOr, BitwiseXor, Shl, Shr, Gcd,
    ];

    /// The name in snake case, as PyTorch spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Add => "add",
            Sub => "sub",
            Mul => "mul",
            Div => "div",
            FloorDiv => "floor_divide",
            Mod => "remainder",
            Fmod => "fmod",
            Pow => "pow",
            Maximum => "maximum",
            Minimum => "minimum",
            Atan2 => "atan2",
            Eq => "eq",
            Ne => "ne",
            Lt => "lt",
            Le => "le",
            Gt => "gt",
            Ge => "ge",
            LogicalAnd => "logical_and",
            LogicalOr => "logical_or",
            LogicalXor => "logical_xor",
            BitwiseAnd => "bitwise_and",
            BitwiseOr => "bitwise_or",
            BitwiseXor => "bitwise_xor",
            Shl => "shl",
            Shr => "shr",
            Gcd => "gcd",
        }
    }

    /// The operator whose [`name`](Self::name) is `name`.
    pub fn from_name(name: &str) -> Option<BinaryOp> {
        BinaryOp::ALL.into_iter().find(|op| op.name() == name)
    }

    /// The dtype both operands are cast to, given the dtype they promote to; `None` where the operator does not take
    /// it. True division and `Atan2` take integers as F32, the logical operators take anything as Bool.
    pub const fn compute_dtype(self, promoted: DType) -> Option<DType> {
        let category = promoted.category();
        match self {
            Add | Mul | Maximum | Minimum | Eq | Ne | Lt | Le | Gt | Ge => Some(promoted),
            Sub | FloorDiv | Mod | Fmod | Pow => match category {
                Category::Bool => None,
                _ => Some(promoted),
            },
            Div | Atan2 => match category {
                Category::Float => Some(promoted),
                _ => Some(DType::F32),
            },
            LogicalAnd | LogicalOr | LogicalXor => Some(DType::Bool),
            BitwiseAnd | BitwiseOr | BitwiseXor => match category {
                Category::Float => None,
                _ => Some(promoted),
            },
            Shl | Shr | Gcd => match category {
                Category::Int => Some(promoted),
                _ => None,
            },
        }
    }

    /// The dtype of the result, given the dtype computed in.
    pub const fn result_dtype(self, compute: DType) -> DType {
        match self {
            Eq | Ne | Lt | Le | Gt | Ge | LogicalAnd | LogicalOr | LogicalXor => DType::Bool,
            _ => compute,
        }
    }

    /// Whether computing the value again costs more than loading it (ir B9).
    pub const fn heavy(self) -> bool {
        matches!(self, FloorDiv | Mod | Fmod | Pow | Atan2 | Gcd)
    }

    /// Whether the result jumps where operand number `operand` passes some number. A power of a negative base is a number
    /// for whole exponents alone.
    pub const fn jumps(self, operand: usize) -> bool {
        match self {
            Pow => operand == 1,
            FloorDiv | Mod | Fmod => true,
            _ => false,
        }
    }

    /// Additions that computing one element takes as long as.
    pub const fn work(self) -> u64 {
        match self {
            Div => WEIGHTS.division,
            op if op.heavy() => WEIGHTS.function,
            _ => 1,
        }
    }

    /// The C expression of the operator on `args[0]` and `args[1]`, expressions of the vector type that represents
    /// `dtype` (the compute dtype; F32 for the half types, whose result is not rounded here). What the expression
    /// calls is added to `needs`.
    pub fn c_expr(
        self,
        dtype: DType,
        lanes: usize,
        args: &[&str],
        needs: &mut BTreeSet<Need>,
    ) -> String {
        let (a, b) = (args[0], args[1]);
        let dtype = dtype.compute();
        let truth = dtype == DType::Bool;
        let infix = |op: &str| format!("({a} {op} {b})");
        let mut comparison = |op: &str| match compares_by_call(dtype, lanes) {
            true => call(needs, self.name(), dtype, lanes, &[a, b]),
            false => mask(&infix(op), dtype, lanes),
        };
        match self {
            Add | BitwiseOr | LogicalOr | Maximum if truth => infix("|"),
            Mul | BitwiseAnd | LogicalAnd | Minimum if truth => infix("&"),
            BitwiseXor | LogicalXor | Ne if truth => infix("^"),
            Eq if truth => format!("(~({a} ^ {b}))"),
            // True is −1: the order of truth values is the reverse of that of their lanes.
            Lt if truth => format!("(~{a} & {b})"),
            Le if truth => format!("(~{a} | {b})"),
            Gt if truth => format!("({a} & ~{b})"),
            Ge if truth => format!("({a} | ~{b})"),
            LogicalAnd => mask(&format!("(({a} != 0) & ({b} != 0))"), dtype, lanes),
            LogicalOr => mask(&format!("(({a} != 0) | ({b} != 0))"), dtype, lanes),
            LogicalXor => mask(&format!("(({a} != 0) ^ ({b} != 0))"), dtype, lanes),
            Eq => comparison("=="),
            Ne => comparison("!="),
            Lt => comparison("<"),
            Le => comparison("<="),
            Gt => comparison(">"),
            Ge => comparison(">="),
            Add => infix("+"),
            Sub => infix("-"),
            Mul => infix("*"),
            Div => infix("/"),
            BitwiseAnd => infix("&"),
            BitwiseOr => infix("|"),
            BitwiseXor => infix("^"),
            FloorDiv | Mod | Fmod | Pow | Maximum | Minimum | Atan2 | Shl | Shr | Gcd => {
                call(needs, self.name(), dtype, lanes, &[a, b])
            }
        }
    }

    /// As [`c_expr`](Self::c_expr) in the scalar dialect: CUDA C++ for one element.
    pub fn scalar_expr(self, dtype: DType, a: &str, b: &str, needs: &mut BTreeSet<Need>) -> String {
        let dtype = dtype.compute();
        let c = scalar_type(dtype);
        let infix = |op: &str| format!("({a} {op} {b})");
        let wrapped = |op: &str| {
            if dtype.is_float() {
                return infix(op);
            }
            let u = unsigned(dtype);
            format!("(({c})(({u}){a} {op} ({u}){b}))")
        };
        match self {
            Add | BitwiseOr | LogicalOr | Maximum if dtype == DType::Bool => infix("||"),
            Mul | BitwiseAnd | LogicalAnd | Minimum if dtype == DType::Bool => infix("&&"),
            BitwiseXor | LogicalXor if dtype == DType::Bool => infix("!="),
            LogicalAnd => format!("({a} != 0 && {b} != 0)"),
            LogicalOr => format!("({a} != 0 || {b} != 0)"),
            LogicalXor => format!("(({a} != 0) != ({b} != 0))"),
            Eq => infix("=="),
            Ne => infix("!="),
            Lt => infix("<"),
            Le => infix("<="),
            Gt => infix(">"),
            Ge => infix(">="),
            Add => wrapped("+"),
            Sub => wrapped("-"),
            Mul => wrapped("*"),
            Div if dtype == DType::F32 => format!("__fdiv_rn({a}, {b})"),
            Div => infix("/"),
            BitwiseAnd => format!("(({c})({a} & {b}))"),
            BitwiseOr => format!("(({c})({a} | {b}))"),
            BitwiseXor => format!("(({c})({a} ^ {b}))"),
            FloorDiv | Mod | Fmod | Pow | Maximum | Minimum | Atan2 | Shl | Shr | Gcd => {
                call(needs, self.name(), dtype, SCALAR, &[a, b])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::parts;

    #[test]
    fn names_round_trip() {
        for (i, op) in BinaryOp::ALL.into_iter().enumerate() {
            assert_eq!(op as usize, i);
            assert_eq!(BinaryOp::from_name(op.name()), Some(op));
        }
        assert_eq!(BinaryOp::from_name("frob"), None);
    }

    #[test]
    fn dtypes() {
        assert_eq!(Div.compute_dtype(DType::I64), Some(DType::F32));
        assert_eq!(Add.compute_dtype(DType::Bool), Some(DType::Bool));
        assert_eq!(Sub.compute_dtype(DType::Bool), None);
        assert_eq!(BitwiseAnd.compute_dtype(DType::F32), None);
        assert_eq!(Shl.compute_dtype(DType::Bool), None);
        assert_eq!(LogicalXor.compute_dtype(DType::F16), Some(DType::Bool));
        assert_eq!(Lt.result_dtype(DType::F64), DType::Bool);
    }

    #[test]
    fn what_an_expression_calls_exists() {
        for op in BinaryOp::ALL {
            for dtype in DType::ALL {
                let Some(compute) = op.compute_dtype(dtype) else {
                    continue;
                };
                let mut needs = BTreeSet::new();
                op.scalar_expr(compute, "a", "b", &mut needs);
                assert!(needs.iter().all(|n| !parts(&[*n].into()).is_empty()));
                needs.clear();
                let text = op.c_expr(compute, 8, &["a", "b"], &mut needs);
                for need in &needs {
                    assert!(text.contains(&format!("{}x8(", need.name)), "{text}");
                }
                assert_eq!(text.contains("ft_"), !needs.is_empty(), "{text}");
                assert!(needs.is_empty() || !parts(&needs).is_empty());
            }
        }
    }
}
