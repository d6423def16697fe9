//! Lengths of slices, and of neighbouring channels.

use super::super::attempt;
use crate::Tensor;
use crate::args::Dim;
use ferrotrace_runtime::{Error, Result};

impl Tensor {
    /// The slices along a dimension whose norm of order `p` is above `maxnorm` brought to that norm; others as they are. Of
    /// floats of two dimensions at least.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3.0, 4.0, 0.5, 0.0], [2, 2], &Device::cpu());
    /// let y = x.renorm(2.0, 0, 1.0).to_vec::<f64>()?;
    /// assert!((y[0] - 0.6).abs() < 1e-6 && y[2] == 0.5);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn renorm(&self, p: f64, dim: impl Into<Dim>, maxnorm: f64) -> Tensor {
        attempt!("renorm", self.bounded(p, dim.into(), maxnorm), self).called("renorm", &[self])
    }

    #[track_caller]
    fn bounded(&self, p: f64, dim: Dim, maxnorm: f64) -> Result<Tensor> {
        let x = self.as_floats("renorm")?;
        let dim = dim.wrap(self.rank())?;
        if self.rank() < 2 {
            let why = format!("{} has no slices", self.shape());
            return Err(Error::shape(why));
        }
        if p.is_nan() || p <= 0.0 || maxnorm.is_nan() || maxnorm < 0.0 {
            let why = format!("norms of order {p} up to {maxnorm}");
            return Err(Error::argument(why));
        }
        let others: Vec<usize> = (0..self.rank()).filter(|&d| d != dim).collect();
        let norms = x.norm_keepdim(p, &others[..]);
        // PyTorch's constant, by which bounded norms are a little less.
        let rate = norms
            .gt(maxnorm)
            .where_cond(&(maxnorm / (&norms + 1e-7)), 1.0);
        Ok((x * rate).to_dtype(self.dtype()))
    }

    /// Each element of `[N, C, ..]` over (k + alpha·m)^beta, m the mean of the squares at its place in `size` channels around its
    /// own, zeros beyond ([Krizhevsky et al. 2012](https://papers.nips.cc/paper/4824)). Of floats of three dimensions at least.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], [1, 2, 1], &Device::cpu());
    /// let y = x.local_response_norm(2, 2.0, 1.0, 1.0);
    /// assert_eq!(y.to_vec::<f64>()?, [0.5, 2.0 / 6.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn local_response_norm(&self, size: usize, alpha: f64, beta: f64, k: f64) -> Tensor {
        let y = self.inhibited(size, alpha, beta, k);
        attempt!("local_response_norm", y, self).called("local_response_norm", &[self])
    }

    #[track_caller]
    fn inhibited(&self, size: usize, alpha: f64, beta: f64, k: f64) -> Result<Tensor> {
        let x = self.as_floats("local_response_norm")?;
        if self.rank() < 3 || size == 0 {
            let why = format!("{size} channels around each of {}", self.shape());
            return Err(Error::shape(why));
        }
        let mut pads = vec![(0, 0); self.rank()];
        pads[1] = ((size / 2) as isize, ((size - 1) / 2) as isize);
        let means = x.square().pad(&pads, 0.0).unfold(1, size, 1).mean(-1);
        Ok((x / (means * alpha + k).pow(beta)).to_dtype(self.dtype()))
    }
}
