//! The functions whose algorithm differs between the precisions, under one name each.

use super::error_function::{erf_f32, erf_f64, erfc_f32, erfc_f64};
use super::power::{pow_f32, pow_f64};
use super::remainder::{floor_of, floored, fmod_f32, fmod_f64};
use super::trigonometric::Angle;
use crate::support::trace::{F32, F64, Sym};

/// A float with every function of this module: `f32`, `f64`, and their recorded forms.
pub trait Elementary: Angle {
    /// See [`erf`].
    fn error_function(x: Self) -> Self;
    /// See [`erfc`].
    fn complement(x: Self) -> Self;
    /// See [`pow`].
    fn power(x: Self, y: Self) -> Self;
    /// See [`fmod`].
    fn truncated(a: Self, b: Self) -> Self;
}

macro_rules! elementary {
    ($($t:ty: $erf:ident $erfc:ident $pow:ident $fmod:ident),* $(,)?) => {$(
        impl Elementary for $t {
            #[inline(always)]
            fn error_function(x: Self) -> Self {
                $erf(x)
            }
            #[inline(always)]
            fn complement(x: Self) -> Self {
                $erfc(x)
            }
            #[inline(always)]
            fn power(x: Self, y: Self) -> Self {
                $pow(x, y)
            }
            #[inline(always)]
            fn truncated(a: Self, b: Self) -> Self {
                $fmod(a, b)
            }
        }
    )*};
}

elementary! {
    f32: erf_f32 erfc_f32 pow_f32 fmod_f32,
    Sym<F32>: erf_f32 erfc_f32 pow_f32 fmod_f32,
    f64: erf_f64 erfc_f64 pow_f64 fmod_f64,
    Sym<F64>: erf_f64 erfc_f64 pow_f64 fmod_f64,
}

/// The error function. At most 2 ulp.
#[inline(always)]
pub fn erf<F: Elementary>(x: F) -> F {
    F::error_function(x)
}

/// 1 − erf x. At most 1 ulp in binary32, 4 in binary64, subnormal results included.
#[inline(always)]
pub fn erfc<F: Elementary>(x: F) -> F {
    F::complement(x)
}

/// xʸ, with C's results for zeros, infinities, NaN and negative bases. At most 1 ulp in binary32, 2 in binary64.
#[inline(always)]
pub fn pow<F: Elementary>(x: F, y: F) -> F {
    F::power(x, y)
}

/// a − b·trunc(a/b), exact, with the sign of a; NaN for b = 0 or infinite a.
#[inline(always)]
pub fn fmod<F: Elementary>(a: F, b: F) -> F {
    F::truncated(a, b)
}

/// a − b·⌊a/b⌋, with the sign of b (Python's `%`).
#[inline(always)]
pub fn remainder<F: Elementary>(a: F, b: F) -> F {
    floored(F::truncated(a, b), b)
}

/// ⌊a/b⌋ of the exact quotient (Python's `//`); a/b for b = 0.
#[inline(always)]
pub fn floor_divide<F: Elementary>(a: F, b: F) -> F {
    floor_of(a, b, F::truncated(a, b))
}
