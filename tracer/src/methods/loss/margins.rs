//! Losses of distances, angles and ranks, up to a margin.

use super::super::attempt;
use super::wide;
use crate::Tensor;
use ferrotrace_kernels::Reduction;
use ferrotrace_runtime::{DType, Error, Result, Scalar};

/// What PyTorch adds to the square of a length, so that it is not 0.
const LENGTH: f64 = 1e-12;

/// What PyTorch adds to each difference of coordinates.
const APART: f64 = 1e-6;

/// Whether all have as many dimensions.
///
/// # Errors
/// One carries an error, or has another number of dimensions than the first.
fn equal_ranks(tensors: [&Tensor; 3]) -> Result<()> {
    for x in tensors {
        x.check()?;
    }
    let ranks = tensors.map(Tensor::rank);
    match ranks.iter().all(|&rank| rank == ranks[0]) {
        true => Ok(()),
        false => Err(Error::shape(format!(
            "ranks {ranks:?}, which must be equal"
        ))),
    }
}

/// The loss of triplets of rows: an anchor, one that is alike and one that is not.
///
/// # Errors
/// One carries an error, ranks differ, or the margin is not positive.
#[track_caller]
fn triplets(rows: [&Tensor; 3], margin: Scalar, reduction: Reduction) -> Result<Tensor> {
    equal_ranks(rows)?;
    let margin = margin.to_f64();
    if margin.is_nan() || margin <= 0.0 {
        let why = format!("the margin is {margin}: it must be positive");
        return Err(Error::argument(why));
    }
    let ([x, positive, negative], dtype) = wide(rows)?;
    let near = (&x - positive + APART).norm(2.0, -1);
    let far = (&x - negative + APART).norm(2.0, -1);
    Ok((near - far + margin).relu().loss_as(dtype, reduction))
}

impl Tensor {
    /// The mean of x where the sign `y` is 1, of max(0, margin − x) where it is −1: how far apart what is not alike should
    /// be. Both broadcast. Integers give `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.25, 0.75], 2, &Device::cpu());
    /// let y = Tensor::from_slice(&[1, -1], 2, &Device::cpu());
    /// assert_eq!(x.hinge_embedding_loss(&y, 1.0).item::<f64>()?, 0.25);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn hinge_embedding_loss(&self, y: &Tensor, margin: impl Into<Scalar>) -> Tensor {
        self.hinge_embedding_loss_reduced(y, margin, Reduction::Mean)
    }

    /// [`hinge_embedding_loss`](Tensor::hinge_embedding_loss) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.5, 0.75], 2, &Device::cpu());
    /// let y = Tensor::from_slice(&[1, -1], 2, &Device::cpu());
    /// let losses = x.hinge_embedding_loss_reduced(&y, 1.0, Reduction::None);
    /// assert_eq!(losses.to_vec::<f64>()?, [0.5, 0.25]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn hinge_embedding_loss_reduced(
        &self,
        y: &Tensor,
        margin: impl Into<Scalar>,
        reduction: Reduction,
    ) -> Tensor {
        let ([x], dtype) = attempt!("hinge_embedding_loss", wide([self]), self, y);
        let far = (margin.into().to_f64() - &x).relu();
        // Any other sign takes both parts, as in PyTorch.
        let losses = y.ne(1).where_cond(far, 0.0) + y.ne(-1).where_cond(x, 0.0);
        let loss = losses.loss_as(dtype, reduction);
        loss.called("hinge_embedding_loss", &[self, y])
    }

    /// The mean of 1 − cos(x, b) of rows whose sign `y` is 1, and of max(0, cos(x, b) − margin) of those whose sign is −1:
    /// rows `[n, size]` and signs `[n]`, or one row `[size]` and a 0-d sign. Integers give `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[3.0, 4.0, 1.0, 0.0], [2, 2], &Device::cpu());
    /// let b = Tensor::from_slice(&[1.0, 0.0, 1.0, 0.0], [2, 2], &Device::cpu());
    /// let y = Tensor::from_slice(&[1, -1], 2, &Device::cpu());
    /// let loss = a.cosine_embedding_loss(&b, &y, 0.5).item::<f64>()?;
    /// assert!((loss - (0.4 + 0.5) / 2.0).abs() < 1e-9);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cosine_embedding_loss(
        &self,
        b: &Tensor,
        y: &Tensor,
        margin: impl Into<Scalar>,
    ) -> Tensor {
        self.cosine_embedding_loss_reduced(b, y, margin, Reduction::Mean)
    }

    /// [`cosine_embedding_loss`](Tensor::cosine_embedding_loss) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1.0, 0.0], [1, 2], &Device::cpu());
    /// let y = Tensor::from_slice(&[-1], 1, &Device::cpu());
    /// let losses = a.cosine_embedding_loss_reduced(&a, &y, 0.25, Reduction::None);
    /// assert!((losses.to_vec::<f64>()?[0] - 0.75).abs() < 1e-9);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cosine_embedding_loss_reduced(
        &self,
        b: &Tensor,
        y: &Tensor,
        margin: impl Into<Scalar>,
        reduction: Reduction,
    ) -> Tensor {
        const NAME: &str = "cosine_embedding_loss";
        match self.angles(b, y, margin.into(), reduction) {
            Ok(loss) => loss.called(NAME, &[self, b, y]),
            Err(error) => Tensor::failed(NAME, error, &[self, b, y]),
        }
    }

    #[track_caller]
    fn angles(
        &self,
        b: &Tensor,
        y: &Tensor,
        margin: Scalar,
        reduction: Reduction,
    ) -> Result<Tensor> {
        let ([a, b], dtype) = wide([self, b])?;
        y.check()?;
        if y.rank() > 1 || [&a, &b].iter().any(|x| x.rank() != y.rank() + 1) {
            let (own, other) = (a.shape(), b.shape());
            let why = format!("rows {own} and {other} with signs {}", y.shape());
            return Err(Error::shape(why));
        }
        let lengths = (a.square().sum(-1) + LENGTH) * (b.square().sum(-1) + LENGTH);
        let cos = (&a * &b).sum(-1) / lengths.sqrt();
        let far = (&cos - margin.to_f64()).relu();
        // Any sign but 1 and −1 gives 0, as in PyTorch.
        let near = y.eq(1).where_cond(1.0 - cos, 0.0);
        let losses = near + y.eq(-1).where_cond(far, 0.0);
        Ok(losses.loss_as(dtype, reduction))
    }

    /// The mean of max(0, margin − y·(x − b)): of two scores, the first should be the greater where the sign `y` is 1, the
    /// second where it is −1. All have as many dimensions, and broadcast. Integers give `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// let b = Tensor::from_slice(&[3.0, 0.0], 2, &Device::cpu());
    /// let y = Tensor::from_slice(&[1, 1], 2, &Device::cpu());
    /// assert_eq!(a.margin_ranking_loss(&b, &y, 0.5).item::<f64>()?, 1.25);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn margin_ranking_loss(&self, b: &Tensor, y: &Tensor, margin: impl Into<Scalar>) -> Tensor {
        self.margin_ranking_loss_reduced(b, y, margin, Reduction::Mean)
    }

    /// [`margin_ranking_loss`](Tensor::margin_ranking_loss) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// let b = Tensor::from_slice(&[3.0, 0.0], 2, &Device::cpu());
    /// let y = Tensor::from_slice(&[1, -1], 2, &Device::cpu());
    /// let losses = a.margin_ranking_loss_reduced(&b, &y, 0.0, Reduction::None);
    /// assert_eq!(losses.to_vec::<f64>()?, [2.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn margin_ranking_loss_reduced(
        &self,
        b: &Tensor,
        y: &Tensor,
        margin: impl Into<Scalar>,
        reduction: Reduction,
    ) -> Tensor {
        let operands = [self, b, y];
        attempt!("margin_ranking_loss", equal_ranks(operands), self, b, y);
        let ([a, b, y], dtype) = attempt!("margin_ranking_loss", wide(operands), self, b, y);
        let losses = (margin.into().to_f64() - y * (a - b)).relu();
        let loss = losses.loss_as(dtype, reduction);
        loss.called("margin_ranking_loss", &operands)
    }

    /// The mean of max(0, |x − positive| − |x − negative| + margin) of rows `[.., size]`, distances of the 2-norm of
    /// differences to which 10⁻⁶ is added. All have as many dimensions, and broadcast. Integers give `F32`. A margin that is
    /// not positive is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([1, 2], DType::F64, &Device::cpu());
    /// let positive = Tensor::from_slice(&[3.0, 4.0], [1, 2], &Device::cpu());
    /// let negative = Tensor::from_slice(&[0.0, 2.0], [1, 2], &Device::cpu());
    /// let loss = x.triplet_margin_loss(&positive, &negative, 1.0).item::<f64>()?;
    /// assert!((loss - 4.0).abs() < 1e-5);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn triplet_margin_loss(
        &self,
        positive: &Tensor,
        negative: &Tensor,
        margin: impl Into<Scalar>,
    ) -> Tensor {
        self.triplet_margin_loss_reduced(positive, negative, margin, Reduction::Mean)
    }

    /// [`triplet_margin_loss`](Tensor::triplet_margin_loss) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([2, 3], DType::F64, &Device::cpu());
    /// let losses = x.triplet_margin_loss_reduced(&x, &x, 1.0, Reduction::None);
    /// assert_eq!(losses.to_vec::<f64>()?, [1.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn triplet_margin_loss_reduced(
        &self,
        positive: &Tensor,
        negative: &Tensor,
        margin: impl Into<Scalar>,
        reduction: Reduction,
    ) -> Tensor {
        const NAME: &str = "triplet_margin_loss";
        let operands = [self, positive, negative];
        match triplets(operands, margin.into(), reduction) {
            Ok(loss) => loss.called(NAME, &operands),
            Err(error) => Tensor::failed(NAME, error, &operands),
        }
    }

    /// The mean of ln(1 + e^(−y·x)) of scores and signs `y` of 1 and −1, which broadcast; without overflow. Integers give
    /// `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(2, DType::F64, &Device::cpu());
    /// let y = Tensor::from_slice(&[1, -1], 2, &Device::cpu());
    /// assert!((x.soft_margin_loss(&y).item::<f64>()? - 2f64.ln()).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn soft_margin_loss(&self, y: &Tensor) -> Tensor {
        self.soft_margin_loss_reduced(y, Reduction::Mean)
    }

    /// [`soft_margin_loss`](Tensor::soft_margin_loss) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 1000.0], 2, &Device::cpu());
    /// let y = Tensor::from_slice(&[1, -1], 2, &Device::cpu());
    /// let losses = x.soft_margin_loss_reduced(&y, Reduction::None).to_vec::<f64>()?;
    /// assert!((losses[0] - 2f64.ln()).abs() < 1e-12 && losses[1] == 1000.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn soft_margin_loss_reduced(&self, y: &Tensor, reduction: Reduction) -> Tensor {
        let ([x, sign], dtype) = attempt!("soft_margin_loss", wide([self, y]), self, y);
        let loss = (-(x * sign).logsigmoid()).loss_as(dtype, reduction);
        loss.called("soft_margin_loss", &[self, y])
    }

    /// The mean over samples of `Σ max(0, 1 − x[right] + x[other]) / classes` over right classes and others: scores `[n, classes]`
    /// or `[classes]` and right classes, as integers of the same shape, up to the first that is negative. A class beyond the
    /// scores is an error when the loss is computed. Integer scores give `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.1, 0.2, 0.4, 0.8], 4, &Device::cpu());
    /// let classes = Tensor::from_slice(&[3i64, 0, -1, 1], 4, &Device::cpu());
    /// assert!((x.multilabel_margin_loss(&classes).item::<f64>()? - 0.85).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn multilabel_margin_loss(&self, classes: &Tensor) -> Tensor {
        self.multilabel_margin_loss_reduced(classes, Reduction::Mean)
    }

    /// [`multilabel_margin_loss`](Tensor::multilabel_margin_loss) reduced as asked.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 1.0, 3.0, 1.0], [2, 2], &Device::cpu());
    /// let classes = Tensor::from_slice(&[0i64, -1, 0, 1], [2, 2], &Device::cpu());
    /// let losses = x.multilabel_margin_loss_reduced(&classes, Reduction::None);
    /// assert_eq!(losses.to_vec::<f64>()?, [1.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn multilabel_margin_loss_reduced(&self, classes: &Tensor, reduction: Reduction) -> Tensor {
        const NAME: &str = "multilabel_margin_loss";
        match several_labels(self, classes, reduction) {
            Ok(loss) => loss.called(NAME, &[self, classes]),
            Err(error) => Tensor::failed(NAME, error, &[self, classes]),
        }
    }
}

#[track_caller]
fn several_labels(x: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    let ([x], dtype) = wide([x])?;
    target.check()?;
    if x.shape() != target.shape() || !(1..=2).contains(&x.rank()) {
        let (own, other) = (x.sizes(), target.sizes());
        return Err(Error::shape(format!("scores {own} and classes {other}")));
    }
    if !target.dtype().is_int() {
        return Err(Error::dtype(format!("classes of {}", target.dtype())));
    }
    let classes = x.dim(-1)?;
    let counts = target.ge(0).to_dtype(DType::I64).cumprod(-1).ne(0);
    let at = counts.where_cond(target, 0).to_dtype(DType::I64);
    let own = x.gather(-1, &at).unsqueeze(-1);
    let right = at.one_hot(classes).ne(0).logical_and(&counts.unsqueeze(-1));
    let others = right.any(-2).logical_not().unsqueeze(-2);
    let losses = (1.0 - own + x.unsqueeze(-2)).clamp_min(0.0);
    let taken = counts.unsqueeze(-1).logical_and(&others);
    let losses = taken.where_cond(&losses, 0.0).sum([-1, -2]) / classes as f64;
    Ok(losses.loss_as(dtype, reduction))
}
