//! Reductions that leave NaN out.

use crate::Tensor;
use crate::args::Dims;

macro_rules! without_nan {
    ($($(#[doc = $doc:literal])* $name:ident $twin:ident $text:literal => |$x:ident, $dims:ident| $sum:expr, $kept:expr;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(&self, dims: impl Into<Dims>) -> Tensor {
                let ($x, $dims) = (self, dims.into());
                ($sum).called($text, &[self])
            }

            #[doc = concat!("As [`", $text, "`](Tensor::", $text, "), the dimensions staying with size 1.")]
            #[track_caller]
            pub fn $twin(&self, dims: impl Into<Dims>) -> Tensor {
                let ($x, $dims) = (self, dims.into());
                ($kept).called($text, &[self])
            }
        )*}
    };
}

without_nan! {
    /// The [`sum`](Tensor::sum) over dimensions of the elements that are not NaN.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, f64::NAN, 3.0], 3, &Device::cpu());
    /// assert_eq!(x.nansum(0).item::<f64>()?, 4.0);
    /// # Ok::<(), Error>(())
    /// ```
    nansum nansum_keepdim "nansum" => |x, dims| x.numbers().sum(dims), x.numbers().sum_keepdim(dims);

    /// The [`mean`](Tensor::mean) over dimensions of the floats that are not NaN; NaN of none.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, f64::NAN, 3.0], 3, &Device::cpu());
    /// assert_eq!(x.nanmean(0).item::<f64>()?, 2.0);
    /// # Ok::<(), Error>(())
    /// ```
    nanmean nanmean_keepdim "nanmean" => |x, dims|
        x.mean_of(|x| x.sum(dims.clone())), x.mean_of(|x| x.sum_keepdim(dims.clone()));
}

impl Tensor {
    /// Zeros in place of NaN.
    #[track_caller]
    fn numbers(&self) -> Tensor {
        match self.dtype().is_float() {
            true => self.isnan().where_cond(0.0, self),
            false => self.clone(),
        }
    }

    #[track_caller]
    fn mean_of(&self, sum: impl Fn(&Tensor) -> Tensor) -> Tensor {
        if !self.dtype().is_float() {
            // The error of a mean of integers.
            return self.mean(..);
        }
        let wide = self.to_dtype(self.dtype().compute());
        let counts = sum(&self.isnan().logical_not()).to_dtype(wide.dtype());
        (sum(&wide.numbers()) / counts).to_dtype(self.dtype())
    }
}
