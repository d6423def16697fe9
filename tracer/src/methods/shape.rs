//! Reshaping, permuting and expanding: the elements under another shape.

mod blocks;
mod names;
mod pixels;

use super::attempt;
use crate::Tensor;
use crate::args::{Dim, Dims, Extents, Shifts};
use ferrotrace_kernels::op::{
    Expand, Flatten, Flip, Permute, Repeat, Reshape, Roll, Squeeze, Unsqueeze,
};
use ferrotrace_kernels::{Composite, Op};
use ferrotrace_runtime::{Error, Result, Shape};
use smallvec::SmallVec;

/// A permutation as the operator takes it.
///
/// # Errors
/// Not every dimension is named.
fn order(dims: &[usize], rank: usize) -> Result<SmallVec<[u8; 6]>> {
    if dims.len() != rank {
        let why = format!(
            "{} dimensions are given for a tensor of rank {rank}",
            dims.len()
        );
        return Err(Error::argument(why));
    }
    Ok(dims.iter().map(|&dim| dim as u8).collect())
}

impl Tensor {
    /// The size of a dimension; negative numbers count from the end.
    ///
    /// # Errors
    /// There is no such dimension, or the tensor carries an error.
    #[track_caller]
    pub fn dim(&self, dim: impl Into<Dim>) -> Result<usize> {
        self.check()?;
        let dim = self.told("dim", dim.into().wrap(self.rank()))?;
        Ok(self.shape()[dim])
    }

    /// The size of a dimension: another name of [`dim`](Tensor::dim).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 3], DType::F32, &Device::cpu());
    /// assert_eq!(x.size(-1)?, 3);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`dim`](Tensor::dim).
    #[track_caller]
    pub fn size(&self, dim: impl Into<Dim>) -> Result<usize> {
        self.dim(dim)
    }

    /// The same elements in row-major order under another shape of as many; one size may be −1 and is inferred.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 6, 1, DType::F32, &Device::cpu());
    /// assert_eq!(x.reshape([2, -1]).dims(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Extents>) -> Tensor {
        let extents = attempt!("reshape", shape.into().resolve(), self);
        self.apply(Op::Reshape(Reshape(extents)))
    }

    /// Dimensions `a` to `b`, both included, merged into one; a 0-d tensor gets one dimension of size 1.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 3, 4], DType::F32, &Device::cpu());
    /// assert_eq!(x.flatten(0, 1).dims(), [6, 4]);
    /// assert_eq!(x.flatten(0, -1).dims(), [24]);
    /// ```
    #[track_caller]
    pub fn flatten(&self, a: impl Into<Dim>, b: impl Into<Dim>) -> Tensor {
        let rank = self.rank().max(1);
        let start = attempt!("flatten", a.into().wrap(rank), self);
        let end = attempt!("flatten", b.into().wrap(rank), self);
        self.apply(Op::Flatten(Flatten { start, end }))
    }

    /// The dimensions in another order: dimension `i` of the result is dimension `dims[i]`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 3, 4], DType::F32, &Device::cpu());
    /// assert_eq!(x.permute([2, 0, 1]).dims(), [4, 2, 3]);
    /// ```
    #[track_caller]
    pub fn permute(&self, dims: impl Into<Dims>) -> Tensor {
        let rank = self.rank();
        let order = dims.into().list(rank).and_then(|dims| order(&dims, rank));
        self.apply(Op::Permute(Permute(attempt!("permute", order, self))))
    }

    /// Dimensions `from` moved to the places `to`, one or as many; the others keep their order. A 0-d tensor stays.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 3, 4], DType::F32, &Device::cpu());
    /// assert_eq!(x.movedim(0, -1).dims(), [3, 4, 2]);
    /// assert_eq!(x.movedim([0, 1], [1, 0]).dims(), [3, 2, 4]);
    /// ```
    #[track_caller]
    pub fn movedim(&self, from: impl Into<Dims>, to: impl Into<Dims>) -> Tensor {
        let order = attempt!("movedim", self.order_moved(&from.into(), &to.into()), self);
        self.apply_as("movedim", Op::Permute(Permute(order)))
    }

    fn order_moved(&self, from: &Dims, to: &Dims) -> Result<SmallVec<[u8; 6]>> {
        self.check()?;
        let rank = self.rank();
        let (from, to) = (from.list(rank.max(1))?, to.list(rank.max(1))?);
        if from.len() != to.len() {
            let why = format!("{} dimensions for {} places", from.len(), to.len());
            return Err(Error::argument(why));
        }
        if rank == 0 {
            return Ok(SmallVec::new());
        }
        let mut rest = (0..rank).filter(|dim| !from.contains(dim));
        let moved = |place| match to.iter().position(|&to| to == place) {
            Some(at) => from[at] as u8,
            None => rest.next().unwrap_or(0) as u8,
        };
        Ok((0..rank).map(moved).collect())
    }

    /// Dimensions `a` and `b` exchanged; of a 0-d tensor, itself.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 3, 4], DType::F32, &Device::cpu());
    /// assert_eq!(x.transpose(0, -1).dims(), [4, 3, 2]);
    /// ```
    #[track_caller]
    pub fn transpose(&self, a: impl Into<Dim>, b: impl Into<Dim>) -> Tensor {
        let rank = self.rank();
        let a = attempt!("transpose", a.into().wrap_along(rank), self);
        let b = attempt!("transpose", b.into().wrap_along(rank), self);
        if rank == 0 {
            return self.clone();
        }
        let mut dims = attempt!("transpose", Dims::from(..).list(rank), self);
        dims.swap(a, b);
        self.apply(Op::Permute(Permute(attempt!(
            "transpose",
            order(&dims, rank),
            self
        ))))
    }

    /// The transpose of a matrix; tensors of one dimension or none stay, more are an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 3], DType::F32, &Device::cpu());
    /// assert_eq!(x.t().dims(), [3, 2]);
    /// ```
    #[track_caller]
    pub fn t(&self) -> Tensor {
        match self.rank() {
            0 | 1 => self.clone(),
            2 => self.apply(Op::Permute(Permute(SmallVec::from_slice(&[1, 0])))),
            rank => {
                let why = format!("a tensor of rank {rank} is no matrix: use transpose or permute");
                Tensor::failed("t", Error::shape(why), &[self])
            }
        }
    }

    /// Dimensions of size 1 stretched to the sizes given, and new ones added in front; −1 keeps a size. Nothing is
    /// copied.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], [2, 1], &Device::cpu());
    /// assert_eq!(x.expand([-1, 2]).to_vec::<f64>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn expand(&self, shape: impl Into<Extents>) -> Tensor {
        let extents = attempt!("expand", shape.into().resolve(), self);
        self.apply(Op::Expand(Expand(extents)))
    }

    /// The tensor broadcast to a shape: another name of [`expand`](Tensor::expand).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.broadcast_to([2, 2]).to_vec::<f64>()?, [1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Extents>) -> Tensor {
        let extents = attempt!("broadcast_to", shape.into().resolve(), self);
        self.apply_as("broadcast_to", Op::Expand(Expand(extents)))
    }

    /// A dimension of size 1 removed (any of several); other sizes stay.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([1, 3, 1], DType::F32, &Device::cpu());
    /// assert_eq!(x.squeeze(0).dims(), [3, 1]);
    /// assert_eq!(x.squeeze(1).dims(), [1, 3, 1]);
    /// ```
    #[track_caller]
    pub fn squeeze(&self, dim: impl Into<Dims>) -> Tensor {
        let mask = attempt!("squeeze", dim.into().mask(self.rank()), self);
        self.apply(Op::Squeeze(Squeeze { mask }))
    }

    /// A dimension of size 1 added, to stand at `dim` in the result.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 3], DType::F32, &Device::cpu());
    /// assert_eq!(x.unsqueeze(0).dims(), [1, 2, 3]);
    /// assert_eq!(x.unsqueeze(-1).dims(), [2, 3, 1]);
    /// ```
    #[track_caller]
    pub fn unsqueeze(&self, dim: impl Into<Dim>) -> Tensor {
        let dim = attempt!("unsqueeze", dim.into().wrap_new(self.rank()), self);
        self.apply(Op::Unsqueeze(Unsqueeze { dim }))
    }

    /// Dimensions in reverse order.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4], [2, 2], &Device::cpu());
    /// assert_eq!(x.flip(1).to_vec::<i32>()?, [2, 1, 4, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn flip(&self, dims: impl Into<Dims>) -> Tensor {
        let mask = attempt!("flip", dims.into().mask(self.rank()), self);
        self.apply(Op::Flip(Flip { mask }))
    }

    /// The tensor itself. Compiled code stores it, by a kernel that computes this tensor alone: nothing before or after
    /// it is fused into that (scheduler L-08: a value that must not fuse is kept apart). For looking at one operation
    /// by itself, and for numbers that are to be rounded to the tensor's dtype here.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([4], DType::F32, &Device::cpu());
    /// let y = (x * 2.0).barrier() + 1.0;
    /// assert_eq!(y.to_vec::<f32>()?, [3.0; 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn barrier(&self) -> Tensor {
        self.apply(Op::Barrier)
    }

    /// The elements of dimensions moved by shifts, as many as there are dimensions; what leaves at one end comes in at the
    /// other. One shift of all dimensions, `..`, moves the elements in row-major order.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3], 3, &Device::cpu());
    /// assert_eq!(x.roll(-1, 0).to_vec::<i32>()?, [2, 3, 1]);
    /// let x = Tensor::from_slice(&[1, 2, 3, 4, 5, 6], [2, 3], &Device::cpu());
    /// assert_eq!(x.roll((1, 1), (0, 1)).to_vec::<i32>()?, [6, 4, 5, 3, 1, 2]);
    /// assert_eq!(x.roll(1, ..).to_vec::<i32>()?, [6, 1, 2, 3, 4, 5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn roll(&self, shifts: impl Into<Shifts>, dims: impl Into<Dims>) -> Tensor {
        let (shifts, dims) = (shifts.into(), dims.into());
        attempt!("roll", self.rolled(shifts.numbers(), &dims), self)
    }

    #[track_caller]
    fn rolled(&self, shifts: &[isize], dims: &Dims) -> Result<Tensor> {
        let rank = self.rank();
        if let (&[_], true, true) = (shifts, dims.is_all(), rank != 1) {
            let line = self.flatten(0, -1).rolled(shifts, &Dims::from(0))?;
            return Ok(line.reshape_as(self));
        }
        let dims = dims.list(rank.max(1))?;
        if dims.len() != shifts.len() {
            let why = format!("{} shifts of {} dimensions", shifts.len(), dims.len());
            return Err(Error::argument(why));
        }
        let mut x = self.clone();
        for (&shift, &dim) in shifts.iter().zip(&dims) {
            x = x.apply(Op::Composite(Composite::Roll(Roll { shift, dim })));
        }
        Ok(x)
    }

    /// The whole repeated, so many times a dimension; counts beyond the rank add leading dimensions. Counts are written as
    /// sizes are: a number, array, tuple, slice or vector.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], 2, &Device::cpu());
    /// assert_eq!(x.repeat(&[2, 2]).to_vec::<i32>()?, [1, 2, 1, 2, 1, 2, 1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn repeat(&self, counts: impl Into<Shape>) -> Tensor {
        let counts = SmallVec::from_slice(counts.into().dims());
        self.apply(Op::Repeat(Repeat(counts)))
    }

    /// [`repeat`](Tensor::repeat) with counts of 1 put in front where there are fewer than dimensions.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], [2, 1], &Device::cpu());
    /// assert_eq!(x.tile(2).to_vec::<i32>()?, [1, 1, 2, 2]);
    /// assert_eq!(x.tile((2, 1)).to_vec::<i32>()?, [1, 2, 1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn tile(&self, counts: impl Into<Shape>) -> Tensor {
        let counts = counts.into();
        let mut all = SmallVec::from_elem(1, self.rank().saturating_sub(counts.rank()));
        all.extend_from_slice(&counts);
        self.apply_as("tile", Op::Repeat(Repeat(all)))
    }
}
