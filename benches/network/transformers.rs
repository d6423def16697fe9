//! BERT-base over 128 tokens, GPT-2 small over 256 with the logits of each, and ViT-B/16: 12 layers of 768, 12 heads, 3072
//! hidden.

use super::{Weights, Workload, images, of_one, tokens};
use ferrotrace::prelude::*;

const D: usize = 768;
const HEADS: usize = 12;
const HIDDEN: usize = 4 * D;
const LAYERS: usize = 12;

/// The weight and the bias of a linear layer; or those of a norm.
struct Pair(Tensor, Tensor);

impl Pair {
    /// `[out, in]`.
    fn linear(w: &Weights, n: usize, k: usize) -> Pair {
        Pair(w.scaled(&[n, k], k), w.normal(&[n], 0.1))
    }

    /// `[in, out]`.
    fn turned(w: &Weights, n: usize, k: usize) -> Pair {
        Pair(w.scaled(&[k, n], k), w.normal(&[n], 0.1))
    }

    fn norm(w: &Weights) -> Pair {
        Pair(w.normal(&[D], 0.1) + 1.0, w.normal(&[D], 0.1))
    }

    fn of(&self, x: &Tensor) -> Tensor {
        x.linear(&self.0, Some(&self.1))
    }

    fn product(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.0) + &self.1
    }

    fn normed(&self, x: &Tensor, eps: f64) -> Tensor {
        x.layer_norm(1, Some(&self.0), Some(&self.1), eps)
    }
}

/// Heads of `[batch, length, D]` that attend, put side by side again.
fn attend([q, k, v]: [&Tensor; 3], causal: bool) -> Tensor {
    let (batch, length) = (q.dims()[0], q.dims()[1]);
    let split = |x: &Tensor| x.reshape([batch, length, HEADS, D / HEADS]).transpose(1, 2);
    let [q, k, v] = [q, k, v].map(split);
    Tensor::scaled_dot_product_attention(&q, &k, &v, None, causal, None)
        .transpose(1, 2)
        .reshape([batch, length, D])
}

/// Query, key, value and output projections, the norm, both layers of the perceptron, the norm.
struct Encoder([Pair; 4], Pair, [Pair; 2], Pair);

pub(super) fn bert(batch: usize) -> Workload {
    const TOKENS: usize = 128;
    let w = Weights::new();
    let words = w.normal(&[30522, D], 1.0);
    let places = w.normal(&[TOKENS, D], 1.0);
    let first = Pair::norm(&w);
    let layers: Vec<Encoder> = (0..LAYERS)
        .map(|_| {
            Encoder(
                [(); 4].map(|()| Pair::linear(&w, D, D)),
                Pair::norm(&w),
                [Pair::linear(&w, HIDDEN, D), Pair::linear(&w, D, HIDDEN)],
                Pair::norm(&w),
            )
        })
        .collect();
    of_one(tokens(batch, TOKENS, 30522), move |ids| {
        let x = first.normed(&(words.embedding(ids) + &places), 1e-12);
        layers.iter().fold(x, |x, Encoder(of, a, [up, down], b)| {
            let attended = attend([&of[0].of(&x), &of[1].of(&x), &of[2].of(&x)], false);
            let x = a.normed(&(&x + of[3].of(&attended)), 1e-12);
            b.normed(&(&x + down.of(&up.of(&x).gelu())), 1e-12)
        })
    })
}

/// A norm, the joined projection and that of the output, a norm, both layers of the perceptron.
struct Decoder(Pair, [Pair; 2], Pair, [Pair; 2]);

impl Decoder {
    fn new(w: &Weights, pair: fn(&Weights, usize, usize) -> Pair) -> Decoder {
        Decoder(
            Pair::norm(w),
            [pair(w, 3 * D, D), pair(w, D, D)],
            Pair::norm(w),
            [pair(w, HIDDEN, D), pair(w, D, HIDDEN)],
        )
    }

    /// The block, whose layers are applied by `of`.
    fn apply(
        &self,
        x: &Tensor,
        of: fn(&Pair, &Tensor) -> Tensor,
        active: fn(&Tensor) -> Tensor,
        causal: bool,
    ) -> Tensor {
        let Decoder(a, [joined, out], b, [up, down]) = self;
        let all = of(joined, &a.normed(x, 1e-5)).chunk(3, 2);
        let x = x + of(out, &attend([&all[0], &all[1], &all[2]], causal));
        &x + of(down, &active(&of(up, &b.normed(&x, 1e-5))))
    }
}

pub(super) fn gpt2(batch: usize) -> Workload {
    const TOKENS: usize = 256;
    const VOCABULARY: usize = 50257;
    let w = Weights::new();
    let words = w.scaled(&[VOCABULARY, D], D);
    let places = w.scaled(&[TOKENS, D], D);
    let layers: Vec<Decoder> = (0..LAYERS)
        .map(|_| Decoder::new(&w, Pair::turned))
        .collect();
    let last = Pair::norm(&w);
    of_one(tokens(batch, TOKENS, VOCABULARY), move |ids| {
        let x = words.embedding(ids) + &places;
        let x = layers.iter().fold(x, |x, layer| {
            layer.apply(&x, Pair::product, Tensor::gelu_tanh, true)
        });
        last.normed(&x, 1e-5).matmul(&words.t())
    })
}

pub(super) fn vit(batch: usize) -> Workload {
    const PATCHES: usize = 14 * 14;
    let w = Weights::new();
    let patch = w.scaled(&[D, 3, 16, 16], 3 * 16 * 16);
    let bias = w.normal(&[D], 0.1);
    let class = w.normal(&[1, 1, D], 1.0);
    let places = w.normal(&[PATCHES + 1, D], 1.0);
    let layers: Vec<Decoder> = (0..LAYERS)
        .map(|_| Decoder::new(&w, Pair::linear))
        .collect();
    let (last, head) = (Pair::norm(&w), Pair::linear(&w, 1000, D));
    of_one(images(batch), move |x| {
        let x = x.conv2d(&patch, Some(&bias), 16, 0, 1, 1);
        let x = x.reshape([batch, D, PATCHES]).transpose(1, 2);
        let x = Tensor::cat(&[&class.expand([batch, 1, D]), &x], 1) + &places;
        let x = layers
            .iter()
            .fold(x, |x, layer| layer.apply(&x, Pair::of, Tensor::gelu, false));
        head.of(&last.normed(&x, 1e-5).select(1, 0))
    })
}
