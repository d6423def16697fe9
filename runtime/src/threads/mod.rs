//! Threads: the pool that kernels run on, their floating-point environment, and copies of shared things for each.

pub(crate) mod float_environment;
pub(crate) mod pool;
pub(crate) mod stripe;
mod upper_halves;

pub(crate) use upper_halves::clear_upper_halves;
