//! Pools as loops. On a device all are; those of many elements a window go along one dimension after another.
//!
//! On the CPU loops compute small ones, together with what is before and behind them, instead of a ready-made kernel: a
//! window's elements are taken one after another, a vector of windows at a time. With a pointwise operation behind it a
//! pool takes a sixth to a quarter of the ready-made kernel's time for windows of 2x2, a seventh to 0.6 of it for 3x3.

use super::Simplifier;
use super::shaping::value;
use ferrotrace_kernels::ops::pool::definition::{self, is_whole};
use ferrotrace_kernels::{OpBuilder, OpBuilderExt, Operand, PoolKind, PoolSpec, ValueId};
use ferrotrace_runtime::Result;
use smallvec::SmallVec;

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

/// The pool of a device. Windows that overlap and have many elements are reduced along one dimension after another, whose
/// results are stored: the sum of the kernel's sizes is read for each result, not their product.
pub(super) fn define(spec: &PoolSpec, b: &mut Simplifier<'_>, args: &[Operand]) -> Result<ValueId> {
    let x = value(args, 0)?;
    let taps: usize = spec.kernel.iter().product();
    let overlap = |d: &usize| spec.kernel[*d] > spec.stride[*d];
    let moves = |&d: &usize| spec.kernel[d] > 1 || spec.stride[d] > 1;
    let dims: SmallVec<[usize; 3]> = (0..spec.kernel.len()).filter(moves).collect();
    let separate = taps >= b.policy.thresholds.window_alone
        && dims.len() > 1
        && dims.iter().all(overlap)
        && !is_whole(spec, &b.shape(x)[..]);
    if !separate {
        return definition::define(spec, b, args);
    }
    let dtype = b.dtype(x);
    let mut y = match spec.kind {
        PoolKind::Max => x,
        PoolKind::Avg => b.cast(x, dtype.compute())?,
    };
    for (i, &d) in dims.iter().rev().enumerate() {
        let mut along = PoolSpec {
            kind: spec.kind,
            kernel: SmallVec::from_elem(1, spec.kernel.len()),
            stride: SmallVec::from_elem(1, spec.kernel.len()),
            padding: SmallVec::from_elem(0, spec.kernel.len()),
        };
        (along.kernel[d], along.stride[d]) = (spec.kernel[d], spec.stride[d]);
        along.padding[d] = spec.padding[d];
        y = definition::define(&along, b, &[y.into()])?;
        if i + 1 < dims.len() {
            y = b.barrier(y)?;
        }
    }
    b.cast(y, dtype)
}
