//! Lists of tensors.

use crate::Tensor;

/// A tensor in a list: `Tensor`, or any reference to one.
pub trait TensorLike {
    /// The tensor.
    fn tensor(&self) -> &Tensor;
}

impl TensorLike for Tensor {
    fn tensor(&self) -> &Tensor {
        self
    }
}

impl<T: TensorLike + ?Sized> TensorLike for &T {
    fn tensor(&self) -> &Tensor {
        (**self).tensor()
    }
}

impl<T: TensorLike + ?Sized> TensorLike for &mut T {
    fn tensor(&self) -> &Tensor {
        (**self).tensor()
    }
}

/// References to the tensors of a list.
pub(crate) fn borrowed<T: TensorLike>(tensors: &[T]) -> Vec<&Tensor> {
    tensors.iter().map(TensorLike::tensor).collect()
}
