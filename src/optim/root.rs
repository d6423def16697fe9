//! Steps divided by the root of squared gradients: RMSprop, Adagrad and Adadelta.

use super::Optimizer;
use super::rule::{Memory, Rule, Step, decayed, kept, setters, zeros};
use crate::{Tensor, TensorStruct};

/// The rule of [`RmsProp`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct RmsPropRule {
    /// The part of the mean square that a step keeps.
    pub alpha: f64,
    /// What is added to the root.
    pub eps: f64,
    /// The part of the velocity that a step keeps.
    pub momentum: f64,
    /// Whether the square of the mean gradient is taken off the mean square.
    pub centered: bool,
}

impl Rule for RmsPropRule {
    fn begin(&self, parameter: &Tensor) -> Memory {
        let mut names = vec!["square_avg"];
        if self.momentum != 0.0 {
            names.push("momentum_buffer");
        }
        if self.centered {
            names.push("grad_avg");
        }
        zeros(&names, parameter)
    }

    fn update(
        &self,
        step: &Step<'_>,
        parameter: &Tensor,
        gradient: &Tensor,
        memory: &mut Memory,
    ) -> Tensor {
        let gradient = decayed(gradient, parameter, step.weight_decay);
        let square = kept(memory, "square_avg", parameter) * self.alpha
            + gradient.square() * (1.0 - self.alpha);
        let root = match self.centered {
            true => {
                let mean = kept(memory, "grad_avg", parameter);
                let mean = &mean + (&gradient - &mean) * (1.0 - self.alpha);
                let root = (&square - mean.square()).sqrt();
                memory.insert("grad_avg".into(), mean);
                root
            }
            false => square.sqrt(),
        };
        memory.insert("square_avg".into(), square);
        let towards = gradient / (root + self.eps);
        let towards = match self.momentum {
            0.0 => towards,
            momentum => {
                let velocity = kept(memory, "momentum_buffer", parameter) * momentum + towards;
                memory.insert("momentum_buffer".into(), velocity.clone());
                velocity
            }
        };
        parameter - towards * step.lr
    }
}

/// Gradients divided by the root of their mean square
/// ([Hinton 2012](https://www.cs.toronto.edu/~tijmen/csc321/slides/lecture_slides_lec6.pdf)); weight decay is added to
/// the gradient.
pub type RmsProp = Optimizer<RmsPropRule>;

impl RmsProp {
    /// For a model, with this learning rate and PyTorch's numbers.
    #[track_caller]
    pub fn new<M: TensorStruct>(model: &M, lr: f64) -> RmsProp {
        let rule = RmsPropRule {
            alpha: 0.99,
            eps: 1e-8,
            momentum: 0.0,
            centered: false,
        };
        Optimizer::with(model, lr, rule)
    }

    /// The part of the velocity that a step keeps. Called before the first step.
    #[track_caller]
    pub fn momentum(mut self, momentum: f64) -> RmsProp {
        self.rule.momentum = momentum;
        self.begin_again();
        self
    }

    /// Takes the square of the mean gradient off the mean square. Called before the first step.
    #[track_caller]
    pub fn centered(mut self) -> RmsProp {
        self.rule.centered = true;
        self.begin_again();
        self
    }
}

setters! { RmsProp:
    /// The part of the mean square that a step keeps.
    alpha(alpha: f64);
}

/// The rule of [`Adagrad`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct AdagradRule {
    /// What the sums begin with.
    pub begin: f64,
    /// How fast the learning rate falls.
    pub lr_decay: f64,
    /// What is added to the root.
    pub eps: f64,
}

impl Rule for AdagradRule {
    fn begin(&self, parameter: &Tensor) -> Memory {
        Memory::from([("sum".into(), parameter.full_like(self.begin))])
    }

    fn update(
        &self,
        step: &Step<'_>,
        parameter: &Tensor,
        gradient: &Tensor,
        memory: &mut Memory,
    ) -> Tensor {
        let gradient = decayed(gradient, parameter, step.weight_decay);
        let sum = kept(memory, "sum", parameter) + gradient.square();
        let rate = match self.lr_decay {
            0.0 => step.lr.clone(),
            decay => step.lr / ((step.number - 1.0) * decay + 1.0),
        };
        let updated = parameter - gradient * rate / (sum.sqrt() + self.eps);
        memory.insert("sum".into(), sum);
        updated
    }
}

/// Gradients divided by the root of the sum of all squares so far
/// ([Duchi et al. 2011](https://jmlr.org/papers/v12/duchi11a.html)); weight decay is added to the gradient.
pub type Adagrad = Optimizer<AdagradRule>;

impl Adagrad {
    /// For a model, with this learning rate and PyTorch's numbers.
    #[track_caller]
    pub fn new<M: TensorStruct>(model: &M, lr: f64) -> Adagrad {
        let rule = AdagradRule {
            begin: 0.0,
            lr_decay: 0.0,
            eps: 1e-10,
        };
        Optimizer::with(model, lr, rule)
    }

    /// What the sums of squares begin with. Called before the first step.
    #[track_caller]
    pub fn begin_with(mut self, sum: f64) -> Adagrad {
        self.rule.begin = sum;
        self.begin_again();
        self
    }
}

setters! { Adagrad:
    /// The learning rate divided by 1 + decay·t behind t steps.
    lr_decay(lr_decay: f64);
}

/// The rule of [`Adadelta`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct AdadeltaRule {
    /// The part of both mean squares that a step keeps.
    pub rho: f64,
    /// What is added to mean squares below their roots.
    pub eps: f64,
}

impl Rule for AdadeltaRule {
    fn begin(&self, parameter: &Tensor) -> Memory {
        zeros(&["square_avg", "acc_delta"], parameter)
    }

    fn update(
        &self,
        step: &Step<'_>,
        parameter: &Tensor,
        gradient: &Tensor,
        memory: &mut Memory,
    ) -> Tensor {
        let gradient = decayed(gradient, parameter, step.weight_decay);
        let square =
            kept(memory, "square_avg", parameter) * self.rho + gradient.square() * (1.0 - self.rho);
        let moved = kept(memory, "acc_delta", parameter);
        let root = (&square + self.eps).sqrt();
        let towards = (&moved + self.eps).sqrt() / root * gradient;
        let moved = moved * self.rho + towards.square() * (1.0 - self.rho);
        memory.insert("square_avg".into(), square);
        memory.insert("acc_delta".into(), moved);
        parameter - towards * step.lr
    }
}

/// Gradients times the root of steps' mean square over that of their own
/// ([Zeiler 2012](https://arxiv.org/abs/1212.5701)); weight decay is added to the gradient.
pub type Adadelta = Optimizer<AdadeltaRule>;

impl Adadelta {
    /// For a model, with this learning rate, which is 1 as a rule, and PyTorch's numbers.
    #[track_caller]
    pub fn new<M: TensorStruct>(model: &M, lr: f64) -> Adadelta {
        let rule = AdadeltaRule {
            rho: 0.9,
            eps: 1e-6,
        };
        Optimizer::with(model, lr, rule)
    }
}

setters! { Adadelta:
    /// The part of both mean squares that a step keeps.
    rho(rho: f64);
    /// What is added to mean squares below their roots.
    eps(eps: f64);
}
