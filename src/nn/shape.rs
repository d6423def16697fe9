//! Paddings, resampling and rearrangements as layers.

use super::Module;
use crate::{Interpolation, PadMode, Tensor, TensorStruct, Window};

/// Elements put before and after the last dimensions, or cropped where a number is negative: PyTorch's `ZeroPad2d`,
/// `ConstantPad1d`, `ReflectionPad2d`, `ReplicationPad3d`, `CircularPad2d` and the like.
///
/// ```
/// use ferrotrace::nn::{Module, Pad};
/// use ferrotrace::prelude::*;
///
/// let x = Tensor::from_slice(&[1.0, 2.0, 3.0], [1, 1, 3], &Device::cpu());
/// let y = Pad::constant([(1, 0)], 0.0).forward(&x);
/// assert_eq!(y.to_vec::<f64>()?, [0.0, 1.0, 2.0, 3.0]);
/// let y = Pad::with([(0, 2)], PadMode::Reflect).forward(&x);
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 3.0, 2.0, 1.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct Pad {
    /// How many elements before and after each of the last dimensions, in the order of dimensions.
    #[tensor_struct(value)]
    pub pads: Vec<(isize, isize)>,
    /// Where elements come from; a constant where there is none.
    #[tensor_struct(value)]
    pub mode: Option<PadMode>,
    /// The constant.
    pub value: f64,
}

impl Pad {
    /// A constant around the last dimensions.
    pub fn constant(pads: impl Into<Vec<(isize, isize)>>, value: f64) -> Pad {
        Pad {
            pads: pads.into(),
            mode: None,
            value,
        }
    }

    /// Elements of the tensor itself around the last dimensions.
    pub fn with(pads: impl Into<Vec<(isize, isize)>>, mode: PadMode) -> Pad {
        Pad {
            pads: pads.into(),
            mode: Some(mode),
            value: 0.0,
        }
    }
}

impl Module for Pad {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut pads = vec![(0, 0); x.rank().saturating_sub(self.pads.len())];
        pads.extend(&self.pads);
        match self.mode {
            None => x.pad(&pads, self.value),
            Some(mode) => x.pad_with(&pads, mode),
        }
    }
}

/// Images, lines or volumes `[N, C, ..]` resampled: [`Tensor::interpolate`].
///
/// ```
/// use ferrotrace::Interpolation;
/// use ferrotrace::nn::{Module, Upsample};
/// use ferrotrace::prelude::*;
///
/// let x = Tensor::ones([1, 3, 4, 4], DType::F32, &Device::cpu());
/// let layer = Upsample::by(2, Interpolation::Nearest);
/// assert_eq!(layer.forward(&x).dims(), [1, 3, 8, 8]);
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct Upsample {
    /// The sizes of the last dimensions, or else how many times those of the input.
    #[tensor_struct(value)]
    pub size: Option<Vec<usize>>,
    /// How many times the input's sizes, where none are given.
    pub scale: usize,
    /// How.
    #[tensor_struct(value)]
    pub kind: Interpolation,
    /// Whether corner elements stay corners.
    pub align_corners: bool,
}

impl Upsample {
    /// So many times the input's sizes.
    pub fn by(scale: usize, kind: Interpolation) -> Upsample {
        Upsample {
            size: None,
            scale,
            kind,
            align_corners: false,
        }
    }

    /// These sizes.
    pub fn to(size: impl Into<Vec<usize>>, kind: Interpolation) -> Upsample {
        Upsample {
            size: Some(size.into()),
            scale: 1,
            kind,
            align_corners: false,
        }
    }

    /// The layer where corner elements stay corners, or not.
    pub fn align_corners(mut self, align: bool) -> Upsample {
        self.align_corners = align;
        self
    }
}

impl Module for Upsample {
    fn forward(&self, x: &Tensor) -> Tensor {
        let size = match &self.size {
            Some(size) => size.clone(),
            None => {
                let sizes = x.dims().iter().skip(2);
                sizes.map(|n| n.saturating_mul(self.scale)).collect()
            }
        };
        x.interpolate(&size[..], self.kind, self.align_corners)
    }
}

macro_rules! of_a_number {
    ($($name:ident $method:ident;)*) => {$(
        #[doc = concat!("[`Tensor::", stringify!($method), "`].")]
        #[derive(Clone, Copy, Debug, TensorStruct)]
        pub struct $name {
            /// The method's argument.
            pub n: usize,
        }

        impl $name {
            /// The layer with this argument.
            pub fn new(n: usize) -> $name {
                $name { n }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.n)
            }
        }
    )*};
}

of_a_number! {
    ChannelShuffle channel_shuffle;
    PixelShuffle pixel_shuffle;
    PixelUnshuffle pixel_unshuffle;
}

/// A dimension parted into several: [`Tensor::unflatten`].
#[derive(Clone, Debug, TensorStruct)]
pub struct Unflatten {
    /// The dimension; negative numbers count from the end.
    pub dim: isize,
    /// The sizes that it gets; one may be −1.
    #[tensor_struct(value)]
    pub sizes: Vec<isize>,
}

impl Unflatten {
    /// The layer for a dimension and its new sizes.
    pub fn new(dim: isize, sizes: impl Into<Vec<isize>>) -> Unflatten {
        Unflatten {
            dim,
            sizes: sizes.into(),
        }
    }
}

impl Module for Unflatten {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.unflatten(self.dim, &self.sizes[..])
    }
}

/// The windows of images as columns: [`Tensor::im2col`].
///
/// ```
/// use ferrotrace::nn::{Fold, Module, Unfold};
/// use ferrotrace::prelude::*;
///
/// let x = Tensor::ones([2, 3, 8, 8], DType::F32, &Device::cpu());
/// let windows = Unfold::new(4).stride(4).forward(&x);
/// assert_eq!(windows.dims(), [2, 48, 4]);
/// assert_eq!(Fold::new([8, 8], 4).stride(4).forward(&windows).dims(), [2, 3, 8, 8]);
/// ```
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct Unfold {
    /// The rows and columns of a window.
    #[tensor_struct(value)]
    pub kernel: [usize; 2],
    /// The distance of a window's elements.
    #[tensor_struct(value)]
    pub dilation: [usize; 2],
    /// Zeros around an image.
    #[tensor_struct(value)]
    pub padding: [usize; 2],
    /// The distance from a window to the next.
    #[tensor_struct(value)]
    pub stride: [usize; 2],
}

/// Columns that are windows put back and added: [`Tensor::col2im`].
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct Fold {
    /// The rows and columns of an image.
    #[tensor_struct(value)]
    pub output_size: [usize; 2],
    /// The rows and columns of a window.
    #[tensor_struct(value)]
    pub kernel: [usize; 2],
    /// The distance of a window's elements.
    #[tensor_struct(value)]
    pub dilation: [usize; 2],
    /// Zeros around an image.
    #[tensor_struct(value)]
    pub padding: [usize; 2],
    /// The distance from a window to the next.
    #[tensor_struct(value)]
    pub stride: [usize; 2],
}

macro_rules! options_of_windows {
    ($($name:ident)*) => {$(
        impl $name {
            /// The layer with another distance of a window's elements than 1.
            pub fn dilation(mut self, dilation: impl Into<Window<2>>) -> $name {
                self.dilation = dilation.into().dims();
                self
            }

            /// The layer with zeros around an image.
            pub fn padding(mut self, padding: impl Into<Window<2>>) -> $name {
                self.padding = padding.into().dims();
                self
            }

            /// The layer with another distance from a window to the next than 1.
            pub fn stride(mut self, stride: impl Into<Window<2>>) -> $name {
                self.stride = stride.into().dims();
                self
            }
        }
    )*};
}

options_of_windows!(Fold Unfold);

impl Unfold {
    /// Windows of a size, at every place.
    pub fn new(kernel: impl Into<Window<2>>) -> Unfold {
        Unfold {
            kernel: kernel.into().dims(),
            dilation: [1, 1],
            padding: [0, 0],
            stride: [1, 1],
        }
    }
}

impl Fold {
    /// Images of a size from windows of a size, at every place.
    pub fn new(output_size: impl Into<Window<2>>, kernel: impl Into<Window<2>>) -> Fold {
        Fold {
            output_size: output_size.into().dims(),
            kernel: kernel.into().dims(),
            dilation: [1, 1],
            padding: [0, 0],
            stride: [1, 1],
        }
    }
}

impl Module for Unfold {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.im2col(self.kernel, self.dilation, self.padding, self.stride)
    }
}

impl Module for Fold {
    fn forward(&self, x: &Tensor) -> Tensor {
        let Fold {
            output_size,
            kernel,
            dilation,
            padding,
            stride,
        } = *self;
        x.col2im(output_size, kernel, dilation, padding, stride)
    }
}
