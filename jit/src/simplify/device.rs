//! Operators that the CPU has ready-made kernels for, by those that a device computes.
//!
//! What is left to a device's library is few: products of equal floats, the positions that sort the last dimension and the
//! first of them, scatters of one form, and running log Σ exp along the last dimension.

use super::{Simplifier, convolution, ordering, pooling, scattering};
use ferrotrace_kernels::{Composite, Op, Operand, ScanKind, ValueId, ops::composite};
use ferrotrace_runtime::Result;

/// The operator by others; `None` for one that stays.
pub(super) fn define(op: &Op, b: &mut Simplifier<'_>, args: &[Operand]) -> Option<Result<ValueId>> {
    let parts = b.policy.thresholds.cat_parts;
    Some(match op {
        Op::Composite(op @ Composite::Attention { .. }) => composite::decompose(op, b, args),
        Op::Conv(spec) => convolution::define(spec, b, args),
        Op::Pool(spec) => pooling::define(spec, b, args),
        Op::AdaptiveAvgPool { size } => pooling::adaptive(*size, b, args),
        Op::Interpolate {
            size,
            order,
            align_corners,
        } => pooling::interpolate((*size, *order, *align_corners), b, args),
        Op::Sort { dim, descending } => ordering::sort((*dim, *descending), b, args),
        Op::ArgSort { dim, descending } if !ordering::is_last(b, args, *dim) => {
            ordering::argsort((*dim, *descending), b, args)
        }
        Op::TopK { k, dim, largest } => ordering::topk((*k, *dim, *largest), b, args),
        Op::ArgTopK { k, dim, largest } if !ordering::is_selected(b, args, (*k, *dim)) => {
            ordering::argtopk((*k, *dim, *largest), b, args)
        }
        Op::Scan {
            kind: ScanKind::LogSumExp,
            dim,
        } if !ordering::is_plain_scan(b, args, *dim) => ordering::logcumsumexp(*dim, b, args),
        Op::Cat { dim } if args.len() > parts => ordering::concatenation((*dim, parts), b, args),
        Op::Matmul => return ordering::product(b, args).transpose(),
        Op::Scatter {
            dim,
            mode,
            include_self,
        } => scattering::scatter(b, (*dim, *mode, *include_self), args),
        Op::IndexPut {
            axes,
            at,
            accumulate,
        } => scattering::index_put(b, (axes, *at, *accumulate), args),
        _ => return None,
    })
}
