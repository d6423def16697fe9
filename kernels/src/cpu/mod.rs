//! Ready-made kernels of the CPU. All unsafe code of this crate is here.

pub mod attention;
pub mod binary;
pub mod cast;
pub mod conv;
pub mod copy;
pub mod create;
pub mod dense;
#[cfg(test)]
pub(crate) mod fixture;
pub mod gather;
pub mod interpolate;
pub mod isa;
mod long;
pub mod matmul;
pub mod number;
pub mod operand;
pub mod panels;
pub mod par;
pub mod pointwise;
pub mod pool;
pub mod quick;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod scatter;
pub mod shifted;
pub mod sort;
pub mod strided;
pub mod tiles;
pub mod unary;
pub mod vector;
