//! Losses of scores of classes, of which one or several are right, by margins.

use super::{reduced, with_reduction};
use crate::{DType, Error, Reduction, Tensor, TensorStruct};

macro_rules! weighted {
    ($($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $field_doc:literal])* $field:ident: $default:literal),* };)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, TensorStruct)]
        pub struct $name {
            /// A factor for each class, `[classes]`.
            pub weight: Option<Tensor>,
            $($(#[doc = $field_doc])* pub $field: f64,)*
            /// Sum, mean or neither.
            #[tensor_struct(value)]
            pub reduction: Reduction,
        }

        impl Default for $name {
            fn default() -> $name {
                $name::new()
            }
        }

        impl $name {
            /// The mean without weights.
            pub fn new() -> $name {
                $name { weight: None, $($field: $default,)* reduction: Reduction::Mean }
            }

            /// The loss with a factor for each class.
            pub fn weight(mut self, weight: Tensor) -> $name {
                self.weight = Some(weight);
                self
            }
        }
    )*};
}

weighted! {
    /// The mean over classes of `max(0, margin − x[right] + x[class])ᵖ`, but for the right one.
    MultiMarginLoss {
        /// The power, 1 or 2.
        p: 1.0,
        /// The margin.
        margin: 1.0
    };
    /// The mean over classes of the cross entropy of each with its target, 0 or 1, from logits.
    MultiLabelSoftMarginLoss {};
}

/// ln(1 + e^(−sign·x)) of elements and signs.
#[derive(Clone, Debug, TensorStruct)]
pub struct SoftMarginLoss {
    /// Sum, mean or neither.
    #[tensor_struct(value)]
    pub reduction: Reduction,
}

/// The sum, over right classes and others, of `max(0, 1 − x[right] + x[other])`, over the number of classes.
#[derive(Clone, Debug, TensorStruct)]
pub struct MultiLabelMarginLoss {
    /// Sum, mean or neither.
    #[tensor_struct(value)]
    pub reduction: Reduction,
}

macro_rules! plain {
    ($($name:ident)*) => {$(
        impl Default for $name {
            /// The mean.
            fn default() -> $name {
                $name::new()
            }
        }

        impl $name {
            /// The mean.
            pub fn new() -> $name {
                $name { reduction: Reduction::Mean }
            }
        }
    )*};
}

plain!(SoftMarginLoss MultiLabelMarginLoss);

impl MultiMarginLoss {
    /// The loss of scores `[n, classes]` or `[classes]` and right classes `[n]` or 0-d.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Tensor {
        const NAME: &str = "multi_margin_loss";
        let (rows, target) = match (x.rank(), target.rank()) {
            (2, 1) => (x.clone(), target.unsqueeze(1)),
            (1, 0) => (x.unsqueeze(0), target.reshape([1, 1])),
            _ => return misshapen(NAME, x, target),
        };
        let target = target.to_dtype(DType::I64);
        let own = rows.gather(1, &target);
        let mut losses = (self.margin - own + &rows).clamp_min(0.0).pow(self.p);
        if let Some(weight) = &self.weight {
            losses *= weight.index(&[Some(&target)]);
        }
        let classes = rows.dims().get(1).copied().unwrap_or(0);
        let class = Tensor::arange(0, classes, 1, DType::I64, &x.device());
        let losses = class.eq(&target).where_cond(0.0, &losses).mean(1);
        match x.rank() {
            1 => reduced(losses.squeeze(0), self.reduction),
            _ => reduced(losses, self.reduction),
        }
    }
}

impl MultiLabelSoftMarginLoss {
    /// The loss of logits `[.., classes]` and targets of 0 and 1 of the same shape.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Tensor {
        let losses = -(target * x.logsigmoid() + (1.0 - target) * (-x).logsigmoid());
        let losses = match &self.weight {
            Some(weight) => losses * weight,
            None => losses,
        };
        reduced(losses.mean(-1), self.reduction)
    }
}

impl SoftMarginLoss {
    /// The loss of elements and signs of 1 and −1, which broadcast: [`Tensor::soft_margin_loss`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor, sign: &Tensor) -> Tensor {
        x.soft_margin_loss_reduced(sign, self.reduction)
    }
}

impl MultiLabelMarginLoss {
    /// The loss of scores and right classes: [`Tensor::multilabel_margin_loss`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Tensor {
        x.multilabel_margin_loss_reduced(target, self.reduction)
    }
}

/// The error of scores and classes whose shapes do not fit.
#[track_caller]
fn misshapen(name: &'static str, x: &Tensor, target: &Tensor) -> Tensor {
    let error = [x, target].iter().find_map(|x| x.error());
    let error = error.unwrap_or_else(|| {
        let (own, other) = (x.shape(), target.shape());
        Error::shape(format!("scores {own} and classes {other}"))
    });
    Tensor::failed(name, error, &[x, target])
}

with_reduction!(
    MultiMarginLoss,
    MultiLabelSoftMarginLoss,
    SoftMarginLoss,
    MultiLabelMarginLoss
);
