//! Random tensors: from the process-wide generator ([`manual_seed`](crate::manual_seed)) here, from another
//! [`Generator`](crate::Generator) by its own methods.

mod counts;
mod distributions;
mod gamma;
mod generator;

use super::attempt;
use crate::generator::process;
use crate::trace;
use crate::{Input, Tensor};
use ferrotrace_kernels::op::Dropout;
use ferrotrace_kernels::{Composite, Op};
use ferrotrace_runtime::{DType, Device, Error, Shape};

impl Tensor {
    /// Numbers uniform in [0, 1), of a floating-point dtype.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::rand([2, 3], DType::F32, &Device::cpu());
    /// assert!(x.to_vec::<f32>()?.iter().all(|x| (0.0..1.0).contains(x)));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn rand(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Tensor {
        process().rand(shape, dtype, device)
    }

    /// Standard normal numbers, of a floating-point dtype.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::randn(1000, DType::F32, &Device::cpu());
    /// assert!(x.mean(..).to_scalar::<f32>()?.abs() < 0.5);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn randn(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Tensor {
        process().randn(shape, dtype, device)
    }

    /// Integers uniform in `lo..hi`, of any dtype; an error where there are none.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::randint(-2, 3, 50, DType::I64, &Device::cpu());
    /// assert!(x.to_vec::<i64>()?.iter().all(|x| (-2..3).contains(x)));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn randint(
        lo: i64,
        hi: i64,
        shape: impl Into<Shape>,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        process().randint(lo, hi, shape, dtype, device)
    }

    /// 1 with probability `p`, else 0; an error where `p` is outside [0, 1].
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::bernoulli(1.0, 3, DType::F32, &Device::cpu());
    /// assert_eq!(x.to_vec::<f32>()?, [1.0; 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn bernoulli(p: f64, shape: impl Into<Shape>, dtype: DType, device: &Device) -> Tensor {
        process().bernoulli(p, shape, dtype, device)
    }

    /// The integers `0..n` in random order, as `I64`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::randperm(3, &Device::cpu());
    /// assert_eq!(x.sort(0, false).0.to_vec::<i64>()?, [0, 1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn randperm(n: usize, device: &Device) -> Tensor {
        process().randperm(n, device)
    }

    /// Positions (`I64`) along the last dimension, drawn with probabilities in proportion to this tensor's floats, which need
    /// not sum to 1: `n` of each row, `[m]` giving `[n]` and `[rows, m]` giving `[rows, n]`. Without replacement no position is
    /// drawn twice, and more than there are is an error.
    ///
    /// Weights are not read: where one is negative, infinite or NaN, or fewer than are drawn (one, with replacement) are
    /// positive, positions have no meaning.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let weights = Tensor::from_slice(&[0.0, 3.0, 1.0], 3, &Device::cpu());
    /// let drawn = weights.multinomial(10, true).to_vec::<i64>()?;
    /// assert!(drawn.iter().all(|at| (1..3).contains(at)));
    /// let both = weights.multinomial(2, false).sort(0, false).0;
    /// assert_eq!(both.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn multinomial(&self, n: usize, replacement: bool) -> Tensor {
        process().multinomial(self, n, replacement)
    }

    /// Numbers uniform in [0, 1) of this tensor's shape, dtype and device.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([2, 3], DType::F32, &Device::cpu());
    /// assert_eq!(x.rand_like().dims(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn rand_like(&self) -> Tensor {
        attempt!("rand_like", self.check(), self);
        let _trace = trace::follow(self.node());
        Tensor::rand(self.shape(), self.dtype(), &self.device()).called("rand_like", &[self])
    }

    /// Standard normal numbers of this tensor's shape, dtype and device.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([2, 3], DType::F32, &Device::cpu());
    /// assert_eq!(x.randn_like().dims(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn randn_like(&self) -> Tensor {
        attempt!("randn_like", self.check(), self);
        let _trace = trace::follow(self.node());
        Tensor::randn(self.shape(), self.dtype(), &self.device()).called("randn_like", &[self])
    }

    /// Each element zeroed with probability `p`, the others scaled by 1 / (1 − p); an error where `p` is outside
    /// [0, 1]. At p = 0 nothing is drawn.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones(100, DType::F32, &Device::cpu()).dropout(0.5);
    /// assert!(x.to_vec::<f32>()?.iter().all(|&x| x == 0.0 || x == 2.0));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn dropout(&self, p: f64) -> Tensor {
        attempt!("dropout", self.check(), self);
        if !(0.0..=1.0).contains(&p) {
            let why = Error::argument(format!("{p} is no probability"));
            return Tensor::failed("dropout", why, &[self]);
        }
        if p == 0.0 {
            return self.clone();
        }
        let _trace = trace::follow(self.node());
        let [key, offset] = process().take(self.sizes().numel());
        let op = Op::Composite(Composite::Dropout(Dropout { p: p.to_bits() }));
        Tensor::record(op, &[Input::Tensor(self), key, offset])
    }
}
