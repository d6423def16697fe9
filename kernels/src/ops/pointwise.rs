//! Rules of pointwise operators: broadcasting and PyTorch's type promotion.

mod binary;
mod run;
mod unary;

use super::{order, tensor};
use crate::arg::{Arg, array};
use crate::copy::{cast, contiguous};
use crate::cpu::create;
use crate::op::gradient::{Adjoint, Gradients};
use crate::op::operator::{Inferred, Operator, facts, text};
use crate::text::{Line, Named};
use crate::{ArgMeta, Array, BinaryOp, Class, Op, OpBuilder, OpBuilderExt, Sizes, UnaryOp};
use ferrotrace_runtime::{Category, DType, Device, Error, Result, Shape};
use run::{run_binary, run_unary, run_where};

impl Operator for UnaryOp {
    fn name(&self) -> &'static str {
        UnaryOp::name(*self)
    }

    fn attributes(&self) -> Vec<Named> {
        Vec::new()
    }

    fn read(name: &str, _: &Line<'_>) -> Result<Option<UnaryOp>> {
        Ok(UnaryOp::from_name(name))
    }

    fn class(&self) -> Class {
        Class::Pointwise
    }

    fn is_light(&self) -> bool {
        !self.heavy()
    }

    fn jumps(&self, _: usize) -> bool {
        UnaryOp::jumps(*self)
    }

    fn work(&self, of: &Sizes<'_>) -> u64 {
        of.elements()
    }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_unary(*self, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        UnaryOp::vjp(*self, b, of)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        order::kept(args, shape, |args, shape| {
            run_unary(*self, args, shape, dtype)
        })
    }
}

impl Operator for BinaryOp {
    fn name(&self) -> &'static str {
        BinaryOp::name(*self)
    }

    fn attributes(&self) -> Vec<Named> {
        Vec::new()
    }

    fn read(name: &str, _: &Line<'_>) -> Result<Option<BinaryOp>> {
        Ok(BinaryOp::from_name(name))
    }

    fn class(&self) -> Class {
        Class::Pointwise
    }

    fn is_light(&self) -> bool {
        !self.heavy()
    }

    fn jumps(&self, operand: usize) -> bool {
        BinaryOp::jumps(*self, operand)
    }

    fn work(&self, of: &Sizes<'_>) -> u64 {
        of.elements()
    }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_binary(*self, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        BinaryOp::vjp(*self, b, of)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        order::kept(args, shape, |args, shape| {
            run_binary(*self, args, shape, dtype)
        })
    }
}

/// Operands mask, a, b, broadcast: a where the mask is true.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Where;

impl Operator for Where {
    text!("where_cond");
    facts! { class: Class::Pointwise, light: true, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_where(args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let (mask, mut gradients) = (of.value(0)?, of.none());
        if of.wants(1) {
            gradients[1] = Some(b.select(mask, of.gradient, 0.0)?);
        }
        if of.wants(2) {
            gradients[2] = Some(b.select(mask, 0.0, of.gradient)?);
        }
        Ok(gradients)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        order::kept(args, shape, |args, shape| run_where(args, shape, dtype))
    }
}

/// The elements in another dtype, by Rust's `as` (saturating, NaN to 0) and `!= 0` for `Bool`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cast(pub DType);

impl Operator for Cast {
    fn name(&self) -> &'static str {
        "to_dtype"
    }

    fn attributes(&self) -> Vec<Named> {
        Vec::new()
    }

    fn read(name: &str, line: &Line<'_>) -> Result<Option<Cast>> {
        Ok((name == "to_dtype").then_some(Cast(line.dtype)))
    }

    facts! { class: Class::Pointwise, light: true, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        Ok((args[0].shape(), self.0))
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let dtype = b.dtype(of.value(0)?);
        b.cast(of.gradient, dtype)
            .map(|gradient| of.first(gradient))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        match &args[0] {
            // To the dtype it has: a dense copy of what is not dense, which is how a copy is asked for.
            Arg::Array(x) if x.dtype == dtype => contiguous(x),
            Arg::Array(_) => order::kept(args, shape, |args, _| cast(array(args, 0)?, dtype)),
            Arg::Scalar(number) => create::full(&Device::cpu(), shape, *number, dtype),
        }
    }
}

impl Op {
    /// Whether it computes each element of its result of those at the same place, by itself: composites are defined by
    /// such operators.
    #[inline]
    pub fn is_elementwise(&self) -> bool {
        matches!(self, Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast(_))
    }

    /// The dtype that it converts to.
    pub fn as_cast(&self) -> Option<DType> {
        match self {
            Op::Cast(Cast(to)) => Some(*to),
            _ => None,
        }
    }

    /// The function of one element that it is.
    pub fn as_unary(&self) -> Option<UnaryOp> {
        match self {
            Op::Unary(op) => Some(*op),
            _ => None,
        }
    }

    /// The function of two elements that it is.
    pub fn as_binary(&self) -> Option<BinaryOp> {
        match self {
            Op::Binary(op) => Some(*op),
            _ => None,
        }
    }

    /// Whether it chooses between two operands by a third.
    pub fn is_where(&self) -> bool {
        matches!(self, Op::Where)
    }
}

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
