//! Distances of pairs of vectors.

use super::super::attempt;
use super::distance::floats;
use crate::Tensor;
use ferrotrace_runtime::{DType, Error, Result};

impl Tensor {
    /// The distances of vectors along the last dimension: [`norm`](Tensor::norm)s of order `p` of x − b + `eps`. Both broadcast and
    /// promote to floats. The last dimension goes away, or stays with size 1 where `keepdim`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3.0, 4.0, 1.0, 1.0], [2, 2], &Device::cpu());
    /// let b = Tensor::zeros(2, DType::F64, &Device::cpu());
    /// assert_eq!(x.pairwise_distance(&b, 1.0, 0.0, false).to_vec::<f64>()?, [7.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn pairwise_distance(&self, b: &Tensor, p: f64, eps: f64, keepdim: bool) -> Tensor {
        let both = floats("pairwise_distance", self, b);
        let (x, y, dtype) = attempt!("pairwise_distance", both, self, b);
        let apart = x - y + eps;
        let y = match keepdim {
            true => apart.norm_keepdim(p, -1),
            false => apart.norm(p, -1),
        };
        y.to_dtype(dtype).called("pairwise_distance", &[self, b])
    }

    /// The norm of order `p` of x − b over all elements. Both broadcast and promote to floats.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3.0, 4.0], 2, &Device::cpu());
    /// assert_eq!(x.dist(&x.zeros_like(), 2.0).item::<f64>()?, 5.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn dist(&self, b: &Tensor, p: f64) -> Tensor {
        let (x, y, dtype) = attempt!("dist", floats("dist", self, b), self, b);
        let y = (x - y).norm(p, ..).to_dtype(dtype);
        y.called("dist", &[self, b])
    }

    /// The distances of all pairs of rows of a matrix `[n, d]`, norms of order `p`: `[n·(n − 1) / 2]`, those of the first row
    /// with the others before those of the second. Of floats.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 1.0, 3.0], [3, 1], &Device::cpu());
    /// assert_eq!(x.pdist(2.0).to_vec::<f64>()?, [1.0, 3.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn pdist(&self, p: f64) -> Tensor {
        attempt!("pdist", self.rows_apart(p), self).called("pdist", &[self])
    }

    #[track_caller]
    fn rows_apart(&self, p: f64) -> Result<Tensor> {
        let x = self.as_floats("pdist")?;
        let &[n, _] = &self.shape()[..] else {
            let why = format!("points are rows of a matrix, not {}", self.shape());
            return Err(Error::shape(why));
        };
        // In row-major order, pairs of one row follow one another.
        let (count, device) = (n * n.saturating_sub(1) / 2, self.device());
        if count == 0 {
            return Ok(Tensor::zeros(0, self.dtype(), &device));
        }
        let line = Tensor::arange(0, n, 1, DType::I64, &device);
        let last = (&line + 1) * (2 * n as i64 - 2 - &line);
        let ends = last.divide(2, super::super::Rounding::Floor);
        let pairs = Tensor::arange(0, count, 1, DType::I64, &device);
        let first = ends.searchsorted(&pairs, true);
        let before = &first * (2 * n as i64 - 1 - &first);
        let before = before.divide(2, super::super::Rounding::Floor);
        let second = pairs - before + &first + 1;
        let apart = x.index_select(0, &first) - x.index_select(0, &second);
        Ok(apart.norm(p, -1).to_dtype(self.dtype()))
    }
}
