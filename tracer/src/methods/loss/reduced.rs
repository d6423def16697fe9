//! Losses element by element (or sample by sample), and their sums.

use super::super::attempt;
use super::width;
use crate::Tensor;
use ferrotrace_kernels::{Loss, Reduction};
use ferrotrace_runtime::Scalar;

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
        self.loss(Loss::Mse, t, &[], reduction)
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
        self.loss(Loss::SmoothL1, t, &[beta.into()], reduction)
    }

    /// [`l1_loss`](Tensor::l1_loss) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// let t = Tensor::from_slice(&[3.0, 1.0], 2, &Device::cpu());
    /// assert_eq!(x.l1_loss_reduced(&t, Reduction::None).to_vec::<f64>()?, [2.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn l1_loss_reduced(&self, t: &Tensor, reduction: Reduction) -> Tensor {
        self.loss(Loss::L1, t, &[], reduction)
    }

    /// [`huber_loss`](Tensor::huber_loss) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(2, DType::F64, &Device::cpu());
    /// let t = Tensor::from_slice(&[1.0, 5.0], 2, &Device::cpu());
    /// assert_eq!(x.huber_loss_reduced(&t, 2.0, Reduction::None).to_vec::<f64>()?, [0.5, 8.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn huber_loss_reduced(
        &self,
        t: &Tensor,
        delta: impl Into<Scalar>,
        reduction: Reduction,
    ) -> Tensor {
        let delta = attempt!("huber_loss", width(delta.into()), self, t);
        self.loss(Loss::Huber, t, &[delta], reduction)
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
        self.loss(Loss::KlDiv, t, &[], reduction)
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
        self.loss(Loss::BceWithLogits, t, &[], reduction)
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
        self.loss(Loss::Nll, t, &[], reduction)
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
        self.loss(Loss::CrossEntropy, t, &[], reduction)
    }
}
