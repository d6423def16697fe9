//! Pools that loops compute on the CPU, together with what is before and behind them, instead of a ready-made kernel: a
//! window's elements are taken one after another, a vector of windows at a time. With a pointwise operation behind it a
//! pool takes a sixth to a quarter of the ready-made kernel's time for windows of 2x2, a seventh to 0.6 of it for 3x3.

use ferrotrace_kernels::PoolSpec;
use ferrotrace_kernels::ops::pool::definition::is_whole;

/// Whether loops compute a pool of dimensions of these sizes, by windows of `most` elements at most.
pub(super) fn are_loops(spec: &PoolSpec, sizes: &[usize], most: usize) -> bool {
    spec.kernel.iter().product::<usize>() <= most || is_whole(spec, sizes)
}

/// Whether loops compute the means of `output` windows of each of the last dimensions, of `most` elements at most.
pub(super) fn are_adaptive_loops(output: [usize; 2], sizes: &[usize], most: usize) -> bool {
    let Some(input) = sizes.last_chunk::<2>() else {
        return false;
    };
    let divides = (0..2).all(|d| output[d] > 0 && input[d].is_multiple_of(output[d]));
    let taps = || (0..2).map(|d| input[d] / output[d]).product::<usize>();
    divides && (output == [1, 1] || taps() <= most)
}
