//! Angles and distances as layers.

use crate::{Tensor, TensorStruct};

/// [`Tensor::cosine_similarity`] of two tensors.
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct CosineSimilarity {
    /// The dimension of vectors.
    pub dim: isize,
    /// What norms are at least.
    pub eps: f64,
}

impl Default for CosineSimilarity {
    /// Of dimension 1; norms are at least 1e-8.
    fn default() -> CosineSimilarity {
        CosineSimilarity { dim: 1, eps: 1e-8 }
    }
}

impl CosineSimilarity {
    /// The cosines of the angles between vectors.
    #[track_caller]
    pub fn forward(&self, a: &Tensor, b: &Tensor) -> Tensor {
        a.cosine_similarity(b, self.dim, self.eps)
    }
}

/// [`Tensor::pairwise_distance`] of two tensors.
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct PairwiseDistance {
    /// The order of norms.
    pub p: f64,
    /// What is added to each difference.
    pub eps: f64,
    /// Whether the last dimension stays with size 1.
    pub keepdim: bool,
}

impl Default for PairwiseDistance {
    /// Norms of order 2; 1e-6 is added.
    fn default() -> PairwiseDistance {
        PairwiseDistance {
            p: 2.0,
            eps: 1e-6,
            keepdim: false,
        }
    }
}

impl PairwiseDistance {
    /// The distances between vectors along the last dimension.
    #[track_caller]
    pub fn forward(&self, a: &Tensor, b: &Tensor) -> Tensor {
        a.pairwise_distance(b, self.p, self.eps, self.keepdim)
    }
}
