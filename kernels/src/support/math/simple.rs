//! Functions of a few operations.

use crate::support::lane::Float;

/// The magnitude. Exact.
#[inline(always)]
pub fn abs<F: Float>(x: F) -> F {
    x.abs()
}

/// −1 or 1; ±0 and NaN are kept. Exact.
#[inline(always)]
pub fn sign<F: Float>(x: F) -> F {
    let (zero, one) = (F::lit(0.0), F::lit(1.0));
    F::sel(x.gt(zero), one, F::sel(x.lt(zero), -one, x))
}

/// x². Half an ulp.
#[inline(always)]
pub fn square<F: Float>(x: F) -> F {
    x * x
}

/// 1 / √x: a rounded root and a rounded quotient, at most 1.5 ulp.
#[inline(always)]
pub fn rsqrt<F: Float>(x: F) -> F {
    F::lit(1.0) / x.sqrt()
}

/// The square root. Half an ulp.
#[inline(always)]
pub fn sqrt<F: Float>(x: F) -> F {
    x.sqrt()
}

/// 1 / x. Half an ulp.
#[inline(always)]
pub fn recip<F: Float>(x: F) -> F {
    F::lit(1.0) / x
}

/// x, but 0 below 0; NaN is kept.
#[inline(always)]
pub fn relu<F: Float>(x: F) -> F {
    F::lit(0.0).max_of(x)
}

/// The larger, NaN if either is NaN.
#[inline(always)]
pub fn maximum<F: Float>(a: F, b: F) -> F {
    F::sel(a.is_nan(), a, a.max_of(b))
}

/// The smaller, NaN if either is NaN.
#[inline(always)]
pub fn minimum<F: Float>(a: F, b: F) -> F {
    F::sel(a.is_nan(), a, a.min_of(b))
}

/// The largest integer not above x.
#[inline(always)]
pub fn floor<F: Float>(x: F) -> F {
    x.floor()
}

/// The smallest integer not below x.
#[inline(always)]
pub fn ceil<F: Float>(x: F) -> F {
    x.ceil()
}

/// The nearest integer, ties to even.
#[inline(always)]
pub fn round<F: Float>(x: F) -> F {
    x.rint()
}

/// The integer part.
#[inline(always)]
pub fn trunc<F: Float>(x: F) -> F {
    x.trunc()
}
