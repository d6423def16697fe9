//! The numbers of matrices.

use crate::cpu::vector::Real;
use ferrotrace_runtime::Element;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number that matrices are factorised in.
pub trait Float:
    Real
    + Element
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The distance from 1 to the next number.
    const EPSILON: Self;
    /// The least positive number of full precision.
    const LEAST: Self;
    /// |self|.
    fn abs(self) -> Self;
    /// √self.
    fn sqrt(self) -> Self;
    /// √(self² + other²), which does not overflow.
    fn hypot(self, other: Self) -> Self;
    /// |self| with the sign of `other`.
    fn signed(self, other: Self) -> Self;
    /// Whether it is neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// The greatest power of two that is at most |self|, a normal number.
    fn binade(self) -> Self;
}

macro_rules! floats {
    ($($t:ident, $exponent:literal;)*) => {$(
        impl Float for $t {
            const EPSILON: $t = $t::EPSILON;
            const LEAST: $t = $t::MIN_POSITIVE;
            #[inline(always)]
            fn abs(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn sqrt(self) -> $t {
                self.sqrt()
            }
            #[inline(always)]
            fn hypot(self, other: $t) -> $t {
                self.hypot(other)
            }
            #[inline(always)]
            fn signed(self, other: $t) -> $t {
                self.copysign(other)
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
            }
            #[inline(always)]
            fn binade(self) -> $t {
                <$t>::from_bits(self.to_bits() & $exponent).max(<$t>::MIN_POSITIVE)
            }
        }
    )*};
}
floats! {
    f32, 0x7f80_0000;
    f64, 0x7ff0_0000_0000_0000;
}
