//! Blocks of encoders and decoders ([Vaswani et al. 2017](https://arxiv.org/abs/1706.03762)), with PyTorch's names.

mod decoder;
mod encoder;
mod model;

pub use decoder::{TransformerDecoder, TransformerDecoderLayer};
pub use encoder::{TransformerEncoder, TransformerEncoderLayer};
pub use model::Transformer;

use super::{Dropout, LayerNorm, Linear, Module, MultiHeadAttention};
use crate::{Device, Tensor, TensorStruct};

/// What stands between the two linear layers of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, TensorStruct)]
pub enum Activation {
    /// [`Tensor::relu`].
    #[default]
    Relu,
    /// [`Tensor::gelu`].
    Gelu,
    /// [`Tensor::gelu_tanh`].
    GeluTanh,
    /// [`Tensor::silu`].
    Silu,
}

impl Module for Activation {
    fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Activation::Relu => x.relu(),
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Silu => x.silu(),
        }
    }
}

/// Sizes and options of a block. Without options: 4·width in the linear layers, ReLU, dropout 0.1, normalisation behind
/// each part.
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct TransformerOptions {
    /// Numbers of a position.
    pub width: usize,
    /// Heads of attention.
    pub heads: usize,
    /// Numbers between the linear layers.
    pub inner: usize,
    /// What stands between the linear layers.
    pub activation: Activation,
    /// The probability that a number is dropped in training.
    pub dropout: f64,
    /// Whether parts are normalised before they begin
    /// ([Xiong et al. 2020](https://arxiv.org/abs/2002.04745)), not behind.
    pub norm_first: bool,
    /// What normalisations add to the variance.
    pub eps: f64,
}

impl TransformerOptions {
    /// Blocks of a width and as many heads.
    pub fn new(width: usize, heads: usize) -> TransformerOptions {
        TransformerOptions {
            width,
            heads,
            inner: 4 * width,
            activation: Activation::Relu,
            dropout: 0.1,
            norm_first: false,
            eps: 1e-5,
        }
    }

    /// Numbers between the linear layers.
    pub fn inner(mut self, inner: usize) -> TransformerOptions {
        self.inner = inner;
        self
    }

    /// What stands between the linear layers.
    pub fn activation(mut self, activation: Activation) -> TransformerOptions {
        self.activation = activation;
        self
    }

    /// The probability that a number is dropped in training.
    pub fn dropout(mut self, p: f64) -> TransformerOptions {
        self.dropout = p;
        self
    }

    /// Parts that are normalised before they begin.
    pub fn norm_first(mut self) -> TransformerOptions {
        self.norm_first = true;
        self
    }

    #[track_caller]
    fn attention(&self, device: &Device) -> MultiHeadAttention {
        MultiHeadAttention::new(self.width, self.heads, device).dropout(self.dropout)
    }

    #[track_caller]
    fn norm(&self, device: &Device) -> LayerNorm {
        LayerNorm::new(self.width, device).eps(self.eps)
    }

    /// The normalisation behind the last of several blocks, where these begin with theirs.
    #[track_caller]
    fn last_norm(&self, device: &Device) -> Option<LayerNorm> {
        self.norm_first.then(|| self.norm(device))
    }
}

/// The two linear layers of a block, what stands between them, and the dropout behind that.
#[track_caller]
fn feed_forward(
    x: &Tensor,
    (first, second): (&Linear, &Linear),
    activation: Activation,
    dropout: &Dropout,
) -> Tensor {
    second.forward(&dropout.forward(&activation.forward(&first.forward(x))))
}

/// A part of a block with its normalisation and dropout, around which the input is carried.
#[track_caller]
fn around(
    x: &Tensor,
    norm: &LayerNorm,
    dropout: &Dropout,
    norm_first: bool,
    part: impl FnOnce(&Tensor) -> Tensor,
) -> Tensor {
    match norm_first {
        true => x + dropout.forward(&part(&norm.forward(x))),
        false => norm.forward(&(x + dropout.forward(&part(x)))),
    }
}
