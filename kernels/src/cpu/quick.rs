//! Small dense operands: the shortest way from buffers to a result. The loops are those of the general drivers, so are
//! the bits.

use super::cast::convert;
use super::operand::Scratch;
use super::par::GRAIN;
use super::pointwise::Kernel;
use super::strided::{Window, gather};
use super::{binary, reduce, unary};
use crate::op::Reduce;
use crate::{Array, Op};
use ferrotrace_runtime::{Buffer, DType, Device, FloatEnvironment, Result, Scalar, Shape};

/// Elements of an operand at most: beyond, threads may share the work.
pub const LIMIT: usize = GRAIN - 1;

/// An operand.
#[derive(Debug)]
pub enum Operand<'a> {
    /// Row-major elements without gaps.
    Run {
        /// The memory.
        buffer: Buffer,
        /// The first element, in elements.
        offset: usize,
        /// The shape.
        shape: &'a Shape,
        /// The element type.
        dtype: DType,
    },
    /// A number.
    Number(Scalar),
}

impl Operand<'_> {
    /// The first element of a run of `dtype` and `shape` on the CPU.
    fn like(&self, of: &Shape, as_dtype: DType) -> Option<*const u8> {
        match self {
            Operand::Run {
                buffer,
                offset,
                shape,
                dtype,
            } if *dtype == as_dtype && *shape == of && buffer.device().is_cpu() => {
                let (first, size) = (offset.checked_mul(dtype.size())?, dtype.size());
                let holds = first.checked_add(of.numel().checked_mul(size)?)? <= buffer.bytes();
                holds.then(|| buffer.as_ptr().wrapping_add(first))
            }
            _ => None,
        }
    }

    fn dtype(&self) -> Option<DType> {
        match self {
            Operand::Run { dtype, .. } => Some(*dtype),
            Operand::Number(_) => None,
        }
    }
}

/// Whether [`run`] knows the operator.
#[inline]
pub fn knows(op: &Op) -> bool {
    matches!(
        op,
        Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast(_) | Op::Reduce(_)
    )
}

/// Runs an operator, as [`crate::eager::run`] does, whose operands are of the one type it computes in, and need no
/// broadcasting but of numbers. `None` for all others, and beyond [`LIMIT`] elements.
pub fn run(
    op: &Op,
    operands: &[Operand<'_>],
    shape: &Shape,
    dtype: DType,
) -> Option<Result<Array>> {
    let from = operands.iter().find_map(Operand::dtype)?;
    let _environment = FloatEnvironment::standard();
    match (op, operands) {
        (Op::Where, [mask, a, b]) => {
            let runs = [
                mask.like(shape, DType::Bool)?,
                a.like(shape, dtype)?,
                b.like(shape, dtype)?,
            ];
            // SAFETY: the operands are runs of the result's shape, a mask and two of the result's type.
            filled(shape, dtype, |n, to| unsafe {
                binary::select(dtype.size())(n, runs, to)
            })
        }
        (Op::Cast(_), [x]) => {
            let x = x.like(shape, from)?;
            // SAFETY: the operand is a run of the result's shape.
            filled(shape, dtype, |n, to| unsafe {
                convert(from, dtype, n, x, to)
            })
        }
        // Half types are computed in another.
        _ if from.is_half() => None,
        (Op::Unary(op), [x]) => {
            let computes = op.compute_dtype(from) == Some(from) && op.result_dtype(from) == dtype;
            let kernel = unary::kernel(*op, from).filter(|_| computes)?;
            pointwise(kernel, [x, x], from, shape, dtype)
        }
        (Op::Binary(op), [a, b]) => {
            let lesser = |x: &Operand<'_>| match x {
                Operand::Run { .. } => true,
                Operand::Number(n) => n.default_dtype().category() <= from.category(),
            };
            let computes = op.compute_dtype(from) == Some(from) && op.result_dtype(from) == dtype;
            let kernel =
                binary::kernel(*op, from).filter(|_| computes && lesser(a) && lesser(b))?;
            pointwise(kernel, [a, b], from, shape, dtype)
        }
        (Op::Reduce(Reduce { kind, mask, .. }), [x @ Operand::Run { shape: of, .. }]) => {
            let (all, n) = (of.numel(), shape.numel());
            // The dimensions reduced are the last ones.
            let lead = mask.trailing_zeros() as usize;
            let trailing = *mask != 0 && mask.count_ones() as usize + lead == of.rank();
            if !trailing || all == 0 || all > LIMIT {
                return None;
            }
            let from = x.like(of, from)?;
            // SAFETY: the operand is a dense run of so many rows.
            unsafe { reduce::rows_of(*kind, from, x.dtype()?, n, all / n, shape, dtype) }
        }
        _ => None,
    }
}

/// Elements of a piece: a number is repeated so many times.
const PIECE: usize = 256;

fn pointwise(
    kernel: Kernel,
    operands: [&Operand<'_>; 2],
    from: DType,
    shape: &Shape,
    dtype: DType,
) -> Option<Result<Array>> {
    let n = shape.numel();
    let mut scratch = Scratch::<PIECE>::new();
    let mut runs = [std::ptr::null(); 3];
    let mut repeated = None;
    for (k, operand) in operands.into_iter().enumerate() {
        runs[k] = match operand {
            Operand::Run { .. } => operand.like(shape, from)?,
            Operand::Number(number) => {
                let bits = number.to_bits(from);
                let window = Window {
                    rows: 1,
                    cols: n.min(PIECE),
                    row: 0,
                    col: 0,
                };
                let (size, number) = (from.size(), (&raw const bits).cast());
                // SAFETY: the number's bits lie where a value of its type is read; the scratch holds a piece.
                unsafe { gather(size, window, number, scratch.ptr(), n.min(PIECE)) };
                repeated = Some(k);
                scratch.ptr().cast_const()
            }
        };
    }
    filled(shape, dtype, |n, to| {
        let step = if repeated.is_some() { PIECE } else { n };
        for first in (0..n).step_by(step) {
            let mut piece = runs.map(|run: *const u8| run.wrapping_add(first * from.size()));
            if let Some(number) = repeated {
                piece[number] = runs[number];
            }
            let to = to.wrapping_add(first * dtype.size());
            // SAFETY: each operand is a run of `n` elements of its compute type, or a piece of a number.
            unsafe { kernel(step.min(n - first), piece, to) };
        }
    })
}

/// A new dense array whose elements, at least one and at most [`LIMIT`], `fill` writes, given their number.
#[inline(always)]
fn filled(shape: &Shape, dtype: DType, fill: impl FnOnce(usize, *mut u8)) -> Option<Result<Array>> {
    let n = shape.numel();
    if n == 0 || n > LIMIT {
        return None;
    }
    let out = Array::empty(const { &Device::cpu() }, shape.clone(), dtype);
    if let Ok(out) = &out {
        fill(n, out.buffer.as_mut_ptr());
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::fixture::{integers, metas, of};
    use crate::op::Cast;
    use crate::{Arg, BinaryOp, ReduceKind, UnaryOp};

    fn operand(arg: &Arg) -> Operand<'_> {
        match arg {
            Arg::Scalar(number) => Operand::Number(*number),
            Arg::Array(x) => Operand::Run {
                buffer: x.buffer.clone(),
                offset: x.layout.offset(),
                shape: x.shape(),
                dtype: x.dtype,
            },
        }
    }

    fn bytes(x: &Array) -> &[u8] {
        &x.buffer.as_slice::<u8>()[..x.numel() * x.dtype.size()]
    }

    /// Bit for bit what the general way gives, where there is a short one; whether there is.
    fn same(op: &Op, args: &[Arg]) -> bool {
        let (shape, dtype) = op.infer(&metas(args)).expect("valid");
        let general = Op::run(op, args, &shape, dtype).expect("memory");
        let operands: Vec<Operand<'_>> = args.iter().map(operand).collect();
        let Some(quick) = run(op, &operands, &shape, dtype) else {
            return false;
        };
        let quick = quick.expect("memory");
        assert_eq!((quick.shape(), quick.dtype), (&shape, dtype));
        assert_eq!(bytes(&quick), bytes(&general), "{op:?} {dtype}");
        true
    }

    #[test]
    fn as_the_general_way() {
        for dtype in [DType::F32, DType::F64, DType::I64, DType::U8, DType::F16] {
            for shape in [[3, 5], [20, 33], [1, 700]] {
                let n = shape.iter().product();
                let x = Arg::Array(of(dtype, &shape, &integers(n, 1, 0, 9)));
                let y = Arg::Array(of(dtype, &shape, &integers(n, 2, 1, 9)));
                let mask = Arg::Array(of(DType::Bool, &shape, &integers(n, 3, 0, 1)));
                let known = dtype != DType::F16;
                let number = |v: i64| Arg::Scalar(Scalar::Int(v));
                let pair = [x.clone(), y.clone()];
                assert_eq!(same(&Op::Unary(UnaryOp::Square), &pair[..1]), known);
                assert_eq!(same(&Op::Binary(BinaryOp::Sub), &pair), known);
                assert_eq!(same(&Op::Binary(BinaryOp::Lt), &pair), known);
                assert_eq!(
                    same(&Op::Binary(BinaryOp::Add), &[x.clone(), number(3)]),
                    known
                );
                assert_eq!(
                    same(&Op::Binary(BinaryOp::Sub), &[number(3), y.clone()]),
                    known
                );
                assert!(same(&Op::Where, &[mask, x.clone(), y]));
                assert!(same(&Op::Cast(Cast(DType::F32)), &pair[..1]));
                for mask in [0b11, 0b10, 0b01] {
                    for kind in [ReduceKind::Max, ReduceKind::ArgMin, ReduceKind::Sum] {
                        let keepdim = false;
                        let taken = same(
                            &Op::Reduce(Reduce {
                                kind,
                                mask,
                                keepdim,
                            }),
                            &pair[..1],
                        );
                        let native = dtype != DType::U8;
                        let rows = mask == 0b11 || (mask == 0b10 && shape[1] >= 32);
                        assert_eq!(taken, known && native && rows, "{kind:?} {dtype} {shape:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn promotion_and_broadcasting_are_left_alone() {
        let (x, row) = (
            of(DType::I32, &[2, 2], &[1.0; 4]),
            of(DType::I32, &[2], &[2.0; 2]),
        );
        let (x, row) = (Arg::Array(x), Arg::Array(row));
        let half = Arg::Scalar(Scalar::Float(0.5));
        assert!(!same(&Op::Binary(BinaryOp::Add), &[x.clone(), row]));
        assert!(!same(&Op::Binary(BinaryOp::Add), &[x.clone(), half]));
        assert!(!same(&Op::Binary(BinaryOp::Div), &[x.clone(), x]));
    }
}
