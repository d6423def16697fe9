//! How loops are written: tiles, rows that overlap, short axes.

mod lanes;
mod orders;
mod pipelined;
mod short_axes;
mod small_matrices;
mod tiles;
