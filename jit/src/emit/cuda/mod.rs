//! From fused nodes to CUDA C++ without headers. As in the C back end, sizes, strides and numbers are arguments: kernels
//! of one structure share one source.

mod arguments;
pub mod attention;
mod check;
mod chunk;
mod finish;
mod index;
mod kernel;
mod look_back;
mod loops;
mod moments;
mod name;
mod online;
mod place;
pub mod product;
mod reduce;
mod scan;
mod shape;
mod stage;
mod store;
mod table;
mod text;
mod tile;
mod unroll;
mod value;

use super::Emitted;

/// Texts that several templates use: loads by the copy engine of Hopper, panels in shared memory, and what kernels of few
/// rows share.
const ENGINE: &str = include_str!("engine.cu");
const PANELS: &str = include_str!("panels.cu");
const FEW_ROWS: &str = include_str!("few_rows.cu");

pub use check::{checks_of, trust};
pub use kernel::{emit, kernel};
pub use table::table;
