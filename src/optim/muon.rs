//! Muon: momentum made orthogonal.

use super::Optimizer;
use super::rule::{Memory, Rule, Step, kept, setters, shrunk, zeros};
use crate::{DType, Tensor, TensorStruct};

/// Coefficients of the quintic iteration, of which a few steps bring all singular values near 1.
const QUINTIC: [f64; 3] = [3.4445, -4.7750, 2.0315];

/// The least norm that a direction is divided by.
const EPS: f64 = 1e-7;

/// The rule of [`Muon`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct MuonRule {
    /// The part of the velocity that a step keeps.
    pub momentum: f64,
    /// Whether the velocity is looked ahead of.
    pub nesterov: bool,
    /// Steps of the iteration.
    pub iterations: usize,
    /// What the iteration computes in.
    pub compute: DType,
}

/// A matrix with the singular vectors of `x` and singular values near 1, by Newton and Schulz's iteration.
#[track_caller]
fn orthogonalised(x: &Tensor, rule: &MuonRule) -> Tensor {
    let [a, b, c] = QUINTIC;
    let tall = matches!(x.dims(), [rows, columns] if rows > columns);
    let mut y = x.to_dtype(rule.compute);
    if tall {
        y = y.t();
    }
    let norm = y
        .to_dtype(rule.compute.compute())
        .norm(2.0, ..)
        .clamp_min(EPS);
    y = (y / norm).to_dtype(rule.compute);
    for _ in 0..rule.iterations {
        let gram = y.matmul(&y.t());
        let update = &gram * b + gram.matmul(&gram) * c;
        y = &y * a + update.matmul(&y);
    }
    if tall { y.t() } else { y }.to_dtype(x.dtype())
}

impl Rule for MuonRule {
    fn begin(&self, parameter: &Tensor) -> Memory {
        zeros(&["momentum_buffer"], parameter)
    }

    fn update(
        &self,
        step: &Step<'_>,
        parameter: &Tensor,
        gradient: &Tensor,
        memory: &mut Memory,
    ) -> Tensor {
        let velocity = kept(memory, "momentum_buffer", parameter);
        let velocity = &velocity + (gradient - &velocity) * (1.0 - self.momentum);
        let direction = match self.nesterov {
            true => gradient + (&velocity - gradient) * self.momentum,
            false => velocity.clone(),
        };
        memory.insert("momentum_buffer".into(), velocity);
        // Rows of a tall matrix are as long as those of a square one would be.
        let ratio = match parameter.dims() {
            &[rows, columns] if columns > 0 => (rows as f64 / columns as f64).max(1.0).sqrt(),
            _ => 1.0,
        };
        let direction = orthogonalised(&direction, self);
        shrunk(parameter, step) - direction * (step.lr * ratio)
    }

    fn takes(&self, parameter: &Tensor) -> bool {
        parameter.dtype().is_float() && parameter.rank() == 2
    }
}

/// Momentum made orthogonal ([Jordan 2024](https://kellerjordan.github.io/posts/muon/)), with decoupled weight decay, for
/// the matrices of a model: parameters of other ranks stay as they are. Another optimiser takes these, and embeddings
/// and last layers too, which [`freeze`](Optimizer::freeze) leaves to it.
pub type Muon = Optimizer<MuonRule>;

impl Muon {
    /// For a model, with this learning rate, and PyTorch's numbers (a weight decay of 0.1 among them); the iteration computes in F32.
    #[track_caller]
    pub fn new<M: TensorStruct>(model: &M, lr: f64) -> Muon {
        let rule = MuonRule {
            momentum: 0.95,
            nesterov: true,
            iterations: 5,
            compute: DType::F32,
        };
        Optimizer::with(model, lr, rule).weight_decay(0.1)
    }
}

setters! { Muon:
    /// The part of the velocity that a step keeps.
    momentum(momentum: f64);
    /// What the iteration computes in: BF16 is enough, and fast where products of it are.
    compute(compute: DType);
}
