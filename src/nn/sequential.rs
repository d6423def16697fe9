//! Layers one after another.

use super::Module;
use crate::Tensor;

macro_rules! tuples {
    ($(($($name:ident $index:tt),+);)*) => {$(
        impl<$($name: Module),+> Module for ($($name,)+) {
            fn forward(&self, x: &Tensor) -> Tensor {
                let y = x.clone();
                $(let y = self.$index.forward(&y);)+
                y
            }
        }
    )*};
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}

/// The elements' modules, one after another.
impl<M: Module> Module for Vec<M> {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.iter().fold(x.clone(), |x, module| module.forward(&x))
    }
}

/// The elements' modules, one after another.
impl<M: Module, const N: usize> Module for [M; N] {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.iter().fold(x.clone(), |x, module| module.forward(&x))
    }
}

/// The module, or nothing to do.
impl<M: Module> Module for Option<M> {
    fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Some(module) => module.forward(x),
            None => x.clone(),
        }
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    fn forward(&self, x: &Tensor) -> Tensor {
        (**self).forward(x)
    }
}

impl<M: Module + ?Sized> Module for &M {
    fn forward(&self, x: &Tensor) -> Tensor {
        (**self).forward(x)
    }
}

/// Modules of any kinds, one after another.
///
/// ```
/// use ferrotrace::nn::{Linear, Module, Sequential, Tanh};
/// use ferrotrace::prelude::*;
///
/// let device = Device::cpu();
/// let model = Sequential::new().then(Linear::new(4, 8, &device)).then(Tanh);
/// let x = Tensor::ones([3, 4], DType::F32, &device);
/// assert_eq!(model.forward(&x).dims(), [3, 8]);
/// ```
#[derive(Default)]
pub struct Sequential {
    modules: Vec<Box<dyn Module + Send + Sync>>,
}

impl std::fmt::Debug for Sequential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sequential of {}", self.modules.len())
    }
}

impl Sequential {
    /// Nothing to do.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// These modules, and then another.
    pub fn then(mut self, module: impl Module + Send + Sync + 'static) -> Sequential {
        self.modules.push(Box::new(module));
        self
    }
}

impl Module for Sequential {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.modules.forward(x)
    }
}
