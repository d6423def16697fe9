//! Diagnostics of a process: counters, logs, and failures that tests ask for.

pub(crate) mod counters;
pub mod inject;
pub(crate) mod log;
