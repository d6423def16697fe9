//! Measures of predictions. Each is a tensor, so that a loop that keeps them reads nothing until the end.
//!
//! ```
//! use ferrotrace::metrics::{ConfusionMatrix, accuracy};
//! use ferrotrace::prelude::*;
//!
//! let device = Device::cpu();
//! let scores = Tensor::from_slice(&[0.9, 0.1, 0.2, 0.8, 0.7, 0.3], [3, 2], &device);
//! let classes = Tensor::from_slice(&[0i64, 1, 1], 3, &device);
//! assert_eq!(accuracy(&scores, &classes).item::<f64>()?, 2.0 / 3.0);
//! let mut confusion = ConfusionMatrix::new(2, &device);
//! confusion.add(&scores.argmax(-1), &classes);
//! assert_eq!(confusion.counts.to_vec::<i64>()?, [1, 0, 1, 1]);
//! assert_eq!(confusion.precision().to_vec::<f64>()?, [0.5, 1.0]);
//! # Ok::<(), Error>(())
//! ```

use crate::{DType, Device, Tensor, TensorStruct};

/// The mean over all elements, in F64.
#[track_caller]
fn mean(x: &Tensor) -> Tensor {
    x.to_dtype(DType::F64).mean(..)
}

/// The part of samples `[n, ..]` whose greatest score `[n, .., classes]` is at their class: 0-d, F64.
#[track_caller]
pub fn accuracy(scores: &Tensor, classes: &Tensor) -> Tensor {
    mean(&scores.argmax(-1).eq(classes))
}

/// The part of samples `[n, ..]` whose class is among the `k` greatest scores `[n, .., classes]`: 0-d, F64.
///
/// ```
/// use ferrotrace::metrics::top_k;
/// use ferrotrace::prelude::*;
///
/// let scores = Tensor::from_slice(&[0.1, 0.5, 0.4, 0.6, 0.3, 0.1], [2, 3], &Device::cpu());
/// let classes = Tensor::from_slice(&[2i64, 2], 2, &Device::cpu());
/// assert_eq!(top_k(&scores, &classes, 2).item::<f64>()?, 0.5);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn top_k(scores: &Tensor, classes: &Tensor, k: usize) -> Tensor {
    let (_, best) = scores.topk(k, -1, true);
    mean(&best.eq(classes.unsqueeze(-1)).any(-1))
}

/// e to the mean loss (of tokens, in nats): F64.
#[track_caller]
pub fn perplexity(loss: &Tensor) -> Tensor {
    mean(loss).exp()
}

/// The mean of |x − t|: 0-d, F64.
#[track_caller]
pub fn mean_absolute_error(x: &Tensor, t: &Tensor) -> Tensor {
    mean(&(x.to_dtype(DType::F64) - t).abs())
}

/// The mean of (x − t)²: 0-d, F64.
#[track_caller]
pub fn mean_squared_error(x: &Tensor, t: &Tensor) -> Tensor {
    mean(&(x.to_dtype(DType::F64) - t).square())
}

/// The coefficient of determination R² = 1 − Σ(x − t)² / Σ(t − mean t)²: 0-d, F64.
///
/// ```
/// use ferrotrace::metrics::r2;
/// use ferrotrace::prelude::*;
///
/// let of = |v: &[f64]| Tensor::from_slice(v, v.len(), &Device::cpu());
/// assert_eq!(r2(&of(&[1.0, 2.0, 4.0]), &of(&[1.0, 2.0, 3.0])).item::<f64>()?, 0.5);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn r2(x: &Tensor, t: &Tensor) -> Tensor {
    let t = t.to_dtype(DType::F64);
    let left = (x.to_dtype(DType::F64) - &t).square().sum(..);
    1.0 - left / (&t - t.mean(..)).square().sum(..)
}

/// A mean over batches of different sizes.
///
/// ```
/// use ferrotrace::metrics::Mean;
/// use ferrotrace::prelude::*;
///
/// let mut mean = Mean::new(&Device::cpu());
/// mean.add(&Tensor::scalar(1.0, DType::F32, &Device::cpu()), 1);
/// mean.add(&Tensor::scalar(4.0, DType::F32, &Device::cpu()), 2);
/// assert_eq!(mean.value().item::<f64>()?, 3.0);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct Mean {
    /// The weighted sum: 0-d, F64.
    pub sum: Tensor,
    /// The sum of weights: 0-d, F64.
    pub weight: Tensor,
}

impl Mean {
    /// The mean of nothing, whose value is NaN.
    #[track_caller]
    pub fn new(device: &Device) -> Mean {
        Mean {
            sum: Tensor::zeros((), DType::F64, device),
            weight: Tensor::zeros((), DType::F64, device),
        }
    }

    /// Adds the mean of `samples` samples.
    #[track_caller]
    pub fn add(&mut self, mean: &Tensor, samples: usize) {
        let samples = samples as f64;
        self.sum = &self.sum + mean.to_dtype(DType::F64) * samples;
        self.weight = &self.weight + samples;
    }

    /// The mean so far: 0-d, F64.
    #[track_caller]
    pub fn value(&self) -> Tensor {
        &self.sum / &self.weight
    }
}

/// An exponential moving average: `value` becomes momentum·value + (1 − momentum)·x, the first x as it is.
///
/// ```
/// use ferrotrace::metrics::RunningAverage;
/// use ferrotrace::prelude::*;
///
/// let mut average = RunningAverage::new(0.5, &Device::cpu());
/// for x in [2.0, 4.0] {
///     average.add(&Tensor::scalar(x, DType::F32, &Device::cpu()));
/// }
/// assert_eq!(average.value.item::<f64>()?, 3.0);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct RunningAverage {
    /// The average: 0-d, F64; NaN before the first number.
    pub value: Tensor,
    /// The part of the average that a number leaves.
    pub momentum: f64,
}

impl RunningAverage {
    /// The average of nothing.
    #[track_caller]
    pub fn new(momentum: f64, device: &Device) -> RunningAverage {
        RunningAverage {
            value: Tensor::full((), f64::NAN, DType::F64, device),
            momentum,
        }
    }

    /// Takes a 0-d tensor into the average.
    #[track_caller]
    pub fn add(&mut self, x: &Tensor) {
        let x = x.to_dtype(DType::F64);
        let next = &self.value * self.momentum + &x * (1.0 - self.momentum);
        self.value = self.value.isnan().where_cond(x, next);
    }
}

/// How often each class (row) was predicted as each class (column).
#[derive(Clone, Debug, TensorStruct)]
pub struct ConfusionMatrix {
    /// `[classes, classes]`, I64.
    pub counts: Tensor,
}

impl ConfusionMatrix {
    /// No predictions.
    #[track_caller]
    pub fn new(classes: usize, device: &Device) -> ConfusionMatrix {
        ConfusionMatrix {
            counts: Tensor::zeros([classes, classes], DType::I64, device),
        }
    }

    /// Counts predicted classes and true ones, integers of one shape. A class outside the matrix is an error when the
    /// counts are computed.
    #[track_caller]
    pub fn add(&mut self, predicted: &Tensor, truth: &Tensor) {
        let (rows, columns) = (truth.flatten(0, -1), predicted.flatten(0, -1));
        let ones = Tensor::ones((), DType::I64, &self.counts.device());
        let at = [Some(&rows), Some(&columns)];
        self.counts = self.counts.index_put(&at, &ones, true);
    }

    /// Predictions that were right: `[classes]`, F64.
    #[track_caller]
    fn right(&self) -> Tensor {
        self.counts.diagonal(0, 0, 1).to_dtype(DType::F64)
    }

    /// a / b, and 0 where b is 0.
    #[track_caller]
    fn part(a: &Tensor, b: &Tensor) -> Tensor {
        b.gt(0).where_cond(a / b, 0.0)
    }

    /// The part of all predictions that were right: 0-d, F64.
    #[track_caller]
    pub fn accuracy(&self) -> Tensor {
        let all = self.counts.sum(..).to_dtype(DType::F64);
        ConfusionMatrix::part(&self.right().sum(..), &all)
    }

    /// Of the predictions of each class, the part that was right, and 0 where there were none: `[classes]`, F64.
    #[track_caller]
    pub fn precision(&self) -> Tensor {
        let predicted = self.counts.sum(0).to_dtype(DType::F64);
        ConfusionMatrix::part(&self.right(), &predicted)
    }

    /// Of the samples of each class, the part that was predicted so, and 0 where there were none: `[classes]`, F64.
    #[track_caller]
    pub fn recall(&self) -> Tensor {
        let there = self.counts.sum(1).to_dtype(DType::F64);
        ConfusionMatrix::part(&self.right(), &there)
    }

    /// The harmonic mean of precision and recall of each class, and 0 where both are 0: `[classes]`, F64.
    #[track_caller]
    pub fn f1(&self) -> Tensor {
        let both = (self.counts.sum(0) + self.counts.sum(1)).to_dtype(DType::F64);
        ConfusionMatrix::part(&(self.right() * 2.0), &both)
    }
}
