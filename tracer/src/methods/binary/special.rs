//! Functions of two elements that are chosen between, or given by logarithms and powers.

use super::super::attempt;
use super::formula::floats;
use crate::Tensor;
use crate::args::Operand;
use ferrotrace_kernels::BinaryOp;
use ferrotrace_runtime::{DType, Error, Result};
use std::f64::consts::LN_2;

/// The other side as a tensor, and the dtype that both promote to.
#[track_caller]
fn promoted(x: &Tensor, rhs: &Operand<'_>) -> Result<(Tensor, DType)> {
    x.check()?;
    let dtype = x.binary(BinaryOp::Add, rhs.clone()).dtype();
    let rhs = match rhs {
        Operand::Tensor(rhs) => (*rhs).clone(),
        Operand::Owned(rhs) => rhs.clone(),
        Operand::Scalar(number) => Tensor::full((), *number, dtype, &x.device()),
    };
    rhs.check()?;
    Ok((rhs, dtype))
}

impl Tensor {
    /// The greater of both; where one is NaN, the other.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, f64::NAN, 3.0], 3, &Device::cpu());
    /// assert_eq!(x.fmax(2.0).to_vec::<f64>()?, [2.0, 2.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn fmax<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
        let rhs = rhs.into();
        attempt!("fmax", self.unless_nan(&rhs, BinaryOp::Maximum), self).called("fmax", &[self])
    }

    /// The lesser of both; where one is NaN, the other.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, f64::NAN, 3.0], 3, &Device::cpu());
    /// assert_eq!(x.fmin(2.0).to_vec::<f64>()?, [1.0, 2.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn fmin<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
        let rhs = rhs.into();
        attempt!("fmin", self.unless_nan(&rhs, BinaryOp::Minimum), self).called("fmin", &[self])
    }

    #[track_caller]
    fn unless_nan(&self, rhs: &Operand<'_>, op: BinaryOp) -> Result<Tensor> {
        let (rhs, dtype) = promoted(self, rhs)?;
        let picked = self.binary(op, &rhs);
        if !dtype.is_float() {
            return Ok(picked);
        }
        let (x, rhs) = (self.to_dtype(dtype), rhs.to_dtype(dtype));
        let first = rhs.isnan().where_cond(&x, &picked);
        Ok(x.isnan().where_cond(&rhs, &first))
    }

    /// |x| with the sign of `rhs`, that of −0 too; of floats.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, -2.0], 2, &Device::cpu());
    /// assert_eq!(x.copysign(-0.0).to_vec::<f64>()?, [-1.0, -2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn copysign<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
        let rhs = rhs.into();
        let (rhs, dtype) = attempt!("copysign", promoted(self, &rhs), self);
        let dtype = if dtype.is_float() { dtype } else { DType::F32 };
        let size = self.to_dtype(dtype).abs();
        let y = rhs.signbit().where_cond(&-&size, &size);
        y.called("copysign", &[self, &rhs])
    }

    /// x·ln(rhs), 0 where x is 0 and `rhs` is a number; integers give `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 2.0], 2, &Device::cpu());
    /// let y = Tensor::from_slice(&[0.0, 1.0], 2, &Device::cpu());
    /// assert_eq!(x.xlogy(&y).to_vec::<f64>()?, [0.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn xlogy<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
        let rhs = rhs.into();
        let (rhs, dtype) = attempt!("xlogy", promoted(self, &rhs), self);
        let dtype = if dtype.is_float() { dtype } else { DType::F32 };
        let (x, y) = (
            self.to_dtype(dtype.compute()),
            rhs.to_dtype(dtype.compute()),
        );
        // The logarithm of 1 stands for those that 0 times would be NaN.
        let has_log = y.gt(0).logical_and(&y.lt(f64::INFINITY));
        let spared = x
            .eq(0)
            .logical_and(&has_log.logical_or(&y.isnan()).logical_not());
        let y = (&x * spared.where_cond(1.0, &y).log()).to_dtype(dtype);
        y.called("xlogy", &[self, &rhs])
    }

    /// 0 below 0, 1 above, and `values` at 0; NaN gives NaN. Both are of one dtype.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-2.0, 0.0, 3.0], 3, &Device::cpu());
    /// let half = Tensor::scalar(0.5, DType::F64, &Device::cpu());
    /// assert_eq!(x.heaviside(&half).to_vec::<f64>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn heaviside(&self, values: &Tensor) -> Tensor {
        for x in [self, values] {
            attempt!("heaviside", x.check(), self, values);
        }
        if self.dtype() != values.dtype() {
            let why = format!("{} at 0 of {}", values.dtype(), self.dtype());
            return Tensor::failed("heaviside", Error::dtype(why), &[self, values]);
        }
        let mut step = self.gt(0).to_dtype(self.dtype());
        if self.dtype().is_float() {
            step = self.isnan().where_cond(self, &step);
        }
        let y = self.eq(0).where_cond(values, &step);
        y.called("heaviside", &[self, values])
    }

    /// log₂(2ˣ + 2ʳʰˢ) of floats without overflow.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2000.0], 2, &Device::cpu());
    /// let expected = Tensor::from_slice(&[2.0, 2001.0], 2, &Device::cpu());
    /// assert!(x.logaddexp2(&x).allclose(&expected, 1e-12, 0.0)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn logaddexp2<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
        let rhs = rhs.into();
        let (x, y, dtype) = attempt!("logaddexp2", floats("logaddexp2", self, &rhs), self);
        let sum = (x * LN_2).logaddexp(y * LN_2) / LN_2;
        sum.to_dtype(dtype).called("logaddexp2", &[self])
    }

    /// x·2ʳʰˢ; integers give `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3.0, 1.0], 2, &Device::cpu());
    /// let y = Tensor::from_slice(&[2i64, -1], 2, &Device::cpu());
    /// assert_eq!(x.ldexp(&y).to_vec::<f64>()?, [12.0, 0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn ldexp<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
        let rhs = rhs.into();
        let (rhs, dtype) = attempt!("ldexp", promoted(self, &rhs), self);
        let dtype = if dtype.is_float() { dtype } else { DType::F32 };
        // A power that binary32 has not may give a product that it has.
        let power = rhs.to_dtype(DType::F64).exp2();
        let y = (self.to_dtype(DType::F64) * power).to_dtype(dtype);
        y.called("ldexp", &[self, &rhs])
    }

    /// The greatest common divisor of integers, not negative; that of 0 and 0 is 0.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[12i64, -18], 2, &Device::cpu());
    /// assert_eq!(x.gcd(8).to_vec::<i64>()?, [4, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn gcd<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
        let (a, b) = attempt!("gcd", self.integers("gcd", &rhs.into()), self);
        a.binary(BinaryOp::Gcd, &b).called("gcd", &[self])
    }

    /// The least common multiple of integers, not negative; 0 where one is 0.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[12i64, -18], 2, &Device::cpu());
    /// assert_eq!(x.lcm(8).to_vec::<i64>()?, [24, 72]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn lcm<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
        let (a, b) = attempt!("lcm", self.integers("lcm", &rhs.into()), self);
        let by = a.binary(BinaryOp::Gcd, &b);
        let by = by.eq(0).where_cond(1, &by);
        let y = (a.divide(&by, super::Rounding::Trunc) * b).abs();
        y.called("lcm", &[self])
    }

    /// Both sides in the dtype of integers that they promote to.
    #[track_caller]
    fn integers(&self, name: &str, rhs: &Operand<'_>) -> Result<(Tensor, Tensor)> {
        let (rhs, dtype) = promoted(self, rhs)?;
        match dtype.is_int() {
            true => Ok((self.to_dtype(dtype), rhs.to_dtype(dtype))),
            false => Err(Error::untaken(name, dtype, DType::I64)),
        }
    }
}
