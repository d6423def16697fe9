//! Dropout.

use super::Module;
use crate::{Tensor, TensorStruct};

/// In training, each element zeroed with probability `p` and the others scaled by 1 / (1 − p); else nothing
/// ([Srivastava et al. 2014](https://jmlr.org/papers/v15/srivastava14a.html)). A replay of a `jit` function draws anew.
///
/// ```
/// use ferrotrace::nn::{Dropout, Module};
/// use ferrotrace::prelude::*;
///
/// let mut layer = Dropout::new(0.5);
/// let x = Tensor::ones(100, DType::F32, &Device::cpu());
/// assert!(layer.forward(&x).to_vec::<f32>()?.contains(&0.0));
/// layer.training = false;
/// assert_eq!(layer.forward(&x).to_vec::<f32>()?, [1.0; 100]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct Dropout {
    /// The probability of a zero; outside [0, 1] the result is an error.
    pub p: f64,
    /// Whether anything is dropped.
    pub training: bool,
}

impl Dropout {
    /// A layer in training.
    pub fn new(p: f64) -> Dropout {
        Dropout { p, training: true }
    }
}

impl Module for Dropout {
    fn forward(&self, x: &Tensor) -> Tensor {
        match self.training {
            true => x.dropout(self.p),
            false => x.clone(),
        }
    }
}
