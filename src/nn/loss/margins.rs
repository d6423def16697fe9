//! Losses of distances and ranks.

use super::{reduced, with_reduction};
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
    /// The loss of rows `[n, size]` and signs `[n]`.
    #[track_caller]
    pub fn forward(&self, a: &Tensor, b: &Tensor, sign: &Tensor) -> Tensor {
        // PyTorch's constant, below which a product of lengths does not fall.
        const EPS: f64 = 1e-12;
        let length = |x: &Tensor| x.square().sum(-1) + EPS;
        let cos = (a * b).sum(-1) / (length(a) * length(b)).sqrt();
        let far = (&cos - self.margin).clamp_min(0.0);
        reduced(sign.gt(0).where_cond(1.0 - cos, far), self.reduction)
    }
}

impl HingeEmbeddingLoss {
    /// The loss of distances and signs that broadcast.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, sign: &Tensor) -> Tensor {
        let far = (self.margin - x).clamp_min(0.0);
        reduced(sign.gt(0).where_cond(x, far), self.reduction)
    }
}

impl MarginRankingLoss {
    /// The loss of two scores, of which the first should be the greater where the sign is 1.
    #[track_caller]
    pub fn forward(&self, a: &Tensor, b: &Tensor, sign: &Tensor) -> Tensor {
        let losses = (self.margin - sign * (a - b)).clamp_min(0.0);
        reduced(losses, self.reduction)
    }
}

impl TripletMarginLoss {
    /// The loss of rows `[.., size]`.
    #[track_caller]
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Tensor {
        // PyTorch's constant, added to each difference.
        const EPS: f64 = 1e-6;
        let distance = |x: &Tensor| (anchor - x + EPS).norm(2.0, -1);
        let losses = distance(positive) - distance(negative) + self.margin;
        reduced(losses.clamp_min(0.0), self.reduction)
    }
}
