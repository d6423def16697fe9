//! Blocks of encoders and decoders ([Vaswani et al. 2017](https://arxiv.org/abs/1706.03762)), with PyTorch's names.

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

/// Attention of a sequence to itself and to another, and two linear layers: `[batch, length, width]` to the same shape.
#[derive(Clone, Debug, TensorStruct)]
pub struct TransformerDecoderLayer {
    /// Attention of the sequence to itself.
    pub self_attn: MultiHeadAttention,
    /// Attention to the other sequence.
    pub multihead_attn: MultiHeadAttention,
    /// To the inner width.
    pub linear1: Linear,
    /// Behind the activation.
    pub dropout: Dropout,
    /// Back to the width.
    pub linear2: Linear,
    /// Of the attention of the sequence to itself.
    pub norm1: LayerNorm,
    /// Of the attention to the other sequence.
    pub norm2: LayerNorm,
    /// Of the linear layers.
    pub norm3: LayerNorm,
    /// Behind the attention of the sequence to itself.
    pub dropout1: Dropout,
    /// Behind the attention to the other sequence.
    pub dropout2: Dropout,
    /// Behind the linear layers.
    pub dropout3: Dropout,
    /// Between the linear layers.
    pub activation: Activation,
    /// Whether parts are normalised before they begin.
    pub norm_first: bool,
}

impl TransformerDecoderLayer {
    /// A block whose attention to the sequence itself is not causal, as in PyTorch; see [`causal`](Self::causal).
    #[track_caller]
    pub fn new(options: TransformerOptions, device: &Device) -> TransformerDecoderLayer {
        let dropout = Dropout::new(options.dropout);
        TransformerDecoderLayer {
            self_attn: options.attention(device),
            multihead_attn: options.attention(device),
            linear1: Linear::new(options.width, options.inner, device),
            linear2: Linear::new(options.inner, options.width, device),
            norm1: options.norm(device),
            norm2: options.norm(device),
            norm3: options.norm(device),
            dropout1: dropout.clone(),
            dropout2: dropout.clone(),
            dropout3: dropout.clone(),
            dropout,
            activation: options.activation,
            norm_first: options.norm_first,
        }
    }

    /// The block with later positions of the sequence hidden.
    pub fn causal(mut self) -> TransformerDecoderLayer {
        self.self_attn.causal = true;
        self
    }

    /// The sequence `x` that attends to `memory` `[batch, keys, width]`, with a mask for each attention: see
    /// [`MultiHeadAttention::attend`].
    #[track_caller]
    pub fn forward(
        &self,
        x: &Tensor,
        memory: &Tensor,
        mask: Option<&Tensor>,
        memory_mask: Option<&Tensor>,
    ) -> Tensor {
        let first = self.norm_first;
        let x = around(x, &self.norm1, &self.dropout1, first, |x| {
            self.self_attn.forward_masked(x, mask)
        });
        let x = around(&x, &self.norm2, &self.dropout2, first, |x| {
            self.multihead_attn.attend(x, memory, memory, memory_mask)
        });
        around(&x, &self.norm3, &self.dropout3, first, |x| {
            let layers = (&self.linear1, &self.linear2);
            feed_forward(x, layers, self.activation, &self.dropout)
        })
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

/// Decoder blocks one after another, and a last normalisation if there is one.
#[derive(Clone, Debug, TensorStruct)]
pub struct TransformerDecoder {
    /// The blocks.
    pub layers: Vec<TransformerDecoderLayer>,
    /// Behind the last block.
    pub norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// `count` blocks, and a last normalisation where the blocks begin with theirs.
    #[track_caller]
    pub fn new(count: usize, options: TransformerOptions, device: &Device) -> TransformerDecoder {
        let block = |_| TransformerDecoderLayer::new(options, device);
        TransformerDecoder {
            layers: (0..count).map(block).collect(),
            norm: options.last_norm(device),
        }
    }

    /// The sequence `x` that attends to `memory` in every block: see [`TransformerDecoderLayer::forward`].
    #[track_caller]
    pub fn forward(
        &self,
        x: &Tensor,
        memory: &Tensor,
        mask: Option<&Tensor>,
        memory_mask: Option<&Tensor>,
    ) -> Tensor {
        let mut x = x.clone();
        for layer in &self.layers {
            x = layer.forward(&x, memory, mask, memory_mask);
        }
        self.norm.forward(&x)
    }
}
