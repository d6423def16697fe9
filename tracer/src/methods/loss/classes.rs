//! Losses of scores of classes without a distribution over them.

use super::super::attempt;
use super::wide;
use crate::Tensor;
use ferrotrace_kernels::Reduction;
use ferrotrace_runtime::{DType, Error, Result};

impl Tensor {
    /// The mean over samples of `Σ max(0, margin − x[right] + x[other])ᵖ / classes` over the other classes: scores `[n, classes]` or
    /// `[classes]` and the right class of each, integers `[n]` or of no dimension; `p` is 1 or 2. A class beyond the scores is an error
    /// when the loss is computed. Integer scores give `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.1, 0.2, 0.4, 0.8], [1, 4], &Device::cpu());
    /// let class = Tensor::from_slice(&[3i64], 1, &Device::cpu());
    /// assert!((x.multi_margin_loss(&class, 1, 1.0).item::<f64>()? - 0.325).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn multi_margin_loss(&self, classes: &Tensor, p: u32, margin: f64) -> Tensor {
        self.multi_margin_loss_reduced(classes, p, margin, Reduction::Mean)
    }

    /// [`multi_margin_loss`](Tensor::multi_margin_loss) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 1.0, 3.0, 1.0], [2, 2], &Device::cpu());
    /// let classes = Tensor::from_slice(&[0i64, 0], 2, &Device::cpu());
    /// let losses = x.multi_margin_loss_reduced(&classes, 2, 1.0, Reduction::None);
    /// assert_eq!(losses.to_vec::<f64>()?, [2.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn multi_margin_loss_reduced(
        &self,
        classes: &Tensor,
        p: u32,
        margin: f64,
        reduction: Reduction,
    ) -> Tensor {
        const NAME: &str = "multi_margin_loss";
        match one_label(self, classes, (p, margin), reduction) {
            Ok(loss) => loss.called(NAME, &[self, classes]),
            Err(error) => Tensor::failed(NAME, error, &[self, classes]),
        }
    }

    /// The mean over samples and classes of `−(y·ln σ(x) + (1 − y)·ln σ(−x))` of scores and truths `y` between 0 and 1 of one shape,
    /// the last dimension of which are classes. Integers give `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([2, 3], DType::F64, &Device::cpu());
    /// let y = Tensor::ones([2, 3], DType::F64, &Device::cpu());
    /// assert!((x.multilabel_soft_margin_loss(&y).item::<f64>()? - 2f64.ln()).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn multilabel_soft_margin_loss(&self, y: &Tensor) -> Tensor {
        self.multilabel_soft_margin_loss_reduced(y, Reduction::Mean)
    }

    /// [`multilabel_soft_margin_loss`](Tensor::multilabel_soft_margin_loss) reduced as asked, after the mean over classes.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([2, 3], DType::F64, &Device::cpu());
    /// let losses = x.multilabel_soft_margin_loss_reduced(&x, Reduction::None);
    /// assert_eq!(losses.dims(), [2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn multilabel_soft_margin_loss_reduced(&self, y: &Tensor, reduction: Reduction) -> Tensor {
        const NAME: &str = "multilabel_soft_margin_loss";
        let ([x, y], dtype) = attempt!(NAME, wide([self, y]), self, y);
        let right = &y * x.logsigmoid() + (1.0 - &y) * (-x).logsigmoid();
        let loss = (-right).mean(-1).loss_as(dtype, reduction);
        loss.called(NAME, &[self, &y])
    }
}

#[track_caller]
fn one_label(
    x: &Tensor,
    target: &Tensor,
    (p, margin): (u32, f64),
    reduction: Reduction,
) -> Result<Tensor> {
    let ([x], dtype) = wide([x])?;
    target.check()?;
    if !(1..=2).contains(&x.rank()) || x.sizes()[..x.rank() - 1] != target.sizes()[..] {
        let (own, other) = (x.sizes(), target.sizes());
        return Err(Error::shape(format!("scores {own} and classes {other}")));
    }
    if !target.dtype().is_int() {
        return Err(Error::dtype(format!("classes of {}", target.dtype())));
    }
    if p != 1 && p != 2 {
        return Err(Error::argument(format!(
            "the power is {p}: it must be 1 or 2"
        )));
    }
    let classes = x.dim(-1)?;
    let at = target.to_dtype(DType::I64).unsqueeze(-1);
    let own = x.gather(-1, &at);
    let losses = (margin - own + &x).clamp_min(0.0);
    let losses = if p == 2 { losses.square() } else { losses };
    let others = target.one_hot(classes).eq(0);
    let losses = others.where_cond(&losses, 0.0).sum(-1) / classes as f64;
    Ok(losses.loss_as(dtype, reduction))
}
