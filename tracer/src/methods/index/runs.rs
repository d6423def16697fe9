//! Runs of equal elements.

use super::super::attempt;
use super::search::scattered;
use crate::Tensor;
use ferrotrace_kernels::op::Scan;
use ferrotrace_kernels::{BinaryOp, Op, ScanKind, ScatterMode};
use ferrotrace_runtime::{DType, Result};

impl Tensor {
    /// The elements in row-major order without those that equal the one before them, as a vector; NaN equals nothing. Their
    /// number is read at the call: it flushes.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 1, 2, 2, 1], 5, &Device::cpu());
    /// assert_eq!(x.unique_consecutive().to_vec::<i32>()?, [1, 2, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn unique_consecutive(&self) -> Tensor {
        attempt!("unique_consecutive", self.runs(), self).0
    }

    /// [`unique_consecutive`](Tensor::unique_consecutive), then for each element the position of its run among these, in
    /// this tensor's shape, and how long each run is, both as `I64`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 1, 2, 1], 4, &Device::cpu());
    /// let (values, inverse, counts) = x.unique_consecutive_with_counts();
    /// assert_eq!(values.to_vec::<i32>()?, [1, 2, 1]);
    /// assert_eq!(inverse.to_vec::<i64>()?, [0, 0, 1, 2]);
    /// assert_eq!(counts.to_vec::<i64>()?, [2, 1, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn unique_consecutive_with_counts(&self) -> (Tensor, Tensor, Tensor) {
        let (values, starts) = match self.runs() {
            Ok(runs) => runs,
            Err(error) => {
                let failed = Tensor::failed("unique_consecutive_with_counts", error, &[self]);
                return (failed.clone(), failed.clone(), failed);
            }
        };
        let scan = Op::Scan(Scan {
            kind: ScanKind::Sum,
            dim: 0,
        });
        let number = starts.apply(scan).binary(BinaryOp::Sub, 1);
        let none = Tensor::zeros(values.shape(), DType::I64, &self.device());
        let ones = Tensor::ones(number.shape(), DType::I64, &self.device());
        let counts = scattered(ScatterMode::Sum, &none, &number, &ones);
        (values, number.reshape(self.shape()), counts)
    }

    /// The first elements of the runs, and where these begin.
    #[track_caller]
    fn runs(&self) -> Result<(Tensor, Tensor)> {
        self.check()?;
        let flat = self.flatten(0, -1);
        let starts = flat.starts();
        let values = flat.masked_select(&starts);
        values.recorded()?;
        Ok((values, starts))
    }
}
