//! Copies of arrays: dense ones on whatever device they lie, converted ones, and copies into windows of others.

use crate::arg::scalar;
use crate::cpu::{copy, create, join};
use crate::{Arg, Array};
use ferrotrace_runtime::{DType, Device, Layout, Result, Shape, Strides};

/// The array itself if it is row-major and dense, else a dense copy, on whatever device it lies.
///
/// # Errors
/// Out of memory.
pub fn contiguous(x: &Array) -> Result<Array> {
    if x.numel() == 0 {
        // Slices of an array may leave any strides and offset to one without elements.
        return Ok(Array {
            layout: Layout::contiguous(x.shape().clone()),
            ..x.clone()
        });
    }
    if x.layout.is_contiguous() {
        return Ok(x.clone());
    }
    let device = x.buffer.device();
    if device.is_cpu() {
        return copy::copy(x, x.shape(), x.dtype);
    }
    contiguous(&x.to_device(&Device::cpu())?)?.to_device(device)
}

/// A dense copy of an array of the CPU, in memory that nothing else uses.
///
/// # Errors
/// Out of memory.
pub fn copied(x: &Array) -> Result<Array> {
    copy::copy(x, x.shape(), x.dtype)
}

/// What makes an array dense and row-major.
pub type Dense<'a> = &'a dyn Fn(&Array) -> Result<Array>;

/// A dense copy on the array's own device. `dense` copies one of another device than the CPU that does not lie row by
/// row.
///
/// # Errors
/// Out of memory; what a device's driver answers.
pub fn copied_on(x: &Array, dense: Dense<'_>) -> Result<Array> {
    if x.buffer.device().is_cpu() {
        return copied(x);
    }
    if !x.layout.is_contiguous() {
        return dense(x);
    }
    let (first, size) = (x.layout.offset(), x.dtype.size());
    let bytes = first * size..(first + x.numel()) * size;
    Ok(Array {
        buffer: x.buffer.copy_to(bytes, x.buffer.device())?,
        layout: Layout::contiguous(x.shape().clone()),
        dtype: x.dtype,
    })
}

/// A dense copy in memory that nothing else uses, but for a window of it that is to be written: what lies there is
/// copied only where leaving it out would take more than one run of elements a row, and on devices. `dense` is that of
/// [`copied_on`].
///
/// # Errors
/// The errors of [`copied_on`].
pub fn copied_around(x: &Array, window: &Layout, dense: Dense<'_>) -> Result<Array> {
    if !x.buffer.device().is_cpu() {
        return copied_on(x, dense);
    }
    let out = Array::empty(x.buffer.device(), x.shape().clone(), x.dtype)?;
    let (mut to, mut from) = (out.layout.clone(), x.layout.clone());
    let part = |layout: &Layout, d, first, len| self::window(layout, d, first, len, 1);
    let mut at = window.offset();
    for d in 0..x.shape().rank() {
        let (stride, size) = (out.layout.strides()[d] as usize, x.shape()[d]);
        let (first, len) = (at / stride, window.shape()[d]);
        at %= stride;
        // A window with gaps in a dimension is copied from its first position to its last.
        let gaps = len > 1 && window.strides()[d] != stride as isize;
        let end = if gaps { first } else { first + len };
        for (first, end) in [(0, first), (end, size)] {
            let target = part(&to, d, first, end - first);
            let source = x.with_layout(part(&from, d, first, end - first));
            copy::assign(&out, &target, &source)?;
        }
        (to, from) = (
            part(&to, d, first, end - first),
            part(&from, d, first, end - first),
        );
    }
    Ok(out)
}

/// The array itself if it has the dtype, else a dense converted copy.
///
/// # Errors
/// Out of memory.
pub fn cast(x: &Array, dtype: DType) -> Result<Array> {
    if x.dtype == dtype {
        Ok(x.clone())
    } else {
        copy::copy(x, x.shape(), dtype)
    }
}

/// The window of `len` positions of dimension `dim` from `first` on, by `step`.
pub(crate) fn window(layout: &Layout, dim: usize, first: usize, len: usize, step: usize) -> Layout {
    let mut shape = layout.shape().clone();
    let mut strides = Strides::from_slice(layout.strides());
    shape.dims_mut()[dim] = len;
    let offset = layout.offset() as isize + first as isize * strides[dim];
    strides[dim] *= step as isize;
    let offset = if shape.numel() == 0 {
        0
    } else {
        offset as usize
    };
    Layout::new(shape, strides, offset)
}

/// Writes each of `parts` at its position of dimension `dim` of `whole`, a dense result on the CPU that is being made.
///
/// # Errors
/// Out of memory.
pub fn join(whole: &Array, dim: usize, parts: &[(usize, &Array)]) -> Result<()> {
    join::join(whole, dim, parts)
}

/// Writes what surrounds the padded operand, the second of `args`, in `out`, a dense result that is being made; gives
/// the window of the operand.
///
/// # Errors
/// Out of memory.
pub fn fill_borders(pads: &[(isize, isize)], args: &[Arg], out: &Array) -> Result<Layout> {
    let value = match args.get(1) {
        Some(Arg::Array(value)) => value.clone(),
        _ => {
            let number = scalar(args, 1)?;
            create::full(out.buffer.device(), &Shape::scalar(), number, out.dtype)?
        }
    };
    let (mut to, shape) = (out.layout.clone(), out.shape());
    for (d, &(before, after)) in pads.iter().enumerate() {
        let before = before.max(0).min(shape[d] as isize) as usize;
        let after = after.max(0).min((shape[d] - before) as isize) as usize;
        let kept = shape[d] - before - after;
        copy::assign(out, &window(&to, d, 0, before, 1), &value)?;
        copy::assign(out, &window(&to, d, shape[d] - after, after, 1), &value)?;
        to = window(&to, d, before, kept, 1);
    }
    Ok(to)
}
