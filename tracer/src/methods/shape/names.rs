//! Shapes under the names that NumPy and PyTorch have for them.

use super::super::attempt;
use crate::Tensor;
use crate::args::{Dim, Dims};
use ferrotrace_runtime::{Error, Result};

/// The shape with dimensions of size 1 added, as `atleast_` and this number want it.
fn at_least(dims: &[usize], rank: usize) -> Vec<usize> {
    match (rank, dims) {
        (_, []) => vec![1; rank],
        (2, &[n]) => vec![1, n],
        (3, &[n]) => vec![1, n, 1],
        (3, &[n, m]) => vec![n, m, 1],
        (_, dims) => dims.to_vec(),
    }
}

impl Tensor {
    /// Dimensions `a` and `b` exchanged: another name of [`transpose`](Tensor::transpose).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 3, 4], DType::F32, &Device::cpu());
    /// assert_eq!(x.swapaxes(0, -1).dims(), [4, 3, 2]);
    /// ```
    #[track_caller]
    pub fn swapaxes(&self, a: impl Into<Dim>, b: impl Into<Dim>) -> Tensor {
        self.transpose(a, b).called("swapaxes", &[self])
    }

    /// Dimensions `a` and `b` exchanged: another name of [`transpose`](Tensor::transpose).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 3, 4], DType::F32, &Device::cpu());
    /// assert_eq!(x.swapdims(0, 2).dims(), [4, 3, 2]);
    /// ```
    #[track_caller]
    pub fn swapdims(&self, a: impl Into<Dim>, b: impl Into<Dim>) -> Tensor {
        self.transpose(a, b).called("swapdims", &[self])
    }

    /// Dimensions `from` moved to the places `to`: another name of [`movedim`](Tensor::movedim).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 3, 4], DType::F32, &Device::cpu());
    /// assert_eq!(x.moveaxis(0, -1).dims(), [3, 4, 2]);
    /// ```
    #[track_caller]
    pub fn moveaxis(&self, from: impl Into<Dims>, to: impl Into<Dims>) -> Tensor {
        self.movedim(from, to).called("moveaxis", &[self])
    }

    /// All elements in row-major order as a vector: [`flatten`](Tensor::flatten) of all dimensions.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4], [2, 2], &Device::cpu());
    /// assert_eq!(x.t().ravel().to_vec::<i32>()?, [1, 3, 2, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn ravel(&self) -> Tensor {
        self.flatten(0, -1).called("ravel", &[self])
    }

    /// The tensor broadcast to another one's shape, as [`expand`](Tensor::expand) does.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], 2, &Device::cpu());
    /// let y = Tensor::zeros([2, 2], DType::F32, &Device::cpu());
    /// assert_eq!(x.expand_as(&y).to_vec::<i32>()?, [1, 2, 1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn expand_as(&self, other: &Tensor) -> Tensor {
        attempt!("expand_as", other.check(), self, other);
        let expanded = self.expand(other.shape());
        expanded.called("expand_as", &[self, other])
    }

    /// This tensor's elements in the shape of another tensor, which has as many elements: [`reshape`](Tensor::reshape) to that
    /// shape.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 4, 1, DType::F32, &Device::cpu());
    /// assert_eq!(x.reshape_as(&Tensor::eye(2, DType::F32, &Device::cpu())).dims(), [2, 2]);
    /// ```
    #[track_caller]
    pub fn reshape_as(&self, other: &Tensor) -> Tensor {
        attempt!("reshape_as", other.check(), self, other);
        let reshaped = self.reshape(other.shape());
        reshaped.called("reshape_as", &[self, other])
    }

    /// Dimension 1 in reverse order, of two dimensions or more.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4], [2, 2], &Device::cpu());
    /// assert_eq!(x.fliplr().to_vec::<i32>()?, [2, 1, 4, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn fliplr(&self) -> Tensor {
        attempt!("fliplr", self.has_rank(2), self);
        self.flip(1).called("fliplr", &[self])
    }

    /// Dimension 0 in reverse order, of one dimension or more.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4], [2, 2], &Device::cpu());
    /// assert_eq!(x.flipud().to_vec::<i32>()?, [3, 4, 1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn flipud(&self) -> Tensor {
        attempt!("flipud", self.has_rank(1), self);
        self.flip(0).called("flipud", &[self])
    }

    fn has_rank(&self, least: usize) -> Result<()> {
        self.check()?;
        match self.rank() >= least {
            true => Ok(()),
            false => Err(Error::shape(format!(
                "a tensor of rank {}: at least {least} is asked for",
                self.rank()
            ))),
        }
    }

    /// A number as a vector of one; other tensors as they are.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::scalar(1.0, DType::F32, &Device::cpu());
    /// assert_eq!(x.atleast_1d().dims(), [1]);
    /// ```
    #[track_caller]
    pub fn atleast_1d(&self) -> Tensor {
        self.at_least(1).called("atleast_1d", &[self])
    }

    /// A number as `[1, 1]`, a vector as a row `[1, n]`; other tensors as they are.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones(3, DType::F32, &Device::cpu());
    /// assert_eq!(x.atleast_2d().dims(), [1, 3]);
    /// ```
    #[track_caller]
    pub fn atleast_2d(&self) -> Tensor {
        self.at_least(2).called("atleast_2d", &[self])
    }

    /// A number as `[1, 1, 1]`, a vector as `[1, n, 1]`, a matrix as `[n, m, 1]`; other tensors as they are.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 3], DType::F32, &Device::cpu());
    /// assert_eq!(x.atleast_3d().dims(), [2, 3, 1]);
    /// ```
    #[track_caller]
    pub fn atleast_3d(&self) -> Tensor {
        self.at_least(3).called("atleast_3d", &[self])
    }

    /// The tensor with dimensions of size 1 added where it has fewer than this number.
    #[track_caller]
    pub(in crate::methods) fn at_least(&self, rank: usize) -> Tensor {
        match self.check().is_err() || self.rank() >= rank {
            true => self.clone(),
            false => self.reshape(at_least(self.shape(), rank)),
        }
    }
}
