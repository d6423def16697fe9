//! Parameters and gradients as vectors.

use super::search::Point;
use crate::{DType, Result, Tensor, TensorStruct, no_grad};

/// Where losses and gradients come from.
pub(super) struct Losses<E> {
    pub flat: Flat,
    pub evaluate: E,
}

impl<E> Losses<E> {
    /// What is known of a model that lies `size` times a direction away.
    #[track_caller]
    pub(super) fn at<M: TensorStruct>(
        &mut self,
        model: &M,
        direction: &Tensor,
        size: f64,
    ) -> Result<Point>
    where
        E: FnMut(&M) -> (Tensor, M),
    {
        let (loss, gradients) = (self.evaluate)(model);
        let mut point = Point::new(number(&loss)?, self.flat.vector(&gradients)?);
        point.slope = number(&point.gradient.dot(direction))?;
        point.size = size;
        Ok(point)
    }
}

/// The parameters of a model as one vector.
pub(super) struct Flat {
    names: Vec<String>,
    dtype: DType,
    /// Elements of all parameters.
    pub len: isize,
}

impl Flat {
    pub(super) fn of<M: TensorStruct>(model: &M) -> Flat {
        let (names, parameters): (Vec<String>, Vec<Tensor>) =
            model.parameters().into_iter().unzip();
        let wide = parameters.iter().any(|p| p.dtype() == DType::F64);
        let dtype = if wide { DType::F64 } else { DType::F32 };
        let len = parameters.iter().map(|p| p.numel() as isize).sum();
        Flat { names, dtype, len }
    }

    /// What a struct has in the parameters' places.
    #[track_caller]
    pub(super) fn vector<M: TensorStruct>(&self, of: &M) -> Result<Tensor> {
        let mut parts = Vec::new();
        let mut names = self.names.iter().peekable();
        of.for_each(|name, tensor| {
            if names.next_if(|next| *next == name).is_some() {
                parts.push(tensor.detach().to_dtype(self.dtype).flatten(0, -1));
            }
        });
        let vector = Tensor::cat(&parts, 0);
        vector.eval()?;
        Ok(vector)
    }

    /// A model whose parameters lie `size` times a direction away.
    #[track_caller]
    pub(super) fn moved<M: TensorStruct>(
        &self,
        model: &M,
        direction: &Tensor,
        size: f64,
    ) -> Result<M> {
        let (mut names, mut start) = (self.names.iter().peekable(), 0);
        let moved = model.map(|name, tensor| {
            if names.next_if(|next| *next == name).is_none() {
                return tensor.clone();
            }
            let part = direction.narrow(0, start, tensor.numel());
            start += tensor.numel() as isize;
            let step = part.reshape(tensor.dims()) * size;
            let moved = no_grad(|| (tensor.detach() + step).to_dtype(tensor.dtype()));
            match tensor.has_grad() {
                true => moved.requires_grad(),
                false => moved,
            }
        });
        moved.eval()?;
        Ok(moved)
    }
}

/// A number that is read.
#[track_caller]
pub(super) fn number(x: &Tensor) -> Result<f64> {
    x.to_dtype(DType::F64).item()
}

/// The greatest magnitude of a vector.
#[track_caller]
pub(super) fn greatest(x: &Tensor) -> Result<f64> {
    number(&x.abs().max(..))
}
