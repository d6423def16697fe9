//! Training steps: forward, backward and an update with momentum, whose results are the loss, the parameters and the moments.

use super::networks::attention;
use super::{Program, ids, wave};
use ferrotrace::grad;
use ferrotrace::prelude::*;

pub const PROGRAMS: &[Program] = &[
    Program::f32("mlp_train", mlp_inputs, mlp_train),
    Program::f32("cnn_train", cnn_inputs, cnn_train),
    Program::f32("gpt_train", gpt_inputs, gpt_train),
    Program::f32("nerf_train", nerf_inputs, nerf_train),
    Program::bf16(
        "ce_large_bf16",
        |d| {
            vec![
                wave(d, [4096, 768], 1, 1.0).to_dtype(DType::BF16),
                wave(d, [50257, 768], 2, 0.03).to_dtype(DType::BF16),
                ids(d, 4096, 1, 50257),
            ]
        },
        ce_large_bf16,
    ),
];

/// Data, parameters and the parameters' moments, which are zeros at first.
fn with_moments(mut inputs: Vec<Tensor>, parameters: Vec<Tensor>) -> Vec<Tensor> {
    let moments: Vec<Tensor> = parameters.iter().map(Tensor::zeros_like).collect();
    inputs.extend(parameters);
    inputs.extend(moments);
    inputs
}

/// The inputs behind the data, half of them parameters, half moments: the parameters as leaves, and the moments.
fn state<'a>(inputs: &[&'a Tensor]) -> (Vec<Tensor>, Vec<&'a Tensor>) {
    let (parameters, moments) = inputs.split_at(inputs.len() / 2);
    (leaves(parameters), moments.to_vec())
}

fn leaves(tensors: &[&Tensor]) -> Vec<Tensor> {
    tensors.iter().map(|t| t.requires_grad()).collect()
}

/// A step of gradient descent with momentum 0.9 and rate 0.01.
fn descend(loss: &Tensor, parameters: &[Tensor], moments: &[&Tensor]) -> Vec<Tensor> {
    let gradients = grad(loss, parameters);
    let mut results = vec![loss.detach()];
    let mut next = Vec::new();
    for ((p, m), g) in parameters.iter().zip(moments).zip(&gradients) {
        let m = *m * 0.9 + g;
        results.push((p - &m * 0.01).detach());
        next.push(m.detach());
    }
    results.extend(next);
    results
}

fn mlp_inputs(d: &Device) -> Vec<Tensor> {
    let parameters = vec![
        wave(d, [1024, 784], 1, 0.03),
        wave(d, 1024, 2, 0.01),
        wave(d, [1024, 1024], 3, 0.03),
        wave(d, 1024, 4, 0.01),
        wave(d, [10, 1024], 5, 0.03),
        wave(d, 10, 6, 0.01),
    ];
    let data = vec![wave(d, [256, 784], 7, 1.0), ids(d, 256, 1, 10)];
    with_moments(data, parameters)
}

/// A perceptron, 784 to 1,024 to 1,024 to 10, on a batch of 256.
fn mlp_train(x: &[&Tensor]) -> Vec<Tensor> {
    let (p, moments) = state(&x[2..]);
    let h = x[0].linear(&p[0], Some(&p[1])).relu();
    let h = h.linear(&p[2], Some(&p[3])).relu();
    let loss = h.linear(&p[4], Some(&p[5])).cross_entropy(x[1]);
    descend(&loss, &p, &moments)
}

fn cnn_inputs(d: &Device) -> Vec<Tensor> {
    let mut parameters = Vec::new();
    for (i, (to, from)) in [(32, 3), (64, 32), (128, 64)].into_iter().enumerate() {
        parameters.push(wave(d, [to, from, 3, 3], 10 + i, 0.1));
        parameters.push(wave(d, to, 20 + i, 0.1) + 1.0);
        parameters.push(wave(d, to, 30 + i, 0.1));
    }
    parameters.extend([wave(d, [10, 2048], 40, 0.02), wave(d, 10, 41, 0.01)]);
    let data = vec![wave(d, [128, 3, 32, 32], 7, 1.0), ids(d, 128, 1, 10)];
    with_moments(data, parameters)
}

/// Three convolutions, each with a batch norm and a pool, and a classifier on a batch of 128 images of 32x32.
fn cnn_train(x: &[&Tensor]) -> Vec<Tensor> {
    let (p, moments) = state(&x[2..]);
    let mut h = x[0].clone();
    for layer in p[..9].chunks(3) {
        h = h.conv2d(&layer[0], None, 1, 1, 1, 1);
        let (var, mean) = h.var_mean([0, 2, 3], 0);
        h = h
            .batch_norm(&mean, &var, Some(&layer[1]), Some(&layer[2]), 1e-5)
            .relu()
            .max_pool2d(2, 2, 0);
    }
    let logits = h.flatten(1, -1).linear(&p[9], Some(&p[10]));
    descend(&logits.cross_entropy(x[1]), &p, &moments)
}

/// The transformer that is trained: layers, heads, and batch, length and width of its sequences.
const LAYERS: usize = 4;
const HEADS: usize = 4;
const SIZES: [usize; 3] = [16, 256, 256];
const VOCABULARY: usize = 512;

fn gpt_inputs(d: &Device) -> Vec<Tensor> {
    let [batch, length, width] = SIZES;
    let mut parameters = vec![
        wave(d, [VOCABULARY, width], 1, 0.1),
        wave(d, [length, width], 2, 0.1),
    ];
    for i in 0..LAYERS {
        parameters.extend([
            wave(d, width, 3 + i, 0.1) + 1.0,
            wave(d, width, 4 + i, 0.1),
            wave(d, [3 * width, width], 5 + i, 0.06),
            wave(d, [width, width], 6 + i, 0.06),
            wave(d, width, 7 + i, 0.1) + 1.0,
            wave(d, width, 8 + i, 0.1),
            wave(d, [4 * width, width], 9 + i, 0.06),
            wave(d, [width, 4 * width], 10 + i, 0.03),
        ]);
    }
    let tokens = ids(d, [batch, length], 1, VOCABULARY);
    let targets = ids(d, batch * length, 2, VOCABULARY);
    with_moments(vec![tokens, targets], parameters)
}

/// A transformer of four layers, 256 wide, on 16 sequences of 256 tokens; its embedding is its last matrix too.
fn gpt_train(x: &[&Tensor]) -> Vec<Tensor> {
    let [batch, length, width] = SIZES;
    let (p, moments) = state(&x[2..]);
    let mut h = p[0].embedding(x[0]) + &p[1];
    for layer in p[2..].chunks(8) {
        let a = h.layer_norm(1, Some(&layer[0]), Some(&layer[1]), 1e-5);
        h += attention(&a, &layer[2], &layer[3], SIZES, HEADS, true);
        let m = h
            .layer_norm(1, Some(&layer[4]), Some(&layer[5]), 1e-5)
            .linear(&layer[6], None)
            .gelu()
            .linear(&layer[7], None);
        h += m;
    }
    let logits = h.reshape([batch * length, width]).linear(&p[0], None);
    descend(&logits.cross_entropy(x[1]), &p, &moments)
}

fn nerf_inputs(d: &Device) -> Vec<Tensor> {
    let parameters = vec![
        wave(d, [128, 63], 2, 0.1),
        wave(d, 128, 3, 0.1),
        wave(d, [128, 128], 4, 0.1),
        wave(d, 128, 5, 0.1),
        wave(d, [4, 128], 6, 0.1),
        wave(d, 4, 7, 0.1),
    ];
    let data = vec![wave(d, [4096, 64, 3], 1, 1.0), wave(d, [4096, 3], 9, 1.0)];
    with_moments(data, parameters)
}

/// A radiance field: 64 points on each of 4,096 rays, encoded by sines, go through a perceptron and are blended along the
/// ray.
fn nerf_train(x: &[&Tensor]) -> Vec<Tensor> {
    let (p, moments) = state(&x[2..]);
    let mut encoded = vec![x[0].clone()];
    for i in 0..10 {
        let scaled = x[0] * f64::from(1u32 << i);
        encoded.extend([scaled.sin(), scaled.cos()]);
    }
    let h = Tensor::cat(&encoded, 2)
        .linear(&p[0], Some(&p[1]))
        .relu()
        .linear(&p[2], Some(&p[3]))
        .relu()
        .linear(&p[4], Some(&p[5]));
    let alpha = 1.0 - (-(h.narrow(2, 3, 1).squeeze(2).relu()) * 0.05).exp();
    let passed = (1.0 - &alpha + 1e-10).cumprod(1);
    let one = passed.narrow(1, 0, 1).ones_like();
    let passed = Tensor::cat(&[&one, &passed.narrow(1, 0, 63)], 1);
    let colour = ((alpha * passed).unsqueeze(2) * h.narrow(2, 0, 3).sigmoid()).sum(1);
    descend(&colour.mse_loss(x[1]), &p, &moments)
}

/// The loss over a vocabulary of 50,257 words for 4,096 tokens, and its gradients; the loss is in f32.
fn ce_large_bf16(x: &[&Tensor]) -> Vec<Tensor> {
    let p = leaves(&x[..2]);
    let logits = p[0].linear(&p[1], None).to_dtype(DType::F32);
    let loss = logits.cross_entropy(x[2]);
    let gradients = grad(&loss, &p);
    [&loss, &gradients[0], &gradients[1]]
        .map(Tensor::detach)
        .to_vec()
}
