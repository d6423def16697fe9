//! Logarithms: x = 2ᵏ·m with √½ ≤ m < √2, then k·ln 2 + ln m.

use super::real::Real;
use crate::support::lane::Int;

/// k (as an integer) and m with x = 2ᵏ·m, for positive finite x.
#[inline(always)]
pub(super) fn split<F: Real>(x: F) -> (F::Int, F) {
    let (least, up, down) = F::SUBNORMAL;
    let (root, mantissa) = F::SQRT_HALF;
    let small = x.lt(F::lit(least));
    let x = F::sel(small, x * F::lit(up), x);
    let u = x.bits() - F::Int::lit(root);
    let k = u.sar(F::FORMAT.0) + (F::Int::from_mask(small) & F::Int::lit(down));
    let m = (u & F::Int::lit(mantissa)) + F::Int::lit(root);
    (k, m.float_bits())
}

/// `y` where x is positive and finite; at 0 −∞, below NaN, at +∞ and NaN itself.
#[inline(always)]
fn bounded<F: Real>(x: F, y: F) -> F {
    let zero = F::lit(0.0);
    let y = F::sel(x.lt(F::lit(f64::INFINITY)), y, x);
    let y = F::sel(x.eq(zero), F::lit(f64::NEG_INFINITY), y);
    (y.bits() | F::Int::from_mask(x.lt(zero))).float_bits()
}

/// k·ln 2 + ln(1 + f).
#[inline(always)]
fn combine<F: Real>(k: F, f: F) -> F {
    let low = k.fma(F::lit(F::LN_2[1]), F::log_reduced(f));
    k.fma(F::lit(F::LN_2[0]), f + low)
}

/// The natural logarithm. At most 1 ulp.
#[inline(always)]
pub fn log<F: Real>(x: F) -> F {
    let (k, m) = split(x);
    bounded(x, combine(k.to_float(), m - F::lit(1.0)))
}

/// [`log`] of x·2⁻ⁿ, bit for bit, where both are normal numbers.
#[inline(always)]
pub(in crate::support) fn log_scaled<F: Real>(x: F, n: u32) -> F {
    let (root, mantissa) = F::SQRT_HALF;
    let u = x.bits() - F::Int::lit(root + (i64::from(n) << F::FORMAT.0));
    let m = (u & F::Int::lit(mantissa)) + F::Int::lit(root);
    let k = u.sar(F::FORMAT.0).to_float();
    combine(k, m.float_bits() - F::lit(1.0))
}

/// The logarithm to base 2. At most 2 ulp; exact at powers of two.
#[inline(always)]
pub fn log2<F: Real>(x: F) -> F {
    let (k, m) = split(x);
    let f = m - F::lit(1.0);
    let [high, low] = F::LOG2_E;
    let t = F::log_reduced(f).fma(F::lit(high), f * F::lit(low));
    bounded(x, k.to_float() + f.fma(F::lit(high), t))
}

/// The logarithm to base 10. At most 2 ulp.
#[inline(always)]
pub fn log10<F: Real>(x: F) -> F {
    let (k, m) = split(x);
    let (f, k) = (m - F::lit(1.0), k.to_float());
    let [high, low] = F::LOG10_E;
    let t = F::log_reduced(f).fma(F::lit(high), f * F::lit(low));
    let t = k.fma(F::lit(F::LOG10_2[1]), t);
    bounded(x, k.fma(F::lit(F::LOG10_2[0]), f.fma(F::lit(high), t)))
}

/// ln(1 + x), where 1 + x is kept as a sum of two numbers, plus `extra`. At most 2 ulp.
#[inline(always)]
pub(super) fn log1p_plus<F: Real>(x: F, extra: F) -> F {
    let one = F::lit(1.0);
    let u = one + x;
    let t = u - one;
    let error = (one - (u - t)) + (x - t);
    let (k, m) = split(u);
    // 2⁻ᵏ, or 0 where 2ᵏ is so large that the error of the sum is nothing.
    let (mantissa, bias) = F::FORMAT;
    let down = F::Int::lit(bias) - k;
    let down = F::Int::sel(down.gt(F::Int::lit(0)), down, F::Int::lit(0))
        .shl(mantissa)
        .float_bits();
    let f = error.fma(down, m - one);
    let y = combine(k.to_float(), f) + extra;
    let y = F::sel(x.lt(F::lit(f64::INFINITY)), y, x);
    let y = F::sel(x.eq(-one), F::lit(f64::NEG_INFINITY), y);
    (y.bits() | F::Int::from_mask(x.lt(-one))).float_bits()
}

/// ln(1 + x). At most 2 ulp.
#[inline(always)]
pub fn log1p<F: Real>(x: F) -> F {
    log1p_plus(x, F::lit(0.0)).or_sign(x.sign_bit())
}
