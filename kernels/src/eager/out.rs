//! Out-variants of operators (ir E2: results are written to memory that is given): into windows of larger results, and
//! over operands that nothing else needs.

use crate::ops::matmul;
use crate::{Arg, Array, Op};
use ferrotrace_runtime::{DType, Error, Layout, Result};

/// Whether the operator's kernel can write a result of `dtype` to a window of a larger one, on the CPU.
pub fn takes_window(op: &Op, dtype: DType, window: &Layout) -> bool {
    op.is_matmul() && matmul::takes_window(dtype, window)
}

/// Runs one operator, its result written to the window `out` of memory whose other elements stay as they are. Nothing
/// else may use the window meanwhile, and no operand lies there.
///
/// # Errors
/// Out of memory; an internal error where [`takes_window`] does not hold.
pub fn run_into(op: &Op, args: &[Arg], out: &Array) -> Result<()> {
    if !takes_window(op, out.dtype, &out.layout) {
        let name = op.name();
        return Err(Error::internal(format!("{name} writes to no window")));
    }
    matmul::run_into(args, &mut out.clone())
}

/// Whether the operator's kernel changes a few elements of its first operand, of `dtype` as the result, so that it can
/// do so in the operand's own memory (scheduler B-22: library calls may write over an operand).
pub fn writes_over(op: &Op, dtype: DType) -> bool {
    let update = op.entry().as_update();
    update.is_some_and(|update| update.writes_over(dtype))
}

/// Runs one operator in the memory of its first operand, which is `x`: dense from the start of a buffer that nothing
/// else holds. The first of `args` is not looked at. After an error `x` is of no use.
///
/// # Errors
/// Out of memory; an index out of range; an internal error where [`writes_over`] does not hold, or `x` is not as said.
pub fn run_over(op: &Op, mut x: Array, args: &[Arg]) -> Result<Array> {
    let whole = x.layout.is_contiguous() && x.layout.offset() == 0 && x.buffer.is_unique();
    let update = op.entry().as_update();
    match update.filter(|update| whole && update.writes_over(x.dtype)) {
        Some(update) => update.run_over(&mut x, args)?,
        None => {
            let name = op.name();
            return Err(Error::internal(format!("{name} over a shared operand")));
        }
    }
    Ok(x)
}
