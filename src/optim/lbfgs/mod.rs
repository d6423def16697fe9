//! L-BFGS, which asks for losses and gradients itself.

mod flat;
mod search;

use crate::{Result, Tensor, TensorStruct};
use flat::{Flat, Losses, greatest, number};
use search::{Bounds, Point, strong_wolfe};

/// How long a step of [`Lbfgs`] is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, TensorStruct)]
pub enum Search {
    /// The learning rate times the direction.
    #[default]
    Fixed,
    /// As far as the strong Wolfe conditions ask, with the learning rate as the first guess.
    StrongWolfe,
}

/// How a gradient changed over a step.
#[derive(Clone, Debug, TensorStruct)]
pub struct Change {
    /// The later gradient without the earlier.
    pub gradient: Tensor,
    /// The step.
    pub step: Tensor,
    /// Both multiplied and summed.
    pub product: f64,
}

/// Steps by the gradient times an inverse of the Hessian that is estimated from the last changes of the gradient
/// ([Liu & Nocedal 1989](https://doi.org/10.1007/BF01589116)): PyTorch's `LBFGS`. For losses that are the same whenever
/// they are asked for.
///
/// It reads numbers, so that no compiled function can take it; the function that it is given may be compiled.
///
/// ```
/// use ferrotrace::optim::{Lbfgs, Search};
/// use ferrotrace::prelude::*;
/// use ferrotrace::value_and_grad;
///
/// // Rosenbrock's valley.
/// let mut model = [-1.5, 2.0].map(|v| Tensor::scalar(v, DType::F64, &Device::cpu()));
/// let valley = |[x, y]: &[Tensor; 2]| (1.0 - x).square() + (y - x.square()).square() * 100.0;
/// let mut opt = Lbfgs::new(1.0).search(Search::StrongWolfe);
/// for _ in 0..3 {
///     opt.step(&mut model, |model| value_and_grad(model, valley))?;
/// }
/// assert!((model[0].item::<f64>()? - 1.0).abs() < 1e-4);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct Lbfgs {
    /// What a direction is multiplied by.
    pub lr: f64,
    /// The most directions of a call.
    pub iterations: usize,
    /// The most losses of a call; 5/4 of the directions where it is not given.
    pub evaluations: Option<usize>,
    /// No step is taken where no element of the gradient is greater.
    pub tolerance_gradient: f64,
    /// A call ends where neither the loss nor a parameter changes by more.
    pub tolerance_change: f64,
    /// The most changes that are kept.
    pub history: usize,
    /// How long steps are.
    pub search: Search,
    /// Directions taken.
    pub taken: usize,
    /// Losses asked for.
    pub evaluated: usize,
    /// The last changes, the oldest first.
    pub changes: Vec<Change>,
    /// The last direction.
    pub direction: Option<Tensor>,
    /// The gradient that it was taken from.
    pub gradient: Option<Tensor>,
    /// What it was multiplied by.
    pub size: f64,
    /// What the first estimate of the inverse has on its diagonal.
    pub scale: f64,
}

impl Lbfgs {
    /// With this learning rate, which is 1 as a rule, and PyTorch's numbers: 20 directions a call, 100 changes kept, steps
    /// of fixed length.
    pub fn new(lr: f64) -> Lbfgs {
        Lbfgs {
            lr,
            iterations: 20,
            evaluations: None,
            tolerance_gradient: 1e-7,
            tolerance_change: 1e-9,
            history: 100,
            search: Search::Fixed,
            taken: 0,
            evaluated: 0,
            changes: Vec::new(),
            direction: None,
            gradient: None,
            size: 1.0,
            scale: 1.0,
        }
    }

    /// How long steps are.
    pub fn search(mut self, search: Search) -> Lbfgs {
        self.search = search;
        self
    }

    /// The most directions of a call, and the most losses that it asks for.
    pub fn limits(mut self, iterations: usize, evaluations: usize) -> Lbfgs {
        (self.iterations, self.evaluations) = (iterations, Some(evaluations));
        self
    }

    /// What a gradient's elements, and changes of losses and parameters, must exceed for a call to go on.
    pub fn tolerances(mut self, gradient: f64, change: f64) -> Lbfgs {
        (self.tolerance_gradient, self.tolerance_change) = (gradient, change);
        self
    }

    /// The most changes that are kept, each of two vectors of the parameters' size.
    pub fn history(mut self, changes: usize) -> Lbfgs {
        self.history = changes;
        self
    }

    /// Takes steps until one of the limits is met, and gives the loss before the first. `evaluate` gives the loss of a
    /// model and its gradients, as [`value_and_grad`](crate::value_and_grad) does.
    ///
    /// # Errors
    /// A loss or a gradient carries an error; the model is as the last step left it.
    #[track_caller]
    pub fn step<M: TensorStruct>(
        &mut self,
        model: &mut M,
        evaluate: impl FnMut(&M) -> (Tensor, M),
    ) -> Result<Tensor> {
        let flat = Flat::of(model);
        let mut losses = Losses { flat, evaluate };
        let (first, gradients) = (losses.evaluate)(model);
        self.evaluated += 1;
        if losses.flat.len == 0 {
            return Ok(first);
        }
        let (loss, gradient) = (number(&first)?, losses.flat.vector(&gradients)?);
        let mut here = Point::new(loss, gradient);
        if greatest(&here.gradient)? <= self.tolerance_gradient {
            return Ok(first);
        }
        let most = self.evaluations.unwrap_or(self.iterations * 5 / 4);
        let mut evaluated = 1;
        for left in (0..self.iterations).rev() {
            let direction = self.next_direction(&here.gradient)?;
            self.size = match self.taken {
                0 => (1.0 / number(&here.gradient.abs().sum(..))?).min(1.0) * self.lr,
                _ => self.lr,
            };
            self.taken += 1;
            self.gradient = Some(here.gradient.clone());
            self.direction = Some(direction.clone());
            here.slope = number(&here.gradient.dot(&direction))?;
            if here.slope > -self.tolerance_change {
                break;
            }
            let (before, longest) = (here.loss, greatest(&direction)?);
            let bounds = Bounds {
                longest,
                change: self.tolerance_change,
                places: most.saturating_sub(evaluated),
            };
            let is_last = left == 0;
            let asked = self.advance(model, &mut losses, &mut here, &direction, bounds, is_last)?;
            evaluated += asked;
            self.evaluated += asked;
            let is_flat = greatest(&here.gradient)? <= self.tolerance_gradient;
            let is_still = longest * self.size.abs() <= self.tolerance_change
                || (here.loss - before).abs() < self.tolerance_change;
            if evaluated >= most || is_flat || is_still {
                break;
            }
        }
        Ok(first)
    }

    /// One step along a direction: the model and what is known of it, but for the last step of fixed length; and how many
    /// losses that took.
    #[track_caller]
    fn advance<M: TensorStruct, E: FnMut(&M) -> (Tensor, M)>(
        &mut self,
        model: &mut M,
        losses: &mut Losses<E>,
        here: &mut Point,
        direction: &Tensor,
        bounds: Bounds,
        is_last: bool,
    ) -> Result<usize> {
        let mut asked = 0;
        if self.search == Search::StrongWolfe {
            let from: &M = model;
            let (end, places) = strong_wolfe(here, self.size, bounds, |size| {
                let moved = losses.flat.moved(from, direction, size)?;
                losses.at(&moved, direction, size)
            })?;
            (self.size, asked) = (end.size, places);
            *here = end;
        }
        *model = losses.flat.moved(model, direction, self.size)?;
        if self.search == Search::Fixed && !is_last {
            (*here, asked) = (losses.at(model, direction, self.size)?, 1);
        }
        here.size = 0.0;
        Ok(asked)
    }

    /// The direction for a gradient, with the change since the last one kept.
    #[track_caller]
    fn next_direction(&mut self, gradient: &Tensor) -> Result<Tensor> {
        let (Some(before), Some(direction)) = (&self.gradient, &self.direction) else {
            return Ok(-gradient);
        };
        let (change, step) = (gradient - before, direction * self.size);
        let product = number(&change.dot(&step))?;
        // A curvature that is not positive has no place in the estimate.
        if product > 1e-10 && self.history > 0 {
            change.eval()?;
            step.eval()?;
            self.scale = product / number(&change.dot(&change))?;
            let excess = (self.changes.len() + 1).saturating_sub(self.history);
            self.changes.drain(..excess);
            let gradient = change;
            self.changes.push(Change {
                gradient,
                step,
                product,
            });
        }
        let mut towards = -gradient;
        let mut parts = Vec::with_capacity(self.changes.len());
        for change in self.changes.iter().rev() {
            let part = change.step.dot(&towards) / change.product;
            towards -= &change.gradient * &part;
            parts.push(part);
        }
        towards *= self.scale;
        for (change, part) in self.changes.iter().zip(parts.iter().rev()) {
            let other = change.gradient.dot(&towards) / change.product;
            towards += &change.step * (part - other);
        }
        towards.eval()?;
        Ok(towards)
    }
}
