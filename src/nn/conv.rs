//! Convolutions over 1, 2 and 3 spatial dimensions, and transposed ones.

use super::linear::bound;
use super::{Init, Module};
use crate::{Conv, DType, Device, Tensor, TensorStruct, Window};

/// Weight and bias uniform in ±1/√connections, where all dimensions but the first are connections.
#[track_caller]
fn drawn(dims: &[usize], outputs: usize, device: &Device) -> (Tensor, Tensor) {
    let init = Init::within(bound(dims[1..].iter().product()));
    let weight = init.tensor(dims, DType::F32, device);
    (weight, init.tensor(outputs, DType::F32, device))
}

/// Channels of a group; of no groups, which the convolution refuses, all of them.
fn of_group(channels: usize, groups: usize) -> usize {
    channels.checked_div(groups).unwrap_or(channels)
}

macro_rules! layers {
    ($($(#[doc = $doc:literal])* $name:ident $n:literal $method:ident $transposed:literal;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, TensorStruct)]
        pub struct $name {
            /// `[out, in / groups, window..]`; of a transposed convolution `[in, out / groups, window..]`.
            pub weight: Tensor,
            /// `[out]`.
            pub bias: Option<Tensor>,
            /// Stride, padding, dilation and groups.
            #[tensor_struct(value)]
            pub options: Conv,
        }

        impl $name {
            /// Weight and bias uniform in ±1/√(connections of an output), in F32; stride 1, no padding.
            #[track_caller]
            pub fn new(
                inputs: usize,
                outputs: usize,
                window: impl Into<Window<$n>>,
                device: &Device,
            ) -> $name {
                $name::with(inputs, outputs, window, Conv::new(), device)
            }

            /// A layer with [`Conv`]'s options.
            #[track_caller]
            pub fn with(
                inputs: usize,
                outputs: usize,
                window: impl Into<Window<$n>>,
                options: Conv,
                device: &Device,
            ) -> $name {
                let (first, second) = if $transposed { (inputs, outputs) } else { (outputs, inputs) };
                let mut dims = vec![first, of_group(second, options.groups)];
                dims.extend(window.into().dims());
                let (weight, bias) = drawn(&dims, outputs, device);
                $name { weight, bias: Some(bias), options }
            }

            /// The layer without its bias.
            pub fn without_bias(mut self) -> $name {
                self.bias = None;
                self
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(&self.weight, self.bias.as_ref(), self.options.clone())
            }
        }
    )*};
}

layers! {
    /// A convolution: `[n, in, length]` to `[n, out, length']`. See [`Tensor::conv1d`].
    Conv1d 1 conv1d_with false;

    /// A convolution: `[n, in, height, width]` to `[n, out, height', width']`. See [`Tensor::conv2d`].
    ///
    /// ```
    /// use ferrotrace::nn::{Conv2d, Module};
    /// use ferrotrace::prelude::*;
    ///
    /// let layer = Conv2d::with(3, 8, 3, Conv::new().stride(2).padding(1), &Device::cpu());
    /// let x = Tensor::ones([1, 3, 8, 8], DType::F32, &Device::cpu());
    /// assert_eq!(layer.forward(&x).dims(), [1, 8, 4, 4]);
    /// ```
    Conv2d 2 conv2d_with false;

    /// A convolution: `[n, in, depth, height, width]` to `[n, out, depth', height', width']`. See [`Tensor::conv3d`].
    Conv3d 3 conv3d_with false;

    /// The transpose of [`Conv1d`]. See [`Tensor::conv_transpose1d`].
    ConvTranspose1d 1 conv_transpose1d_with true;

    /// The transpose of [`Conv2d`]. See [`Tensor::conv_transpose2d`].
    ConvTranspose2d 2 conv_transpose2d_with true;

    /// The transpose of [`Conv3d`]. See [`Tensor::conv_transpose3d`].
    ConvTranspose3d 3 conv_transpose3d_with true;
}
