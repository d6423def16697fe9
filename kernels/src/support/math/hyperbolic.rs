//! Hyperbolic functions and their inverses, by eˣ − 1 and ln(1 + x).

use super::exponential::{expm1_scaled, reduce};
use super::logarithm::log1p_plus;
use super::real::Real;
use crate::support::lane::Int;

/// tanh x = h / (h + 1) with h = (e²ˣ − 1) / 2. At most 3 ulp; 1 from where it rounds to 1.
#[inline(always)]
pub fn tanh<F: Real>(x: F) -> F {
    let a = F::lit(F::TANH_ONE).min_of(x.abs());
    let h = expm1_scaled(a + a, 1);
    (h / (h + F::lit(1.0))).or_sign(x.sign_bit())
}

/// sinh x = (t + t/(t + 1)) / 2 with t = eˣ − 1. At most 3 ulp.
#[inline(always)]
pub fn sinh<F: Real>(x: F) -> F {
    let a = F::lit(F::COSH_HIGH).min_of(x.abs());
    let t = expm1_scaled(a, 2);
    let y = t + t / F::lit(4.0).fma(t, F::lit(1.0));
    F::sel(a.lt(F::lit(F::TINY)), a, y + y).or_sign(x.sign_bit())
}

/// cosh x = (eˣ + e⁻ˣ) / 2. At most 2 ulp.
#[inline(always)]
pub fn cosh<F: Real>(x: F) -> F {
    let a = F::lit(F::COSH_HIGH).min_of(x.abs());
    let (n, r) = reduce(a);
    let e = F::exp_reduced(r).scale(n - F::lit(2.0));
    let y = e + F::lit(0.0625) / e;
    y + y
}

/// arsinh x = ln(1 + x + x²/(1 + √(x² + 1))). At most 4 ulp.
#[inline(always)]
pub fn asinh<F: Real>(x: F) -> F {
    let one = F::lit(1.0);
    let a = x.abs();
    let huge = a.gt(F::lit(F::HUGE));
    let z = a * a;
    let t = F::sel(huge, a, a + z / (one + (z + one).sqrt()));
    let extra = F::lit(F::LN_2[0]).where_set(huge);
    log1p_plus(t, extra).or_sign(x.sign_bit())
}

/// arcosh x = ln(1 + t + √(t² + 2t)) with t = x − 1; NaN below 1. At most 4 ulp.
#[inline(always)]
pub fn acosh<F: Real>(x: F) -> F {
    let one = F::lit(1.0);
    let huge = x.gt(F::lit(F::HUGE));
    let t = x - one;
    let y = F::sel(huge, x, t + t.fma(t, t + t).sqrt());
    let extra = F::lit(F::LN_2[0]).where_set(huge);
    (log1p_plus(y, extra).bits() | F::Int::from_mask(x.lt(one))).float_bits()
}

/// artanh x = ½ ln(1 + 2x/(1 − x)); ±∞ at ±1, NaN beyond. At most 4 ulp.
#[inline(always)]
pub fn atanh<F: Real>(x: F) -> F {
    let a = x.abs();
    let t = (a + a) / (F::lit(1.0) - a);
    (F::lit(0.5) * log1p_plus(t, F::lit(0.0))).or_sign(x.sign_bit())
}
