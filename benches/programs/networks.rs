//! Networks of images and blocks of transformers, forward.

use super::{Program, halved, wave};
use ferrotrace::Interpolation;
use ferrotrace::prelude::*;

pub const PROGRAMS: &[Program] = &[
    // The mean over the patches is a fourteenth of what it adds, so that rounding to bf16, 0.8 % of a value, is 3 % of it:
    // against binary64, eager mode's mean magnitude lies 2.6 % off and a `jit` function's 3.5 %.
    Program {
        tolerance: Some(3e-2),
        ..Program::bf16("vit_bf16", vit_inputs, vit_bf16)
    },
    Program::f32(
        "unet_fwd",
        |d| {
            vec![
                wave(d, [8, 64, 64, 64], 1, 1.0),
                wave(d, [64, 64, 3, 3], 2, 0.05),
                wave(d, [128, 64, 3, 3], 3, 0.05),
                wave(d, [128, 128, 3, 3], 4, 0.03),
                wave(d, [64, 192, 3, 3], 5, 0.03),
                wave(d, 64, 6, 0.1) + 1.0,
                wave(d, 64, 7, 0.1),
                wave(d, 128, 8, 0.1) + 1.0,
                wave(d, 128, 9, 0.1),
                wave(d, [8, 128], 10, 1.0),
            ]
        },
        unet_fwd,
    ),
    Program::bf16(
        "alibi_bf16",
        |d| halved((0..3).map(|i| wave(d, [8, 16, 1024, 64], i, 1.0)).collect()),
        alibi_bf16,
    ),
    Program::bf16(
        "mlpblock_bf16",
        |d| {
            halved(vec![
                wave(d, [8192, 1024], 1, 1.0),
                wave(d, [4096, 1024], 2, 0.03),
                wave(d, 4096, 3, 0.1),
                wave(d, [1024, 4096], 4, 0.02),
                wave(d, 1024, 5, 0.1),
                wave(d, 1024, 6, 0.1) + 1.0,
            ])
        },
        mlpblock_bf16,
    ),
    Program::f32(
        "conv3d",
        |d| {
            vec![
                wave(d, [2, 16, 32, 64, 64], 1, 1.0),
                wave(d, [32, 16, 3, 3, 3], 2, 0.05),
                wave(d, 32, 3, 0.1),
                wave(d, [64, 32, 3, 3, 3], 4, 0.04),
                wave(d, 64, 5, 0.1),
            ]
        },
        conv3d,
    ),
    Program::f32(
        "mbconv",
        |d| {
            vec![
                wave(d, [32, 96, 56, 56], 1, 1.0),
                wave(d, [384, 96, 1, 1], 2, 0.1),
                wave(d, [384, 1, 3, 3], 3, 0.3),
                wave(d, [96, 384, 1, 1], 4, 0.05),
                wave(d, 384, 5, 0.1),
                wave(d, 96, 6, 0.1),
                wave(d, [24, 384], 7, 0.1),
                wave(d, [384, 24], 8, 0.1),
            ]
        },
        mbconv,
    ),
];

/// Self-attention of sequences whose batch, length and width are `sizes`; one product makes queries, keys and values.
pub fn attention(
    x: &Tensor,
    qkv: &Tensor,
    out: &Tensor,
    sizes: [usize; 3],
    heads: usize,
    causal: bool,
) -> Tensor {
    let [batch, length, width] = sizes;
    let split = x
        .linear(qkv, None)
        .reshape([batch, length, 3, heads, width / heads])
        .permute([2, 0, 3, 1, 4]);
    let (q, k, v) = (split.select(0, 0), split.select(0, 1), split.select(0, 2));
    Tensor::scaled_dot_product_attention(&q, &k, &v, None, causal, None)
        .transpose(1, 2)
        .reshape(sizes)
        .linear(out, None)
}

fn vit_inputs(d: &Device) -> Vec<Tensor> {
    let width = 384;
    let mut inputs = vec![wave(d, [64, 3, 224, 224], 3, 1.0)];
    for i in 0..6 {
        inputs.extend([
            wave(d, [3 * width, width], 5 + i, 0.06),
            wave(d, [width, width], 6 + i, 0.06),
            wave(d, [4 * width, width], 9 + i, 0.06),
            wave(d, [width, 4 * width], 10 + i, 0.03),
            wave(d, width, 7 + i, 0.1) + 1.0,
            wave(d, width, 8 + i, 0.1),
        ]);
    }
    inputs.push(wave(d, [width, 768], 77, 0.05));
    halved(inputs)
}

/// A vision transformer of six layers, 384 wide, on 64 images of 224x224 in patches of 16x16.
fn vit_bf16(x: &[&Tensor]) -> Vec<Tensor> {
    let patches = x[0]
        .reshape([64, 3, 14, 16, 14, 16])
        .permute([0, 2, 4, 1, 3, 5])
        .reshape([64, 196, 768]);
    let mut h = patches.linear(x[37], None);
    for layer in x[1..37].chunks(6) {
        let norm = |h: &Tensor| h.layer_norm(1, Some(layer[4]), Some(layer[5]), 1e-5);
        h = &h + attention(&norm(&h), layer[0], layer[1], [64, 196, 384], 6, false);
        h = &h
            + norm(&h)
                .linear(layer[2], None)
                .gelu()
                .linear(layer[3], None);
    }
    vec![h.mean(1)]
}

/// A level of a U-Net of diffusion: convolutions with group norms, down, an embedding of the time, up, and a skip.
fn unet_fwd(x: &[&Tensor]) -> Vec<Tensor> {
    let norm = |h: &Tensor, w: &Tensor, b: &Tensor| h.group_norm(8, Some(w), Some(b), 1e-5).silu();
    let same = |h: &Tensor, w: &Tensor| h.conv2d(w, None, 1, 1, 1, 1);
    let skip = x[0] + norm(&same(x[0], x[1]), x[5], x[6]);
    let down = skip.conv2d(x[2], None, 2, 1, 1, 1);
    let timed = &down + x[9].unsqueeze(-1).unsqueeze(-1);
    let inner = same(&norm(&timed, x[7], x[8]), x[3]) + &down;
    let up = inner.interpolate([64, 64], Interpolation::Nearest, false);
    let joined = same(&Tensor::cat(&[&up, &skip], 1), x[4]);
    vec![norm(&joined, x[5], x[6])]
}

/// Causal attention with a bias that falls with the distance, by a slope for each head, given as a mask.
fn alibi_bf16(x: &[&Tensor]) -> Vec<Tensor> {
    let device = x[0].device();
    let i = Tensor::arange(0, 1024, 1, DType::F32, &device);
    let distance = i.unsqueeze(0) - i.unsqueeze(1);
    let slope = (Tensor::arange(1, 17, 1, DType::F32, &device) * -0.5)
        .exp2()
        .reshape([16, 1, 1]);
    let mask = distance
        .gt(0.0)
        .where_cond(f64::NEG_INFINITY, &(&distance * &slope))
        .to_dtype(DType::BF16);
    let y = Tensor::scaled_dot_product_attention(x[0], x[1], x[2], Some(&mask), false, None);
    vec![y]
}

/// The perceptron of a transformer with its norm and residual: 8,192 rows, 1,024 wide.
fn mlpblock_bf16(x: &[&Tensor]) -> Vec<Tensor> {
    let inner = x[0]
        .layer_norm(1, Some(x[5]), Some(x[4]), 1e-5)
        .linear(x[1], Some(x[2]))
        .gelu()
        .linear(x[3], Some(x[4]));
    vec![x[0] + inner]
}

/// Two convolutions of volumes with a pool between them, and the mean of each channel.
fn conv3d(x: &[&Tensor]) -> Vec<Tensor> {
    let h = x[0]
        .conv3d(x[1], Some(x[2]), 1, 1, 1, 1)
        .relu()
        .max_pool3d(2, 2, 0);
    let h = h.conv3d(x[3], Some(x[4]), 1, 1, 1, 1).relu();
    vec![h.mean([2, 3, 4])]
}

/// An inverted bottleneck with squeeze and excitation: 96 channels, 384 within.
fn mbconv(x: &[&Tensor]) -> Vec<Tensor> {
    let h = x[0].conv2d(x[1], Some(x[4]), 1, 0, 1, 1).silu();
    let h = h.conv2d(x[2], Some(x[4]), 1, 1, 1, 384).silu();
    let squeezed = h.mean([2, 3]).linear(x[6], None).silu();
    let gate = squeezed.linear(x[7], None).sigmoid();
    let h = h * gate.unsqueeze(-1).unsqueeze(-1);
    vec![h.conv2d(x[3], Some(x[5]), 1, 0, 1, 1) + x[0]]
}
