//! Runs of a dimension, each reduced to one element.

use super::super::attempt;
use super::ReduceOp;
use crate::Tensor;
use crate::args::Dim;
use ferrotrace_runtime::{DType, Error, Result};

/// What a segment of no elements gives.
fn of_none(op: ReduceOp) -> f64 {
    match op {
        ReduceOp::Sum => 0.0,
        ReduceOp::Prod => 1.0,
        ReduceOp::Amax => f64::NEG_INFINITY,
        ReduceOp::Amin => f64::INFINITY,
        ReduceOp::Mean => f64::NAN,
    }
}

impl Tensor {
    /// Segments of a dimension that follow one another, each reduced to one element: PyTorch's `segment_reduce`. `lengths`,
    /// integers that are not negative, have the sizes of the dimensions before `axis`, and one dimension more, of the
    /// segments; that is `axis` of the result. What lies behind the last segment is left out.
    ///
    /// A segment of no elements gives `initial`, else 0 as a sum, 1 as a product, NaN as a mean and an infinity as an
    /// extreme. `initial` is one more element of each other segment, which a mean does not count. Equal extremes share the
    /// gradient. Floats alone.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0], 5, &Device::cpu());
    /// let lengths = Tensor::from_slice(&[2i64, 0, 3], 3, &Device::cpu());
    /// let sums = x.segment_reduce(ReduceOp::Sum, &lengths, 0, None);
    /// assert_eq!(sums.to_vec::<f64>()?, [3.0, 0.0, 12.0]);
    /// let most = x.segment_reduce(ReduceOp::Amax, &lengths, 0, 4.5);
    /// assert_eq!(most.to_vec::<f64>()?, [4.5, 4.5, 5.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn segment_reduce(
        &self,
        op: ReduceOp,
        lengths: &Tensor,
        axis: impl Into<Dim>,
        initial: impl Into<Option<f64>>,
    ) -> Tensor {
        let y = self.segments(op, lengths, axis.into(), initial.into());
        attempt!("segment_reduce", y, self, lengths).called("segment_reduce", &[self, lengths])
    }

    #[track_caller]
    fn segments(
        &self,
        op: ReduceOp,
        lengths: &Tensor,
        axis: Dim,
        initial: Option<f64>,
    ) -> Result<Tensor> {
        self.check()?;
        lengths.check()?;
        if !self.dtype().is_float() {
            return Err(Error::untaken("segment_reduce", self.dtype(), DType::F32));
        }
        if !lengths.dtype().is_int() {
            return Err(Error::untaken("lengths", lengths.dtype(), DType::I64));
        }
        let axis = axis.wrap(self.rank())?;
        let (shape, before) = (self.dims(), &self.dims()[..axis]);
        let count = match lengths.dims() {
            [first @ .., count] if first == before => *count,
            dims => {
                let why = format!("lengths {dims:?} for {before:?} and a dimension of segments");
                return Err(Error::shape(why));
            }
        };
        let ends = lengths.to_dtype(DType::I64).cumsum(-1);
        let places = Tensor::arange(0, shape[axis], 1, DType::I64, &self.device());
        let places = places.expand([before, &shape[axis..=axis]].concat());
        // The number of a place's segment: one more than there are is left out.
        let segment = ends.searchsorted(&places, true);
        let behind = vec![1; shape.len() - axis - 1];
        let aligned = |x: &Tensor, size: usize| x.reshape([before, &[size], &behind].concat());
        let segment = aligned(&segment, shape[axis]).expand(shape);
        let mut sizes = shape.to_vec();
        sizes[axis] = count + 1;
        let wide = self.to_dtype(self.dtype().compute());
        let summed = if op == ReduceOp::Mean {
            ReduceOp::Sum
        } else {
            op
        };
        let first = match (initial, summed) {
            (Some(initial), _) => initial,
            (None, op) => of_none(op),
        };
        let start = Tensor::full(sizes, first, wide.dtype(), &self.device());
        let y = start.scatter_reduce(axis as isize, &segment, &wide, summed, true);
        let mut y = y.narrow(axis as isize, 0, count);
        if op == ReduceOp::Mean {
            let lengths = aligned(lengths, count).to_dtype(wide.dtype());
            let mean = y / lengths.clamp_min(1.0);
            let none = initial.unwrap_or(f64::NAN);
            y = lengths.eq(0.0).where_cond(none, &mean);
        }
        Ok(y.to_dtype(self.dtype()))
    }
}
