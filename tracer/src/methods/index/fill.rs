//! Slices written at positions of a dimension, elements written where a mask is true, and elements of a rank.

use super::super::scatter::mode_of;
use super::super::{ReduceOp, attempt, attempt_both};
use crate::Tensor;
use crate::args::{Dim, Operand};
use ferrotrace_kernels::ScatterMode;
use ferrotrace_runtime::{DType, Error, Result};

impl Tensor {
    /// This tensor with the slices of `src` written at positions of a dimension: slice i at `idx[i]`. Both have one dtype, and
    /// `src` this tensor's sizes but in that dimension.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([3, 2], DType::I64, &Device::cpu());
    /// let idx = Tensor::from_slice(&[2i64, 0], 2, &Device::cpu());
    /// let src = Tensor::from_slice(&[1i64, 2, 3, 4], [2, 2], &Device::cpu());
    /// assert_eq!(x.index_copy(0, &idx, &src).to_vec::<i64>()?, [3, 4, 0, 0, 1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn index_copy(&self, dim: impl Into<Dim>, idx: &Tensor, src: &Tensor) -> Tensor {
        let how = (ScatterMode::Assign, true);
        let y = self.joined_at("index_copy", dim.into(), idx, src, how);
        attempt!("index_copy", y, self, idx, src).called("index_copy", &[self, idx, src])
    }

    /// This tensor with a number, or a 0-d tensor of its dtype, written to the slices at positions of a dimension.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([2, 3], DType::F32, &Device::cpu());
    /// let idx = Tensor::from_slice(&[2i64, 0], 2, &Device::cpu());
    /// let y = x.index_fill(1, &idx, -1.0);
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, 0.0, -1.0, -1.0, 0.0, -1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn index_fill<'a>(
        &self,
        dim: impl Into<Dim>,
        idx: &Tensor,
        value: impl Into<Operand<'a>>,
    ) -> Tensor {
        let value = value.into();
        let y = self.filled_at(dim.into(), idx, |shape| {
            let value = self.source(value.clone())?;
            value.check()?;
            match value.rank() {
                0 => Ok(value.expand(shape)),
                _ => Err(Error::shape(format!("one value, not {}", value.shape()))),
            }
        });
        attempt!("index_fill", y, self, idx).called("index_fill", &[self, idx])
    }

    /// This tensor with the slices of `src` joined by `op` to those at positions of a dimension: slice i to slice `idx[i]`.
    /// What is already there is among what is joined where `include_self`. Both have one dtype, and `src` this tensor's sizes
    /// but in that dimension.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[4.0, 5.0], 2, &Device::cpu());
    /// let idx = Tensor::from_slice(&[0i64, 0], 2, &Device::cpu());
    /// let src = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// let y = x.index_reduce(0, &idx, &src, ReduceOp::Prod, true);
    /// assert_eq!(y.to_vec::<f64>()?, [8.0, 5.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn index_reduce(
        &self,
        dim: impl Into<Dim>,
        idx: &Tensor,
        src: &Tensor,
        op: ReduceOp,
        include_self: bool,
    ) -> Tensor {
        let how = (mode_of(op), include_self);
        let y = self.joined_at("index_reduce", dim.into(), idx, src, how);
        attempt!("index_reduce", y, self, idx, src).called("index_reduce", &[self, idx, src])
    }

    /// This tensor joined by a mode with `src`, whose slices belong to positions of a dimension.
    #[track_caller]
    fn joined_at(
        &self,
        name: &'static str,
        dim: Dim,
        idx: &Tensor,
        src: &Tensor,
        how: (ScatterMode, bool),
    ) -> Result<Tensor> {
        let (dim, at, shape) = self.places_of_slices(dim, idx)?;
        src.check()?;
        if src.shape()[..] != shape[..] {
            let why = format!("slices {} for {shape:?}", src.shape());
            return Err(Error::shape(why));
        }
        let y = self.scatter_as(name, dim, &at, src, how);
        y.recorded()?;
        Ok(y)
    }

    /// This tensor with slices of one value, which `src` gives in their shape, at positions of a dimension.
    #[track_caller]
    fn filled_at(
        &self,
        dim: Dim,
        idx: &Tensor,
        src: impl Fn(&[usize]) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let (dim, at, shape) = self.places_of_slices(dim, idx)?;
        let how = (ScatterMode::Assign, true);
        let y = self.scatter_as("index_fill", dim, &at, &src(&shape)?, how);
        y.recorded()?;
        Ok(y)
    }

    /// A dimension, its positions in the shape of the slices there, and that shape.
    #[track_caller]
    fn places_of_slices(&self, dim: Dim, idx: &Tensor) -> Result<(usize, Tensor, Vec<usize>)> {
        self.check()?;
        idx.check()?;
        let dim = dim.wrap_along(self.rank())?;
        if idx.rank() > 1 {
            let why = format!("positions of one dimension, not {}", idx.shape());
            return Err(Error::shape(why));
        }
        let mut shape = self.shape().to_vec();
        if let Some(size) = shape.get_mut(dim) {
            *size = idx.numel();
        }
        let at = match shape.get(dim) {
            None => idx.reshape(()),
            Some(_) => {
                let mut line = vec![1; shape.len()];
                line[dim] = idx.numel();
                idx.reshape(line).expand(&shape[..])
            }
        };
        Ok((dim, at, shape))
    }

    /// This tensor with the elements of `src`, one after another in row-major order, where a mask is true. The mask broadcasts to
    /// this tensor, and both have one dtype. A mask that is true more often than `src` has elements is an error when the result is
    /// computed.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(4, DType::I64, &Device::cpu());
    /// let mask = Tensor::from_slice(&[false, true, false, true], 4, &Device::cpu());
    /// let src = Tensor::from_slice(&[7i64, 8, 9], 3, &Device::cpu());
    /// assert_eq!(x.masked_scatter(&mask, &src).to_vec::<i64>()?, [0, 7, 0, 8]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn masked_scatter(&self, mask: &Tensor, src: &Tensor) -> Tensor {
        let y = self.filled_from(mask, src);
        attempt!("masked_scatter", y, self, mask, src).called("masked_scatter", &[self, mask, src])
    }

    #[track_caller]
    fn filled_from(&self, mask: &Tensor, src: &Tensor) -> Result<Tensor> {
        for x in [self, mask, src] {
            x.check()?;
        }
        if mask.dtype() != DType::Bool || src.dtype() != self.dtype() {
            let (own, mask, src) = (self.dtype(), mask.dtype(), src.dtype());
            let why = format!("{src} where a mask of {mask} is true in {own}");
            return Err(Error::dtype(why));
        }
        let mask = mask.expand(self.shape());
        mask.recorded()?;
        let n = self.numel();
        if n == 0 || src.numel() == 0 {
            return Ok(self.clone());
        }
        // How many are true before a place says which element comes there.
        let line = mask.reshape([n]);
        let at = line.to_dtype(DType::I64).cumsum(0) - 1;
        let at = at.clamp_min(0);
        let found = src.reshape([src.numel()]).gather(0, &at);
        Ok(mask.where_cond(&found.reshape(self.shape()), self))
    }

    /// The `k`-th least element along a dimension, 1 being the least, and its position (`I64`); NaN is the greatest.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[5.0, 1.0, 3.0], 3, &Device::cpu());
    /// let (value, at) = x.kthvalue(2, 0);
    /// assert_eq!((value.item::<f64>()?, at.item::<i64>()?), (3.0, 2));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn kthvalue(&self, k: usize, dim: impl Into<Dim>) -> (Tensor, Tensor) {
        let dim = dim.into();
        let (values, at) = attempt_both!("kthvalue", self.of_rank(k, dim), self);
        match self.rank() {
            0 => (values, at),
            _ => (values.squeeze(dim), at.squeeze(dim)),
        }
    }

    /// As [`kthvalue`](Tensor::kthvalue), the dimension staying with size 1.
    #[track_caller]
    pub fn kthvalue_keepdim(&self, k: usize, dim: impl Into<Dim>) -> (Tensor, Tensor) {
        attempt_both!("kthvalue", self.of_rank(k, dim.into()), self)
    }

    #[track_caller]
    fn of_rank(&self, k: usize, dim: Dim) -> Result<(Tensor, Tensor)> {
        self.check()?;
        let at = dim.wrap_along(self.rank())?;
        let size = self.shape().get(at).copied().unwrap_or(1);
        if k == 0 || k > size {
            return Err(Error::argument(format!("number {k} of {size} elements")));
        }
        if self.rank() == 0 {
            return Ok((self.clone(), Tensor::zeros((), DType::I64, &self.device())));
        }
        let (values, order) = self.sort(at, false);
        let place = (k - 1) as isize;
        Ok((values.narrow(at, place, 1), order.narrow(at, place, 1)))
    }
}
