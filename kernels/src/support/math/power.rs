//! Powers: 2^(y·log₂|x|), the logarithm in more precision than the result.

use super::exponential::exp2;
use super::logarithm::{log2, split};
use super::real::Real;
use crate::support::lane::{Float, Float32, Int, horner};

/// xʸ in binary32, computed in binary64. At most 1 ulp.
#[inline(always)]
pub fn pow_f32<F: Float32>(x: F, y: F) -> F
where
    F::Wide: Real,
{
    let (x, y) = (x.widen(), y.widen());
    let magnitude = exp2(y * log2(x.abs()));
    F::narrow(signed(x, y, magnitude))
}

/// xʸ in binary64, the logarithm as a sum of two numbers. At most 2 ulp.
#[inline(always)]
pub fn pow_f64<F: Real>(x: F, y: F) -> F {
    let (zero, infinity) = (F::lit(0.0), F::lit(f64::INFINITY));
    let a = x.abs();
    let (high, low) = log2_pair(a);
    let p = y * high;
    let rest = y.fma(low, y.fma(high, -p));
    let bound = F::lit(1100.0);
    let rest = rest.where_set(p.abs().lt(bound));
    let p = bound.min_of((-bound).max_of(p));
    let magic = F::lit(F::MAGIC);
    let n = (p + magic) - magic;
    let power = F::exp2_reduced((p - n) + rest).scale(n);
    let edge = a.eq(zero) | a.eq(infinity);
    let at_edge = F::sel(a.eq(zero) ^ y.lt(zero), zero, infinity);
    let power = F::sel(edge & y.eq(y), at_edge, power);
    signed(x, y, F::sel(x.is_nan(), x, power))
}

/// log₂ a as a sum, to about 2⁻⁶⁸, for positive finite a.
#[inline(always)]
fn log2_pair<F: Real>(a: F) -> (F, F) {
    let one = F::lit(1.0);
    let (k, m) = split(a);
    // s = f/(2 + f) as a sum; ln m = s·(2 + z·(2/3 + …)) with z = s².
    let f = m - one;
    let d = F::lit(2.0) + f;
    let d_low = f - (d - F::lit(2.0));
    let s = f / d;
    let s_low = ((-s).fma(d, f) - s * d_low) / d;
    let z = s * s;
    let z_low = s.fma(s, -z) + (s + s) * s_low;
    let w = z * horner(
        z,
        [
            0.4,
            0.2857142857142857,
            0.2222222222222222,
            0.18181818181818182,
            0.15384615384615385,
            0.13333333333333333,
            0.11764705882352941,
            0.10526315789473684,
            0.09523809523809523,
        ],
    );
    let third = F::lit(2.0 / 3.0);
    let q = third + w;
    let q_low = (w - (q - third)) + F::lit(3.700743415417188e-17);
    let u = z * q;
    let u_low = z.fma(q, -u) + (z * q_low + z_low * q);
    let two = F::lit(2.0);
    let v = two + u;
    let v_low = (u - (v - two)) + u_low;
    let l = s * v;
    let l_low = s.fma(v, -l) + (s * v_low + s_low * v);
    let [e, e_low] = F::LOG2_E;
    let (e, e_low) = (F::lit(e), F::lit(e_low));
    let g = l * e;
    let g_low = l.fma(e, -g) + (l * e_low + l_low * e);
    let k = k.to_float();
    let high = k + g;
    let t = high - k;
    let error = (k - (high - t)) + (g - t);
    (high, error + g_low)
}

/// xʸ from |x|ʸ: the sign, and the cases that C fixes (1 for y = 0 and x = 1, ±∞ and ±0 of odd y, NaN of negative x).
#[inline(always)]
fn signed<F: Float>(x: F, y: F, magnitude: F) -> F {
    let (zero, one, half) = (F::lit(0.0), F::lit(1.0), F::lit(0.5));
    let infinity = F::lit(f64::INFINITY);
    let whole = y.eq(y.trunc());
    let y_half = half * y;
    let odd = whole & y_half.ne(y_half.trunc());
    let unit = x.eq(one) | y.eq(zero) | (x.abs().eq(one) & y.abs().eq(infinity));
    let sign = x.sign_bit() & F::Int::from_mask(odd);
    let value = F::sel(unit, one, magnitude).xor_sign(sign);
    let undefined = x.lt(zero) & x.abs().lt(infinity) & y.abs().lt(infinity) & !whole;
    (value.bits() | F::Int::from_mask(undefined)).float_bits()
}
