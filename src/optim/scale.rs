//! Loss scaling for gradients in half precision.

use crate::{DType, Device, Tensor, TensorStruct};

/// A factor of the loss that grows while gradients stay finite and shrinks when one does not
/// ([Micikevicius et al. 2018](https://arxiv.org/abs/1710.03740)). Nothing is read on the host.
#[derive(Clone, Debug, TensorStruct)]
pub struct LossScale {
    /// The factor: 0-d, F32.
    pub scale: Tensor,
    /// Steps since the factor changed: 0-d, I64.
    pub good: Tensor,
    /// What the factor is multiplied by behind so many finite steps.
    pub growth: f64,
    /// What the factor is multiplied by at a step that is not.
    pub backoff: f64,
    /// Finite steps from one growth to the next.
    pub interval: usize,
}

impl Default for LossScale {
    fn default() -> LossScale {
        LossScale::new(65536.0)
    }
}

impl LossScale {
    /// A first factor; it doubles every 2000 finite steps, and halves at others, as in PyTorch.
    #[track_caller]
    pub fn new(scale: f64) -> LossScale {
        let device = Device::cpu();
        let scale = LossScale {
            scale: Tensor::full((), scale, DType::F32, &device),
            good: Tensor::zeros((), DType::I64, &device),
            growth: 2.0,
            backoff: 0.5,
            interval: 2000,
        };
        scale.carry();
        scale
    }

    /// The factor behind a step whose gradients were finite, or not.
    #[track_caller]
    pub(super) fn update(&mut self, fine: &Tensor) {
        let good = &self.good + 1;
        let full = good.ge(self.interval);
        let grown = full.where_cond(&self.scale * self.growth, &self.scale);
        self.scale = fine.where_cond(grown, &self.scale * self.backoff);
        let counted = full.where_cond(good.zeros_like(), &good);
        self.good = fine.where_cond(&counted, good.zeros_like());
        self.carry();
    }

    /// Notes that a loop of steps carries both numbers.
    fn carry(&self) {
        self.scale.carry();
        self.good.carry();
    }
}
