//! Losses of pairs of numbers.

use super::{reduced, with_reduction};
use crate::{Reduction, Tensor, TensorStruct};

macro_rules! plain {
    ($($(#[doc = $doc:literal])* $name:ident |$x:ident, $t:ident, $r:ident| $loss:expr;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, TensorStruct)]
        pub struct $name {
            /// Sum, mean or neither.
            #[tensor_struct(value)]
            pub reduction: Reduction,
        }

        impl Default for $name {
            fn default() -> $name {
                $name::new()
            }
        }

        impl $name {
            /// The mean.
            pub fn new() -> $name {
                $name { reduction: Reduction::Mean }
            }

            /// The loss of predictions and targets that broadcast.
            #[track_caller]
            pub fn forward(&self, $x: &Tensor, $t: &Tensor) -> Tensor {
                let $r = self.reduction;
                $loss
            }
        }

        with_reduction!($name);
    )*};
}

plain! {
    /// |x − t|.
    L1Loss |x, t, r| reduced((x - t).abs(), r);
    /// (x − t)².
    MseLoss |x, t, r| x.mse_loss_reduced(t, r);
}

macro_rules! with_width {
    ($($(#[doc = $doc:literal])* $name:ident $width:ident $method:ident $factor:expr;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, TensorStruct)]
        pub struct $name {
            /// The distance up to which the loss is a parabola.
            pub $width: f64,
            /// Sum, mean or neither.
            #[tensor_struct(value)]
            pub reduction: Reduction,
        }

        impl Default for $name {
            fn default() -> $name {
                $name::new(1.0)
            }
        }

        impl $name {
            /// The mean.
            pub fn new($width: f64) -> $name {
                $name { $width, reduction: Reduction::Mean }
            }

            /// The loss of predictions and targets that broadcast.
            #[track_caller]
            pub fn forward(&self, x: &Tensor, t: &Tensor) -> Tensor {
                let factor: fn(f64) -> f64 = $factor;
                match self.$width {
                    0.0 => reduced((x - t).abs() * factor(0.0), self.reduction),
                    width => x.smooth_l1_loss_reduced(t, width, self.reduction) * factor(width),
                }
            }
        }

        with_reduction!($name);
    )*};
}

with_width! {
    /// d²/2β where d = |x − t| is below β, else d − β/2.
    SmoothL1Loss beta smooth_l1_loss_reduced |_| 1.0;
    /// d²/2 where d = |x − t| is below δ, else δ·(d − δ/2) ([Huber 1964](https://doi.org/10.1214/aoms/1177703732)).
    HuberLoss delta smooth_l1_loss_reduced |delta| delta;
}

/// The Kullback-Leibler divergence t·(ln t − x) of log-probabilities x from probabilities t, or exp(t)·(t − x) of
/// log-probabilities t.
#[derive(Clone, Debug, TensorStruct)]
pub struct KlDivLoss {
    /// Whether targets are log-probabilities.
    pub log_target: bool,
    /// Whether the sum is divided by the number of samples (dimension 0) instead of the reduction.
    pub batch_mean: bool,
    /// Sum, mean or neither.
    #[tensor_struct(value)]
    pub reduction: Reduction,
}

impl Default for KlDivLoss {
    fn default() -> KlDivLoss {
        KlDivLoss::new()
    }
}

impl KlDivLoss {
    /// The mean over all elements, of probabilities.
    pub fn new() -> KlDivLoss {
        KlDivLoss {
            log_target: false,
            batch_mean: false,
            reduction: Reduction::Mean,
        }
    }

    /// Targets that are log-probabilities.
    pub fn log_target(mut self) -> KlDivLoss {
        self.log_target = true;
        self
    }

    /// The sum over the number of samples, which is the divergence's definition.
    pub fn batch_mean(mut self) -> KlDivLoss {
        self.batch_mean = true;
        self
    }

    /// The loss of log-probabilities and targets of one shape.
    #[track_caller]
    pub fn forward(&self, log_p: &Tensor, target: &Tensor) -> Tensor {
        let reduction = match self.batch_mean {
            true => Reduction::Sum,
            false => self.reduction,
        };
        let loss = match self.log_target {
            true => reduced(target.exp() * (target - log_p), reduction),
            false => log_p.kl_div_reduced(target, reduction),
        };
        match self.batch_mean {
            true => loss / log_p.dims().first().copied().unwrap_or(1) as f64,
            false => loss,
        }
    }
}

with_reduction!(KlDivLoss);

/// The negative log-likelihood of targets under normal distributions of predicted means and variances, without its
/// constant: (ln v + (x − t)²/v) / 2, v at least eps.
#[derive(Clone, Debug, TensorStruct)]
pub struct GaussianNllLoss {
    /// The constant ln(2π)/2 too.
    pub full: bool,
    /// The least variance, which smaller ones count as.
    pub eps: f64,
    /// Sum, mean or neither.
    #[tensor_struct(value)]
    pub reduction: Reduction,
}

impl Default for GaussianNllLoss {
    fn default() -> GaussianNllLoss {
        GaussianNllLoss::new()
    }
}

impl GaussianNllLoss {
    /// The mean, without the constant; variances at least 1e-6.
    pub fn new() -> GaussianNllLoss {
        GaussianNllLoss {
            full: false,
            eps: 1e-6,
            reduction: Reduction::Mean,
        }
    }

    /// The loss of means, targets and variances that broadcast: [`Tensor::gaussian_nll_loss`].
    #[track_caller]
    pub fn forward(&self, mean: &Tensor, target: &Tensor, var: &Tensor) -> Tensor {
        if !self.full {
            return mean.gaussian_nll_loss_reduced(target, var, self.eps, self.reduction);
        }
        let losses = mean.gaussian_nll_loss_reduced(target, var, self.eps, Reduction::None);
        reduced(losses + 0.5 * std::f64::consts::TAU.ln(), self.reduction)
    }
}

with_reduction!(GaussianNllLoss);

/// The negative log-likelihood of counts under Poisson distributions, without its constant: eˣ − t·x of logarithms of
/// rates, or x − t·ln(x + eps) of rates.
#[derive(Clone, Debug, TensorStruct)]
pub struct PoissonNllLoss {
    /// Whether predictions are logarithms of rates.
    pub log_input: bool,
    /// What is added to a rate before its logarithm is taken.
    pub eps: f64,
    /// Sum, mean or neither.
    #[tensor_struct(value)]
    pub reduction: Reduction,
}

impl Default for PoissonNllLoss {
    fn default() -> PoissonNllLoss {
        PoissonNllLoss::new()
    }
}

impl PoissonNllLoss {
    /// The mean, of logarithms of rates.
    pub fn new() -> PoissonNllLoss {
        PoissonNllLoss {
            log_input: true,
            eps: 1e-8,
            reduction: Reduction::Mean,
        }
    }

    /// The loss of predictions and counts that broadcast.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, count: &Tensor) -> Tensor {
        if self.log_input {
            return x.poisson_nll_loss_reduced(count, self.reduction);
        }
        reduced(x - count * (x + self.eps).log(), self.reduction)
    }
}

with_reduction!(PoissonNllLoss);
