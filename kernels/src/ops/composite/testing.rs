//! What the tests of composites share: tensors of any dtype from binary64 numbers, and comparison with references.

use super::{decompose, infer_by_definition};
use crate::op::{
    Attention, Einsum, GroupNorm, LayerNorm, LogSoftmax, LogSumExp, ReducedLoss, RmsNorm, Roll,
    Softmax, Triangle, Var,
};
use crate::{Arg, ArgMeta, Array, Composite, Loss, Reduction};
use ferrotrace_runtime::{Buffer, DType, Device, ErrorKind, Layout, Scalar, Shape};
use half::{bf16, f16};
use smallvec::SmallVec;

pub(super) const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// A tensor of these numbers, rounded to `dtype`.
pub(super) fn array(dims: &[usize], dtype: DType, values: &[f64]) -> Array {
    let shape = Shape::new(dims);
    assert_eq!(shape.numel(), values.len());
    let device = Device::cpu();
    macro_rules! buffer {
        ($f:expr) => {
            Buffer::from_vec(&device, values.iter().map(|&v| $f(v)).collect())
        };
    }
    let buffer = match dtype {
        DType::Bool => buffer!(|v| v != 0.0),
        DType::U8 => buffer!(|v| v as u8),
        DType::I8 => buffer!(|v| v as i8),
        DType::I16 => buffer!(|v| v as i16),
        DType::I32 => buffer!(|v| v as i32),
        DType::I64 => buffer!(|v| v as i64),
        DType::F16 => buffer!(f16::from_f64),
        DType::BF16 => buffer!(bf16::from_f64),
        DType::F32 => buffer!(|v| v as f32),
        DType::F64 => buffer!(|v: f64| v),
    };
    Array {
        buffer: buffer.expect("memory"),
        layout: Layout::contiguous(shape),
        dtype,
    }
}

/// The elements in row-major order.
pub(super) fn read(array: &Array) -> Vec<f64> {
    macro_rules! elements {
        ($t:ty, $f:expr) => {{
            let all = array.buffer.as_slice::<$t>();
            array.layout.offsets().map(|i| $f(all[i])).collect()
        }};
    }
    match array.dtype {
        DType::Bool => elements!(bool, |v| f64::from(u8::from(v))),
        DType::U8 => elements!(u8, f64::from),
        DType::I8 => elements!(i8, f64::from),
        DType::I16 => elements!(i16, f64::from),
        DType::I32 => elements!(i32, f64::from),
        DType::I64 => elements!(i64, |v| v as f64),
        DType::F16 => elements!(f16, f16::to_f64),
        DType::BF16 => elements!(bf16, bf16::to_f64),
        DType::F32 => elements!(f32, f64::from),
        DType::F64 => elements!(f64, |v| v),
    }
}

pub(super) fn t(dims: &[usize], dtype: DType, values: &[f64]) -> Arg {
    Arg::Array(array(dims, dtype, values))
}

pub(super) fn n(number: impl Into<Scalar>) -> Arg {
    Arg::Scalar(number.into())
}

/// `n` numbers in [−2, 2), exact in every float dtype (eighths), another sequence for each seed.
pub(super) fn sample(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) % 32
    };
    (0..n).map(|_| next() as f64 / 8.0 - 2.0).collect()
}

fn metas(args: &[Arg]) -> Vec<ArgMeta<'_>> {
    args.iter().map(Arg::meta).collect()
}

/// The result, after the rule and the decomposition on shapes were found to agree with it.
pub(super) fn apply(op: &Composite, args: &[Arg]) -> Array {
    let rule = op
        .entry()
        .infer(&metas(args))
        .unwrap_or_else(|e| panic!("{}: {e}", op.entry().name()));
    let derived = infer_by_definition(op.entry(), &metas(args))
        .expect("the decomposition takes what the rule takes");
    assert_eq!(rule, derived, "{op:?}");
    op.entry()
        .run(args, &rule.0, rule.1)
        .unwrap_or_else(|e| panic!("{}: {e}", op.entry().name()))
}

/// The message with which both the rule and the decomposition refuse the operands.
pub(super) fn refused(op: &Composite, args: &[Arg]) -> String {
    let rule = op.entry().infer(&metas(args)).expect_err("must be refused");
    infer_by_definition(op.entry(), &metas(args))
        .expect_err("the decomposition must refuse what the rule refuses");
    rule.to_string()
}

/// How far a result of `dtype` may be from the exact one, by its magnitude.
/// The index that running the operator finds out of range, and the size it was to be below.
pub(super) fn outside(op: &Composite, args: &[Arg]) -> (i64, usize) {
    let metas: SmallVec<[ArgMeta<'_>; 6]> = args.iter().map(Arg::meta).collect();
    let (shape, dtype) = op.entry().infer(&metas).expect("fits");
    let error = op
        .entry()
        .run(args, &shape, dtype)
        .expect_err("an index is out of range");
    match *error.kind() {
        ErrorKind::Index { index, size, .. } => (index, size),
        _ => panic!("{error}"),
    }
}

pub(super) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-11,
        DType::F32 => 3e-6,
        DType::F16 => 6e-4,
        DType::BF16 => 5e-3,
        _ => 0.0,
    }
}

pub(super) fn assert_close(got: &Array, dims: &[usize], dtype: DType, want: &[f64]) {
    assert_eq!((got.shape().dims(), got.dtype), (dims, dtype));
    let values = read(got);
    assert_eq!(values.len(), want.len());
    for (i, (&g, &w)) in values.iter().zip(want).enumerate() {
        let same = g == w || (g.is_nan() && w.is_nan());
        let near = (g - w).abs() <= tolerance(dtype) * w.abs().max(1.0);
        assert!(
            same || near,
            "element {i} is {g}, not {w}, of {dtype}{dims:?}: {values:?}"
        );
    }
}

/// Applies and compares.
pub(super) fn check(op: Composite, args: &[Arg], dims: &[usize], dtype: DType, want: &[f64]) {
    assert_close(&apply(&op, args), dims, dtype, want);
}

/// `f` of each row of `values` along dimension `dim` of `dims`, put back in place.
pub(super) fn along(
    dims: &[usize],
    dim: usize,
    values: &[f64],
    f: impl Fn(&[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let (len, inner) = (dims[dim], dims[dim + 1..].iter().product::<usize>());
    let outer: usize = dims[..dim].iter().product();
    let mut out = Vec::new();
    let mut rows = vec![Vec::new(); outer * inner];
    for (r, row) in rows.iter_mut().enumerate() {
        let base = r / inner.max(1) * len * inner + r % inner.max(1);
        *row = f(&(0..len)
            .map(|i| values[base + i * inner])
            .collect::<Vec<_>>());
    }
    let produced = rows.first().map_or(0, Vec::len);
    for group in rows.chunks(inner.max(1)) {
        for i in 0..produced {
            out.extend(group.iter().map(|row| row[i]));
        }
    }
    out
}

/// Number operands do not reach the decomposition's structure: the same one comes out whatever they are.
#[test]
fn decompositions_are_blind_to_numbers() {
    use super::build::Recorder;
    use crate::Operand;

    let x = array(&[2, 3], DType::F32, &[0.0; 6]);
    let mut cases = vec![
        (Composite::Clamp, 1, 2),
        (Composite::Lerp, 2, 1),
        (Composite::Addcmul, 3, 1),
        (Composite::Addcdiv, 3, 1),
        (Composite::NanToNum, 1, 3),
        (
            Composite::Loss(ReducedLoss {
                loss: Loss::SmoothL1,
                reduction: Reduction::Mean,
            }),
            2,
            1,
        ),
        (
            Composite::Loss(ReducedLoss {
                loss: Loss::Huber,
                reduction: Reduction::Mean,
            }),
            2,
            1,
        ),
        (
            Composite::LayerNorm(LayerNorm {
                n: 1,
                weight: false,
                bias: false,
            }),
            1,
            1,
        ),
        (
            Composite::RmsNorm(RmsNorm {
                n: 2,
                weight: false,
            }),
            1,
            1,
        ),
        (
            Composite::GroupNorm(GroupNorm {
                groups: 3,
                weight: false,
                bias: false,
            }),
            1,
            1,
        ),
    ];
    cases.extend([Composite::LeakyRelu, Composite::Elu, Composite::Celu].map(|op| (op, 1, 1)));
    for (op, tensors, numbers) in cases {
        let recorded = |number: f64| {
            let mut args = vec![Arg::Array(x.clone()); tensors];
            args.extend((0..numbers).map(|_| n(number)));
            let (mut recorder, operands) = Recorder::new(&metas(&args));
            decompose(&op, &mut recorder, &operands).expect("valid");
            let seen = |operand: &Operand| match operand {
                Operand::Slot(i, _) => format!("slot {i}"),
                other => format!("{other:?}"),
            };
            let text = |(op, operands): &(crate::Op, SmallVec<[Operand; 4]>)| -> String {
                format!("{op:?} {:?}", operands.iter().map(seen).collect::<Vec<_>>())
            };
            recorder.steps().iter().map(text).collect::<Vec<_>>()
        };
        let plain = recorded(0.25);
        for special in [0.0, 1.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(plain, recorded(special), "{op:?}");
        }
    }
}

/// A strided operand gives what a dense one with its elements gives.
#[test]
fn strided_operands() {
    let dims = [4, 3, 2];
    let mut strided = array(&[2, 3, 4], DType::F32, &sample(24, 40));
    strided.layout = strided.layout.permute(&[2, 1, 0]);
    assert!(!strided.layout.is_contiguous());
    let dense = array(&dims, DType::F32, &read(&strided));
    let mut row = array(&[1, 1, 2], DType::F32, &sample(2, 41));
    row.layout = Layout::new(Shape::from(dims), smallvec::smallvec![0, 0, 1], 0);
    let op = |equation: &str| {
        Composite::Einsum(Einsum {
            equation: equation.into(),
        })
    };
    let cases: Vec<(Composite, usize, Vec<Arg>)> = vec![
        (Composite::Gelu, 1, vec![]),
        (Composite::Selu, 1, vec![]),
        (Composite::Lerp, 2, vec![n(0.25)]),
        (Composite::Softmax(Softmax { dim: 0 }), 1, vec![]),
        (Composite::LogSoftmax(LogSoftmax { dim: 2 }), 1, vec![]),
        (
            Composite::LogSumExp(LogSumExp {
                mask: 0b101,
                keepdim: false,
            }),
            1,
            vec![],
        ),
        (
            Composite::Var(Var {
                mask: 0b110,
                keepdim: true,
                correction: 1,
                root: true,
            }),
            1,
            vec![],
        ),
        (
            Composite::LayerNorm(LayerNorm {
                n: 2,
                weight: false,
                bias: false,
            }),
            1,
            vec![n(1e-5)],
        ),
        (
            Composite::GroupNorm(GroupNorm {
                groups: 3,
                weight: false,
                bias: false,
            }),
            1,
            vec![n(1e-5)],
        ),
        (
            Composite::Loss(ReducedLoss {
                loss: Loss::Mse,
                reduction: Reduction::Mean,
            }),
            2,
            vec![],
        ),
        (
            Composite::Loss(ReducedLoss {
                loss: Loss::CrossEntropy,
                reduction: Reduction::None,
            }),
            2,
            vec![],
        ),
        (
            Composite::Triangle(Triangle { k: 0, upper: true }),
            1,
            vec![],
        ),
        (Composite::Roll(Roll { shift: 1, dim: 1 }), 1, vec![]),
        (
            Composite::Attention(Attention {
                mask: false,
                causal: true,
                scale: f64::NAN.to_bits(),
            }),
            3,
            vec![],
        ),
        (op("abc,abc->cb"), 2, vec![]),
        (op("abc,adc->bda"), 2, vec![]),
        (op("abc,dbc->ad"), 2, vec![]),
    ];
    for (op, tensors, numbers) in cases {
        let with = |x: &Array| {
            let mut args = vec![Arg::Array(x.clone()); tensors];
            if tensors == 2 {
                args[1] = Arg::Array(row.clone());
            }
            args.extend(numbers.iter().cloned());
            apply(&op, &args)
        };
        let (got, want) = (with(&strided), with(&dense));
        assert_close(&got, want.shape(), want.dtype, &read(&want));
    }
}
