//! Convolutions by the vendor's library.

use super::{Correlation, form};
use crate::Array;
use crate::arg::{Arg, array};
use crate::copy::Dense;
use crate::ops::matmul::After;
use ferrotrace_runtime::{Buffer, Convolution, Result, convolve, convolves};

/// Bytes at whose multiples the library's operands start.
const ALIGNMENT: usize = 16;

/// The convolution, and what follows it, where channels lie innermost; `None` where the library has no such form.
///
/// # Errors
/// Out of memory; what the driver or the library answers.
pub fn run_by_library(
    op: &Correlation,
    args: &[Arg],
    after: &After<'_>,
    dense: Dense<'_>,
) -> Result<Option<Array>> {
    let (a, b) = (array(args, 0)?, array(args, 1)?);
    let device = a.buffer.device();
    let dtype = a.dtype;
    let Some(form) = form(op, [a.shape(), b.shape()], dtype) else {
        return Ok(None);
    };
    let form = Convolution {
        bias: after.bias.is_some(),
        activation: after.activation,
        ..form
    };
    if b.dtype != dtype || !convolves(device, &form)? {
        return Ok(None);
    }
    let (a, b) = (dense(a)?, dense(b)?);
    let (a, b) = (placed(&a)?, placed(&b)?);
    let result = if op.wide { dtype.compute() } else { dtype };
    let out = Array::empty(device, op.shape.clone(), result)?;
    let bias = after.bias.map(placed).transpose()?;
    let bias = bias.as_ref().map(|(buffer, first)| (buffer, *first));
    convolve(&form, [(&a.0, a.1), (&b.0, b.1)], bias, &out.buffer)?;
    Ok(Some(out))
}

/// The memory of a dense array and its first byte there, where the library takes it: else of a copy.
fn placed(x: &Array) -> Result<(Buffer, usize)> {
    let first = x.layout.offset() * x.dtype.size();
    if (x.buffer.as_ptr() as usize + first).is_multiple_of(ALIGNMENT) {
        return Ok((x.buffer.clone(), first));
    }
    let bytes = first..first + x.numel() * x.dtype.size();
    Ok((x.buffer.copy_to(bytes, x.buffer.device())?, 0))
}
