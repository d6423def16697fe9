//! Plans: what they are found by, which kernels and calls they hold, what memory they take.

mod again;
mod caching;
mod calls;
mod combined;
mod estimates;
mod hoisting;
mod joining;
pub(super) mod memory;
mod tuning;
