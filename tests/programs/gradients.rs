//! Programs that go down gradients: of losses through solvers, recursions, updates and other gradients.

use crate::check::{Program, noise};
use crate::expected::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// The parameters as leaves of a new graph.
fn leaves(of: &[Tensor]) -> Vec<Tensor> {
    of.iter().map(|w| w.detach().requires_grad()).collect()
}

/// The parameters after a step down the gradient, and what is no parameter.
fn descended(loss: &Tensor, w: &[Tensor], rate: f64, rest: &[Tensor]) -> Vec<Tensor> {
    let gradients = grad(loss, &w.iter().collect::<Vec<_>>());
    let next = w.iter().zip(gradients).map(|(w, g)| w.detach() - g * rate);
    next.chain(rest.iter().cloned()).collect()
}

/// Cholesky's factor, column by column, as gradients go through it.
fn factor(a: &Tensor) -> Tensor {
    let n = a.dims()[0];
    let place = Tensor::arange(0, n as i64, 1, I64, &a.device());
    let (mut rest, mut columns) = (a.clone(), Vec::new());
    for j in 0..n as isize {
        let below = place.ge(j as i64).to_dtype(F64);
        let column = rest.at((.., j)) / rest.at((j, j)).sqrt() * below;
        rest = &rest - column.unsqueeze(1) * column.unsqueeze(0);
        columns.push(column);
    }
    Tensor::stack(columns, 1)
}

/// The logarithms of the length, the height and the noise of a Gaussian process, by its likelihood.
fn gaussian_process(s: Vec<Tensor>) -> Vec<Tensor> {
    let (w, x, y) = (leaves(&s[..1]), &s[1], &s[2]);
    let [length, height, spread] = [0, 1, 2].map(|i: isize| w[0].at(i).exp());
    let away = (x.unsqueeze(1) - x.unsqueeze(0)).square();
    let eye = Tensor::eye(x.numel(), F64, &x.device());
    let k = (away * -0.5 / length.square()).exp() * height + eye * (spread + 1e-3);
    let l = factor(&k);
    let mut solved: Vec<Tensor> = Vec::new();
    for i in 0..x.numel() as isize {
        let mut rest = y.at(i);
        for (j, before) in solved.iter().enumerate() {
            rest -= l.at((i, j as isize)) * before;
        }
        solved.push(rest / l.at((i, i)));
    }
    let loss = Tensor::stack(solved, 0).square().sum(0) * 0.5 + l.diagonal(0, 0, 1).log().sum(0);
    descended(&loss, &w, 0.02, &s[1..])
}

#[test]
fn gaussian_process_regression() {
    Program {
        state: || {
            let start = Tensor::from_slice(&[0.0, 0.0, -2.0], 3, &Device::cpu());
            vec![start, noise(&[8], 1), (noise(&[8], 1) * 2.0).sin()]
        },
        step: gaussian_process,
        steps: 8,
        expected: PROCESS,
        tolerance: 1e-10,
    }
    .check();
}

/// What two steps of each task's own make of the weights is what counts.
fn learn_to_learn(s: Vec<Tensor>) -> Vec<Tensor> {
    let (w, data) = (leaves(&s[..3]), &s[3..]);
    let loss = |w: &[Tensor], x: &Tensor, y: &Tensor| {
        let out = (x.matmul(&w[0]) + &w[1]).tanh().matmul(&w[2]);
        out.mse_loss(y)
    };
    let mut total = Tensor::scalar(0.0, F64, &Device::cpu());
    for task in 0..data[0].dims()[0] as isize {
        let mut own = w.clone();
        for _ in 0..2 {
            let first = loss(&own, &data[0].at(task), &data[1].at(task));
            let gradients = grad(&first, &own.iter().collect::<Vec<_>>());
            let down = own.iter().zip(gradients).map(|(w, g)| w - g * 0.1);
            own = down.collect();
        }
        total += loss(&own, &data[2].at(task), &data[3].at(task));
    }
    descended(&total, &w, 0.05, data)
}

#[test]
fn gradients_through_steps_of_gradients() {
    Program {
        state: || {
            let mut s = vec![noise(&[1, 8], 1) * 0.5, noise(&[8], 2) * 0.1];
            s.push(noise(&[8, 1], 3) * 0.5);
            s.extend((4..8).map(|seed| noise(&[2, 6, 1], seed)));
            s
        },
        step: learn_to_learn,
        steps: 8,
        expected: META,
        tolerance: 1e-10,
    }
    .check();
}

/// A critic whose slope at mixed points is to be one.
fn critic(s: Vec<Tensor>) -> Vec<Tensor> {
    let (w, real, fake, share) = (leaves(&s[..2]), &s[2], &s[3], &s[4]);
    let score = |x: &Tensor| x.matmul(&w[0]).leaky_relu(0.2).matmul(&w[1]);
    let mixed = (real * share + fake * (1.0 - share)).requires_grad();
    let slope = grad(&score(&mixed).sum(..), &[&mixed]).remove(0);
    let penalty = (slope.norm(2.0, 1) - 1.0).square().mean(..);
    let loss = score(fake).mean(..) - score(real).mean(..) + penalty * 10.0;
    let rest = [
        real.clone(),
        fake.roll(1, 0),
        (share + 0.37).frac().contiguous(),
    ];
    descended(&loss, &w, 0.01, &rest)
}

#[test]
fn gradient_penalty() {
    Program {
        state: || {
            let share = noise(&[12, 1], 5) * 0.25 + 0.5;
            let w = [noise(&[5, 9], 1) * 0.3, noise(&[9, 1], 2) * 0.3];
            let points = [noise(&[12, 5], 3), noise(&[12, 5], 4), share];
            w.into_iter().chain(points).collect()
        },
        step: critic,
        steps: 12,
        expected: PENALTY,
        tolerance: 1e-10,
    }
    .check();
}

/// A differential equation whose right side is learnt through the steps of Runge and Kutta.
fn neural_equation(s: Vec<Tensor>) -> Vec<Tensor> {
    let (w, h) = (leaves(&s[..2]), 0.1);
    let f = |x: &Tensor| x.matmul(&w[0]).tanh().matmul(&w[1]);
    let mut x = s[2].clone();
    for _ in 0..4 {
        let a = f(&x);
        let b = f(&(&x + &a * (h / 2.0)));
        let c = f(&(&x + &b * (h / 2.0)));
        let d = f(&(&x + &c * h));
        x += (a + (b + c) * 2.0 + d) * (h / 6.0);
    }
    descended(&x.mse_loss(&s[3]), &w, 0.5, &s[2..])
}

#[test]
fn neural_differential_equation() {
    Program {
        state: || {
            let w = [noise(&[3, 8], 1) * 0.3, noise(&[8, 3], 2) * 0.3];
            let ends = [noise(&[10, 3], 3), noise(&[10, 3], 4)];
            w.into_iter().chain(ends).collect()
        },
        step: neural_equation,
        steps: 8,
        expected: EQUATION,
        tolerance: 1e-10,
    }
    .check();
}

/// A chain of labels for sentences of several lengths, by the likelihood of one labelling among all.
fn labels(s: Vec<Tensor>) -> Vec<Tensor> {
    let (w, tags, lengths) = (leaves(&s[..2]), &s[2], &s[3]);
    let (moves, scores) = (&w[0], &w[1]);
    let (time, kinds) = (scores.dims()[1], moves.dims()[0] as i64);
    let place = Tensor::arange(0, time as i64, 1, I64, &Device::cpu());
    let within = place.unsqueeze(0).lt(&lengths.unsqueeze(1));
    let mut all = scores.at((.., 0));
    for t in 1..time as isize {
        let next = (all.unsqueeze(2) + moves).logsumexp(1) + scores.at((.., t));
        all = within.at((.., t..t + 1)).where_cond(&next, &all);
    }
    let counts = within.to_dtype(F64);
    let chosen = scores.gather(2, &tags.unsqueeze(2)).squeeze(2) * &counts;
    let pairs = tags.at((.., ..-1)) * kinds + tags.at((.., 1..));
    let moved = moves.reshape(-1).index_select(0, &pairs.reshape(-1));
    let moved = moved.reshape(pairs.dims()) * counts.at((.., 1..));
    let loss = (all.logsumexp(1) - chosen.sum(1) - moved.sum(1)).mean(..);
    descended(&loss, &w, 1.0, &s[2..])
}

#[test]
fn conditional_random_field() {
    Program {
        state: || {
            let tags = (noise(&[4, 7], 3) * 1000.0 + 2000.0).round().to_dtype(I64) % 3;
            let lengths = Tensor::from_slice(&[7i64, 1, 4, 6], 4, &Device::cpu());
            vec![noise(&[3, 3], 1), noise(&[4, 7, 3], 2), tags, lengths]
        },
        step: labels,
        steps: 8,
        expected: LABELS,
        tolerance: 1e-10,
    }
    .check();
}

/// Halves that scale and shift each other in turn, so that what comes out is normally spread.
fn flow(s: Vec<Tensor>) -> Vec<Tensor> {
    let (w, x) = (leaves(&s[..4]), &s[4]);
    let (mut a, mut b) = (x.narrow(1, 0, 2), x.narrow(1, 2, 2));
    let mut stretched = Tensor::zeros(x.dims()[0], F64, &Device::cpu());
    for layer in w.chunks(2) {
        let by = a.matmul(&layer[0]).relu().matmul(&layer[1]).chunk(2, 1);
        let scale = by[0].tanh();
        stretched += scale.sum(1);
        (a, b) = (b * scale.exp() + &by[1], a);
    }
    let z = Tensor::cat([a, b], 1);
    let loss = (z.square().sum(1) * 0.5 - stretched).mean(..);
    descended(&loss, &w, 0.05, &s[4..])
}

#[test]
fn normalising_flow() {
    Program {
        state: || {
            let w = [1, 2].map(|i| [noise(&[2, 6], i) * 0.3, noise(&[6, 4], i + 2) * 0.2]);
            let points = noise(&[14, 4], 5);
            w.into_iter().flatten().chain([points]).collect()
        },
        step: flow,
        steps: 8,
        expected: NORMALISING,
        tolerance: 1e-10,
    }
    .check();
}
