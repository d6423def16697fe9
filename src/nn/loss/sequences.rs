//! Losses of sequences.

use super::with_reduction;
use crate::{Reduction, Tensor, TensorStruct};

/// Connectionist temporal classification: [`Tensor::ctc_loss`], as PyTorch's `nn.CTCLoss`.
///
/// ```
/// use ferrotrace::nn::CtcLoss;
/// use ferrotrace::prelude::*;
///
/// let device = Device::cpu();
/// let logits = Tensor::zeros([5, 2, 4], DType::F32, &device).requires_grad();
/// let labels = Tensor::from_slice(&[1i64, 2, 3, 1, 0, 0], [2, 3], &device);
/// let steps = Tensor::from_slice(&[5i64, 4], 2, &device);
/// let lengths = Tensor::from_slice(&[3i64, 1], 2, &device);
/// let loss = CtcLoss::new().forward(&logits.log_softmax(-1), &labels, &steps, &lengths);
/// assert_eq!(grad(&loss, &[&logits])[0].dims(), [5, 2, 4]);
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct CtcLoss {
    /// The class that says nothing.
    pub blank: usize,
    /// Sum, mean or neither.
    #[tensor_struct(value)]
    pub reduction: Reduction,
    /// Whether the loss of a sequence that cannot be aligned is 0, not ∞.
    pub zero_infinity: bool,
}

impl Default for CtcLoss {
    fn default() -> CtcLoss {
        CtcLoss::new()
    }
}

impl CtcLoss {
    /// The mean; class 0 is blank.
    pub fn new() -> CtcLoss {
        CtcLoss {
            blank: 0,
            reduction: Reduction::Mean,
            zero_infinity: false,
        }
    }

    /// The loss with another blank.
    pub fn blank(mut self, class: usize) -> CtcLoss {
        self.blank = class;
        self
    }

    /// The loss that is 0 where it would be infinite.
    pub fn zero_infinity(mut self, zero: bool) -> CtcLoss {
        self.zero_infinity = zero;
        self
    }

    /// The loss of log-probabilities `[T, N, C]`, labels `[N, S]` or `[sum of lengths]`, and lengths `[N]` of both.
    #[track_caller]
    pub fn forward(
        &self,
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
    ) -> Tensor {
        log_probs.ctc_loss(
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
    }
}

with_reduction!(CtcLoss);
