//! Transformations of the loops of a row: what they do to the order of work, never to its results.

pub(in crate::emit::cpu) mod index_sets;
pub(in crate::emit::cpu) mod pipelined;
mod prefetch;
pub(in crate::emit::cpu) mod tile;
pub(in crate::emit::cpu) mod unroll_and_jam;
