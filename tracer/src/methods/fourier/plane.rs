//! Transforms of images: along the last two dimensions.

use crate::Tensor;

impl Tensor {
    /// The [`fft`](Tensor::fft) along the last two dimensions, that of the pairs apart: `[.., n, m, 2]` gives the same sizes.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::randn([3, 4, 6, 2], DType::F64, &Device::cpu());
    /// assert!(x.fft2().allclose(&x.fft([-2, -1]), 0.0, 0.0)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn fft2(&self) -> Tensor {
        self.fft([-2, -1]).called("fft2", &[self])
    }

    /// The inverse of [`fft2`](Tensor::fft2).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::randn([3, 4, 6, 2], DType::F64, &Device::cpu());
    /// assert!(x.fft2().ifft2().allclose(&x, 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn ifft2(&self) -> Tensor {
        self.ifft([-2, -1]).called("ifft2", &[self])
    }

    /// The [`rfft`](Tensor::rfft) of real numbers along the last two dimensions: `[.., n, m]` gives pairs
    /// `[.., n, m/2 + 1, 2]`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([4, 6], DType::F32, &Device::cpu());
    /// assert_eq!(x.rfft2().dims(), [4, 4, 2]);
    /// ```
    #[track_caller]
    pub fn rfft2(&self) -> Tensor {
        self.rfft([-2, -1]).called("rfft2", &[self])
    }

    /// The inverse of [`rfft2`](Tensor::rfft2) to `n` real numbers along the last dimension, as [`irfft`](Tensor::irfft) takes
    /// it: pairs `[.., k, m, 2]` give `[.., k, n]`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::randn([4, 7], DType::F64, &Device::cpu());
    /// assert!(x.rfft2().irfft2(7).allclose(&x, 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn irfft2(&self, n: usize) -> Tensor {
        self.irfft(n, [-2, -1]).called("irfft2", &[self])
    }
}
