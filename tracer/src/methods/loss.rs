//! Losses, each the mean over all elements (or samples): a 0-d tensor.

mod classes;
mod ctc;
mod likelihoods;
mod margins;
mod reduced;

use super::attempt;
use crate::Tensor;
use ferrotrace_kernels::op::ReducedLoss;
use ferrotrace_kernels::ops::pointwise::promote;
use ferrotrace_kernels::{ArgMeta, Composite, Loss, Reduction};
use ferrotrace_runtime::{DType, Error, Result, Scalar};

/// The distance up to which a Huber loss is a parabola.
///
/// # Errors
/// It is not positive.
fn width(delta: Scalar) -> Result<Scalar> {
    match delta.to_f64() > 0.0 {
        true => Ok(delta),
        false => Err(Error::argument(format!(
            "delta is {delta}: it must be positive"
        ))),
    }
}

/// Operands in the dtype of their arithmetic, and the dtype of a loss of them: integers and bools give `F32`.
///
/// # Errors
/// One carries an error.
#[track_caller]
fn wide<const N: usize>(operands: [&Tensor; N]) -> Result<([Tensor; N], DType)> {
    for x in operands {
        x.check()?;
    }
    let promoted = promote(&operands.map(|x| ArgMeta::Tensor(x.sizes(), x.dtype())));
    let dtype = match promoted.is_float() {
        true => promoted,
        false => DType::F32,
    };
    let mut wide = operands.map(Tensor::clone);
    for x in &mut wide {
        *x = x.to_dtype(dtype.compute());
    }
    Ok((wide, dtype))
}

impl Tensor {
    /// These losses of elements (or samples) reduced as asked, then rounded to the dtype.
    #[track_caller]
    fn loss_as(&self, dtype: DType, reduction: Reduction) -> Tensor {
        let loss = match reduction {
            Reduction::None => self.clone(),
            Reduction::Sum => self.sum(..),
            Reduction::Mean => self.mean(..),
        };
        loss.to_dtype(dtype)
    }

    /// A loss of this tensor and `t`, beside numbers.
    #[track_caller]
    fn loss(&self, loss: Loss, t: &Tensor, numbers: &[Scalar], reduction: Reduction) -> Tensor {
        self.with_tensors(
            Composite::Loss(ReducedLoss { loss, reduction }),
            &[Some(t)],
            numbers,
        )
    }

    /// The mean of (x − t)².
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// let t = Tensor::from_slice(&[3.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.mse_loss(&t).to_scalar::<f64>()?, 2.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn mse_loss(&self, t: &Tensor) -> Tensor {
        self.loss(Loss::Mse, t, &[], Reduction::Mean)
    }

    /// The mean of d²/2beta where d = |x − t| is below `beta`, else of d − beta/2.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(2, DType::F64, &Device::cpu());
    /// let t = Tensor::from_slice(&[0.5, 3.0], 2, &Device::cpu());
    /// assert_eq!(x.smooth_l1_loss(&t, 1.0).to_scalar::<f64>()?, 1.3125);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn smooth_l1_loss(&self, t: &Tensor, beta: impl Into<Scalar>) -> Tensor {
        self.loss(Loss::SmoothL1, t, &[beta.into()], Reduction::Mean)
    }

    /// The mean of |x − t|, which broadcast. Integers and bools give `F32`, as of every loss of pairs.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// let t = Tensor::from_slice(&[3.0, 1.0], 2, &Device::cpu());
    /// assert_eq!(x.l1_loss(&t).to_scalar::<f64>()?, 1.5);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn l1_loss(&self, t: &Tensor) -> Tensor {
        self.loss(Loss::L1, t, &[], Reduction::Mean)
    }

    /// The mean of d²/2 where d = |x − t| is at most `delta`, else of delta·(d − delta/2); x and t broadcast. A `delta`
    /// that is not positive is an error ([Huber 1964](https://doi.org/10.1214/aoms/1177703732)).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(2, DType::F64, &Device::cpu());
    /// let t = Tensor::from_slice(&[1.0, 5.0], 2, &Device::cpu());
    /// assert_eq!(x.huber_loss(&t, 2.0).to_scalar::<f64>()?, 4.25);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn huber_loss(&self, t: &Tensor, delta: impl Into<Scalar>) -> Tensor {
        let delta = attempt!("huber_loss", width(delta.into()), self, t);
        self.loss(Loss::Huber, t, &[delta], Reduction::Mean)
    }

    /// The mean over all elements of t·(ln t − x), 0 where t is 0: this tensor holds log-probabilities, `t`
    /// probabilities.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let p = Tensor::from_slice(&[0.5, 0.5], 2, &Device::cpu());
    /// assert!(p.log().kl_div(&p).to_scalar::<f64>()?.abs() < 1e-6);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn kl_div(&self, t: &Tensor) -> Tensor {
        self.loss(Loss::KlDiv, t, &[], Reduction::Mean)
    }

    /// The mean over samples of −x at the sample's class: log-probabilities `[n, classes, ..]`, class indices
    /// `[n, ..]`. A sample of class −100 counts for nothing; any other class outside `0..classes` is an error when the
    /// loss is computed.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-1.0, -2.0, -3.0, -4.0], [2, 2], &Device::cpu());
    /// let t = Tensor::from_slice(&[0i64, 1], 2, &Device::cpu());
    /// assert_eq!(x.nll_loss(&t).to_scalar::<f64>()?, 2.5);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn nll_loss(&self, t: &Tensor) -> Tensor {
        self.loss(Loss::Nll, t, &[], Reduction::Mean)
    }

    /// The mean over samples of −log softmax(x) at the sample's class, or weighted by class probabilities: logits
    /// `[n, classes, ..]`, class indices `[n, ..]` of an integer dtype or probabilities of the logits' shape. A sample of
    /// class −100 counts for nothing; any other class outside `0..classes` is an error when the loss is computed.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([2, 4], DType::F64, &Device::cpu());
    /// let t = Tensor::from_slice(&[0i64, 3], 2, &Device::cpu());
    /// assert!((x.cross_entropy(&t).to_scalar::<f64>()? - 4f64.ln()).abs() < 1e-6);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cross_entropy(&self, t: &Tensor) -> Tensor {
        self.loss(Loss::CrossEntropy, t, &[], Reduction::Mean)
    }

    /// The mean of −t·ln σ(x) − (1 − t)·ln(1 − σ(x)), without overflow.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(2, DType::F64, &Device::cpu());
    /// let t = Tensor::from_slice(&[1.0, 0.0], 2, &Device::cpu());
    /// let loss = x.binary_cross_entropy_with_logits(&t).to_scalar::<f64>()?;
    /// assert!((loss - 2f64.ln()).abs() < 1e-6);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn binary_cross_entropy_with_logits(&self, t: &Tensor) -> Tensor {
        self.loss(Loss::BceWithLogits, t, &[], Reduction::Mean)
    }
}
