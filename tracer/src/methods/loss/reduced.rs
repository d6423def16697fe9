//! Losses element by element, and their sums. Half-precision operands are computed in F32 and rounded once.

use super::super::attempt;
use crate::Tensor;
use crate::args::Dim;
use ferrotrace_kernels::BinaryOp;
use ferrotrace_runtime::{DType, Error, Result, Scalar};

/// What becomes of the losses of the elements (or samples).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// They stay.
    None,
    /// Their sum.
    Sum,
    /// Their mean: the loss without `_reduced`.
    Mean,
}

/// Class indices of this value have no loss.
const IGNORED: i64 = -100;

/// Both in the dtype of their arithmetic, and the dtype of the result.
///
/// # Errors
/// One carries an error, or their shapes do not broadcast.
#[track_caller]
fn pair(x: &Tensor, t: &Tensor) -> Result<(Tensor, Tensor, DType)> {
    let both = x.binary(BinaryOp::Add, t);
    both.recorded()?;
    let dtype = match both.dtype() {
        dtype if dtype.is_float() => dtype,
        _ => DType::F32,
    };
    let compute = dtype.compute();
    Ok((x.to_dtype(compute), t.to_dtype(compute), dtype))
}

#[track_caller]
fn finished(losses: &Tensor, reduction: Reduction, dtype: DType) -> Tensor {
    let reduced = match reduction {
        Reduction::None => losses.clone(),
        Reduction::Sum => losses.sum(..),
        Reduction::Mean => losses.mean(..),
    };
    reduced.to_dtype(dtype)
}

/// d²/2beta where d = |x − t| is below beta, else d − beta/2; d itself for a beta of 0.
#[track_caller]
fn smooth_l1(x: &Tensor, t: &Tensor, beta: f64) -> Tensor {
    let d = x.binary(BinaryOp::Sub, t).abs();
    if beta == 0.0 {
        return d;
    }
    let curve = d.square().binary(BinaryOp::Mul, 0.5 / beta);
    let line = d.binary(BinaryOp::Sub, beta / 2.0);
    d.binary(BinaryOp::Lt, beta).where_cond(&curve, &line)
}

/// t·(log t − x), 0 where t is 0.
#[track_caller]
fn divergence(x: &Tensor, t: &Tensor) -> Tensor {
    let log = t.eq(0).where_cond(1, t).log();
    t.binary(BinaryOp::Mul, &log.binary(BinaryOp::Sub, x))
}

/// max(x, 0) − x·t + log(1 + e^−|x|).
#[track_caller]
fn logistic(x: &Tensor, t: &Tensor) -> Tensor {
    let line = x.relu().binary(BinaryOp::Sub, &x.binary(BinaryOp::Mul, t));
    line.binary(BinaryOp::Add, &x.abs().neg().exp().log1p())
}

/// The dimension of classes: 1, or 0 of a vector.
fn class_dim(x: &Tensor) -> Result<usize> {
    x.check()?;
    match x.rank() {
        0 => Err(Error::shape("a 0-d tensor has no dimension of classes")),
        1 => Ok(0),
        _ => Ok(1),
    }
}

/// The scores `x` at the classes `t`, and 0 where these are to be ignored.
#[track_caller]
fn at_classes(x: &Tensor, t: &Tensor, dim: usize) -> Result<Tensor> {
    t.check()?;
    if !t.dtype().is_int() {
        let why = format!(
            "class indices must be integers, not {}: to_dtype(DType::I64) first",
            t.dtype()
        );
        return Err(Error::dtype(why));
    }
    let expected = x.shape().reduced(1 << dim, false);
    if *t.shape() != expected {
        let (t, x) = (t.sizes(), x.sizes());
        let why = format!("classes of shape {t} for scores of shape {x}");
        return Err(Error::shape(why));
    }
    let t = t.to_dtype(DType::I64);
    let ignored = t.eq(IGNORED);
    // A negative class is none, and counts from no end.
    let classes = x.shape()[dim] as i64;
    let outside = t.lt(0).where_cond(&(&t - classes), &t);
    let at = ignored.where_cond(0, &outside);
    let taken = x.gather(Dim::from(dim), &at.unsqueeze(dim)).squeeze(dim);
    Ok(ignored.where_cond(0, &taken))
}

#[track_caller]
fn of_classes(x: &Tensor, t: &Tensor, normalise: bool) -> Result<(Tensor, DType)> {
    let dim = class_dim(x)?;
    let dtype = match x.dtype() {
        dtype if dtype.is_float() => dtype,
        _ => DType::F32,
    };
    let x = x.to_dtype(dtype.compute());
    let scores = match normalise {
        true => x.log_softmax(Dim::from(dim)),
        false => x,
    };
    Ok((at_classes(&scores, t, dim)?.neg(), dtype))
}

#[track_caller]
fn of_probabilities(x: &Tensor, t: &Tensor) -> Result<(Tensor, DType)> {
    let dim = class_dim(x)?;
    t.check()?;
    if !t.dtype().is_float() || t.shape() != x.shape() {
        let (ty, t, x) = (t.dtype(), t.sizes(), x.sizes());
        let why = format!("targets {ty}{t} are neither classes nor probabilities for {x}");
        return Err(Error::shape(why));
    }
    let (x, t, dtype) = pair(x, t)?;
    let log = x.log_softmax(Dim::from(dim));
    Ok((
        t.binary(BinaryOp::Mul, &log).sum(Dim::from(dim)).neg(),
        dtype,
    ))
}

impl Tensor {
    /// [`mse_loss`](Tensor::mse_loss) reduced as asked: (x − t)² of each pair of elements, broadcast, or their sum or
    /// mean.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// let t = Tensor::from_slice(&[3.0, 1.0], 2, &Device::cpu());
    /// assert_eq!(x.mse_loss_reduced(&t, Reduction::None).to_vec::<f64>()?, [4.0, 1.0]);
    /// assert_eq!(x.mse_loss_reduced(&t, Reduction::Sum).item::<f64>()?, 5.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn mse_loss_reduced(&self, t: &Tensor, reduction: Reduction) -> Tensor {
        if reduction == Reduction::Mean {
            return self.mse_loss(t);
        }
        let (x, u, dtype) = attempt!("mse_loss", pair(self, t), self, t);
        let squares = x.binary(BinaryOp::Sub, &u).square();
        finished(&squares, reduction, dtype)
    }

    /// [`smooth_l1_loss`](Tensor::smooth_l1_loss) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(2, DType::F64, &Device::cpu());
    /// let t = Tensor::from_slice(&[0.5, 3.0], 2, &Device::cpu());
    /// assert_eq!(x.smooth_l1_loss_reduced(&t, 1.0, Reduction::None).to_vec::<f64>()?, [0.125, 2.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn smooth_l1_loss_reduced(
        &self,
        t: &Tensor,
        beta: impl Into<Scalar>,
        reduction: Reduction,
    ) -> Tensor {
        let beta = beta.into();
        if reduction == Reduction::Mean {
            return self.smooth_l1_loss(t, beta);
        }
        let (x, u, dtype) = attempt!("smooth_l1_loss", pair(self, t), self, t);
        finished(&smooth_l1(&x, &u, beta.to_f64()), reduction, dtype)
    }

    /// [`kl_div`](Tensor::kl_div) reduced as asked; for PyTorch's `batchmean`, the sum divided by the number of samples.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let p = Tensor::from_slice(&[0.5, 0.5, 0.0], 3, &Device::cpu());
    /// let q = Tensor::full(3, -1.0, DType::F64, &Device::cpu());
    /// let losses = q.kl_div_reduced(&p, Reduction::None).to_vec::<f64>()?;
    /// assert!((losses[0] - 0.5 * (1.0 - 2f64.ln())).abs() < 1e-12 && losses[2] == 0.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn kl_div_reduced(&self, t: &Tensor, reduction: Reduction) -> Tensor {
        if reduction == Reduction::Mean {
            return self.kl_div(t);
        }
        let (x, u, dtype) = attempt!("kl_div", pair(self, t), self, t);
        finished(&divergence(&x, &u), reduction, dtype)
    }

    /// [`binary_cross_entropy_with_logits`](Tensor::binary_cross_entropy_with_logits) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(2, DType::F64, &Device::cpu());
    /// let t = Tensor::from_slice(&[1.0, 0.0], 2, &Device::cpu());
    /// let sum = x.binary_cross_entropy_with_logits_reduced(&t, Reduction::Sum);
    /// assert!((sum.item::<f64>()? - 2.0 * 2f64.ln()).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn binary_cross_entropy_with_logits_reduced(
        &self,
        t: &Tensor,
        reduction: Reduction,
    ) -> Tensor {
        const NAME: &str = "binary_cross_entropy_with_logits";
        if reduction == Reduction::Mean {
            return self.binary_cross_entropy_with_logits(t);
        }
        if self.shape() != t.shape() {
            let why = format!("logits {} and targets {} differ", self.sizes(), t.sizes());
            return Tensor::failed(NAME, Error::shape(why), &[self, t]);
        }
        match pair(self, t) {
            Ok((x, u, dtype)) => finished(&logistic(&x, &u), reduction, dtype),
            Err(error) => Tensor::failed(NAME, error, &[self, t]),
        }
    }

    /// [`nll_loss`](Tensor::nll_loss) reduced as asked; a class of −100 has the loss 0.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-1.0, -2.0, -3.0, -4.0], [2, 2], &Device::cpu());
    /// let t = Tensor::from_slice(&[0i64, 1], 2, &Device::cpu());
    /// assert_eq!(x.nll_loss_reduced(&t, Reduction::None).to_vec::<f64>()?, [1.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn nll_loss_reduced(&self, t: &Tensor, reduction: Reduction) -> Tensor {
        if reduction == Reduction::Mean {
            return self.nll_loss(t);
        }
        let (losses, dtype) = attempt!("nll_loss", of_classes(self, t, false), self, t);
        finished(&losses, reduction, dtype).called("nll_loss", &[self, t])
    }

    /// [`cross_entropy`](Tensor::cross_entropy) reduced as asked: a loss for each sample, or their sum or mean; a class of
    /// −100 has the loss 0.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([2, 4], DType::F64, &Device::cpu());
    /// let t = Tensor::from_slice(&[0i64, -100], 2, &Device::cpu());
    /// let losses = x.cross_entropy_reduced(&t, Reduction::None).to_vec::<f64>()?;
    /// assert!((losses[0] - 4f64.ln()).abs() < 1e-12 && losses[1] == 0.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cross_entropy_reduced(&self, t: &Tensor, reduction: Reduction) -> Tensor {
        if reduction == Reduction::Mean {
            return self.cross_entropy(t);
        }
        let losses = match t.dtype().is_int() {
            true => of_classes(self, t, true),
            false => of_probabilities(self, t),
        };
        let (losses, dtype) = attempt!("cross_entropy", losses, self, t);
        finished(&losses, reduction, dtype).called("cross_entropy", &[self, t])
    }
}
