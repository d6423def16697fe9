//! Relatives of Adam: NAdam, RAdam and Adamax.

use super::Optimizer;
use super::rule::{
    Memory, Rule, Step, bias_correction, decayed, decays, kept, means, setters, zeros,
};
use crate::{DType, Tensor, TensorStruct};

/// The rule of [`NAdam`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct NAdamRule {
    /// The part of the mean gradient that a step keeps.
    pub beta1: f64,
    /// The part of the mean square that a step keeps.
    pub beta2: f64,
    /// What is added to the root of the mean square.
    pub eps: f64,
    /// How fast the momentum rises to `beta1` from half of it.
    pub momentum_decay: f64,
    /// Whether weight decay shrinks parameters by itself, as in AdamW.
    pub decoupled: bool,
}

impl NAdamRule {
    /// The momentum of a step.
    #[track_caller]
    fn momentum(&self, number: &Tensor) -> Tensor {
        let base = Tensor::full((), 0.96, DType::F64, &number.device());
        (1.0 - base.pow(number * self.momentum_decay) * 0.5) * self.beta1
    }
}

impl Rule for NAdamRule {
    fn begin(&self, parameter: &Tensor) -> Memory {
        let mut memory = zeros(&["exp_avg", "exp_avg_sq"], parameter);
        let one = Tensor::ones((), DType::F64, &parameter.device());
        memory.insert("mu_product".into(), one);
        memory
    }

    fn update(
        &self,
        step: &Step<'_>,
        parameter: &Tensor,
        gradient: &Tensor,
        memory: &mut Memory,
    ) -> Tensor {
        let (parameter, gradient) = decays(self.decoupled, step, parameter, gradient);
        let (now, next) = (
            self.momentum(step.number),
            self.momentum(&(step.number + 1.0)),
        );
        let product = match memory.get("mu_product") {
            Some(product) => product * &now,
            None => now.clone(),
        };
        let [mean, square] = means(memory, [self.beta1, self.beta2], &parameter, &gradient);
        let scale = bias_correction(self.beta2, step.number).rsqrt();
        let root = square.sqrt() * scale + self.eps;
        let own = step.lr * (1.0 - &now) / (1.0 - &product);
        let ahead = step.lr * &next / (1.0 - &product * &next);
        memory.insert("mu_product".into(), product);
        parameter - gradient * own / &root - mean * ahead / root
    }
}

/// Adam with Nesterov's momentum
/// ([Dozat 2016](https://openreview.net/forum?id=OM0jvwB8jIp57ZJjtNEZ)); weight decay is added to the gradient unless
/// [`decoupled`](NAdam::decoupled).
pub type NAdam = Optimizer<NAdamRule>;

impl NAdam {
    /// For a model, with this learning rate and PyTorch's numbers.
    #[track_caller]
    pub fn new<M: TensorStruct>(model: &M, lr: f64) -> NAdam {
        let rule = NAdamRule {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            momentum_decay: 4e-3,
            decoupled: false,
        };
        Optimizer::with(model, lr, rule)
    }
}

setters! { NAdam:
    /// The parts of both means that a step keeps.
    betas(beta1: f64, beta2: f64);
    /// What is added to the root of the mean square.
    eps(eps: f64);
    /// How fast the momentum rises.
    momentum_decay(momentum_decay: f64);
    /// Weight decay shrinks parameters by itself, as in AdamW.
    decoupled() decoupled = true;
}

/// The rule of [`RAdam`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct RAdamRule {
    /// The part of the mean gradient that a step keeps.
    pub beta1: f64,
    /// The part of the mean square that a step keeps.
    pub beta2: f64,
    /// What is added to the root of the mean square.
    pub eps: f64,
    /// Whether weight decay shrinks parameters by itself, as in AdamW.
    pub decoupled: bool,
}

impl Rule for RAdamRule {
    fn begin(&self, parameter: &Tensor) -> Memory {
        zeros(&["exp_avg", "exp_avg_sq"], parameter)
    }

    fn update(
        &self,
        step: &Step<'_>,
        parameter: &Tensor,
        gradient: &Tensor,
        memory: &mut Memory,
    ) -> Tensor {
        let (parameter, gradient) = decays(self.decoupled, step, parameter, gradient);
        let [mean, square] = means(memory, [self.beta1, self.beta2], &parameter, &gradient);
        let corrected = bias_correction(self.beta2, step.number);
        // How many gradients the mean square is a mean of: of few, its root is not divided by.
        let most = 2.0 / (1.0 - self.beta2) - 1.0;
        let length = most - step.number * 2.0 * (1.0 - &corrected) / &corrected;
        let is_long = length.gt(5.0);
        let long = length.clamp_min(5.0);
        let rectified = (&long - 4.0) * (&long - 2.0) * most;
        let rectified = rectified / (long * ((most - 4.0) * (most - 2.0)));
        let scale = (rectified * corrected).sqrt();
        let rate = step.lr / bias_correction(self.beta1, step.number);
        let towards = &mean * scale / (square.sqrt() + self.eps);
        parameter - is_long.where_cond(&towards, &mean) * rate
    }
}

/// Adam whose first steps, of gradients too few for a mean square, are those of momentum alone
/// ([Liu et al. 2020](https://arxiv.org/abs/1908.03265)); weight decay is added to the gradient unless
/// [`decoupled`](RAdam::decoupled).
pub type RAdam = Optimizer<RAdamRule>;

impl RAdam {
    /// For a model, with this learning rate and PyTorch's numbers.
    #[track_caller]
    pub fn new<M: TensorStruct>(model: &M, lr: f64) -> RAdam {
        let rule = RAdamRule {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            decoupled: false,
        };
        Optimizer::with(model, lr, rule)
    }
}

setters! { RAdam:
    /// The parts of both means that a step keeps.
    betas(beta1: f64, beta2: f64);
    /// What is added to the root of the mean square.
    eps(eps: f64);
    /// Weight decay shrinks parameters by itself, as in AdamW.
    decoupled() decoupled = true;
}

/// The rule of [`Adamax`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct AdamaxRule {
    /// The part of the mean gradient that a step keeps.
    pub beta1: f64,
    /// The part of the greatest magnitude that a step keeps.
    pub beta2: f64,
    /// What is added to a gradient's magnitude.
    pub eps: f64,
}

impl Rule for AdamaxRule {
    fn begin(&self, parameter: &Tensor) -> Memory {
        zeros(&["exp_avg", "exp_inf"], parameter)
    }

    fn update(
        &self,
        step: &Step<'_>,
        parameter: &Tensor,
        gradient: &Tensor,
        memory: &mut Memory,
    ) -> Tensor {
        let gradient = decayed(gradient, parameter, step.weight_decay);
        let mean = kept(memory, "exp_avg", parameter);
        let mean = &mean + (&gradient - &mean) * (1.0 - self.beta1);
        let most = kept(memory, "exp_inf", parameter) * self.beta2;
        let most = most.maximum(gradient.abs() + self.eps);
        let rate = step.lr / bias_correction(self.beta1, step.number);
        let updated = parameter - &mean * rate / &most;
        memory.insert("exp_avg".into(), mean);
        memory.insert("exp_inf".into(), most);
        updated
    }
}

/// Adam by the greatest magnitude of gradients, which fades, in place of the mean square's root
/// ([Kingma & Ba 2015](https://arxiv.org/abs/1412.6980)); weight decay is added to the gradient.
pub type Adamax = Optimizer<AdamaxRule>;

impl Adamax {
    /// For a model, with this learning rate and PyTorch's numbers.
    #[track_caller]
    pub fn new<M: TensorStruct>(model: &M, lr: f64) -> Adamax {
        let rule = AdamaxRule {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
        };
        Optimizer::with(model, lr, rule)
    }
}

setters! { Adamax:
    /// The parts of the mean gradient and of the greatest magnitude that a step keeps.
    betas(beta1: f64, beta2: f64);
    /// What is added to a gradient's magnitude.
    eps(eps: f64);
}
