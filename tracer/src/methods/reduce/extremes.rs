//! The least and the greatest under PyTorch's names.

use crate::Tensor;
use crate::args::Dims;

/// `name` and `name_keepdim`, by the methods that reduce.
macro_rules! extremes {
    ($($(#[doc = $doc:literal])* $name:ident $twin:ident $text:literal => $reduce:ident $reduce_twin:ident;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(&self, dims: impl Into<Dims>) -> Tensor {
                self.$reduce(dims).called($text, &[self])
            }

            #[doc = concat!("As [`", $text, "`](Tensor::", $text, "), the dimensions staying with size 1.")]
            #[track_caller]
            pub fn $twin(&self, dims: impl Into<Dims>) -> Tensor {
                self.$reduce_twin(dims).called($text, &[self])
            }
        )*}
    };
}

extremes! {
    /// The greatest over dimensions: another name of [`max`](Tensor::max). Equal elements share the gradient.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 4.0, 3.0, 2.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.amax(1).to_vec::<f64>()?, [4.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    amax amax_keepdim "amax" => max max_keepdim;

    /// The least over dimensions: another name of [`min`](Tensor::min). Equal elements share the gradient.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 4.0, 3.0, 2.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.amin(1).to_vec::<f64>()?, [1.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    amin amin_keepdim "amin" => min min_keepdim;
}

impl Tensor {
    /// The least and the greatest over dimensions: [`min`](Tensor::min) and [`max`](Tensor::max).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 4.0, 3.0, 2.0], [2, 2], &Device::cpu());
    /// let (least, greatest) = x.aminmax(..);
    /// assert_eq!((least.item::<f64>()?, greatest.item::<f64>()?), (1.0, 4.0));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn aminmax(&self, dims: impl Into<Dims>) -> (Tensor, Tensor) {
        let dims = dims.into();
        let (least, greatest) = (self.min(dims.clone()), self.max(dims));
        (
            least.called("aminmax", &[self]),
            greatest.called("aminmax", &[self]),
        )
    }

    /// As [`aminmax`](Tensor::aminmax), the dimensions staying with size 1.
    #[track_caller]
    pub fn aminmax_keepdim(&self, dims: impl Into<Dims>) -> (Tensor, Tensor) {
        let dims = dims.into();
        let (least, greatest) = (self.min_keepdim(dims.clone()), self.max_keepdim(dims));
        (
            least.called("aminmax", &[self]),
            greatest.called("aminmax", &[self]),
        )
    }
}
