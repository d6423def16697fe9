//! Parts of a tensor: slices, selections, triangles, diagonals, windows; and padding.

mod border;
mod patches;

pub use border::PadMode;
use ferrotrace_kernels::op::{Diagonal, Narrow, Pad, Select, Slice, Triangle, Unfold};

use super::{attempt, element};
use crate::args::Dim;
use crate::{Input, Tensor};
use ferrotrace_kernels::{Composite, Op};
use ferrotrace_runtime::{Error, Scalar};
use smallvec::SmallVec;

impl Tensor {
    /// `len` elements of a dimension from `start` (negative: from the end); an error where there are fewer.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 5, 1, DType::I64, &Device::cpu());
    /// assert_eq!(x.narrow(0, 1, 2).to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn narrow(&self, dim: impl Into<Dim>, start: isize, len: usize) -> Tensor {
        let dim = attempt!("narrow", dim.into().wrap(self.rank()), self);
        self.apply(Op::Narrow(Narrow { dim, start, len }))
    }

    /// Every `step`-th element of a dimension from `start` until before `end`, both clamped as in Python and negative
    /// from the end; `isize::MAX` stands for the end. A step of 0 is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 5, 1, DType::I64, &Device::cpu());
    /// assert_eq!(x.slice(0, -3, isize::MAX, 2).to_vec::<i64>()?, [2, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn slice(&self, dim: impl Into<Dim>, start: isize, end: isize, step: usize) -> Tensor {
        let dim = attempt!("slice", dim.into().wrap(self.rank()), self);
        self.apply(Op::Slice(Slice {
            dim,
            start,
            end,
            step,
        }))
    }

    /// One index of a dimension (negative: from the end), which goes away.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4], [2, 2], &Device::cpu());
    /// assert_eq!(x.select(1, -1).to_vec::<i32>()?, [2, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn select(&self, dim: impl Into<Dim>, index: isize) -> Tensor {
        let dim = attempt!("select", dim.into().wrap(self.rank()), self);
        self.apply(Op::Select(Select { dim, index }))
    }

    /// Elements of value `v`, which has to [fit](Scalar::fits) the dtype, put before and after each dimension, from the
    /// first dimension on; negative counts crop.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], 2, &Device::cpu());
    /// assert_eq!(x.pad(&[(1, 2)], 9).to_vec::<i32>()?, [9, 1, 2, 9, 9]);
    /// assert_eq!(x.pad(&[(-1, 0)], 0).to_vec::<i32>()?, [2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn pad(&self, pads: &[(isize, isize)], v: impl Into<Scalar>) -> Tensor {
        let v = attempt!("pad", element(v.into(), self.dtype()), self);
        let op = Op::Pad(Pad(SmallVec::from_slice(pads)));
        Tensor::record(op, &[Input::Tensor(self), Input::Scalar(v)])
    }

    /// The lower triangle of the last two dimensions, up to diagonal `k` (0 the main one, positive above it); zeros
    /// elsewhere.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4], [2, 2], &Device::cpu());
    /// assert_eq!(x.tril(0).to_vec::<i32>()?, [1, 0, 3, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn tril(&self, k: isize) -> Tensor {
        self.apply(Op::Composite(Composite::Triangle(Triangle {
            k,
            upper: false,
        })))
    }

    /// The upper triangle of the last two dimensions, from diagonal `k` on; zeros elsewhere.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4], [2, 2], &Device::cpu());
    /// assert_eq!(x.triu(1).to_vec::<i32>()?, [0, 2, 0, 0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn triu(&self, k: isize) -> Tensor {
        self.apply(Op::Composite(Composite::Triangle(Triangle {
            k,
            upper: true,
        })))
    }

    /// The diagonal of dimensions `a` (rows) and `b` (columns), which go away, as a new last dimension; `offset` is
    /// positive above the main diagonal.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4], [2, 2], &Device::cpu());
    /// assert_eq!(x.diagonal(0, 0, 1).to_vec::<i32>()?, [1, 4]);
    /// assert_eq!(x.diagonal(-1, 0, 1).to_vec::<i32>()?, [3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal(&self, offset: isize, a: impl Into<Dim>, b: impl Into<Dim>) -> Tensor {
        let a = attempt!("diagonal", a.into().wrap(self.rank()), self);
        let b = attempt!("diagonal", b.into().wrap(self.rank()), self);
        self.apply(Op::Diagonal(Diagonal { offset, a, b }))
    }

    /// Windows of `size` elements of a dimension, `step` apart: that dimension counts them, and a new last one holds
    /// their elements. Nothing is copied.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 4, 1, DType::I64, &Device::cpu());
    /// assert_eq!(x.unfold(0, 2, 1).to_vec::<i64>()?, [0, 1, 1, 2, 2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn unfold(&self, dim: impl Into<Dim>, size: usize, step: usize) -> Tensor {
        let dim = attempt!("unfold", dim.into().wrap_along(self.rank()), self);
        if self.rank() == 0 {
            // As a row of one, whose only window is the result.
            let why = || Error::argument(format!("windows of {size} by {step} of one number"));
            let fits = if size < 2 && step > 0 {
                Ok(())
            } else {
                Err(why())
            };
            attempt!("unfold", fits, self);
            return self.unsqueeze(0).narrow(0, 0, size);
        }
        self.apply(Op::Unfold(Unfold { dim, size, step }))
    }
}
