//! Functions of one element.

mod bessel;
mod neighbours;
mod special;
mod zeta;

use super::unary_methods;
use crate::Tensor;
use ferrotrace_kernels::op::Cast;
use ferrotrace_kernels::{Composite, Op, UnaryOp};
use ferrotrace_runtime::DType;

unary_methods! {
    /// The absolute value |x|, of the same dtype; the least integer stays as it is.
    abs => Op::Unary(UnaryOp::Abs), [-1.5, 2.0] => [1.5, 2.0];
    /// −x, of the same dtype; an error for `Bool`.
    neg => Op::Unary(UnaryOp::Neg), [-1.5, 2.0] => [1.5, -2.0];
    /// −1, 0 or 1 by the sign of x, of the same dtype; NaN stays NaN.
    sign => Op::Unary(UnaryOp::Sign), [-1.5, 0.0] => [-1.0, 0.0];
    /// eˣ. Integers and bools give `F32`, as in every function below with fractional results.
    exp => Op::Unary(UnaryOp::Exp), [0.0, 1.0] => [1.0, 2.7182818];
    /// 2ˣ.
    exp2 => Op::Unary(UnaryOp::Exp2), [3.0, -1.0] => [8.0, 0.5];
    /// eˣ − 1, accurate near 0.
    expm1 => Op::Unary(UnaryOp::Expm1), [0.0, 1.0] => [0.0, 1.7182818];
    /// The natural logarithm; −∞ at 0, NaN below.
    log => Op::Unary(UnaryOp::Log), [1.0, 2.0] => [0.0, 0.6931472];
    /// The logarithm to base 2.
    log2 => Op::Unary(UnaryOp::Log2), [8.0, 0.5] => [3.0, -1.0];
    /// The logarithm to base 10.
    log10 => Op::Unary(UnaryOp::Log10), [1000.0, 0.1] => [3.0, -1.0];
    /// ln(1 + x), accurate near 0.
    log1p => Op::Unary(UnaryOp::Log1p), [0.0, 1.0] => [0.0, 0.6931472];
    /// The square root; NaN below 0.
    sqrt => Op::Unary(UnaryOp::Sqrt), [4.0, 2.0] => [2.0, 1.4142136];
    /// 1 / √x.
    rsqrt => Op::Unary(UnaryOp::Rsqrt), [4.0, 0.25] => [0.5, 2.0];
    /// 1 / x.
    recip => Op::Unary(UnaryOp::Recip), [4.0, -0.5] => [0.25, -2.0];
    /// x², of the same dtype for floats and integers.
    square => Op::Unary(UnaryOp::Square), [-4.0, 0.5] => [16.0, 0.25];
    /// The sine of an angle in radians.
    sin => Op::Unary(UnaryOp::Sin), [0.0, 0.5] => [0.0, 0.4794255];
    /// The cosine of an angle in radians.
    cos => Op::Unary(UnaryOp::Cos), [0.0, 0.5] => [1.0, 0.8775826];
    /// The tangent of an angle in radians.
    tan => Op::Unary(UnaryOp::Tan), [0.0, 0.5] => [0.0, 0.5463025];
    /// The inverse sine, in [−π/2, π/2]; NaN outside [−1, 1].
    asin => Op::Unary(UnaryOp::Asin), [0.0, 1.0] => [0.0, 1.5707963];
    /// The inverse cosine, in [0, π]; NaN outside [−1, 1].
    acos => Op::Unary(UnaryOp::Acos), [1.0, 0.0] => [0.0, 1.5707963];
    /// The inverse tangent, in (−π/2, π/2).
    atan => Op::Unary(UnaryOp::Atan), [0.0, 1.0] => [0.0, 0.7853982];
    /// The hyperbolic sine.
    sinh => Op::Unary(UnaryOp::Sinh), [0.0, 0.5] => [0.0, 0.5210953];
    /// The hyperbolic cosine.
    cosh => Op::Unary(UnaryOp::Cosh), [0.0, 0.5] => [1.0, 1.1276260];
    /// The hyperbolic tangent.
    tanh => Op::Unary(UnaryOp::Tanh), [0.0, 0.5] => [0.0, 0.4621172];
    /// The inverse hyperbolic sine.
    asinh => Op::Unary(UnaryOp::Asinh), [0.0, 1.0] => [0.0, 0.8813736];
    /// The inverse hyperbolic cosine; NaN below 1.
    acosh => Op::Unary(UnaryOp::Acosh), [1.0, 2.0] => [0.0, 1.3169579];
    /// The inverse hyperbolic tangent; NaN outside [−1, 1].
    atanh => Op::Unary(UnaryOp::Atanh), [0.0, 0.5] => [0.0, 0.5493061];
    /// The error function 2/√π ∫₀ˣ e^(−t²) dt.
    erf => Op::Unary(UnaryOp::Erf), [0.0, 0.5] => [0.0, 0.5204999];
    /// 1 − erf(x), accurate for large x.
    erfc => Op::Unary(UnaryOp::Erfc), [0.0, 0.5] => [1.0, 0.4795001];
    /// The greatest whole number not above x, of the same dtype.
    floor => Op::Unary(UnaryOp::Floor), [-0.5, 1.5] => [-1.0, 1.0];
    /// The least whole number not below x, of the same dtype.
    ceil => Op::Unary(UnaryOp::Ceil), [-0.5, 1.5] => [0.0, 2.0];
    /// The nearest whole number, halves to the even one, of the same dtype.
    round => Op::Unary(UnaryOp::Round), [0.5, 1.5] => [0.0, 2.0];
    /// The whole part, towards zero, of the same dtype.
    trunc => Op::Unary(UnaryOp::Trunc), [-1.5, 1.5] => [-1.0, 1.0];
    /// x − trunc(x), with the sign of x, of the same dtype.
    frac => Op::Composite(Composite::Frac), [-1.5, 2.25] => [-0.5, 0.25];
}

/// Tests of one element with results of dtype `Bool`.
macro_rules! predicates {
    ($($(#[doc = $doc:literal])* $name:ident => $op:ident, $x:tt => $y:tt;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            ///
            /// ```
            /// # use ferrotrace_tracer::prelude::*;
            #[doc = concat!("let x = Tensor::from_slice(&", stringify!($x), ", 2, &Device::cpu());")]
            #[doc = concat!("assert_eq!(x.", stringify!($name), "().to_vec::<bool>()?, ", stringify!($y), ");")]
            /// # Ok::<(), Error>(())
            /// ```
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                self.unary(UnaryOp::$op)
            }
        )*}
    };
}

predicates! {
    /// Whether x is NaN, as `Bool`.
    isnan => IsNan, [f32::NAN, 1.0] => [true, false];
    /// Whether x is ∞ or −∞, as `Bool`.
    isinf => IsInf, [f32::INFINITY, f32::NAN] => [true, false];
    /// Whether x is neither NaN nor infinite, as `Bool`.
    isfinite => IsFinite, [f32::INFINITY, 1.0] => [false, true];
    /// Whether x is zero (NaN is not), as `Bool`, of any dtype.
    logical_not => LogicalNot, [0, 5] => [true, false];
}

impl Tensor {
    /// Every bit inverted, of integers and bools; the same dtype.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[5i64, -1], 2, &Device::cpu());
    /// assert_eq!(x.bitwise_not().to_vec::<i64>()?, [-6, 0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_not(&self) -> Tensor {
        self.unary(UnaryOp::BitwiseNot)
    }

    /// The elements converted to another dtype: as Rust's `as` converts (floats truncate and saturate, NaN becomes 0,
    /// integers wrap), and `!= 0` for `Bool`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.9, -300.0], 2, &Device::cpu());
    /// assert_eq!(x.to_dtype(DType::I8).to_vec::<i8>()?, [1, -128]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn to_dtype(&self, dtype: DType) -> Tensor {
        if self.dtype() == dtype {
            return self.clone();
        }
        self.apply(Op::Cast(Cast(dtype)))
    }
}
