//! Powers: 2^(y·log₂|x|), the logarithm in more precision than the result.

use super::logarithm::split;
use super::real::Real;
use crate::support::lane::{Float, Float32, Int, horner};

/// log₂(1 + f)/f for √½ ≤ 1 + f ≤ √2, lowest power first, to 2⁻³⁸ of it.
const LOG2_SLOPE: [f64; 14] = [
    1.4426950408862034,
    -0.7213475203430864,
    0.4808983490727961,
    -0.36067378977100695,
    0.28853876232996745,
    -0.24044662677727305,
    0.20610869528306625,
    -0.18043268521020117,
    0.16018226130296026,
    -0.14252340755410017,
    0.13062890256021095,
    -0.13478928738366042,
    0.13113743753686682,
    -0.06806287590390596,
];
/// 2ʳ for |r| ≤ ½, lowest power first, to 2⁻²⁸ of it.
const EXP2: [f64; 7] = [
    1.0,
    0.6931472067028326,
    0.24022650922288757,
    0.05550327226670302,
    0.009618056678524637,
    0.0013400428177615838,
    0.0001546144469856913,
];

/// xʸ in binary32. At most 1 ulp: the logarithm and its multiple are of binary64, with as many terms as a result of
/// binary32 needs.
#[inline(always)]
pub fn pow_f32<F: Float32 + Real>(x: F, y: F) -> F {
    let a = x.abs();
    let (k, m) = split(a);
    let f = (m - F::lit(1.0)).widen();
    let logarithm = f.fma(horner(f, LOG2_SLOPE), k.to_float().widen());
    let [least, most] = F::EXP2_RANGE.map(F::Wide::lit);
    let p = most.min_of(least.max_of(y.widen() * logarithm));
    let magic = F::Wide::lit(6755399441055744.0);
    let n = (p + magic) - magic;
    let power = F::narrow(horner(p - n, EXP2)).scale(F::narrow(n));
    at_edges(x, y, a, power)
}

/// xʸ in binary64, the logarithm as a sum of two numbers. At most 2 ulp.
#[inline(always)]
pub fn pow_f64<F: Real>(x: F, y: F) -> F {
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
    at_edges(x, y, a, power)
}

/// xʸ from |x|ʸ of a positive finite `a` = |x|.
#[inline(always)]
fn at_edges<F: Float>(x: F, y: F, a: F, power: F) -> F {
    let (zero, infinity) = (F::lit(0.0), F::lit(f64::INFINITY));
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
