//! Floats as numbers of a format: their parts and neighbours.

use super::super::{attempt, attempt_both};
use crate::Tensor;
use crate::args::Operand;
use ferrotrace_kernels::BinaryOp;
use ferrotrace_runtime::{DType, Error};

/// Bits of a significand, the least positive number and the greatest.
fn format(dtype: DType) -> (i32, f64, f64) {
    match dtype {
        DType::F64 => (53, f64::from_bits(1), f64::MAX),
        DType::F16 => (11, 2f64.powi(-24), 65504.0),
        DType::BF16 => (8, 2f64.powi(-133), (2.0 - 2f64.powi(-7)) * 2f64.powi(127)),
        _ => (24, 2f64.powi(-149), f64::from(f32::MAX)),
    }
}

/// The number next to each of `x`, of this format, above where `up`, else below: by additions of half a unit and a little
/// more, which rounding takes to a whole one (Rump, Zimmermann, Boldo & Melquiond, *Computing predecessor and successor in
/// rounding to nearest*, 2009, algorithm 2).
#[track_caller]
fn next(x: &Tensor, up: &Tensor, dtype: DType) -> Tensor {
    let (bits, least, most) = format(dtype);
    let unit = 2f64.powi(-bits);
    let rounded = |x: Tensor| x.to_dtype(dtype).to_dtype(dtype.compute());
    let towards = |x: &Tensor, step: Tensor| rounded(x + up.where_cond(&step, &-&step));
    let factor = unit * (1.0 + 2.0 * unit);
    let size = x.abs();
    let far = towards(x, &size * factor);
    let near = towards(x, x.zeros_like() + least);
    let scaled = x.clamp(-1.0, 1.0) * (1.0 / unit);
    let middle = towards(&scaled, scaled.abs() * factor);
    let middle = rounded(middle * unit);
    let y = size.lt(least / unit).where_cond(&near, &middle);
    let y = size.lt(least / unit * (0.5 / unit)).where_cond(&y, &far);
    let inwards = up.ne(&x.gt(0.0));
    let end = inwards.where_cond(&(x.sign() * most), x);
    // An infinity would have no neighbour; zero keeps its own, whatever its sign is.
    size.eq(f64::INFINITY).where_cond(&end, &y)
}

impl Tensor {
    /// The next float towards `rhs`, broadcast, and this one where both are equal, with the sign of `rhs`; NaN where one is.
    /// Floats alone, of one format after promotion; no gradient goes through it.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 0.0], 2, &Device::cpu());
    /// let y = x.nextafter(2.0).to_vec::<f64>()?;
    /// assert_eq!(y, [1.0 + f64::EPSILON, f64::from_bits(1)]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn nextafter<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
        let rhs = rhs.into();
        attempt!("nextafter", self.check(), self);
        let sum = self.binary(BinaryOp::Add, rhs.clone());
        attempt!("nextafter", sum.recorded(), self);
        let dtype = sum.dtype();
        if !dtype.is_float() {
            let why = Error::untaken("nextafter", dtype, DType::F32);
            return Tensor::failed("nextafter", why, &[self]);
        }
        let rhs = match rhs {
            Operand::Tensor(rhs) => rhs.clone(),
            Operand::Owned(rhs) => rhs,
            Operand::Scalar(number) => Tensor::full((), number, dtype, &self.device()),
        };
        let compute = dtype.compute();
        let x = self.detach().to_dtype(compute);
        let to = rhs.detach().to_dtype(compute);
        let y = next(&x, &to.gt(&x), dtype);
        let y = x.eq(&to).where_cond(&to, &y);
        let either = x.isnan().logical_or(&to.isnan());
        either
            .where_cond(f64::NAN, &y)
            .to_dtype(dtype)
            .called("nextafter", &[self, &rhs])
    }

    /// A mantissa, in (−1, 1) and of magnitude 1/2 at least, and an exponent (`I32`) of each float: x is the mantissa times
    /// 2 to the exponent. Zero, infinities and NaN are their own mantissas, with the exponent 0.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[6.0, -0.125], 2, &Device::cpu());
    /// let (mantissa, exponent) = x.frexp();
    /// assert_eq!(mantissa.to_vec::<f64>()?, [0.75, -0.5]);
    /// assert_eq!(exponent.to_vec::<i32>()?, [3, -2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn frexp(&self) -> (Tensor, Tensor) {
        attempt_both!("frexp", self.check(), self);
        let is_float = match self.dtype().is_float() {
            true => Ok(()),
            false => Err(Error::untaken("frexp", self.dtype(), DType::F32)),
        };
        attempt_both!("frexp", is_float, self);
        let x = self.to_dtype(DType::F64);
        let plain = x.isfinite().logical_and(&x.ne(0.0));
        let size = plain.where_cond(&x.detach().abs(), 1.0);
        // Numbers below 2⁻¹⁰²² have fewer bits, and inverses that are infinite.
        let small = size.lt(2f64.powi(-1022));
        let shift = small.where_cond(54.0, &size.zeros_like());
        let lifted = small.where_cond(&(&size * 2f64.powi(54)), &size);
        let found = lifted.log2().floor() + 1.0;
        // The logarithm of a number next to a power of 2 may be rounded to that power's.
        let trial = &lifted * (-&found).exp2();
        let high = trial.ge(1.0).to_dtype(DType::F64);
        let low = trial.lt(0.5).to_dtype(DType::F64);
        let lifted_by = found + high - low;
        let lift = small.where_cond(2f64.powi(54), &size.ones_like());
        let mantissa = plain.where_cond(&(&x * lift * (-&lifted_by).exp2()), &x);
        let exponent = plain.where_cond(&(lifted_by - shift), 0.0);
        (
            mantissa.to_dtype(self.dtype()),
            exponent.to_dtype(DType::I32),
        )
    }
}
