//! Counts of events, by a distribution that differs from element to element.

use super::super::attempt;
use super::super::binary::log_poisson;
use crate::Tensor;
use crate::args::Operand;
use crate::generator::{Generator, process};
use crate::trace;
use ferrotrace_runtime::{DType, Error, Result};

/// Tries of a rejection; the last one counts whether it is accepted or not. A try is accepted with a probability of at
/// least 0.75, so that fewer than one element in 10⁹ has none.
const TRIES: usize = 16;

/// From this mean on, counts are drawn by rejection.
const MANY: f64 = 10.0;

/// The most events that are counted one by one; more have a probability below 10⁻¹⁷ where the mean is less than [`MANY`].
const COUNTED: usize = 48;

/// Sizes of a tensor behind others.
pub(super) fn behind(size: usize, x: &Tensor) -> Vec<usize> {
    [&[size], x.dims()].concat()
}

/// Numbers 1, 2, .. along a new first dimension.
#[track_caller]
fn numbers(x: &Tensor) -> Tensor {
    let line = Tensor::arange(1, COUNTED + 1, 1, DType::F64, &x.device());
    line.reshape([&[COUNTED][..], &vec![1; x.rank()]].concat())
}

/// The first of the tries along the first dimension that was accepted.
#[track_caller]
pub(super) fn first(tries: &Tensor, accepted: &Tensor) -> Tensor {
    let last = tries.dims()[0] as isize - 1;
    let mut found = tries.select(0, last);
    for k in (0..last).rev() {
        found = accepted
            .select(0, k)
            .where_cond(&tries.select(0, k), &found);
    }
    found
}

impl Generator {
    /// Numbers uniform in [0, 1) for `n` tries at each element.
    #[track_caller]
    pub(super) fn tries(&self, n: usize, x: &Tensor) -> Tensor {
        self.rand(behind(n, x), DType::F64, &x.device())
    }

    /// How many events there are where none has probability `none`, and k one `ratios[k − 1]` times that of k − 1: the
    /// inverse of the distribution function.
    #[track_caller]
    fn counted(&self, none: &Tensor, ratios: &Tensor) -> Tensor {
        let drawn = self.rand(none.dims(), DType::F64, &none.device());
        let sums = none + (ratios.cumprod(0) * none).cumsum(0);
        let more = drawn.ge(&sums).to_dtype(DType::F64).sum(0);
        more + drawn.ge(none).to_dtype(DType::F64)
    }

    /// Counts by the transformed rejection of [Hörmann 1993](https://doi.org/10.1016/0167-6687(93)90997-4), of a mean and a
    /// deviation, as its constants `[a, b, 1/α]` say; `logarithm` is that of a count's probability.
    #[track_caller]
    fn rejected(
        &self,
        centre: &Tensor,
        [a, b, inverse]: [Tensor; 3],
        logarithm: impl Fn(&Tensor) -> Tensor,
        most: Option<&Tensor>,
    ) -> Tensor {
        let (u, v) = (self.tries(TRIES, centre) - 0.5, self.tries(TRIES, centre));
        let width = 0.5 - u.abs();
        let counts = ((&a * 2.0 / &width + &b) * u + centre).floor();
        let mut inside = counts.ge(0.0);
        if let Some(most) = most {
            inside = inside.logical_and(&counts.le(most));
        }
        let counts = inside.where_cond(&counts, &centre.floor());
        let height = (v * inverse / (a / width.square() + b)).log();
        let accepted = height.le(&logarithm(&counts)).logical_and(&inside);
        first(&counts, &accepted)
    }

    /// Counts of events of these means: [`Tensor::poisson`].
    #[track_caller]
    pub fn poisson(&self, rates: &Tensor) -> Tensor {
        let (x, dtype) = attempt!("poisson", drawn_for("poisson", rates), rates);
        let _trace = trace::follow(rates.node());
        let fits = x.ge(0.0).logical_and(&x.isfinite());
        let is_many = x.ge(MANY).logical_and(&fits);
        let few = is_many.where_cond(1.0, &fits.where_cond(&x, 1.0));
        let counted = self.counted(&(-&few).exp(), &(&few / numbers(&x)));
        let many = is_many.where_cond(&x, MANY);
        let b = many.sqrt() * 2.53 + 0.931;
        let a = &b * 0.02483 - 0.059;
        let inverse = 1.1239 + 1.1328 / (&b - 3.4);
        let logarithm = |k: &Tensor| log_poisson(k, &many);
        let centre = &many + 0.43;
        let drawn = self.rejected(&centre, [a, b, inverse], logarithm, None);
        let y = is_many.where_cond(&drawn, &counted);
        fits.where_cond(&y, f64::NAN)
            .to_dtype(dtype)
            .called("poisson", &[rates])
    }

    /// Counts of successes: [`Tensor::binomial`].
    #[track_caller]
    pub fn binomial<'a>(&self, trials: &Tensor, p: impl Into<Operand<'a>>) -> Tensor {
        let (n, p, dtype) = attempt!("binomial", trials.wide_pair(&p.into()), trials);
        let _trace = trace::follow(trials.node());
        let (n, p) = (n.detach(), p.detach());
        let likely = p.ge(0.0).logical_and(&p.le(1.0));
        let fits = n.ge(0.0).logical_and(&n.isfinite()).logical_and(&likely);
        // Of successes and failures, those are drawn that are fewer.
        let is_turned = p.gt(0.5);
        let least = is_turned.where_cond(&(1.0 - &p), &p);
        let n_of = fits.where_cond(&n, 0.0);
        let mean = &n_of * likely.where_cond(&least, 0.0);
        let is_many = mean.ge(MANY);
        let few_p = is_many
            .logical_or(&likely.logical_not())
            .where_cond(0.0, &least);
        let few_n = is_many.where_cond(0.0, &n_of);
        let odds = &few_p / (1.0 - &few_p);
        let k = numbers(&mean);
        let ratios = (&few_n + 1.0 - &k).clamp_min(0.0) / &k * odds;
        let none = (few_n * (-few_p).log1p()).exp();
        let counted = self.counted(&none, &ratios);
        let (n_many, p_many) = (
            is_many.where_cond(&n_of, 40.0),
            is_many.where_cond(&least, 0.5),
        );
        let drawn = self.many_successes(&n_many, &p_many);
        let y = is_many.where_cond(&drawn, &counted);
        let y = is_turned.where_cond(&(&n - &y), &y);
        fits.where_cond(&y, f64::NAN)
            .to_dtype(dtype)
            .called("binomial", &[trials])
    }

    /// Successes of trials with a mean of [`MANY`] at least and a probability of 1/2 at most.
    #[track_caller]
    fn many_successes(&self, n: &Tensor, p: &Tensor) -> Tensor {
        let deviation = (n * p * (1.0 - p)).sqrt();
        let b = &deviation * 2.53 + 1.15;
        let a = &b * 0.0248 + p * 0.01 - 0.0873;
        let inverse = (5.1 / &b + 2.83) * deviation;
        let mode = ((n + 1.0) * p).floor();
        // The probability of k successes is a product of Poisson probabilities, and of a factor that is the same for all k.
        let (successes, failures) = (n * p, n * (1.0 - p));
        let log = |k: &Tensor| log_poisson(k, &successes) + log_poisson(&(n - k), &failures);
        let most = log(&mode);
        let logarithm = |k: &Tensor| log(k) - &most;
        let centre = &successes + 0.5;
        self.rejected(&centre, [a, b, inverse], logarithm, Some(n))
    }
}

/// Floats in binary64 without a gradient, and their dtype.
///
/// # Errors
/// They are none, or carry an error.
pub(super) fn drawn_for(name: &str, x: &Tensor) -> Result<(Tensor, DType)> {
    x.check()?;
    match x.dtype().is_float() {
        true => Ok((x.detach().to_dtype(DType::F64), x.dtype())),
        false => Err(Error::untaken(name, x.dtype(), DType::F32)),
    }
}

impl Tensor {
    /// For each element the count of events that come with this mean, of the same dtype of floats; NaN where the mean is
    /// negative or not finite. No gradient goes through it.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let rates = Tensor::full(1000, 3.0, DType::F32, &Device::cpu());
    /// let counts = rates.poisson();
    /// assert!((counts.mean(..).item::<f64>()? - 3.0).abs() < 0.4);
    /// assert_eq!(counts.frac().abs().max(..).item::<f64>()?, 0.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn poisson(&self) -> Tensor {
        process().poisson(self)
    }

    /// For each element, a whole number of trials, how many succeed with probability `p`, broadcast; of the floats that
    /// both promote to. NaN where the number is negative or the probability outside [0, 1]. No gradient goes through it.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let trials = Tensor::full(1000, 20.0, DType::F32, &Device::cpu());
    /// let successes = trials.binomial(0.75);
    /// assert!((successes.mean(..).item::<f64>()? - 15.0).abs() < 0.5);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn binomial<'a>(&self, p: impl Into<Operand<'a>>) -> Tensor {
        process().binomial(self, p)
    }
}
