//! Adafactor: a mean square kept as a row and a column.

use super::Optimizer;
use super::rule::{Memory, Rule, Step, kept, setters, shrunk};
use crate::{DType, Tensor, TensorStruct};

/// The rule of [`Adafactor`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct AdafactorRule {
    /// A step t moves mean squares by t^`beta2_decay` of the way.
    pub beta2_decay: f64,
    /// The least root of a mean square; the distance from 1 to the next number of the parameter's dtype where it is not
    /// given.
    pub eps: Option<f64>,
    /// The least root mean square of a parameter that its steps are scaled by.
    pub least_scale: f64,
    /// The greatest root mean square of a direction.
    pub clip: f64,
}

/// The root of the mean of all squares: 0-d.
#[track_caller]
fn root_mean_square(x: &Tensor) -> Tensor {
    let x = x.to_dtype(x.dtype().compute());
    x.square().mean(..).sqrt()
}

/// The distance from 1 to the next number.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f64::from(f32::EPSILON),
    }
}

/// A kept mean moved by `part` of the way to what is seen.
#[track_caller]
fn moved(memory: &mut Memory, name: &str, part: &Tensor, seen: &Tensor) -> Tensor {
    let mean = kept(memory, name, seen);
    let mean = (&mean + (seen - &mean) * part).to_dtype(seen.dtype());
    memory.insert(name.into(), mean.clone());
    mean
}

impl AdafactorRule {
    /// The mean square of each element, that of a matrix from its rows' and its columns'.
    #[track_caller]
    fn mean_square(&self, memory: &mut Memory, part: &Tensor, gradient: &Tensor) -> Tensor {
        let square = gradient.square();
        if gradient.rank() < 2 {
            return moved(memory, "variance", part, &square);
        }
        let rows = moved(memory, "row_var", part, &square.mean_keepdim(-1));
        let columns = moved(memory, "col_var", part, &square.mean_keepdim(-2));
        let eps = self.eps.unwrap_or(epsilon(gradient.dtype()));
        let all = rows.mean_keepdim(-2).clamp_min(eps);
        rows * columns / all
    }
}

impl Rule for AdafactorRule {
    fn begin(&self, parameter: &Tensor) -> Memory {
        let mut memory = Memory::new();
        let mut keep = |name: &str, dims: Vec<usize>| {
            let zeros = Tensor::zeros(dims, parameter.dtype(), &parameter.device());
            memory.insert(name.into(), zeros);
        };
        match parameter.dims() {
            [batch @ .., rows, columns] => {
                keep("row_var", [batch, &[*rows, 1]].concat());
                keep("col_var", [batch, &[1, *columns]].concat());
            }
            dims => keep("variance", dims.to_vec()),
        }
        memory
    }

    fn update(
        &self,
        step: &Step<'_>,
        parameter: &Tensor,
        gradient: &Tensor,
        memory: &mut Memory,
    ) -> Tensor {
        let part = step.number.pow(self.beta2_decay);
        let rate = step.lr.minimum(step.number.rsqrt());
        let rate = root_mean_square(parameter).clamp_min(self.least_scale) * rate;
        let square = self.mean_square(memory, &part, gradient);
        let eps = self.eps.unwrap_or(epsilon(gradient.dtype()));
        let direction = gradient * square.clamp_min(eps * eps).rsqrt();
        let length = (root_mean_square(&direction) / self.clip).clamp_min(1.0);
        shrunk(parameter, step) - direction * (rate / length).to_dtype(parameter.dtype())
    }
}

/// Steps divided by the root of mean squares of which a matrix keeps a row and a column alone, in proportion to the
/// parameter's own size ([Shazeer & Stern 2018](https://arxiv.org/abs/1804.04235)): PyTorch's `Adafactor`, with
/// decoupled weight decay.
///
/// ```
/// use ferrotrace::nn::Linear;
/// use ferrotrace::optim::Adafactor;
/// use ferrotrace::prelude::*;
///
/// let mut model = Linear::new(30, 20, &Device::cpu());
/// let mut opt = Adafactor::new(&model, 0.01);
/// assert_eq!(opt.state["weight"].memory["row_var"].dims(), [20, 1]);
/// let gradients = model.map(|_, t| t.ones_like());
/// opt.step(&mut model, &gradients);
/// ```
pub type Adafactor = Optimizer<AdafactorRule>;

impl Adafactor {
    /// For a model, with this learning rate, which is the most that a step is of a parameter's size, and PyTorch's
    /// numbers.
    #[track_caller]
    pub fn new<M: TensorStruct>(model: &M, lr: f64) -> Adafactor {
        let rule = AdafactorRule {
            beta2_decay: -0.8,
            eps: None,
            least_scale: 1e-3,
            clip: 1.0,
        };
        Optimizer::with(model, lr, rule)
    }

    /// The least root of a mean square.
    pub fn eps(mut self, eps: f64) -> Adafactor {
        self.rule.eps = Some(eps);
        self
    }
}

setters! { Adafactor:
    /// The power of a step's number by which mean squares move; at most 0.
    beta2_decay(beta2_decay: f64);
    /// The least size of a parameter that its steps are scaled by.
    least_scale(least_scale: f64);
    /// The greatest root mean square of a direction; at least 1.
    clip(clip: f64);
}
