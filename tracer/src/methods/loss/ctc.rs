//! Losses of sequences whose alignment is not known (Graves et al. 2006).
//!
//! Probabilities of prefixes are computed forwards, in logarithms, over the labels with blanks around each: `2n + 1` states.

use crate::Tensor;
use crate::control::scan;
use ferrotrace_kernels::Reduction;
use ferrotrace_runtime::{DType, Error, Result};

/// The logarithm of what cannot be. It is finite, so that differences of two are numbers; sums with logarithms of
/// probabilities leave it as it is.
const NEVER: f64 = -1e30;

/// A batch of sequences.
struct Sequences {
    /// Logarithms of probabilities, `[steps, batch, classes]`, in the dtype of arithmetic.
    log_probs: Tensor,
    /// Labels, `[batch, n]`; blanks behind each sequence's own.
    labels: Tensor,
    /// How many steps of each count: `[batch]`.
    steps: Tensor,
    /// How many labels each has: `[batch]`.
    lengths: Tensor,
}

/// Lengths `[batch]` of integers, of which none is above `most`: one that is is found when the result is computed.
#[track_caller]
fn lengths(x: &Tensor, batch: usize, most: usize, what: &str) -> Result<Tensor> {
    x.check()?;
    if !x.dtype().is_int() {
        return Err(Error::untaken("ctc_loss", x.dtype(), DType::I64));
    }
    if x.numel() != batch || x.rank() > 1 {
        let why = format!("{what} of shape {} for a batch of {batch}", x.shape());
        return Err(Error::shape(why));
    }
    let all = Tensor::arange(0, most as i64 + 1, 1, DType::I64, &x.device());
    let at = x.to_dtype(DType::I64).reshape([batch]);
    // Negative positions would count from the end.
    let found = all.gather(0, &at.lt(0).where_cond(most as i64 + 1, &at));
    found.check()?;
    Ok(found)
}

/// The longest of the lengths of `total` labels that stand one behind the other: it is read.
#[track_caller]
fn longest(lengths: &Tensor, total: usize) -> Result<usize> {
    lengths.check()?;
    if lengths.numel() == 0 {
        return Ok(0);
    }
    let wide = lengths.to_dtype(DType::I64);
    let (least, most, sum) = (wide.min(..), wide.max(..), wide.sum(..));
    crate::eval([&least, &most, &sum])?;
    let (least, sum) = (least.to_scalar::<i64>()?, sum.to_scalar::<i64>()?);
    if least < 0 || sum != total as i64 {
        let why = format!("{total} labels for lengths whose sum is {sum}, the least {least}");
        return Err(Error::argument(why));
    }
    Ok(most.to_scalar::<i64>()? as usize)
}

impl Sequences {
    #[track_caller]
    fn of(
        log_probs: &Tensor,
        targets: &Tensor,
        [steps, labels]: [&Tensor; 2],
        blank: usize,
    ) -> Result<Sequences> {
        log_probs.check()?;
        targets.check()?;
        if !log_probs.dtype().is_float() {
            return Err(Error::untaken("ctc_loss", log_probs.dtype(), DType::F32));
        }
        if !targets.dtype().is_int() {
            return Err(Error::untaken("ctc_loss", targets.dtype(), DType::I64));
        }
        let x = log_probs.to_dtype(log_probs.dtype().compute());
        let x = match x.rank() {
            2 => x.unsqueeze(1),
            _ => x,
        };
        let &[time, batch, classes] = &x.shape()[..] else {
            let why = format!("log-probabilities {}: [T, N, C] or [T, C]", x.shape());
            return Err(Error::shape(why));
        };
        if blank >= classes {
            return Err(Error::argument(format!(
                "blank {blank} of {classes} classes"
            )));
        }
        let targets = targets.to_dtype(DType::I64);
        let (n, padded) = match targets.shape()[..] {
            [rows, n] if rows == batch => (n, true),
            [total] => (longest(labels, total)?, false),
            _ => {
                let why = format!("labels {} for a batch of {batch}", targets.shape());
                return Err(Error::shape(why));
            }
        };
        let lengths_of = lengths(labels, batch, n, "lengths of labels")?;
        let place = Tensor::arange(0, n, 1, DType::I64, &x.device());
        let own = place.lt(lengths_of.unsqueeze(1));
        let labels = match padded {
            true => targets,
            false => {
                let ends = lengths_of.cumsum(0);
                let at = (ends - &lengths_of).unsqueeze(1) + place;
                let last = targets.numel().saturating_sub(1) as i64;
                targets.index(&[Some(&at.clamp(0, last))])
            }
        };
        Ok(Sequences {
            labels: own.where_cond(&labels, blank as i64),
            steps: lengths(steps, batch, time, "numbers of steps")?,
            lengths: lengths_of,
            log_probs: x,
        })
    }

    /// The class of each state, `[batch, 2n + 1]`: blanks, and between them the labels.
    #[track_caller]
    fn states(&self, blank: usize) -> Tensor {
        let (batch, n) = (self.labels.shape()[0], self.labels.shape()[1]);
        let blanks = self.labels.full_like(blank as i64);
        let pairs = Tensor::stack(&[&blanks, &self.labels], 2).reshape([batch, 2 * n]);
        pairs.pad(&[(0, 0), (0, 1)], blank as i64)
    }

    /// The logarithm of the probability that each sequence's steps give its labels, or [`NEVER`]: `[batch]`.
    #[track_caller]
    fn likelihood(&self, blank: usize) -> Result<Tensor> {
        let (time, batch) = (self.log_probs.shape()[0], self.log_probs.shape()[1]);
        let states = self.states(blank);
        let width = states.shape()[1];
        let at = states.unsqueeze(0).expand([time, batch, width]);
        let given = self.log_probs.gather(2, &at).clamp_min(NEVER);
        given.check()?;
        // A label that follows another one may follow it without a blank.
        let behind = states.pad(&[(0, 0), (2, -2)], blank as i64);
        let skips = states.ne(&behind);
        // Before the first step nothing has been said: as if the state were the first blank.
        let first = Tensor::arange(0, width, 1, DType::I64, &states.device()).eq(0);
        let start = Tensor::full([batch, width], NEVER, given.dtype(), &given.device());
        let start = first.where_cond(0.0, &start);
        let line = Tensor::arange(0, time, 1, DType::I64, &states.device());
        let counts = line.unsqueeze(1).lt(&self.steps).unsqueeze(2);
        let step = |before: &Tensor, row: &[Tensor; 2]| {
            let [given, counts] = row;
            let back = |by: isize| before.pad(&[(0, 0), (by, -by)], NEVER);
            let jumped = skips.where_cond(back(2), NEVER);
            let next = sum_of_logs(&[before, &back(1), &jumped]) + given;
            let none: [Tensor; 0] = [];
            (counts.where_cond(&next, before), none)
        };
        let end = match time {
            0 => start,
            _ => scan(step, &start, &[given, counts]).0,
        };
        // A sequence ends in its last label or the blank behind it.
        let last = (&self.lengths * 2).unsqueeze(1);
        let label = end.gather(1, &(&last - 1).clamp_min(0));
        let label = last.gt(0).where_cond(&label, NEVER);
        Ok(sum_of_logs(&[&end.gather(1, &last), &label]).squeeze(1))
    }
}

/// The logarithm of the sum of numbers whose logarithms these are.
#[track_caller]
fn sum_of_logs(logs: &[&Tensor]) -> Tensor {
    let rest = logs[1..].iter();
    let most = rest.fold(logs[0].clone(), |most, x| most.maximum(*x));
    // A shift, which no slope depends on.
    let most = most.detach();
    let parts = logs.iter().map(|&x| (x - &most).exp());
    let sum = parts.reduce(|a, b| a + b).unwrap_or_else(|| most.clone());
    sum.log() + most
}

impl Tensor {
    /// The loss of connectionist temporal classification: −ln of the probability that steps with these log-probabilities
    /// `[T, N, C]` (or `[T, C]`, of one sequence) give the labels when repeated classes are merged and blanks left out. It is
    /// PyTorch's `ctc_loss`.
    ///
    /// `targets` are integers, `[N, S]`, of which a sequence's length says how many count, or `[sum of lengths]`, one
    /// sequence's behind the other's. Both lengths are integers, `[N]`, for one sequence also 0-d. Where targets stand one behind
    /// the other, `target_lengths` are read at the call, which flushes. The mean is of losses divided by the numbers of labels,
    /// at least 1.
    ///
    /// A sequence that cannot be aligned has the loss ∞, where `zero_infinity` 0, and no gradient. As PyTorch's, the gradient is
    /// that of log-probabilities that come of [`log_softmax`](Tensor::log_softmax): exp(log p) more than the slope by each alone,
    /// which makes no difference behind it.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// # use ferrotrace_tracer::Reduction;
    /// let device = Device::cpu();
    /// let log_p = Tensor::full([2, 1, 2], 0.5f64.ln(), DType::F64, &device);
    /// let [target, steps, labels] = [1i64, 2, 1].map(|n| Tensor::from_slice(&[n], 1, &device));
    /// // Of four paths through two steps, three say the label: "1", "-1" and "1-".
    /// let loss = log_p.ctc_loss(&target, &steps, &labels, 0, Reduction::Mean, false);
    /// assert!((loss.item::<f64>()? + 0.75f64.ln()).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// Other shapes and dtypes and a blank that is no class are errors; a length above what there is, or a class that is none, is
    /// one when the result is computed.
    #[track_caller]
    pub fn ctc_loss(
        &self,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
        blank: usize,
        reduction: Reduction,
        zero_infinity: bool,
    ) -> Tensor {
        let lengths = [input_lengths, target_lengths];
        let operands = [self, targets, input_lengths, target_lengths];
        let losses = Sequences::of(self, targets, lengths, blank).and_then(|sequences| {
            let losses = sequences.losses(blank, zero_infinity)?;
            let losses = match reduction {
                Reduction::None if self.rank() == 2 => losses.squeeze(0),
                Reduction::None => losses,
                Reduction::Sum => losses.sum(..),
                Reduction::Mean => {
                    let labels = sequences.lengths.clamp_min(1).to_dtype(losses.dtype());
                    (losses / labels).mean(..)
                }
            };
            Ok(losses.to_dtype(self.dtype()))
        });
        match losses {
            Ok(losses) => losses.called("ctc_loss", &operands),
            Err(error) => Tensor::failed("ctc_loss", error, &operands),
        }
    }
}

impl Sequences {
    #[track_caller]
    fn losses(&self, blank: usize, zero_infinity: bool) -> Result<Tensor> {
        let mut losses = -self.likelihood(blank)?;
        if self.log_probs.has_grad() {
            // Nothing, but to gradients.
            let p = self.log_probs.exp();
            let p = (&p - p.detach()).sum(2);
            let line = Tensor::arange(0, p.shape()[0], 1, DType::I64, &p.device());
            let counts = line.unsqueeze(1).lt(&self.steps);
            losses += counts.where_cond(&p, 0.0).sum(0);
        }
        let beyond = if zero_infinity { 0.0 } else { f64::INFINITY };
        Ok(losses.lt(-NEVER / 10.0).where_cond(&losses, beyond))
    }
}
