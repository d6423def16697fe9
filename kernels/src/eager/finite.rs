//! Looking for NaNs and infinities, for `FERROTRACE_NANS=1` (scheduler K-17, codegen A12.4: results can be checked for
//! NaN).

use crate::cpu::dense::elements;
use crate::op::Reduce;
use crate::{Arg, Array, Op, ReduceKind, UnaryOp};
use ferrotrace_runtime::{Category, DType, Device, Error, ErrorKind, Result, Scalar, Shape};

/// Whether `truth` holds at some element (`Any`) or at all (`All`).
fn holds(x: &Array, truth: UnaryOp, kind: ReduceKind) -> Result<bool> {
    let x = x.to_device(&Device::cpu())?;
    let shape = x.shape().clone();
    let mask = (1u64 << shape.rank()) - 1;
    let bits = Op::from(truth).run(&[Arg::Array(x)], &shape, DType::Bool)?;
    let reduce = Op::from(Reduce {
        kind,
        mask,
        keepdim: false,
    });
    let one = reduce.run(&[Arg::Array(bits)], &Shape::scalar(), DType::Bool)?;
    Ok(elements::<u8>(&one)?.contains(&1))
}

/// Whether no element is a NaN or an infinity.
///
/// # Errors
/// Out of memory; what a device's driver answers.
pub fn is_finite(x: &Array) -> Result<bool> {
    if x.dtype.category() != Category::Float || x.numel() == 0 {
        return Ok(true);
    }
    holds(x, UnaryOp::IsFinite, ReduceKind::All)
}

/// Whether no operand is or holds a NaN or an infinity.
///
/// # Errors
/// As [`is_finite`].
pub fn are_finite(args: &[Arg]) -> Result<bool> {
    for arg in args {
        let finite = match arg {
            Arg::Array(x) => is_finite(x)?,
            Arg::Scalar(Scalar::Float(number)) => number.is_finite(),
            Arg::Scalar(_) => true,
        };
        if !finite {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The error of a result that is not finite; `step` says what computed it.
///
/// # Errors
/// As [`is_finite`].
pub fn not_finite(result: &Array, step: String) -> Result<Error> {
    let nan = holds(result, UnaryOp::IsNan, ReduceKind::Any)?;
    Ok(Error::new(ErrorKind::NotFinite { nan, step }))
}

/// Checks what an operator made of its operands.
///
/// # Errors
/// [`ErrorKind::NotFinite`] where a NaN or an infinity came of finite operands; as [`is_finite`].
pub fn check(args: &[Arg], result: &Array) -> Result<()> {
    if is_finite(result)? || !are_finite(args)? {
        return Ok(());
    }
    Err(not_finite(result, String::new())?)
}
