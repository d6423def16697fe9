//! Two moments at once.

use crate::Tensor;
use crate::args::Dims;

/// `name` and `name_keepdim`: a moment and the mean, by the methods that give each alone.
macro_rules! pairs {
    ($($(#[doc = $doc:literal])* $name:ident $twin:ident $text:literal => $moment:ident $moment_twin:ident;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(&self, dims: impl Into<Dims>, correction: usize) -> (Tensor, Tensor) {
                let dims = dims.into();
                let moment = self.$moment(dims.clone(), correction);
                (moment.called($text, &[self]), self.mean(dims).called($text, &[self]))
            }

            #[doc = concat!("As [`", $text, "`](Tensor::", $text, "), the dimensions staying with size 1.")]
            #[track_caller]
            pub fn $twin(&self, dims: impl Into<Dims>, correction: usize) -> (Tensor, Tensor) {
                let dims = dims.into();
                let moment = self.$moment_twin(dims.clone(), correction);
                let mean = self.mean_keepdim(dims);
                (moment.called($text, &[self]), mean.called($text, &[self]))
            }
        )*}
    };
}

pairs! {
    /// The variance and the mean over dimensions: [`var`](Tensor::var) and [`mean`](Tensor::mean).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 3.0], 2, &Device::cpu());
    /// let (var, mean) = x.var_mean(0, 1);
    /// assert_eq!((var.to_scalar::<f64>()?, mean.to_scalar::<f64>()?), (2.0, 2.0));
    /// # Ok::<(), Error>(())
    /// ```
    var_mean var_mean_keepdim "var_mean" => var var_keepdim;

    /// The standard deviation and the mean of floats over dimensions: [`std`](Tensor::std) and [`mean`](Tensor::mean).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 3.0], 2, &Device::cpu());
    /// let (std, mean) = x.std_mean(0, 0);
    /// assert_eq!((std.to_scalar::<f64>()?, mean.to_scalar::<f64>()?), (1.0, 2.0));
    /// # Ok::<(), Error>(())
    /// ```
    std_mean std_mean_keepdim "std_mean" => std std_keepdim;
}
