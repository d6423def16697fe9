//! Element types as numbers: the arithmetic loops share.

use ferrotrace_runtime::Element;
use half::{bf16, f16};

/// A type in which loops compute. Integers wrap.
pub trait Wide: Copy + PartialOrd + Send + Sync + 'static {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// What every value but NaN is at least: −∞, or the least integer.
    const LOWEST: Self;
    /// What every value but NaN is at most.
    const HIGHEST: Self;
    /// What long sums are kept in: binary64, or the integer itself.
    type Total: Copy + Send + Sync + Default;
    /// The value as a total.
    fn total(self) -> Self::Total;
    /// The sum of two totals.
    fn both(a: Self::Total, b: Self::Total) -> Self::Total;
    /// A total as a value.
    fn of_total(total: Self::Total) -> Self;
    /// self + other.
    fn plus(self, other: Self) -> Self;
    /// self · other.
    fn times(self, other: Self) -> Self;
    /// self / n, rounded towards −∞ for integers.
    fn over(self, n: i64) -> Self;
    /// Whether the value is NaN.
    fn is_nan(self) -> bool;
    /// As binary64.
    fn to_f64(self) -> f64;
    /// From binary64.
    fn from_f64(value: f64) -> Self;

    /// The greater; NaN if either is.
    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        if self > other || self.is_nan() {
            self
        } else {
            other
        }
    }

    /// The lesser; NaN if either is.
    #[inline(always)]
    fn lesser(self, other: Self) -> Self {
        if self < other || self.is_nan() {
            self
        } else {
            other
        }
    }
}

/// An element type with the type its arithmetic is carried out in: binary32 for the half types, else itself.
pub trait Number: Element {
    /// The type of arithmetic.
    type Wide: Wide;
    /// The value as that type.
    fn wide(self) -> Self::Wide;
    /// Rounded to the element type.
    fn narrow(wide: Self::Wide) -> Self;
}

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Wide for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const LOWEST: $t = <$t>::NEG_INFINITY;
            const HIGHEST: $t = <$t>::INFINITY;
            type Total = f64;
            #[inline(always)]
            fn total(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn both(a: f64, b: f64) -> f64 {
                a + b
            }
            #[inline(always)]
            fn of_total(total: f64) -> $t {
                total as $t
            }
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self + other
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self * other
            }
            #[inline(always)]
            fn over(self, n: i64) -> $t {
                self / n as $t
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_f64(value: f64) -> $t {
                value as $t
            }
        }
    )*};
}
floats!(f32, f64);

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Wide for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            const LOWEST: $t = <$t>::MIN;
            const HIGHEST: $t = <$t>::MAX;
            type Total = $t;
            #[inline(always)]
            fn total(self) -> $t {
                self
            }
            #[inline(always)]
            fn both(a: $t, b: $t) -> $t {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn of_total(total: $t) -> $t {
                total
            }
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn over(self, n: i64) -> $t {
                // Divisors are counts, so at least 1.
                (self as i64).div_euclid(n.max(1)) as $t
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_f64(value: f64) -> $t {
                value as $t
            }
        }
    )*};
}
integers!(u8, i8, i16, i32, i64);

macro_rules! native {
    ($($t:ty),*) => {$(
        impl Number for $t {
            type Wide = $t;
            #[inline(always)]
            fn wide(self) -> $t {
                self
            }
            #[inline(always)]
            fn narrow(wide: $t) -> $t {
                wide
            }
        }
    )*};
}
native!(u8, i8, i16, i32, i64, f32, f64);

macro_rules! halves {
    ($($t:ty),*) => {$(
        impl Number for $t {
            type Wide = f32;
            #[inline(always)]
            fn wide(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn narrow(wide: f32) -> $t {
                <$t>::from_f32(wide)
            }
        }
    )*};
}
halves!(f16, bf16);

/// Expands its body with `$T` standing for the element type of a dtype; `Bool` is `u8`.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr) => {{
        use ferrotrace_runtime::DType as D;
        match $dtype {
            D::Bool | D::U8 => {
                type $T = u8;
                $body
            }
            D::I8 => {
                type $T = i8;
                $body
            }
            D::I16 => {
                type $T = i16;
                $body
            }
            D::I32 => {
                type $T = i32;
                $body
            }
            D::I64 => {
                type $T = i64;
                $body
            }
            D::F16 => {
                type $T = half::f16;
                $body
            }
            D::BF16 => {
                type $T = half::bf16;
                $body
            }
            D::F32 => {
                type $T = f32;
                $body
            }
            D::F64 => {
                type $T = f64;
                $body
            }
        }
    }};
}
pub(crate) use with_type;

/// As [`with_type!`] of floating-point dtypes; others give the error that names the operator.
macro_rules! with_floating {
    ($name:expr, $dtype:expr, $T:ident => $body:expr) => {{
        use ferrotrace_runtime::DType as D;
        match $dtype {
            D::F16 => {
                type $T = half::f16;
                $body
            }
            D::BF16 => {
                type $T = half::bf16;
                $body
            }
            D::F32 => {
                type $T = f32;
                $body
            }
            D::F64 => {
                type $T = f64;
                $body
            }
            other => {
                return Err(ferrotrace_runtime::Error::untaken($name, other, D::F32));
            }
        }
    }};
}
pub(crate) use with_floating;
