//! Joins of tensors of few dimensions, as NumPy and PyTorch have them.

use crate::Tensor;
use crate::args::{TensorLike, borrowed};
use ferrotrace_runtime::Error;

/// Tensors joined along a dimension, in the form that `form` gives each.
#[track_caller]
fn along(name: &'static str, tensors: &[&Tensor], rows: Vec<Tensor>, dim: usize) -> Tensor {
    if tensors.is_empty() {
        return Tensor::failed(name, Error::argument("no tensors are given"), tensors);
    }
    let rows: Vec<&Tensor> = rows.iter().collect();
    super::joined(name, &rows, dim).called(name, tensors)
}

/// Tensors with dimensions of size 1 added where they have fewer than this number.
#[track_caller]
fn at_least(tensors: &[&Tensor], rank: usize) -> Vec<Tensor> {
    let mut rows = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        rows.push(tensor.at_least(rank));
    }
    rows
}

impl Tensor {
    /// Tensors side by side: vectors and numbers joined to one vector, others along dimension 1. Lists and dtypes as those
    /// of [`cat`](Tensor::cat).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], 2, &Device::cpu());
    /// assert_eq!(Tensor::hstack(&[&x, &x]).to_vec::<i32>()?, [1, 2, 1, 2]);
    /// let y = x.unsqueeze(1);
    /// assert_eq!(Tensor::hstack(&[&y, &y]).to_vec::<i32>()?, [1, 1, 2, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn hstack<T: TensorLike>(tensors: impl AsRef<[T]>) -> Tensor {
        let tensors = &borrowed(tensors.as_ref())[..];
        let rows = at_least(tensors, 1);
        let dim = usize::from(rows.first().is_some_and(|x| x.rank() > 1));
        along("hstack", tensors, rows, dim)
    }

    /// Tensors one below the other, along dimension 0: vectors and numbers as rows of a matrix. Lists and dtypes as those
    /// of [`cat`](Tensor::cat).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], 2, &Device::cpu());
    /// let y = Tensor::vstack(&[&x, &x]);
    /// assert_eq!((y.dims(), y.to_vec::<i32>()?), (&[2, 2][..], vec![1, 2, 1, 2]));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn vstack<T: TensorLike>(tensors: impl AsRef<[T]>) -> Tensor {
        let tensors = &borrowed(tensors.as_ref())[..];
        along("vstack", tensors, at_least(tensors, 2), 0)
    }

    /// Tensors one behind the other, along dimension 2, after [`atleast_3d`](Tensor::atleast_3d) of each. Lists and dtypes
    /// as those of [`cat`](Tensor::cat).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], 2, &Device::cpu());
    /// let y = Tensor::dstack(&[&x, &x]);
    /// assert_eq!((y.dims(), y.to_vec::<i32>()?), (&[1, 2, 2][..], vec![1, 1, 2, 2]));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn dstack<T: TensorLike>(tensors: impl AsRef<[T]>) -> Tensor {
        let tensors = &borrowed(tensors.as_ref())[..];
        along("dstack", tensors, at_least(tensors, 3), 2)
    }

    /// Tensors joined along dimension 1, vectors and numbers as columns. Lists and dtypes as those of
    /// [`cat`](Tensor::cat).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], 2, &Device::cpu());
    /// let y = Tensor::column_stack(&[&x, &x]);
    /// assert_eq!((y.dims(), y.to_vec::<i32>()?), (&[2, 2][..], vec![1, 1, 2, 2]));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn column_stack<T: TensorLike>(tensors: impl AsRef<[T]>) -> Tensor {
        let tensors = &borrowed(tensors.as_ref())[..];
        let mut columns = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            columns.push(match tensor.check().is_ok() && tensor.rank() < 2 {
                true => tensor.reshape([tensor.numel(), 1]),
                false => (*tensor).clone(),
            });
        }
        along("column_stack", tensors, columns, 1)
    }
}
