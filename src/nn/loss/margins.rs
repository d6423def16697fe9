//! Losses of distances and ranks.

use super::with_reduction;
use crate::{Reduction, Tensor, TensorStruct};

macro_rules! with_margin {
    ($($(#[doc = $doc:literal])* $name:ident $margin:literal;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, TensorStruct)]
        pub struct $name {
            /// The margin.
            pub margin: f64,
            /// Sum, mean or neither.
            #[tensor_struct(value)]
            pub reduction: Reduction,
        }

        impl Default for $name {
            #[doc = concat!("The mean, with PyTorch's margin ", stringify!($margin), ".")]
            fn default() -> $name {
                $name::new($margin)
            }
        }

        impl $name {
            /// The mean.
            pub fn new(margin: f64) -> $name {
                $name { margin, reduction: Reduction::Mean }
            }
        }

        with_reduction!($name);
    )*};
}

with_margin! {
    /// 1 − cos(a, b) of rows whose sign is 1, max(0, cos(a, b) − margin) of those whose sign is −1.
    CosineEmbeddingLoss 0.0;
    /// x where the sign is 1, max(0, margin − x) where it is −1.
    HingeEmbeddingLoss 1.0;
    /// max(0, margin − sign·(a − b)).
    MarginRankingLoss 0.0;
    /// max(0, |anchor − positive| − |anchor − negative| + margin) of rows, distances of the 2-norm.
    TripletMarginLoss 1.0;
}

impl CosineEmbeddingLoss {
    /// The loss of rows `[n, size]` and signs `[n]`: [`Tensor::cosine_embedding_loss`].
    #[track_caller]
    pub fn forward(&self, a: &Tensor, b: &Tensor, sign: &Tensor) -> Tensor {
        a.cosine_embedding_loss_reduced(b, sign, self.margin, self.reduction)
    }
}

impl HingeEmbeddingLoss {
    /// The loss of distances and signs that broadcast: [`Tensor::hinge_embedding_loss`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor, sign: &Tensor) -> Tensor {
        x.hinge_embedding_loss_reduced(sign, self.margin, self.reduction)
    }
}

impl MarginRankingLoss {
    /// The loss of two scores, of which the first should be the greater where the sign is 1:
    /// [`Tensor::margin_ranking_loss`].
    #[track_caller]
    pub fn forward(&self, a: &Tensor, b: &Tensor, sign: &Tensor) -> Tensor {
        a.margin_ranking_loss_reduced(b, sign, self.margin, self.reduction)
    }
}

impl TripletMarginLoss {
    /// The loss of rows `[.., size]`: [`Tensor::triplet_margin_loss`].
    #[track_caller]
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Tensor {
        anchor.triplet_margin_loss_reduced(positive, negative, self.margin, self.reduction)
    }
}
