//! Writing elements at positions. Every method gives a new tensor; what other handles see stays. Sources have the
//! tensor's dtype, but that of `slice_assign`, which is cast.

mod bag;
mod segments;

use super::attempt;
use super::index::{Indexing, rows};
use crate::args::{Dim, Operand};
use crate::{Input, Tensor};
use ferrotrace_kernels::op::{IndexPut, Scatter, SliceAssign};
use ferrotrace_kernels::{Op, ScatterMode};
use ferrotrace_runtime::{Error, Result};

pub use bag::{Bag, BagMode};

/// How [`scatter_reduce`](Tensor::scatter_reduce) joins values that meet at one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// The greatest; NaN if any is NaN.
    Amax,
    /// The least; NaN if any is NaN.
    Amin,
    /// Their mean; integers round down.
    Mean,
}

/// How a scatter joins what `op` says.
pub(super) fn mode_of(op: ReduceOp) -> ScatterMode {
    match op {
        ReduceOp::Sum => ScatterMode::Sum,
        ReduceOp::Prod => ScatterMode::Prod,
        ReduceOp::Amax => ScatterMode::Amax,
        ReduceOp::Amin => ScatterMode::Amin,
        ReduceOp::Mean => ScatterMode::Mean,
    }
}

impl Tensor {
    #[track_caller]
    fn scattered(&self, name: &'static str, op: Op, idx: &Tensor, src: &Tensor) -> Tensor {
        if let Err(error) = self.takes(src) {
            return Tensor::failed(name, error, &[self, idx, src]);
        }
        if let Some([row, at, src]) = rows([self, idx, src]) {
            let written = row.scattered(name, op, &at, &src);
            return if self.rank() == 0 {
                written.squeeze(0)
            } else {
                written
            };
        }
        let inputs = [Input::Tensor(self), Input::Tensor(idx), Input::Tensor(src)];
        Tensor::record_as(name, op, &inputs)
    }

    /// A source is of this tensor's dtype.
    fn takes(&self, src: &Tensor) -> Result<()> {
        self.check()?;
        src.check()?;
        let (own, other) = (self.dtype(), src.dtype());
        if own == other {
            return Ok(());
        }
        Err(Error::dtype(format!(
            "a source of {other} for a tensor of {own}: to_dtype(DType::{own:?}) first"
        )))
    }

    /// This tensor with `src[i]` written at `i with i[dim] replaced by idx[i]`, for each position `i` of the index;
    /// the last one in row-major order stays where several meet.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(3, DType::I64, &Device::cpu());
    /// let idx = Tensor::from_slice(&[2i64, 0], 2, &Device::cpu());
    /// let src = Tensor::from_slice(&[1i64, 2], 2, &Device::cpu());
    /// assert_eq!(x.scatter(0, &idx, &src).to_vec::<i64>()?, [2, 0, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn scatter(&self, dim: impl Into<Dim>, idx: &Tensor, src: &Tensor) -> Tensor {
        let dim = attempt!(
            "scatter",
            dim.into().wrap_along(self.rank()),
            self,
            idx,
            src
        );
        self.scatter_as("scatter", dim, idx, src, (ScatterMode::Assign, true))
    }

    /// As [`scatter`](Tensor::scatter), the values being added.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones(2, DType::I64, &Device::cpu());
    /// let idx = Tensor::from_slice(&[0i64, 0], 2, &Device::cpu());
    /// let src = Tensor::from_slice(&[1i64, 2], 2, &Device::cpu());
    /// assert_eq!(x.scatter_add(0, &idx, &src).to_vec::<i64>()?, [4, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_add(&self, dim: impl Into<Dim>, idx: &Tensor, src: &Tensor) -> Tensor {
        let dim = attempt!(
            "scatter_add",
            dim.into().wrap_along(self.rank()),
            self,
            idx,
            src
        );
        let op = Op::Scatter(Scatter {
            dim,
            mode: ScatterMode::Sum,
            include_self: true,
        });
        self.scattered("scatter_add", op, idx, src)
    }

    /// As [`scatter`](Tensor::scatter), the values that meet being joined by `op`, with the value already there among
    /// them where `include_self`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// # use ferrotrace_tracer::ReduceOp;
    /// let x = Tensor::from_slice(&[4.0, 5.0], 2, &Device::cpu());
    /// let idx = Tensor::from_slice(&[0i64, 0], 2, &Device::cpu());
    /// let src = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// let y = x.scatter_reduce(0, &idx, &src, ReduceOp::Mean, false);
    /// assert_eq!(y.to_vec::<f64>()?, [1.5, 5.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_reduce(
        &self,
        dim: impl Into<Dim>,
        idx: &Tensor,
        src: &Tensor,
        op: ReduceOp,
        include_self: bool,
    ) -> Tensor {
        let dim = attempt!(
            "scatter_reduce",
            dim.into().wrap_along(self.rank()),
            self,
            idx,
            src
        );
        let how = (mode_of(op), include_self);
        self.scatter_as("scatter_reduce", dim, idx, src, how)
    }

    /// A scatter of a mode, among what is there or not, for a method of another name.
    #[track_caller]
    pub(super) fn scatter_as(
        &self,
        name: &'static str,
        dim: usize,
        idx: &Tensor,
        src: &Tensor,
        (mode, include_self): (ScatterMode, bool),
    ) -> Tensor {
        let op = Op::Scatter(Scatter {
            dim,
            mode,
            include_self,
        });
        self.scattered(name, op, idx, src)
    }

    /// This tensor with `src`, broadcast, written (or added) where [`index`](Tensor::index) with the same entries
    /// would read.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(3, DType::F64, &Device::cpu());
    /// let idx = Tensor::from_slice(&[0i64, 0, 2], 3, &Device::cpu());
    /// let src = Tensor::from_slice(&[1.0, 2.0, 3.0], 3, &Device::cpu());
    /// assert_eq!(x.index_put(&[Some(&idx)], &src, true).to_vec::<f64>()?, [3.0, 0.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn index_put(&self, entries: &[Option<&Tensor>], src: &Tensor, accumulate: bool) -> Tensor {
        self.put_as("index_put", entries, src, accumulate)
    }

    /// [`index_put`](Tensor::index_put) for a method of another name.
    #[track_caller]
    pub(super) fn put_as(
        &self,
        name: &'static str,
        entries: &[Option<&Tensor>],
        src: &Tensor,
        accumulate: bool,
    ) -> Tensor {
        let Indexing { axes, at, indices } = match Indexing::of(self, entries) {
            Ok(indexing) => indexing,
            Err(error) => return Tensor::failed(name, error, &[self, src]),
        };
        if axes.is_empty() {
            let why = Error::argument("no axis is indexed");
            return Tensor::failed(name, why, &[self, src]);
        }
        attempt!(name, self.takes(src), self, src);
        let mut inputs = vec![Input::Tensor(self), Input::Tensor(src)];
        inputs.extend(indices.iter().map(Input::Tensor));
        let op = Op::IndexPut(IndexPut {
            axes,
            at,
            accumulate,
        });
        Tensor::record_as(name, op, &inputs)
    }

    /// This tensor with [`slice`](Tensor::slice)`(dim, start, end, step)` replaced by `src`: a tensor that broadcasts to it
    /// and is converted to this tensor's dtype, which must be of the same category or a higher one, or a number.
    ///
    /// No other tensor changes. After `x = x.slice_assign(..)` nothing but the slice is written if nothing else holds the
    /// old data, whether operations are recorded or not; if something does, the rest is copied once. Slices of several
    /// dimensions are written by [`assign`](Tensor::assign), or as an assignment to a slice:
    /// `x.slice_assign(0, a, b, 1, &x.slice(0, a, b, 1).slice_assign(1, ..))` writes what the inner one does.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros(4, DType::F64, &Device::cpu());
    /// let src = Tensor::from_slice(&[5.0, 6.0], 2, &Device::cpu());
    /// assert_eq!(x.slice_assign(0, 1, isize::MAX, 2, &src).to_vec::<f64>()?, [0.0, 5.0, 0.0, 6.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn slice_assign<'a>(
        &self,
        dim: impl Into<Dim>,
        start: isize,
        end: isize,
        step: usize,
        src: impl Into<Operand<'a>>,
    ) -> Tensor {
        let src = &attempt!("slice_assign", self.source(src.into()), self);
        let dim = attempt!("slice_assign", dim.into().wrap(self.rank()), self, src);
        let op = Op::SliceAssign(SliceAssign {
            dim,
            start,
            end,
            step,
        });
        Tensor::record(op, &[Input::Tensor(self), Input::Tensor(src)])
    }
}
