//! The gradients of operators: beside central differences in F64, and beside PyTorch's.

mod arranged;
pub mod check;
mod kinks;
mod losses;
mod positions;
mod reductions;
