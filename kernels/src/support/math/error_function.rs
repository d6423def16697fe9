//! The error function and its complement.

use super::exponential::reduce;
use super::real::Real;
use crate::support::lane::{Float32, horner};

/// erf x in binary32: an odd polynomial below 1, 1 − e^R(x) above, where R approximates ln erfc. At most 2 ulp.
#[inline(always)]
pub fn erf_f32<F: Real>(x: F) -> F {
    let one = F::lit(1.0);
    let a = x.abs();
    let small = horner(
        a * a,
        [
            0.12837916612625122,
            -0.3761262595653534,
            0.11283578723669052,
            -0.026853347197175026,
            0.005187162198126316,
            -0.0007997856009751558,
            7.806921348674223e-05,
        ],
    );
    let b = F::lit(4.0).min_of(a);
    let log = horner(
        b,
        [
            -0.00035375714651308954,
            -1.127039909362793,
            -0.6382259726524353,
            -0.10303712636232376,
            0.02180519886314869,
            -0.00293957581743598,
            0.00018557065050117671,
        ],
    );
    let (n, r) = reduce(log);
    let large = one - F::exp_reduced(r).scale(n);
    F::sel(a.lt(one), small.fma(a, a), large).or_sign(x.sign_bit())
}

/// erf x for |x| ≤ 1, an odd polynomial.
#[inline(always)]
fn erf_small<F: Real>(x: F) -> F {
    x * horner(
        x * x,
        [
            std::f64::consts::FRAC_2_SQRT_PI,
            -0.3761263890318365,
            0.11283791670952414,
            -0.026866170644763765,
            0.005223977622494683,
            -0.0008548326863910762,
            0.00012055326816679711,
            -1.4925480893299891e-05,
            1.6458879286631447e-06,
            -1.632411756171142e-07,
            1.4456364493575223e-08,
            -1.0478467602148923e-09,
            4.263052007074257e-11,
        ],
    )
}

/// erf x in binary64: a polynomial below 1, 1 − erfc x above. At most 2 ulp.
#[inline(always)]
pub fn erf_f64<F: Real>(x: F) -> F {
    let one = F::lit(1.0);
    let a = x.abs();
    let small = erf_small(a);
    let b = F::lit(6.0).min_of(a);
    F::sel(a.lt(one), small, one - erfc_positive(b, scaled(b))).or_sign(x.sign_bit())
}

/// erfc a = e^(−a²) · p / (1 + 2a), for a ≥ 0 and p = (1 + 2a)·e^(a²)·erfc a.
#[inline(always)]
fn erfc_positive<F: Real>(a: F, p: F) -> F {
    let s = a * a;
    let error = a.fma(a, -s);
    let (n, r) = reduce(-s);
    (F::exp_reduced(r - error) * p / (F::lit(1.0) + (a + a))).scale(n)
}

/// (1 + 2a)·e^(a²)·erfc a, a polynomial in (a − 4)/(a + 4).
#[inline(always)]
fn scaled<F: Real>(a: F) -> F {
    horner(
        (a - F::lit(4.0)) / (a + F::lit(4.0)),
        [
            1.2329951186255526,
            -0.13962111684056286,
            0.015379652102620087,
            0.0680970542547341,
            -0.10103906603632036,
            0.09373283499689818,
            -0.06633036581211468,
            0.03716751556090948,
            -0.016197734053799408,
            0.005031969769295741,
            -0.0007577733678695404,
            -0.00019925557565164147,
            0.00015062231742430686,
            -2.440295518902829e-05,
            -1.1224891756489007e-05,
            5.717473343942963e-06,
            3.0137883728287166e-07,
            -8.346920958363524e-07,
            6.280932997868605e-08,
            1.1507220397903486e-07,
            -7.830321428965234e-09,
            -1.3610301907216275e-08,
            -1.78799810255201e-09,
        ],
    )
}

/// `y` for positive x, 2 − y for negative.
#[inline(always)]
fn reflect<F: Real>(x: F, y: F) -> F {
    F::sel(x.lt(F::lit(0.0)), F::lit(2.0) - y, y)
}

/// erfc x in binary32, computed in binary64. At most 1 ulp.
#[inline(always)]
pub fn erfc_f32<F: Float32>(x: F) -> F
where
    F::Wide: Real,
{
    F::narrow(erfc_f64(x.widen()))
}

/// erfc x in binary64. At most 4 ulp, subnormal results included.
#[inline(always)]
pub fn erfc_f64<F: Real>(x: F) -> F {
    let a = F::lit(27.25).min_of(x.abs());
    let small = F::lit(1.0) - erf_small(x);
    F::sel(
        a.lt(F::lit(0.5)),
        small,
        reflect(x, erfc_positive(a, scaled(a))),
    )
}
