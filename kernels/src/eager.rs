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

use crate::cpu::operand::Input;
use crate::cpu::pointwise::{Kernel, Pointwise, map};
use crate::cpu::{binary, copy, create, unary};
use crate::ops::view::{clamp_slice, view_map};
use crate::ops::{self, order, pointwise};
use crate::{ArgMeta, Array, BinaryOp, Op, UnaryOp};
use ferrotrace_runtime::{DType, Device, Error, Layout, Result, Scalar, Shape, Strides};
use smallvec::SmallVec;

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
    match op {
        Op::Binary(op) => order::kept(args, shape, |args, shape| {
            run_binary(*op, args, shape, dtype)
        }),
        Op::Unary(op) => order::kept(args, shape, |args, shape| {
            run_unary(*op, args, shape, dtype)
        }),
        Op::Where => order::kept(args, shape, |args, shape| run_where(args, shape, dtype)),
        Op::Cast(_) => match &args[0] {
            // A cast to the dtype that the operand has asks for a dense copy of what is not dense.
            Arg::Array(x) if x.dtype == dtype => contiguous(x),
            Arg::Array(_) => order::kept(args, shape, |args, _| cast(array(args, 0)?, dtype)),
            Arg::Scalar(number) => create::full(&Device::cpu(), shape, *number, dtype),
        },
        Op::Full { .. } | Op::Arange { .. } | Op::Iota { .. } => ops::create::run(op, args),
        Op::Random { dist, .. } => ops::random::run(*dist, args, shape, dtype),
        Op::Reshape(_) | Op::Flatten { .. } => reshape(array(args, 0)?, shape),
        Op::Repeat(_) => repeat(array(args, 0)?, shape),
        Op::Pad(pads) => pad(pads, args, shape),
        Op::Cat { dim } => cat(*dim, args, shape, dtype),
        Op::SliceAssign {
            dim,
            start,
            end,
            step,
        } => {
            let (x, source) = (array(args, 0)?, array(args, 1)?);
            let out = copy::copy(x, shape, dtype)?;
            let (first, len) = clamp_slice(shape[*dim], *start, *end, *step);
            copy::assign(&out, &window(&out.layout, *dim, first, len, *step), source)?;
            Ok(out)
        }
        Op::Reduce { kind, mask, .. } => ops::reduce::run(*kind, *mask, args, shape, dtype),
        Op::Scan { kind, dim } => ops::scan::run(*kind, *dim, args, shape, dtype),
        Op::Sort { dim, descending } => ops::sort::run_sort(*dim, *descending, args, shape),
        Op::ArgSort { dim, descending } => {
            ops::sort::run_argsort(*dim, *descending, args, shape, dtype)
        }
        Op::TopK { k, dim, largest } => ops::sort::run_topk(*k, *dim, *largest, args, shape),
        Op::ArgTopK { k, dim, largest } => {
            ops::sort::run_argtopk(*k, *dim, *largest, args, shape, dtype)
        }
        Op::Gather { dim } => ops::index::run_gather(*dim, args, shape, dtype),
        Op::Index { axes, at } => ops::index::run_index(axes, *at, args, shape, dtype),
        Op::IndexPut {
            axes,
            at,
            accumulate,
        } => ops::index::run_index_put(axes, *at, *accumulate, args, shape, dtype),
        Op::Scatter {
            dim,
            mode,
            include_self,
        } => ops::index::run_scatter(*dim, *mode, *include_self, args, shape, dtype),
        Op::Matmul => ops::matmul::run(args, shape, dtype),
        Op::Conv(spec) => ops::conv::run(spec, args, shape, dtype),
        Op::Correlate(op) => ops::correlation::run(op, args, shape, dtype),
        Op::Pool(spec) => ops::pool::run(spec, args, shape, dtype),
        Op::AdaptiveAvgPool { size } => ops::pool::run_adaptive(*size, args, shape, dtype),
        Op::Interpolate {
            size,
            order,
            align_corners,
        } => ops::pool::run_interpolate(*size, *order, *align_corners, args, shape, dtype),
        Op::Unrounded(op) => run(op, args, shape, dtype),
        Op::Composite(op) => ops::composite::run(op, args, shape, dtype),
        view => {
            let x = array(args, 0)?;
            let map = view_map(view, x.shape(), shape)
                .ok_or_else(|| Error::internal(format!("{} has no eager form", view.name())))?;
            Ok(x.with_layout(map.apply(&x.layout, shape)))
        }
    }
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

/// A dense copy, in memory that nothing else uses.
///
/// # Errors
/// Out of memory.
pub fn copied(x: &Array) -> Result<Array> {
    copy::copy(x, x.shape(), x.dtype)
}

/// A dense copy in memory that nothing else uses, but for a window of it that is to be written: what lies there is
/// copied only where leaving it out would take more than one run of elements a row.
///
/// # Errors
/// Out of memory.
pub fn copied_around(x: &Array, window: &Layout) -> Result<Array> {
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

fn device(args: &[Arg]) -> Device {
    let first = args.iter().find_map(|arg| {
        if let Arg::Array(x) = arg {
            Some(x.buffer.device())
        } else {
            None
        }
    });
    first.cloned().unwrap_or(Device::cpu())
}

type Inputs<'a> = SmallVec<[Input<'a>; 3]>;

/// The operands, to be converted to the compute type of `dtype`.
fn inputs<'a>(args: &'a [Arg], shape: &Shape, dtype: DType) -> Inputs<'a> {
    args.iter()
        .map(|arg| match arg {
            Arg::Scalar(number) => Input::scalar(*number, shape, dtype),
            Arg::Array(x) => Input::array(x, shape, dtype.compute()),
        })
        .collect()
}

/// The operands with those not of a half type `dtype` rounded to it.
fn rounded(args: &[Arg], dtype: DType) -> Result<SmallVec<[Arg; 3]>> {
    args.iter()
        .map(|arg| match arg {
            Arg::Array(x) => Ok(Arg::Array(cast(x, dtype)?)),
            Arg::Scalar(number) => Ok(Arg::Scalar(*number)),
        })
        .collect()
}

fn is_mixed_half(args: &[Arg], dtype: DType) -> bool {
    dtype.is_half()
        && args
            .iter()
            .any(|arg| matches!(arg, Arg::Array(x) if x.dtype != dtype))
}

fn run_unary(op: UnaryOp, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let compute = pointwise::unary_compute(op, &[args[0].meta()])?;
    let produced = op.result_dtype(compute.compute());
    let kernel = unary::kernel(op, compute.compute());
    run_pointwise(kernel, op.name(), compute, produced, args, shape, dtype)
}

fn run_binary(op: BinaryOp, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let [a, b] = args else {
        return Err(Error::argument(format!("{} takes two operands", op.name())));
    };
    let compute = pointwise::binary_compute(op, &[a.meta(), b.meta()])?;
    let produced = op.result_dtype(compute.compute());
    let kernel = binary::kernel(op, compute.compute());
    run_pointwise(kernel, op.name(), compute, produced, args, shape, dtype)
}

fn run_pointwise(
    kernel: Option<Kernel>,
    name: &str,
    compute: DType,
    produced: DType,
    args: &[Arg],
    shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    if kernel.is_none() {
        return Err(Error::dtype(format!("{name} does not take {compute}")));
    }
    let op = Pointwise { kernel, produced };
    if is_mixed_half(args, compute) {
        let args = rounded(args, compute)?;
        return map(
            op,
            &inputs(&args, shape, compute),
            &device(&args),
            shape,
            dtype,
        );
    }
    map(
        op,
        &inputs(args, shape, compute),
        &device(args),
        shape,
        dtype,
    )
}

/// The chosen values keep their bits: they are cast to the result's dtype, and computed on in no other.
fn run_where(args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let [_, a, b] = args else {
        return Err(Error::argument("where_cond takes three operands"));
    };
    let device = device(args);
    // Numbers of a half type reach kernels in binary32: here they become tensors instead.
    let one = |arg: &Arg| match arg {
        Arg::Scalar(number) if dtype.is_half() => {
            create::full(&device, &Shape::scalar(), *number, dtype).map(Arg::Array)
        }
        arg => Ok(arg.clone()),
    };
    let values = [one(a)?, one(b)?];
    let mut inputs = Inputs::new();
    inputs.push(Input::array(array(args, 0)?, shape, DType::Bool));
    inputs.extend(values.iter().map(|arg| match arg {
        Arg::Array(x) => Input::array(x, shape, dtype),
        Arg::Scalar(number) => Input::scalar(*number, shape, dtype),
    }));
    let op = Pointwise {
        kernel: Some(binary::select(dtype.size())),
        produced: dtype,
    };
    map(op, &inputs, &device, shape, dtype)
}

fn reshape(x: &Array, shape: &Shape) -> Result<Array> {
    if let Some(layout) = x.layout.reshape(shape) {
        return Ok(x.with_layout(layout));
    }
    let dense = contiguous(x)?;
    Ok(dense.with_layout(Layout::contiguous(shape.clone())))
}

fn repeat(x: &Array, shape: &Shape) -> Result<Array> {
    let lead = shape.rank() - x.shape().rank();
    // Each dimension as (copies, its size): the copies do not move in the operand.
    let (mut dims, mut strides) = (Shape::scalar(), Strides::new());
    for (d, &size) in shape.iter().enumerate() {
        let (own, stride) = match d.checked_sub(lead) {
            Some(k) => (x.shape()[k], x.layout.strides()[k]),
            None => (1, 0),
        };
        dims.dims_mut()
            .extend_from_slice(&[size.checked_div(own).unwrap_or(0), own]);
        strides.extend_from_slice(&[0, stride]);
    }
    let spread = x.with_layout(Layout::new(dims.clone(), strides, x.layout.offset()));
    let out = copy::copy(&spread, &dims, x.dtype)?;
    Ok(out.with_layout(Layout::contiguous(shape.clone())))
}

/// The window of `len` positions of dimension `dim` from `first` on, by `step`.
fn window(layout: &Layout, dim: usize, first: usize, len: usize, step: usize) -> Layout {
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

fn pad(pads: &[(isize, isize)], args: &[Arg], shape: &Shape) -> Result<Array> {
    let x = array(args, 0)?;
    let out = Array::empty(x.buffer.device(), shape.clone(), x.dtype)?;
    let to = fill_borders(pads, args, &out)?;
    let mut from = x.layout.clone();
    for (d, &(before, _)) in pads.iter().enumerate() {
        from = window(&from, d, (-before).max(0) as usize, to.shape()[d], 1);
    }
    copy::assign(&out, &to, &x.with_layout(from))?;
    Ok(out)
}

fn cat(dim: usize, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let out = Array::empty(array(args, 0)?.buffer.device(), shape.clone(), dtype)?;
    let mut first = 0;
    for i in 0..args.len() {
        let x = array(args, i)?;
        place(&out, dim, first, x)?;
        first += x.shape()[dim];
    }
    Ok(out)
}

/// Writes `part` at positions `first..` of dimension `dim` of `whole`, a dense result on the CPU that is being made.
///
/// # Errors
/// Out of memory.
pub fn place(whole: &Array, dim: usize, first: usize, part: &Array) -> Result<()> {
    if copy::place(whole, dim, first, part) {
        return Ok(());
    }
    let len = part.shape()[dim];
    copy::assign(whole, &window(&whole.layout, dim, first, len, 1), part)
}

#[cfg(test)]
mod tests;
