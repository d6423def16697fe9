//! Covariances of rows of observations.

use super::super::attempt;
use crate::Tensor;
use ferrotrace_runtime::{DType, Error, Result};

impl Tensor {
    /// The covariances of variables, which are rows `[variables, observations]`: `[variables, variables]`, of one variable (a
    /// vector or number) a number. Integers give `F32`.
    ///
    /// Sums are divided by the number of observations less `correction`. `fweights` are integers that say how often each was
    /// made, `aweights` floats that say how much each counts. They are vectors; weights are not negative.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 1.0, 2.0, 2.0, 1.0, 0.0], [2, 3], &Device::cpu());
    /// assert_eq!(x.cov(1, None, None).to_vec::<f64>()?, [1.0, -1.0, -1.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cov(
        &self,
        correction: i64,
        fweights: Option<&Tensor>,
        aweights: Option<&Tensor>,
    ) -> Tensor {
        let cov = self.covariance(correction, fweights, aweights);
        attempt!("cov", cov, self).called("cov", &[self])
    }

    /// The correlations of variables, which are rows `[variables, observations]`: covariances over both standard deviations,
    /// from −1 to 1. Integers give `F32`; a variable that does not vary gives NaN.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 1.0, 2.0, 4.0, 2.0, 0.0], [2, 3], &Device::cpu());
    /// assert_eq!(x.corrcoef().to_vec::<f64>()?, [1.0, -1.0, -1.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn corrcoef(&self) -> Tensor {
        let cov = attempt!("corrcoef", self.covariance(1, None, None), self);
        let wide = cov.to_dtype(cov.dtype().compute());
        let y = match wide.rank() {
            0 => wide.divide(&wide, super::super::Rounding::True),
            _ => {
                let deviation = wide.diagonal(0, 0, 1).sqrt();
                let y = wide / deviation.unsqueeze(1) / deviation.unsqueeze(0);
                y.clamp(-1, 1)
            }
        };
        y.to_dtype(cov.dtype()).called("corrcoef", &[self])
    }

    #[track_caller]
    fn covariance(
        &self,
        correction: i64,
        fweights: Option<&Tensor>,
        aweights: Option<&Tensor>,
    ) -> Result<Tensor> {
        self.check()?;
        let dtype = match self.dtype().is_float() {
            true => self.dtype(),
            false => DType::F32,
        };
        let x = self.to_dtype(dtype.compute());
        let x = match x.rank() {
            0 => x.reshape([1, 1]),
            1 => x.unsqueeze(0),
            2 => x,
            _ => {
                let why = format!("variables are rows of a matrix, not {}", self.shape());
                return Err(Error::shape(why));
            }
        };
        let n = x.shape()[1];
        let weight = |of: Option<&Tensor>, kind: &str| -> Result<Option<Tensor>> {
            let Some(of) = of else { return Ok(None) };
            of.check()?;
            let taken = match kind {
                "fweights" => of.dtype().is_int(),
                _ => of.dtype().is_float(),
            };
            if !taken || of.shape()[..] != [n] {
                let why = format!("{kind} {} {} of {n} observations", of.dtype(), of.shape());
                return Err(Error::shape(why));
            }
            Ok(Some(of.to_dtype(x.dtype())))
        };
        let (f, a) = (weight(fweights, "fweights")?, weight(aweights, "aweights")?);
        let w = match (&f, &a) {
            (Some(f), Some(a)) => Some(f * a),
            (f, a) => f.clone().or_else(|| a.clone()),
        };
        let correction = correction as f64;
        let Some(w) = w else {
            let x = &x - x.mean_keepdim(1);
            let by = (n as f64 - correction).max(0.0);
            let cov = x.matmul(&x.t()) / by;
            return Ok(cov.squeeze_all().to_dtype(dtype));
        };
        let sum = w.sum(..);
        let mean = (&x * &w).sum_keepdim(1) / &sum;
        let x = x - mean;
        let by = match &a {
            Some(a) => &sum - (&w * a).sum(..) / &sum * correction,
            None => sum - correction,
        };
        let cov = (&x * w).matmul(&x.t()) / by.clamp_min(0);
        Ok(cov.squeeze_all().to_dtype(dtype))
    }

    /// A number for a matrix of one.
    #[track_caller]
    fn squeeze_all(&self) -> Tensor {
        match self.shape()[..] {
            [1, 1] => self.reshape(()),
            _ => self.clone(),
        }
    }
}
