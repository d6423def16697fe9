//! Eager mode: one operator at a time, at once, on ready-made kernels.
//!
//! Operands are cast to the operator's compute dtype and numbers rounded to it; half types are computed in binary32 and
//! rounded once an operator. These are the numbers generated kernels give under exact precision.

mod finite;
mod host_fallback;
mod out;

pub use finite::{are_finite, check, is_finite, not_finite};
pub use host_fallback::{as_view, run_on};
pub use out::{fill_borders, run_into, run_over, takes_window, writes_over};

use crate::cpu::{copy, join};
use crate::{ArgMeta, Array, Op};
use ferrotrace_runtime::{DType, Device, Error, Layout, Result, Scalar, Shape, Strides};

/// An operand: an array, or a number.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A tensor's elements.
    Array(Array),
    /// A number.
    Scalar(Scalar),
}

impl Arg {
    /// What the operators' rules know of the operand.
    pub fn meta(&self) -> ArgMeta<'_> {
        match self {
            Arg::Array(x) => ArgMeta::Tensor(x.shape(), x.dtype),
            Arg::Scalar(number) => ArgMeta::Scalar(*number),
        }
    }
}

/// Runs one operator; `shape` and `dtype` are what [`Op::infer`] gave for the operands. A view shares its operand's
/// memory. Operands lie on the CPU; see [`run_on`] for others.
///
/// # Errors
/// Out of memory; an index out of range; an operand on a device without ready-made kernels.
pub fn run(op: &Op, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let on_device = |arg: &Arg| matches!(arg, Arg::Array(x) if !x.buffer.device().is_cpu());
    if args.iter().any(on_device) {
        return Err(Error::unsupported(format!(
            "{} has no ready-made kernel on {}",
            op.name(),
            device(args)
        )));
    }
    op.entry().run(args, shape, dtype)
}

/// The tensor operand at `i`.
///
/// # Errors
/// It is missing, or a number.
pub(crate) fn array(args: &[Arg], i: usize) -> Result<&Array> {
    match args.get(i) {
        Some(Arg::Array(x)) => Ok(x),
        _ => Err(Error::argument(format!("operand {i} must be a tensor"))),
    }
}

/// The number operand at `i`.
///
/// # Errors
/// It is missing, or a tensor.
pub(crate) fn scalar(args: &[Arg], i: usize) -> Result<Scalar> {
    match args.get(i) {
        Some(Arg::Scalar(number)) => Ok(*number),
        _ => Err(Error::argument(format!("operand {i} must be a number"))),
    }
}

/// The array itself if it is row-major and dense, else a dense copy, on whatever device it lies.
///
/// # Errors
/// Out of memory.
pub fn contiguous(x: &Array) -> Result<Array> {
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

pub(crate) fn device(args: &[Arg]) -> Device {
    let first = args.iter().find_map(|arg| {
        if let Arg::Array(x) = arg {
            Some(x.buffer.device())
        } else {
            None
        }
    });
    first.cloned().unwrap_or(Device::cpu())
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

#[cfg(test)]
mod tests;
