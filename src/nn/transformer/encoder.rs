//! Blocks in which a sequence attends to itself.

use super::{Activation, TransformerOptions, around, feed_forward};
use crate::nn::{Dropout, LayerNorm, Linear, Module, MultiHeadAttention};
use crate::{Device, Tensor, TensorStruct};

/// Attention of a sequence to itself, and two linear layers: `[batch, length, width]` to the same shape.
///
/// ```
/// use ferrotrace::nn::{Module, TransformerEncoderLayer, TransformerOptions};
/// use ferrotrace::prelude::*;
///
/// let device = Device::cpu();
/// let block = TransformerEncoderLayer::new(TransformerOptions::new(16, 4).norm_first(), &device);
/// let x = Tensor::randn([2, 5, 16], DType::F32, &device);
/// assert_eq!(block.forward(&x).dims(), [2, 5, 16]);
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct TransformerEncoderLayer {
    /// Attention.
    pub self_attn: MultiHeadAttention,
    /// To the inner width.
    pub linear1: Linear,
    /// Behind the activation.
    pub dropout: Dropout,
    /// Back to the width.
    pub linear2: Linear,
    /// Of the attention.
    pub norm1: LayerNorm,
    /// Of the linear layers.
    pub norm2: LayerNorm,
    /// Behind the attention.
    pub dropout1: Dropout,
    /// Behind the linear layers.
    pub dropout2: Dropout,
    /// Between the linear layers.
    pub activation: Activation,
    /// Whether parts are normalised before they begin.
    pub norm_first: bool,
}

impl TransformerEncoderLayer {
    /// A block; its parameters are drawn as its layers draw them.
    #[track_caller]
    pub fn new(options: TransformerOptions, device: &Device) -> TransformerEncoderLayer {
        let dropout = Dropout::new(options.dropout);
        TransformerEncoderLayer {
            self_attn: options.attention(device),
            linear1: Linear::new(options.width, options.inner, device),
            linear2: Linear::new(options.inner, options.width, device),
            norm1: options.norm(device),
            norm2: options.norm(device),
            dropout1: dropout.clone(),
            dropout2: dropout.clone(),
            dropout,
            activation: options.activation,
            norm_first: options.norm_first,
        }
    }

    /// The block with later positions of the sequence hidden.
    pub fn causal(mut self) -> TransformerEncoderLayer {
        self.self_attn.causal = true;
        self
    }

    /// [`forward`](Module::forward) with a mask: see [`MultiHeadAttention::attend`].
    #[track_caller]
    pub fn forward_masked(&self, x: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let first = self.norm_first;
        let x = around(x, &self.norm1, &self.dropout1, first, |x| {
            self.self_attn.forward_masked(x, mask)
        });
        around(&x, &self.norm2, &self.dropout2, first, |x| {
            let layers = (&self.linear1, &self.linear2);
            feed_forward(x, layers, self.activation, &self.dropout)
        })
    }
}

impl Module for TransformerEncoderLayer {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.forward_masked(x, None)
    }
}

/// Encoder blocks one after another, and a last normalisation if there is one.
#[derive(Clone, Debug, TensorStruct)]
pub struct TransformerEncoder {
    /// The blocks.
    pub layers: Vec<TransformerEncoderLayer>,
    /// Behind the last block.
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// `count` blocks, and a last normalisation where the blocks begin with theirs.
    #[track_caller]
    pub fn new(count: usize, options: TransformerOptions, device: &Device) -> TransformerEncoder {
        let block = |_| TransformerEncoderLayer::new(options, device);
        TransformerEncoder {
            layers: (0..count).map(block).collect(),
            norm: options.last_norm(device),
        }
    }

    /// The encoder with later positions of the sequence hidden in every block.
    pub fn causal(mut self) -> TransformerEncoder {
        let blocks = self.layers.into_iter();
        self.layers = blocks.map(TransformerEncoderLayer::causal).collect();
        self
    }

    /// [`forward`](Module::forward) with a mask in every block.
    #[track_caller]
    pub fn forward_masked(&self, x: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let mut x = x.clone();
        for layer in &self.layers {
            x = layer.forward_masked(&x, mask);
        }
        self.norm.forward(&x)
    }
}

impl Module for TransformerEncoder {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.forward_masked(x, None)
    }
}
