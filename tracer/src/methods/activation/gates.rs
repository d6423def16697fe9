//! Activations that others express: gates, and thresholds below which nothing passes.

use super::super::attempt;
use crate::Tensor;
use crate::args::Dim;
use ferrotrace_runtime::{DType, Error, Result, Scalar};

impl Tensor {
    /// This tensor of floats in the dtype of its arithmetic, for the method of this name.
    ///
    /// # Errors
    /// It carries an error, or is not of floats.
    #[track_caller]
    pub(in crate::methods) fn as_floats(&self, name: &str) -> Result<Tensor> {
        self.check()?;
        match self.dtype().is_float() {
            true => Ok(self.to_dtype(self.dtype().compute())),
            false => Err(Error::untaken(name, self.dtype(), DType::F32)),
        }
    }

    /// A sample of the Gumbel-softmax distribution of logits along a dimension ([Jang et al. 2016](https://arxiv.org/abs/1611.01144)):
    /// the softmax at temperature `tau` of the logits with Gumbel noise. `hard` gives the most likely class alone, 1 among zeros,
    /// with the gradient of the soft sample. A temperature that is not positive is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let logits = Tensor::zeros([4, 3], DType::F32, &Device::cpu());
    /// let drawn = logits.gumbel_softmax(0.5, true, 1);
    /// assert_eq!(drawn.sum(1).to_vec::<f32>()?, [1.0; 4]);
    /// assert_eq!(drawn.max(1).to_vec::<f32>()?, [1.0; 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn gumbel_softmax(&self, tau: f64, hard: bool, dim: impl Into<Dim>) -> Tensor {
        let drawn = self.gumbel(tau, hard, dim.into());
        attempt!("gumbel_softmax", drawn, self).called("gumbel_softmax", &[self])
    }

    #[track_caller]
    fn gumbel(&self, tau: f64, hard: bool, dim: Dim) -> Result<Tensor> {
        let x = self.as_floats("gumbel_softmax")?;
        let dim = dim.wrap_along(x.rank())?;
        if tau.is_nan() || tau <= 0.0 {
            let why = format!("the temperature is {tau}: it must be positive");
            return Err(Error::argument(why));
        }
        // A uniform number of 0 has no logarithm.
        let uniform = x.rand_like().clamp_min(f64::from(f32::MIN_POSITIVE));
        let noise = -(-uniform.log()).log();
        let soft = ((x + noise) / tau).softmax(dim);
        if !hard {
            return Ok(soft.to_dtype(self.dtype()));
        }
        let best = soft.detach().argmax_keepdim(dim);
        let one = Tensor::ones_like(&best).to_dtype(soft.dtype());
        let chosen = soft.detach().zeros_like().scatter(dim, &best, &one);
        // The difference of the soft sample and itself is 0, and has its gradient.
        Ok((chosen + (&soft - soft.detach())).to_dtype(self.dtype()))
    }

    /// The gated linear unit: the first half of a dimension times the sigmoid of the second, of floats
    /// ([Dauphin et al. 2016](https://arxiv.org/abs/1612.08083)). A dimension of an odd size is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3.0, 5.0, 0.0, 0.0], 4, &Device::cpu());
    /// assert_eq!(x.glu(-1).to_vec::<f64>()?, [1.5, 2.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn glu(&self, dim: impl Into<Dim>) -> Tensor {
        attempt!("glu", self.gated(dim.into()), self).called("glu", &[self])
    }

    #[track_caller]
    fn gated(&self, dim: Dim) -> Result<Tensor> {
        let x = self.as_floats("glu")?;
        let dim = dim.wrap(self.rank())?;
        let size = self.shape()[dim];
        if !size.is_multiple_of(2) {
            let why = format!("dimension {dim} of {} has no halves", self.shape());
            return Err(Error::shape(why));
        }
        let half = size / 2;
        let gate = x.narrow(dim, half as isize, half).sigmoid();
        Ok((x.narrow(dim, 0, half) * gate).to_dtype(self.dtype()))
    }

    /// The [`softmax`](Tensor::softmax) of −x along a dimension.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 1.0], 2, &Device::cpu());
    /// assert_eq!(x.softmin(0).to_vec::<f64>()?, [0.5, 0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn softmin(&self, dim: impl Into<Dim>) -> Tensor {
        self.neg().softmax(dim).called("softmin", &[self])
    }

    /// x − tanh(x), of floats.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 100.0], 2, &Device::cpu());
    /// assert_eq!(x.tanhshrink().to_vec::<f64>()?, [0.0, 99.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn tanhshrink(&self) -> Tensor {
        let x = attempt!("tanhshrink", self.as_floats("tanhshrink"), self);
        (&x - x.tanh()).to_dtype(self.dtype())
    }

    /// x, or 0 from −`lambda` to `lambda`; of floats.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-1.0, 0.5, 2.0], 3, &Device::cpu());
    /// assert_eq!(x.hardshrink(0.5).to_vec::<f64>()?, [-1.0, 0.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn hardshrink(&self, lambda: f64) -> Tensor {
        let x = attempt!("hardshrink", self.as_floats("hardshrink"), self);
        let within = x.ge(-lambda).logical_and(&x.le(lambda));
        within.where_cond(0.0, &x).to_dtype(self.dtype())
    }

    /// x brought nearer to 0 by `lambda`, 0 from −`lambda` to `lambda`; of floats. NaN stays. A negative `lambda` is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-1.0, 0.5, 2.0], 3, &Device::cpu());
    /// assert_eq!(x.softshrink(0.5).to_vec::<f64>()?, [-0.5, 0.0, 1.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn softshrink(&self, lambda: f64) -> Tensor {
        let x = attempt!("softshrink", self.as_floats("softshrink"), self);
        if lambda.is_nan() || lambda < 0.0 {
            let why = format!("lambda is {lambda}: it must not be negative");
            return Tensor::failed("softshrink", Error::argument(why), &[self]);
        }
        let low = x.lt(-lambda).where_cond(&(&x + lambda), &(&x * 0.0));
        let y = x.gt(lambda).where_cond(&(&x - lambda), &low);
        y.to_dtype(self.dtype())
    }

    /// x where it is above `threshold`, or NaN, else `value`; of the same dtype.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.5, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.threshold(1.0, -7.0).to_vec::<f64>()?, [-7.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn threshold(&self, threshold: impl Into<Scalar>, value: impl Into<Scalar>) -> Tensor {
        let below = self.le(threshold.into());
        let y = below.where_cond(value.into(), self).to_dtype(self.dtype());
        y.called("threshold", &[self])
    }

    /// x where it is positive, else `weight`·x: one slope, or one a channel, which are dimension 1
    /// ([He et al. 2015](https://arxiv.org/abs/1502.01852)). Both are of one dtype of floats.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-4.0, -4.0, 2.0, 3.0], [2, 2], &Device::cpu());
    /// let weight = Tensor::from_slice(&[0.5, 0.25], 2, &Device::cpu());
    /// assert_eq!(x.prelu(&weight).to_vec::<f64>()?, [-2.0, -1.0, 2.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn prelu(&self, weight: &Tensor) -> Tensor {
        let slopes = attempt!("prelu", self.slopes(weight), self, weight);
        let y = self.gt(0).where_cond(self, &(self * slopes));
        y.called("prelu", &[self, weight])
    }

    /// Slopes in a shape that broadcasts along the channels.
    #[track_caller]
    fn slopes(&self, weight: &Tensor) -> Result<Tensor> {
        self.as_floats("prelu")?;
        weight.check()?;
        let channels = match self.shape()[..] {
            [] => 1,
            [n] => n,
            [_, n, ..] => n,
        };
        let n = weight.numel();
        if weight.rank() > 1 || (n != 1 && n != channels) || weight.dtype() != self.dtype() {
            let why = format!(
                "slopes {} {} for {} {}",
                weight.dtype(),
                weight.shape(),
                self.dtype(),
                self.shape()
            );
            return Err(Error::shape(why));
        }
        let mut shape = vec![1; self.rank()];
        match shape.len() {
            0 => {}
            1 => shape[0] = n,
            _ => shape[1] = n,
        }
        Ok(weight.reshape(shape))
    }
}
