//! Layers one after another.

use super::Module;
use crate::derived::{Owned, Template, Visit};
use crate::{JitArg, JitResult, Tensor, TensorStruct};
use std::any::Any;
use std::fmt;

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

/// A layer of any kind.
trait Layer: Module + Any + Send + Sync {
    fn visit<'v>(&'v self, visit: &mut Visit<'v>);

    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Tensor));

    fn rebuilt(&self, tensor: &mut dyn FnMut(&Tensor) -> Tensor) -> AnyLayer;
}

impl<M: Module + TensorStruct> Layer for M {
    fn visit<'v>(&'v self, visit: &mut Visit<'v>) {
        JitArg::visit(self, visit);
    }

    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        TensorStruct::visit_mut(self, visit);
    }

    fn rebuilt(&self, tensor: &mut dyn FnMut(&Tensor) -> Tensor) -> AnyLayer {
        AnyLayer(Box::new(self.rebuild(tensor)))
    }
}

/// A layer of some kind, which is part of the signature of a compiled function.
struct AnyLayer(Box<dyn Layer>);

impl JitArg for AnyLayer {
    type Kind = Owned<AnyLayer>;

    fn visit<'v>(&'v self, visit: &mut Visit<'v>) {
        visit.hashed(&(*self.0).type_id());
        self.0.visit(visit);
    }
}

impl TensorStruct for AnyLayer {
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        self.0.visit_mut(visit);
    }

    fn rebuild(&self, tensor: &mut dyn FnMut(&Tensor) -> Tensor) -> AnyLayer {
        self.0.rebuilt(tensor)
    }
}

impl JitResult for AnyLayer {
    type Form = Template<AnyLayer>;

    fn flatten(&self, tensors: &mut Vec<Tensor>) -> Option<Template<AnyLayer>> {
        Some(Template::flatten(self, tensors))
    }

    fn unflatten(form: &Template<AnyLayer>, tensors: &mut dyn Iterator<Item = Tensor>) -> AnyLayer {
        form.unflatten(tensors)
    }
}

impl Module for AnyLayer {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.0.forward(x)
    }
}

/// Layers of any kinds, one after another: a struct of tensors, whose names begin with the layer's position, as PyTorch's.
///
/// ```
/// use ferrotrace::nn::{Dropout, Linear, Module, Sequential, Tanh};
/// use ferrotrace::prelude::*;
///
/// let device = Device::cpu();
/// let mut model = Sequential::new()
///     .then(Linear::new(4, 8, &device))
///     .then(Tanh)
///     .then(Dropout::new(0.1))
///     .then(Linear::new(8, 2, &device).without_bias());
/// let names: Vec<String> = model.named_tensors().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["0.weight", "0.bias", "3.weight"]);
///
/// // Layers are looked at by their type.
/// model.get_mut::<Dropout>(2).expect("the third layer is a dropout").training = false;
/// let x = Tensor::ones([3, 4], DType::F32, &device);
/// let f = jit(|(model, x): (&Sequential, &Tensor)| model.forward(x));
/// assert_eq!(f.call((&model, &x)).dims(), [3, 2]);
/// ```
#[derive(Default, TensorStruct)]
pub struct Sequential {
    #[tensor_struct(flatten)]
    layers: Vec<AnyLayer>,
}

impl fmt::Debug for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sequential of {}", self.layers.len())
    }
}

impl Clone for Sequential {
    fn clone(&self) -> Sequential {
        self.rebuild(&mut Tensor::clone)
    }
}

impl Sequential {
    /// Nothing to do.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// These layers, and then another. A layer without tensors is [`Apply`] of a function, or a struct that derives
    /// [`TensorStruct`].
    pub fn then(mut self, layer: impl Module + TensorStruct) -> Sequential {
        self.layers.push(AnyLayer(Box::new(layer)));
        self
    }

    /// How many layers there are.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The layer at a position, if it is of this type.
    pub fn get<M: Module + TensorStruct>(&self, position: usize) -> Option<&M> {
        let layer: &dyn Any = &*self.layers.get(position)?.0;
        layer.downcast_ref()
    }

    /// The layer at a position, if it is of this type, to be changed.
    pub fn get_mut<M: Module + TensorStruct>(&mut self, position: usize) -> Option<&mut M> {
        let layer: &mut dyn Any = &mut *self.layers.get_mut(position)?.0;
        layer.downcast_mut()
    }
}

impl Module for Sequential {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.layers.forward(x)
    }
}

/// A function as a layer. It captures nothing, so that it is told from others by its address.
///
/// ```
/// use ferrotrace::nn::{Apply, Linear, Module, Sequential};
/// use ferrotrace::prelude::*;
///
/// let device = Device::cpu();
/// let model = Sequential::new().then(Linear::new(4, 8, &device)).then(Apply(|x| x.sin()));
/// assert_eq!(model.forward(&Tensor::ones([3, 4], DType::F32, &device)).dims(), [3, 8]);
/// ```
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct Apply(
    /// The function.
    #[tensor_struct(value)]
    pub fn(&Tensor) -> Tensor,
);

impl Module for Apply {
    fn forward(&self, x: &Tensor) -> Tensor {
        (self.0)(x)
    }
}
