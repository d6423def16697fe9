//! Choosing between elements, limits, and mixtures of several tensors.

use super::{attempt, element, made_as};
use crate::args::Operand;
use crate::{Input, Tensor};
use ferrotrace_kernels::ops::pointwise::promote;
use ferrotrace_kernels::{ArgMeta, BinaryOp, Composite, Op};
use ferrotrace_runtime::{Error, Result, Scalar};
use smallvec::{SmallVec, smallvec};

/// The number that an operand is.
fn number_of(operand: &Operand<'_>) -> Option<Scalar> {
    match operand {
        Operand::Scalar(number) => Some(*number),
        _ => None,
    }
}

impl Tensor {
    /// The limits that are given, within the range of the result where that is of integers.
    ///
    /// # Errors
    /// The result's dtype does not hold a limit; of integers, only if it is beyond the end that it leaves open.
    fn limits(&self, lo: Option<Scalar>, hi: Option<Scalar>) -> Result<SmallVec<[Scalar; 2]>> {
        let mut metas = smallvec![ArgMeta::Tensor(self.sizes(), self.dtype())];
        metas.extend([lo, hi].into_iter().flatten().map(ArgMeta::Scalar));
        let metas: SmallVec<[ArgMeta<'_>; 3]> = metas;
        let dtype = promote(&metas);
        let within = |number: Scalar, is_low: bool| {
            let Some((low, high)) = dtype.int_range() else {
                return element(number, dtype).map(|_| number);
            };
            let n = number.to_i64();
            match if is_low { n > high } else { n < low } {
                true => Err(Error::argument(format!("{number} does not fit {dtype}"))),
                false => Ok(Scalar::Int(n.clamp(low, high))),
            }
        };
        let lo = lo.map(|number| within(number, true));
        let hi = hi.map(|number| within(number, false));
        lo.into_iter().chain(hi).collect()
    }

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
        let numbers = [&a, &b].into_iter().filter_map(number_of);
        let dtype = || made_as(promote(&[a.meta(), b.meta()]));
        for number in numbers {
            attempt!("where_cond", element(number, dtype()), self);
        }
        Tensor::record(Op::Where, &[Input::Tensor(self), a.input(), b.input()])
    }

    /// `v`, cast to this tensor's dtype, where the mask (of dtype `Bool`) is true, else this tensor; both broadcast. A
    /// number that does not [fit](Scalar::fits) the dtype is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.masked_fill(&x.gt(1.5), -1).to_vec::<f64>()?, [1.0, -1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, v: impl Into<Scalar>) -> Tensor {
        let v = attempt!("masked_fill", element(v.into(), self.dtype()), self, mask);
        let inputs = [Input::Tensor(mask), Input::Scalar(v), Input::Tensor(self)];
        Tensor::record_as("masked_fill", Op::Where, &inputs)
    }

    /// min(max(x, lo), hi); NaN stays, and `hi` wins where `lo > hi`. Limits are numbers or tensors, with which x broadcasts and
    /// promotes; a limit that is NaN gives NaN. Numbers that the result's dtype cannot hold are an error, but those of integers
    /// on the side on which they change nothing. The gradient of a tensor that is a limit is that of [`maximum`](Tensor::maximum) and
    /// [`minimum`](Tensor::minimum): equals share it.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-2.0, 0.5], 2, &Device::cpu());
    /// assert_eq!(x.clamp(-1, 1.0).to_vec::<f64>()?, [-1.0, 0.5]);
    /// let most = Tensor::from_slice(&[-3.0, 0.0], 2, &Device::cpu());
    /// assert_eq!(x.clamp(-1, most).to_vec::<f64>()?, [-3.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn clamp<'a, 'b>(&self, lo: impl Into<Operand<'a>>, hi: impl Into<Operand<'b>>) -> Tensor {
        let (lo, hi) = (lo.into(), hi.into());
        if let (Some(lo), Some(hi)) = (number_of(&lo), number_of(&hi)) {
            let limits = attempt!("clamp", self.limits(Some(lo), Some(hi)), self);
            return self.composite(Composite::Clamp, &limits);
        }
        let raised = self.maximum(lo).called("clamp", &[self]);
        raised.minimum(hi).called("clamp", &[self])
    }

    /// Elements within limits: another name of [`clamp`](Tensor::clamp).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-2.0, 0.5], 2, &Device::cpu());
    /// assert_eq!(x.clip(-1, 1.0).to_vec::<f64>()?, [-1.0, 0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn clip<'a, 'b>(&self, lo: impl Into<Operand<'a>>, hi: impl Into<Operand<'b>>) -> Tensor {
        self.clamp(lo, hi).called("clip", &[self])
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
        let limits = attempt!("clamp_min", self.limits(Some(v.into()), None), self);
        let inputs = [Input::Tensor(self), Input::Scalar(limits[0])];
        Tensor::record_as("clamp_min", Op::Binary(BinaryOp::Maximum), &inputs)
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
        let limits = attempt!("clamp_max", self.limits(None, Some(v.into())), self);
        let inputs = [Input::Tensor(self), Input::Scalar(limits[0])];
        Tensor::record_as("clamp_max", Op::Binary(BinaryOp::Minimum), &inputs)
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
