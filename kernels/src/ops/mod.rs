//! The operators, by family: shape and dtype rules, C text or decomposition, ready-made kernel.

pub mod binary;
pub mod composite;
pub mod conv;
pub mod correlation;
pub mod create;
mod decides;
pub mod index;
pub mod matmul;
pub mod order;
pub mod pointwise;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod sort;
pub mod unary;
pub mod view;

use crate::{ArgMeta, Op};
use ferrotrace_runtime::{DType, Error, Result, Shape};

/// The shape and dtype of a result.
pub type Inferred = Result<(Shape, DType)>;

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

impl Op {
    /// The shape and dtype of the result for these operands.
    ///
    /// # Errors
    /// The operands do not fit the operator: the error names what is wrong (shape, dtype, dimension, argument). The
    /// bytes of the result cannot be counted.
    pub fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (shape, dtype) = self.result(args)?;
        check_size(&shape, dtype)?;
        Ok((shape, dtype))
    }

    fn result(&self, args: &[ArgMeta<'_>]) -> Inferred {
        match self {
            Op::Full { shape, dtype } | Op::Random { shape, dtype, .. } => {
                Ok((shape.clone(), *dtype))
            }
            Op::Arange { len, dtype } => Ok((Shape::from(*len), *dtype)),
            Op::Iota { shape, .. } => Ok((shape.clone(), DType::I64)),
            Op::Unary(op) => pointwise::infer_unary(*op, args),
            Op::Binary(op) => pointwise::infer_binary(*op, args),
            Op::Where => pointwise::infer_where(args),
            Op::Cast(dtype) => Ok((args[0].shape(), *dtype)),
            Op::Reduce {
                kind,
                mask,
                keepdim,
            } => reduce::infer(*kind, *mask, *keepdim, args),
            Op::Scan { kind, dim } => scan::infer(*kind, *dim, args),
            Op::Sort { dim, .. } => sort::infer_sort(*dim, args),
            Op::ArgSort { dim, .. } => sort::infer_argsort(*dim, args),
            Op::TopK { k, dim, .. } => sort::infer_topk(*k, *dim, args),
            Op::ArgTopK { k, dim, .. } => sort::infer_argtopk(*k, *dim, args),
            Op::Gather { dim } => index::infer_gather(*dim, args),
            Op::Index { axes, at } => index::infer_index(axes, *at, args),
            Op::IndexPut { axes, at, .. } => index::infer_index_put(axes, *at, args),
            Op::Scatter { dim, mode, .. } => index::infer_scatter(*dim, *mode, args),
            Op::Matmul => matmul::infer(args),
            Op::Conv(spec) => conv::infer(spec, args),
            Op::Correlate(op) => correlation::infer(op, args),
            Op::Pool(spec) => pool::infer(spec, args),
            Op::AdaptiveAvgPool { size } => pool::infer_adaptive(*size, args),
            Op::Interpolate { size, order, .. } => pool::infer_interpolate(*size, *order, args),
            Op::Unrounded(op) => {
                let (shape, dtype) = op.infer(args)?;
                Ok((shape, dtype.compute()))
            }
            Op::Composite(op) => composite::infer(op, args),
            view => view::infer(view, args),
        }
    }

    /// Whether the operator only looks at its operand through another index map.
    pub fn is_view(&self) -> bool {
        matches!(
            self,
            Op::Reshape(_)
                | Op::Flatten { .. }
                | Op::Expand(_)
                | Op::Permute(_)
                | Op::Squeeze { .. }
                | Op::Unsqueeze { .. }
                | Op::Slice { .. }
                | Op::Narrow { .. }
                | Op::Select { .. }
                | Op::Flip { .. }
                | Op::Barrier
                | Op::Diagonal { .. }
                | Op::Unfold { .. }
        )
    }

    /// The operator's name, as errors and text forms give it.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Full { .. } => "full",
            Op::Arange { .. } => "arange",
            Op::Iota { .. } => "iota",
            Op::Random { dist, .. } => random::name(*dist),
            Op::Unary(op) => op.name(),
            Op::Binary(op) => op.name(),
            Op::Where => "where_cond",
            Op::Cast(_) => "to_dtype",
            Op::Reshape(_) => "reshape",
            Op::Expand(_) => "expand",
            Op::Permute(_) => "permute",
            Op::Squeeze { .. } => "squeeze",
            Op::Unsqueeze { .. } => "unsqueeze",
            Op::Flatten { .. } => "flatten",
            Op::Slice { .. } => "slice",
            Op::Narrow { .. } => "narrow",
            Op::Select { .. } => "select",
            Op::Flip { .. } => "flip",
            Op::Barrier => "barrier",
            Op::Diagonal { .. } => "diagonal",
            Op::Unfold { .. } => "unfold",
            Op::Repeat(_) => "repeat",
            Op::Pad(_) => "pad",
            Op::Cat { .. } => "cat",
            Op::Reduce { kind, .. } => reduce::name(*kind),
            Op::Scan { kind, .. } => scan::name(*kind),
            Op::Sort { .. } => "sort",
            Op::ArgSort { .. } => "argsort",
            Op::TopK { .. } => "topk_values",
            Op::ArgTopK { .. } => "topk",
            Op::Gather { .. } => "gather",
            Op::Index { .. } => "index",
            Op::IndexPut { .. } => "index_put",
            Op::Scatter { .. } => "scatter",
            Op::SliceAssign { .. } => "slice_assign",
            Op::Matmul => "matmul",
            Op::Unrounded(op) => op.name(),
            Op::Conv(spec) => conv::name(spec),
            Op::Correlate(_) => "correlate",
            Op::Pool(spec) => pool::name(spec),
            Op::AdaptiveAvgPool { .. } => "adaptive_avg_pool2d",
            Op::Interpolate { .. } => "interpolate",
            Op::Composite(op) => composite::name(op),
        }
    }
}

/// The tensor operand at `i`.
///
/// # Errors
/// It is a number: the operator needs a tensor there.
pub(crate) fn tensor<'a>(args: &[ArgMeta<'a>], i: usize) -> Result<(&'a Shape, DType)> {
    args.get(i)
        .and_then(ArgMeta::tensor)
        .ok_or_else(|| Error::argument(format!("operand {i} must be a tensor")))
}
