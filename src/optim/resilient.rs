//! Steps by the signs of gradients, and by their plain values with an average: Rprop and ASGD.

use super::Optimizer;
use super::rule::{Memory, Rule, Step, decayed, kept, setters, zeros};
use crate::{Tensor, TensorStruct};

/// The rule of [`Rprop`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct RpropRule {
    /// What a step's size is multiplied by where the gradient's sign changed.
    pub shrink: f64,
    /// What it is multiplied by where the sign stayed.
    pub grow: f64,
    /// The least size of a step.
    pub least: f64,
    /// The greatest size of a step.
    pub most: f64,
}

impl Rule for RpropRule {
    fn begin(&self, parameter: &Tensor) -> Memory {
        zeros(&["prev", "step_size"], parameter)
    }

    fn update(
        &self,
        step: &Step<'_>,
        parameter: &Tensor,
        gradient: &Tensor,
        memory: &mut Memory,
    ) -> Tensor {
        let gradient = decayed(gradient, parameter, step.weight_decay);
        let first = (parameter.zeros_like() + step.lr).to_dtype(parameter.dtype());
        let is_first = step.number.eq(1.0);
        let size = is_first.where_cond(&first, &kept(memory, "step_size", parameter));
        let agree = &gradient * kept(memory, "prev", parameter);
        let (same, turned) = (agree.gt(0.0), agree.lt(0.0));
        let ones = size.ones_like();
        let factor = same.where_cond(self.grow, &turned.where_cond(self.shrink, &ones));
        let size = (size * factor).clamp(self.least, self.most);
        // Where the sign changed, the step is left out, and the next one is of the size as it is.
        let gradient = turned.where_cond(0.0, &gradient);
        let updated = parameter - gradient.sign() * &size;
        memory.insert("prev".into(), gradient);
        memory.insert("step_size".into(), size);
        updated
    }
}

/// Steps by the sign of each element's gradient, of a size that grows while the sign stays and shrinks when it changes
/// ([Riedmiller & Braun 1993](https://doi.org/10.1109/ICNN.1993.298623)): for gradients of all data, not of batches.
///
/// ```
/// use ferrotrace::optim::Rprop;
/// use ferrotrace::prelude::*;
///
/// let mut model = [Tensor::zeros(2, DType::F32, &Device::cpu())];
/// let mut opt = Rprop::new(&model, 0.5);
/// let gradients = [Tensor::from_slice(&[100.0f32, -0.01], 2, &Device::cpu())];
/// opt.step(&mut model, &gradients);
/// assert_eq!(model[0].to_vec::<f32>()?, [-0.5, 0.5]);
/// # Ok::<(), Error>(())
/// ```
pub type Rprop = Optimizer<RpropRule>;

impl Rprop {
    /// For a model, with the size of the first step and PyTorch's numbers.
    #[track_caller]
    pub fn new<M: TensorStruct>(model: &M, lr: f64) -> Rprop {
        let rule = RpropRule {
            shrink: 0.5,
            grow: 1.2,
            least: 1e-6,
            most: 50.0,
        };
        Optimizer::with(model, lr, rule)
    }
}

setters! { Rprop:
    /// What sizes are multiplied by where a sign changed, and where it stayed.
    etas(shrink: f64, grow: f64);
    /// The least and the greatest size of a step.
    sizes(least: f64, most: f64);
}

/// The rule of [`Asgd`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct AsgdRule {
    /// How fast parameters shrink and the learning rate falls.
    pub lambda: f64,
    /// The power by which the learning rate falls.
    pub alpha: f64,
    /// The step behind which the average begins.
    pub begin: f64,
}

impl Rule for AsgdRule {
    fn begin(&self, parameter: &Tensor) -> Memory {
        zeros(&["ax"], parameter)
    }

    fn update(
        &self,
        step: &Step<'_>,
        parameter: &Tensor,
        gradient: &Tensor,
        memory: &mut Memory,
    ) -> Tensor {
        let gradient = decayed(gradient, parameter, step.weight_decay);
        let before = step.number - 1.0;
        let rate = step.lr / (step.lr * &before * self.lambda + 1.0).pow(self.alpha);
        let updated = parameter * (1.0 - &rate * self.lambda) - gradient * rate;
        let part = (before - self.begin).clamp_min(1.0).recip();
        let mean = kept(memory, "ax", parameter);
        let moved = &mean + (&updated - &mean) * &part;
        let mean = part.eq(1.0).where_cond(&updated, &moved);
        let mean = mean.to_dtype(parameter.dtype());
        memory.insert("ax".into(), mean);
        updated
    }
}

/// Stochastic gradient descent whose parameters are averaged
/// ([Polyak & Juditsky 1992](https://doi.org/10.1137/0330046)), as PyTorch writes it; weight decay is added to the
/// gradient. [`Average`](super::Average) averages the parameters of any optimiser.
///
/// ```
/// use ferrotrace::optim::Asgd;
/// use ferrotrace::prelude::*;
///
/// let mut model = [Tensor::zeros(1, DType::F64, &Device::cpu())];
/// let mut opt = Asgd::new(&model, 1.0).lambda(0.0).begin(0.0);
/// for gradient in [-1.0, -2.0] {
///     let gradients = [Tensor::full(1, gradient, DType::F64, &Device::cpu())];
///     opt.step(&mut model, &gradients);
/// }
/// assert_eq!(model[0].item::<f64>()?, 3.0);
/// assert_eq!(opt.averaged(&model)[0].item::<f64>()?, 3.0);
/// # Ok::<(), Error>(())
/// ```
pub type Asgd = Optimizer<AsgdRule>;

impl Asgd {
    /// For a model, with this learning rate and PyTorch's numbers: an average from step 10⁶ on.
    #[track_caller]
    pub fn new<M: TensorStruct>(model: &M, lr: f64) -> Asgd {
        let rule = AsgdRule {
            lambda: 1e-4,
            alpha: 0.75,
            begin: 1e6,
        };
        Optimizer::with(model, lr, rule)
    }

    /// A model with the average of each parameter so far, which is the last one before the average begins.
    #[track_caller]
    pub fn averaged<M: TensorStruct>(&self, model: &M) -> M {
        model.map(|name, tensor| {
            let mean = self.state.get(name).and_then(|slot| slot.memory.get("ax"));
            mean.map_or(tensor.clone(), |mean| mean.to_dtype(tensor.dtype()))
        })
    }
}

setters! { Asgd:
    /// How fast parameters shrink and the learning rate falls.
    lambda(lambda: f64);
    /// The power by which the learning rate falls.
    alpha(alpha: f64);
    /// The step behind which the average begins.
    begin(begin: f64);
}
