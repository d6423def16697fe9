//! The seam through which operators are defined by other operators.

use crate::op::{Cast, Reduce};
use crate::{BinaryOp, Composite, Op, ReduceKind, UnaryOp};
use ferrotrace_runtime::{Activation, DType, Result, Scalar, Shape};

/// A value of the graph (or eager computation) being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// An operand of an operator.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// A tensor.
    Value(ValueId),
    /// A number known only when the plan runs: slot `.0` of the trace's numbers; `.1` is a number of its category.
    Slot(u32, Scalar),
    /// A number that is part of the operator's definition.
    Const(Scalar),
}

impl From<ValueId> for Operand {
    fn from(value: ValueId) -> Operand {
        Operand::Value(value)
    }
}

impl From<f64> for Operand {
    fn from(number: f64) -> Operand {
        Operand::Const(Scalar::Float(number))
    }
}

impl From<i64> for Operand {
    fn from(number: i64) -> Operand {
        Operand::Const(Scalar::Int(number))
    }
}

/// Builds operators one by one: the graph implements it, and eager mode, and the shape rules of composites.
pub trait OpBuilder {
    /// The shape of a value.
    fn shape(&self, value: ValueId) -> &Shape;

    /// The dtype of a value.
    fn dtype(&self, value: ValueId) -> DType;

    /// Appends an operator.
    ///
    /// # Errors
    /// The operator's shape and dtype rules refuse the operands.
    fn push(&mut self, op: Op, operands: &[Operand]) -> Result<ValueId>;
}

/// Short forms of [`OpBuilder::push`].
pub trait OpBuilderExt: OpBuilder {
    /// A function of one element.
    fn unary(&mut self, op: UnaryOp, x: ValueId) -> Result<ValueId> {
        self.push(Op::Unary(op), &[x.into()])
    }

    /// A function of two elements.
    fn binary(
        &mut self,
        op: BinaryOp,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
    ) -> Result<ValueId> {
        self.push(Op::Binary(op), &[a.into(), b.into()])
    }

    /// a + b.
    fn add(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<ValueId> {
        self.binary(BinaryOp::Add, a, b)
    }

    /// a − b.
    fn sub(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<ValueId> {
        self.binary(BinaryOp::Sub, a, b)
    }

    /// a · b.
    fn mul(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<ValueId> {
        self.binary(BinaryOp::Mul, a, b)
    }

    /// a / b.
    fn div(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<ValueId> {
        self.binary(BinaryOp::Div, a, b)
    }

    /// The matrix product.
    fn matmul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.push(Op::Matmul, &[a.into(), b.into()])
    }

    /// What a library's product ends with.
    fn activation(&mut self, activation: Activation, x: ValueId) -> Result<ValueId> {
        match activation {
            Activation::None => Ok(x),
            Activation::Relu => self.unary(UnaryOp::Relu, x),
            Activation::GeluTanh => self.push(Op::Composite(Composite::GeluTanh), &[x.into()]),
        }
    }

    /// `a` where `mask` is true, else `b`.
    fn select(
        &mut self,
        mask: ValueId,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
    ) -> Result<ValueId> {
        self.push(Op::Where, &[mask.into(), a.into(), b.into()])
    }

    /// A barrier behind a value: a kernel of its own computes the value and stores it.
    fn barrier(&mut self, x: ValueId) -> Result<ValueId> {
        self.push(Op::Barrier, &[x.into()])
    }

    /// The elements as `dtype`; the value itself if it has that dtype.
    fn cast(&mut self, x: ValueId, dtype: DType) -> Result<ValueId> {
        if self.dtype(x) == dtype {
            return Ok(x);
        }
        self.push(Op::Cast(Cast(dtype)), &[x.into()])
    }

    /// A reduction over the dimensions of `mask`.
    fn reduce(
        &mut self,
        kind: ReduceKind,
        x: ValueId,
        mask: u64,
        keepdim: bool,
    ) -> Result<ValueId> {
        self.push(
            Op::Reduce(Reduce {
                kind,
                mask,
                keepdim,
            }),
            &[x.into()],
        )
    }
}

impl<B: OpBuilder + ?Sized> OpBuilderExt for B {}
