//! Ready-made kernels of the CPU. All unsafe code of this crate is here.

pub mod attention;
pub mod create;
pub mod dense;
#[cfg(test)]
pub(crate) mod fixture;
pub mod fourier;
pub mod index;
pub mod isa;
pub mod linalg;
pub mod number;
pub mod operand;
pub mod panels;
pub mod par;
pub mod pointwise;
pub mod product;
pub mod quick;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod sort;
pub mod window;

pub use index::{gather, scatter};
pub use operand::{cast, strided, tiles};
pub use pointwise::{binary, copy, join, unary};
use product::long;
pub use product::{matmul, sum, vector, view};
pub use window::{conv, depthwise, interpolate, pool, pool_gradient, shifted, weight};
