//! Programs with a short last axis: points of three coordinates, pixels of three colours, classes of a few.
//! `peers/short_axes.py` runs the same programs in PyTorch.
//!
//! ```text
//! cargo bench --bench short_axes [-- --rounds N] [-- --smoke] [names]
//! ```

mod measure;

use ferrotrace::prelude::*;
use measure::Outcome;
use measure::modes::beside_eager;

/// A program, the shapes of its inputs, and what it makes of them.
type Case = (
    &'static str,
    &'static [&'static [usize]],
    fn(&[Tensor]) -> Tensor,
);

/// Differences of all pairs of rows.
fn pairs(x: &Tensor) -> Tensor {
    x.unsqueeze(0) - x.unsqueeze(1)
}

/// A step of the inverse Haar transform: an image of twice the size from one of `n` x `n` pixels and its details.
fn twice(low: &Tensor, details: &Tensor, n: usize) -> Tensor {
    let [across, down, both] = [0, 1, 2].map(|i| details.select(0, i));
    let beside =
        |a: &Tensor, b: &Tensor| Tensor::stack(&[&(a + b), &(a - b)], 2).reshape([n, 2 * n]);
    let (left, right) = (beside(low, &across), beside(&down, &both));
    Tensor::stack(&[&(&left + &right), &(&left - &right)], 1).reshape([2 * n, 2 * n])
}

const CASES: &[Case] = &[
    ("scale_rows_3", &[&[100_000, 3], &[100_000]], |v| {
        &v[0] * v[1].exp().unsqueeze(1)
    }),
    ("bias_3", &[&[100_000, 3], &[3]], |v| &v[0] + &v[1]),
    ("bias_8", &[&[100_000, 8], &[8]], |v| &v[0] + &v[1]),
    ("normalise_3", &[&[100_000, 3]], |v| {
        &v[0] / (v[0].square().sum_keepdim(1) + 1e-6).sqrt()
    }),
    ("softmax_4", &[&[100_000, 4]], |v| v[0].softmax(1)),
    ("softmax_8", &[&[100_000, 8]], |v| v[0].softmax(1)),
    ("argmax_5", &[&[100_000, 5]], |v| v[0].argmax(1)),
    ("layer_norm_4", &[&[100_000, 4]], |v| {
        v[0].layer_norm(1, None, None, 1e-5)
    }),
    ("standardise_3", &[&[100_000, 3]], |v| {
        (&v[0] - v[0].mean_keepdim(0)) / v[0].std_keepdim(0, 1)
    }),
    ("mean_colours", &[&[256, 256, 3]], |v| {
        v[0].exp().mean([0, 1])
    }),
    ("gain_colours", &[&[256, 256, 3]], |v| {
        let light = v[0].mean_keepdim(2);
        &v[0] * (light.tanh() / (light.abs() + 0.1))
    }),
    ("bodies_300", &[&[300, 3], &[300]], |v| {
        let d = pairs(&v[0]);
        let near = (d.square().sum(-1) + 0.01).pow(-1.5);
        (d * (near * &v[1]).unsqueeze(-1)).sum(1)
    }),
    ("flock_300", &[&[300, 2]], |v| {
        let d = pairs(&v[0]);
        let near = (-d.square().sum(-1)).exp();
        (d * near.unsqueeze(-1)).sum(1)
    }),
    ("splats_64", &[&[4096, 2], &[64, 2], &[64, 3]], |v| {
        let d = (v[0].unsqueeze(1) - v[1].unsqueeze(0)).square().sum(-1);
        ((-d).exp().unsqueeze(-1) * &v[2]).sum(1)
    }),
    ("rays_2048", &[&[2048, 64], &[2048, 64, 3]], |v| {
        ((-v[0].square()).exp().unsqueeze(-1) * &v[1]).sum(1)
    }),
    ("rotate_points", &[&[100_000, 3], &[100_000]], |v| {
        let (c, s) = (v[1].cos(), v[1].sin());
        let [x, y, z] = [0, 1, 2].map(|i| v[0].select(1, i));
        Tensor::stack(&[&(&x * &c - &y * &s), &(&x * &s + &y * &c), &z], 1)
    }),
    ("products_3", &[&[20_000, 3, 3], &[20_000, 3, 3]], |v| {
        v[0].matmul(&v[1])
    }),
    ("products_8", &[&[4000, 8, 8], &[4000, 8, 8]], |v| {
        v[0].matmul(&v[1])
    }),
    ("attention_8", &[&[1024, 8, 8], &[1024, 8, 8]], |v| {
        let scores = v[0].matmul(&v[1].transpose(1, 2));
        scores.softmax(-1).matmul(&v[1])
    }),
    ("softmax_12_of_8", &[&[500, 12, 8]], |v| v[0].softmax(1)),
    ("blocks_8", &[&[512, 512], &[8, 8]], |v| {
        let blocks = v[0].reshape([64usize, 8, 64, 8]).permute([0, 2, 1, 3]);
        let coded = v[1].matmul(&blocks).matmul(&v[1].t());
        let coded = (coded * 4.0).round() * 0.25;
        let decoded = v[1].t().matmul(&coded).matmul(&v[1]);
        decoded.permute([0, 2, 1, 3]).reshape([512usize, 512])
    }),
    ("exchange_4", &[&[64, 32, 2, 4]], |v| {
        let (a, b) = (v[0].select(2, 0), v[0].select(2, 1));
        Tensor::stack(&[&a.minimum(&b), &a.maximum(&b)], 2)
    }),
    ("swap_8", &[&[64, 8, 64, 8]], |v| {
        v[0].permute([0, 2, 1, 3]).contiguous()
    }),
    ("haar_2", &[&[64, 64], &[3, 64, 64], &[3, 128, 128]], |v| {
        twice(&twice(&v[0], &v[1], 64), &v[2], 128)
    }),
];

fn main() -> Outcome {
    let cases = CASES.iter().map(|(name, shapes, program)| {
        let of = |shape: &&[usize]| Tensor::randn(*shape, DType::F32, &Device::cpu());
        let inputs = move || shapes.iter().map(of).collect();
        (*name, inputs, *program)
    });
    beside_eager("Programs with a short last axis", cases)
}
