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

    /// The [`max`](Tensor::max) over dimensions of the elements that are not NaN; of NaN alone, NaN.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, f64::NAN, 3.0], 3, &Device::cpu());
    /// assert_eq!(x.nanmax(0).item::<f64>()?, 3.0);
    /// # Ok::<(), Error>(())
    /// ```
    nanmax nanmax_keepdim "nanmax" => |x, dims|
        x.extreme_of(f64::NEG_INFINITY, |x| x.max(dims.clone()), |x| x.sum(dims.clone())),
        x.extreme_of(f64::NEG_INFINITY, |x| x.max_keepdim(dims.clone()), |x| x.sum_keepdim(dims.clone()));

    /// The [`min`](Tensor::min) over dimensions of the elements that are not NaN; of NaN alone, NaN.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, f64::NAN, 3.0], 3, &Device::cpu());
    /// assert_eq!(x.nanmin(0).item::<f64>()?, 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    nanmin nanmin_keepdim "nanmin" => |x, dims|
        x.extreme_of(f64::INFINITY, |x| x.min(dims.clone()), |x| x.sum(dims.clone())),
        x.extreme_of(f64::INFINITY, |x| x.min_keepdim(dims.clone()), |x| x.sum_keepdim(dims.clone()));
}

macro_rules! moments_without_nan {
    ($($(#[doc = $doc:literal])* $name:ident $twin:ident $text:literal => $root:literal;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(&self, dims: impl Into<Dims>, correction: usize) -> Tensor {
                let dims = dims.into();
                let y = self.moment_of(&dims, correction, $root, |x| x.sum(dims.clone()));
                y.called($text, &[self])
            }

            #[doc = concat!("As [`", $text, "`](Tensor::", $text, "), the dimensions staying with size 1.")]
            #[track_caller]
            pub fn $twin(&self, dims: impl Into<Dims>, correction: usize) -> Tensor {
                let dims = dims.into();
                let y = self.moment_of(&dims, correction, $root, |x| x.sum_keepdim(dims.clone()));
                y.called($text, &[self])
            }
        )*}
    };
}

moments_without_nan! {
    /// The variance over dimensions of the floats that are not NaN, Σ (x − mean)² / (n − correction) for their number n;
    /// NaN where n is not above the correction.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, f64::NAN, 3.0], 3, &Device::cpu());
    /// assert_eq!(x.nanvar(0, 1).item::<f64>()?, 2.0);
    /// # Ok::<(), Error>(())
    /// ```
    nanvar nanvar_keepdim "nanvar" => false;

    /// The standard deviation of the floats that are not NaN: the square root of [`nanvar`](Tensor::nanvar).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, f64::NAN, 3.0], 3, &Device::cpu());
    /// assert_eq!(x.nanstd(0, 0).item::<f64>()?, 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    nanstd nanstd_keepdim "nanstd" => true;
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

    /// The extreme of what is not NaN, of which `least` never is one beside others.
    #[track_caller]
    fn extreme_of(
        &self,
        least: f64,
        extreme: impl Fn(&Tensor) -> Tensor,
        sum: impl Fn(&Tensor) -> Tensor,
    ) -> Tensor {
        if !self.dtype().is_float() {
            return extreme(self);
        }
        let is_nan = self.isnan();
        let found = extreme(&is_nan.where_cond(least, self));
        let none = sum(&is_nan.logical_not()).eq(0);
        none.where_cond(f64::NAN, &found)
    }

    #[track_caller]
    fn moment_of(
        &self,
        dims: &Dims,
        correction: usize,
        root: bool,
        sum: impl Fn(&Tensor) -> Tensor,
    ) -> Tensor {
        if !self.dtype().is_float() {
            // The error of a variance of integers.
            return self.var(.., correction);
        }
        let wide = self.to_dtype(self.dtype().compute());
        let (is_nan, numbers) = (wide.isnan(), wide.numbers());
        let is_number = is_nan.logical_not();
        let counts = is_number.sum_keepdim(dims.clone());
        let mean = numbers.sum_keepdim(dims.clone()) / counts.to_dtype(wide.dtype());
        let apart = is_nan.where_cond(0.0, wide - mean);
        let freedom = sum(&is_number) - correction as i64;
        let none = freedom.le(0);
        let by = freedom.clamp_min(1).to_dtype(apart.dtype());
        let variance = sum(&apart.square()) / by;
        let y = if root { variance.sqrt() } else { variance };
        none.where_cond(f64::NAN, &y).to_dtype(self.dtype())
    }
}
