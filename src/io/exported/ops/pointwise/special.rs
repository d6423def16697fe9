//! Special functions, and others that are composed of several.

use super::{floats, with};
use crate::io::exported::call::{Call, Results, all, one, wide};
use crate::io::exported::ops::Table;
use crate::{DType, Tensor};
use std::f64::consts::{PI, SQRT_2};

fn of(c: &Call<'_>, f: impl FnOnce(&Tensor) -> Tensor) -> Results {
    one(wide(&floats(c.tensor("self")?), f))
}

/// The logarithm of the normal distribution's integral, far below 0 by its continued fraction.
fn log_ndtr(x: &Tensor) -> Tensor {
    let dtype = x.dtype();
    let x = x.to_dtype(DType::F64);
    let near = (x.clamp_min(-10.0) * (-1.0 / SQRT_2)).erfc() * 0.5;
    // Mills' ratio, from the innermost fraction outwards.
    let far = -x.clamp_max(-5.0);
    let mut under = far.clone();
    for k in (1..=24).rev() {
        under = &far + k as f64 / &under;
    }
    let far = far.square() * -0.5 - 0.5 * (2.0 * PI).ln() - under.log();
    let above = (-((&x * (1.0 / SQRT_2)).erfc() * 0.5)).log1p();
    let y = x.lt(-6.0).where_cond(&far, &near.log());
    x.gt(1.0).where_cond(&above, &y).to_dtype(dtype)
}

/// The complement of the error function times e^(x²), for large numbers by its continued fraction.
fn scaled_erfc(x: &Tensor) -> Tensor {
    let dtype = x.dtype();
    let x = x.to_dtype(DType::F64);
    let near = x.clamp_max(6.0);
    let near = near.square().exp() * near.erfc();
    let far = x.clamp_min(4.0);
    let mut under = far.clone();
    for k in (1..=24).rev() {
        under = &far + 0.5 * k as f64 / &under;
    }
    let far = (under * PI.sqrt()).recip();
    let y = x.gt(5.0).where_cond(&far, &near);
    x.isnan().where_cond(&x, &y).to_dtype(dtype)
}

pub(in crate::io::exported::ops) const TABLE: Table = &[
    ("lgamma", "default", |c| one(c.tensor("self")?.lgamma())),
    ("special_gammaln", "default", |c| {
        one(c.tensor("self")?.lgamma())
    }),
    ("digamma", "default", |c| one(c.tensor("self")?.digamma())),
    ("special_digamma", "default", |c| {
        one(c.tensor("self")?.digamma())
    }),
    ("special_psi", "default", |c| {
        one(c.tensor("self")?.digamma())
    }),
    ("mvlgamma", "default", |c| {
        let p = c.size_or("p", 1)?;
        of(c, |x| {
            let first = x.zeros_like() + (p * p.saturating_sub(1)) as f64 / 4.0 * PI.ln();
            (0..p).fold(first, |sum, i| sum + (x - i as f64 / 2.0).lgamma())
        })
    }),
    ("erfinv", "default", |c| one(c.tensor("self")?.erfinv())),
    ("special_sinc", "default", |c| of(c, Tensor::sinc)),
    ("special_erfinv", "default", |c| {
        one(c.tensor("self")?.erfinv())
    }),
    ("special_ndtri", "default", |c| {
        of(c, |x| (x * 2.0 - 1.0).erfinv() * SQRT_2)
    }),
    ("special_ndtr", "default", |c| {
        of(c, |x| (x * (-1.0 / SQRT_2)).erfc() * 0.5)
    }),
    ("special_log_ndtr", "default", |c| of(c, log_ndtr)),
    ("special_erfcx", "default", |c| of(c, scaled_erfc)),
    ("special_entr", "default", |c| {
        of(c, |x| {
            let y = x.gt(0).where_cond(&(-(x * x.log())), &(x * 0.0));
            x.lt(0).where_cond(f64::NEG_INFINITY, &y)
        })
    }),
    ("isreal", "default", |c| {
        let x = c.tensor("self")?;
        one(Tensor::ones(x.dims(), DType::Bool, c.device))
    }),
    ("conj_physical", "default", |c| {
        one(c.tensor("self")?.clone())
    }),
    ("polygamma", "default", |c| {
        one(c.tensor("self")?.polygamma(c.int_or("n", 0)?))
    }),
    ("special_zeta", "default other_scalar self_scalar", |c| {
        with(c, |x, q| x.zeta(q))
    }),
    ("igamma", "default", |c| with(c, |a, x| a.gammainc(x))),
    ("igammac", "default", |c| with(c, |a, x| a.gammaincc(x))),
    ("nextafter", "default", |c| with(c, |x, y| x.nextafter(y))),
    ("frexp", "Tensor", |c| {
        let (mantissa, exponent) = c.tensor("self")?.frexp();
        all([mantissa, exponent])
    }),
    ("ldexp", "Tensor", |c| with(c, |x, y| x.ldexp(y))),
    ("logaddexp2", "default", |c| with(c, |x, y| x.logaddexp2(y))),
    ("gcd", "default", |c| with(c, |x, y| x.gcd(y))),
    ("lcm", "default", |c| with(c, |x, y| x.lcm(y))),
];
