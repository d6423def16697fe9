//! Programs on factors of matrices.

use crate::check::{Program, noise};
use crate::expected::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// A step up the likelihood of a Gaussian process: the logarithms of its length, height and noise, by the factor of its
/// covariance.
fn likelihood(s: Vec<Tensor>) -> Vec<Tensor> {
    let w = s[0].detach().requires_grad();
    let (x, y) = (&s[1], &s[2]);
    let [length, height, spread] = [0, 1, 2].map(|i: isize| w.at(i).exp());
    let away = (x.unsqueeze(1) - x.unsqueeze(0)).square();
    let eye = Tensor::eye(x.numel(), F64, &x.device());
    let k = (away * -0.5 / length.square()).exp() * height + eye * (spread + 1e-3);
    let factor = k.cholesky();
    let white = factor.solve_triangular(&y.unsqueeze(1), false, true, false);
    let loss = white.square().sum(..) * 0.5 + factor.diagonal(0, 0, 1).log().sum(0);
    let gradient = grad(&loss, &[&w]).remove(0);
    vec![w.detach() - gradient * 0.02, x.clone(), y.clone()]
}

#[test]
fn likelihood_of_a_gaussian_process() {
    Program {
        state: || {
            let start = Tensor::from_slice(&[0.0, 0.0, -2.0], 3, &Device::cpu());
            vec![start, noise(&[8], 1), (noise(&[8], 1) * 2.0).sin()]
        },
        step: likelihood,
        steps: 8,
        expected: PROCESS,
        tolerance: 1e-10,
    }
    .check();
}

/// A step of a Kalman filter of two coordinates, measured, and their rates: the mean, the covariance, the time.
fn filtered(s: Vec<Tensor>) -> Vec<Tensor> {
    let [x, p, t] = <[Tensor; 3]>::try_from(s).expect("three tensors");
    let eye = |n: usize| Tensor::eye(n, F64, &Device::cpu());
    // Rates are added to coordinates.
    let move_on = eye(4) + eye(4).roll(2, 1).triu(0) * 0.1;
    let measure = eye(4).narrow(0, 0, 2);
    let x = move_on.matmul(&x);
    let p = move_on.matmul(&p).matmul(&move_on.t()) + eye(4) * 0.01;
    let seen = Tensor::stack(&[(&t * 0.3).sin(), (&t * 0.3).cos()], 0);
    let spread = measure.matmul(&p).matmul(&measure.t()) + eye(2) * 0.25;
    let gain = spread.solve(&measure.matmul(&p)).t();
    let x = &x + gain.matmul(&(seen - measure.matmul(&x)));
    let p = (eye(4) - gain.matmul(&measure)).matmul(&p);
    vec![x, p, t + 1.0]
}

#[test]
fn kalman_filter_with_a_solve() {
    Program {
        state: || {
            let start = Tensor::zeros(4, F64, &Device::cpu());
            let spread = Tensor::eye(4, F64, &Device::cpu());
            vec![start, spread, Tensor::zeros((), F64, &Device::cpu())]
        },
        step: filtered,
        steps: 20,
        expected: TRACKED,
        tolerance: 1e-10,
    }
    .check();
}
