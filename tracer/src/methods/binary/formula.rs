//! Functions of two elements that others express. What several operators compute in is rounded once, at the end.

use super::super::attempt;
use crate::Tensor;
use crate::args::Operand;
use ferrotrace_kernels::BinaryOp;
use ferrotrace_runtime::{DType, Error, Result, Scalar};

/// What [`divide`](Tensor::divide) does with a fractional quotient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// No rounding, as of the operator `/`: integers give floats.
    True,
    /// Towards zero, as C and Rust divide integers.
    Trunc,
    /// Down, as Python's `//`: [`floor_divide`](Tensor::floor_divide).
    Floor,
}

/// Both sides as tensors of the dtype that the operator of this name computes in, and the dtype of its result.
///
/// # Errors
/// An operand carries an error, or is not of floats.
#[track_caller]
pub(super) fn floats(name: &str, x: &Tensor, rhs: &Operand<'_>) -> Result<(Tensor, Tensor, DType)> {
    x.check()?;
    // The sum has the promoted shape and dtype, whatever the operands are.
    let dtype = x.binary(BinaryOp::Add, rhs.clone()).dtype();
    if !dtype.is_float() {
        return Err(Error::untaken(name, dtype, DType::F32));
    }
    let rhs = match rhs {
        Operand::Tensor(rhs) => (*rhs).clone(),
        Operand::Owned(rhs) => rhs.clone(),
        Operand::Scalar(number) => Tensor::full((), *number, dtype, &x.device()),
    };
    rhs.recorded()?;
    let compute = dtype.compute();
    Ok((x.to_dtype(compute), rhs.to_dtype(compute), dtype))
}

impl Tensor {
    /// √(x² + rhs²) of floats without overflow: infinite where either side is, even beside NaN.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3.0, 3e200], 2, &Device::cpu());
    /// let y = Tensor::from_slice(&[4.0, 4e200], 2, &Device::cpu());
    /// let expected = Tensor::from_slice(&[5.0, 5e200], 2, &Device::cpu());
    /// assert!(x.hypot(&y).allclose(&expected, 1e-15, 0.0)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn hypot<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
        let rhs = rhs.into();
        let (x, y, dtype) = attempt!("hypot", floats("hypot", self, &rhs), self);
        // The result is the same whatever both are divided by: no slope goes through the greater one.
        let most = x.abs().binary(BinaryOp::Maximum, y.abs()).detach();
        let divisor = most.gt(0).where_cond(&most, 1);
        let part = |x: &Tensor| x.binary(BinaryOp::Div, &divisor).square();
        let square = part(&x).binary(BinaryOp::Add, part(&y));
        let root = most.eq(0).where_cond(1, &square).sqrt();
        let infinite = x.isinf().logical_or(&y.isinf());
        let result = infinite.where_cond(f64::INFINITY, root.binary(BinaryOp::Mul, &most));
        result.to_dtype(dtype).called("hypot", &[self])
    }

    /// xʳʰˢ in binary64, whatever the dtypes: the result is `F64`, also of integers to a negative power.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[2i64, 4], 2, &Device::cpu());
    /// assert_eq!(x.float_power(-1).to_vec::<f64>()?, [0.5, 0.25]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn float_power<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
        let rhs = match rhs.into() {
            Operand::Scalar(number) => Operand::Scalar(Scalar::Float(number.to_f64())),
            Operand::Tensor(rhs) => Operand::Owned(rhs.to_dtype(DType::F64)),
            Operand::Owned(rhs) => Operand::Owned(rhs.to_dtype(DType::F64)),
        };
        if let Operand::Owned(rhs) = &rhs {
            attempt!("float_power", rhs.check(), self, rhs);
        }
        let power = self.to_dtype(DType::F64).pow(rhs);
        power.called("float_power", &[self])
    }

    /// log(eˣ + eʳʰˢ) of floats without overflow.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 1000.0], 2, &Device::cpu());
    /// let expected = Tensor::from_slice(&[2f64.ln(), 1000.0 + 2f64.ln()], 2, &Device::cpu());
    /// assert!(x.logaddexp(&x).allclose(&expected, 1e-12, 0.0)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn logaddexp<'a>(&self, rhs: impl Into<Operand<'a>>) -> Tensor {
        let rhs = rhs.into();
        let (x, y, dtype) = attempt!("logaddexp", floats("logaddexp", self, &rhs), self);
        // The difference of two equal infinities is NaN, but they are close.
        let equal = x.isinf().logical_and(&x.eq(&y));
        let apart = equal.where_cond(0, y.binary(BinaryOp::Sub, &x));
        // Both ways are smooth where numbers are equal, as their maximum is not.
        let first = apart.softplus().binary(BinaryOp::Add, &x);
        let second = apart.neg().softplus().binary(BinaryOp::Add, &y);
        let result = apart.le(0).where_cond(&first, &second);
        result.to_dtype(dtype).called("logaddexp", &[self])
    }

    /// x / rhs with the quotient rounded as asked: of the promoted dtype where it is rounded, of floats where not. The
    /// rounded quotient of integers by 0 is 0.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-7i64, 7], 2, &Device::cpu());
    /// assert_eq!(x.divide(2, Rounding::Trunc).to_vec::<i64>()?, [-3, 3]);
    /// assert_eq!(x.divide(2, Rounding::Floor).to_vec::<i64>()?, [-4, 3]);
    /// assert_eq!(x.divide(2, Rounding::True).to_vec::<f32>()?, [-3.5, 3.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn divide<'a>(&self, rhs: impl Into<Operand<'a>>, rounding: Rounding) -> Tensor {
        let rhs = rhs.into();
        let quotient = match rounding {
            Rounding::True => self.binary(BinaryOp::Div, rhs),
            Rounding::Floor => self.binary(BinaryOp::FloorDiv, rhs),
            Rounding::Trunc => attempt!("divide", self.truncated(rhs), self),
        };
        quotient.called("divide", &[self])
    }

    #[track_caller]
    fn truncated(&self, rhs: Operand<'_>) -> Result<Tensor> {
        let rest = self.binary(BinaryOp::Fmod, rhs.clone());
        rest.recorded()?;
        if !rest.dtype().is_float() {
            // What is left without the remainder divides evenly.
            let even = self.binary(BinaryOp::Sub, &rest);
            return Ok(even.binary(BinaryOp::FloorDiv, rhs));
        }
        let (x, y, dtype) = floats("divide", self, &rhs)?;
        Ok(x.binary(BinaryOp::Div, &y).trunc().to_dtype(dtype))
    }

    /// Whether each pair of elements is equal or differs by at most `atol + |rtol·u|`, as `Bool`, after broadcasting;
    /// infinities are close to themselves alone, NaN to NaN if `equal_nan`. Both have one dtype. For one answer see
    /// [`allclose`](Tensor::allclose).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, f64::NAN], 2, &Device::cpu());
    /// assert_eq!(x.isclose(&(&x + 1e-7), 1e-5, 1e-8, false).to_vec::<bool>()?, [true, false]);
    /// assert_eq!(x.isclose(&x, 1e-5, 1e-8, true).to_vec::<bool>()?, [true, true]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn isclose(&self, u: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Tensor {
        attempt!("isclose", tolerances(self, u, rtol, atol), self, u);
        let mut close = self.eq(u);
        if equal_nan && self.dtype().is_float() {
            close = close.logical_or(&self.isnan().logical_and(&u.isnan()));
        }
        if rtol != 0.0 || atol != 0.0 {
            // Integers are compared in a wider type, since their difference may leave their own; floats in the promoted
            // type.
            let wide = match self.dtype() {
                DType::F32 | DType::F16 | DType::BF16 => DType::F32,
                _ => DType::F64,
            };
            let (x, u) = (self.to_dtype(wide), u.to_dtype(wide));
            let apart = x.binary(BinaryOp::Sub, &u).abs();
            let scaled = u.binary(BinaryOp::Mul, rtol).abs();
            let allowed = scaled.binary(BinaryOp::Add, atol);
            let near = apart
                .isfinite()
                .logical_and(&apart.binary(BinaryOp::Le, &allowed));
            close = close.logical_or(&near);
        }
        close.called("isclose", &[self, u])
    }
}

fn tolerances(x: &Tensor, u: &Tensor, rtol: f64, atol: f64) -> Result<()> {
    x.check()?;
    u.check()?;
    if x.dtype() != u.dtype() {
        let (a, b) = (x.dtype(), u.dtype());
        let why = format!("tensors of {a} and {b}: to_dtype(DType::{a:?}) first");
        return Err(Error::dtype(why));
    }
    if rtol >= 0.0 && atol >= 0.0 {
        return Ok(());
    }
    let why = format!("tolerances of {rtol} and {atol}: they must not be negative");
    Err(Error::argument(why))
}
