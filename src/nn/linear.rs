//! Linear and bilinear layers.

use super::{Init, Module};
use crate::{DType, Device, Tensor, TensorStruct};

/// x·wᵀ + b of the last dimension: `[.., in]` to `[.., out]`.
///
/// ```
/// use ferrotrace::nn::{Linear, Module};
/// use ferrotrace::prelude::*;
///
/// let layer = Linear::new(3, 2, &Device::cpu());
/// let x = Tensor::ones([5, 3], DType::F32, &Device::cpu());
/// assert_eq!(layer.forward(&x).dims(), [5, 2]);
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
}

impl Linear {
    /// Weight and bias uniform in ±1/√in, in F32.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, device: &Device) -> Linear {
        let init = Init::within(bound(inputs));
        Linear {
            weight: init.tensor([outputs, inputs], DType::F32, device),
            bias: Some(init.tensor(outputs, DType::F32, device)),
        }
    }

    /// The layer without its bias.
    pub fn without_bias(mut self) -> Linear {
        self.bias = None;
        self
    }
}

/// 1/√n, the bound that layers draw their first values within; 0 where nothing is connected.
pub(super) fn bound(connections: usize) -> f64 {
    match connections {
        0 => 0.0,
        n => 1.0 / (n as f64).sqrt(),
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.linear(&self.weight, self.bias.as_ref())
    }
}

/// x₁·w·x₂ + b for each output's matrix w: `[.., in1]` and `[.., in2]` to `[.., out]`.
#[derive(Clone, Debug, TensorStruct)]
pub struct Bilinear {
    /// `[out, in1, in2]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
}

impl Bilinear {
    /// Weight and bias uniform in ±1/√in1, in F32.
    #[track_caller]
    pub fn new(first: usize, second: usize, outputs: usize, device: &Device) -> Bilinear {
        let init = Init::within(bound(first));
        Bilinear {
            weight: init.tensor([outputs, first, second], DType::F32, device),
            bias: Some(init.tensor(outputs, DType::F32, device)),
        }
    }

    /// The layer without its bias.
    pub fn without_bias(mut self) -> Bilinear {
        self.bias = None;
        self
    }

    /// The form of both inputs, which agree in all dimensions but the last.
    ///
    /// ```
    /// use ferrotrace::nn::Bilinear;
    /// use ferrotrace::prelude::*;
    ///
    /// let layer = Bilinear::new(3, 4, 2, &Device::cpu());
    /// let ones = |n| Tensor::ones([5, n], DType::F32, &Device::cpu());
    /// assert_eq!(layer.forward(&ones(3), &ones(4)).dims(), [5, 2]);
    /// ```
    #[track_caller]
    pub fn forward(&self, first: &Tensor, second: &Tensor) -> Tensor {
        let product = Tensor::einsum("...i,oij,...j->...o", &[first, &self.weight, second]);
        match &self.bias {
            Some(bias) => product + bias,
            None => product,
        }
    }
}
