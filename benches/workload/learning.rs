//! Training steps whose gradients the library finds: gradient descent at 0.01, the loss as the first output.

use super::{Workload, randint, randn};
use ferrotrace::prelude::*;

const RATE: f64 = 0.01;

pub(super) fn open(name: &str) -> Option<Workload> {
    Some(match name {
        "train_mlp" => training(
            parameters(&PERCEPTRON),
            vec![images(256, 784), labels(256)],
            mlp,
        ),
        "train_digits" => training(parameters(&DIGITS), vec![images(32, 64), labels(32)], mlp),
        "train_cnn" => {
            let photos = randn([32, 3, 32, 32], 100, 1.0);
            training(parameters(&CNN), vec![photos, labels(32)], cnn)
        }
        "train_gpt_block" => {
            let (b, t, d) = GPT;
            let data = vec![randn([b, t, d], 100, 1.0), randn([b, t, d], 101, 1.0)];
            training(parameters(&BLOCK), data, block)
        }
        "train_lstm" => {
            let (t, b, n, h) = LSTM;
            let data = vec![randn([t, b, n], 100, 1.0), randn([b, h], 101, 1.0)];
            training(parameters(&CELL), data, lstm)
        }
        _ => return None,
    })
}

/// What a step is given beside the parameters, and the loss of both.
type Loss = fn(&[Tensor], &[&Tensor]) -> Tensor;

/// A step that is compiled as a whole and takes its parameters by value.
fn training(parameters: Vec<Tensor>, data: Vec<Tensor>, loss: Loss) -> Workload {
    let step = jit(move |(parameters, data): (Vec<Tensor>, Vec<&Tensor>)| {
        let leaves: Vec<Tensor> = parameters.iter().map(Tensor::requires_grad).collect();
        let loss = loss(&leaves, &data);
        let gradients = grad(&loss, &leaves);
        let updated: Vec<Tensor> = leaves
            .iter()
            .zip(&gradients)
            .map(|(parameter, gradient)| parameter.detach() - gradient * RATE)
            .collect();
        (updated, loss)
    });
    let mut state = Some(parameters);
    Box::new(move || {
        let Some(given) = state.take() else {
            return Vec::new();
        };
        let (updated, loss) = step.call((given, data.iter().collect()));
        state = Some(updated);
        vec![loss]
    })
}

fn parameters(shapes: &[&[usize]]) -> Vec<Tensor> {
    let seeds = 0u64..;
    shapes
        .iter()
        .zip(seeds)
        .map(|(shape, seed)| randn(*shape, seed, 0.05))
        .collect()
}

fn images(count: usize, pixels: usize) -> Tensor {
    randn([count, pixels], 100, 1.0)
}

fn labels(count: usize) -> Tensor {
    randint([count], 101, 10)
}

const PERCEPTRON: [&[usize]; 6] = [&[512, 784], &[512], &[512, 512], &[512], &[10, 512], &[10]];
const DIGITS: [&[usize]; 4] = [&[64, 64], &[64], &[10, 64], &[10]];

/// Layers with relu between them, and the cross-entropy of ten classes.
fn mlp(p: &[Tensor], data: &[&Tensor]) -> Tensor {
    let mut x = data[0].clone();
    for (i, layer) in p.chunks(2).enumerate() {
        if i > 0 {
            x = x.relu();
        }
        x = x.linear(&layer[0], Some(&layer[1]));
    }
    x.cross_entropy(data[1])
}

const CNN: [&[usize]; 6] = [
    &[32, 3, 3, 3],
    &[32],
    &[64, 32, 3, 3],
    &[64],
    &[10, 4096],
    &[10],
];

/// Two convolutions of 3 by 3, each with relu and a pool of 2 by 2, and a layer.
fn cnn(p: &[Tensor], data: &[&Tensor]) -> Tensor {
    let mut x = data[0].clone();
    for layer in p[..4].chunks(2) {
        x = x
            .conv2d(&layer[0], Some(&layer[1]), 1, 1, 1, 1)
            .relu()
            .max_pool2d(2, 2, 0);
    }
    x.flatten(1, -1)
        .linear(&p[4], Some(&p[5]))
        .cross_entropy(data[1])
}

/// Batch, length and width.
const GPT: (usize, usize, usize) = (4, 128, 256);
const HEADS: usize = 8;
const BLOCK: [&[usize]; 12] = [
    &[256],
    &[256],
    &[768, 256],
    &[768],
    &[256, 256],
    &[256],
    &[256],
    &[256],
    &[1024, 256],
    &[1024],
    &[256, 1024],
    &[256],
];

/// A transformer block with causal attention, and the mean square of its distance to a target.
fn block(p: &[Tensor], data: &[&Tensor]) -> Tensor {
    let (b, t, d) = GPT;
    let x = data[0];
    let normed = x.layer_norm(1, Some(&p[0]), Some(&p[1]), 1e-5);
    let qkv = normed.linear(&p[2], Some(&p[3]));
    let qkv = qkv
        .reshape([b, t, 3, HEADS, d / HEADS])
        .permute([2, 0, 3, 1, 4]);
    let (q, k, v) = (qkv.select(0, 0), qkv.select(0, 1), qkv.select(0, 2));
    let attended = Tensor::scaled_dot_product_attention(&q, &k, &v, None, true, None);
    let attended = attended.permute([0, 2, 1, 3]).reshape([b, t, d]);
    let x = x + attended.linear(&p[4], Some(&p[5]));
    let normed = x.layer_norm(1, Some(&p[6]), Some(&p[7]), 1e-5);
    let hidden = normed.linear(&p[8], Some(&p[9])).gelu_tanh();
    (x + hidden.linear(&p[10], Some(&p[11]))).mse_loss(data[1])
}

/// Steps, batch, inputs and hidden units.
const LSTM: (usize, usize, usize, usize) = (32, 32, 64, 128);
const CELL: [&[usize]; 3] = [&[512, 64], &[512, 128], &[512]];

/// An LSTM over a sequence, and the mean square of its last state's distance to a target.
fn lstm(p: &[Tensor], data: &[&Tensor]) -> Tensor {
    let (steps, b, _, n) = LSTM;
    let zero = || Tensor::zeros([b, n], DType::F32, &Device::cpu());
    let (mut h, mut c) = (zero(), zero());
    for t in 0..steps as isize {
        let gates = data[0].select(0, t).linear(&p[0], Some(&p[2])) + h.linear(&p[1], None);
        let gates = gates.chunk(4, 1);
        c = gates[1].sigmoid() * &c + gates[0].sigmoid() * gates[2].tanh();
        h = gates[3].sigmoid() * c.tanh();
    }
    h.mse_loss(data[1])
}
