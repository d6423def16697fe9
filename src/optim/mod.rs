//! Optimisers, learning rates over time, and what is done to gradients before a step.
//!
//! An optimiser is a struct of tensors, as a model is: what it keeps for each parameter stands under the parameter's name,
//! and the learning rate, the step count and the loss scale are 0-d tensors. So a compiled function that takes a model and
//! its optimiser by value, and gives them back, is recorded once for all steps, and updates everything in place.
//!
//! ```
//! use ferrotrace::nn::{Linear, Module};
//! use ferrotrace::optim::{AdamW, Schedule};
//! use ferrotrace::prelude::*;
//!
//! let device = Device::cpu();
//! let model = Linear::new(2, 1, &device);
//! let opt = AdamW::new(&model, 0.1)
//!     .schedule(Schedule::cosine(100).warmup(10))
//!     .no_decay(|name| name.ends_with("bias"))
//!     .clip_norm(1.0);
//! let step = jit(|(mut model, mut opt, x, y): (Linear, AdamW, &Tensor, &Tensor)| {
//!     let (loss, gradients) = value_and_grad(&model, |model| model.forward(x).mse_loss(y));
//!     opt.step(&mut model, &gradients);
//!     (model, opt, loss)
//! });
//! let x = Tensor::randn([16, 2], DType::F32, &device);
//! let y = x.sum_keepdim(1);
//! let (mut model, mut opt, first) = step.call((model, opt, &x, &y));
//! let mut loss = first.clone();
//! for _ in 1..100 {
//!     (model, opt, loss) = step.call((model, opt, &x, &y));
//! }
//! assert!(loss.item::<f32>()? < first.item::<f32>()?);
//! assert_eq!(opt.steps.item::<i64>()?, 100);
//! # Ok::<(), Error>(())
//! ```

mod adam;
mod adaptive;
mod average;
mod factored;
mod gradients;
mod lbfgs;
mod muon;
mod optimizer;
mod resilient;
mod root;
mod rule;
mod scale;
mod schedule;
mod sgd;

pub use adam::{Adam, AdamRule, AdamW, AdamWRule};
pub use adaptive::{Adamax, AdamaxRule, NAdam, NAdamRule, RAdam, RAdamRule};
pub use average::Average;
pub use factored::{Adafactor, AdafactorRule};
pub use gradients::{
    add_gradients, clip_norm, clip_value, global_norm, gradients_of, require_gradients, zero_grad,
};
pub use lbfgs::{Change, Lbfgs, Search};
pub use muon::{Muon, MuonRule};
pub use optimizer::{Group, Optimizer, Slot};
pub use resilient::{Asgd, AsgdRule, Rprop, RpropRule};
pub use root::{Adadelta, AdadeltaRule, Adagrad, AdagradRule, RmsProp, RmsPropRule};
pub use rule::{Memory, Rule, Step};
pub use scale::LossScale;
pub use schedule::{Curve, Schedule};
pub use sgd::{Lion, LionRule, Sgd, SgdRule};
