//! The list of operators.

mod builder;
pub mod gradient;
pub mod operator;

pub use builder::{OpBuilder, OpBuilderExt, Operand, ValueId};

pub use crate::ops::arrange::{Cat, Pad, Repeat, SliceAssign};
pub use crate::ops::composite::Composite;
pub use crate::ops::composite::arrange::{OneHot, Roll, Triangle};
pub use crate::ops::composite::attention::{Attention, AttentionGradient};
pub use crate::ops::composite::einsum::Einsum;
pub use crate::ops::composite::loss::{Loss, ReducedLoss, Reduction};
pub use crate::ops::composite::norm::{BatchNorm, GroupNorm, LayerNorm, RmsNorm};
pub use crate::ops::composite::pool::{AdaptiveAvgPoolGradient, PoolGradient};
pub use crate::ops::composite::product::{AddMatmul, ConvBias, Linear};
pub use crate::ops::composite::random::Dropout;
pub use crate::ops::composite::reduction::{CountNonzero, Norm, Var};
pub use crate::ops::composite::softmax::{LogSoftmax, LogSumExp, Softmax};
pub use crate::ops::conv::ConvSpec;
pub use crate::ops::correlation::Correlation;
pub use crate::ops::create::{Arange, Full, Iota};
pub use crate::ops::fourier::{ComplexFourier, Fourier, HalfToReal, RealToHalf};
pub use crate::ops::index::placing::{PlaceOrder, PlaceRows};
pub use crate::ops::index::{Gather, Index, IndexPut, Scatter};
pub use crate::ops::linalg::Factorisation;
pub use crate::ops::linalg::cholesky::Cholesky;
pub use crate::ops::linalg::eig::Eig;
pub use crate::ops::linalg::eigh::{Eigh, Eigvalsh};
pub use crate::ops::linalg::exchange::ExchangeRows;
pub use crate::ops::linalg::exponential::Exponential;
pub use crate::ops::linalg::lu::{Lu, LuSolve};
pub use crate::ops::linalg::qr::Qr;
pub use crate::ops::linalg::svd::{Svd, Svdvals};
pub use crate::ops::linalg::triangular::SolveTriangular;
pub use crate::ops::matmul::{Matmul, SumOfProducts};
pub use crate::ops::pointwise::Cast;
pub use crate::ops::pool::{AdaptiveAvgPool, Interpolate, PoolSpec};
pub use crate::ops::program::{Part, Program};
pub use crate::ops::random::{Distribution, Random};
pub use crate::ops::reduce::Reduce;
pub use crate::ops::scan::{Scan, ScanKind};
pub use crate::ops::sort::{ArgSort, ArgTopK, Sort, TopK};
pub use crate::ops::unrounded::Unrounded;
pub use crate::ops::view::{
    Diagonal, Expand, Extent, Flatten, Flip, Narrow, Permute, Reshape, Select, Slice, Squeeze,
    Unfold, Unsqueeze,
};

use crate::arg::device;
use crate::ops::view::View;
use crate::ops::{matmul, pointwise, view};
use crate::{Arg, ArgMeta, Array, BinaryOp, Class, UnaryOp};
use ferrotrace_runtime::{DType, Error, Result, Shape};
use operator::{Inferred, Operator, operators};

operators! {
    /// An operator with its attributes. Tensor and number operands are listed beside it, never inside, so that two
    /// programs that differ in numbers alone have equal operators.
    pub enum Op: Operator {
        values {
            Unary(UnaryOp),
            Binary(BinaryOp),
            Cast(Cast),
            Full(Full),
            Arange(Arange),
            Iota(Iota),
            Random(Random),
            Reshape(Reshape),
            Expand(Expand),
            Permute(Permute),
            Squeeze(Squeeze),
            Unsqueeze(Unsqueeze),
            Flatten(Flatten),
            Slice(Slice),
            Narrow(Narrow),
            Select(Select),
            Flip(Flip),
            Diagonal(Diagonal),
            Unfold(Unfold),
            Repeat(Repeat),
            Pad(Pad),
            Cat(Cat),
            SliceAssign(SliceAssign),
            SumOfProducts(SumOfProducts),
            Reduce(Reduce),
            Scan(Scan),
            Sort(Sort),
            ArgSort(ArgSort),
            TopK(TopK),
            ArgTopK(ArgTopK),
            Gather(Gather),
            Index(Index),
            IndexPut(IndexPut),
            Scatter(Scatter),
            PlaceOrder(PlaceOrder),
            PlaceRows(PlaceRows),
            AdaptiveAvgPool(AdaptiveAvgPool),
            Interpolate(Interpolate),
            Unrounded(Unrounded),
            Program(Program),
            Part(Part),
        }
        boxed {
            Conv(ConvSpec),
            Correlate(Correlation),
            Pool(PoolSpec),
        }
        constants {
            Where = pointwise::Where,
            Barrier = view::Barrier,
            Matmul = matmul::Matmul,
        }
        lists {
            Composite,
            Factorisation,
            Fourier,
        }
    }
}

impl Op {
    /// The operator's name, as errors and text forms give it.
    pub fn name(&self) -> &'static str {
        self.entry().name()
    }

    /// The shape and dtype of the result for these operands.
    ///
    /// # Errors
    /// The operands do not fit the operator: the error names what is wrong (shape, dtype, dimension, argument). The
    /// bytes of the result cannot be counted.
    pub fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (shape, dtype) = self.entry().infer(args)?;
        check_size(&shape, dtype)?;
        Ok((shape, dtype))
    }

    /// Runs the ready-made kernel; `shape` and `dtype` are what [`infer`](Op::infer) gave for the operands. A view shares
    /// its operand's memory. Operands lie on the CPU; see [`run_on`](crate::eager::run_on) for others.
    ///
    /// # Errors
    /// Out of memory; an index out of range; an operand on a device without ready-made kernels.
    pub fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let on_device = |arg: &Arg| matches!(arg, Arg::Array(x) if !x.buffer.device().is_cpu());
        if args.iter().any(on_device) {
            return Err(Error::unsupported(format!(
                "{} has no ready-made kernel on {}",
                self.name(),
                device(args)
            )));
        }
        self.entry().run(args, shape, dtype)
    }

    /// A number in which operators that one line of a program records together mostly differ.
    #[inline]
    pub fn salt(&self) -> u8 {
        match self {
            Op::Unary(op) => *op as u8,
            Op::Binary(op) => *op as u8 + 97,
            Op::Reduce(op) => op.kind as u8 + 193,
            _ => 0,
        }
    }

    /// What it is to the passes that do not look at its attributes.
    #[inline]
    pub fn class(&self) -> Class {
        self.entry().class()
    }

    /// Whether the operator only looks at its operand through another index map.
    #[inline]
    pub fn is_view(&self) -> bool {
        self.class() == Class::View
    }

    /// The operator as a view.
    pub fn as_view(&self) -> Option<&dyn View> {
        self.entry().as_view()
    }

    /// An index out of range, as the program gave it.
    pub fn told(&self, index: i64, size: usize) -> i64 {
        let definition = self.as_composite();
        definition.map_or(index, |op| op.entry().told(index, size))
    }

    /// The operator that is defined by others.
    pub fn as_composite(&self) -> Option<&Composite> {
        match self {
            Op::Composite(op) => Some(op),
            _ => None,
        }
    }
}

/// Whether the bytes of a tensor can be counted. Views are held to it too: what is made of them has their size.
///
/// # Errors
/// They cannot.
pub fn check_size(shape: &Shape, dtype: DType) -> Result<()> {
    match shape.numel().checked_mul(dtype.size()) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(()),
        _ => Err(Error::argument(format!(
            "a tensor of shape {shape} is greater than any memory"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_of_their_class() {
        let views = [
            Op::from(Reshape(Default::default())),
            Op::from(Expand(Default::default())),
            Op::from(Permute(Default::default())),
            Op::from(Squeeze { mask: 0 }),
            Op::from(Flip { mask: 0 }),
            Op::Barrier,
        ];
        for op in views {
            assert!(op.is_view() && op.as_view().is_some(), "{op:?}");
        }
        for op in [Op::Matmul, Op::Where, Op::from(Cat { dim: 0 })] {
            assert!(!op.is_view() && op.as_view().is_none(), "{op:?}");
        }
    }
}
