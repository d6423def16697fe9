//! Functions of one element that others express. They are computed in binary64 where these would lose digits.

use super::super::attempt;
use crate::Tensor;
use ferrotrace_runtime::{DType, Result};
use std::f64::consts::PI;

/// Methods without arguments, of a function of floats in the dtype of their arithmetic.
macro_rules! special_functions {
    ($($(#[doc = $doc:literal])* $name:ident $text:literal $f:ident, $x:tt => $y:tt;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            ///
            /// ```
            /// # use ferrotrace_tracer::prelude::*;
            #[doc = concat!("let x = Tensor::from_slice(&", stringify!($x), ", 2, &Device::cpu());")]
            #[doc = concat!("let y = Tensor::from_slice(&", stringify!($y), ", 2, &Device::cpu());")]
            #[doc = concat!("assert!(x.", stringify!($name), "().allclose(&y, 1e-6, 1e-6)?);")]
            /// # Ok::<(), Error>(())
            /// ```
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                let (x, dtype) = attempt!($text, self.widened(), self);
                $f(&x).to_dtype(dtype)
            }
        )*}
    };
}

special_functions! {
    /// ln |Γ(x)|; ∞ at 0 and negative whole numbers. Integers give `F32`, as below.
    lgamma "lgamma" log_gamma, [0.5, 5.0] => [0.5723649, 3.1780538];
    /// The derivative of ln Γ(x), ψ(x): −∞ at 0, NaN at negative whole numbers.
    digamma "digamma" digamma, [1.0, 2.0] => [-0.5772157, 0.4227843];
    /// The inverse of [`erf`](Tensor::erf): ±∞ at ±1, NaN beyond.
    erfinv "erfinv" inverse_erf, [0.0, 0.5] => [0.0, 0.4769363];
    /// sin(πx) / πx, 1 at 0.
    sinc "sinc" sinc, [0.0, 0.5] => [1.0, 0.6366198];
    /// Degrees as radians.
    deg2rad "deg2rad" radians, [180.0, -90.0] => [3.1415927, -1.5707963];
    /// Radians as degrees.
    rad2deg "rad2deg" degrees, [3.14159265, -1.57079633] => [180.0, -90.0];
}

fn radians(x: &Tensor) -> Tensor {
    x * (PI / 180.0)
}

fn degrees(x: &Tensor) -> Tensor {
    x * (180.0 / PI)
}

fn sinc(x: &Tensor) -> Tensor {
    let x = x * PI;
    // Near 0 by its series, whose slopes are right; nothing is divided by 0.
    let near = x.abs().lt(0.5);
    let divisor = near.where_cond(1.0, &x);
    let square = near.where_cond(&x, 0.0).square();
    let mut series = square.zeros_like();
    for k in (1..=7).rev() {
        let k = f64::from(2 * k);
        series = (1.0 + series) * &square * (-1.0 / (k * (k + 1.0)));
    }
    near.where_cond(&(series + 1.0), &(x.sin() / divisor))
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
    // The sine of the part behind the point, which is exact. Where it is not read, its slope is a number.
    let part = low.where_cond(&(&x - x.floor()), 0.5);
    let sine = (part * PI).sin().abs();
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
    // Where the tangent is not read, its slope is a number.
    let tangent = (low.where_cond(&part, 0.25) * PI).tan();
    let y = low.where_cond(&(&above - tangent.recip() * PI), &above);
    let pole = low.logical_and(part.eq(0.0));
    let y = pole.where_cond(f64::NAN, &y);
    let zero = whole.eq(0.0);
    let at_zero = whole.recip() * -1.0;
    zero.where_cond(&at_zero, &y).to_dtype(dtype)
}

/// The inverse of the error function: Giles' approximation, then three of Newton's steps, which slopes go through.
fn inverse_erf(x: &Tensor) -> Tensor {
    let dtype = x.dtype();
    let x = x.to_dtype(DType::F64);
    let horner = |terms: &[f64], w: &Tensor| {
        let start = w.zeros_like();
        terms.iter().fold(start, |sum, &term| sum * w + term)
    };
    let (whole, inside) = (x.clone(), x.abs().lt(1.0));
    let x = inside.where_cond(&x, 0.0);
    let at = x.detach();
    let w = -((1.0 - &at) * (1.0 + &at)).log();
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
    let mut y = w.lt(5.0).where_cond(&near, &far) * &at;
    let positive = x.gt(0.0);
    let rest = positive.where_cond(&(1.0 - &x), &(1.0 + &x));
    for _ in 0..3 {
        // Near the ends the complement keeps the digits that the error function loses.
        let complement = positive.where_cond(&y, &-&y).erfc();
        let off = positive.where_cond(&(&rest - &complement), &(&complement - &rest));
        let rate = (-y.square()).exp() * (2.0 / PI.sqrt());
        y = &y - off / rate;
    }
    let end = whole.gt(0.0).where_cond(f64::INFINITY, f64::NEG_INFINITY);
    let beyond = whole.abs().eq(1.0).where_cond(&end, f64::NAN);
    inside.where_cond(&y, &beyond).to_dtype(dtype)
}

impl Tensor {
    /// These floats in the dtype of their arithmetic, integers as `F32`, and the dtype of the result.
    #[track_caller]
    pub(super) fn widened(&self) -> Result<(Tensor, DType)> {
        self.check()?;
        let dtype = match self.dtype().is_float() {
            true => self.dtype(),
            false => DType::F32,
        };
        Ok((self.to_dtype(dtype.compute()), dtype))
    }

    /// ln(x / (1 − x)), the inverse of [`sigmoid`](Tensor::sigmoid); with `eps`, of x brought into [eps, 1 − eps]. NaN outside
    /// [0, 1]. Integers give `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.5, 2.0], 2, &Device::cpu());
    /// assert!(x.logit(None).to_vec::<f64>()?[1].is_nan());
    /// let y = x.logit(0.25).to_vec::<f64>()?;
    /// assert!(y[0] == 0.0 && (y[1] - 3f64.ln()).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn logit(&self, eps: impl Into<Option<f64>>) -> Tensor {
        let (mut x, dtype) = attempt!("logit", self.widened(), self);
        if let Some(eps) = eps.into() {
            // The lower end counts where it is above the upper one.
            let (low, high) = (eps, 1.0 - eps);
            let below = x.gt(high).where_cond(high, &x);
            x = x.lt(low).where_cond(low, &below);
        }
        (&x / (1.0 - &x)).log().to_dtype(dtype)
    }

    /// Whether x is ∞, as `Bool`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[f32::INFINITY, f32::NEG_INFINITY], 2, &Device::cpu());
    /// assert_eq!(x.isposinf().to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn isposinf(&self) -> Tensor {
        self.isinf()
            .logical_and(&self.gt(0))
            .called("isposinf", &[self])
    }

    /// Whether x is −∞, as `Bool`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[f32::INFINITY, f32::NEG_INFINITY], 2, &Device::cpu());
    /// assert_eq!(x.isneginf().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn isneginf(&self) -> Tensor {
        self.isinf()
            .logical_and(&self.lt(0))
            .called("isneginf", &[self])
    }

    /// Whether x has a minus sign, as −0 has, as `Bool`; that of NaN does not count.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-0.0, 0.0, -2.0], 3, &Device::cpu());
    /// assert_eq!(x.signbit().to_vec::<bool>()?, [true, false, true]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn signbit(&self) -> Tensor {
        let below = self.lt(0);
        let negative = match self.dtype().is_float() {
            true => below.logical_or(&self.eq(0).logical_and(&self.recip().lt(0))),
            false => below,
        };
        negative.called("signbit", &[self])
    }
}
