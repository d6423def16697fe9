//! Library kernels of CUDA devices, for what no loop nest says: the positions that sort rows or are first then, scatters,
//! and running log Σ exp. Their texts hold no size; they are compiled as generated ones are, once for each type.
//! Convolutions are cuDNN's.

pub mod convolution;
mod library;
mod scan;
mod scatter;
mod sort;

pub use sort::selects;

use crate::eager::{Arg, array};
use crate::{Array, Op, ScanKind};
use ferrotrace_runtime::{DType, KernelSource, Result, Shape};

/// What makes an array dense and row-major.
pub type Dense<'a> = &'a dyn Fn(&Array) -> Result<Array>;

/// Runs an operator in the form that the library has: positions that sort the last dimension, and the first of them where
/// [`selects`] says so; a scatter along dimension
/// 0 of a matrix, its index one number in range for each row; running log Σ exp along the last dimension, in binary32
/// or binary64; convolutions that the vendor's library takes. `None` for all others.
///
/// # Errors
/// Out of memory; what the device's driver answers; a kernel that does not compile.
pub fn run(
    op: &Op,
    args: &[Arg],
    shape: &Shape,
    dtype: DType,
    dense: Dense<'_>,
) -> Result<Option<Array>> {
    let is_last = |dim: usize| dim + 1 >= shape.rank();
    match op {
        Op::ArgSort { dim, descending } if is_last(*dim) => {
            let x = dense(array(args, 0)?)?;
            let n = shape.last().copied().unwrap_or(1);
            let order = sort::Order::positions(x.dtype, *descending);
            Ok(Some(sort::argsort(&x, n, order)?.positions))
        }
        Op::ArgTopK { k, dim, largest } if is_last(*dim) && selects(*k) => {
            let x = dense(array(args, 0)?)?;
            let n = x.shape().last().copied().unwrap_or(1);
            sort::top(&x, (n, *k), *largest, shape).map(Some)
        }
        Op::Scan {
            kind: ScanKind::LogSumExp,
            dim,
        } if is_last(*dim) && matches!(dtype, DType::F32 | DType::F64) => {
            scan::logcumsumexp(&dense(array(args, 0)?)?).map(Some)
        }
        Op::Scatter {
            dim: 0,
            mode,
            include_self,
        } => scatter::rows(args, (*mode, *include_self), dense),
        Op::Correlate(op) => convolution::run(op, args, &Default::default(), dense),
        _ => Ok(None),
    }
}

/// Every source of the library, for tests that compile them.
pub fn sources() -> Vec<KernelSource> {
    [sort::sources(), scatter::sources(), scan::sources()].concat()
}
