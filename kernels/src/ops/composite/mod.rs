//! Operators defined by others.
//!
//! A composite is written once, as a [decomposition](decompose) through [`OpBuilder`]. Its shape and dtype rule is that
//! decomposition run on shapes alone, its ready-made form the same run operator by operator. Decompositions read the
//! shapes the builder has at that moment and never the value of a number operand, so one holds for every number, and is
//! run again for other sizes.
//!
//! Half-precision operands are taken to F32 first and the result rounded once, except where an operator is of one
//! rounding anyway. Functions of floats take integers and truth values as F32.

pub(crate) mod activation;
pub(crate) mod arrange;
pub(crate) mod attention;
mod build;
pub(crate) mod einsum;
pub(crate) mod loss;
pub(crate) mod norm;
pub(crate) mod pool;
pub(crate) mod product;
pub(crate) mod random;
pub(crate) mod reduction;
mod slope;
pub(crate) mod softmax;
pub(crate) mod ternary;
#[cfg(test)]
mod testing;

use crate::op::operator::{Inferred, Operator, operators};
use crate::{Arg, ArgMeta, Array, OpBuilder, Operand, ValueId};
use build::{Recorder, ShapeBuilder};
use ferrotrace_runtime::{DType, Error, ErrorKind, Result, Shape};
use smallvec::SmallVec;

/// What an operator that is defined by others answers beside what every operator does.
pub trait Definition: Operator {
    /// Builds the operator from others. The result may be an operand itself where the operator changes nothing (a roll
    /// by 0, dropout of nothing).
    ///
    /// # Errors
    /// The operands do not fit the operator: the error names what is wrong (shape, dtype, dimension, argument).
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId>;

    /// Whether one ready-made kernel of the CPU does the whole with less memory than the definition: it is not taken
    /// apart there.
    fn has_kernel(&self) -> bool {
        false
    }

    /// An index that the definition finds out of range, as the program gave it.
    fn told(&self, index: i64, _size: usize) -> i64 {
        index
    }
}

operators! {
    /// Operators defined by a decomposition into others.
    pub enum Composite: Definition {
        values {
            Dropout(random::Dropout),
            Softmax(softmax::Softmax),
            LogSoftmax(softmax::LogSoftmax),
            LogSumExp(softmax::LogSumExp),
            Var(reduction::Var),
            Norm(reduction::Norm),
            CountNonzero(reduction::CountNonzero),
            LayerNorm(norm::LayerNorm),
            RmsNorm(norm::RmsNorm),
            GroupNorm(norm::GroupNorm),
            BatchNorm(norm::BatchNorm),
            Linear(product::Linear),
            AddMatmul(product::AddMatmul),
            ConvBias(product::ConvBias),
            Einsum(einsum::Einsum),
            Attention(attention::Attention),
            AttentionGradient(attention::AttentionGradient),
            AdaptiveAvgPoolGradient(pool::AdaptiveAvgPoolGradient),
            Triangle(arrange::Triangle),
            Roll(arrange::Roll),
            OneHot(arrange::OneHot),
            Loss(loss::ReducedLoss),
        }
        boxed {
            PoolGradient(pool::PoolGradient),
        }
        constants {
            Gelu = activation::GELU,
            GeluTanh = activation::GELU_TANH,
            Silu = activation::SILU,
            Mish = activation::MISH,
            Softplus = activation::SOFTPLUS,
            Softsign = activation::SOFTSIGN,
            Hardtanh = activation::HARDTANH,
            Hardswish = activation::HARDSWISH,
            Hardsigmoid = activation::HARDSIGMOID,
            LogSigmoid = activation::LOG_SIGMOID,
            Relu6 = activation::RELU6,
            LeakyRelu = activation::LEAKY_RELU,
            Elu = activation::ELU,
            Selu = activation::SELU,
            Celu = activation::CELU,
            Frac = activation::FRAC,
            Clamp = ternary::CLAMP,
            Lerp = ternary::LERP,
            Addcmul = ternary::ADDCMUL,
            Addcdiv = ternary::ADDCDIV,
            NanToNum = ternary::NAN_TO_NUM,
        }
        lists {}
    }
}

/// The gradient that follows from a definition.
macro_rules! derived {
    () => {
        fn vjp(
            &self,
            b: &mut dyn crate::OpBuilder,
            of: &crate::op::gradient::Adjoint<'_>,
        ) -> Result<crate::op::gradient::Gradients> {
            crate::op::gradient::by_definition(b, of, |b, args| self.define(b, args))
        }
    };
}
use derived;

/// All that follows from a definition: the gradient, the shape and dtype rule, and the ready-made form.
macro_rules! defined {
    () => {
        crate::ops::composite::derived!();
        crate::ops::composite::inferred!();
    };
}
use defined;

/// The shape and dtype rule and the ready-made form that follow from a definition.
macro_rules! inferred {
    () => {
        fn infer(&self, args: &[crate::ArgMeta<'_>]) -> crate::op::operator::Inferred {
            crate::ops::composite::infer_by_definition(self, args)
        }

        fn run(
            &self,
            args: &[crate::Arg],
            shape: &ferrotrace_runtime::Shape,
            dtype: DType,
        ) -> Result<crate::Array> {
            crate::ops::composite::run_definition(self, args, shape, dtype)
        }
    };
}
use inferred;

/// Builds the operator from others.
///
/// # Errors
/// The operands do not fit: see [`Definition::define`].
pub fn decompose(op: &Composite, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
    op.entry().define(b, args)
}

/// The definition run on shapes and dtypes.
fn infer_by_definition(op: &dyn Definition, args: &[ArgMeta<'_>]) -> Inferred {
    let (mut b, operands) = ShapeBuilder::new(args);
    let result = op.define(&mut b, &operands)?;
    b.take(result)
}

/// The most bytes that running the operator holds at once beyond those of its operands, its result included; what one
/// ready-made kernel needs for itself is not counted. `by_tiles` as for [`matmul::held`](crate::ops::matmul::held).
///
/// # Errors
/// The operands do not fit the operator.
pub fn held(op: &Composite, args: &[ArgMeta<'_>], by_tiles: bool) -> Result<u64> {
    let op = op.entry();
    if op.has_kernel() {
        let (shape, dtype) = op.infer(args)?;
        return Ok((shape.numel() * dtype.size()) as u64);
    }
    let (mut b, operands) = Recorder::new(args);
    let result = op.define(&mut b, &operands)?;
    Ok(b.held(result, by_tiles))
}

/// An error with an index out of range as the program gave it.
fn told(op: &dyn Definition, error: Error) -> Error {
    match *error.kind() {
        ErrorKind::Index { index, dim, size } => Error::new(ErrorKind::Index {
            index: op.told(index, size),
            dim,
            size,
        }),
        _ => error,
    }
}

/// Runs the definition operator by operator on ready-made kernels; `shape` and `dtype` are those of its result.
///
/// # Errors
/// The operands do not fit the operator; an index is out of range; out of memory.
fn run_definition(op: &dyn Definition, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let metas: SmallVec<[ArgMeta<'_>; 6]> = args.iter().map(Arg::meta).collect();
    let (mut b, operands) = Recorder::new(&metas);
    let result = op.define(&mut b, &operands)?;
    let array = b.run(args, result).map_err(|error| told(op, error))?;
    if array.shape() != shape || array.dtype != dtype {
        let (name, got, ty) = (op.name(), array.shape(), array.dtype);
        return Err(Error::internal(format!(
            "{name} gave {ty}{got} for {dtype}{shape}"
        )));
    }
    Ok(array)
}
