//! Operators on devices, with the fallback to the host. Views need no copy; matrix products, sorting and scatters have
//! libraries. For the rest operands are copied to the host, the CPU's kernels run, and the result is copied back.

use crate::copy::{Dense, contiguous};
use crate::{Arg, Array, Op};
use ferrotrace_runtime::{Channel, Counter, DType, Device, Result, Shape, count, log};

/// Runs one operator for the device that its result will lie on. On the CPU it is [`Op::run`]. On other devices a result
/// that is no view is dense and row-major. `dense` copies an array of the device that a library does not take as it
/// lies.
///
/// # Errors
/// As [`Op::run`]; what a device's driver answers.
pub fn run_on(
    device: &Device,
    op: &Op,
    args: &[Arg],
    shape: &Shape,
    dtype: DType,
    dense: Dense<'_>,
) -> Result<Array> {
    if device.is_cpu() {
        return op.run(args, shape, dtype);
    }
    if let Some(view) = as_view(op, args, shape) {
        return Ok(view);
    }
    if let Some(out) = by_library(device, op, args, shape, dtype, dense)? {
        return Ok(out);
    }
    count(Counter::HostRuns, 1);
    log(Channel::Hints, || {
        format!("{} of {device} runs on the host", op.name())
    });
    let host = Device::cpu();
    let here = |arg: &Arg| match arg {
        Arg::Array(x) => x.to_device(&host).map(Arg::Array),
        number => Ok(number.clone()),
    };
    let args: Vec<Arg> = args.iter().map(here).collect::<Result<_>>()?;
    contiguous(&op.run(&args, shape, dtype)?)?.to_device(device)
}

/// The result of an operator that a device's library has.
fn by_library(
    device: &Device,
    op: &Op,
    args: &[Arg],
    shape: &Shape,
    dtype: DType,
    dense: Dense<'_>,
) -> Result<Option<Array>> {
    match op.rounded().entry().as_library() {
        Some(op) => op.run_on(device, args, shape, dtype, dense),
        None => Ok(None),
    }
}

/// The result of an operator that only looks at its operand's memory another way.
pub fn as_view(op: &Op, args: &[Arg], shape: &Shape) -> Option<Array> {
    let [Arg::Array(x)] = args else { return None };
    let layout = op.as_view()?.layout(&x.layout, shape)?;
    Some(x.with_layout(layout))
}
