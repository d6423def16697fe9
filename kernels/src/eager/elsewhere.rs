//! Operators for devices without ready-made kernels of their own: operands are copied to the host, the CPU's kernels
//! run, the result is copied back. Views need no copy, and matrix products of floats have a library.

use super::{Arg, contiguous, run};
use crate::ops::view::view_map;
use crate::{Array, Op, ops};
use ferrotrace_runtime::{Counter, DType, Device, Result, Shape, count};

/// Runs one operator for a device, where its result will lie; otherwise as [`run`]. Where that device is not the CPU, a
/// result that is no view is dense and row-major.
///
/// # Errors
/// As [`run`]; what a device's driver answers.
pub fn run_on(
    device: &Device,
    op: &Op,
    args: &[Arg],
    shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    if device.is_cpu() {
        return run(op, args, shape, dtype);
    }
    if let Some(view) = as_view(op, args, shape) {
        return Ok(view);
    }
    if *op == Op::Matmul
        && let Some(out) = ops::matmul::run_by_library(device, args, shape, dtype)?
    {
        return Ok(out);
    }
    count(Counter::HostRuns, 1);
    let host = Device::cpu();
    let here = |arg: &Arg| match arg {
        Arg::Array(x) => x.to_device(&host).map(Arg::Array),
        number => Ok(number.clone()),
    };
    let args: Vec<Arg> = args.iter().map(here).collect::<Result<_>>()?;
    contiguous(&run(op, &args, shape, dtype)?)?.to_device(device)
}

/// The result of an operator that only looks at its operand's memory another way.
fn as_view(op: &Op, args: &[Arg], shape: &Shape) -> Option<Array> {
    let [Arg::Array(x)] = args else { return None };
    let layout = match op {
        Op::Reshape(_) | Op::Flatten { .. } => x.layout.reshape(shape)?,
        _ => view_map(op, x.shape(), shape)?.apply(&x.layout, shape),
    };
    Some(x.with_layout(layout))
}
