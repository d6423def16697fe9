//! The encoder of all-MiniLM-L6-v2: a BERT of six layers ([Devlin et al. 2018](https://arxiv.org/abs/1810.04805)), and one
//! vector a sentence ([Reimers and Gurevych 2019](https://arxiv.org/abs/1908.10084)).

use ferrotrace::nn::{Embedding, LayerNorm, Linear, Module};
use ferrotrace::prelude::*;
use std::path::Path;

/// The size of a token's vector, and of a sentence's.
pub const WIDTH: usize = 384;
const HEADS: usize = 12;
const LAYERS: usize = 6;
const INNER: usize = 1536;
const TOKENS: usize = 30522;
/// The greatest number of tokens in a sentence.
pub const POSITIONS: usize = 512;

/// Names are those of the file of weights.
#[derive(Clone, Debug, TensorStruct)]
pub struct MiniLm {
    embeddings: Embeddings,
    encoder: Encoder,
}

#[derive(Clone, Debug, TensorStruct)]
struct Embeddings {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Embedding,
    #[tensor_struct(name = "LayerNorm")]
    norm: LayerNorm,
}

#[derive(Clone, Debug, TensorStruct)]
struct Encoder {
    layer: Vec<Layer>,
}

#[derive(Clone, Debug, TensorStruct)]
struct Layer {
    attention: Attention,
    intermediate: Dense,
    output: Output,
}

#[derive(Clone, Debug, TensorStruct)]
struct Attention {
    #[tensor_struct(name = "self")]
    heads: Heads,
    output: Output,
}

#[derive(Clone, Debug, TensorStruct)]
struct Heads {
    query: Linear,
    key: Linear,
    value: Linear,
}

#[derive(Clone, Debug, TensorStruct)]
struct Dense {
    dense: Linear,
}

/// A linear layer, added to what came before, and normalised.
#[derive(Clone, Debug, TensorStruct)]
struct Output {
    dense: Linear,
    #[tensor_struct(name = "LayerNorm")]
    norm: LayerNorm,
}

impl MiniLm {
    /// The model with the weights of `model.safetensors` in a folder. Weights that are drawn for the layers at first are
    /// never computed.
    ///
    /// # Errors
    /// The file cannot be read, lacks a weight or holds one of another shape, or has a name that the model does not know.
    pub fn load(folder: &Path, device: &Device) -> Result<MiniLm> {
        let weights = io::load_safetensors(folder.join("model.safetensors"), device)?;
        let mut model = MiniLm::new(device);
        let differences = io::load_state_dict_partly(&mut model, &weights)?;
        // Positions are 0, 1, 2, ..; the pooler is of another task.
        let is_unused =
            |name: &str| name == "embeddings.position_ids" || name.starts_with("pooler.");
        let unknown = differences.unexpected.iter().find(|name| !is_unused(name));
        match differences.missing.first().or(unknown) {
            Some(name) => Err(Error::argument(format!(
                "model.safetensors is of another model: it differs in {name}"
            ))),
            None => Ok(model),
        }
    }

    fn new(device: &Device) -> MiniLm {
        let norm = || LayerNorm {
            eps: 1e-12,
            ..LayerNorm::new(WIDTH, device)
        };
        let output = |inputs| Output {
            dense: Linear::new(inputs, WIDTH, device),
            norm: norm(),
        };
        let layer = |_| Layer {
            attention: Attention {
                heads: Heads {
                    query: Linear::new(WIDTH, WIDTH, device),
                    key: Linear::new(WIDTH, WIDTH, device),
                    value: Linear::new(WIDTH, WIDTH, device),
                },
                output: output(WIDTH),
            },
            intermediate: Dense {
                dense: Linear::new(WIDTH, INNER, device),
            },
            output: output(INNER),
        };
        MiniLm {
            embeddings: Embeddings {
                word_embeddings: Embedding::new(TOKENS, WIDTH, device),
                position_embeddings: Embedding::new(POSITIONS, WIDTH, device),
                token_type_embeddings: Embedding::new(2, WIDTH, device),
                norm: norm(),
            },
            encoder: Encoder {
                layer: (0..LAYERS).map(layer).collect(),
            },
        }
    }

    /// Vectors of length 1, `[sentences, WIDTH]`, of tokens (I64) and of whether there is one (Bool), both
    /// `[sentences, tokens]`.
    pub fn forward(&self, tokens: &Tensor, present: &Tensor) -> Tensor {
        let mut x = self.embeddings.forward(tokens);
        let mask = present.unsqueeze(1).unsqueeze(1);
        for layer in &self.encoder.layer {
            x = layer.forward(&x, &mask);
        }
        // The mean over the tokens that are there.
        let weight = present.to_dtype(x.dtype()).unsqueeze(-1);
        let mean = (x * &weight).sum(1) / weight.sum(1).clamp_min(1e-9);
        &mean / mean.norm_keepdim(2.0, -1).clamp_min(1e-12)
    }
}

impl Embeddings {
    fn forward(&self, tokens: &Tensor) -> Tensor {
        let length = tokens.dims().last().copied().unwrap_or(0);
        let positions = self.position_embeddings.weight.narrow(0, 0, length);
        let first_kind = self.token_type_embeddings.weight.select(0, 0);
        let x = self.word_embeddings.forward(tokens) + positions + first_kind;
        self.norm.forward(&x)
    }
}

impl Layer {
    /// The mask is of `[sentences, 1, 1, tokens]`.
    fn forward(&self, x: &Tensor, mask: &Tensor) -> Tensor {
        let seen = self.attention.heads.forward(x, mask);
        let x = self.attention.output.forward(&seen, x);
        let inner = self.intermediate.dense.forward(&x).gelu();
        self.output.forward(&inner, &x)
    }
}

impl Heads {
    fn forward(&self, x: &Tensor, mask: &Tensor) -> Tensor {
        let &[sentences, tokens, _] = x.dims() else {
            return x.clone(); // It carries an error.
        };
        let split = |layer: &Linear| {
            let y = layer.forward(x);
            y.reshape([sentences, tokens, HEADS, WIDTH / HEADS])
                .transpose(1, 2)
        };
        let [q, k, v] = [&self.query, &self.key, &self.value].map(split);
        let seen = Tensor::scaled_dot_product_attention(&q, &k, &v, Some(mask), false, None);
        seen.transpose(1, 2).reshape([sentences, tokens, WIDTH])
    }
}

impl Output {
    fn forward(&self, x: &Tensor, before: &Tensor) -> Tensor {
        self.norm.forward(&(self.dense.forward(x) + before))
    }
}
