//! Training steps that update parameters: a perceptron's, its gradient written out, and AdamW over a hundred tensors.

use super::{Workload, randn};
use ferrotrace::prelude::*;

pub(super) fn open(name: &str) -> Option<Workload> {
    Some(match name {
        "mlp_step" => perceptron_step(),
        "adamw100" => adamw(),
        _ => return None,
    })
}

const BATCH: usize = 256;
const RATE: f64 = 0.01;

/// Gradient descent on three layers, 784 to 512 to 512 to 10; the loss is the first output.
fn perceptron_step() -> Workload {
    let shapes: [&[usize]; 6] = [&[784, 512], &[512], &[512, 512], &[512], &[512, 10], &[10]];
    let mut parameters: Option<[Tensor; 6]> =
        Some(std::array::from_fn(|i| randn(shapes[i], i as u64, 0.03)));
    let images = randn([BATCH, 784], 0, 1.0);
    let labels: Vec<i64> = (0..BATCH as i64).map(|i| i % 10).collect();
    let labels = Tensor::from_vec(labels, BATCH, &Device::cpu());
    let step = jit(
        |(parameters, images, labels): ([Tensor; 6], &Tensor, &Tensor)| {
            let [w1, b1, w2, b2, w3, b3] = &parameters;
            let first = (images.matmul(w1) + b1).relu();
            let second = (first.matmul(w2) + b2).relu();
            let scores = (second.matmul(w3) + b3).log_softmax(-1);
            let truth = labels.one_hot(10).to_dtype(DType::F32);
            let loss = -(&scores * &truth).sum(-1).mean(0);
            let d_scores = (scores.exp() - truth) / BATCH as f64;
            let d_second = d_scores.matmul(&w3.t()) * second.gt(0.0);
            let d_first = d_second.matmul(&w2.t()) * first.gt(0.0);
            let gradients = [
                images.t().matmul(&d_first),
                d_first.sum(0),
                first.t().matmul(&d_second),
                d_second.sum(0),
                second.t().matmul(&d_scores),
                d_scores.sum(0),
            ];
            let updated: [Tensor; 6] =
                std::array::from_fn(|i| &parameters[i] - &gradients[i] * RATE);
            (updated, loss)
        },
    );
    Box::new(move || {
        let Some(given) = parameters.take() else {
            return Vec::new();
        };
        let (updated, loss) = step.call((given, &images, &labels));
        parameters = Some(updated);
        vec![loss]
    })
}

/// A hundred parameters' shapes: 21.09 million numbers.
fn shapes() -> Vec<Vec<usize>> {
    let kinds: [(usize, &[usize]); 5] = [
        (10, &[1024, 1024]),
        (20, &[512, 512]),
        (30, &[512]),
        (20, &[10, 512]),
        (20, &[256, 1024]),
    ];
    kinds
        .iter()
        .flat_map(|&(n, shape)| std::iter::repeat_n(shape.to_vec(), n))
        .collect()
}

/// AdamW with learning rate 1e-3 and decay 1e-2 (Loshchilov, Hutter, 2019); the first parameter is the first output.
fn adamw() -> Workload {
    type List = Vec<Tensor>;
    let seeded = |first: u64| -> List {
        let of = |(i, shape): (usize, Vec<usize>)| randn(shape, first + i as u64, 1.0);
        shapes().into_iter().enumerate().map(of).collect()
    };
    let gradients = seeded(1000);
    let zeros = || -> List { gradients.iter().map(|g| g.zeros_like()).collect() };
    let steps = Tensor::scalar(0.0, DType::F32, &Device::cpu());
    let mut state = Some((seeded(0), zeros(), zeros(), steps));
    let step = jit(
        |(parameters, means, squares, count, gradients): (
            List,
            List,
            List,
            Tensor,
            Vec<&Tensor>,
        )| {
            let count = count + 1.0;
            let c1 = 1.0 - (&count * 0.9f64.ln()).exp();
            let c2 = 1.0 - (&count * 0.999f64.ln()).exp();
            let (mut p, mut m, mut v) = (List::new(), List::new(), List::new());
            for (i, &g) in gradients.iter().enumerate() {
                let mean = &means[i] * 0.9 + g * 0.1;
                let square = &squares[i] * 0.999 + g * g * 0.001;
                let update = (&mean / &c1) / ((&square / &c2).sqrt() + 1e-8);
                p.push(&parameters[i] * (1.0 - 1e-3 * 0.01) - update * 1e-3);
                m.push(mean);
                v.push(square);
            }
            (p, m, v, count)
        },
    );
    Box::new(move || {
        let Some((p, m, v, count)) = state.take() else {
            return Vec::new();
        };
        let updated = step.call((p, m, v, count, gradients.iter().collect()));
        let first = updated.0[0].clone();
        state = Some(updated);
        vec![first]
    })
}
