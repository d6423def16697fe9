//! Angles without jumps.

use super::super::attempt;
use crate::Tensor;
use crate::args::Dim;
use ferrotrace_runtime::{Error, Result};

impl Tensor {
    /// Floats along a dimension with multiples of `period` added, so that neighbours differ by half of it at most: angles
    /// that turn further, of `period` 2π, go on beyond it. The first element stays. A period that is not positive is an
    /// error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let hours = Tensor::from_slice(&[22.0, 23.0, 1.0, 3.0], 4, &Device::cpu());
    /// assert_eq!(hours.unwrap(0, 24.0).to_vec::<f64>()?, [22.0, 23.0, 25.0, 27.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn unwrap(&self, dim: impl Into<Dim>, period: f64) -> Tensor {
        attempt!("unwrap", self.unwrapped(dim.into(), period), self).called("unwrap", &[self])
    }

    #[track_caller]
    fn unwrapped(&self, dim: Dim, period: f64) -> Result<Tensor> {
        let x = self.as_floats("unwrap")?;
        let dim = dim.wrap_along(x.rank())?;
        if !(period > 0.0 && period.is_finite()) {
            let why = format!("a period of {period}: it must be positive");
            return Err(Error::argument(why));
        }
        if x.rank() == 0 || x.shape()[dim] < 2 {
            return Ok(self.clone());
        }
        let (n, half) = (x.shape()[dim], period / 2.0);
        let (first, rest) = (x.narrow(dim, 0, 1), x.narrow(dim, 1, n - 1));
        let step = &rest - x.narrow(dim, 0, n - 1);
        let turned = (&step + half).remainder(period) - half;
        // Half a period upwards stays, though the remainder tells it as half a period downwards.
        let upwards = turned.eq(-half).logical_and(&step.gt(0.0));
        let turned = upwards.where_cond(half, &turned);
        let small = step.abs().lt(half);
        let added = small.where_cond(0.0, turned - step).cumsum(dim);
        Ok(Tensor::cat([first, rest + added], dim).to_dtype(self.dtype()))
    }
}
