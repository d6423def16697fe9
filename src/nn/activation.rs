//! Activations as layers: for [`Sequential`](super::Sequential) and tuples of layers.

use super::Module;
use crate::{Tensor, TensorStruct};

macro_rules! activations {
    ($($name:ident $method:ident;)*) => {$(
        #[doc = concat!("[`Tensor::", stringify!($method), "`].")]
        #[derive(Clone, Copy, Debug, Default, TensorStruct)]
        pub struct $name;

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method()
            }
        }
    )*};
}

activations! {
    Gelu gelu;
    GeluTanh gelu_tanh;
    HardSigmoid hardsigmoid;
    HardSwish hardswish;
    HardTanh hardtanh;
    LogSigmoid logsigmoid;
    Mish mish;
    Relu relu;
    Relu6 relu6;
    Selu selu;
    Sigmoid sigmoid;
    Silu silu;
    Softplus softplus;
    Softsign softsign;
    Tanh tanh;
    Tanhshrink tanhshrink;
}

macro_rules! with_slope {
    ($($name:ident $method:ident $default:literal;)*) => {$(
        #[doc = concat!("[`Tensor::", stringify!($method), "`].")]
        #[derive(Clone, Copy, Debug, TensorStruct)]
        pub struct $name {
            /// The method's argument.
            pub a: f64,
        }

        impl Default for $name {
            #[doc = concat!("PyTorch's default, ", stringify!($default), ".")]
            fn default() -> $name {
                $name { a: $default }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.a)
            }
        }
    )*};
}

with_slope! {
    Celu celu 1.0;
    Elu elu 1.0;
    Hardshrink hardshrink 0.5;
    LeakyRelu leaky_relu 0.01;
    Softshrink softshrink 0.5;
}

macro_rules! along {
    ($($name:ident $method:ident;)*) => {$(
        #[doc = concat!("[`Tensor::", stringify!($method), "`] along a dimension.")]
        #[derive(Clone, Copy, Debug, TensorStruct)]
        pub struct $name {
            /// The dimension; negative numbers count from the end.
            pub dim: isize,
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.dim)
            }
        }
    )*};
}

along! {
    Glu glu;
    LogSoftmax log_softmax;
    Softmax softmax;
    Softmin softmin;
}

/// x where it is above a threshold, else a value: [`Tensor::threshold`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct Threshold {
    /// Up to which elements are replaced.
    pub threshold: f64,
    /// By what.
    pub value: f64,
}

impl Module for Threshold {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.threshold(self.threshold, self.value)
    }
}

/// x where it is positive, else `weight`·x: one learnt slope, or one a channel (dimension 1)
/// ([He et al. 2015](https://arxiv.org/abs/1502.01852)).
#[derive(Clone, Debug, TensorStruct)]
pub struct PRelu {
    /// `[1]` or `[channels]`.
    pub weight: Tensor,
}

impl PRelu {
    /// Slopes of 0.25, in F32.
    #[track_caller]
    pub fn new(slopes: usize, device: &crate::Device) -> PRelu {
        PRelu {
            weight: Tensor::full(slopes, 0.25, crate::DType::F32, device),
        }
    }
}

impl Module for PRelu {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.prelu(&self.weight)
    }
}

/// x where it is positive, else x times a slope: in training one drawn uniformly in [`lower`, `upper`) for each element,
/// else their mean ([Xu et al. 2015](https://arxiv.org/abs/1505.00853)).
///
/// ```
/// use ferrotrace::nn::{Module, RRelu};
/// use ferrotrace::prelude::*;
///
/// let mut layer = RRelu::default();
/// let x = Tensor::from_slice(&[-24.0f32, 2.0], 2, &Device::cpu());
/// let y = layer.forward(&x).to_vec::<f32>()?;
/// assert!((-8.0..=-3.0).contains(&y[0]) && y[1] == 2.0);
/// layer.training = false;
/// assert_eq!(layer.forward(&x).to_vec::<f32>()?, [-5.5, 2.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct RRelu {
    /// The least slope.
    pub lower: f64,
    /// What slopes are less than.
    pub upper: f64,
    /// Whether slopes are drawn.
    pub training: bool,
}

impl Default for RRelu {
    /// Slopes from 1/8 to 1/3, in training.
    fn default() -> RRelu {
        RRelu::new(0.125, 1.0 / 3.0)
    }
}

impl RRelu {
    /// A layer in training.
    pub fn new(lower: f64, upper: f64) -> RRelu {
        RRelu {
            lower,
            upper,
            training: true,
        }
    }
}

impl Module for RRelu {
    fn forward(&self, x: &Tensor) -> Tensor {
        match self.training {
            true => {
                let slopes = x.rand_like() * (self.upper - self.lower) + self.lower;
                x.gt(0).where_cond(x, x * slopes)
            }
            false => x.leaky_relu((self.lower + self.upper) / 2.0),
        }
    }
}

/// All dimensions from one to another as one: [`Tensor::flatten`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct Flatten {
    /// The first dimension.
    pub start: isize,
    /// The last dimension.
    pub end: isize,
}

impl Default for Flatten {
    /// All but the first.
    fn default() -> Flatten {
        Flatten { start: 1, end: -1 }
    }
}

impl Module for Flatten {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.flatten(self.start, self.end)
    }
}

/// The input.
#[derive(Clone, Copy, Debug, Default, TensorStruct)]
pub struct Identity;

impl Module for Identity {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}
