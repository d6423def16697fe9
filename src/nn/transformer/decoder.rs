//! Blocks in which a sequence attends to itself and to another.

use super::{Activation, TransformerOptions, around, feed_forward};
use crate::nn::{Dropout, LayerNorm, Linear, Module, MultiHeadAttention};
use crate::{Device, Tensor, TensorStruct};

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

/// Decoder blocks one after another, and a last normalisation if there is one.
///
/// ```
/// use ferrotrace::nn::{TransformerDecoder, TransformerOptions};
/// use ferrotrace::prelude::*;
///
/// let device = Device::cpu();
/// let options = TransformerOptions::new(16, 4).dropout(0.0);
/// let decoder = TransformerDecoder::new(2, options, &device).causal();
/// let (x, memory) = (
///     Tensor::randn([1, 5, 16], DType::F32, &device),
///     Tensor::randn([1, 3, 16], DType::F32, &device),
/// );
/// let y = decoder.forward(&x, &memory, None, None);
/// // What comes later changes nothing before.
/// let start = decoder.forward(&x.narrow(1, 0, 2), &memory, None, None);
/// assert!(start.allclose(&y.narrow(1, 0, 2), 1e-4, 1e-4)?);
/// # Ok::<(), Error>(())
/// ```
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

    /// The decoder with later positions of the sequence hidden in every block, as PyTorch's `tgt_is_causal` asks; a mask
    /// of [`forward`](Self::forward) hides more.
    pub fn causal(mut self) -> TransformerDecoder {
        let blocks = self.layers.into_iter();
        self.layers = blocks.map(TransformerDecoderLayer::causal).collect();
        self
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
