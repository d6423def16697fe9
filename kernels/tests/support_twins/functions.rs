//! The pointwise operators.

use super::harness::*;
use ferrotrace_kernels::support::integer::Integer;
use ferrotrace_kernels::support::{math, need, parts};
use ferrotrace_kernels::{BinaryOp, UnaryOp};
use ferrotrace_runtime::{DType, Element, Isa};

type Unary<A, B> = (UnaryOp, fn(&[A]) -> Vec<B>);
type Binary<A, B> = (BinaryOp, fn(&[A], &[A]) -> Vec<B>);

macro_rules! predicates {
    ($t:ty) => {{
        let twins: [Unary<$t, bool>; 3] = [
            (UnaryOp::IsNan, |x| x.iter().map(|x| x.is_nan()).collect()),
            (UnaryOp::IsInf, |x| {
                x.iter().map(|x| x.is_infinite()).collect()
            }),
            (UnaryOp::IsFinite, |x| {
                x.iter().map(|x| x.is_finite()).collect()
            }),
        ];
        twins
    }};
}

macro_rules! float_twins {
    ($t:ty; $($op:ident $f:ident),*; $($bop:ident $g:ident),*) => {
        (
            vec![$((UnaryOp::$op, (|x| apply(|x: $t, _| math::$f(x), x, x)) as fn(&[$t]) -> Vec<$t>)),*],
            vec![$((BinaryOp::$bop, (|x, y| apply(|x: $t, y| math::$g(x, y), x, y)) as fn(&[$t], &[$t]) -> Vec<$t>)),*],
        )
    };
    ($t:ty) => {
        float_twins!($t;
            Exp exp, Exp2 exp2, Expm1 expm1, Log log, Log2 log2, Log10 log10, Log1p log1p, Sqrt sqrt, Rsqrt rsqrt,
            Recip recip, Square square, Sin sin, Cos cos, Tan tan, Asin asin, Acos acos, Atan atan, Sinh sinh,
            Cosh cosh, Tanh tanh, Asinh asinh, Acosh acosh, Atanh atanh, Erf erf, Erfc erfc, Floor floor, Ceil ceil,
            Round round, Trunc trunc, Sigmoid sigmoid, Relu relu, Abs abs, Sign sign;
            FloorDiv floor_divide, Mod remainder, Fmod fmod, Pow pow, Maximum maximum, Minimum minimum, Atan2 atan2)
    };
}

/// One function per operator that takes the dtype, named after it.
fn operators(dtype: DType, lanes: usize, binary: bool) -> Source {
    let mut source = Source::default();
    if !binary {
        for op in UnaryOp::ALL
            .into_iter()
            .filter(|op| op.compute_dtype(dtype) == Some(dtype))
        {
            let expression = op.c_expr(dtype, lanes, &["a"], &mut source.needs);
            source.pointwise(
                lanes,
                op.name(),
                &[dtype],
                op.result_dtype(dtype),
                &expression,
            );
        }
        return source;
    }
    for op in BinaryOp::ALL
        .into_iter()
        .filter(|op| op.compute_dtype(dtype) == Some(dtype))
    {
        let expression = op.c_expr(dtype, lanes, &["a", "b"], &mut source.needs);
        source.pointwise(
            lanes,
            op.name(),
            &[dtype, dtype],
            op.result_dtype(dtype),
            &expression,
        );
    }
    source
}

/// Emulated fused products are slow: fewer samples there.
fn count(library: &Library, n: usize) -> usize {
    if library.setup.isa == Isa::Sse2 {
        n / 8
    } else {
        n
    }
}

fn check_unary<A: Bits, B: Bits>(libraries: &[Library], x: &[A], (op, twin): Unary<A, B>) {
    let want = twin(x);
    for library in libraries {
        let n = count(library, x.len());
        let got: Vec<B> = library.run(op.name(), &x[..n], &x[..n]);
        compare(
            &format!("{op:?} {:?}", library.setup),
            &x[..n],
            &x[..n],
            &want[..n],
            &got,
        );
    }
}

fn check_binary<A: Bits, B: Bits>(
    libraries: &[Library],
    x: &[A],
    y: &[A],
    (op, twin): Binary<A, B>,
) {
    let want = twin(x, y);
    for library in libraries {
        let n = count(library, x.len());
        let got: Vec<B> = library.run(op.name(), &x[..n], &y[..n]);
        compare(
            &format!("{op:?} {:?}", library.setup),
            &x[..n],
            &y[..n],
            &want[..n],
            &got,
        );
    }
}

#[test]
fn functions_of_one_binary32() {
    if setups().is_empty() {
        return;
    }
    let libraries = libraries(|lanes| operators(DType::F32, lanes, false));
    let (twins, _) = float_twins!(f32);
    let strided: Vec<f32> = (0..(1u32 << 22) + 5)
        .map(|i| f32::from_bits(i.wrapping_mul(1021)))
        .collect();
    let special = samples::<f32>(10_007, 88172645463325252);
    predicates!(f32)
        .into_iter()
        .for_each(|twin| check_unary(&libraries, &special, twin));
    for twin in twins {
        check_unary(&libraries, &special, twin);
        check_unary(&libraries, &strided, twin);
        if exhaustive() {
            eprintln!("{:?}", twin.0);
            for first in (0..1u64 << 32).step_by(1 << 22) {
                let block: Vec<f32> = (first..first + (1 << 22))
                    .map(|i| f32::from_bits(i as u32))
                    .collect();
                let want = twin.1(&block);
                for library in libraries
                    .iter()
                    .filter(|l| [l.setup.isa.vector_bytes() / 4].contains(&l.setup.lanes))
                {
                    if library.setup.isa != Isa::Sse2 || first % (1 << 26) == 0 {
                        let got: Vec<f32> = library.run(twin.0.name(), &block, &block);
                        compare(
                            &format!("{:?} {:?}", twin.0, library.setup),
                            &block,
                            &block,
                            &want,
                            &got,
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn functions_of_one_binary64() {
    if setups().is_empty() {
        return;
    }
    let libraries = libraries(|lanes| operators(DType::F64, lanes, false));
    let (twins, _) = float_twins!(f64);
    let x = samples::<f64>(200_003, 88172645463325252);
    predicates!(f64)
        .into_iter()
        .for_each(|twin| check_unary(&libraries, &x, twin));
    for twin in twins {
        check_unary(&libraries, &x, twin);
    }
}

macro_rules! comparisons {
    ($t:ty) => {{
        let twins: [Binary<$t, bool>; 6] = [
            (BinaryOp::Eq, |x, y| apply(|x, y| x == y, x, y)),
            (BinaryOp::Ne, |x, y| apply(|x, y| x != y, x, y)),
            (BinaryOp::Lt, |x, y| apply(|x, y| x < y, x, y)),
            (BinaryOp::Le, |x, y| apply(|x, y| x <= y, x, y)),
            (BinaryOp::Gt, |x, y| apply(|x, y| x > y, x, y)),
            (BinaryOp::Ge, |x, y| apply(|x, y| x >= y, x, y)),
        ];
        twins
    }};
}

macro_rules! check_float_binary {
    ($t:ty) => {{
        let libraries = libraries(|lanes| operators(<$t>::DTYPE, lanes, true));
        let (_, twins) = float_twins!($t);
        let (x, y) = (samples::<$t>(400_003, 1), samples::<$t>(400_003, 77));
        twins
            .into_iter()
            .for_each(|twin| check_binary(&libraries, &x, &y, twin));
        comparisons!($t)
            .into_iter()
            .for_each(|twin| check_binary(&libraries, &x, &y, twin));
        let arithmetic: [Binary<$t, $t>; 4] = [
            (BinaryOp::Add, |x, y| apply(|x, y| x + y, x, y)),
            (BinaryOp::Sub, |x, y| apply(|x, y| x - y, x, y)),
            (BinaryOp::Mul, |x, y| apply(|x, y| x * y, x, y)),
            (BinaryOp::Div, |x, y| apply(|x, y| x / y, x, y)),
        ];
        arithmetic
            .into_iter()
            .for_each(|twin| check_binary(&libraries, &x, &y, twin));
    }};
}

#[test]
fn functions_of_two_floats() {
    if setups().is_empty() {
        return;
    }
    check_float_binary!(f32);
    check_float_binary!(f64);
}

/// Libraries of functions of integers: of narrow ones, with as many lanes as registers hold of them, too.
fn libraries_of_integers<T>(source: impl Fn(usize) -> Source) -> Vec<Library> {
    libraries_of(size_of::<T>(), source)
}

macro_rules! check_integer {
    ($t:ty) => {{
        let libraries_ = libraries_of_integers::<$t>(|lanes| operators(<$t>::DTYPE, lanes, true));
        let (x, y) = (samples::<$t>(30_003, 1), samples::<$t>(30_003, 77));
        let twins: [Binary<$t, $t>; 15] = [
            (BinaryOp::Add, |x, y| {
                apply(|x: $t, y| x.wrapping_add(y), x, y)
            }),
            (BinaryOp::Sub, |x, y| {
                apply(|x: $t, y| x.wrapping_sub(y), x, y)
            }),
            (BinaryOp::Mul, |x, y| {
                apply(|x: $t, y| x.wrapping_mul(y), x, y)
            }),
            (BinaryOp::FloorDiv, |x, y| {
                apply(|x: $t, y| Integer::floor_divide(x, y), x, y)
            }),
            (BinaryOp::Mod, |x, y| {
                apply(|x: $t, y| Integer::remainder(x, y), x, y)
            }),
            (BinaryOp::Fmod, |x, y| {
                apply(|x: $t, y| Integer::fmod(x, y), x, y)
            }),
            (BinaryOp::Pow, |x, y| {
                apply(|x: $t, y| Integer::pow(x, y), x, y)
            }),
            (BinaryOp::Maximum, |x, y| apply(|x: $t, y| x.max(y), x, y)),
            (BinaryOp::Minimum, |x, y| apply(|x: $t, y| x.min(y), x, y)),
            (BinaryOp::BitwiseAnd, |x, y| apply(|x: $t, y| x & y, x, y)),
            (BinaryOp::BitwiseOr, |x, y| apply(|x: $t, y| x | y, x, y)),
            (BinaryOp::BitwiseXor, |x, y| apply(|x: $t, y| x ^ y, x, y)),
            (BinaryOp::Shl, |x, y| {
                apply(|x: $t, y| Integer::shl(x, y), x, y)
            }),
            (BinaryOp::Shr, |x, y| {
                apply(|x: $t, y| Integer::shr(x, y), x, y)
            }),
            (BinaryOp::Gcd, |x, y| {
                apply(|x: $t, y| Integer::gcd(x, y), x, y)
            }),
        ];
        twins
            .into_iter()
            .for_each(|twin| check_binary(&libraries_, &x, &y, twin));
        comparisons!($t)
            .into_iter()
            .for_each(|twin| check_binary(&libraries_, &x, &y, twin));
        let libraries_ = libraries_of_integers::<$t>(|lanes| operators(<$t>::DTYPE, lanes, false));
        let twins: [Unary<$t, $t>; 7] = [
            (UnaryOp::Abs, |x| {
                x.iter().map(|x| Integer::abs(*x)).collect()
            }),
            (UnaryOp::Neg, |x| {
                x.iter().map(|x| Integer::neg(*x)).collect()
            }),
            (UnaryOp::Sign, |x| {
                x.iter().map(|x| Integer::sign(*x)).collect()
            }),
            (UnaryOp::Square, |x| {
                x.iter().map(|x| Integer::square(*x)).collect()
            }),
            (UnaryOp::Relu, |x| {
                x.iter().map(|x| Integer::relu(*x)).collect()
            }),
            (UnaryOp::BitwiseNot, |x| x.iter().map(|x| !x).collect()),
            (UnaryOp::Floor, |x| x.to_vec()),
        ];
        twins
            .into_iter()
            .for_each(|twin| check_unary(&libraries_, &x, twin));
        check_unary(
            &libraries_,
            &x,
            (UnaryOp::IsFinite, |x: &[$t]| vec![true; x.len()]),
        );
        check_unary(
            &libraries_,
            &x,
            (UnaryOp::IsInf, |x: &[$t]| vec![false; x.len()]),
        );
    }};
}

#[test]
fn functions_of_integers() {
    if setups().is_empty() {
        return;
    }
    check_integer!(u8);
    check_integer!(i8);
    check_integer!(i16);
    check_integer!(i32);
    check_integer!(i64);
}

/// Quotients of integers that doubles hold, whole and one beside whole, and of others among them.
#[test]
fn quotients() {
    macro_rules! check {
        ($t:ty, $largest:expr) => {{
            let libraries_ = libraries(|lanes| operators(<$t>::DTYPE, lanes, true));
            let mut x: Vec<$t> = Vec::new();
            let mut y: Vec<$t> = Vec::new();
            let divisors = samples::<$t>(4000, 5);
            for (i, divisor) in divisors.into_iter().enumerate() {
                let divisor = (divisor >> (i % (<$t>::BITS as usize))) % $largest;
                let factor = if divisor == 0 { 1 } else { $largest / divisor };
                let factor = factor >> (i % 7);
                for beside in [-1, 0, 1] {
                    x.push((factor * divisor + beside).clamp(-$largest, $largest));
                    y.push(divisor);
                }
            }
            for a in [<$t>::MIN, <$t>::MAX, -$largest - 1, -1, 0, 1] {
                x.extend([a; 16]);
                y.extend([<$t>::MIN, -$largest - 1, -$largest, -2, -1, 0, 1, 2].repeat(2));
            }
            let twins: [Binary<$t, $t>; 3] = [
                (BinaryOp::FloorDiv, |x, y| {
                    apply(|x: $t, y| Integer::floor_divide(x, y), x, y)
                }),
                (BinaryOp::Mod, |x, y| {
                    apply(|x: $t, y| Integer::remainder(x, y), x, y)
                }),
                (BinaryOp::Fmod, |x, y| {
                    apply(|x: $t, y| Integer::fmod(x, y), x, y)
                }),
            ];
            for twin in twins {
                check_binary(&libraries_, &x, &y, twin);
            }
        }};
    }
    if setups().is_empty() {
        return;
    }
    check!(i16, i16::MAX - 1);
    check!(i32, i32::MAX - 1);
    check!(i64, (1i64 << 53) - 1);
    // As many lanes at once as a processor divides integers: no division is left in the text but where doubles end.
    for name in ["floor_divide", "remainder", "fmod"] {
        for dtype in ["u8", "i8", "i16", "i32"] {
            let needs = [need(&format!("ft_{name}_{dtype}"), 8)].into();
            let text: String = parts(&needs).into_iter().map(|part| part.text).collect();
            assert!(!text.contains(" % "), "{text}");
        }
    }
}

/// Every quotient of two bytes.
#[test]
fn quotients_of_bytes() {
    macro_rules! check {
        ($t:ty) => {{
            let libraries_ = libraries_of_integers::<$t>(|n| operators(<$t>::DTYPE, n, true));
            let all = || <$t>::MIN..=<$t>::MAX;
            let x: Vec<$t> = all().flat_map(|x| all().map(move |_| x)).collect();
            let y: Vec<$t> = all().flat_map(|_| all()).collect();
            let twins: [Binary<$t, $t>; 3] = [
                (BinaryOp::FloorDiv, |x, y| {
                    apply(|x: $t, y| Integer::floor_divide(x, y), x, y)
                }),
                (BinaryOp::Mod, |x, y| {
                    apply(|x: $t, y| Integer::remainder(x, y), x, y)
                }),
                (BinaryOp::Fmod, |x, y| {
                    apply(|x: $t, y| Integer::fmod(x, y), x, y)
                }),
            ];
            for twin in twins {
                check_binary(&libraries_, &x, &y, twin);
            }
        }};
    }
    if setups().is_empty() {
        return;
    }
    check!(i8);
    check!(u8);
}

#[test]
fn functions_of_truth_values() {
    if setups().is_empty() {
        return;
    }
    let both = libraries_of(1, |lanes| operators(DType::Bool, lanes, true));
    let (x, y) = (samples::<bool>(1003, 1), samples::<bool>(1003, 77));
    let twins: [Binary<bool, bool>; 7] = [
        (BinaryOp::Add, |x, y| apply(|x, y| x | y, x, y)),
        (BinaryOp::Mul, |x, y| apply(|x, y| x & y, x, y)),
        (BinaryOp::Maximum, |x, y| apply(|x, y| x | y, x, y)),
        (BinaryOp::Minimum, |x, y| apply(|x, y| x & y, x, y)),
        (BinaryOp::LogicalAnd, |x, y| apply(|x, y| x & y, x, y)),
        (BinaryOp::LogicalOr, |x, y| apply(|x, y| x | y, x, y)),
        (BinaryOp::LogicalXor, |x, y| apply(|x, y| x ^ y, x, y)),
    ];
    twins
        .into_iter()
        .for_each(|twin| check_binary(&both, &x, &y, twin));
    comparisons!(bool)
        .into_iter()
        .for_each(|twin| check_binary(&both, &x, &y, twin));
    let one = libraries_of(1, |lanes| operators(DType::Bool, lanes, false));
    check_unary(
        &one,
        &x,
        (UnaryOp::LogicalNot, |x: &[bool]| {
            x.iter().map(|x| !x).collect::<Vec<bool>>()
        }),
    );
    check_unary(
        &one,
        &x,
        (UnaryOp::BitwiseNot, |x: &[bool]| {
            x.iter().map(|x| !x).collect::<Vec<bool>>()
        }),
    );
}
