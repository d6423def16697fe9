//! Choosing between elements, limits, and mixtures of several tensors.

use crate::args::Operand;
use crate::{Input, Tensor};
use ferrotrace_kernels::{BinaryOp, Composite, Op};
use ferrotrace_runtime::{Category, Error, Scalar};

impl Tensor {
    /// The elements of `a` where this mask (of dtype `Bool`) is true, else those of `b`; all three broadcast, and
    /// `a` and `b` promote.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-1.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.gt(0).where_cond(&x, 0.0).to_vec::<f64>()?, [0.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn where_cond<'a, 'b>(
        &self,
        a: impl Into<Operand<'a>>,
        b: impl Into<Operand<'b>>,
    ) -> Tensor {
        let (a, b) = (a.into(), b.into());
        Tensor::record(Op::Where, &[Input::Tensor(self), a.input(), b.input()])
    }

    /// `v` where the mask (of dtype `Bool`) is true, else this tensor, whose dtype stays; both broadcast.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.masked_fill(&x.gt(1.5), -1).to_vec::<f64>()?, [1.0, -1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, v: impl Into<Scalar>) -> Tensor {
        let v = v.into();
        let dtype = self.dtype();
        if v.category() > dtype.category() {
            let why = format!("{} does not fit the dtype {dtype}", v.default_dtype());
            return Tensor::failed("masked_fill", Error::dtype(why), &[self, mask]);
        }
        Tensor::record(
            Op::Where,
            &[Input::Tensor(mask), Input::Scalar(v), Input::Tensor(self)],
        )
    }

    /// min(max(x, lo), hi); NaN stays, and `hi` wins where `lo > hi`. A limit that the tensor's integers cannot hold is
    /// the nearest that they can.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-2.0, 0.5], 2, &Device::cpu());
    /// assert_eq!(x.clamp(-1, 1.0).to_vec::<f64>()?, [-1.0, 0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn clamp(&self, lo: impl Into<Scalar>, hi: impl Into<Scalar>) -> Tensor {
        let mut limits = [lo.into(), hi.into()];
        if limits.iter().all(|v| v.category() < Category::Float) {
            limits = limits.map(|v| self.limit(v));
        }
        self.composite(Composite::Clamp, &limits)
    }

    /// max(x, v); NaN stays.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-2.0, 0.5], 2, &Device::cpu());
    /// assert_eq!(x.clamp_min(0).to_vec::<f64>()?, [0.0, 0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn clamp_min(&self, v: impl Into<Scalar>) -> Tensor {
        self.binary(BinaryOp::Maximum, v.into())
    }

    /// min(x, v); NaN stays.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-2.0, 0.5], 2, &Device::cpu());
    /// assert_eq!(x.clamp_max(0).to_vec::<f64>()?, [-2.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn clamp_max(&self, v: impl Into<Scalar>) -> Tensor {
        self.binary(BinaryOp::Minimum, v.into())
    }

    /// x, with NaN, ∞ and −∞ replaced by `nan`, `posinf` and `neginf`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[f64::NAN, f64::INFINITY], 2, &Device::cpu());
    /// assert_eq!(x.nan_to_num(0.0, 9.0, -9.0).to_vec::<f64>()?, [0.0, 9.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn nan_to_num(
        &self,
        nan: impl Into<Scalar>,
        posinf: impl Into<Scalar>,
        neginf: impl Into<Scalar>,
    ) -> Tensor {
        let numbers = [nan.into(), posinf.into(), neginf.into()];
        self.composite(Composite::NanToNum, &numbers)
    }

    /// x + w·(end − x), all broadcast.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.lerp(&(&x * 10), 0.5).to_vec::<f64>()?, [5.5, 11.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn lerp<'a>(&self, end: &Tensor, w: impl Into<Operand<'a>>) -> Tensor {
        let w = w.into();
        let inputs = [Input::Tensor(self), Input::Tensor(end), w.input()];
        Tensor::record(Op::Composite(Composite::Lerp), &inputs)
    }

    /// x + v·a·b, all broadcast.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.addcmul(&x, &x, 0.5).to_vec::<f64>()?, [1.5, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn addcmul(&self, a: &Tensor, b: &Tensor, v: impl Into<Scalar>) -> Tensor {
        self.with_tensors(Composite::Addcmul, &[Some(a), Some(b)], &[v.into()])
    }

    /// x + v·a/b, all broadcast.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.addcdiv(&x, &x, 0.5).to_vec::<f64>()?, [1.5, 2.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn addcdiv(&self, a: &Tensor, b: &Tensor, v: impl Into<Scalar>) -> Tensor {
        self.with_tensors(Composite::Addcdiv, &[Some(a), Some(b)], &[v.into()])
    }
}
