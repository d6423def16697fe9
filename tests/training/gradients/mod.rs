//! The gradients of operators: beside central differences in F64, and beside PyTorch's.

mod arranged;
pub mod check;
mod convolutions;
mod derivatives;
mod differences;
mod kinks;
mod losses;
mod matrices;
mod norms;
mod pools;
mod positions;
mod products;
mod reductions;
mod smooth;
