//! Adam and AdamW.

use super::Optimizer;
use super::rule::{Memory, Rule, Step, bias_correction, decayed, kept, shrunk, zeros};
use crate::{Tensor, TensorStruct};

/// Moving averages of the gradient and of its square, without what they begin with.
#[track_caller]
fn update(
    (beta1, beta2, eps, amsgrad): (f64, f64, f64, bool),
    step: &Step<'_>,
    parameter: &Tensor,
    gradient: &Tensor,
    memory: &mut Memory,
) -> Tensor {
    let mean = kept(memory, "exp_avg", parameter);
    let square = kept(memory, "exp_avg_sq", parameter);
    let mean = &mean + (gradient - &mean) * (1.0 - beta1);
    let square = &square * beta2 + gradient.square() * (1.0 - beta2);
    let seen = match amsgrad {
        true => {
            let most = kept(memory, "max_exp_avg_sq", parameter).maximum(&square);
            memory.insert("max_exp_avg_sq".into(), most.clone());
            most
        }
        false => square.clone(),
    };
    let rate = step.lr / bias_correction(beta1, step.number);
    let scale = bias_correction(beta2, step.number).rsqrt();
    let updated = parameter - &mean * rate / (seen.sqrt() * scale + eps);
    memory.insert("exp_avg".into(), mean);
    memory.insert("exp_avg_sq".into(), square);
    updated
}

macro_rules! rules {
    ($($(#[doc = $doc:literal])* $rule:ident $name:ident $decay:literal $decoupled:literal;)*) => {$(
        #[doc = concat!("The rule of [`", stringify!($name), "`].")]
        #[derive(Clone, Copy, Debug, TensorStruct)]
        pub struct $rule {
            /// The part of the mean gradient that a step keeps.
            pub beta1: f64,
            /// The part of the mean square that a step keeps.
            pub beta2: f64,
            /// What is added to the root of the mean square.
            pub eps: f64,
            /// Whether the greatest mean square so far counts
            /// ([Reddi et al. 2018](https://arxiv.org/abs/1904.09237)).
            pub amsgrad: bool,
        }

        impl Rule for $rule {
            fn begin(&self, parameter: &Tensor) -> Memory {
                let names = ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"];
                zeros(&names[..2 + usize::from(self.amsgrad)], parameter)
            }

            fn update(
                &self,
                step: &Step<'_>,
                parameter: &Tensor,
                gradient: &Tensor,
                memory: &mut Memory,
            ) -> Tensor {
                let numbers = (self.beta1, self.beta2, self.eps, self.amsgrad);
                match $decoupled {
                    true => update(numbers, step, &shrunk(parameter, step), gradient, memory),
                    false => {
                        let gradient = decayed(gradient, parameter, step.weight_decay);
                        update(numbers, step, parameter, &gradient, memory)
                    }
                }
            }
        }

        $(#[doc = $doc])*
        pub type $name = Optimizer<$rule>;

        impl $name {
            /// For a model, with this learning rate and PyTorch's numbers.
            #[track_caller]
            pub fn new<M: TensorStruct>(model: &M, lr: f64) -> $name {
                let rule = $rule {
                    beta1: 0.9,
                    beta2: 0.999,
                    eps: 1e-8,
                    amsgrad: false,
                };
                Optimizer::with(model, lr, rule).weight_decay($decay)
            }

            /// The parts of both means that a step keeps.
            pub fn betas(mut self, beta1: f64, beta2: f64) -> $name {
                (self.rule.beta1, self.rule.beta2) = (beta1, beta2);
                self
            }

            /// What is added to the root of the mean square.
            pub fn eps(mut self, eps: f64) -> $name {
                self.rule.eps = eps;
                self
            }

            /// The greatest mean square so far counts. Called before the first step.
            #[track_caller]
            pub fn amsgrad(mut self) -> $name {
                self.rule.amsgrad = true;
                self.begin_again();
                self
            }
        }
    )*};
}

rules! {
    /// Adam ([Kingma & Ba 2015](https://arxiv.org/abs/1412.6980)); weight decay is added to the gradient.
    AdamRule Adam 0.0 false;
    /// Adam with decoupled weight decay ([Loshchilov & Hutter 2019](https://arxiv.org/abs/1711.05101)), 0.01 unless
    /// given.
    AdamWRule AdamW 0.01 true;
}
