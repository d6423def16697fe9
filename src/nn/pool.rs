//! Pooling as layers.

use super::Module;
use crate::{Pool, Tensor, TensorStruct};

macro_rules! pools {
    ($($(#[doc = $doc:literal])* $name:ident $method:ident;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, TensorStruct)]
        pub struct $name {
            /// The windows.
            #[tensor_struct(value)]
            pub pool: Pool,
        }

        impl $name {
            /// Windows of a size, or with [`Pool`]'s options.
            pub fn new(pool: impl Into<Pool>) -> $name {
                $name { pool: pool.into() }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(&self.pool)
            }
        }
    )*};
}

pools! {
    /// The greatest of each window: [`Tensor::max_pool1d_with`].
    MaxPool1d max_pool1d_with;

    /// The greatest of each window: [`Tensor::max_pool2d_with`].
    ///
    /// ```
    /// use ferrotrace::nn::{MaxPool2d, Module};
    /// use ferrotrace::prelude::*;
    ///
    /// let x = Tensor::ones([1, 3, 8, 8], DType::F32, &Device::cpu());
    /// assert_eq!(MaxPool2d::new(2).forward(&x).dims(), [1, 3, 4, 4]);
    /// let layer = MaxPool2d::new(Pool::new(3).stride(2).padding(1));
    /// assert_eq!(layer.forward(&x).dims(), [1, 3, 4, 4]);
    /// ```
    MaxPool2d max_pool2d_with;

    /// The greatest of each window: [`Tensor::max_pool3d_with`].
    MaxPool3d max_pool3d_with;

    /// The mean of each window: [`Tensor::avg_pool1d_with`].
    AvgPool1d avg_pool1d_with;

    /// The mean of each window: [`Tensor::avg_pool2d_with`].
    AvgPool2d avg_pool2d_with;

    /// The mean of each window: [`Tensor::avg_pool3d_with`].
    AvgPool3d avg_pool3d_with;
}

macro_rules! pools_of_powers {
    ($($name:ident $method:ident;)*) => {$(
        #[doc = concat!("The norm of each window: [`Tensor::", stringify!($method), "`].")]
        #[derive(Clone, Debug, TensorStruct)]
        pub struct $name {
            /// The order of the norm.
            pub p: f64,
            /// The windows.
            #[tensor_struct(value)]
            pub pool: Pool,
        }

        impl $name {
            /// Norms of an order over windows of a size, or with [`Pool`]'s options.
            pub fn new(p: f64, pool: impl Into<Pool>) -> $name {
                $name { p, pool: pool.into() }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.p, &self.pool)
            }
        }
    )*};
}

pools_of_powers! {
    LpPool1d lp_pool1d;
    LpPool2d lp_pool2d;
    LpPool3d lp_pool3d;
}

macro_rules! adaptive {
    ($($name:ident $n:literal $method:ident;)*) => {$(
        #[doc = concat!("As many windows as are asked for: [`Tensor::", stringify!($method), "`].")]
        #[derive(Clone, Copy, Debug, TensorStruct)]
        pub struct $name {
            /// The sizes of the result's last dimensions.
            #[tensor_struct(value)]
            pub size: [usize; $n],
        }

        impl $name {
            /// The layer for these sizes.
            pub fn new(size: [usize; $n]) -> $name {
                $name { size }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.size)
            }
        }
    )*};
}

adaptive! {
    AdaptiveAvgPool1d 1 adaptive_avg_pool1d;
    AdaptiveAvgPool2d 2 adaptive_avg_pool2d;
    AdaptiveAvgPool3d 3 adaptive_avg_pool3d;
    AdaptiveMaxPool1d 1 adaptive_max_pool1d;
    AdaptiveMaxPool2d 2 adaptive_max_pool2d;
    AdaptiveMaxPool3d 3 adaptive_max_pool3d;
}
