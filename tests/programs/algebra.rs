//! Algorithms on matrices and graphs.

use crate::check::{Program, noise};
use crate::expected::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// A symmetric matrix, all of whose eigenvalues are at least 2.
fn definite(n: usize) -> Tensor {
    with_mode(Mode::Eager, || {
        let a = noise(&[n, n], 9);
        a.matmul(&a.t()) / n as f64 + Tensor::eye(n, F64, &Device::cpu()) * 2.0
    })
}

/// A step of conjugate gradients: the solution so far, the residual, the direction, the matrix.
fn conjugate_gradients(s: Vec<Tensor>) -> Vec<Tensor> {
    let [x, r, d, a] = <[Tensor; 4]>::try_from(s).expect("four tensors");
    let (norm, image) = (r.dot(&r), a.matmul(&d));
    let length = &norm / d.dot(&image);
    let (x, r) = (x + &d * &length, r - image * length);
    let d = &r + d * (r.dot(&r) / norm);
    vec![x, r, d, a]
}

#[test]
fn conjugate_gradient_method() {
    Program {
        state: || {
            let b = noise(&[60], 0);
            vec![b.zeros_like(), b.clone(), b, definite(60)]
        },
        step: conjugate_gradients,
        steps: 12,
        expected: GRADIENTS,
        tolerance: 1e-9,
    }
    .check();
}

/// A step of the QR algorithm, by Householder's reflections.
fn qr_step(s: Vec<Tensor>) -> Vec<Tensor> {
    let mut r = s[0].clone();
    let n = r.dims()[0];
    let mut q = Tensor::eye(n, F64, &Device::cpu());
    for k in 0..n as isize - 1 {
        let x = r.at((k.., k));
        let first = -x.at(0).sign() * x.norm(2.0, ..);
        let v = x.assign(0, &(x.at(0) - &first));
        let v = &v / v.norm(2.0, ..);
        let (column, row) = (v.unsqueeze(1), v.unsqueeze(0));
        let rest = r.at((k.., k..));
        r = r.assign((k.., k..), &(&rest - &column * row.matmul(&rest) * 2.0));
        let rest = q.at((.., k..));
        q = q.assign((.., k..), &(&rest - rest.matmul(&column) * row * 2.0));
    }
    vec![r.triu(0).matmul(&q)]
}

#[test]
fn qr_algorithm() {
    Program {
        state: || vec![definite(10)],
        step: qr_step,
        steps: 8,
        expected: QR,
        tolerance: 1e-11,
    }
    .check();
}

/// Cholesky's factor L of a matrix, column by column; the next matrix is LᵀL.
fn cholesky_step(s: Vec<Tensor>) -> Vec<Tensor> {
    let a = &s[0];
    let n = a.dims()[0] as isize;
    let mut l = a.zeros_like();
    for j in 0..n {
        let row = l.at((j, 0..j));
        let pivot = (a.at((j, j)) - row.square().sum(0)).sqrt();
        l = l.assign((j, j), &pivot);
        let rest = l.at((j + 1.., 0..j)).matmul(&row);
        l = l.assign((j + 1.., j), &((a.at((j + 1.., j)) - rest) / pivot));
    }
    vec![l.t().matmul(&l)]
}

#[test]
fn cholesky_iteration() {
    Program {
        state: || vec![definite(12)],
        step: cholesky_step,
        steps: 8,
        expected: CHOLESKY,
        tolerance: 1e-11,
    }
    .check();
}

/// Lloyd's iteration; a centre without points stays where it is.
fn k_means(s: Vec<Tensor>) -> Vec<Tensor> {
    let [points, centres] = <[Tensor; 2]>::try_from(s).expect("two tensors");
    let away = points.unsqueeze(1) - centres.unsqueeze(0);
    let nearest = away.square().sum(-1).argmin(1);
    let belongs = nearest.one_hot(centres.dims()[0]).to_dtype(F64);
    let count = belongs.sum(0).unsqueeze(1);
    let means = belongs.t().matmul(&points) / count.clamp_min(1.0);
    vec![points, count.gt(0.0).where_cond(&means, &centres)]
}

#[test]
fn k_means_with_empty_clusters() {
    Program {
        state: || vec![noise(&[150, 2], 0), noise(&[12, 2], 8) * 3.0],
        step: k_means,
        steps: 12,
        expected: K_MEANS,
        tolerance: 1e-12,
    }
    .check();
}

/// Viterbi's path through six states and 20 observations, whose mean moves the next scores.
fn viterbi(s: Vec<Tensor>) -> Vec<Tensor> {
    let [start, moves, seen] = <[Tensor; 3]>::try_from(s).expect("three tensors");
    let moves_log = moves.log_softmax(1);
    let mut score = start.log_softmax(0);
    let mut from = Vec::new();
    for t in 0..20 {
        let (best, by) = (score.unsqueeze(1) + &moves_log).max_with_index(0);
        score = best + seen.at(t);
        from.push(by);
    }
    let mut path = vec![score.argmax_keepdim(0)];
    for by in from.iter().rev() {
        path.push(by.gather(0, &path[path.len() - 1]));
    }
    let path = Tensor::cat(path, 0).to_dtype(F64);
    vec![start * 0.5 + score * 0.05 + path.mean(0), moves, seen]
}

#[test]
fn most_likely_path() {
    Program {
        state: || vec![noise(&[6], 0), noise(&[6, 6], 3), noise(&[20, 6], 5)],
        step: viterbi,
        steps: 8,
        expected: VITERBI,
        tolerance: 1e-12,
    }
    .check();
}

/// Kalman's filter of a point that moves in the plane, seen with noise.
fn kalman(s: Vec<Tensor>) -> Vec<Tensor> {
    let [x, spread, time] = <[Tensor; 3]>::try_from(s).expect("three tensors");
    let device = Device::cpu();
    let eye = |n: usize| Tensor::eye(n, F64, &device);
    let moves = eye(4) + eye(4).roll(2, 1).triu(0) * 0.1;
    let sees = eye(4).narrow(0, 0, 2);
    let x = moves.matmul(&x);
    let spread = moves.matmul(&spread).matmul(&moves.t()) + eye(4) * 0.01;
    let seen = Tensor::stack([(&time * 0.1).sin(), (&time * 0.1).cos()], 0);
    let error = seen - sees.matmul(&x);
    let total = sees.matmul(&spread).matmul(&sees.t()) + eye(2) * 0.1;
    let at = |i: isize, j: isize| total.at((i, j));
    let determinant = at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0);
    let adjugate = Tensor::stack([at(1, 1), -at(0, 1), -at(1, 0), at(0, 0)], 0);
    let inverse = adjugate.reshape([2, 2]) / determinant;
    let gain = spread.matmul(&sees.t()).matmul(&inverse);
    let spread = (eye(4) - gain.matmul(&sees)).matmul(&spread);
    vec![x + gain.matmul(&error), spread, time + 1.0]
}

#[test]
fn kalman_filter() {
    Program {
        state: || {
            let (spread, time) = (
                Tensor::eye(4, F64, &Device::cpu()),
                Tensor::zeros([1], F64, &Device::cpu()),
            );
            vec![noise(&[4, 1], 0), spread, time]
        },
        step: kalman,
        steps: 24,
        expected: KALMAN,
        tolerance: 1e-11,
    }
    .check();
}

/// Steps of a beam search: the best 4 of all continuations of 4 sequences, by scores of pairs of words.
fn beams(s: Vec<Tensor>) -> Vec<Tensor> {
    let [scores, words, pairs] = <[Tensor; 3]>::try_from(s).expect("three tensors");
    let count = pairs.dims()[0];
    let last = words.at((.., -1));
    let all = scores.unsqueeze(1) + pairs.log_softmax(1).index_select(0, &last);
    let (best, at) = all.flatten(0, 1).topk(4, 0, true);
    let (parent, word) = (at.floor_divide(count as i64), &at % count as i64);
    let length = words.dims()[1];
    let before = words.gather(0, &parent.unsqueeze(1).expand([4, length]));
    let words = Tensor::cat([before.at((.., 1..)), word.unsqueeze(1)], 1);
    vec![&best - best.max(0), words, pairs]
}

#[test]
fn beam_search() {
    Program {
        state: || {
            let words = Tensor::arange(0, 24, 1, I64, &Device::cpu()).reshape([4, 6]);
            vec![noise(&[4], 5), words % 12, noise(&[12, 12], 2)]
        },
        step: beams,
        steps: 24,
        expected: BEAMS,
        tolerance: 1e-12,
    }
    .check();
}

/// A filter by particles, which are drawn again by evenly spread positions in their weights' running sum.
fn particles(s: Vec<Tensor>) -> Vec<Tensor> {
    let [at, time, spread] = <[Tensor; 3]>::try_from(s).expect("three tensors");
    let n = at.numel();
    let moved = &at * 0.9 + (&time * 0.3).sin() + &spread * 0.1;
    let weights = ((&moved - (&time * 0.2).cos()).square() * -2.0).exp();
    let running = weights.cumsum(0);
    let evenly = Tensor::arange(0, n as i64, 1, F64, &Device::cpu()) + 0.5;
    let drawn = running.searchsorted(evenly * (running.at(-1) / n as f64), false);
    vec![moved.index_select(0, &drawn), time + 1.0, spread.roll(7, 0)]
}

#[test]
fn particle_filter() {
    Program {
        state: || {
            let time = Tensor::scalar(0.0, F64, &Device::cpu());
            vec![noise(&[100], 0), time, noise(&[100], 1)]
        },
        step: particles,
        steps: 24,
        expected: PARTICLES,
        tolerance: 1e-11,
    }
    .check();
}
