//! Eager mode: one operator at a time, at once, on ready-made kernels.
//!
//! Operands are cast to the operator's compute dtype and numbers rounded to it; half types are computed in binary32 and
//! rounded once an operator. These are the numbers generated kernels give under exact precision.

mod finite;
mod host_fallback;
mod out;
pub mod quick;

pub use finite::{are_finite, check, is_finite, not_finite};
pub use host_fallback::{as_view, run_on};
pub use out::{run_into, run_over, takes_window, writes_over};

#[cfg(test)]
mod tests;
