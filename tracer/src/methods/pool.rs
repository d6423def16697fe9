//! Pooling over windows of the trailing dimensions, and resampling.

mod adaptive;
mod grid;
mod powers;
mod resample;
mod unpool;
mod windows;

use ferrotrace_kernels::op::AdaptiveAvgPool;
pub use grid::GridPadding;
pub use resample::Interpolation;

use crate::Tensor;
use crate::args::Window;
use ferrotrace_kernels::{Op, PoolKind, PoolSpec};

macro_rules! pools {
    ($($(#[doc = $doc:literal])* $name:ident $n:literal $kind:ident;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(
                &self,
                kernel: impl Into<Window<$n>>,
                stride: impl Into<Window<$n>>,
                padding: impl Into<Window<$n>>,
            ) -> Tensor {
                let spec = PoolSpec {
                    kind: PoolKind::$kind,
                    kernel: kernel.into().sizes(),
                    stride: stride.into().sizes(),
                    padding: padding.into().sizes(),
                };
                self.apply(Op::Pool(Box::new(spec)))
            }
        )*}
    };
}

pools! {
    /// The greatest in each window of the last dimension, of the same dtype: l' = (l + 2·padding − kernel) / stride
    /// + 1, rounded down. Padding, at most half the window, never wins; NaN does.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 3.0, 2.0], [1, 1, 3], &Device::cpu());
    /// assert_eq!(x.max_pool1d(2, 1, 0).to_vec::<f64>()?, [3.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    max_pool1d 1 Max;

    /// As [`max_pool1d`](Tensor::max_pool1d), over windows of the last two dimensions.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 16, 1, DType::F32, &Device::cpu()).reshape([1, 1, 4, 4]);
    /// assert_eq!(x.max_pool2d(2, 2, 0).to_vec::<f32>()?, [5.0, 7.0, 13.0, 15.0]);
    /// # Ok::<(), Error>(())
    /// ```
    max_pool2d 2 Max;

    /// As [`max_pool1d`](Tensor::max_pool1d), over windows of the last three dimensions.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 8, 1, DType::F32, &Device::cpu()).reshape([1, 1, 2, 2, 2]);
    /// assert_eq!(x.max_pool3d(2, 2, 0).to_vec::<f32>()?, [7.0]);
    /// # Ok::<(), Error>(())
    /// ```
    max_pool3d 3 Max;

    /// The mean of each window of the last dimension, padding counted as zeros; sizes as in
    /// [`max_pool1d`](Tensor::max_pool1d).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 3.0, 2.0], [1, 1, 3], &Device::cpu());
    /// assert_eq!(x.avg_pool1d(2, 1, 0).to_vec::<f64>()?, [2.0, 2.5]);
    /// # Ok::<(), Error>(())
    /// ```
    avg_pool1d 1 Avg;

    /// As [`avg_pool1d`](Tensor::avg_pool1d), over windows of the last two dimensions.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 16, 1, DType::F32, &Device::cpu()).reshape([1, 1, 4, 4]);
    /// assert_eq!(x.avg_pool2d(2, 2, 0).to_vec::<f32>()?, [2.5, 4.5, 10.5, 12.5]);
    /// # Ok::<(), Error>(())
    /// ```
    avg_pool2d 2 Avg;

    /// As [`avg_pool1d`](Tensor::avg_pool1d), over windows of the last three dimensions.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 8, 1, DType::F32, &Device::cpu()).reshape([1, 1, 2, 2, 2]);
    /// assert_eq!(x.avg_pool3d(2, 2, 0).to_vec::<f32>()?, [3.5]);
    /// # Ok::<(), Error>(())
    /// ```
    avg_pool3d 3 Avg;
}

impl Tensor {
    /// The last two dimensions brought to `size`: each result is the mean of elements ⌊i·h/h'⌋ to ⌈(i + 1)·h/h'⌉.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 6, 1, DType::F32, &Device::cpu()).reshape([1, 1, 2, 3]);
    /// assert_eq!(x.adaptive_avg_pool2d([1, 2]).to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn adaptive_avg_pool2d(&self, size: impl Into<Window<2>>) -> Tensor {
        let sizes = size.into().sizes();
        let size = [sizes[0], sizes[1]];
        self.apply(Op::AdaptiveAvgPool(AdaptiveAvgPool { size }))
    }
}
