//! Loops that hold what they compute of each step, and read it at the end.

use ferrotrace::nn::Linear;
use ferrotrace::optim::Adam;
use ferrotrace::prelude::*;
use ferrotrace::{Generator, grad, value_and_grad};

/// Steps that a loop takes.
pub const STEPS: usize = 2000;

/// A loop: it takes its steps and returns a number of all that it held.
pub type Loop = fn(&Device) -> Result<f64>;

/// The loops, by what they hold.
pub const LOOPS: [(&str, Loop); 7] = [
    ("means of a state of 2,048", means),
    ("a running total of them", total),
    ("eigenvalues of 64x64 by powers", powers),
    ("losses of hand-written SGD", sgd_losses),
    ("losses of Adam", adam_losses),
    ("an average of weights, each loss read", average),
    ("two states of 64, 20,000 steps", two_states),
];

fn read(held: &[Tensor]) -> Result<f64> {
    held.iter().map(|x| x.item::<f64>()).sum()
}

fn state(device: &Device) -> Tensor {
    Generator::new(7).randn(2048, DType::F32, device)
}

fn means(device: &Device) -> Result<f64> {
    let (mut x, mut held) = (state(device), Vec::new());
    for _ in 0..STEPS {
        x = &x * 0.999 + 0.001;
        held.push(x.square().mean(..));
    }
    read(&held)
}

/// Each step reads two states, and so does the next, but only one chain of operations is the deepest.
fn two_states(device: &Device) -> Result<f64> {
    let mut x = state(device).narrow(0, 0, 64);
    let mut y = x.clone();
    for _ in 0..10 * STEPS {
        x = &x * 0.99 + &y * 0.01;
        y = &y * 0.5 + 0.01;
    }
    read(&[x.sum(..), y.sum(..)])
}

fn total(device: &Device) -> Result<f64> {
    let mut x = state(device);
    let mut total = Tensor::zeros((), DType::F32, device);
    for _ in 0..STEPS {
        x = &x * 0.999 + 0.001;
        total = &total + x.square().mean(..);
    }
    total.item()
}

fn powers(device: &Device) -> Result<f64> {
    let generator = Generator::new(7);
    let a = generator.randn([64, 64], DType::F32, device);
    let a = a.matmul(&a.t());
    let mut x = generator.randn(64, DType::F32, device);
    let mut held = Vec::new();
    for _ in 0..STEPS {
        let next = a.matmul(&x);
        held.push(x.dot(&next));
        x = &next / next.norm(2.0, ..);
    }
    read(&held)
}

/// Inputs and targets of 64 samples, and a model's two weights.
fn samples(device: &Device) -> [Tensor; 4] {
    let generator = Generator::new(7);
    let make = |shape: [usize; 2], scale: f64| generator.randn(shape, DType::F32, device) * scale;
    [
        make([64, 32], 1.0),
        make([64, 1], 1.0),
        make([32, 64], 0.1),
        make([64, 1], 0.1),
    ]
}

fn sgd(device: &Device, mut each: impl FnMut(&Tensor, &Tensor) -> Result<()>) -> Result<()> {
    let [x, y, mut first, mut second] = samples(device);
    for _ in 0..STEPS {
        let (a, b) = (first.requires_grad(), second.requires_grad());
        let loss = x.matmul(&a).tanh().matmul(&b).mse_loss(&y);
        let gradients = grad(&loss, &[&a, &b]);
        first = (&first - &gradients[0] * 0.01).detach();
        second = (&second - &gradients[1] * 0.01).detach();
        each(&loss.detach(), &first)?;
    }
    eval([&first, &second])
}

fn sgd_losses(device: &Device) -> Result<f64> {
    let mut held = Vec::new();
    sgd(device, |loss, _| {
        held.push(loss.clone());
        Ok(())
    })?;
    read(&held)
}

fn average(device: &Device) -> Result<f64> {
    let (mut average, mut losses) = (samples(device)[2].clone(), 0.0);
    sgd(device, |loss, weight| {
        average = average.lerp(weight, 0.01);
        losses += loss.item::<f64>()?;
        Ok(())
    })?;
    Ok(losses + average.sum(..).item::<f64>()?)
}

fn adam_losses(device: &Device) -> Result<f64> {
    let [x, y, ..] = samples(device);
    let mut model = (Linear::new(32, 64, device), Linear::new(64, 1, device));
    let mut opt = Adam::new(&model, 1e-3);
    let mut held = Vec::new();
    for _ in 0..STEPS {
        let (loss, gradients) = value_and_grad(&model, |(first, second)| {
            second.forward(&first.forward(&x).relu()).mse_loss(&y)
        });
        opt.step(&mut model, &gradients);
        held.push(loss);
    }
    read(&held)
}
