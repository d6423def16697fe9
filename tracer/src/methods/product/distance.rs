//! Angles and distances between vectors.

use super::super::attempt;
use crate::Tensor;
use crate::args::{Dim, Dims};
use ferrotrace_kernels::op::{Norm, Reduce};
use ferrotrace_kernels::ops::pointwise::promote;
use ferrotrace_kernels::{ArgMeta, Composite, Op, ReduceKind};
use ferrotrace_runtime::{DType, Error, Result, Scalar};

/// Both in the dtype of their arithmetic, and the dtype of the result of the operator of this name.
///
/// # Errors
/// One carries an error, or the promoted dtype is not of floats.
#[track_caller]
pub(super) fn floats(name: &str, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor, DType)> {
    a.check()?;
    b.check()?;
    let dtype = promote(&[a, b].map(|x| ArgMeta::Tensor(x.sizes(), x.dtype())));
    if !dtype.is_float() {
        return Err(Error::untaken(name, dtype, DType::F32));
    }
    let compute = dtype.compute();
    Ok((a.to_dtype(compute), b.to_dtype(compute), dtype))
}

impl Tensor {
    /// The cosine of the angle between vectors along a dimension, which goes away: Σ x·b / (max(‖x‖, eps)·max(‖b‖, eps)).
    /// Both broadcast and promote to floats. The gradient is that of x·b / (‖x‖·‖b‖) below `eps` too, as PyTorch has it.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3.0, 4.0, 0.0, 0.0], [2, 2], &Device::cpu());
    /// let y = Tensor::from_slice(&[2.0, 0.0], 2, &Device::cpu());
    /// let cosines = x.cosine_similarity(&y, 1, 1e-8).to_vec::<f64>()?;
    /// assert!((cosines[0] - 0.6).abs() < 1e-12 && cosines[1] == 0.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cosine_similarity(
        &self,
        b: &Tensor,
        dim: impl Into<Dim>,
        eps: impl Into<Scalar>,
    ) -> Tensor {
        let cosine = self.cosine(b, dim.into(), eps.into());
        attempt!("cosine_similarity", cosine, self, b).called("cosine_similarity", &[self, b])
    }

    #[track_caller]
    fn cosine(&self, b: &Tensor, dim: Dim, eps: Scalar) -> Result<Tensor> {
        let (x, y, dtype) = floats("cosine_similarity", self, b)?;
        let (own, other) = (x.shape(), y.shape());
        let Some(shape) = own.broadcast(other) else {
            let why = format!("shapes {own} and {other} do not broadcast");
            return Err(Error::shape(why));
        };
        let mask = Dims::from(dim).mask(shape.rank())?;
        // Norms are of what a dimension broadcasts to.
        let (x, y) = (x.expand(&shape), y.expand(&shape));
        let sum = Op::Reduce(Reduce {
            kind: ReduceKind::Sum,
            mask,
            keepdim: false,
        });
        let cosine = (x.unit(mask, eps) * y.unit(mask, eps)).apply(sum);
        Ok(cosine.to_dtype(dtype))
    }

    /// The vectors over their norms, at least `eps`.
    #[track_caller]
    fn unit(&self, mask: u64, eps: Scalar) -> Tensor {
        let norm = self.apply(Op::Composite(Composite::Norm(Norm {
            p: 2f64.to_bits(),
            mask,
            keepdim: true,
        })));
        let least = norm.maximum(eps);
        if !self.has_grad() {
            return self / least;
        }
        // The value is eps where the norm is less, the gradient always the norm's.
        let held = &norm + (least - &norm).detach();
        self / norm.lt(eps).where_cond(&held, &norm)
    }

    /// The distances between the rows of both: [`norm`](Tensor::norm)s of order `p` of their differences. `[.., n, d]` and
    /// `b` `[.., m, d]` give `[.., n, m]`; earlier dimensions broadcast, and dtypes promote to floats. The gradient at a
    /// distance of 0 is 0; of order ∞, coordinates that are equally far share it. A negative order is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 0.0, 3.0, 0.0], [2, 2], &Device::cpu());
    /// let y = Tensor::from_slice(&[3.0, 4.0], [1, 2], &Device::cpu());
    /// assert_eq!(x.cdist(&y, 2.0).to_vec::<f64>()?, [5.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cdist(&self, b: &Tensor, p: f64) -> Tensor {
        attempt!("cdist", self.distances(b, p), self, b).called("cdist", &[self, b])
    }

    #[track_caller]
    fn distances(&self, b: &Tensor, p: f64) -> Result<Tensor> {
        let (x, y, dtype) = floats("cdist", self, b)?;
        if p.is_nan() || p < 0.0 {
            let why = format!("distances of order {p}: it must not be negative");
            return Err(Error::argument(why));
        }
        for shape in [x.shape(), y.shape()] {
            if shape.rank() < 2 {
                let why = format!("points are rows of matrices, not {shape}");
                return Err(Error::shape(why));
            }
        }
        let (own, other) = (x.shape()[x.rank() - 1], y.shape()[y.rank() - 1]);
        if own != other {
            let why = format!("points of {own} and of {other} coordinates");
            return Err(Error::shape(why));
        }
        let apart = x.unsqueeze(-2) - y.unsqueeze(-3);
        // No coordinates have no greatest, but points of none are equal.
        let p = if own == 0 { 2.0 } else { p };
        Ok(apart.norm(p, -1).to_dtype(dtype))
    }
}
