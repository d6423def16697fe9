//! The kernel IR as C of GCC and Clang, with their vector extensions.

mod call;
mod kernel;
#[cfg(test)]
mod tests;
mod types;

pub use kernel::{Printed, print};
pub(crate) use types::lane_type;
