//! Functions of two elements, broadcast, with PyTorch's promotion rules.

mod formula;
mod gamma;
mod special;

pub use formula::Rounding;
pub(super) use gamma::log_poisson;

use crate::Tensor;
use crate::args::Operand;
use ferrotrace_kernels::BinaryOp;
use ferrotrace_runtime::{DType, Error, Scalar};

/// Methods that take a tensor or a number and record one operator, each with an example on two numbers.
macro_rules! binary_methods {
    ($($(#[doc = $doc:literal])* $name:ident => $op:ident, $x:tt, $rhs:literal => $y:tt as $t:ident;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            ///
            /// ```
            /// # use ferrotrace_tracer::prelude::*;
            #[doc = concat!("let x = Tensor::from_slice(&", stringify!($x), ", 2, &Device::cpu());")]
            #[doc = concat!("let y = x.", stringify!($name), "(", stringify!($rhs), ");")]
            #[doc = concat!("assert_eq!(y.to_vec::<", stringify!($t), ">()?, ", stringify!($y), ");")]
            /// # Ok::<(), Error>(())
            /// ```
            #[track_caller]
            pub fn $name<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
                self.binary(BinaryOp::$op, rhs)
            }
        )*}
    };
}

binary_methods! {
    /// The greater of both; NaN if either is NaN.
    maximum => Maximum, [1.0, 3.0], 2.0 => [2.0, 3.0] as f64;
    /// The lesser of both; NaN if either is NaN.
    minimum => Minimum, [1.0, 3.0], 2.0 => [1.0, 2.0] as f64;
    /// The angle of the point (rhs, x), in [−π, π]; integers give `F32`.
    atan2 => Atan2, [0.0, -0.0], 1.0 => [0.0, 0.0] as f64;
    /// The remainder of the truncated quotient, with the sign of x (C's `fmod`).
    fmod => Fmod, [-7.0, 7.0], 3.0 => [-1.0, 1.0] as f64;
    /// The remainder of the floored quotient, with the sign of `rhs` (Python's `%`); the operator `%` is this one.
    remainder => Mod, [-7.0, 7.0], 3.0 => [2.0, 1.0] as f64;
    /// ⌊x / rhs⌋, of the promoted dtype; of integers, x / 0 is 0.
    floor_divide => FloorDiv, [-7i64, 7], 2 => [-4, 3] as i64;
    /// Whether both are equal, as `Bool`; NaN equals nothing.
    eq => Eq, [1.0, 2.0], 2.0 => [false, true] as bool;
    /// Whether they differ, as `Bool`; NaN differs from everything.
    ne => Ne, [1.0, 2.0], 2.0 => [true, false] as bool;
    /// Whether x < rhs, as `Bool`.
    lt => Lt, [1.0, 2.0], 2.0 => [true, false] as bool;
    /// Whether x ≤ rhs, as `Bool`.
    le => Le, [2.0, 3.0], 2.0 => [true, false] as bool;
    /// Whether x > rhs, as `Bool`.
    gt => Gt, [2.0, 3.0], 2.0 => [false, true] as bool;
    /// Whether x ≥ rhs, as `Bool`.
    ge => Ge, [1.0, 2.0], 2.0 => [false, true] as bool;
    /// Whether neither is zero, as `Bool`.
    logical_and => LogicalAnd, [0, 5], true => [false, true] as bool;
    /// Whether one is not zero, as `Bool`.
    logical_or => LogicalOr, [0, 5], false => [false, true] as bool;
    /// Whether exactly one is not zero, as `Bool`.
    logical_xor => LogicalXor, [0, 5], true => [true, false] as bool;
    /// The bits set in both, of integers and bools.
    bitwise_and => BitwiseAnd, [5i64, 12], 6 => [4, 4] as i64;
    /// The bits set in either, of integers and bools.
    bitwise_or => BitwiseOr, [5i64, 12], 6 => [7, 14] as i64;
    /// The bits that differ, of integers and bools.
    bitwise_xor => BitwiseXor, [5i64, 12], 1 => [4, 13] as i64;
    /// The bits of integers moved up by `rhs`; 0 where `rhs` is negative or not below the width.
    shl => Shl, [5i64, 12], 2 => [20, 48] as i64;
    /// The bits of integers moved down by `rhs`, filling with the sign; the fill alone where `rhs` is negative or
    /// not below the width.
    shr => Shr, [5i64, -12], 1 => [2, -6] as i64;
}

impl Tensor {
    /// xʳʰˢ, of the promoted dtype. A number −1, −½, ½, 1, 2 or 3 is recorded as `recip`, `rsqrt`, `sqrt`, x itself,
    /// `square` or x·x·x. Integers to a negative whole number are an error, as in PyTorch; where both sides are
    /// tensors such elements give 0 (but 1 and −1 their powers).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1i64, 3], 2, &Device::cpu());
    /// assert_eq!(x.pow(2).to_vec::<i64>()?, [1, 9]);
    /// assert_eq!(x.pow(2.0).dtype(), DType::F32);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn pow<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
        let rhs = rhs.into();
        let dtype = self.dtype();
        let Operand::Scalar(exponent) = rhs else {
            return self.binary(BinaryOp::Pow, rhs);
        };
        let base = match exponent {
            Scalar::Int(n) if n < 0 && dtype.is_int() => {
                let why = format!("integers to the power {n}: negative whole powers are fractions");
                return Tensor::failed("pow", Error::argument(why), &[self]);
            }
            Scalar::Int(_) if dtype.is_int() && !exponent.fits(dtype) => {
                let why = format!("the exponent {exponent} does not fit {dtype}");
                return Tensor::failed("pow", Error::argument(why), &[self]);
            }
            Scalar::Bool(_) => return self.binary(BinaryOp::Pow, rhs),
            Scalar::Int(_) if dtype == DType::Bool => return self.binary(BinaryOp::Pow, rhs),
            Scalar::Float(_) if !dtype.is_float() => self.to_dtype(DType::F32),
            _ => self.clone(),
        };
        match exponent.to_f64() {
            -1.0 => base.recip(),
            -0.5 => base.rsqrt(),
            0.5 => base.sqrt(),
            1.0 => base,
            2.0 => base.square(),
            3.0 => base.square().binary(BinaryOp::Mul, &base),
            _ => base.binary(BinaryOp::Pow, rhs),
        }
    }
}
