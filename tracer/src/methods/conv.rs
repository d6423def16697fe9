//! Convolutions (cross-correlations, as the field calls them) over 1, 2 or 3 spatial dimensions.

mod options;

use crate::args::Window;
use crate::{Input, Tensor};
use ferrotrace_kernels::op::ConvBias;
use ferrotrace_kernels::{Composite, ConvSpec, Op};

#[track_caller]
fn convolved(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, spec: ConvSpec) -> Tensor {
    let spec = Box::new(spec);
    match bias {
        Some(_) => x.with_tensors(
            Composite::ConvBias(ConvBias(spec)),
            &[Some(weight), bias],
            &[],
        ),
        None => Tensor::record(Op::Conv(spec), &[Input::Tensor(x), Input::Tensor(weight)]),
    }
}

macro_rules! convolutions {
    ($($(#[doc = $doc:literal])* $name:ident $n:literal;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(
                &self,
                weight: &Tensor,
                bias: Option<&Tensor>,
                stride: impl Into<Window<$n>>,
                padding: impl Into<Window<$n>>,
                dilation: impl Into<Window<$n>>,
                groups: usize,
            ) -> Tensor {
                let spec = ConvSpec {
                    stride: stride.into().sizes(),
                    padding: padding.into().sizes(),
                    dilation: dilation.into().sizes(),
                    output_padding: Window::<$n>::from(0).sizes(),
                    groups,
                    transposed: false,
                };
                convolved(self, weight, bias, spec)
            }
        )*}
    };
}

convolutions! {
    /// Convolution of `[n, in, l]` with a weight `[out, in / groups, k]` and a bias `[out]`: `[n, out, l']` with
    /// l' = (l + 2·padding − dilation·(k − 1) − 1) / stride + 1, rounded down.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0], [1, 1, 3], &Device::cpu());
    /// let w = Tensor::from_slice(&[1.0, 10.0], [1, 1, 2], &Device::cpu());
    /// assert_eq!(x.conv1d(&w, None, 1, 0, 1, 1).to_vec::<f64>()?, [21.0, 32.0]);
    /// # Ok::<(), Error>(())
    /// ```
    conv1d 1;

    /// Convolution of `[n, in, h, w]` with a weight `[out, in / groups, kh, kw]` and a bias `[out]`; sizes as in
    /// [`conv1d`](Tensor::conv1d).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([1, 1, 3, 4], DType::F32, &Device::cpu());
    /// let w = Tensor::ones([1, 1, 2, 2], DType::F32, &Device::cpu());
    /// assert_eq!(x.conv2d(&w, None, [1, 2], 0, 1, 1).to_vec::<f32>()?, [4.0; 4]);
    /// # Ok::<(), Error>(())
    /// ```
    conv2d 2;

    /// Convolution of `[n, in, d, h, w]` with a weight `[out, in / groups, kd, kh, kw]` and a bias `[out]`; sizes as
    /// in [`conv1d`](Tensor::conv1d).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([1, 1, 2, 2, 2], DType::F32, &Device::cpu());
    /// assert_eq!(x.conv3d(&x, None, 1, 0, 1, 1).to_vec::<f32>()?, [8.0]);
    /// # Ok::<(), Error>(())
    /// ```
    conv3d 3;
}

macro_rules! transposed_convolutions {
    ($($(#[doc = $doc:literal])* $name:ident $n:literal;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[allow(clippy::too_many_arguments)]
            #[track_caller]
            pub fn $name(
                &self,
                weight: &Tensor,
                bias: Option<&Tensor>,
                stride: impl Into<Window<$n>>,
                padding: impl Into<Window<$n>>,
                output_padding: impl Into<Window<$n>>,
                dilation: impl Into<Window<$n>>,
                groups: usize,
            ) -> Tensor {
                let spec = ConvSpec {
                    stride: stride.into().sizes(),
                    padding: padding.into().sizes(),
                    dilation: dilation.into().sizes(),
                    output_padding: output_padding.into().sizes(),
                    groups,
                    transposed: true,
                };
                convolved(self, weight, bias, spec)
            }
        )*}
    };
}

transposed_convolutions! {
    /// The transpose (gradient) of a convolution: `[n, in, l]` with a weight `[in, out / groups, k]` and a bias
    /// `[out]` gives `[n, out, l']` with l' = (l − 1)·stride − 2·padding + dilation·(k − 1) + output_padding + 1.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], [1, 1, 2], &Device::cpu());
    /// let w = Tensor::from_slice(&[1.0, 10.0], [1, 1, 2], &Device::cpu());
    /// assert_eq!(x.conv_transpose1d(&w, None, 1, 0, 0, 1, 1).to_vec::<f64>()?, [1.0, 12.0, 20.0]);
    /// # Ok::<(), Error>(())
    /// ```
    conv_transpose1d 1;

    /// The transpose of [`conv2d`](Tensor::conv2d): `[n, in, h, w]` with a weight `[in, out / groups, kh, kw]`; sizes
    /// as in [`conv_transpose1d`](Tensor::conv_transpose1d).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([1, 1, 1, 1], DType::F32, &Device::cpu());
    /// let w = Tensor::ones([1, 1, 2, 2], DType::F32, &Device::cpu());
    /// assert_eq!(x.conv_transpose2d(&w, None, 1, 0, 0, 1, 1).dims(), [1, 1, 2, 2]);
    /// ```
    conv_transpose2d 2;

    /// The transpose of [`conv3d`](Tensor::conv3d): `[n, in, d, h, w]` with a weight `[in, out / groups, kd, kh, kw]`;
    /// sizes as in [`conv_transpose1d`](Tensor::conv_transpose1d).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([1, 1, 1, 1, 1], DType::F32, &Device::cpu());
    /// let w = Tensor::ones([1, 1, 2, 2, 2], DType::F32, &Device::cpu());
    /// assert_eq!(x.conv_transpose3d(&w, None, 1, 0, 0, 1, 1).dims(), [1, 1, 2, 2, 2]);
    /// ```
    conv_transpose3d 3;
}
