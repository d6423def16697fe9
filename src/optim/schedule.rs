//! Learning rates as functions of the step.

use crate::{DType, Tensor, TensorStruct};
use std::f64::consts::PI;

/// The factor of the learning rate at a step: a linear warm-up, and then a curve.
///
/// It is computed of the optimiser's 0-d step count with tensor operations, so that a recorded training step holds for
/// every step.
///
/// ```
/// use ferrotrace::optim::Schedule;
/// use ferrotrace::prelude::*;
///
/// let schedule = Schedule::cosine(100).warmup(10);
/// let at = |step: i64| schedule.factor(&Tensor::scalar(step, DType::I64, &Device::cpu()));
/// assert_eq!(at(5).item::<f64>()?, 0.5);
/// assert_eq!(at(10).item::<f64>()?, 1.0);
/// assert!((at(60).item::<f64>()? - 0.5).abs() < 1e-12);
/// assert_eq!(at(200).item::<f64>()?, 0.0);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, TensorStruct)]
pub struct Schedule {
    /// Steps over which the factor grows linearly; the curve begins behind them.
    pub warmup: usize,
    /// The factor that the warm-up begins with.
    pub start: f64,
    /// The curve.
    pub curve: Curve,
}

/// A factor of the learning rate as a function of the steps t behind the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, TensorStruct)]
pub enum Curve {
    /// 1.
    Constant,
    /// gamma^⌊t / every⌋.
    Steps {
        /// Steps of one factor.
        every: usize,
        /// The factor from one to the next.
        gamma: f64,
    },
    /// gammaᵗ.
    Exponential {
        /// The factor of a step.
        gamma: f64,
    },
    /// Half a cosine from 1 to `floor`, which is kept ([Loshchilov & Hutter 2017](https://arxiv.org/abs/1608.03983)).
    Cosine {
        /// Steps from 1 to the floor.
        steps: usize,
        /// The last factor.
        floor: f64,
    },
    /// (1 − t / steps)^power, then 0.
    Polynomial {
        /// Steps from 1 to 0.
        steps: usize,
        /// The exponent; 1 for a line.
        power: f64,
    },
    /// Half a cosine up from 1 / 25 to 1 and one down to 1 / 250,000
    /// ([Smith & Topin 2018](https://arxiv.org/abs/1708.07120)).
    OneCycle {
        /// Steps of both.
        steps: usize,
        /// The part of the steps that goes up.
        rise: f64,
    },
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule::constant()
    }
}

impl Schedule {
    fn of(curve: Curve) -> Schedule {
        Schedule {
            warmup: 0,
            start: 0.0,
            curve,
        }
    }

    /// [`Curve::Constant`].
    pub fn constant() -> Schedule {
        Schedule::of(Curve::Constant)
    }

    /// [`Curve::Steps`].
    pub fn steps(every: usize, gamma: f64) -> Schedule {
        Schedule::of(Curve::Steps { every, gamma })
    }

    /// [`Curve::Exponential`].
    pub fn exponential(gamma: f64) -> Schedule {
        Schedule::of(Curve::Exponential { gamma })
    }

    /// [`Curve::Cosine`] to 0.
    pub fn cosine(steps: usize) -> Schedule {
        Schedule::of(Curve::Cosine { steps, floor: 0.0 })
    }

    /// [`Curve::Cosine`] to a factor of its own.
    pub fn cosine_to(steps: usize, floor: f64) -> Schedule {
        Schedule::of(Curve::Cosine { steps, floor })
    }

    /// [`Curve::Polynomial`].
    pub fn polynomial(steps: usize, power: f64) -> Schedule {
        Schedule::of(Curve::Polynomial { steps, power })
    }

    /// [`Curve::Polynomial`] of power 1.
    pub fn linear(steps: usize) -> Schedule {
        Schedule::polynomial(steps, 1.0)
    }

    /// [`Curve::OneCycle`] that goes up for three tenths of the steps.
    pub fn one_cycle(steps: usize) -> Schedule {
        Schedule::of(Curve::OneCycle { steps, rise: 0.3 })
    }

    /// The schedule behind steps over which the factor grows linearly from 0.
    pub fn warmup(self, steps: usize) -> Schedule {
        self.warmup_from(0.0, steps)
    }

    /// The schedule behind steps over which the factor grows linearly from `start`.
    pub fn warmup_from(mut self, start: f64, steps: usize) -> Schedule {
        (self.start, self.warmup) = (start, steps);
        self
    }

    /// The factor (F64) of the step that has `steps` before it, an integer tensor, most often 0-d.
    #[track_caller]
    pub fn factor(&self, steps: &Tensor) -> Tensor {
        let t = steps.to_dtype(DType::F64);
        if self.warmup == 0 {
            return self.curve.factor(&t);
        }
        let warmup = self.warmup as f64;
        let rise = (&t / warmup) * (1.0 - self.start) + self.start;
        let behind = self.curve.factor(&(&t - warmup).clamp_min(0.0));
        t.lt(warmup).where_cond(rise, behind)
    }
}

impl Curve {
    #[track_caller]
    fn factor(&self, t: &Tensor) -> Tensor {
        // No steps are over at once.
        let part = |steps: usize| (t / steps.max(1) as f64).clamp_max(1.0);
        match *self {
            Curve::Constant => t.ones_like(),
            Curve::Steps { every, gamma } => power_of(gamma, &(t / every.max(1) as f64).floor()),
            Curve::Exponential { gamma } => power_of(gamma, t),
            Curve::Cosine { steps, floor } => between(1.0, floor, &part(steps)),
            Curve::Polynomial { steps, power } => (1.0 - part(steps)).pow(power),
            Curve::OneCycle { steps, rise } => {
                // As in PyTorch, the first and the last step lie on the ends of the curve.
                let top = rise * steps as f64 - 1.0;
                let fall = steps as f64 - 1.0 - top;
                let up = between(0.04, 1.0, &(t / top));
                let down = between(1.0, 4e-6, &((t - top) / fall).clamp_max(1.0));
                t.le(top).where_cond(up, down)
            }
        }
    }
}

/// `base` to the power of a tensor's elements.
#[track_caller]
fn power_of(base: f64, exponent: &Tensor) -> Tensor {
    exponent.full_like(base).pow(exponent)
}

/// Half a cosine from one number to another, as `part` goes from 0 to 1.
#[track_caller]
fn between(from: f64, to: f64, part: &Tensor) -> Tensor {
    ((part * PI).cos() + 1.0) * ((from - to) / 2.0) + to
}
