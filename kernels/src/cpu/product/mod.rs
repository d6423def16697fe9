//! Sums of products: matrix by matrix, vector by matrix, and what keeps long sums exact enough.

#[cfg(target_arch = "x86_64")]
mod dot_lanes;
mod dots;
mod library;
pub(in crate::cpu) mod long;
pub mod matmul;
pub mod packed;
mod packed_tiles;
mod small;
pub mod sum;
pub mod tiles;
pub mod vector;
pub mod view;
