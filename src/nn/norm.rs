//! Normalisations by statistics of each sample.

use super::Module;
use crate::{DType, Device, Error, Shape, Tensor, TensorStruct};

/// [`Tensor::layer_norm`] over the last dimensions, with a learnt scale and shift.
///
/// ```
/// use ferrotrace::nn::{LayerNorm, Module};
/// use ferrotrace::prelude::*;
///
/// let x = Tensor::from_slice(&[1.0f32, 3.0], [1, 2], &Device::cpu());
/// let y = LayerNorm::new(2, &Device::cpu()).forward(&x);
/// assert!((y.to_vec::<f32>()?[1] - 1.0).abs() < 1e-4);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct LayerNorm {
    /// The scale, of the shape that is normalised.
    pub weight: Option<Tensor>,
    /// The shift, of the shape that is normalised.
    pub bias: Option<Tensor>,
    /// How many of the last dimensions are normalised.
    pub dims: usize,
    /// What is added to the variance.
    pub eps: f64,
}

impl LayerNorm {
    /// Over last dimensions of this shape: scale 1, shift 0, in F32; 1e-5 is added to the variance.
    #[track_caller]
    pub fn new(shape: impl Into<Shape>, device: &Device) -> LayerNorm {
        let shape = shape.into();
        LayerNorm {
            dims: shape.rank(),
            bias: Some(Tensor::zeros(&shape, DType::F32, device)),
            weight: Some(Tensor::ones(shape, DType::F32, device)),
            eps: 1e-5,
        }
    }

    /// The layer with another number added to the variance.
    pub fn eps(mut self, eps: f64) -> LayerNorm {
        self.eps = eps;
        self
    }

    /// The layer without its shift.
    pub fn without_bias(mut self) -> LayerNorm {
        self.bias = None;
        self
    }

    /// The layer without scale and shift.
    pub fn without_affine(mut self) -> LayerNorm {
        (self.weight, self.bias) = (None, None);
        self
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.layer_norm(
            self.dims,
            self.weight.as_ref(),
            self.bias.as_ref(),
            self.eps,
        )
    }
}

/// [`Tensor::rms_norm`] over the last dimensions, with a learnt scale.
#[derive(Clone, Debug, TensorStruct)]
pub struct RmsNorm {
    /// The scale, of the shape that is normalised.
    pub weight: Option<Tensor>,
    /// How many of the last dimensions are normalised.
    pub dims: usize,
    /// What is added to the mean square; where none is given, the distance from 1 to the next number of the input's
    /// dtype, as in PyTorch.
    pub eps: Option<f64>,
}

impl RmsNorm {
    /// Over last dimensions of this shape: scale 1, in F32.
    #[track_caller]
    pub fn new(shape: impl Into<Shape>, device: &Device) -> RmsNorm {
        let shape = shape.into();
        RmsNorm {
            dims: shape.rank(),
            weight: Some(Tensor::ones(shape, DType::F32, device)),
            eps: None,
        }
    }

    /// The layer with a number added to the mean square.
    pub fn eps(mut self, eps: f64) -> RmsNorm {
        self.eps = Some(eps);
        self
    }

    /// The layer without its scale.
    pub fn without_affine(mut self) -> RmsNorm {
        self.weight = None;
        self
    }
}

/// The distance from 1 to the next number that a computation in this dtype has: half precision computes in binary32.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    }
}

impl Module for RmsNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        let eps = self.eps.unwrap_or_else(|| epsilon(x.dtype()));
        x.rms_norm(self.dims, self.weight.as_ref(), eps)
    }
}

/// [`Tensor::group_norm`] with a learnt scale and shift for each channel.
#[derive(Clone, Debug, TensorStruct)]
pub struct GroupNorm {
    /// The scale, `[channels]`.
    pub weight: Option<Tensor>,
    /// The shift, `[channels]`.
    pub bias: Option<Tensor>,
    /// Groups of channels.
    pub groups: usize,
    /// What is added to the variance.
    pub eps: f64,
}

impl GroupNorm {
    /// Scale 1, shift 0, in F32; 1e-5 is added to the variance.
    #[track_caller]
    pub fn new(groups: usize, channels: usize, device: &Device) -> GroupNorm {
        GroupNorm {
            weight: Some(Tensor::ones(channels, DType::F32, device)),
            bias: Some(Tensor::zeros(channels, DType::F32, device)),
            groups,
            eps: 1e-5,
        }
    }

    /// The layer with another number added to the variance.
    pub fn eps(mut self, eps: f64) -> GroupNorm {
        self.eps = eps;
        self
    }

    /// The layer without scale and shift.
    pub fn without_affine(mut self) -> GroupNorm {
        (self.weight, self.bias) = (None, None);
        self
    }
}

impl Module for GroupNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.group_norm(
            self.groups,
            self.weight.as_ref(),
            self.bias.as_ref(),
            self.eps,
        )
    }
}

/// [`Tensor::instance_norm`]: `[n, channels, ..]` of three dimensions at least.
#[derive(Clone, Debug, TensorStruct)]
pub struct InstanceNorm {
    /// The scale, `[channels]`.
    pub weight: Option<Tensor>,
    /// The shift, `[channels]`.
    pub bias: Option<Tensor>,
    /// The number of channels.
    pub channels: usize,
    /// What is added to the variance.
    pub eps: f64,
}

impl InstanceNorm {
    /// Without scale and shift, as in PyTorch; 1e-5 is added to the variance.
    pub fn new(channels: usize) -> InstanceNorm {
        InstanceNorm {
            weight: None,
            bias: None,
            channels,
            eps: 1e-5,
        }
    }

    /// The layer with scale 1 and shift 0, in F32, that are learnt.
    #[track_caller]
    pub fn affine(mut self, device: &Device) -> InstanceNorm {
        self.weight = Some(Tensor::ones(self.channels, DType::F32, device));
        self.bias = Some(Tensor::zeros(self.channels, DType::F32, device));
        self
    }

    /// The layer with another number added to the variance.
    pub fn eps(mut self, eps: f64) -> InstanceNorm {
        self.eps = eps;
        self
    }
}

impl Module for InstanceNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        if x.error().is_none() && x.dims().get(1).is_some_and(|&c| c != self.channels) {
            let why = format!("{} channels, not {}", x.dims()[1], self.channels);
            return Tensor::failed("instance_norm", Error::shape(why), &[x]);
        }
        x.instance_norm(self.weight.as_ref(), self.bias.as_ref(), self.eps)
    }
}

/// [`Tensor::local_response_norm`]: elements over a power of what neighbouring channels have at their place.
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct LocalResponseNorm {
    /// How many channels.
    pub size: usize,
    /// The factor of the mean of squares.
    pub alpha: f64,
    /// The power.
    pub beta: f64,
    /// What is added to the mean.
    pub k: f64,
}

impl LocalResponseNorm {
    /// With PyTorch's numbers: alpha 1e-4, beta 0.75, k 1.
    pub fn new(size: usize) -> LocalResponseNorm {
        LocalResponseNorm {
            size,
            alpha: 1e-4,
            beta: 0.75,
            k: 1.0,
        }
    }
}

impl Module for LocalResponseNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.local_response_norm(self.size, self.alpha, self.beta, self.k)
    }
}
