//! Losses of classes.

use super::{reduced, with_reduction};
use crate::{Error, Reduction, Tensor, TensorStruct};

/// Cross entropy of logits `[n, classes, ..]` (or `[classes]`) and class indices `[n, ..]`, or probabilities of the
/// logits' shape, with PyTorch's options.
///
/// ```
/// use ferrotrace::nn::CrossEntropyLoss;
/// use ferrotrace::prelude::*;
///
/// let logits = Tensor::zeros([2, 4], DType::F64, &Device::cpu());
/// let classes = Tensor::from_slice(&[3i64, 0], 2, &Device::cpu());
/// let loss = CrossEntropyLoss::new().label_smoothing(0.1).ignore_index(0);
/// assert!((loss.forward(&logits, &classes).item::<f64>()? - 4f64.ln()).abs() < 1e-12);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct CrossEntropyLoss {
    /// A weight for each class, `[classes]`. The mean is divided by the sum of the samples' weights.
    pub weight: Option<Tensor>,
    /// The class index of samples that count for nothing.
    pub ignore_index: i64,
    /// The part of each sample's probability that is spread over all classes
    /// ([Szegedy et al. 2016](https://arxiv.org/abs/1512.00567)).
    pub label_smoothing: f64,
    /// Sum, mean or neither.
    #[tensor_struct(value)]
    pub reduction: Reduction,
}

impl Default for CrossEntropyLoss {
    fn default() -> CrossEntropyLoss {
        CrossEntropyLoss::new()
    }
}

impl CrossEntropyLoss {
    /// The mean without weights and smoothing; −100 is ignored.
    pub fn new() -> CrossEntropyLoss {
        CrossEntropyLoss {
            weight: None,
            ignore_index: -100,
            label_smoothing: 0.0,
            reduction: Reduction::Mean,
        }
    }

    /// The loss with a weight for each class.
    pub fn weight(mut self, weight: Tensor) -> CrossEntropyLoss {
        self.weight = Some(weight);
        self
    }

    /// The loss with another class index ignored.
    pub fn ignore_index(mut self, index: i64) -> CrossEntropyLoss {
        self.ignore_index = index;
        self
    }

    /// The loss with a part of the probability, in [0, 1], spread over all classes.
    pub fn label_smoothing(mut self, part: f64) -> CrossEntropyLoss {
        self.label_smoothing = part;
        self
    }

    /// The loss: of the logits' dtype, 0-d, or `[n, ..]` without reduction.
    #[track_caller]
    pub fn forward(&self, logits: &Tensor, target: &Tensor) -> Tensor {
        if let Some(error) = [logits, target].iter().find_map(|x| x.error()) {
            return Tensor::failed("cross_entropy", error, &[logits, target]);
        }
        let e = self.label_smoothing;
        if !(0.0..=1.0).contains(&e) {
            let why = Error::argument(format!("a label smoothing of {e}, outside [0, 1]"));
            return Tensor::failed("cross_entropy", why, &[logits, target]);
        }
        if self.weight.is_none() && self.ignore_index == -100 && e == 0.0 {
            return logits.cross_entropy_reduced(target, self.reduction);
        }
        let at = class_dim(logits);
        let log_p = logits.to_dtype(logits.dtype().compute()).log_softmax(at);
        let loss = match target.dtype().is_float() {
            true => self.of_probabilities(&log_p, target, at),
            false => self.of_classes(&log_p, target, at),
        };
        loss.to_dtype(logits.dtype())
    }

    /// −Σ w·t·log p, where the smoothing has been spread over t.
    #[track_caller]
    fn of_probabilities(&self, log_p: &Tensor, target: &Tensor, at: usize) -> Tensor {
        let e = self.label_smoothing;
        let classes = log_p.dims()[at];
        let target = match e {
            0.0 => target.clone(),
            e => target * (1.0 - e) + e / classes as f64,
        };
        let target = match &self.weight {
            Some(weight) => target * along(weight, log_p, at),
            None => target,
        };
        let losses = -(log_p * target).sum(at);
        match self.reduction {
            // Over samples; a class more or less changes no denominator.
            Reduction::Mean => losses.mean(..),
            reduction => reduced(losses, reduction),
        }
    }

    #[track_caller]
    fn of_classes(&self, log_p: &Tensor, target: &Tensor, at: usize) -> Tensor {
        let e = self.label_smoothing;
        let picked = Picked::of(log_p, target, self.weight.as_ref(), self.ignore_index, at);
        let Picked { losses, weights } = match picked {
            Ok(picked) => picked,
            Err(error) => return Tensor::failed("cross_entropy", error, &[log_p, target]),
        };
        let losses = match e {
            0.0 => losses,
            e => {
                let all = match &self.weight {
                    Some(weight) => log_p * along(weight, log_p, at),
                    None => log_p.clone(),
                };
                let counted = target.ne(self.ignore_index);
                let spread = counted.where_cond(-all.sum(at), 0.0);
                losses * (1.0 - e) + spread * (e / log_p.dims()[at] as f64)
            }
        };
        match self.reduction {
            Reduction::Mean => losses.sum(..) / weights.sum(..),
            reduction => reduced(losses, reduction),
        }
    }
}

/// The dimension of classes.
fn class_dim(x: &Tensor) -> usize {
    usize::from(x.rank() > 1)
}

/// One number a class, for a tensor with classes along dimension `at`.
#[track_caller]
fn along(weight: &Tensor, x: &Tensor, at: usize) -> Tensor {
    let mut dims = vec![1; x.rank() - at];
    dims[0] = weight.numel();
    weight.reshape(dims).to_dtype(x.dtype())
}

/// Each sample's weighted loss at its class, and its weight: 0 for ignored samples.
struct Picked {
    losses: Tensor,
    weights: Tensor,
}

impl Picked {
    #[track_caller]
    fn of(
        log_p: &Tensor,
        target: &Tensor,
        weight: Option<&Tensor>,
        ignore_index: i64,
        at: usize,
    ) -> Result<Picked, Error> {
        let mut dims = log_p.dims().to_vec();
        if dims.is_empty() {
            return Err(Error::shape("logits of dimensions [n, classes, ..]"));
        }
        let classes = dims.remove(at);
        if target.dims() != dims {
            let why = format!("classes of shape {:?}, not {dims:?}", target.dims());
            return Err(Error::shape(why));
        }
        if let Some(weight) = weight
            && weight.dims() != [classes]
        {
            let why = format!("weights of shape {:?}, not [{classes}]", weight.dims());
            return Err(Error::shape(why));
        }
        let target = target.to_dtype(crate::DType::I64);
        let counted = target.ne(ignore_index);
        let class = counted.where_cond(&target, 0);
        let losses = -log_p.gather(at, &class.unsqueeze(at)).squeeze(at);
        let zero = losses.zeros_like();
        let weights = match weight {
            Some(weight) => {
                let weight = weight.to_dtype(log_p.dtype());
                let each = weight.index(&[Some(&class)]);
                counted.where_cond(each, &zero)
            }
            None => counted.to_dtype(log_p.dtype()),
        };
        // An ignored sample's loss may be infinite.
        let losses = counted.where_cond(losses, &zero) * &weights;
        Ok(Picked { losses, weights })
    }
}

/// The negative log-likelihood: [`CrossEntropyLoss`] of log-probabilities.
#[derive(Clone, Debug, TensorStruct)]
pub struct NllLoss {
    /// A weight for each class, `[classes]`. The mean is divided by the sum of the samples' weights.
    pub weight: Option<Tensor>,
    /// The class index of samples that count for nothing.
    pub ignore_index: i64,
    /// Sum, mean or neither.
    #[tensor_struct(value)]
    pub reduction: Reduction,
}

impl Default for NllLoss {
    fn default() -> NllLoss {
        NllLoss::new()
    }
}

impl NllLoss {
    /// The mean without weights; −100 is ignored.
    pub fn new() -> NllLoss {
        NllLoss {
            weight: None,
            ignore_index: -100,
            reduction: Reduction::Mean,
        }
    }

    /// The loss with a weight for each class.
    pub fn weight(mut self, weight: Tensor) -> NllLoss {
        self.weight = Some(weight);
        self
    }

    /// The loss with another class index ignored.
    pub fn ignore_index(mut self, index: i64) -> NllLoss {
        self.ignore_index = index;
        self
    }

    /// The loss of log-probabilities `[n, classes, ..]` and class indices `[n, ..]`.
    #[track_caller]
    pub fn forward(&self, log_p: &Tensor, target: &Tensor) -> Tensor {
        if let Some(error) = [log_p, target].iter().find_map(|x| x.error()) {
            return Tensor::failed("nll_loss", error, &[log_p, target]);
        }
        let wide = log_p.to_dtype(log_p.dtype().compute());
        let (weight, at) = (self.weight.as_ref(), class_dim(log_p));
        let picked = Picked::of(&wide, target, weight, self.ignore_index, at);
        let Picked { losses, weights } = match picked {
            Ok(picked) => picked,
            Err(error) => return Tensor::failed("nll_loss", error, &[log_p, target]),
        };
        let loss = match self.reduction {
            Reduction::Mean => losses.sum(..) / weights.sum(..),
            reduction => reduced(losses, reduction),
        };
        loss.to_dtype(log_p.dtype())
    }
}

/// Cross entropy of two classes, from probabilities: −t·ln p − (1 − t)·ln(1 − p), logarithms at least −100 as in PyTorch.
#[derive(Clone, Debug, TensorStruct)]
pub struct BceLoss {
    /// A factor of each element's loss, broadcast.
    pub weight: Option<Tensor>,
    /// Sum, mean or neither.
    #[tensor_struct(value)]
    pub reduction: Reduction,
}

impl Default for BceLoss {
    fn default() -> BceLoss {
        BceLoss::new()
    }
}

impl BceLoss {
    /// The mean without weights.
    pub fn new() -> BceLoss {
        BceLoss {
            weight: None,
            reduction: Reduction::Mean,
        }
    }

    /// The loss with a factor for each element.
    pub fn weight(mut self, weight: Tensor) -> BceLoss {
        self.weight = Some(weight);
        self
    }

    /// The loss of probabilities and targets of one shape: [`Tensor::binary_cross_entropy`].
    #[track_caller]
    pub fn forward(&self, p: &Tensor, target: &Tensor) -> Tensor {
        let Some(weight) = &self.weight else {
            return p.binary_cross_entropy_reduced(target, self.reduction);
        };
        let losses = p.binary_cross_entropy_reduced(target, Reduction::None);
        reduced(losses * weight, self.reduction)
    }
}

/// Cross entropy of two classes, from logits, without overflow.
#[derive(Clone, Debug, TensorStruct)]
pub struct BceWithLogitsLoss {
    /// A factor of each element's loss, broadcast.
    pub weight: Option<Tensor>,
    /// A factor of the positive class's part, broadcast.
    pub pos_weight: Option<Tensor>,
    /// Sum, mean or neither.
    #[tensor_struct(value)]
    pub reduction: Reduction,
}

impl Default for BceWithLogitsLoss {
    fn default() -> BceWithLogitsLoss {
        BceWithLogitsLoss::new()
    }
}

impl BceWithLogitsLoss {
    /// The mean without weights.
    pub fn new() -> BceWithLogitsLoss {
        BceWithLogitsLoss {
            weight: None,
            pos_weight: None,
            reduction: Reduction::Mean,
        }
    }

    /// The loss with a factor for each element.
    pub fn weight(mut self, weight: Tensor) -> BceWithLogitsLoss {
        self.weight = Some(weight);
        self
    }

    /// The loss with a factor for the positive class.
    pub fn pos_weight(mut self, weight: Tensor) -> BceWithLogitsLoss {
        self.pos_weight = Some(weight);
        self
    }

    /// The loss of logits and targets of one shape.
    #[track_caller]
    pub fn forward(&self, logits: &Tensor, target: &Tensor) -> Tensor {
        if self.weight.is_none() && self.pos_weight.is_none() {
            return logits.binary_cross_entropy_with_logits_reduced(target, self.reduction);
        }
        // ln σ(−x) = −softplus(x).
        let positive = (-logits).softplus() * target;
        let positive = match &self.pos_weight {
            Some(weight) => positive * weight,
            None => positive,
        };
        let losses = positive + (1.0 - target) * logits.softplus();
        let losses = match &self.weight {
            Some(weight) => losses * weight,
            None => losses,
        };
        reduced(losses, self.reduction)
    }
}

with_reduction!(CrossEntropyLoss, NllLoss, BceLoss, BceWithLogitsLoss);
