//! Operators that the CPU has ready-made kernels for, by those that a device computes.
//!
//! What is left to a device's library is few: products of equal floats, the positions that sort the last dimension and the
//! first of them, scatters of one form, running log Σ exp along the last dimension, and factorisations of matrices.

use super::{Simplifier, convolution, ordering, scattering, windows};
use ferrotrace_kernels::op::operator::OnDevice;
use ferrotrace_kernels::op::{AdaptiveAvgPool, IndexPut, Scan, Scatter};
use ferrotrace_kernels::ops::pool::definition as pooling;
use ferrotrace_kernels::{ArgMeta, Op, OpBuilder, Operand, ScanKind, ValueId};
use ferrotrace_runtime::Result;
use smallvec::SmallVec;

/// The operator by others; `None` for one that stays.
pub(super) fn define(op: &Op, b: &mut Simplifier<'_>, args: &[Operand]) -> Option<Result<ValueId>> {
    Some(match op {
        Op::Composite(op) if op.entry().has_kernel() => {
            let op = op.entry();
            match op.as_library().is_some_and(|of| is_had(of, b, args)) {
                true => return None,
                false => {
                    let outer = std::mem::replace(&mut b.one_kernel, true);
                    let defined = op.define(b, args);
                    b.one_kernel = outer;
                    defined
                }
            }
        }
        Op::Conv(spec) => convolution::define(spec, b, args),
        Op::Pool(spec) => windows::define(spec, b, args),
        Op::AdaptiveAvgPool(AdaptiveAvgPool { size }) => pooling::adaptive(*size, b, args),
        Op::Interpolate(op) => pooling::interpolate(op, b, args),
        Op::Sort(op) => ordering::sort(op, b, args),
        Op::ArgSort(op) if !ordering::is_last(b, args, op.dim) => ordering::argsort(op, b, args),
        Op::TopK(op) => ordering::topk(op, b, args),
        Op::ArgTopK(op) if !ordering::is_selected(b, args, op) => ordering::argtopk(op, b, args),
        Op::Scan(Scan {
            kind: ScanKind::LogSumExp,
            dim,
        }) if !ordering::is_plain_scan(b, args, *dim) => ordering::logcumsumexp(*dim, b, args),
        Op::Matmul => return ordering::product(b, args).transpose(),
        // Generated loops.
        Op::Scatter(_) | Op::IndexPut(_) if scattering::is_apart(b, op, args) => return None,
        Op::Scatter(Scatter {
            dim,
            mode,
            include_self,
        }) => scattering::scatter(b, (*dim, *mode, *include_self), args),
        Op::IndexPut(IndexPut {
            axes,
            at,
            accumulate,
        }) => scattering::index_put(b, (axes, *at, *accumulate), args),
        // Only plans for the CPU have it.
        Op::SumOfProducts(_) => return None,
        // Generated loops, kernels of the library, or programs and factorisations that the host runs.
        Op::ArgSort(_) | Op::ArgTopK(_) | Op::Scan(_) | Op::Correlate(_) => return None,
        Op::PlaceOrder(_) | Op::PlaceRows(_) => return None,
        Op::Program(_) | Op::Part(_) | Op::Factorisation(_) | Op::Fourier(_) => return None,
        // Definitions, which the caller takes apart.
        Op::Composite(_) | Op::Unrounded(_) => return None,
        // Generated loops.
        Op::Unary(_)
        | Op::Binary(_)
        | Op::Where
        | Op::Cast(_)
        | Op::Full(_)
        | Op::Arange(_)
        | Op::Iota(_)
        | Op::Random(_)
        | Op::Reshape(_)
        | Op::Expand(_)
        | Op::Permute(_)
        | Op::Squeeze(_)
        | Op::Unsqueeze(_)
        | Op::Flatten(_)
        | Op::Slice(_)
        | Op::Narrow(_)
        | Op::Select(_)
        | Op::Flip(_)
        | Op::Barrier
        | Op::Diagonal(_)
        | Op::Unfold(_)
        | Op::Repeat(_)
        | Op::Pad(_)
        | Op::Cat(_)
        | Op::SliceAssign(_)
        | Op::Reduce(_)
        | Op::Gather(_)
        | Op::Index(_) => return None,
    })
}

/// Whether the device's library has an operator for these operands.
fn is_had(op: &dyn OnDevice, b: &Simplifier<'_>, args: &[Operand]) -> bool {
    let meta = |arg: &Operand| match arg {
        Operand::Value(x) => ArgMeta::Tensor(b.shape(*x), b.dtype(*x)),
        Operand::Slot(_, number) | Operand::Const(number) => ArgMeta::Scalar(*number),
    };
    let metas: SmallVec<[ArgMeta<'_>; 6]> = args.iter().map(meta).collect();
    op.has(&metas, b.policy.target.shared_memory)
}
