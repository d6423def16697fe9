//! Tensors made of numbers.

mod like;
mod series;

use super::{attempt, element, made_as};
use crate::record::record;
use crate::{Input, Tensor};
use ferrotrace_kernels::op::check_size;
use ferrotrace_kernels::op::{Arange, Full, Iota};
use ferrotrace_kernels::{BinaryOp, Op};
use ferrotrace_runtime::{DType, Device, Error, FloatEnvironment, Result, Scalar, Shape};
use std::panic::Location;

#[track_caller]
fn filled(
    name: &'static str,
    shape: Shape,
    value: Scalar,
    dtype: DType,
    device: &Device,
) -> Tensor {
    match check_size(&shape, dtype) {
        Ok(()) => {
            let op = Op::Full(Full { shape, dtype });
            record(
                Some(device),
                op,
                Some(name),
                &[Input::Scalar(value)],
                Location::caller(),
            )
        }
        Err(error) => Tensor::failed(name, error, &[]),
    }
}

/// A tensor filled with a number that has to fit the dtype `of`.
#[track_caller]
fn filled_with(
    name: &'static str,
    shape: Shape,
    value: Scalar,
    (dtype, of): (DType, DType),
    device: &Device,
) -> Tensor {
    match element(value, of) {
        Ok(_) => filled(name, shape, value, dtype, device),
        Err(error) => Tensor::failed(name, error, &[]),
    }
}

/// How many numbers `arange` gives: ⌈(end − start) / step⌉, exactly where all are integers.
fn arange_len(start: Scalar, end: Scalar, step: Scalar) -> Result<usize> {
    let inconsistent = || {
        let (start, end, step) = (start.to_f64(), end.to_f64(), step.to_f64());
        Error::argument(format!("no steps of {step} lead from {start} to {end}"))
    };
    let float = |n: Scalar| matches!(n, Scalar::Float(_));
    if float(start) || float(end) || float(step) {
        let steps = (end.to_f64() - start.to_f64()) / step.to_f64();
        return match steps.ceil() {
            // Less than a step away from the end rounds up to none.
            len if step.to_f64() != 0.0 && steps >= 0.0 && len < 9e18 => Ok(len as usize),
            _ => Err(inconsistent()),
        };
    }
    let (span, step) = (
        end.to_i64() as i128 - start.to_i64() as i128,
        step.to_i64() as i128,
    );
    if step == 0 || (span != 0 && (span > 0) != (step > 0)) {
        return Err(inconsistent());
    }
    usize::try_from((span.abs() + step.abs() - 1) / step.abs()).map_err(|_| inconsistent())
}

impl Tensor {
    /// A 0-d tensor of one number, which has to [fit](Scalar::fits) the dtype; half types take any, beyond their range as
    /// infinities.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::scalar(2.5, DType::F32, &Device::cpu());
    /// assert_eq!((x.rank(), x.to_scalar::<f32>()?), (0, 2.5));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn scalar(v: impl Into<Scalar>, dtype: DType, device: &Device) -> Tensor {
        let dtypes = (dtype, made_as(dtype));
        filled_with("scalar", Shape::scalar(), v.into(), dtypes, device)
    }

    /// A tensor of zeros.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([2, 3], DType::F32, &Device::cpu());
    /// assert_eq!(x.to_vec::<f32>()?, [0.0; 6]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Tensor {
        filled("zeros", shape.into(), Scalar::Int(0), dtype, device)
    }

    /// A tensor of ones.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones(2, DType::I64, &Device::cpu());
    /// assert_eq!(x.to_vec::<i64>()?, [1, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Tensor {
        filled("ones", shape.into(), Scalar::Int(1), dtype, device)
    }

    /// A tensor whose elements nobody should rely on (they are zeros).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::empty([2, 3], DType::F32, &Device::cpu());
    /// assert_eq!(x.dims(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn empty(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Tensor {
        filled("empty", shape.into(), Scalar::Int(0), dtype, device)
    }

    /// A tensor of one number everywhere, converted to the dtype, which it has to [fit](Scalar::fits).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::full(2, 7, DType::I64, &Device::cpu());
    /// assert_eq!(x.to_vec::<i64>()?, [7, 7]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn full(
        shape: impl Into<Shape>,
        v: impl Into<Scalar>,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        let dtypes = (dtype, dtype);
        filled_with("full", shape.into(), v.into(), dtypes, device)
    }

    /// The numbers start, start + step, .. before `end`: ⌈(end − start) / step⌉ of them. A step of 0, or away from
    /// the end, is an error. An integer dtype takes the whole parts of `start` and `step`, once they are counted.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(2, -1, -1, DType::F32, &Device::cpu());
    /// assert_eq!(x.to_vec::<f32>()?, [2.0, 1.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn arange(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        let _environment = FloatEnvironment::standard();
        let (start, end, step) = (start.into(), end.into(), step.into());
        let len = arange_len(start, end, step)
            .and_then(|len| check_size(&Shape::from(len), dtype).map(|()| len));
        match len {
            Ok(len) => {
                let whole = |number: Scalar| match dtype.is_int() {
                    true => number.cast(DType::I64),
                    false => number,
                };
                let numbers = [start, step].map(whole);
                if dtype == DType::I64 && matches!(numbers, [Scalar::Int(0), Scalar::Int(1)]) {
                    // Positions, as the compiler knows them.
                    let shape = Shape::from(len);
                    return Tensor::record_on(device, Op::Iota(Iota { shape, dim: 0 }), &[]);
                }
                let numbers = numbers.map(Input::Scalar);
                Tensor::record_on(device, Op::Arange(Arange { len, dtype }), &numbers)
            }
            Err(error) => Tensor::failed("arange", error, &[]),
        }
    }

    /// `n` numbers in equal steps from `a` to `b`, both included: counted from `a` in the first half, from `b` in the
    /// second, in binary64, then converted to the dtype. Both have to [fit](Scalar::fits) it; an integer dtype takes their
    /// whole parts.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::linspace(0.0, 1.0, 5, DType::F32, &Device::cpu());
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn linspace(
        a: impl Into<Scalar>,
        b: impl Into<Scalar>,
        n: usize,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        let _environment = FloatEnvironment::standard();
        let end = |number: Scalar| {
            let whole = element(number, dtype)?;
            Ok(if dtype.is_int() { whole } else { number }.to_f64())
        };
        let a = attempt!("linspace", end(a.into()));
        let b = attempt!("linspace", end(b.into()));
        if n < 2 {
            return filled("linspace", Shape::from(n), Scalar::Float(a), dtype, device);
        }
        if let Err(error) = check_size(&Shape::from(n), DType::F64) {
            return Tensor::failed("linspace", error, &[]);
        }
        let op = Op::Arange(Arange {
            len: n,
            dtype: DType::F64,
        });
        let numbers = [
            Input::Scalar(Scalar::Float(0.0)),
            Input::Scalar(Scalar::Float(1.0)),
        ];
        let i = Tensor::record_on(device, op, &numbers);
        let last = (n - 1) as f64;
        let step = (b - a) / last;
        let from_a = i.binary(BinaryOp::Mul, step).binary(BinaryOp::Add, a);
        let from_b = i
            .binary(BinaryOp::Sub, last)
            .binary(BinaryOp::Mul, step)
            .binary(BinaryOp::Add, b);
        let first_half = i.binary(BinaryOp::Lt, (n / 2) as f64);
        first_half.where_cond(&from_a, &from_b).to_dtype(dtype)
    }

    /// Ones on the main diagonal of a matrix, zeros elsewhere: of `n` rows and columns, or of `[n, m]` or `(n, m)`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::eye(2, DType::F32, &Device::cpu());
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
    /// assert_eq!(Tensor::eye((1, 3), DType::I64, &Device::cpu()).to_vec::<i64>()?, [1, 0, 0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn eye(n: impl Into<Shape>, dtype: DType, device: &Device) -> Tensor {
        let shape = match n.into().dims() {
            &[n] => Shape::from([n, n]),
            &[n, m] => Shape::from([n, m]),
            sizes => {
                let why = Error::argument(format!("{sizes:?} are not the sizes of a matrix"));
                return Tensor::failed("eye", why, &[]);
            }
        };
        if let Err(error) = check_size(&shape, DType::I64) {
            return Tensor::failed("eye", error, &[]);
        }
        let along = |dim| {
            Op::Iota(Iota {
                shape: shape.clone(),
                dim,
            })
        };
        let row = Tensor::record_on(device, along(0), &[]);
        let column = Tensor::record_on(device, along(1), &[]);
        row.binary(BinaryOp::Eq, &column).to_dtype(dtype)
    }

    /// A tensor of this one's shape, dtype and device, of one number, which has to [fit](Scalar::fits) the dtype.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(2, DType::F32, &Device::cpu());
    /// assert_eq!(x.full_like(3).to_vec::<f32>()?, [3.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn full_like(&self, v: impl Into<Scalar>) -> Tensor {
        attempt!("full_like", self.check(), self);
        let (dtype, shape) = (self.dtype(), self.shape().clone());
        filled_with("full_like", shape, v.into(), (dtype, dtype), &self.device())
    }

    /// Zeros of this tensor's shape, dtype and device.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones(2, DType::F32, &Device::cpu());
    /// assert_eq!(x.zeros_like().to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        self.full_like(0)
    }

    /// Ones of this tensor's shape, dtype and device.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(2, DType::F32, &Device::cpu());
    /// assert_eq!(x.ones_like().to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        self.full_like(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn len(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
    ) -> Option<usize> {
        arange_len(start.into(), end.into(), step.into()).ok()
    }

    #[test]
    fn arange_counts_as_pytorch_does() {
        assert_eq!(len(1, 7, 2), Some(3));
        assert_eq!(len(1, 8, 2), Some(4));
        assert_eq!(len(2, -1, -1), Some(3));
        assert_eq!(len(3, 3, -1), Some(0));
        assert_eq!(len(0.0, 1.0, 0.25), Some(4));
        assert_eq!(len(0, 1.1, 0.25), Some(5));
        assert_eq!(len(i64::MIN, i64::MAX, i64::MAX), Some(3));
    }

    #[test]
    fn arange_refuses_steps_that_lead_nowhere() {
        assert_eq!(
            (len(0, 1, 0), len(0, 1, -1), len(1, 0, 1)),
            (None, None, None)
        );
        assert_eq!((len(0.0, 0.0, 0.0), len(0.0, -1.0, 0.5)), (None, None));
        assert_eq!((len(3.0, 1.5, 4.0), len(2.0, 2.5, -1.25)), (None, None));
        assert_eq!(
            (len(0.0, f64::NAN, 1.0), len(0.0, f64::INFINITY, 1.0)),
            (None, None)
        );
    }
}
