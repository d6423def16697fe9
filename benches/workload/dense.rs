//! Matrix products, a convolution, a transformer block's forward pass.

use super::{Workload, of_many, randn};
use ferrotrace::Tensor;
use ferrotrace::jit;

pub(super) fn open(name: &str) -> Option<Workload> {
    let square = |n: usize| {
        let factors = [randn([n, n], 0, 1.0), randn([n, n], 1, 1.0)];
        of_many(factors, |[a, b]| vec![a.matmul(b)])
    };
    Some(match name {
        "mm_512" => square(512),
        "mm_1024" => square(1024),
        "mm_2048" => square(2048),
        "gemv_4096" => {
            let factors = [randn([1, 4096], 0, 1.0), randn([4096, 4096], 1, 1.0)];
            of_many(factors, |[a, b]| vec![a.matmul(b)])
        }
        "mm_bias_gelu" => {
            let inputs = [
                randn([1024, 1024], 0, 1.0),
                randn([1024, 4096], 1, 0.03),
                randn(4096, 2, 1.0),
            ];
            of_many(inputs, |[x, w, b]| vec![(x.matmul(w) + b).gelu_tanh()])
        }
        "conv3x3" => {
            let inputs = [
                randn([8, 64, 56, 56], 0, 1.0),
                randn([64, 64, 3, 3], 1, 0.05),
            ];
            of_many(inputs, |[x, w]| vec![x.conv2d(w, None, 1, 1, 1, 1)])
        }
        "attention_4x8x1024x64" => attention(false),
        "attention_causal_4x8x1024x64" => attention(true),
        "tblock" => transformer_block(),
        _ => return None,
    })
}

/// Attention of 4 sequences of 1,024 by 8 heads of 64.
fn attention(causal: bool) -> Workload {
    let inputs = [0, 1, 2].map(|seed| randn([4, 8, 1024, 64], seed, 1.0));
    of_many(inputs, move |[q, k, v]| {
        vec![Tensor::scaled_dot_product_attention(
            q, k, v, None, causal, None,
        )]
    })
}

const BATCH: usize = 8;
const LENGTH: usize = 128;
const WIDTH: usize = 384;
const HEADS: usize = 12;
const HIDDEN: usize = 1536;

fn transformer_block() -> Workload {
    let (d, f) = (WIDTH, HIDDEN);
    let shapes: [&[usize]; 8] = [
        &[d, 3 * d],
        &[3 * d],
        &[d, d],
        &[d],
        &[d, f],
        &[f],
        &[f, d],
        &[d],
    ];
    let mut inputs = vec![randn([BATCH, LENGTH, d], 0, 1.0)];
    inputs.extend(
        shapes
            .iter()
            .enumerate()
            .map(|(i, &shape)| randn(shape, i as u64 + 10, 0.02)),
    );
    let block = jit(|inputs: Vec<&Tensor>| block(&inputs));
    Box::new(move || vec![block.call(inputs.iter().collect())])
}

fn block(inputs: &[&Tensor]) -> Tensor {
    let &[x, w_qkv, b_qkv, w_o, b_o, w_1, b_1, w_2, b_2] = inputs else {
        unreachable!("a block has nine inputs")
    };
    let gain = Tensor::ones(WIDTH, x.dtype(), &x.device());
    let shift = gain.zeros_like();
    let norm = |x: &Tensor| x.layer_norm(1, Some(&gain), Some(&shift), 1e-5);
    let qkv = (norm(x).matmul(w_qkv) + b_qkv)
        .reshape([BATCH, LENGTH, 3, HEADS, WIDTH / HEADS])
        .permute([2, 0, 3, 1, 4]);
    let [q, k, v] = [0, 1, 2].map(|i: isize| qkv.select(0, i));
    let attended = Tensor::scaled_dot_product_attention(&q, &k, &v, None, false, None);
    let attended = attended.transpose(1, 2).reshape([BATCH, LENGTH, WIDTH]);
    let x = x + attended.matmul(w_o) + b_o;
    let hidden = (norm(&x).matmul(w_1) + b_1).gelu_tanh();
    &x + hidden.matmul(w_2) + b_2
}
