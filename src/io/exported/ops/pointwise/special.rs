//! Special functions, and others that are composed of several.

use super::{floats, owned, with};
use crate::io::exported::call::{Call, Results, one, wide};
use crate::io::exported::ops::Table;
use crate::{DType, Result, Tensor};
use std::f64::consts::{LN_2, PI, SQRT_2};

fn of(c: &Call<'_>, f: impl FnOnce(&Tensor) -> Tensor) -> Results {
    one(wide(&floats(c.tensor("self")?), f))
}

/// log Γ of numbers above 1/2, by Lanczos' approximation (g = 7, nine terms).
fn log_gamma_above(x: &Tensor) -> Tensor {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let mut sum = x.zeros_like() + TERMS[0];
    for (i, term) in TERMS.iter().enumerate().skip(1) {
        sum += *term / (&x + i as f64);
    }
    let at = &x + 7.5;
    (&x + 0.5) * at.log() - at + sum.log() + 0.5 * (2.0 * PI).ln()
}

/// log |Γ|, of numbers below 1/2 by Euler's reflection.
fn log_gamma(x: &Tensor) -> Tensor {
    let dtype = x.dtype();
    let x = x.to_dtype(DType::F64);
    let low = x.lt(0.5);
    let above = log_gamma_above(&low.where_cond(&(1.0 - &x), &x));
    // The sine of the part behind the point, which is exact.
    let sine = ((&x - x.floor()) * PI).sin().abs();
    let y = low.where_cond(&(PI.ln() - sine.log() - &above), &above);
    let infinite = x.isinf();
    infinite.where_cond(f64::INFINITY, &y).to_dtype(dtype)
}

/// The derivative of log Γ: recurrence up to 6, then the asymptotic series; below 0 by reflection.
fn digamma(x: &Tensor) -> Tensor {
    let dtype = x.dtype();
    let whole = x.to_dtype(DType::F64);
    let low = whole.lt(0.0);
    let mut x = low.where_cond(&(1.0 - &whole), &whole);
    let mut sum = x.zeros_like();
    for _ in 0..6 {
        sum -= x.recip();
        x += 1.0;
    }
    let (inverse, square) = (x.recip(), x.square().recip());
    // Bernoulli numbers over their even indices.
    const TERMS: [f64; 7] = [
        1.0 / 12.0,
        -1.0 / 120.0,
        1.0 / 252.0,
        -1.0 / 240.0,
        1.0 / 132.0,
        -691.0 / 32760.0,
        1.0 / 12.0,
    ];
    let mut series = x.zeros_like();
    for term in TERMS.iter().rev() {
        series = (series + *term) * &square;
    }
    let above = sum + x.log() - inverse * 0.5 - series;
    let part = &whole - whole.trunc();
    let y = low.where_cond(&(&above - (&part * PI).tan().recip() * PI), &above);
    let pole = low.logical_and(part.eq(0.0));
    let y = pole.where_cond(f64::NAN, &y);
    let zero = whole.eq(0.0);
    let at_zero = whole.recip() * -1.0;
    zero.where_cond(&at_zero, &y).to_dtype(dtype)
}

/// The inverse of the error function: Giles' approximation, then three of Newton's steps.
fn inverse_erf(x: &Tensor) -> Tensor {
    let dtype = x.dtype();
    let x = x.to_dtype(DType::F64);
    let horner = |terms: &[f64], w: &Tensor| {
        let start = w.zeros_like();
        terms.iter().fold(start, |sum, &term| sum * w + term)
    };
    let w = -((1.0 - &x) * (1.0 + &x)).log();
    const NEAR: [f64; 9] = [
        2.81022636e-08,
        3.43273939e-07,
        -3.5233877e-06,
        -4.39150654e-06,
        0.00021858087,
        -0.00125372503,
        -0.00417768164,
        0.246640727,
        1.50140941,
    ];
    const FAR: [f64; 9] = [
        -0.000200214257,
        0.000100950558,
        0.00134934322,
        -0.00367342844,
        0.00573950773,
        -0.0076224613,
        0.00943887047,
        1.00167406,
        2.83297682,
    ];
    let near = horner(&NEAR, &(&w - 2.5));
    let far = horner(&FAR, &(w.clamp_min(0.0).sqrt() - 3.0));
    let mut y = w.lt(5.0).where_cond(&near, &far) * &x;
    for _ in 0..3 {
        // Near the ends the complement keeps the digits that the error function loses.
        let off = x
            .gt(0.0)
            .where_cond(&((1.0 - &x) - y.erfc()), &(y.neg().erfc() - (1.0 + &x)));
        let rate = (-y.square()).exp() * (2.0 / PI.sqrt());
        y = &y + off / rate;
    }
    let y = x.abs().eq(1.0).where_cond(&(&x * f64::INFINITY), &y);
    x.abs().gt(1.0).where_cond(f64::NAN, &y).to_dtype(dtype)
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

/// The greatest common divisor: Euclid's steps, as many as the greatest number of 64 bits may need.
fn common_divisor(a: &Tensor, b: &Tensor) -> Tensor {
    let (mut a, mut b) = (a.abs(), b.abs());
    let steps = match a.dtype().size() {
        1 => 13,
        2 => 24,
        4 => 47,
        _ => 93,
    };
    for _ in 0..steps {
        let rest = a.remainder(b.eq(0).where_cond(1, &b));
        let next = b.eq(0).where_cond(&b, &rest);
        a = b.eq(0).where_cond(&a, &b);
        b = next;
    }
    a
}

fn both(c: &Call<'_>) -> Result<(Tensor, Tensor)> {
    let (a, b) = (c.tensor("self")?, owned(c.operand("other")?));
    let dtype = a.dtype().promote(b.dtype());
    Ok((a.to_dtype(dtype), b.to_dtype(dtype)))
}

pub(in crate::io::exported::ops) const TABLE: Table = &[
    ("lgamma", "default", |c| of(c, log_gamma)),
    ("special_gammaln", "default", |c| of(c, log_gamma)),
    ("digamma", "default", |c| of(c, digamma)),
    ("special_digamma", "default", |c| of(c, digamma)),
    ("special_psi", "default", |c| of(c, digamma)),
    ("mvlgamma", "default", |c| {
        let p = c.size_or("p", 1)?;
        of(c, |x| {
            let first = x.zeros_like() + (p * p.saturating_sub(1)) as f64 / 4.0 * PI.ln();
            (0..p).fold(first, |sum, i| sum + log_gamma(&(x - i as f64 / 2.0)))
        })
    }),
    ("erfinv", "default", |c| of(c, inverse_erf)),
    ("special_erfinv", "default", |c| of(c, inverse_erf)),
    ("special_ndtri", "default", |c| {
        of(c, |x| inverse_erf(&(x * 2.0 - 1.0)) * SQRT_2)
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
    ("ldexp", "Tensor", |c| {
        let (x, by) = (floats(c.tensor("self")?), floats(c.tensor("other")?));
        let dtype = x.dtype().promote(by.dtype());
        let power = by.to_dtype(DType::F64).exp2();
        one((x.to_dtype(DType::F64) * power).to_dtype(dtype))
    }),
    ("logaddexp2", "default", |c| {
        with(c, |x, y| {
            let y = owned(y);
            let dtype = x.dtype().promote(y.dtype());
            let natural = |x: &Tensor| x.to_dtype(dtype.compute()) * LN_2;
            (natural(x).logaddexp(&natural(&y)) / LN_2).to_dtype(dtype)
        })
    }),
    ("gcd", "default", |c| {
        let (a, b) = both(c)?;
        one(common_divisor(&a, &b))
    }),
    ("lcm", "default", |c| {
        let (a, b) = both(c)?;
        let by = common_divisor(&a, &b);
        let by = by.eq(0).where_cond(1, &by);
        one((a.divide(&by, crate::Rounding::Trunc) * b).abs())
    }),
];
