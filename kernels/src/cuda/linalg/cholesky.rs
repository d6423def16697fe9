//! Cholesky's factorisation by blocks, right-looking.

use super::update::{After, Step};
use super::{BLOCK, Faults, Lines, THREADS, blocks, text};
use crate::Array;
use crate::cuda::library::Run;
use ferrotrace_runtime::{DType, KernelSource, Result};

const LOWER: &str = include_str!("lower.cu");

fn lower_text(dtype: DType, wide: bool) -> KernelSource {
    let integer = if wide {
        "unsigned long long"
    } else {
        "unsigned"
    };
    text(dtype, &format!("typedef {integer} I;\n"), LOWER)
}

/// Every source for a type.
pub(super) fn sources(dtype: DType) -> Vec<KernelSource> {
    vec![lower_text(dtype, false), lower_text(dtype, true)]
}

/// The lower factors of dense matrices of `n` rows, of which the lower triangles are read; or the first matrix that is not
/// positive definite, and the order of its first leading minor that is not positive.
///
/// # Errors
/// Out of memory; what the driver answers.
pub(crate) fn cholesky(x: &Array, n: usize) -> Result<Result<Array, (usize, usize)>> {
    let device = x.buffer.device();
    let out = Array::empty(device, x.shape().clone(), x.dtype)?;
    if x.numel() == 0 {
        return Ok(Ok(out));
    }
    let wide = u32::try_from(x.numel()).is_err();
    Run {
        name: ("lower_triangles", x.dtype, wide.into()),
        device,
        arrays: &[x, &out],
        params: &[n as i64, x.numel() as i64],
        blocks: blocks(x.numel()),
        threads: THREADS,
        shared: 0,
    }
    .start(|| lower_text(x.dtype, wide))?;
    let count = x.numel() / (n * n);
    let faults = Faults::empty(device, count)?;
    let lines = Lines::dense(n, n);
    let step = |product, to: Lines, sizes, after| {
        Step {
            arrays: [&out; 4],
            faults: Some(&faults.0),
            product,
            out: to,
            sizes,
            lower: true,
            after,
            count,
        }
        .start()
    };
    let first = n.min(BLOCK);
    step(None, lines, [first, first], After::Factor { done: 0 })?;
    for start in (0..n).step_by(BLOCK) {
        let end = start + BLOCK;
        if end >= n {
            break;
        }
        // The rows below the block are the columns of equations by it.
        let below = lines.at(end, start);
        let factors = lines.at(start, start);
        let unit = false;
        Step {
            arrays: [&out; 4],
            faults: None,
            product: None,
            out: below.turned(),
            sizes: [BLOCK, n - end],
            lower: false,
            after: After::Solve { factors, unit },
            count,
        }
        .start()?;
        let product = Some([below, below.turned()]);
        let after = After::Factor { done: end };
        step(product, lines.at(end, end), [n - end; 2], after)?;
    }
    Ok(faults.first()?.map_or(Ok(out), Err))
}
