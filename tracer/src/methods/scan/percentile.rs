//! Quantiles in percent.

use super::super::attempt;
use crate::Tensor;
use crate::args::{Dims, Quantiles};

impl Tensor {
    /// Percentiles of floats over dimensions, which go away: the [`quantile`](Tensor::quantile)s at `q` hundredths. One
    /// number `q`, or several, which give a new first dimension. A `q` outside [0, 100] and a tensor of no elements are
    /// errors.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[4.0, 1.0, 2.0, 8.0], 4, &Device::cpu());
    /// assert_eq!(x.percentile(50.0, 0).to_scalar::<f64>()?, 3.0);
    /// assert_eq!(x.percentile([0.0, 25.0], 0).to_vec::<f64>()?, [1.0, 1.75]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn percentile(&self, q: impl Into<Quantiles>, dims: impl Into<Dims>) -> Tensor {
        let q = attempt!("percentile", q.into().of_a_hundred(), self);
        self.quantile(q, dims).called("percentile", &[self])
    }

    /// As [`percentile`](Tensor::percentile), the dimensions staying with size 1.
    #[track_caller]
    pub fn percentile_keepdim(&self, q: impl Into<Quantiles>, dims: impl Into<Dims>) -> Tensor {
        let q = attempt!("percentile", q.into().of_a_hundred(), self);
        self.quantile_keepdim(q, dims).called("percentile", &[self])
    }
}
