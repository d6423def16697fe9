//! Negative logarithms of likelihoods: of probabilities, of normal and of Poisson distributions.

use super::super::attempt;
use super::wide;
use crate::Tensor;
use ferrotrace_kernels::Reduction;
use ferrotrace_runtime::{Error, Result, Scalar};

/// What p·(1 − p) counts as in the gradient of a cross entropy where it is less, as in PyTorch.
const LEAST: f64 = 1e-12;

/// −t·ln p − (1 − t)·ln(1 − p) with logarithms of −100 at least, so that 0·ln 0 is 0.
#[track_caller]
fn entropies(p: &Tensor, t: &Tensor) -> Tensor {
    let log = p.log().clamp_min(-100.0);
    let rest = (-p).log1p().clamp_min(-100.0);
    (t - 1.0) * rest - t * log
}

impl Tensor {
    /// The mean of −t·ln x − (1 − t)·ln(1 − x) of probabilities x and targets of one shape, each logarithm −100 at least.
    /// A number outside [0, 1] gives NaN. Integers and bools give `F32`. For logits, see
    /// [`binary_cross_entropy_with_logits`](Tensor::binary_cross_entropy_with_logits).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.5, 0.0], 2, &Device::cpu());
    /// let t = Tensor::from_slice(&[1.0, 1.0], 2, &Device::cpu());
    /// let loss = x.binary_cross_entropy(&t).item::<f64>()?;
    /// assert!((loss - (2f64.ln() + 100.0) / 2.0).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn binary_cross_entropy(&self, t: &Tensor) -> Tensor {
        self.binary_cross_entropy_reduced(t, Reduction::Mean)
    }

    /// [`binary_cross_entropy`](Tensor::binary_cross_entropy) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 0.0], 2, &Device::cpu());
    /// let losses = x.binary_cross_entropy_reduced(&x.ones_like(), Reduction::None);
    /// assert_eq!(losses.to_vec::<f64>()?, [0.0, 100.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn binary_cross_entropy_reduced(&self, t: &Tensor, reduction: Reduction) -> Tensor {
        let loss = attempt!("binary_cross_entropy", self.entropy(t, reduction), self, t);
        loss.called("binary_cross_entropy", &[self, t])
    }

    #[track_caller]
    fn entropy(&self, t: &Tensor, reduction: Reduction) -> Result<Tensor> {
        let ([p, t], dtype) = wide([self, t])?;
        if p.shape() != t.shape() {
            let (own, other) = (p.shape(), t.shape());
            return Err(Error::shape(format!(
                "probabilities {own} and targets {other}"
            )));
        }
        if !p.has_grad() {
            return Ok(entropies(&p, &t).loss_as(dtype, reduction));
        }
        // Close to 0 and 1 the gradient is (p − t) / LEAST, of a term that adds 0 to the loss.
        let fixed = p.detach();
        let inside = (&fixed * (1.0 - &fixed)).ge(LEAST);
        let losses = entropies(&inside.where_cond(&p, &fixed), &t);
        let slope = inside.where_cond(0.0, (&fixed - t.detach()) / LEAST);
        Ok((losses + (&p - &fixed) * slope).loss_as(dtype, reduction))
    }

    /// The mean of (ln v + (x − t)²/v) / 2, v at least `eps`: the negative log-likelihood of targets under normal
    /// distributions of means x and variances, without its constant. All broadcast; variances of the means' shape without
    /// its last dimension are one for each row. Where a variance is less than `eps`, and counts as that, its gradient is
    /// that of `eps`. Integers and bools give `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// let t = Tensor::from_slice(&[3.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.gaussian_nll_loss(&t, &x.ones_like(), 1e-6).item::<f64>()?, 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn gaussian_nll_loss(&self, t: &Tensor, var: &Tensor, eps: impl Into<Scalar>) -> Tensor {
        self.gaussian_nll_loss_reduced(t, var, eps, Reduction::Mean)
    }

    /// [`gaussian_nll_loss`](Tensor::gaussian_nll_loss) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// let t = Tensor::from_slice(&[3.0, 2.0], 2, &Device::cpu());
    /// let losses = x.gaussian_nll_loss_reduced(&t, &x.ones_like(), 1e-6, Reduction::None);
    /// assert_eq!(losses.to_vec::<f64>()?, [2.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn gaussian_nll_loss_reduced(
        &self,
        t: &Tensor,
        var: &Tensor,
        eps: impl Into<Scalar>,
        reduction: Reduction,
    ) -> Tensor {
        const NAME: &str = "gaussian_nll_loss";
        match self.gaussian(t, var, eps.into(), reduction) {
            Ok(loss) => loss.called(NAME, &[self, t, var]),
            Err(error) => Tensor::failed(NAME, error, &[self, t, var]),
        }
    }

    #[track_caller]
    fn gaussian(
        &self,
        t: &Tensor,
        var: &Tensor,
        eps: Scalar,
        reduction: Reduction,
    ) -> Result<Tensor> {
        let eps = eps.to_f64();
        let ([mean, t, mut var], dtype) = wide([self, t, var])?;
        let rows = mean.shape().split_last().map(|(_, rows)| rows);
        if rows == Some(&var.shape()[..]) {
            var = var.unsqueeze(-1);
        }
        // The difference moves no variance: below eps the clamped number counts, with the gradient of its own.
        let var = &var + (var.clamp_min(eps) - &var).detach();
        let losses = (var.log() + (mean - t).square() / &var) * 0.5;
        Ok(losses.loss_as(dtype, reduction))
    }

    /// The mean of eˣ − t·x: the negative log-likelihood of counts under Poisson distributions, without its constant. This
    /// tensor holds logarithms of rates; both broadcast. Integers and bools give `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(2, DType::F64, &Device::cpu());
    /// let t = Tensor::from_slice(&[3.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.poisson_nll_loss(&t).item::<f64>()?, 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn poisson_nll_loss(&self, t: &Tensor) -> Tensor {
        self.poisson_nll_loss_reduced(t, Reduction::Mean)
    }

    /// [`poisson_nll_loss`](Tensor::poisson_nll_loss) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(2, DType::F64, &Device::cpu());
    /// assert_eq!(x.poisson_nll_loss_reduced(&x, Reduction::Sum).item::<f64>()?, 2.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn poisson_nll_loss_reduced(&self, t: &Tensor, reduction: Reduction) -> Tensor {
        let ([x, count], dtype) = attempt!("poisson_nll_loss", wide([self, t]), self, t);
        let losses = x.exp() - count * &x;
        let loss = losses.loss_as(dtype, reduction);
        loss.called("poisson_nll_loss", &[self, t])
    }
}
