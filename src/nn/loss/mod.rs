//! Losses with options. [`Tensor`]'s methods ([`Tensor::cross_entropy`], [`Tensor::mse_loss`], ..) are those without.

mod classes;
mod labels;
mod margins;
mod pairs;
mod sequences;

pub use classes::{BceLoss, BceWithLogitsLoss, CrossEntropyLoss, NllLoss};
pub use labels::{MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, SoftMarginLoss};
pub use margins::{CosineEmbeddingLoss, HingeEmbeddingLoss, MarginRankingLoss, TripletMarginLoss};
pub use pairs::{
    GaussianNllLoss, HuberLoss, KlDivLoss, L1Loss, MseLoss, PoissonNllLoss, SmoothL1Loss,
};
pub use sequences::CtcLoss;

use crate::{Reduction, Tensor};

/// Losses element by element, their sum or their mean.
#[track_caller]
fn reduced(losses: Tensor, reduction: Reduction) -> Tensor {
    match reduction {
        Reduction::None => losses,
        Reduction::Sum => losses.sum(..),
        Reduction::Mean => losses.mean(..),
    }
}

/// The method that sets the reduction of a loss.
macro_rules! with_reduction {
    ($($name:ident),*) => {$(
        impl $name {
            /// The loss with another reduction than the mean.
            pub fn reduction(mut self, reduction: crate::Reduction) -> $name {
                self.reduction = reduction;
                self
            }
        }
    )*};
}

use with_reduction;
