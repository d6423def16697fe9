//! Attention of several heads, with grouped keys, rotary positions and a cache of keys and values.

mod cache;
mod rotary;

pub use cache::KvCache;
pub use rotary::Rotary;

use super::{Init, Linear, Module};
use crate::{DType, Device, Error, Tensor, TensorStruct};

/// Attention of several heads ([Vaswani et al. 2017](https://arxiv.org/abs/1706.03762)) over `[batch, length, width]`
/// or `[length, width]`.
///
/// Parameters are named and laid out as PyTorch's `nn.MultiheadAttention` has them. With fewer heads of keys and values
/// than of queries, each serves a group of queries ([Ainslie et al. 2023](https://arxiv.org/abs/2305.13245)).
///
/// ```
/// use ferrotrace::nn::{Module, MultiHeadAttention};
/// use ferrotrace::prelude::*;
///
/// let device = Device::cpu();
/// let layer = MultiHeadAttention::new(16, 4, &device).causal();
/// let x = Tensor::randn([2, 5, 16], DType::F32, &device);
/// assert_eq!(layer.forward(&x).dims(), [2, 5, 16]);
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct MultiHeadAttention {
    /// Weights of queries, keys and values, one above the other: `[width + 2·kv_width, width]`.
    pub in_proj_weight: Tensor,
    /// `[width + 2·kv_width]`.
    pub in_proj_bias: Option<Tensor>,
    /// `[width, width]`, behind the heads.
    pub out_proj: Linear,
    /// Positions turned into angles of queries and keys.
    pub rotary: Option<Rotary>,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values, a divisor of `heads`.
    pub kv_heads: usize,
    /// Whether keys after a query are hidden.
    pub causal: bool,
    /// The probability that a weight is dropped in training.
    pub dropout: f64,
    /// Whether weights are dropped.
    pub training: bool,
}

impl MultiHeadAttention {
    /// As many heads of keys as of queries: input weights Xavier-uniform, the output's uniform in ±1/√width, biases 0,
    /// in F32. A width that the heads do not divide is an error of the first result.
    #[track_caller]
    pub fn new(width: usize, heads: usize, device: &Device) -> MultiHeadAttention {
        MultiHeadAttention::grouped(width, heads, heads, device)
    }

    /// `heads` of queries in groups that share the `kv_heads` of keys and values.
    #[track_caller]
    pub fn grouped(
        width: usize,
        heads: usize,
        kv_heads: usize,
        device: &Device,
    ) -> MultiHeadAttention {
        let rows = width + 2 * kv_heads * width.checked_div(heads).unwrap_or(0);
        let mut out_proj = Linear::new(width, width, device);
        out_proj.bias = Some(Tensor::zeros(width, DType::F32, device));
        MultiHeadAttention {
            in_proj_weight: Init::xavier_uniform().tensor([rows, width], DType::F32, device),
            in_proj_bias: Some(Tensor::zeros(rows, DType::F32, device)),
            out_proj,
            rotary: None,
            heads,
            kv_heads,
            causal: false,
            dropout: 0.0,
            training: true,
        }
    }

    /// The layer without its biases.
    pub fn without_bias(mut self) -> MultiHeadAttention {
        (self.in_proj_bias, self.out_proj.bias) = (None, None);
        self
    }

    /// The layer with keys after a query hidden.
    pub fn causal(mut self) -> MultiHeadAttention {
        self.causal = true;
        self
    }

    /// The layer with weights dropped in training.
    pub fn dropout(mut self, p: f64) -> MultiHeadAttention {
        self.dropout = p;
        self
    }

    /// The layer with queries and keys turned by their positions.
    pub fn rotary(mut self, rotary: Rotary) -> MultiHeadAttention {
        self.rotary = Some(rotary);
        self
    }

    /// Attention of `query` `[batch, length, width]` to `key` and `value` `[batch, keys, width]`. The mask broadcasts to
    /// `[batch, heads, length, keys]`: a `Bool` one keeps what is true, a float one is added to the scores.
    ///
    /// ```
    /// use ferrotrace::nn::MultiHeadAttention;
    /// use ferrotrace::prelude::*;
    ///
    /// let device = Device::cpu();
    /// let layer = MultiHeadAttention::new(8, 2, &device);
    /// let (x, memory) = (
    ///     Tensor::randn([1, 3, 8], DType::F32, &device),
    ///     Tensor::randn([1, 5, 8], DType::F32, &device),
    /// );
    /// assert_eq!(layer.attend(&x, &memory, &memory, None).dims(), [1, 3, 8]);
    /// ```
    #[track_caller]
    pub fn attend(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: Option<&Tensor>,
    ) -> Tensor {
        if let Some(failed) = self.refused(&[query, key, value]) {
            return failed;
        }
        let rows = self.rows();
        let weights = self.in_proj_weight.split(&rows, 0);
        let biases = self.in_proj_bias.as_ref().map(|bias| bias.split(&rows, 0));
        let bias = |i: usize| biases.as_ref().map(|biases| &biases[i]);
        let inputs = [query, key, value].into_iter().zip(&weights).enumerate();
        let parts: Vec<Tensor> = inputs.map(|(i, (x, w))| x.linear(w, bias(i))).collect();
        self.among(&parts, query, mask)
    }

    /// [`forward`](Module::forward) with a mask: see [`attend`](MultiHeadAttention::attend).
    #[track_caller]
    pub fn forward_masked(&self, x: &Tensor, mask: Option<&Tensor>) -> Tensor {
        if let Some(failed) = self.refused(&[x]) {
            return failed;
        }
        self.among(&self.projected(x), x, mask)
    }

    /// [`forward`](Module::forward) of `[batch, length, width]` that continues what the cache holds: the keys and values
    /// of `x` are appended to it. Each position sees those before it and itself.
    ///
    /// ```
    /// use ferrotrace::nn::{KvCache, Module, MultiHeadAttention};
    /// use ferrotrace::prelude::*;
    ///
    /// let device = Device::cpu();
    /// let layer = MultiHeadAttention::new(8, 2, &device).causal();
    /// let x = Tensor::randn([1, 6, 8], DType::F32, &device);
    /// let mut cache = KvCache::of(&layer, 1, 10, DType::F32, &device);
    /// let start = layer.forward_cached(&x.narrow(1, 0, 4), &mut cache);
    /// let rest = layer.forward_cached(&x.narrow(1, 4, 2), &mut cache);
    /// assert!(Tensor::cat([&start, &rest], 1).allclose(&layer.forward(&x), 1e-5, 1e-5)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn forward_cached(&self, x: &Tensor, cache: &mut KvCache) -> Tensor {
        if let Some(failed) = self.refused(&[x]) {
            return failed;
        }
        if x.rank() != 3 {
            let why = Error::shape("an input of dimensions [batch, length, width]");
            return Tensor::failed("attention", why, &[x]);
        }
        let [q, k, v] = self.heads_of(&self.projected(x));
        let (q, k) = match &self.rotary {
            Some(rotary) => {
                let start = Some(&cache.length);
                (rotary.turn(&q, start), rotary.turn(&k, start))
            }
            None => (q, k),
        };
        let mask = cache.append(&k, &v);
        let hidden = MultiHeadAttention {
            causal: false,
            ..self.clone()
        };
        self.joined(
            hidden.weighted(&q, &cache.keys, &cache.values, Some(&mask)),
            x,
        )
    }

    /// The error of operands or of options that do not fit.
    #[track_caller]
    fn refused(&self, operands: &[&Tensor]) -> Option<Tensor> {
        let fail = |error| Some(Tensor::failed("attention", error, operands));
        if let Some(error) = operands.iter().find_map(|x| x.error()) {
            return fail(error);
        }
        let width = self.width();
        let divides = |n: usize, of: usize| n > 0 && of.is_multiple_of(n);
        if !divides(self.heads, width) || !divides(self.kv_heads, self.heads) {
            let (heads, kv_heads) = (self.heads, self.kv_heads);
            let why = format!("{heads} heads of width {width} with {kv_heads} of keys");
            return fail(Error::argument(why));
        }
        if operands.iter().any(|x| !matches!(x.rank(), 2 | 3)) {
            return fail(Error::shape(
                "inputs of dimensions [batch, length, width] or [length, width]",
            ));
        }
        None
    }

    fn width(&self) -> usize {
        self.in_proj_weight.dims().last().copied().unwrap_or(0)
    }

    /// The rows of queries, keys and values in the input's weight.
    fn rows(&self) -> [usize; 3] {
        let width = self.width();
        let kv = self.kv_heads * (width / self.heads);
        [width, kv, kv]
    }

    /// Queries, keys and values of one input: one product.
    #[track_caller]
    fn projected(&self, x: &Tensor) -> Vec<Tensor> {
        let all = x.linear(&self.in_proj_weight, self.in_proj_bias.as_ref());
        all.split(&self.rows(), -1)
    }

    /// `[.., heads, length, size]` of queries, `[.., kv_heads, keys, size]` of keys and values.
    #[track_caller]
    fn heads_of(&self, parts: &[Tensor]) -> [Tensor; 3] {
        let size = self.width() / self.heads;
        let heads = [self.heads, self.kv_heads, self.kv_heads];
        std::array::from_fn(|i| {
            let mut dims = parts[i].dims().to_vec();
            dims.pop();
            dims.extend([heads[i], size]);
            parts[i].reshape(dims).transpose(-3, -2)
        })
    }

    #[track_caller]
    fn among(&self, parts: &[Tensor], like: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let [q, k, v] = self.heads_of(parts);
        let (q, k) = match &self.rotary {
            Some(rotary) => (rotary.turn(&q, None), rotary.turn(&k, None)),
            None => (q, k),
        };
        self.joined(self.weighted(&q, &k, &v, mask), like)
    }

    /// The weighted values `[.., heads, length, size]`.
    #[track_caller]
    fn weighted(&self, q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let operands = [Some(q), Some(k), Some(v), mask];
        if let Some(error) = operands.into_iter().flatten().find_map(|x| x.error()) {
            return Tensor::failed("attention", error, &[q, k, v]);
        }
        let mask = match (mask, self.causal) {
            (Some(mask), true) => Some(causally(mask, q, k)),
            (mask, _) => mask.cloned(),
        };
        let causal = self.causal && mask.is_none();
        if self.heads == self.kv_heads {
            return self.attended(q, k, v, mask.as_ref(), causal);
        }
        // A dimension of the group's size, along which keys and values broadcast.
        let group = self.heads / self.kv_heads;
        let grouped = |x: &Tensor, of: usize| {
            let mut dims = x.dims().to_vec();
            let at = dims.len() - 3;
            dims.splice(at..=at, [self.kv_heads, of]);
            x.reshape(dims)
        };
        let mask = mask.map(|mask| match mask.rank() {
            0..3 => mask,
            rank if mask.dims()[rank - 3] == 1 => mask.unsqueeze(-3),
            _ => grouped(&mask, group),
        });
        let (q, k, v) = (grouped(q, group), grouped(k, 1), grouped(v, 1));
        let y = self.attended(&q, &k, &v, mask.as_ref(), causal);
        y.flatten(-4, -3)
    }

    #[track_caller]
    fn attended(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        mask: Option<&Tensor>,
        causal: bool,
    ) -> Tensor {
        if !self.training || self.dropout == 0.0 {
            return Tensor::scaled_dot_product_attention(q, k, v, mask, causal, None);
        }
        let size = q.dims().last().copied().unwrap_or(1) as f64;
        let scores = q.matmul(&k.transpose(-1, -2)) / size.sqrt();
        let all = || Tensor::ones([1, 1], DType::Bool, &q.device());
        let mask = match mask {
            None if causal => Some(causally(&all(), q, k)),
            mask => mask.cloned(),
        };
        let scores = match &mask {
            None => scores,
            Some(mask) if mask.dtype() == DType::Bool => {
                mask.where_cond(&scores, f64::NEG_INFINITY)
            }
            Some(mask) => scores + mask,
        };
        scores.softmax(-1).dropout(self.dropout).matmul(v)
    }

    /// Heads side by side, through the output's layer.
    #[track_caller]
    fn joined(&self, heads: Tensor, like: &Tensor) -> Tensor {
        let mut dims = like.dims().to_vec();
        if let Some(last) = dims.last_mut() {
            *last = self.width();
        }
        self.out_proj
            .forward(&heads.transpose(-3, -2).reshape(dims))
    }
}

/// A mask with keys after each query hidden.
#[track_caller]
fn causally(mask: &Tensor, q: &Tensor, k: &Tensor) -> Tensor {
    let length = |x: &Tensor| x.dims().get(x.rank().wrapping_sub(2)).copied().unwrap_or(0);
    let seen = Tensor::ones([length(q), length(k)], DType::Bool, &mask.device()).tril(0);
    match mask.dtype() {
        DType::Bool => mask.logical_and(&seen),
        _ => seen.where_cond(mask, f64::NEG_INFINITY),
    }
}

impl Module for MultiHeadAttention {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.forward_masked(x, None)
    }
}
