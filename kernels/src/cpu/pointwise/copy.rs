//! Copies: dense forms of strided arrays, and windows of a result written from other arrays.

use crate::Array;
use crate::cpu::operand::Input;
use crate::cpu::pointwise::{Pointwise, map, write};
use ferrotrace_runtime::{DType, Layout, Result, Scalar, Shape, Strides};
use ndarray::{ArrayViewD, ArrayViewMutD, Axis, IxDyn, ShapeBuilder, Zip};

/// The elements of `x`, broadcast to `shape`, as a new dense array of type `dtype`.
///
/// # Errors
/// Out of memory.
pub fn copy(x: &Array, shape: &Shape, dtype: DType) -> Result<Array> {
    let op = Pointwise {
        kernel: None,
        produced: dtype,
    };
    map(
        op,
        &[Input::array(x, shape, dtype)],
        x.buffer.device(),
        shape,
        dtype,
    )
}

/// Writes `source`, broadcast to the window's shape and converted to `out`'s dtype, in a window of `out`'s memory.
/// Nothing else may use that memory: `out` is a result in the making.
///
/// # Errors
/// Out of memory.
pub fn assign(out: &Array, window: &Layout, source: &Array) -> Result<()> {
    let shape = window.shape();
    if is_row_dense(window) {
        let op = Pointwise {
            kernel: None,
            produced: out.dtype,
        };
        let input = Input::array(source, shape, out.dtype);
        // SAFETY: the window is inside `out`, which is being made; the input is broadcast to its shape.
        unsafe {
            write(
                op,
                &[input],
                shape,
                window,
                out.dtype,
                out.buffer.as_mut_ptr(),
            )
        };
        return Ok(());
    }
    let cast;
    let source = if source.dtype == out.dtype {
        source
    } else {
        cast = copy(source, source.shape(), out.dtype)?;
        &cast
    };
    let Some(from) = source.layout.broadcast_to(shape) else {
        return Ok(());
    };
    match out.dtype.size() {
        1 => scatter::<u8>(out, window, source, &from),
        2 => scatter::<u16>(out, window, source, &from),
        4 => scatter::<u32>(out, window, source, &from),
        _ => scatter::<u64>(out, window, source, &from),
    }
    Ok(())
}

/// Writes a number in a window of `out`'s memory, as [`assign`].
pub fn fill(out: &Array, window: &Layout, number: Scalar) -> Result<()> {
    let one = crate::cpu::create::full(out.buffer.device(), &Shape::scalar(), number, out.dtype)?;
    assign(out, window, &one)
}

/// Whether the innermost dimension that has more than one position is dense.
fn is_row_dense(window: &Layout) -> bool {
    let dims = window.shape().iter().zip(window.strides());
    dims.rev()
        .find(|(size, _)| **size != 1)
        .is_none_or(|(_, &stride)| stride == 1)
}

/// Writes to a window that is dense along no row.
fn scatter<T: Copy>(out: &Array, window: &Layout, source: &Array, from: &Layout) {
    if window.numel() == 0 {
        return;
    }
    let (from, window) = (&long(from), &long(window));
    let (shape, from_strides, from_flips) = positive(from);
    let (_, to_strides, to_flips) = positive(window);
    // SAFETY: windows lie inside their buffers, whose elements are aligned; `positive` starts at the lowest address.
    // The result's memory is used by nobody else, and its window's elements are distinct.
    let (mut read, mut target) = unsafe {
        let base = source.buffer.as_ptr().cast::<T>().add(lowest(from));
        let read = ArrayViewD::from_shape_ptr(IxDyn(&shape).strides(IxDyn(&from_strides)), base);
        let base = out.buffer.as_mut_ptr().cast::<T>().add(lowest(window));
        (
            read,
            ArrayViewMutD::from_shape_ptr(IxDyn(&shape).strides(IxDyn(&to_strides)), base),
        )
    };
    from_flips.iter().for_each(|&d| read.invert_axis(Axis(d)));
    to_flips.iter().for_each(|&d| target.invert_axis(Axis(d)));
    Zip::from(target)
        .and(read)
        .for_each(|to, &value| *to = value);
}

/// The shape, the strides without signs, and the dimensions whose stride was negative.
fn positive(layout: &Layout) -> (Vec<usize>, Vec<usize>, Vec<usize>) {
    let strides = layout.strides();
    let flips = (0..strides.len())
        .filter(|&d| strides[d] < 0 && layout.shape()[d] > 1)
        .collect();
    (
        layout.shape().to_vec(),
        strides.iter().map(|s| s.unsigned_abs()).collect(),
        flips,
    )
}

/// A window without its dimensions of size 1: the last of those left is a loop of its own.
fn long(layout: &Layout) -> Layout {
    let all = layout
        .shape()
        .iter()
        .copied()
        .zip(layout.strides().iter().copied());
    let (shape, strides): (Vec<usize>, Strides) = all.filter(|(n, _)| *n != 1).unzip();
    Layout::new(Shape::new(&shape), strides, layout.offset())
}

/// The lowest offset of a window.
fn lowest(layout: &Layout) -> usize {
    layout.span().start
}
