//! From fused nodes to CUDA C++ without headers. As in the C back end, sizes, strides and numbers are arguments: kernels
//! of one structure share one source.

mod arguments;
mod chunk;
mod index;
mod kernel;
mod reduce;
mod shape;
mod stage;
mod text;
mod value;

use super::Emitted;

pub use kernel::emit;
