//! Stochastic gradient descent, and Lion.

use super::Optimizer;
use super::rule::{Memory, Rule, Step, decayed, kept, setters, shrunk, zeros};
use crate::{Tensor, TensorStruct};

/// The rule of [`Sgd`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct SgdRule {
    /// The part of the velocity that a step keeps.
    pub momentum: f64,
    /// The part of a gradient that the velocity does not take.
    pub dampening: f64,
    /// Whether the velocity is looked ahead of.
    pub nesterov: bool,
}

impl Rule for SgdRule {
    fn begin(&self, parameter: &Tensor) -> Memory {
        match self.momentum {
            0.0 => Memory::new(),
            _ => zeros(&["momentum_buffer"], parameter),
        }
    }

    fn update(
        &self,
        step: &Step<'_>,
        parameter: &Tensor,
        gradient: &Tensor,
        memory: &mut Memory,
    ) -> Tensor {
        let gradient = decayed(gradient, parameter, step.weight_decay);
        if self.momentum == 0.0 {
            return parameter - gradient * step.lr;
        }
        let velocity = kept(memory, "momentum_buffer", parameter) * self.momentum;
        let velocity = match self.dampening {
            0.0 => velocity + &gradient,
            // The first step takes the whole gradient.
            dampening => {
                let later = velocity + &gradient * (1.0 - dampening);
                step.number.eq(1.0).where_cond(&gradient, later)
            }
        };
        let towards = match self.nesterov {
            true => gradient + &velocity * self.momentum,
            false => velocity.clone(),
        };
        memory.insert("momentum_buffer".into(), velocity);
        parameter - towards * step.lr
    }
}

/// Stochastic gradient descent with momentum ([Sutskever et al. 2013](https://proceedings.mlr.press/v28/sutskever13.html)),
/// as PyTorch writes it; weight decay is added to the gradient.
pub type Sgd = Optimizer<SgdRule>;

impl Sgd {
    /// For a model, with this learning rate and no momentum.
    #[track_caller]
    pub fn new<M: TensorStruct>(model: &M, lr: f64) -> Sgd {
        Sgd::with_momentum(model, lr, 0.0)
    }

    /// For a model, with this learning rate and the part of the velocity that a step keeps.
    #[track_caller]
    pub fn with_momentum<M: TensorStruct>(model: &M, lr: f64, momentum: f64) -> Sgd {
        let rule = SgdRule {
            momentum,
            dampening: 0.0,
            nesterov: false,
        };
        Optimizer::with(model, lr, rule)
    }
}

setters! { Sgd:
    /// The part of a gradient that the velocity does not take.
    dampening(dampening: f64);
    /// Steps by the velocity that the next one would have
    /// ([Nesterov 1983](https://www.mathnet.ru/eng/dan46009)).
    nesterov() nesterov = true;
}

/// The rule of [`Lion`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct LionRule {
    /// The part of the mean gradient in a step's direction.
    pub beta1: f64,
    /// The part of the mean gradient that a step keeps.
    pub beta2: f64,
}

impl Rule for LionRule {
    fn begin(&self, parameter: &Tensor) -> Memory {
        zeros(&["exp_avg"], parameter)
    }

    fn update(
        &self,
        step: &Step<'_>,
        parameter: &Tensor,
        gradient: &Tensor,
        memory: &mut Memory,
    ) -> Tensor {
        let mean = kept(memory, "exp_avg", parameter);
        let direction = (&mean * self.beta1 + gradient * (1.0 - self.beta1)).sign();
        let next = mean * self.beta2 + gradient * (1.0 - self.beta2);
        memory.insert("exp_avg".into(), next);
        shrunk(parameter, step) - direction * step.lr
    }
}

/// Steps by the sign of a mean gradient, with decoupled weight decay
/// ([Chen et al. 2023](https://arxiv.org/abs/2302.06675)).
pub type Lion = Optimizer<LionRule>;

impl Lion {
    /// For a model, with this learning rate, β = (0.9, 0.99) and no weight decay.
    #[track_caller]
    pub fn new<M: TensorStruct>(model: &M, lr: f64) -> Lion {
        let rule = LionRule {
            beta1: 0.9,
            beta2: 0.99,
        };
        Optimizer::with(model, lr, rule)
    }
}

setters! { Lion:
    /// The parts of the mean gradient in a direction, and that a step keeps.
    betas(beta1: f64, beta2: f64);
}
