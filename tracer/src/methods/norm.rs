//! Softmax and the normalisations.

mod channels;

use super::attempt;
use crate::Tensor;
use crate::args::{Dim, Dims};
use ferrotrace_kernels::op::{BatchNorm, GroupNorm, LayerNorm, LogSoftmax, Norm, RmsNorm, Softmax};
use ferrotrace_kernels::{Composite, Op};
use ferrotrace_runtime::{DType, Error, Result, Scalar};

impl Tensor {
    /// eˣ / Σ eˣ along a dimension, without overflow.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1000.0, 1000.0], 2, &Device::cpu());
    /// assert_eq!(x.softmax(-1).to_vec::<f64>()?, [0.5, 0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn softmax(&self, dim: impl Into<Dim>) -> Tensor {
        let dim = attempt!("softmax", dim.into().wrap_along(self.rank()), self);
        self.apply(Op::Composite(Composite::Softmax(Softmax { dim })))
    }

    /// x − log Σ eˣ along a dimension: the logarithm of [`softmax`](Tensor::softmax).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 0.0], 2, &Device::cpu());
    /// let y = Tensor::full(2, 0.5, DType::F64, &Device::cpu()).log();
    /// assert!(x.log_softmax(-1).allclose(&y, 1e-6, 1e-6)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn log_softmax(&self, dim: impl Into<Dim>) -> Tensor {
        let dim = attempt!("log_softmax", dim.into().wrap_along(self.rank()), self);
        self.apply(Op::Composite(Composite::LogSoftmax(LogSoftmax { dim })))
    }

    /// x / max(‖x‖ₚ, eps) of floats, with the [`norm`](Tensor::norm) of order `p` over dimensions: each has the norm 1, or less
    /// where its norm was below `eps`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3.0, 4.0, 0.0, 0.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.normalize(2.0, -1, 1e-12).to_vec::<f64>()?, [0.6, 0.8, 0.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn normalize(&self, p: f64, dim: impl Into<Dims>, eps: impl Into<Scalar>) -> Tensor {
        let (dtype, dims) = (self.dtype(), dim.into());
        let checked = self.check().and_then(|()| match dtype.is_float() {
            true => dims.reduced(self.rank()),
            false => Err(Error::untaken("normalize", dtype, DType::F32)),
        });
        let norm = Norm {
            p: p.to_bits(),
            mask: attempt!("normalize", checked, self),
            keepdim: true,
        };
        let wide = self.to_dtype(dtype.compute());
        let size = wide.apply(Op::Composite(Composite::Norm(norm)));
        let y = &wide / size.clamp_min(eps);
        y.to_dtype(dtype).called("normalize", &[self])
    }

    /// (x − mean) / √(var + eps) over the last `n_dims` dimensions, then times `weight` plus `bias` of their shape
    /// ([Ba et al. 2016](https://arxiv.org/abs/1607.06450)).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 3.0], [1, 2], &Device::cpu());
    /// assert_eq!(x.layer_norm(1, None, None, 0.0).to_vec::<f64>()?, [-1.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn layer_norm(
        &self,
        n_dims: usize,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: impl Into<Scalar>,
    ) -> Tensor {
        let op = Composite::LayerNorm(LayerNorm {
            n: n_dims,
            weight: weight.is_some(),
            bias: bias.is_some(),
        });
        self.with_tensors(op, &[weight, bias], &[eps.into()])
    }

    /// x / √(mean(x²) + eps) over the last `n_dims` dimensions, then times `weight` of their shape
    /// ([Zhang & Sennrich 2019](https://arxiv.org/abs/1910.07467)).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[7.0, -1.0], [1, 2], &Device::cpu());
    /// let expected = Tensor::from_slice(&[1.4, -0.2], [1, 2], &Device::cpu());
    /// assert!(x.rms_norm(1, None, 0.0).allclose(&expected, 1e-12, 0.0)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn rms_norm(
        &self,
        n_dims: usize,
        weight: Option<&Tensor>,
        eps: impl Into<Scalar>,
    ) -> Tensor {
        let op = Composite::RmsNorm(RmsNorm {
            n: n_dims,
            weight: weight.is_some(),
        });
        self.with_tensors(op, &[weight], &[eps.into()])
    }

    /// (x − mean) / √(var + eps) over each of `groups` groups of channels (dimension 1) and all later dimensions,
    /// then times `weight` plus `bias`, one number a channel ([Wu & He 2018](https://arxiv.org/abs/1803.08494)).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 3.0, 2.0, 6.0], [1, 4, 1], &Device::cpu());
    /// assert_eq!(x.group_norm(2, None, None, 0.0).to_vec::<f64>()?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn group_norm(
        &self,
        groups: usize,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: impl Into<Scalar>,
    ) -> Tensor {
        let op = Composite::GroupNorm(GroupNorm {
            groups,
            weight: weight.is_some(),
            bias: bias.is_some(),
        });
        self.with_tensors(op, &[weight, bias], &[eps.into()])
    }

    /// (x − mean) / √(var + eps) with statistics that are given, one number a channel (dimension 1), then times
    /// `weight` plus `bias` ([Ioffe & Szegedy 2015](https://arxiv.org/abs/1502.03167)).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 4.0], [1, 2], &Device::cpu());
    /// let mean = Tensor::from_slice(&[0.0, 2.0], 2, &Device::cpu());
    /// let var = Tensor::from_slice(&[1.0, 4.0], 2, &Device::cpu());
    /// assert_eq!(x.batch_norm(&mean, &var, None, None, 0.0).to_vec::<f64>()?, [1.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm(
        &self,
        mean: &Tensor,
        var: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: impl Into<Scalar>,
    ) -> Tensor {
        let op = Composite::BatchNorm(BatchNorm {
            weight: weight.is_some(),
            bias: bias.is_some(),
        });
        self.with_tensors(op, &[Some(mean), Some(var), weight, bias], &[eps.into()])
    }

    /// (x − mean) / √(var + eps) over all dimensions behind the channels (dimension 1) of each sample, then times `weight`
    /// plus `bias`, one number a channel ([Ulyanov et al. 2016](https://arxiv.org/abs/1607.08022)).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 3.0, 2.0, 6.0], [1, 2, 2], &Device::cpu());
    /// assert_eq!(x.instance_norm(None, None, 0.0).to_vec::<f64>()?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn instance_norm(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: impl Into<Scalar>,
    ) -> Tensor {
        let operands: Vec<&Tensor> = [Some(self), weight, bias].into_iter().flatten().collect();
        if let Err(error) = self.check_spatial(3) {
            return Tensor::failed("instance_norm", error, &operands);
        }
        // A group a channel. No channels are one group of none.
        let groups = self.shape()[1].max(1);
        self.group_norm(groups, weight, bias, eps)
            .called("instance_norm", &operands)
    }

    /// # Errors
    /// The tensor has fewer dimensions.
    fn check_spatial(&self, least: usize) -> Result<()> {
        self.check()?;
        if self.rank() >= least {
            return Ok(());
        }
        let why = format!(
            "an input of {least} dimensions at least, not {}",
            self.sizes()
        );
        Err(Error::shape(why))
    }

    /// Batch norm by the batch's own statistics, as in training: the result, and the mean and the variance of each channel
    /// (dimension 1) that it was computed with, in F32 of half-precision tensors. The variance is over all n elements of a
    /// channel; a running variance takes n / (n − 1) of it. See [`batch_norm`](Tensor::batch_norm).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 6.0], [2, 2], &Device::cpu());
    /// let (y, mean, var) = x.batch_norm_training(None, None, 0.0);
    /// assert_eq!(y.to_vec::<f64>()?, [-1.0, -1.0, 1.0, 1.0]);
    /// assert_eq!((mean.to_vec::<f64>()?, var.to_vec::<f64>()?), (vec![2.0, 4.0], vec![1.0, 4.0]));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm_training(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: impl Into<Scalar>,
    ) -> (Tensor, Tensor, Tensor) {
        const NAME: &str = "batch_norm_training";
        let operands: Vec<&Tensor> = [Some(self), weight, bias].into_iter().flatten().collect();
        let checked = self.check_spatial(2).and_then(|()| match self.dtype() {
            dtype if dtype.is_float() => Ok(()),
            dtype => Err(Error::untaken(NAME, dtype, DType::F32)),
        });
        if let Err(error) = checked {
            let failed = Tensor::failed(NAME, error, &operands);
            return (failed.clone(), failed.clone(), failed);
        }
        let dims: Vec<usize> = (0..self.rank()).filter(|&d| d != 1).collect();
        let wide = self.to_dtype(self.dtype().compute());
        let (var, mean) = wide.var_mean(&dims[..], 0);
        let y = self.batch_norm(&mean, &var, weight, bias, eps);
        (
            y.called(NAME, &operands),
            mean.called(NAME, &operands),
            var.called(NAME, &operands),
        )
    }
}
