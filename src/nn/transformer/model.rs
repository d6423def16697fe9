//! An encoder and a decoder.

use super::{TransformerDecoder, TransformerEncoder, TransformerOptions};
use crate::nn::Init;
use crate::{Device, Tensor, TensorStruct};

/// An encoder, and a decoder that attends to what it gives ([Vaswani et al. 2017](https://arxiv.org/abs/1706.03762)):
/// PyTorch's `nn.Transformer` with `batch_first`. Sequences are `[batch, length, width]` or `[length, width]`.
///
/// ```
/// use ferrotrace::nn::{Transformer, TransformerOptions};
/// use ferrotrace::prelude::*;
///
/// let device = Device::cpu();
/// let model = Transformer::new(2, 2, TransformerOptions::new(16, 4), &device).causal();
/// let source = Tensor::randn([3, 7, 16], DType::F32, &device);
/// let target = Tensor::randn([3, 5, 16], DType::F32, &device);
/// assert_eq!(model.forward(&source, &target).dims(), [3, 5, 16]);
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct Transformer {
    /// Of the source.
    pub encoder: TransformerEncoder,
    /// Of the target.
    pub decoder: TransformerDecoder,
}

impl Transformer {
    /// So many blocks of each; either ends with a normalisation. Matrices are drawn Xavier-uniform, all else as its
    /// layers draw it.
    #[track_caller]
    pub fn new(
        encoder_blocks: usize,
        decoder_blocks: usize,
        options: TransformerOptions,
        device: &Device,
    ) -> Transformer {
        let mut model = Transformer {
            encoder: TransformerEncoder::new(encoder_blocks, options, device),
            decoder: TransformerDecoder::new(decoder_blocks, options, device),
        };
        model.encoder.norm = Some(options.norm(device));
        model.decoder.norm = Some(options.norm(device));
        model.for_each_mut(|_, parameter| {
            if parameter.rank() > 1 {
                let shape = parameter.dims().to_vec();
                *parameter = Init::xavier_uniform().tensor(shape, parameter.dtype(), device);
            }
        });
        model
    }

    /// The model with later positions of the target hidden, as PyTorch's `tgt_is_causal` asks.
    pub fn causal(mut self) -> Transformer {
        self.decoder = self.decoder.causal();
        self
    }

    /// `[batch, length, width]` for a target of that shape and a source `[batch, keys, width]`.
    #[track_caller]
    pub fn forward(&self, source: &Tensor, target: &Tensor) -> Tensor {
        self.forward_masked(source, target, [None, None, None])
    }

    /// [`forward`](Self::forward) with masks of the source, of the target and of what the target sees of the source: see
    /// [`MultiHeadAttention::attend`](crate::nn::MultiHeadAttention::attend). A mask of padding `[batch, keys]`, true
    /// where something stands, is given as `[batch, 1, 1, keys]`.
    #[track_caller]
    pub fn forward_masked(
        &self,
        source: &Tensor,
        target: &Tensor,
        [source_mask, mask, memory_mask]: [Option<&Tensor>; 3],
    ) -> Tensor {
        let memory = self.encoder.forward_masked(source, source_mask);
        self.decoder.forward(target, &memory, mask, memory_mask)
    }
}
