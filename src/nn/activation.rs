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
