//! Exponentials: x = n·ln 2 + r with |r| ≤ ½ ln 2, then 2ⁿ·eʳ.

use super::real::Real;
use crate::support::lane::Int;

/// n and r with x = n·ln 2 + r.
#[inline(always)]
pub(super) fn reduce<F: Real>(x: F) -> (F, F) {
    let magic = F::lit(F::MAGIC);
    let n = x.fma(F::lit(F::LOG2_E[0]), magic) - magic;
    let r = n.fma(F::lit(-F::LN_2[0]), x);
    (n, n.fma(F::lit(-F::LN_2[1]), r))
}

/// eˣ. At most 1 ulp, subnormal results included.
#[inline(always)]
pub fn exp<F: Real>(x: F) -> F {
    // The bounds come first, so that NaN passes.
    let bounded = F::lit(F::EXP_RANGE[1]).min_of(F::lit(F::EXP_RANGE[0]).max_of(x));
    let (n, r) = reduce(bounded);
    above_zero(x, F::exp_reduced(r)).scale(n)
}

/// A factor of eˣ, which is 0 where the result is: a product that underflows takes processors some hundred cycles, and what a
/// softmax does not see is as small.
#[inline(always)]
fn above_zero<F: Real>(x: F, factor: F) -> F {
    F::sel(x.lt(F::lit(F::EXP_RANGE[0])), F::lit(0.0), factor)
}

/// exp with the same bits for x ≤ 0 and NaN; greater numbers give no meaningful result. A softmax sums such terms.
#[inline(always)]
pub fn exp_of_nonpositive<F: Real>(x: F) -> F {
    let (n, r) = reduce(F::lit(F::EXP_RANGE[0]).max_of(x));
    above_zero(x, F::exp_reduced(r)).scale(n)
}

/// 2ˣ. At most 1 ulp; exact at integers.
#[inline(always)]
pub fn exp2<F: Real>(x: F) -> F {
    let x = F::lit(F::EXP2_RANGE[1]).min_of(F::lit(F::EXP2_RANGE[0]).max_of(x));
    let magic = F::lit(F::MAGIC);
    let n = (x + magic) - magic;
    F::exp2_reduced(x - n).scale(n)
}

/// (eˣ − 1) / 2^shift: room for results up to the largest number times 2^shift.
#[inline(always)]
pub(super) fn expm1_scaled<F: Real>(x: F, shift: i32) -> F {
    let (n, r) = reduce(x);
    let p = (r * r).fma(F::expm1_reduced(r), r);
    let unit = 0.5f64.powi(shift);
    let s = F::lit(unit).scale(n);
    p.fma(s, s - F::lit(unit))
}

/// eˣ − 1. At most 2 ulp.
#[inline(always)]
pub fn expm1<F: Real>(x: F) -> F {
    let y = F::lit(F::EXP_RANGE[1]).min_of(F::lit(F::EXPM1_LOW).max_of(x));
    let half = expm1_scaled(y, 1);
    (half + half).or_sign(x.sign_bit())
}

/// 1 / (1 + e⁻ˣ), as e⁻|ˣ| or 1 over 1 + e⁻|ˣ|. At most 3 ulp, subnormal results included.
#[inline(always)]
pub fn sigmoid<F: Real>(x: F) -> F {
    let t = (x.bits() | (-F::lit(0.0)).bits()).float_bits();
    let (n, r) = reduce(F::lit(F::EXP_RANGE[0]).max_of(t));
    let e = F::exp_reduced(r).scale(n);
    let one = F::lit(1.0);
    F::sel(x.lt(F::lit(0.0)), e, one) / (one + e)
}
