//! Algorithms over arrays: clustering, transport, ranking, signals, images, linear algebra.

use super::{Program, ids, normal, wave};
use ferrotrace::DType::{F32, I64, U8};
use ferrotrace::prelude::*;

pub const PROGRAMS: &[Program] = &[
    Program::f32(
        "kmeans",
        |d| vec![wave(d, [100_000, 64], 1, 1.0), wave(d, [64, 64], 2, 1.0)],
        kmeans,
    ),
    Program::f32(
        "sinkhorn",
        |d| vec![wave(d, [2048, 2048], 1, 1.0)],
        sinkhorn,
    ),
    Program::f32(
        "gmm_em",
        |d| vec![wave(d, [100_000, 16], 1, 1.0), wave(d, [16, 16], 2, 1.0)],
        gmm_em,
    ),
    Program::f32(
        "pagerank",
        |d| vec![ids(d, 1_000_000, 1, 100_000), ids(d, 1_000_000, 2, 99991)],
        pagerank,
    ),
    Program::f32(
        "mel",
        |d| {
            vec![
                wave(d, [16, 160_000], 1, 1.0),
                wave(d, 400, 2, 1.0),
                wave(d, [400, 201], 3, 1.0),
                wave(d, [400, 201], 4, 1.0),
                wave(d, [201, 80], 5, 0.1) + 0.1,
            ]
        },
        mel,
    ),
    Program::f32(
        "topk_sample",
        |d| vec![wave(d, [64, 50257], 1, 5.0)],
        topk_sample,
    ),
    Program::f32("image", |d| vec![wave(d, [3, 2160, 3840], 1, 1.0)], image),
    Program::f32(
        "opening",
        |d| vec![normal(d, [2048, 2048], 1, 1.0)],
        opening,
    ),
    Program::f32("life", |d| vec![normal(d, [2048, 2048], 1, 1.0)], life),
    Program::f32(
        "cg_dense",
        |d| vec![normal(d, [2048, 2048], 1, 0.03), normal(d, 2048, 2, 1.0)],
        cg_dense,
    ),
    Program::f32(
        "gram_schmidt",
        |d| vec![normal(d, [512, 64], 1, 1.0)],
        gram_schmidt,
    ),
    Program::f32("cholesky", |d| vec![positive(d, [2048, 2048])], cholesky),
    Program::f32(
        "cholesky_8x8",
        |d| vec![positive(d, [16_384, 8, 8])],
        cholesky,
    ),
    Program::f32(
        "solve",
        |d| {
            vec![
                normal(d, [1024, 1024], 1, 1.0),
                normal(d, [1024, 16], 2, 1.0),
            ]
        },
        solve,
    ),
    Program::f32(
        "solve_8x8",
        |d| {
            vec![
                positive(d, [16_384, 8, 8]),
                normal(d, [16_384, 8, 1], 2, 1.0),
            ]
        },
        solve,
    ),
    Program::f32(
        "gp_train",
        |d| {
            let start = normal(d, 3, 3, 0.0).requires_grad();
            vec![
                normal(d, [1024, 8], 1, 1.0),
                normal(d, [1024, 1], 2, 1.0),
                start,
            ]
        },
        gp_train,
    ),
];

/// Symmetric positive definite matrices.
fn positive<const N: usize>(d: &Device, shape: [usize; N]) -> Tensor {
    let x = normal(d, shape, 1, 1.0);
    let n = shape[N - 1];
    x.matmul(&x.transpose(-1, -2)) / n as f64 + Tensor::eye(n, F32, d)
}

fn cholesky(x: &[&Tensor]) -> Vec<Tensor> {
    vec![x[0].cholesky()]
}

fn solve(x: &[&Tensor]) -> Vec<Tensor> {
    vec![x[0].solve(x[1])]
}

/// The likelihood of 1,024 values of a Gaussian process, by a kernel of squared distances, and its gradient by the
/// logarithms of length, height and noise.
fn gp_train(x: &[&Tensor]) -> Vec<Tensor> {
    let [points, values, parameters] = x else {
        unreachable!("three inputs")
    };
    let of = |i| parameters.select(0, i).exp();
    let scaled = *points / of(0);
    let squares = scaled.square().sum_keepdim(1);
    let distance = &squares + squares.t() - scaled.matmul(&scaled.t()) * 2.0;
    let kernel = (distance * -0.5).exp() * of(1);
    let l = (kernel + Tensor::eye(1024, F32, &points.device()) * of(2)).cholesky();
    let fit = values.t().matmul(&l.cholesky_solve(values)).sum(..) * 0.5;
    let loss = fit + l.diagonal(0, 0, 1).log().sum(..);
    let gradient = grad(&loss, &[*parameters]).remove(0);
    vec![loss, gradient]
}

/// Five rounds of k-means: 100,000 points in 64 dimensions, 64 centres.
fn kmeans(x: &[&Tensor]) -> Vec<Tensor> {
    let (points, device) = (x[0], x[0].device());
    let mut centres = x[1].clone();
    for _ in 0..5 {
        let distance = centres.square().sum(1) - points.matmul(&centres.t()) * 2.0;
        let nearest = distance.argmin(1);
        let sums = Tensor::zeros([64, 64], F32, &device).index_add(0, &nearest, points);
        let ones = Tensor::ones(100_000, F32, &device);
        let counts = Tensor::zeros(64, F32, &device).index_add(0, &nearest, &ones);
        centres = sums / counts.clamp_min(1.0).unsqueeze(1);
    }
    vec![centres]
}

/// Optimal transport between 2,048 and 2,048 points by ten iterations on logarithms (Sinkhorn; Cuturi, 2013).
fn sinkhorn(x: &[&Tensor]) -> Vec<Tensor> {
    let mut f = Tensor::zeros(2048, F32, &x[0].device());
    let mut g = f.clone();
    for _ in 0..10 {
        f = -((&g.unsqueeze(0) - x[0]) * 10.0).logsumexp(1) * 0.1;
        g = -((&f.unsqueeze(1) - x[0]) * 10.0).logsumexp(0) * 0.1;
    }
    vec![f, g]
}

/// Five rounds of expectation and maximisation of 16 Gaussians with diagonal variances: 100,000 points in 16 dimensions.
fn gmm_em(x: &[&Tensor]) -> Vec<Tensor> {
    let (points, device) = (x[0], x[0].device());
    let mut mean = x[1].clone();
    let mut var = Tensor::ones([16, 16], F32, &device);
    let mut share = Tensor::full(16, 1.0 / 16.0, F32, &device);
    for _ in 0..5 {
        let squares = points.square().matmul(&var.recip().t());
        let cross = points.matmul(&(&mean / &var).t()) * 2.0;
        let distance = (squares - cross) + (mean.square() / &var).sum(1);
        let weight = (share.log() - (distance + var.log().sum(1)) * 0.5).softmax(1);
        let n = weight.sum(0);
        let weight = weight.t();
        mean = weight.matmul(points) / n.unsqueeze(1);
        var = weight.matmul(&points.square()) / n.unsqueeze(1) - mean.square() + 1e-3;
        share = n / 100_000.0;
    }
    vec![mean, var, share]
}

/// Ten iterations of page rank: 100,000 pages, a million links.
fn pagerank(x: &[&Tensor]) -> Vec<Tensor> {
    let (from, to, device) = (x[0], x[1], x[0].device());
    let zeros = || Tensor::zeros(100_000, F32, &device);
    let ones = Tensor::ones(1_000_000, F32, &device);
    let degree = zeros().index_add(0, from, &ones).clamp_min(1.0);
    let mut rank = Tensor::full(100_000, 1e-5, F32, &device);
    for _ in 0..10 {
        let given = (&rank / &degree).index_select(0, from);
        rank = zeros().index_add(0, to, &given) * 0.85 + 0.15e-5;
    }
    vec![rank]
}

/// Normalised mel spectra of 16 sounds of ten seconds: windows of 400 samples, 80 bands.
fn mel(x: &[&Tensor]) -> Vec<Tensor> {
    let frames = x[0].unfold(1, 400, 160) * x[1];
    let power = frames.matmul(x[2]).square() + frames.matmul(x[3]).square();
    let bands = power.matmul(x[4]).clamp_min(1e-5).log();
    vec![(&bands - bands.mean_keepdim(1)) / (bands.std_keepdim(1, 1) + 1e-5)]
}

/// Choosing a token of 50,257 in 64 rows: the likeliest 50, of those the ones that make up 0.9, of those the median.
fn topk_sample(x: &[&Tensor]) -> Vec<Tensor> {
    let (values, indices) = (x[0] / 0.8).topk(50, 1, true);
    let p = values.softmax(1);
    let before = p.cumsum(1) - &p;
    let kept = p * before.lt(0.9).to_dtype(F32);
    let kept = &kept / kept.sum_keepdim(1);
    let place = kept.cumsum(1).lt(0.5).to_dtype(I64).sum_keepdim(1);
    vec![indices.gather(1, &place)]
}

/// A colour image of 3840x2160 blurred, in grey, its gradients by Sobel's windows, and the share of edges.
fn image(x: &[&Tensor]) -> Vec<Tensor> {
    const BLUR: [f64; 5] = [0.0625, 0.25, 0.375, 0.25, 0.0625];
    let blurred = |x: &Tensor, dim: isize, len: usize| {
        let part = |k: usize| x.narrow(dim, k as isize, len) * BLUR[k];
        (1..5).fold(part(0), |sum, k| sum + part(k))
    };
    let padded = x[0].pad(&[(0, 0), (2, 2), (2, 2)], 0.0);
    let c = blurred(&blurred(&padded, 1, 2160), 2, 3840);
    let grey = c.select(0, 0) * 0.299 + c.select(0, 1) * 0.587 + c.select(0, 2) * 0.114;
    let grey = grey.pad(&[(1, 1), (1, 1)], 0.0);
    let at = |y, x| grey.narrow(0, y, 2160).narrow(1, x, 3840);
    let gx = at(0, 2) + at(1, 2) * 2.0 + at(2, 2) - at(0, 0) - at(1, 0) * 2.0 - at(2, 0);
    let gy = at(2, 0) + at(2, 1) * 2.0 + at(2, 2) - at(0, 0) - at(0, 1) * 2.0 - at(0, 2);
    let m = (gx.square() + gy.square()).sqrt();
    vec![m.gt(&m.mean([0, 1])).to_dtype(F32).mean([0, 1])]
}

/// A mask of 2048x2048 opened by windows of 3x3: eroded, then dilated.
fn opening(x: &[&Tensor]) -> Vec<Tensor> {
    let part = |x: &Tensor, dim: isize, k: isize| x.narrow(dim, k, x.shape()[dim as usize] - 2);
    let mut mask = x[0].gt(-1.0);
    for dim in 0..2 {
        let both = part(&mask, dim, 0).logical_and(&part(&mask, dim, 1));
        mask = both.logical_and(&part(&mask, dim, 2));
    }
    mask = mask.pad(&[(2, 2), (2, 2)], false);
    for dim in 0..2 {
        let both = part(&mask, dim, 0).logical_or(&part(&mask, dim, 1));
        mask = both.logical_or(&part(&mask, dim, 2));
    }
    vec![mask]
}

/// Ten generations of Conway's life on a torus of 2048x2048 bytes.
fn life(x: &[&Tensor]) -> Vec<Tensor> {
    let mut cells = x[0].gt(0.4).to_dtype(U8);
    for _ in 0..10 {
        let columns = cells.roll(1, 0) + cells.roll(-1, 0);
        let whole = &cells + &columns;
        let around = whole.roll(1, 1) + whole.roll(-1, 1) + columns;
        let lives = around
            .eq(3)
            .logical_or(&around.eq(2).logical_and(&cells.eq(1)));
        cells = lives.to_dtype(U8);
    }
    vec![cells]
}

/// Twenty iterations of conjugate gradients for a positive definite matrix of 2,048 rows.
fn cg_dense(x: &[&Tensor]) -> Vec<Tensor> {
    let a = x[0].matmul(&x[0].t()) + Tensor::eye(2048, F32, &x[0].device());
    let mut solution = x[1].zeros_like();
    let mut r = x[1].clone();
    let mut p = r.clone();
    let mut rr = r.dot(&r);
    for _ in 0..20 {
        let ap = a.matmul(&p);
        let step = &rr / p.dot(&ap);
        solution += &step * &p;
        r -= &step * &ap;
        let next = r.dot(&r);
        p = &r + (&next / &rr) * &p;
        rr = next;
    }
    vec![solution]
}

/// Gram-Schmidt orthogonalisation of 64 columns of 512 rows, each written into its place of one matrix.
fn gram_schmidt(x: &[&Tensor]) -> Vec<Tensor> {
    let mut q = x[0].zeros_like();
    for j in 0..64isize {
        let mut v = x[0].select(1, j);
        if j > 0 {
            let before = q.narrow(1, 0, j as usize);
            v = &v - before.matmul(&before.t().matmul(&v));
        }
        v = &v / (v.square().sum(0).sqrt() + 1e-6);
        q = q.slice_assign(1, j, j + 1, 1, &v.unsqueeze(1));
    }
    vec![q]
}
