//! Softmax and the normalisations.

use super::attempt;
use crate::Tensor;
use crate::args::Dim;
use ferrotrace_kernels::{Composite, Op};
use ferrotrace_runtime::Scalar;

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
        self.apply(Op::Composite(Composite::Softmax { dim }))
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
        self.apply(Op::Composite(Composite::LogSoftmax { dim }))
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
        let op = Composite::LayerNorm {
            n: n_dims,
            weight: weight.is_some(),
            bias: bias.is_some(),
        };
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
        let op = Composite::RmsNorm {
            n: n_dims,
            weight: weight.is_some(),
        };
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
        let op = Composite::GroupNorm {
            groups,
            weight: weight.is_some(),
            bias: bias.is_some(),
        };
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
        let op = Composite::BatchNorm {
            weight: weight.is_some(),
            bias: bias.is_some(),
        };
        self.with_tensors(op, &[Some(mean), Some(var), weight, bias], &[eps.into()])
    }
}
