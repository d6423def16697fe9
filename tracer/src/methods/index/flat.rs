//! Elements by their number in row-major order.

use super::super::attempt;
use crate::Tensor;
use ferrotrace_runtime::{DType, Error, Result};

/// Positions are integers; a mask is none.
fn check_places(idx: &Tensor) -> Result<()> {
    idx.check()?;
    match idx.dtype().is_int() {
        true => Ok(()),
        false => Err(Error::dtype(format!(
            "positions of {}: to_dtype(DType::I64) first",
            idx.dtype()
        ))),
    }
}

impl Tensor {
    /// The positions of what is not zero, as `I64` of shape `[count, rank]`, in row-major order: another name of
    /// [`nonzero`](Tensor::nonzero). The values are read at the call: it flushes.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0, 1, 2, 0], [2, 2], &Device::cpu());
    /// assert_eq!(x.argwhere().to_vec::<i64>()?, [0, 1, 1, 0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn argwhere(&self) -> Tensor {
        self.nonzero().called("argwhere", &[self])
    }

    /// The numbers, in row-major order, of the elements that are not zero: a vector of `I64`. The values are read at the
    /// call: it flushes.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0, 1, 2, 0], [2, 2], &Device::cpu());
    /// assert_eq!(x.flatnonzero().to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn flatnonzero(&self) -> Tensor {
        let found = self.flatten(0, -1).nonzero();
        found.flatten(0, -1).called("flatnonzero", &[self])
    }

    /// The elements that an index of integers counts in row-major order, in the index's shape. Negative numbers count from
    /// the end; one that is out of range is an error when the result is computed.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[4, 3, 5, 6, 7, 8], [2, 3], &Device::cpu());
    /// let idx = Tensor::from_slice(&[0i64, 2, -1], 3, &Device::cpu());
    /// assert_eq!(x.take(&idx).to_vec::<i32>()?, [4, 5, 8]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn take(&self, idx: &Tensor) -> Tensor {
        attempt!("take", check_places(idx), self, idx);
        let taken = self.flatten(0, -1).indexed("take", &[Some(idx)]);
        taken.called("take", &[self, idx])
    }

    /// This tensor with the elements of `src` written (or added) where [`take`](Tensor::take) with the same index would
    /// read. `src` has as many elements as the index, and this tensor's dtype. Where several are written to one place, the
    /// last stays.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[4, 3, 5, 6], [2, 2], &Device::cpu());
    /// let idx = Tensor::from_slice(&[1i64, -1], 2, &Device::cpu());
    /// let src = Tensor::from_slice(&[9, 10], 2, &Device::cpu());
    /// assert_eq!(x.put(&idx, &src, false).to_vec::<i32>()?, [4, 9, 5, 10]);
    /// assert_eq!(x.put(&idx, &src, true).to_vec::<i32>()?, [4, 12, 5, 16]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn put(&self, idx: &Tensor, src: &Tensor, accumulate: bool) -> Tensor {
        let written = self.written_flat(idx, src, accumulate);
        attempt!("put", written, self, idx, src).called("put", &[self, idx, src])
    }

    #[track_caller]
    fn written_flat(&self, idx: &Tensor, src: &Tensor, accumulate: bool) -> Result<Tensor> {
        check_places(idx)?;
        src.check()?;
        if idx.numel() != src.numel() {
            let (places, elements) = (idx.numel(), src.numel());
            return Err(Error::shape(format!(
                "{elements} elements for {places} positions"
            )));
        }
        let places = idx.flatten(0, -1).to_dtype(DType::I64);
        let flat = self.flatten(0, -1);
        let written = flat.put_as("put", &[Some(&places)], &src.flatten(0, -1), accumulate);
        written.recorded()?;
        Ok(written.reshape(self.shape()))
    }
}
