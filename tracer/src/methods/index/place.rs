//! Reads and writes at positions that other operators express.

use super::super::attempt;
use crate::args::{Dim, Operand};
use crate::{Input, Tensor};
use ferrotrace_kernels::Op;
use ferrotrace_kernels::op::{Flatten, Gather, IndexPut, Squeeze, Unsqueeze};
use ferrotrace_runtime::{DType, Error, Result, Shape};
use smallvec::SmallVec;

impl Tensor {
    /// The positions in a tensor of this shape of elements that are numbered in row-major order: an `I64` tensor for each
    /// dimension. Negative numbers count from the end.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let at = Tensor::from_slice(&[5i64, -1], 2, &Device::cpu()).unravel_index([2, 4]);
    /// assert_eq!(at[0].to_vec::<i64>()?, [1, 1]);
    /// assert_eq!(at[1].to_vec::<i64>()?, [1, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn unravel_index(&self, shape: impl AsRef<[usize]>) -> Vec<Tensor> {
        let mut step = 1i64;
        let mut at: Vec<Tensor> = Vec::new();
        for &size in shape.as_ref().iter().rev() {
            let size = size as i64;
            let along = match self.dtype().is_int() {
                true => self.to_dtype(DType::I64).floor_divide(step).remainder(size),
                false => {
                    let error = Error::untaken("unravel_index", self.dtype(), DType::I64);
                    Tensor::failed("unravel_index", error, &[self])
                }
            };
            at.push(along.called("unravel_index", &[self]));
            step = step.saturating_mul(size.max(1));
        }
        at.reverse();
        at
    }

    /// [`gather`](Tensor::gather) with this tensor and the index broadcast against each other outside `dim`: with what
    /// `argsort` or `argmax_keepdim` give, what these found.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3, 1, 2, 9, 7, 8], [2, 3], &Device::cpu());
    /// assert_eq!(x.take_along_dim(&x.argmax_keepdim(1), 1).to_vec::<i32>()?, [3, 9]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn take_along_dim(&self, idx: &Tensor, dim: impl Into<Dim>) -> Tensor {
        let aligned = self.along(idx, dim.into());
        let (x, at, dim) = attempt!("take_along_dim", aligned, self, idx);
        let op = Op::Gather(Gather { dim });
        Tensor::record_as(
            "take_along_dim",
            op,
            &[Input::Tensor(&x), Input::Tensor(&at)],
        )
        .called("take_along_dim", &[self, idx])
    }

    /// This tensor and an index, each broadcast to the other outside the dimension.
    #[track_caller]
    fn along(&self, idx: &Tensor, dim: Dim) -> Result<(Tensor, Tensor, usize)> {
        self.check()?;
        idx.check()?;
        let (x, at) = (self.shape(), idx.shape());
        if x.rank() != at.rank() {
            let (a, b) = (at.rank(), x.rank());
            let why = format!("an index of rank {a} for a tensor of rank {b}");
            return Err(Error::shape(why));
        }
        let dim = dim.wrap_along(x.rank())?;
        let fits = |d: usize| d == dim || x[d] == at[d] || x[d] == 1 || at[d] == 1;
        if !(0..x.rank()).all(fits) {
            let why = format!("shapes {x} and {at} do not broadcast outside dimension {dim}");
            return Err(Error::shape(why));
        }
        if (0..x.rank()).all(|d| d == dim || x[d] == at[d]) {
            return Ok((self.clone(), idx.clone(), dim));
        }
        let sizes = |own: &Shape, other: &Shape| -> Shape {
            let size = |d: usize| {
                if d == dim || own[d] != 1 {
                    own[d]
                } else {
                    other[d]
                }
            };
            (0..own.rank()).map(size).collect()
        };
        Ok((self.expand(sizes(x, at)), idx.expand(sizes(at, x)), dim))
    }

    /// This tensor with slice `i` of `src` added to its slice `idx[i]` of a dimension, for each `i`: the index has one
    /// dimension (or none), `src` this tensor's shape but for the index's size in `dim`, and the same dtype.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([3, 2], DType::I64, &Device::cpu());
    /// let idx = Tensor::from_slice(&[2i64, 0, 2], 3, &Device::cpu());
    /// let src = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], [3, 2], &Device::cpu());
    /// assert_eq!(x.index_add(0, &idx, &src).to_vec::<i64>()?, [3, 4, 0, 0, 6, 8]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn index_add(&self, dim: impl Into<Dim>, idx: &Tensor, src: &Tensor) -> Tensor {
        let dim = attempt!(
            "index_add",
            self.addable(dim.into(), idx, src),
            self,
            idx,
            src
        );
        let op = Op::IndexPut(IndexPut {
            axes: SmallVec::from_slice(&[dim as u8]),
            at: dim,
            accumulate: true,
        });
        let inputs = [self.as_row(), src.as_row(), idx.as_row()];
        let inputs = [0, 1, 2].map(|i: usize| Input::Tensor(&inputs[i]));
        let sum = Tensor::record_as("index_add", op, &inputs);
        let sum = if self.rank() == 0 {
            sum.apply(Op::Squeeze(Squeeze { mask: 1 }))
        } else {
            sum
        };
        sum.called("index_add", &[self, idx, src])
    }

    /// The tensor itself, or a vector of one element for a number.
    #[track_caller]
    fn as_row(&self) -> Tensor {
        match self.rank() {
            0 => self.apply(Op::Unsqueeze(Unsqueeze { dim: 0 })),
            _ => self.clone(),
        }
    }

    fn addable(&self, dim: Dim, idx: &Tensor, src: &Tensor) -> Result<usize> {
        [self, idx, src].iter().try_for_each(|t| t.check())?;
        let dim = dim.wrap_along(self.rank())?;
        let (x, at, from) = (self.shape(), idx.shape(), src.shape());
        if at.rank() > 1 {
            let why = format!("the index has {} dimensions, not 1", at.rank());
            return Err(Error::shape(why));
        }
        if self.dtype() != src.dtype() {
            let (a, b) = (self.dtype(), src.dtype());
            let why = format!("a source of {b} for a tensor of {a}: to_dtype(DType::{a:?}) first");
            return Err(Error::dtype(why));
        }
        let mut expected = x.clone();
        if let Some(size) = expected.dims_mut().get_mut(dim) {
            *size = at.numel();
        }
        let single = x.rank() == 0 && at.numel() == 1 && from.numel() == 1 && from.rank() <= 1;
        if !single && (*from != expected || x.rank() == 0) {
            let why = format!("a source of shape {from} where {expected} is needed");
            return Err(Error::shape(why));
        }
        Ok(dim)
    }

    /// Each slice of a dimension repeated: so many times each, or as often as a tensor of integers says for each slice
    /// (of one dimension; a single number stands for all). A tensor of counts is read at the call: it flushes.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], 2, &Device::cpu());
    /// assert_eq!(x.repeat_interleave(2, 0).to_vec::<i32>()?, [1, 1, 2, 2]);
    /// let counts = Tensor::from_slice(&[0i64, 3], 2, &Device::cpu());
    /// assert_eq!(x.repeat_interleave(&counts, 0).to_vec::<i32>()?, [2, 2, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn repeat_interleave<'a>(
        &self,
        repeats: impl Into<Operand<'a>>,
        dim: impl Into<Dim>,
    ) -> Tensor {
        let dim = attempt!(
            "repeat_interleave",
            dim.into().wrap_along(self.rank()),
            self
        );
        let x = self.as_row();
        let repeated = match repeats.into() {
            Operand::Scalar(n) => x.each_repeated(n.to_f64(), dim),
            Operand::Tensor(counts) => x.counted(counts, dim),
            Operand::Owned(counts) => x.counted(&counts, dim),
        };
        attempt!("repeat_interleave", repeated, self).called("repeat_interleave", &[self])
    }

    #[track_caller]
    fn each_repeated(&self, n: f64, dim: usize) -> Result<Tensor> {
        self.check()?;
        if n < 0.0 || n.fract() != 0.0 || n > isize::MAX as f64 {
            return Err(Error::argument(format!("{n} is no number of repetitions")));
        }
        let mut sizes = self.shape().clone();
        sizes.dims_mut().insert(dim + 1, n as usize);
        let wide = self
            .apply(Op::Unsqueeze(Unsqueeze { dim: dim + 1 }))
            .expand(sizes);
        Ok(wide.apply(Op::Flatten(Flatten {
            start: dim,
            end: dim + 1,
        })))
    }

    #[track_caller]
    fn counted(&self, counts: &Tensor, dim: usize) -> Result<Tensor> {
        self.check()?;
        counts.check()?;
        let size = self.shape()[dim];
        if counts.rank() > 1 || !(counts.numel() == size || counts.numel() == 1) {
            let (shape, n) = (counts.sizes(), counts.rank());
            let why = format!(
                "counts of shape {shape} ({n} dimensions) for dimension {dim} of size {size}"
            );
            return Err(Error::shape(why));
        }
        if !counts.dtype().is_int() {
            let ty = counts.dtype();
            let why = format!("counts of {ty}, no integers: to_dtype(DType::I64) first");
            return Err(Error::dtype(why));
        }
        let counts: Vec<i64> = counts.to_dtype(ferrotrace_runtime::DType::I64).to_vec()?;
        if let Some(n) = counts.iter().find(|n| **n < 0) {
            return Err(Error::argument(format!("{n} is no number of repetitions")));
        }
        if let ([n], true) = (&counts[..], size != 1) {
            return self.each_repeated(*n as f64, dim);
        }
        let from = counts.iter().enumerate();
        let from: Vec<i64> = from
            .flat_map(|(i, &n)| std::iter::repeat_n(i as i64, n as usize))
            .collect();
        let len = from.len();
        Ok(self.index_select(dim, &Tensor::from_vec(from, len, &self.device())))
    }
}
