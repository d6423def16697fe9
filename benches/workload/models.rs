//! Whole networks, forward, with the weights that a compiled function captures.

use super::{Workload, randn};
use ferrotrace::prelude::*;

pub(super) fn open(name: &str) -> Option<Workload> {
    match name {
        "minilm" => Some(encoder()),
        "lstm_b1" => Some(lstm(1)),
        "lstm_b8" => Some(lstm(8)),
        _ => None,
    }
}

/// Sentences, tokens, width, heads, hidden width and layers of all-MiniLM-L6-v2.
const ENCODER: [usize; 6] = [32, 128, 384, 12, 1536, 6];

/// Tensors of these shapes, with seeds from `first` on.
fn weights(shapes: &[&[usize]], first: usize) -> Vec<Tensor> {
    let numbered = shapes.iter().zip(first as u64..);
    numbered
        .map(|(shape, seed)| randn(*shape, seed, 0.05))
        .collect()
}

/// An encoder of sentences, from embedded tokens on.
fn encoder() -> Workload {
    let [sentences, tokens, d, heads, f, layers] = ENCODER;
    let shapes: [&[usize]; 16] = [
        &[d, d],
        &[d],
        &[d, d],
        &[d],
        &[d, d],
        &[d],
        &[d, d],
        &[d],
        &[d],
        &[d],
        &[f, d],
        &[f],
        &[d, f],
        &[d],
        &[d],
        &[d],
    ];
    let layers: Vec<Vec<Tensor>> = (0..layers).map(|i| weights(&shapes, 16 * i + 1)).collect();
    let x = randn([sentences, tokens, d], 0, 1.0);
    let forward = jit(move |x: &Tensor| {
        let heads = |y: Tensor| {
            y.reshape([sentences, tokens, heads, d / heads])
                .transpose(1, 2)
        };
        layers.iter().fold(x.clone(), |x, p| {
            let [q, k, v] = [0, 2, 4].map(|i| heads(x.linear(&p[i], Some(&p[i + 1]))));
            let attended = Tensor::scaled_dot_product_attention(&q, &k, &v, None, false, None);
            let attended = attended.transpose(1, 2).reshape([sentences, tokens, d]);
            let x = x + attended.linear(&p[6], Some(&p[7]));
            let x = x.layer_norm(1, Some(&p[8]), Some(&p[9]), 1e-12);
            let hidden = x.linear(&p[10], Some(&p[11])).gelu();
            let x = x + hidden.linear(&p[12], Some(&p[13]));
            x.layer_norm(1, Some(&p[14]), Some(&p[15]), 1e-12)
        })
    });
    Box::new(move || vec![forward.call(&x)])
}

/// Steps, units and layers.
const LSTM: [usize; 3] = [128, 512, 2];

/// Layers of long short-term memory, written as a loop over steps.
fn lstm(batch: usize) -> Workload {
    let [steps, n, layers] = LSTM;
    let shapes: [&[usize]; 3] = [&[4 * n, n], &[4 * n, n], &[4 * n]];
    let layers: Vec<Vec<Tensor>> = (0..layers).map(|i| weights(&shapes, 3 * i + 1)).collect();
    let x = randn([steps, batch, n], 0, 1.0);
    let forward = jit(move |x: &Tensor| {
        let mut states: Vec<Tensor> = (0..steps as isize).map(|t| x.select(0, t)).collect();
        for p in &layers {
            let mut h = Tensor::zeros([batch, n], DType::F32, &Device::cpu());
            let mut c = h.clone();
            for x in &mut states {
                let gates = x.linear(&p[0], Some(&p[2])) + h.linear(&p[1], None);
                let gates = gates.chunk(4, 1);
                c = gates[1].sigmoid() * &c + gates[0].sigmoid() * gates[2].tanh();
                h = gates[3].sigmoid() * c.tanh();
                *x = h.clone();
            }
        }
        Tensor::stack(&states, 0)
    });
    Box::new(move || vec![forward.call(&x)])
}
