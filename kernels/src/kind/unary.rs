//! The pointwise operators of one operand: dtype rules and C text.

use crate::WEIGHTS;
use crate::support::{Need, SCALAR, call, scalar_type};
use ferrotrace_runtime::{Category, DType};
use std::collections::BTreeSet;

/// A pointwise operator of one operand. Names and semantics are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnaryOp {
    /// |x|; the least integer stays as it is.
    Abs,
    /// −x; the least integer stays as it is.
    Neg,
    /// −1, 0 or 1; NaN and ±0 are kept.
    Sign,
    /// eˣ.
    Exp,
    /// 2ˣ.
    Exp2,
    /// eˣ − 1, accurate near 0.
    Expm1,
    /// The natural logarithm.
    Log,
    /// The logarithm to base 2.
    Log2,
    /// The logarithm to base 10.
    Log10,
    /// ln(1 + x), accurate near 0.
    Log1p,
    /// The square root, rounded correctly.
    Sqrt,
    /// 1 / √x.
    Rsqrt,
    /// 1 / x.
    Recip,
    /// x · x.
    Square,
    /// The sine.
    Sin,
    /// The cosine.
    Cos,
    /// The tangent.
    Tan,
    /// The inverse sine.
    Asin,
    /// The inverse cosine.
    Acos,
    /// The inverse tangent.
    Atan,
    /// The hyperbolic sine.
    Sinh,
    /// The hyperbolic cosine.
    Cosh,
    /// The hyperbolic tangent.
    Tanh,
    /// The inverse hyperbolic sine.
    Asinh,
    /// The inverse hyperbolic cosine.
    Acosh,
    /// The inverse hyperbolic tangent.
    Atanh,
    /// The error function.
    Erf,
    /// 1 − erf(x), accurate for large x.
    Erfc,
    /// The largest integer not above x.
    Floor,
    /// The smallest integer not below x.
    Ceil,
    /// The nearest integer, ties to even.
    Round,
    /// The integer part.
    Trunc,
    /// 1 / (1 + e⁻ˣ).
    Sigmoid,
    /// max(x, 0); NaN is kept.
    Relu,
    /// Whether x is zero (false).
    LogicalNot,
    /// Every bit inverted; of a truth value, its negation.
    BitwiseNot,
    /// Whether x is NaN.
    IsNan,
    /// Whether x is +∞ or −∞.
    IsInf,
    /// Whether x is neither NaN nor infinite.
    IsFinite,
}

use UnaryOp::*;

impl UnaryOp {
    /// Every operator, in order of declaration.
    pub const ALL: [UnaryOp; 39] = [
        Abs, Neg, Sign, Exp, Exp2, Expm1, Log, Log2, Log10, Log1p, Sqrt, Rsqrt, Recip, Square, Sin,
        Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh, Acosh, Atanh, Erf, Erfc, Floor, Ceil,
        Round, Trunc, Sigmoid, Relu, LogicalNot, BitwiseNot, IsNan, IsInf, IsFinite,
    ];

    /// The name in snake case, as PyTorch spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Abs => "abs",
            Neg => "neg",
            Sign => "sign",
            Exp => "exp",
            Exp2 => "exp2",
            Expm1 => "expm1",
            Log => "log",
            Log2 => "log2",
            Log10 => "log10",
            Log1p => "log1p",
            Sqrt => "sqrt",
            Rsqrt => "rsqrt",
            Recip => "recip",
            Square => "square",
            Sin => "sin",
            Cos => "cos",
            Tan => "tan",
            Asin => "asin",
            Acos => "acos",
            Atan => "atan",
            Sinh => "sinh",
            Cosh => "cosh",
            Tanh => "tanh",
            Asinh => "asinh",
            Acosh => "acosh",
            Atanh => "atanh",
            Erf => "erf",
            Erfc => "erfc",
            Floor => "floor",
            Ceil => "ceil",
            Round => "round",
            Trunc => "trunc",
            Sigmoid => "sigmoid",
            Relu => "relu",
            LogicalNot => "logical_not",
            BitwiseNot => "bitwise_not",
            IsNan => "isnan",
            IsInf => "isinf",
            IsFinite => "isfinite",
        }
    }

    /// The operator whose [`name`](Self::name) is `name`.
    pub fn from_name(name: &str) -> Option<UnaryOp> {
        UnaryOp::ALL.into_iter().find(|op| op.name() == name)
    }

    /// The dtype the operand is cast to, given its own; `None` where the operator does not take it.
    ///
    /// Functions with fractional results take integers and truth values as F32; `LogicalNot` takes anything as Bool.
    pub const fn compute_dtype(self, dtype: DType) -> Option<DType> {
        let category = dtype.category();
        match self {
            Abs | Sign => Some(dtype),
            Neg | Floor | Ceil | Round | Trunc | Relu => match category {
                Category::Bool => None,
                _ => Some(dtype),
            },
            Square => match category {
                Category::Bool => Some(DType::I64),
                _ => Some(dtype),
            },
            LogicalNot => Some(DType::Bool),
            BitwiseNot => match category {
                Category::Float => None,
                _ => Some(dtype),
            },
            IsNan | IsInf | IsFinite => Some(dtype),
            _ => match category {
                Category::Float => Some(dtype),
                _ => Some(DType::F32),
            },
        }
    }

    /// The dtype of the result, given the dtype computed in.
    pub const fn result_dtype(self, compute: DType) -> DType {
        match self {
            LogicalNot | IsNan | IsInf | IsFinite => DType::Bool,
            _ => compute,
        }
    }

    /// Whether computing the value again costs more than loading it (ir B9).
    pub const fn heavy(self) -> bool {
        !matches!(
            self,
            Abs | Neg
                | Sign
                | Sqrt
                | Recip
                | Square
                | Floor
                | Ceil
                | Round
                | Trunc
                | Relu
                | LogicalNot
                | BitwiseNot
                | IsNan
                | IsInf
                | IsFinite
        )
    }

    /// Whether the result jumps where the operand passes some number.
    pub const fn jumps(self) -> bool {
        matches!(self, Floor | Ceil | Round | Trunc | Sign)
    }

    /// Additions that computing one element takes as long as.
    pub const fn work(self) -> u64 {
        match self {
            Sqrt | Rsqrt | Recip => WEIGHTS.division,
            op if op.heavy() => WEIGHTS.function,
            _ => 1,
        }
    }

    /// The C expression of the operator on the one argument `args[0]`, an expression of the vector type that
    /// represents `dtype` (the compute dtype; F32 for the half types, whose result is not rounded here). What the
    /// expression calls is added to `needs`.
    pub fn c_expr(
        self,
        dtype: DType,
        lanes: usize,
        args: &[&str],
        needs: &mut BTreeSet<Need>,
    ) -> String {
        let a = args[0];
        let dtype = dtype.compute();
        let float = dtype.is_float();
        match self {
            Neg => format!("(-{a})"),
            LogicalNot if dtype == DType::Bool => format!("(~{a})"),
            LogicalNot => {
                let mask = format!("({a} == 0)");
                crate::support::mask(&mask, dtype, lanes)
            }
            BitwiseNot => format!("(~{a})"),
            Abs | Sign if matches!(dtype, DType::Bool | DType::U8) && matches!(self, Abs) => {
                a.to_owned()
            }
            Sign if dtype == DType::Bool => a.to_owned(),
            Floor | Ceil | Round | Trunc if !float => a.to_owned(),
            Relu if dtype == DType::U8 => a.to_owned(),
            IsNan | IsInf | IsFinite if !float => {
                let truth = if matches!(self, IsFinite) { "-1" } else { "0" };
                format!(
                    "(({}x{lanes}){{}} + ({truth}))",
                    crate::support::mask_type(lanes)
                )
            }
            Recip => format!("(1.0{} / {a})", if dtype == DType::F32 { "f" } else { "" }),
            _ => call(needs, self.name(), dtype, lanes, &[a]),
        }
    }

    /// As [`c_expr`](Self::c_expr) in the scalar dialect: CUDA C++ for one element.
    pub fn scalar_expr(self, dtype: DType, a: &str, needs: &mut BTreeSet<Need>) -> String {
        let dtype = dtype.compute();
        let (float, truth) = (dtype.is_float(), dtype == DType::Bool);
        match self {
            Neg if float => format!("(-{a})"),
            Neg => {
                let (c, u) = (scalar_type(dtype), unsigned(dtype));
                format!("(({c})(({u})0 - ({u}){a}))")
            }
            LogicalNot if truth => format!("(!{a})"),
            LogicalNot => format!("({a} == 0)"),
            BitwiseNot if truth => format!("(!{a})"),
            BitwiseNot => format!("(({})~{a})", scalar_type(dtype)),
            Abs | Sign if truth => a.to_owned(),
            Abs if dtype == DType::U8 => a.to_owned(),
            Floor | Ceil | Round | Trunc if !float => a.to_owned(),
            IsNan | IsInf if !float => "false".to_owned(),
            IsFinite if !float => "true".to_owned(),
            Recip if dtype == DType::F32 => format!("__fdiv_rn(1.0f, {a})"),
            Recip => format!("(1.0 / {a})"),
            _ => call(needs, self.name(), dtype, SCALAR, &[a]),
        }
    }
}

/// The unsigned type in which integers wrap.
pub(super) fn unsigned(dtype: DType) -> &'static str {
    if dtype == DType::I64 {
        "unsigned long long"
    } else {
        "unsigned"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::parts;

    #[test]
    fn names_round_trip() {
        for (i, op) in UnaryOp::ALL.into_iter().enumerate() {
            assert_eq!(op as usize, i);
            assert_eq!(UnaryOp::from_name(op.name()), Some(op));
        }
        assert_eq!(UnaryOp::from_name("frob"), None);
    }

    #[test]
    fn dtypes() {
        assert_eq!(Exp.compute_dtype(DType::I64), Some(DType::F32));
        assert_eq!(Exp.compute_dtype(DType::F16), Some(DType::F16));
        assert_eq!(Neg.compute_dtype(DType::Bool), None);
        assert_eq!(Floor.compute_dtype(DType::I32), Some(DType::I32));
        assert_eq!(BitwiseNot.compute_dtype(DType::F32), None);
        assert_eq!(IsNan.result_dtype(DType::F64), DType::Bool);
        assert_eq!(Square.compute_dtype(DType::Bool), Some(DType::I64));
    }

    #[test]
    fn what_an_expression_calls_exists() {
        for op in UnaryOp::ALL {
            for dtype in DType::ALL {
                let Some(compute) = op.compute_dtype(dtype) else {
                    continue;
                };
                let mut needs = BTreeSet::new();
                op.scalar_expr(compute, "a", &mut needs);
                assert!(needs.iter().all(|n| !parts(&[*n].into()).is_empty()));
                needs.clear();
                let text = op.c_expr(compute, 8, &["a"], &mut needs);
                for need in &needs {
                    assert!(text.contains(&format!("{}x8(", need.name)), "{text}");
                }
                assert_eq!(text.contains("ft_"), !needs.is_empty(), "{text}");
                assert!(needs.is_empty() || !parts(&needs).is_empty());
            }
        }
    }
}
