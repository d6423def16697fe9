//! Operators whose operands are small and dense: the shortest way from buffers to a result. The bits are those of the
//! general way.

pub use crate::cpu::quick::{LIMIT, Operand};

use crate::cpu::quick;
use crate::{Array, Op};
use ferrotrace_runtime::{DType, FloatEnvironment, Result, Shape};

/// Whether [`run`] knows the operator.
#[inline]
pub fn knows(op: &Op) -> bool {
    matches!(
        op,
        Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast(_) | Op::Reduce(_)
    )
}

/// Runs an operator, as [`Op::run`] does, whose operands are of the one type it computes in, and need no broadcasting but
/// of numbers. `None` for all others, and beyond [`LIMIT`] elements.
pub fn run(
    op: &Op,
    operands: &[Operand<'_>],
    shape: &Shape,
    dtype: DType,
) -> Option<Result<Array>> {
    let _environment = FloatEnvironment::standard();
    match (op, operands) {
        (Op::Where, [mask, a, b]) => quick::select([mask, a, b], shape, dtype),
        (Op::Cast(_), [x]) => quick::cast(x, shape, dtype),
        (Op::Unary(op), [x]) => quick::unary(*op, x, shape, dtype),
        (Op::Binary(op), [a, b]) => quick::binary(*op, [a, b], shape, dtype),
        (Op::Reduce(op), [x]) => quick::reduce(op.kind, op.mask, x, shape, dtype),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::fixture::{integers, metas, of};
    use crate::op::{Cast, Reduce};
    use crate::{Arg, BinaryOp, ReduceKind, UnaryOp};
    use ferrotrace_runtime::Scalar;

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
        let general = op.run(args, &shape, dtype).expect("memory");
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
