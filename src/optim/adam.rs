//! Adam and AdamW.

use super::Optimizer;
use super::rule::{Memory, Rule, Step, bias_correction, decays, kept, means, setters, zeros};
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
    let [mean, square] = means(memory, [beta1, beta2], parameter, gradient);
    let seen = match amsgrad {
        true => {
            let most = kept(memory, "max_exp_avg_sq", parameter).maximum(&square);
            memory.insert("max_exp_avg_sq".into(), most.clone());
            most
        }
        false => square,
    };
    let rate = step.lr / bias_correction(beta1, step.number);
    let scale = bias_correction(beta2, step.number).rsqrt();
    parameter - mean * rate / (seen.sqrt() * scale + eps)
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
                let (parameter, gradient) = decays($decoupled, step, parameter, gradient);
                update(numbers, step, &parameter, &gradient, memory)
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

            /// The greatest mean square so far counts. Called before the first step.
            #[track_caller]
            pub fn amsgrad(mut self) -> $name {
                self.rule.amsgrad = true;
                self.begin_again();
                self
            }
        }

        setters! { $name:
            /// The parts of both means that a step keeps.
            betas(beta1: f64, beta2: f64);
            /// What is added to the root of the mean square.
            eps(eps: f64);
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
