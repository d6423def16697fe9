//! Normalisation by statistics of a batch, and by running ones.

use super::Module;
use crate::{Buffer, DType, Device, Error, Tensor, TensorStruct, no_grad};

/// Batch norm ([Ioffe & Szegedy 2015](https://arxiv.org/abs/1502.03167)) of channels (dimension 1), of two dimensions at
/// least. In training by the batch's own mean and variance, which also move the running ones; else by these.
///
/// The running statistics are [`Buffer`]s: `forward` writes them. A compiled function is given a model in training as an
/// argument, by reference, or by value and then gives it back; it does not capture it.
///
/// ```
/// use ferrotrace::nn::{BatchNorm2d, Module};
/// use ferrotrace::prelude::*;
///
/// let device = Device::cpu();
/// let model = BatchNorm2d::new(1, &device);
/// let step = jit(|(model, x): (&BatchNorm2d, &Tensor)| model.forward(x));
/// let x = Tensor::full([2, 1, 2, 2], 3.0, DType::F32, &device);
/// assert_eq!(step.call((&model, &x)).to_vec::<f32>()?, [0.0; 8]);
/// assert!((model.running_mean.get().item::<f32>()? - 0.3).abs() < 1e-6);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct BatchNorm {
    /// The scale, `[channels]`.
    pub weight: Option<Tensor>,
    /// The shift, `[channels]`.
    pub bias: Option<Tensor>,
    /// The running mean, `[channels]`.
    pub running_mean: Buffer,
    /// The running variance, `[channels]`.
    pub running_var: Buffer,
    /// Batches so far: 0-d, I64.
    pub num_batches_tracked: Buffer,
    /// What is added to the variance.
    pub eps: f64,
    /// The part of a batch's statistics in the running ones; where none is given, these are means over all batches.
    pub momentum: Option<f64>,
    /// Whether the batch's own statistics are used.
    pub training: bool,
}

/// Of `[n, channels]` or `[n, channels, length]`.
pub type BatchNorm1d = BatchNorm;

/// Of `[n, channels, height, width]`.
pub type BatchNorm2d = BatchNorm;

/// Of `[n, channels, depth, height, width]`.
pub type BatchNorm3d = BatchNorm;

impl BatchNorm {
    /// Scale 1, shift 0, running mean 0 and variance 1, in F32; 1e-5 is added to the variance, and a tenth of a batch's
    /// statistics goes into the running ones.
    #[track_caller]
    pub fn new(channels: usize, device: &Device) -> BatchNorm {
        let zeros = || Tensor::zeros(channels, DType::F32, device);
        let ones = || Tensor::ones(channels, DType::F32, device);
        BatchNorm {
            weight: Some(ones()),
            bias: Some(zeros()),
            running_mean: Buffer::new(zeros()),
            running_var: Buffer::new(ones()),
            num_batches_tracked: Buffer::new(Tensor::zeros((), DType::I64, device)),
            eps: 1e-5,
            momentum: Some(0.1),
            training: true,
        }
    }

    /// The layer with another number added to the variance.
    pub fn eps(mut self, eps: f64) -> BatchNorm {
        self.eps = eps;
        self
    }

    /// The layer with another part of a batch's statistics in the running ones.
    pub fn momentum(mut self, momentum: Option<f64>) -> BatchNorm {
        self.momentum = momentum;
        self
    }

    /// The layer without scale and shift.
    pub fn without_affine(mut self) -> BatchNorm {
        (self.weight, self.bias) = (None, None);
        self
    }

    /// Moves the running statistics towards a batch's, of `count` numbers a channel.
    #[track_caller]
    fn note(&self, mean: &Tensor, var: &Tensor, count: usize) -> Result<(), Error> {
        let batches = self.num_batches_tracked.get() + 1;
        // The variance over n − 1, as far as there is one.
        let unbiased = count as f64 / (count as f64 - 1.0).max(1.0);
        let towards = |old: Tensor, new: Tensor| {
            let new = new.to_dtype(old.dtype());
            match self.momentum {
                Some(momentum) => &old + (new - &old) * momentum,
                None => &old + (new - &old) / &batches,
            }
        };
        self.running_mean
            .set(towards(self.running_mean.get(), mean.clone()))?;
        self.running_var
            .set(towards(self.running_var.get(), var * unbiased))?;
        self.num_batches_tracked.set(batches)
    }
}

impl Module for BatchNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        if !self.training {
            let (mean, var) = (self.running_mean.get(), self.running_var.get());
            return x.batch_norm(&mean, &var, weight, bias, self.eps);
        }
        let (y, mean, var) = x.batch_norm_training(weight, bias, self.eps);
        if y.error().is_some() {
            return y;
        }
        let channels = x.dims().get(1).copied().unwrap_or(1).max(1);
        match no_grad(|| self.note(&mean, &var, x.numel() / channels)) {
            Ok(()) => y,
            Err(error) => Tensor::failed("batch_norm", error, &[x]),
        }
    }
}
