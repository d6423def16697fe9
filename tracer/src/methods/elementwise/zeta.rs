//! Hurwitz' zeta function, and derivatives of the logarithm of Γ, which it gives.

use super::super::attempt;
use crate::Tensor;
use crate::args::Operand;
use ferrotrace_kernels::BinaryOp;
use ferrotrace_runtime::{DType, Error};

/// Terms of the series before its remainder is an integral.
const TERMS: usize = 9;

/// Bernoulli numbers B₂ⱼ over (2j)!.
const BERNOULLI: [f64; 12] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30240.0,
    -1.0 / 1209600.0,
    1.0 / 47900160.0,
    -691.0 / 1307674368000.0,
    1.0 / 74724249600.0,
    -3617.0 / 10670622842880000.0,
    43867.0 / 5109094217170944000.0,
    -174611.0 / 802857662698291200000.0,
    77683.0 / 14101100039391805440000.0,
    -236364091.0 / 1693824136731743669452800000.0,
];

/// Σ (q + k)⁻ˣ over k ≥ 0 for x > 1 and q > 0, in binary64, by the formula of Euler and Maclaurin behind nine terms.
#[track_caller]
fn above(x: &Tensor, q: &Tensor) -> Tensor {
    let power = |base: &Tensor| base.pow(&-x);
    let mut sum = power(q);
    for k in 1..TERMS {
        sum += power(&(q + k as f64));
    }
    let end = q + TERMS as f64;
    let last = power(&end);
    // Where exponents are greater, what follows is nothing beside the sum, and finite so.
    let x = x.clamp_max(1e10);
    // x·(x + 1)⋯(x + 2j) / end²ʲ⁺¹.
    let square = end.square().recip();
    let mut rising = &x / &end;
    let mut series = &rising * BERNOULLI[0];
    for (j, number) in BERNOULLI.iter().enumerate().skip(1) {
        let next = (2 * j) as f64;
        rising = rising * (&x + (next - 1.0)) * (&x + next) * &square;
        series += &rising * *number;
    }
    sum + &last * (end / (&x - 1.0) + 0.5 + series)
}

/// ζ(x, q) of binary64, for all q where x is whole.
#[track_caller]
fn zeta(x: &Tensor, q: &Tensor) -> Tensor {
    let (fits, positive) = (x.gt(1.0), q.gt(0.0));
    let endless = q.eq(f64::INFINITY);
    let q = &endless.where_cond(1.0, q);
    let exponent = fits.where_cond(x, 2.0);
    let whole = q.eq(&q.floor());
    // Over all whole k, Σ (q + k)⁻ˣ depends on the part of q behind the point alone; what lies below a negative q is what
    // a positive argument gives.
    let part = whole.where_cond(0.5, &(q - q.floor()));
    let own = above(&exponent, &positive.where_cond(q, &part));
    let spared = positive.logical_or(&whole);
    let others = above(&exponent, &spared.where_cond(1.0, &(1.0 - &part)));
    let beyond = above(&exponent, &spared.where_cond(1.0, &(1.0 - q)));
    let rest = others - beyond;
    let odd = exponent.remainder(2.0).eq(1.0);
    let y = own + odd.where_cond(&-&rest, &rest);
    let y = endless.where_cond(0.0, &y);
    let wrong = positive.logical_or(&x.eq(&x.floor())).logical_not();
    let y = wrong.where_cond(f64::NAN, &y);
    let pole = q.le(0.0).logical_and(&whole).logical_or(&x.eq(1.0));
    let y = pole.where_cond(f64::INFINITY, &y);
    let lost = x.lt(1.0).logical_or(&x.isnan()).logical_or(&q.isnan());
    lost.where_cond(f64::NAN, &y)
}

impl Tensor {
    /// Hurwitz' zeta function ζ(x, q) = Σ (q + k)⁻ˣ over k ≥ 0, of this x, broadcast; PyTorch's `special.zeta`. ∞ at
    /// x = 1 and at q = 0, −1, ..; NaN where x < 1, and where q < 0 and x is not whole. Computed in binary64; integers give
    /// `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[2.0, 4.0], 2, &Device::cpu());
    /// let y = x.zeta(1.0).to_vec::<f64>()?;
    /// let pi = std::f64::consts::PI;
    /// assert!((y[0] - pi.powi(2) / 6.0).abs() < 1e-14 && (y[1] - pi.powi(4) / 90.0).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn zeta<'a>(&self, q: impl Into<Operand<'a>>) -> Tensor {
        let (x, q, dtype) = attempt!("zeta", self.wide_pair(&q.into()), self);
        zeta(&x, &q).to_dtype(dtype).called("zeta", &[self, &q])
    }

    /// The derivative of order n + 1 of ln Γ(x): [`digamma`](Tensor::digamma) for n = 0, else (−1)ⁿ⁺¹·n!·ζ(n + 1, x).
    /// ±∞ at 0 and negative whole numbers. Computed in binary64; integers give `F32`. A negative `n` is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, -0.5], 2, &Device::cpu());
    /// let y = x.polygamma(1).to_vec::<f64>()?;
    /// let pi = std::f64::consts::PI;
    /// assert!((y[0] - pi.powi(2) / 6.0).abs() < 1e-14 && (y[1] - (pi.powi(2) / 2.0 + 4.0)).abs() < 1e-13);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn polygamma(&self, n: i64) -> Tensor {
        let (x, dtype) = attempt!("polygamma", self.widened(), self);
        if n < 0 {
            let why = Error::argument(format!("a derivative of order {n}"));
            return Tensor::failed("polygamma", why, &[self]);
        }
        if n == 0 {
            return self.digamma();
        }
        let x = x.to_dtype(DType::F64);
        let order = Tensor::full((), (n + 1) as f64, DType::F64, &x.device());
        let factor: f64 = (1..=n.min(171)).map(|k| k as f64).product();
        let factor = if n % 2 == 1 { factor } else { -factor };
        (zeta(&order, &x) * factor)
            .to_dtype(dtype)
            .called("polygamma", &[self])
    }

    /// Both sides in binary64, and the dtype of a function of floats of both.
    ///
    /// # Errors
    /// An operand carries an error.
    #[track_caller]
    pub(in crate::methods) fn wide_pair(
        &self,
        rhs: &Operand<'_>,
    ) -> ferrotrace_runtime::Result<(Tensor, Tensor, DType)> {
        self.check()?;
        // The sum has the promoted shape and dtype, whatever the operands are.
        let sum = self.binary(BinaryOp::Add, rhs.clone());
        sum.recorded()?;
        let dtype = match sum.dtype().is_float() {
            true => sum.dtype(),
            false => DType::F32,
        };
        let rhs = match rhs {
            Operand::Tensor(rhs) => rhs.to_dtype(DType::F64),
            Operand::Owned(rhs) => rhs.to_dtype(DType::F64),
            Operand::Scalar(number) => Tensor::full((), *number, DType::F64, &self.device()),
        };
        rhs.recorded()?;
        Ok((self.to_dtype(DType::F64), rhs, dtype))
    }
}
