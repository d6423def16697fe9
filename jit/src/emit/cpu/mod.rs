//! Kernels for the CPU, in kernel IR: units of work in parallel, for each row its stages, for each stage its loops.

mod arguments;
mod chunks;
mod index;
mod inner;
mod kernel;
mod lanes;
mod outer;
mod outline;
mod pieces;
mod random;
mod reduce;
mod row;
mod rows;
mod stage;
mod store;
mod transform;
mod unroll;
mod update;
mod value;
mod walk;

pub use kernel::{emit, kernel};
