//! Rules of pointwise operators: broadcasting and PyTorch's type promotion.

use super::{Inferred, tensor};
use crate::{ArgMeta, BinaryOp, UnaryOp};
use ferrotrace_runtime::{Category, DType, Error, Result, Shape};

/// The dtype operands promote to (ir T81): tensors of one or more dimensions come first, then 0-d tensors, then
/// numbers; a later class takes part only where its category is higher than that of the classes before it.
pub fn promote(args: &[ArgMeta<'_>]) -> DType {
    match args {
        [ArgMeta::Tensor(_, dtype)] => return *dtype,
        [ArgMeta::Tensor(_, a), ArgMeta::Tensor(_, b)] if a == b => return *a,
        [ArgMeta::Tensor(_, a), ArgMeta::Scalar(number)]
            if number.default_dtype().category() <= a.category() =>
        {
            return *a;
        }
        _ => {}
    }
    let mut classes: [Option<DType>; 3] = [None; 3];
    for arg in args {
        let (class, dtype) = match arg {
            ArgMeta::Tensor(shape, dtype) => (usize::from(shape.rank() == 0), *dtype),
            ArgMeta::Scalar(_) => (2, arg.dtype()),
        };
        classes[class] = Some(match classes[class] {
            None => dtype,
            Some(other) if other == dtype => dtype,
            Some(other) => other.promote(dtype),
        });
    }
    let mut result: Option<DType> = None;
    for here in classes.into_iter().flatten() {
        if result.is_none_or(|r| here.category() > r.category()) {
            result = Some(here);
        }
    }
    result.unwrap_or(DType::F32)
}

/// The shape operands broadcast to.
///
/// # Errors
/// Two shapes differ in a dimension where neither is 1.
pub fn broadcast(args: &[ArgMeta<'_>]) -> Result<Shape> {
    let mut shapes = args.iter().filter_map(|arg| match arg {
        ArgMeta::Tensor(shape, _) => Some(*shape),
        ArgMeta::Scalar(_) => None,
    });
    let Some(first) = shapes.next() else {
        return Ok(Shape::scalar());
    };
    let Some(other) = shapes.find(|shape| *shape != first) else {
        return Ok(first.clone());
    };
    let join = |a: &Shape, b: &Shape| {
        a.broadcast(b)
            .ok_or_else(|| Error::shape(format!("shapes {a} and {b} do not broadcast")))
    };
    shapes.try_fold(join(first, other)?, |result, shape| join(&result, shape))
}

/// The dtype a unary operator computes in.
///
/// # Errors
/// The operator does not take the dtype.
pub fn unary_compute(op: UnaryOp, args: &[ArgMeta<'_>]) -> Result<DType> {
    let dtype = args[0].dtype();
    let refused = || Error::untaken(op.name(), dtype, instead(|dtype| op.compute_dtype(dtype)));
    op.compute_dtype(dtype).ok_or_else(refused)
}

/// A dtype that an operator takes, by the dtype that it computes in.
fn instead(compute: impl Fn(DType) -> Option<DType>) -> DType {
    compute(DType::I64).map_or(DType::F32, |_| DType::I64)
}

/// The dtype the operands of a binary operator are cast to.
///
/// # Errors
/// The operator does not take the promoted dtype.
pub fn binary_compute(op: BinaryOp, args: &[ArgMeta<'_>]) -> Result<DType> {
    let dtype = promote(args);
    let refused = || Error::untaken(op.name(), dtype, instead(|dtype| op.compute_dtype(dtype)));
    op.compute_dtype(dtype).ok_or_else(refused)
}

pub(super) fn infer_unary(op: UnaryOp, args: &[ArgMeta<'_>]) -> Inferred {
    let compute = unary_compute(op, args)?;
    Ok((args[0].shape(), op.result_dtype(compute)))
}

pub(super) fn infer_binary(op: BinaryOp, args: &[ArgMeta<'_>]) -> Inferred {
    let compute = binary_compute(op, args)?;
    Ok((broadcast(args)?, op.result_dtype(compute)))
}

pub(super) fn infer_where(args: &[ArgMeta<'_>]) -> Inferred {
    let (_, mask) = tensor(args, 0)?;
    if mask.category() != Category::Bool {
        return Err(Error::dtype(format!(
            "the condition must be bool, not {mask}: to_dtype(DType::Bool) first"
        )));
    }
    Ok((broadcast(args)?, promote(&args[1..])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use DType::*;
    use ferrotrace_runtime::Scalar;

    #[test]
    fn promotion_classes() {
        let (one, zero) = (Shape::from([2]), Shape::scalar());
        let t = |d| ArgMeta::Tensor(&one, d);
        let z = |d| ArgMeta::Tensor(&zero, d);
        let s = |v| ArgMeta::Scalar(v);
        assert_eq!(promote(&[t(F16), s(Scalar::Float(1.5))]), F16);
        assert_eq!(promote(&[t(I32), s(Scalar::Float(1.5))]), F32);
        assert_eq!(promote(&[t(Bool), s(Scalar::Int(1))]), I64);
        assert_eq!(promote(&[t(U8), s(Scalar::Int(1000))]), U8);
        assert_eq!(promote(&[t(F16), z(F64)]), F16);
        assert_eq!(promote(&[t(I8), z(F64)]), F64);
        assert_eq!(promote(&[z(F32), z(F64)]), F64);
        assert_eq!(promote(&[z(I32), s(Scalar::Int(1))]), I32);
        assert_eq!(promote(&[t(I32), t(I64)]), I64);
    }
}
