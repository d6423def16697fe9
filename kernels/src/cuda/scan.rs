//! Scans that are no fold of one number.

use super::library::{Run, source};
use crate::Array;
use crate::support::scalar_type;
use ferrotrace_runtime::{DType, KernelSource, Result};

const TEXT: &str = include_str!("logcumsumexp.cu");

fn text(dtype: DType) -> KernelSource {
    source(&[&format!("typedef {} T;\n", scalar_type(dtype)), TEXT])
}

/// Every source for every type.
pub(super) fn sources() -> Vec<KernelSource> {
    vec![text(DType::F32), text(DType::F64)]
}

/// Running log Σ exp along the last dimension of a dense array of binary32 or binary64.
///
/// # Errors
/// Out of memory; what the driver answers.
pub(crate) fn logcumsumexp(x: &Array) -> Result<Array> {
    let device = x.buffer.device();
    let out = Array::empty(device, x.shape().clone(), x.dtype)?;
    let n = x.shape().last().copied().unwrap_or(1);
    Run {
        name: ("logcumsumexp", x.dtype, 0),
        device,
        arrays: &[x, &out],
        params: &[n as i64],
        blocks: x.numel().checked_div(n).unwrap_or(0),
        threads: 256,
        shared: 0,
    }
    .start(|| text(x.dtype))?;
    Ok(out)
}
