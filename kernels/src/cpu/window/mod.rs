//! Kernels over windows of the trailing spatial dimensions: convolutions, pooling and resampling.

pub mod conv;
pub mod depthwise;
pub mod interpolate;
pub mod pool;
pub mod pool_gradient;
pub mod shifted;
pub mod turned;
pub mod weight;
