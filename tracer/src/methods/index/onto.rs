//! Diagonals and slices replaced.

use super::super::attempt;
use crate::Tensor;
use crate::args::Dim;
use ferrotrace_runtime::{DType, Error, Result, Scalar};

impl Tensor {
    /// The positions along a dimension, with size 1 in all others.
    #[track_caller]
    fn positions(&self, dim: usize) -> Tensor {
        let (n, mut line) = (self.shape()[dim], vec![1; self.rank()]);
        line[dim] = n;
        Tensor::arange(0, n, 1, DType::I64, &self.device()).reshape(line)
    }

    /// This tensor with a number on its main diagonal, where all indices are equal. It has two dimensions, or more of one
    /// size. With `wrap`, the diagonal of a matrix of more rows than columns begins anew below each square, a row apart. A
    /// number that does not [fit](Scalar::fits) the dtype is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([2, 2], DType::I64, &Device::cpu());
    /// assert_eq!(x.fill_diagonal(5, false).to_vec::<i64>()?, [5, 0, 0, 5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn fill_diagonal(&self, value: impl Into<Scalar>, wrap: bool) -> Tensor {
        let on = attempt!("fill_diagonal", self.main_diagonal(wrap), self);
        let filled = self.masked_fill(&on, value);
        filled.called("fill_diagonal", &[self])
    }

    /// Where the main diagonal is.
    #[track_caller]
    fn main_diagonal(&self, wrap: bool) -> Result<Tensor> {
        self.check()?;
        let sizes = self.shape();
        if sizes.rank() < 2 {
            return Err(Error::shape(format!("{sizes} has no diagonal")));
        }
        if sizes.rank() > 2 && sizes.iter().any(|&size| size != sizes[0]) {
            let why = format!("the diagonal of {sizes}, whose sizes differ");
            return Err(Error::shape(why));
        }
        let first = self.positions(0);
        if sizes.rank() == 2 && wrap {
            let columns = sizes[1] as i64;
            let number = first * columns + self.positions(1);
            return Ok(number.remainder(columns + 1).eq(0));
        }
        let mut on = first.eq(self.positions(1));
        for dim in 2..sizes.rank() {
            on = on.logical_and(&first.eq(self.positions(dim)));
        }
        Ok(on)
    }

    /// This tensor with diagonal `offset` of dimensions `a` and `b` replaced by `src`, which has the shape that
    /// [`diagonal`](Tensor::diagonal) gives and is converted to this tensor's dtype.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([2, 3], DType::I64, &Device::cpu());
    /// let src = Tensor::from_slice(&[7i64, 8], 2, &Device::cpu());
    /// assert_eq!(x.diagonal_scatter(&src, 1, 0, 1).to_vec::<i64>()?, [0, 7, 0, 0, 0, 8]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal_scatter(
        &self,
        src: &Tensor,
        offset: isize,
        a: impl Into<Dim>,
        b: impl Into<Dim>,
    ) -> Tensor {
        let replaced = self.onto_diagonal(src, offset, a.into(), b.into());
        attempt!("diagonal_scatter", replaced, self, src).called("diagonal_scatter", &[self, src])
    }

    #[track_caller]
    fn onto_diagonal(&self, src: &Tensor, offset: isize, a: Dim, b: Dim) -> Result<Tensor> {
        let old = self.diagonal(offset, a, b);
        old.recorded()?;
        fits(src, &old)?;
        let (a, b) = (a.wrap(self.rank())?, b.wrap(self.rank())?);
        let last = self.rank() - 2;
        let x = self.movedim([a, b], [last, last + 1]);
        let on = (x.positions(last + 1) - x.positions(last)).eq(offset as i64);
        // Each element stands in the row (below the main diagonal, the column) of its place; the rest is not read.
        let (whole, beside) = match offset < 0 {
            false => (self.shape()[a], -1),
            true => (self.shape()[b], -2),
        };
        let mut pads = vec![(0, 0); src.rank()];
        pads[last].1 = (whole - old.shape()[last]) as isize;
        let spread = src.to_dtype(self.dtype()).pad(&pads, 0).unsqueeze(beside);
        let y = on.where_cond(&spread, &x);
        Ok(y.movedim([last, last + 1], [a, b]))
    }

    /// This tensor with one index of a dimension replaced by `src`, which has the shape that [`select`](Tensor::select) gives
    /// and is converted to this tensor's dtype. [`select_assign`](Tensor::select_assign) takes numbers, and broadcasts.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([2, 3], DType::I64, &Device::cpu());
    /// let src = Tensor::from_slice(&[1i64, 2], 2, &Device::cpu());
    /// assert_eq!(x.select_scatter(&src, 1, -1).to_vec::<i64>()?, [0, 0, 1, 0, 0, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn select_scatter(&self, src: &Tensor, dim: impl Into<Dim>, index: isize) -> Tensor {
        let dim = attempt!("select_scatter", dim.into().wrap(self.rank()), self, src);
        let old = self.select(dim, index);
        attempt!("select_scatter", fits(src, &old), self, src);
        let replaced = self.select_assign(dim, index, src.to_dtype(self.dtype()));
        replaced.called("select_scatter", &[self, src])
    }
}

/// # Errors
/// What replaces a part does not have its shape.
fn fits(src: &Tensor, part: &Tensor) -> Result<()> {
    src.check()?;
    part.recorded()?;
    match src.shape() == part.shape() {
        true => Ok(()),
        false => Err(Error::shape(format!(
            "{} for a part of shape {}",
            src.shape(),
            part.shape()
        ))),
    }
}
