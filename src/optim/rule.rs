//! What an optimiser does with one parameter.

use crate::{DType, Tensor, TensorStruct};
use std::collections::BTreeMap;

/// The tensors that an optimiser keeps for one parameter, by PyTorch's names (`exp_avg`, `momentum_buffer`, ..).
pub type Memory = BTreeMap<String, Tensor>;

/// The numbers of one step, the same for all parameters of a group.
#[derive(Debug)]
pub struct Step<'a> {
    /// The learning rate: 0-d, F64.
    pub lr: &'a Tensor,
    /// The number of this step, from 1: 0-d, F64.
    pub number: &'a Tensor,
    /// The weight decay.
    pub weight_decay: f64,
}

/// The rule by which an optimiser updates a parameter: write one to use [`Optimizer`](super::Optimizer)'s schedules,
/// groups, clipping and mixed precision with a method of one's own.
pub trait Rule: TensorStruct {
    /// The memory that a parameter begins with.
    fn begin(&self, parameter: &Tensor) -> Memory;

    /// The parameter behind a step by its gradient, of the same dtype and shape.
    #[track_caller]
    fn update(
        &self,
        step: &Step<'_>,
        parameter: &Tensor,
        gradient: &Tensor,
        memory: &mut Memory,
    ) -> Tensor;

    /// Whether the rule takes a parameter of this kind; the others stay as they are.
    fn takes(&self, parameter: &Tensor) -> bool {
        parameter.dtype().is_float()
    }
}

/// A tensor of an optimiser's memory; zeros where it was never kept.
#[track_caller]
pub(super) fn kept(memory: &Memory, name: &str, like: &Tensor) -> Tensor {
    memory
        .get(name)
        .cloned()
        .unwrap_or_else(|| like.zeros_like())
}

/// A memory of zeros.
#[track_caller]
pub(super) fn zeros(names: &[&str], like: &Tensor) -> Memory {
    let zero = |name: &&str| (name.to_string(), like.zeros_like());
    names.iter().map(zero).collect()
}

/// 1 − baseⁿ for the number n of a step, in F64.
#[track_caller]
pub(super) fn bias_correction(base: f64, number: &Tensor) -> Tensor {
    1.0 - Tensor::full((), base, DType::F64, &number.device()).pow(number)
}

/// `gradient` + `decay`·`parameter`.
#[track_caller]
pub(super) fn decayed(gradient: &Tensor, parameter: &Tensor, decay: f64) -> Tensor {
    match decay {
        0.0 => gradient.clone(),
        decay => gradient + parameter * decay,
    }
}

/// `parameter`·(1 − lr·`decay`).
#[track_caller]
pub(super) fn shrunk(parameter: &Tensor, step: &Step<'_>) -> Tensor {
    match step.weight_decay {
        0.0 => parameter.clone(),
        decay => parameter * (1.0 - step.lr * decay),
    }
}

/// The mean gradient and the mean square behind a gradient (`exp_avg`, `exp_avg_sq`), which are kept.
#[track_caller]
pub(super) fn means(
    memory: &mut Memory,
    betas: [f64; 2],
    parameter: &Tensor,
    gradient: &Tensor,
) -> [Tensor; 2] {
    let mean = kept(memory, "exp_avg", parameter);
    let square = kept(memory, "exp_avg_sq", parameter);
    let mean = &mean + (gradient - &mean) * (1.0 - betas[0]);
    let square = square * betas[1] + gradient.square() * (1.0 - betas[1]);
    memory.insert("exp_avg".into(), mean.clone());
    memory.insert("exp_avg_sq".into(), square.clone());
    [mean, square]
}

/// A parameter and its gradient with weight decay in one of them: in the parameter where it is `decoupled`.
#[track_caller]
pub(super) fn decays(
    decoupled: bool,
    step: &Step<'_>,
    parameter: &Tensor,
    gradient: &Tensor,
) -> (Tensor, Tensor) {
    match decoupled {
        true => (shrunk(parameter, step), gradient.clone()),
        false => (
            parameter.clone(),
            decayed(gradient, parameter, step.weight_decay),
        ),
    }
}

/// Methods of an optimiser that set fields of its rule: those that arguments are named as, or one to true.
macro_rules! setters {
    ($optimizer:ty: $(
        $(#[$about:meta])* $method:ident($($field:ident: $kind:ty),*) $($switch:ident = true)?;
    )*) => {
        impl $optimizer {$(
            $(#[$about])*
            pub fn $method(mut self, $($field: $kind),*) -> $optimizer {
                $(self.rule.$field = $field;)*
                $(self.rule.$switch = true;)?
                self
            }
        )*}
    };
}
pub(super) use setters;
