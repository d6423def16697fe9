//! Tensors of another shape that are like a tensor otherwise.

use super::super::attempt;
use crate::Tensor;
use ferrotrace_runtime::{Scalar, Shape};

impl Tensor {
    /// A tensor of this one's shape, dtype and device whose elements are to be replaced: they are zeros, as
    /// [`empty`](Tensor::empty) has them.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 3], DType::F16, &Device::cpu());
    /// assert_eq!(x.empty_like().dims(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn empty_like(&self) -> Tensor {
        attempt!("empty_like", self.check(), self);
        let made = Tensor::empty(self.shape(), self.dtype(), &self.device());
        made.called("empty_like", &[self])
    }

    /// Zeros of this tensor's dtype and device, of another shape.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones(2, DType::I64, &Device::cpu());
    /// assert_eq!(x.new_zeros(3).to_vec::<i64>()?, [0, 0, 0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn new_zeros(&self, shape: impl Into<Shape>) -> Tensor {
        self.new_full(shape, 0).called("new_zeros", &[self])
    }

    /// Ones of this tensor's dtype and device, of another shape.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(2, DType::I64, &Device::cpu());
    /// assert_eq!(x.new_ones((1, 2)).to_vec::<i64>()?, [1, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn new_ones(&self, shape: impl Into<Shape>) -> Tensor {
        self.new_full(shape, 1).called("new_ones", &[self])
    }

    /// One number, which has to [fit](Scalar::fits) this tensor's dtype, in another shape, of this tensor's dtype and device.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(2, DType::I64, &Device::cpu());
    /// assert_eq!(x.new_full([3], 7).to_vec::<i64>()?, [7, 7, 7]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn new_full(&self, shape: impl Into<Shape>, v: impl Into<Scalar>) -> Tensor {
        attempt!("new_full", self.check(), self);
        let made = Tensor::full(shape, v, self.dtype(), &self.device());
        made.called("new_full", &[self])
    }
}
