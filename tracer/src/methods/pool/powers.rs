//! Pooling by norms.

use super::super::attempt;
use crate::Tensor;
use crate::args::Pool;
use ferrotrace_runtime::{Error, Result};

macro_rules! pools_of_powers {
    ($($(#[doc = $doc:literal])* $name:ident $text:literal $n:literal $mean:ident;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(&self, p: f64, pool: impl Into<Pool>) -> Tensor {
                let pool = pool.into();
                let y = self.pooled_powers($text, p, &pool, $n, |x, pool| x.$mean(pool));
                attempt!($text, y, self).called($text, &[self])
            }
        )*}
    };
}

pools_of_powers! {
    /// The norm of order `p` of each window of the last dimension, of floats, (Σ xᵖ)^(1/p): `[N, C, L]` or `[C, L]`. Windows
    /// are [`Pool`]'s, without padding and dilation. A sum below 0, which odd orders give, has no root: NaN.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3.0, 4.0, 6.0, 8.0], [1, 1, 4], &Device::cpu());
    /// let y = x.lp_pool1d(2.0, 2).to_vec::<f64>()?;
    /// assert!((y[0] - 5.0).abs() < 1e-12 && (y[1] - 10.0).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    lp_pool1d "lp_pool1d" 1 avg_pool1d_with;

    /// As [`lp_pool1d`](Tensor::lp_pool1d), over windows of the last two dimensions.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([1, 1, 4, 4], DType::F32, &Device::cpu());
    /// assert_eq!(x.lp_pool2d(1.0, Pool::new(2)).to_vec::<f32>()?, [4.0; 4]);
    /// # Ok::<(), Error>(())
    /// ```
    lp_pool2d "lp_pool2d" 2 avg_pool2d_with;

    /// As [`lp_pool1d`](Tensor::lp_pool1d), over windows of the last three dimensions.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([1, 1, 2, 2, 2], DType::F32, &Device::cpu());
    /// assert_eq!(x.lp_pool3d(1.0, 2).to_vec::<f32>()?, [8.0]);
    /// # Ok::<(), Error>(())
    /// ```
    lp_pool3d "lp_pool3d" 3 avg_pool3d_with;
}

impl Tensor {
    #[track_caller]
    fn pooled_powers(
        &self,
        name: &str,
        p: f64,
        pool: &Pool,
        n: usize,
        mean: impl Fn(&Tensor, Pool) -> Tensor,
    ) -> Result<Tensor> {
        let x = self.as_floats(name)?;
        if p.is_nan() || p == 0.0 || p.is_infinite() {
            return Err(Error::argument(format!("norms of order {p}")));
        }
        let size: usize = pool.kernel.of(n, "a kernel of")?.iter().product();
        let mean = mean(&x.pow(p), pool.clone());
        Ok((mean * size as f64).pow(1.0 / p).to_dtype(self.dtype()))
    }
}
