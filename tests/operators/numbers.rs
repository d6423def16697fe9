//! Numbers and dtypes as PyTorch (2.15) has them: what does not fit, what is converted, what has no dimensions.

use ferrotrace::DType::{self, *};
use ferrotrace::ReduceOp;
use ferrotrace::prelude::*;

fn cpu() -> Device {
    Device::cpu()
}

fn both(body: impl Fn()) {
    with_mode(Mode::Compiled, &body);
    with_mode(Mode::Eager, &body);
}

fn of(values: &[f64], dtype: DType) -> Tensor {
    Tensor::from_slice(values, values.len(), &cpu()).to_dtype(dtype)
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::from_slice(values, values.len(), &cpu())
}

#[track_caller]
fn is(x: &Tensor, dtype: DType, values: &[f64]) {
    assert_eq!(x.dtype(), dtype, "{x}");
    assert_eq!(x.to_dtype(F64).to_vec::<f64>().unwrap(), values);
}

/// The call is refused where it is recorded: the message holds these words.
#[track_caller]
fn refused(x: &Tensor, words: &[&str]) {
    let error = x.error().unwrap_or_else(|| panic!("{x}")).to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

const INF: f64 = f64::INFINITY;

#[test]
fn elements_have_to_fit() {
    both(|| {
        let mask = of(&[1.0, 0.0], Bool);
        for (number, dtype, want) in [
            (Scalar::from(300), U8, None),
            (256.into(), U8, None),
            ((-1).into(), U8, Some(255.0)),
            ((-256).into(), U8, None),
            (3.7.into(), U8, Some(3.0)),
            ((-3.7).into(), U8, None),
            (300.5.into(), U8, None),
            (INF.into(), U8, None),
            (f64::NAN.into(), I32, None),
            (3.7.into(), I32, Some(3.0)),
            ((-3.7).into(), I32, Some(-3.0)),
            ((1i64 << 40).into(), I32, None),
            (1e6.into(), I32, Some(1e6)),
            (128.into(), I8, None),
            (70_000.into(), I16, None),
            (1e39.into(), F32, None),
            (INF.into(), F32, Some(INF)),
            (1e39.into(), F64, Some(1e39)),
            (300.into(), Bool, Some(1.0)),
            (1e39.into(), Bool, Some(1.0)),
            (true.into(), U8, Some(1.0)),
        ] {
            let x = Tensor::zeros(2, dtype, &cpu());
            let results = [
                ("full", Tensor::full(2, number, dtype, &cpu()), [1.0, 1.0]),
                ("full_like", x.full_like(number), [1.0, 1.0]),
                ("masked_fill", x.masked_fill(&mask, number), [1.0, 0.0]),
                ("pad", x.narrow(0, 0, 1).pad(&[(1, 0)], number), [1.0, 0.0]),
            ];
            for (name, result, at) in results {
                match want {
                    Some(want) => is(
                        &result,
                        dtype,
                        &at.map(|here| if here == 1.0 { want } else { 0.0 }),
                    ),
                    None => refused(&result, &[name, "does not fit", &dtype.to_string()]),
                }
            }
        }
        // A half type takes any number as one element, those that fit as all of a tensor or a part of one.
        let half = Tensor::zeros(2, F16, &cpu());
        is(&Tensor::scalar(65520, F16, &cpu()), F16, &[INF]);
        is(&Tensor::scalar(-1e39, BF16, &cpu()), BF16, &[-INF]);
        is(&mask.where_cond(1e39, &half), F16, &[INF, 0.0]);
        is(&mask.where_cond(1e6, &half), F16, &[INF, 0.0]);
        for beyond in [65520.0, 1e6, -1e9] {
            refused(&half.masked_fill(&mask, beyond), &["masked_fill", "f16"]);
            refused(&Tensor::full([3, 1], beyond, F16, &cpu()), &["full"]);
            refused(&half.full_like(beyond), &["full_like"]);
            refused(&half.pad(&[(1, 1)], beyond), &["pad"]);
        }
        is(&half.masked_fill(&mask, -INF), F16, &[-INF, 0.0]);
    });
}

#[test]
fn chosen_numbers_have_to_fit_what_they_promote_to() {
    both(|| {
        let (mask, bytes) = (of(&[1.0, 0.0], Bool), of(&[5.0, 6.0], U8));
        refused(&mask.where_cond(&bytes, 300), &["where_cond", "300", "u8"]);
        refused(
            &mask.where_cond(1i64 << 40, bytes.to_dtype(I32)),
            &["where_cond", "i32"],
        );
        refused(&mask.where_cond(&bytes, 1e39), &["where_cond", "f32"]);
        is(&mask.where_cond(&bytes, -1), U8, &[5.0, 255.0]);
        is(&mask.where_cond(&bytes, 300.5), F32, &[5.0, 300.5]);
        is(&mask.where_cond(&mask, 300), I64, &[1.0, 300.0]);
        is(&mask.where_cond(2, 0.5), F32, &[2.0, 0.5]);
    });
}

#[test]
fn bounds_and_exponents_have_to_fit() {
    both(|| {
        let x = of(&[5.0, 100.0, 250.0], U8);
        refused(&x.clamp_min(300), &["clamp_min", "300", "u8"]);
        refused(&x.clamp_max(-1), &["clamp_max", "-1", "u8"]);
        refused(&x.clamp(300, 400), &["clamp", "300"]);
        refused(&x.clamp(-9, -1), &["clamp", "-1"]);
        refused(&x.clamp_max(1e39), &["clamp_max", "f32"]);
        refused(&x.to_dtype(F16).clamp_min(1e6), &["clamp_min", "f16"]);
        is(&x.clamp_max(300), U8, &[5.0, 100.0, 250.0]);
        is(&x.clamp_min(-1), U8, &[5.0, 100.0, 250.0]);
        is(&x.clamp(-9, 128), U8, &[5.0, 100.0, 128.0]);
        is(&x.clamp_min(7.5), F32, &[7.5, 100.0, 250.0]);
        refused(&x.pow(300), &["pow", "300", "u8"]);
        // Arithmetic takes numbers modulo the range, or rounds them.
        is(&(&x + 300), U8, &[49.0, 144.0, 38.0]);
        is(&(of(&[0.0], F32) + 1e39), F32, &[INF]);
    });
}

#[test]
fn random_ranges_have_to_fit() {
    both(|| {
        for (lo, hi, dtype) in [
            (0, 257, U8),
            (-1, 5, U8),
            (-129, 0, I8),
            (0, (1 << 31) + 1, I32),
            (0, 3, Bool),
            (0, 70_000, F16),
        ] {
            refused(
                &Tensor::randint(lo, hi, 2, dtype, &cpu()),
                &["randint", &dtype.to_string()],
            );
        }
        for (lo, hi, dtype) in [
            (0, 256, U8),
            (-128, 128, I8),
            (0, 1 << 31, I32),
            (0, 2, Bool),
            (0, 1 << 25, F32),
        ] {
            let x = Tensor::randint(lo, hi, 64, dtype, &cpu()).to_dtype(F64);
            assert!(
                x.to_vec::<f64>()
                    .unwrap()
                    .iter()
                    .all(|v| (lo as f64..=hi as f64).contains(v))
            );
        }
    });
}

#[test]
fn ranges_of_integers_with_fractional_ends() {
    both(|| {
        for dtype in [U8, I8, I16, I32, I64] {
            let arange = |a: f64, b: f64, s: f64| Tensor::arange(a, b, s, dtype, &cpu());
            is(&arange(0.0, 2.5, 1.0), dtype, &[0.0, 1.0, 2.0]);
            is(&arange(0.5, 3.0, 1.0), dtype, &[0.0, 1.0, 2.0]);
            is(&arange(0.0, 3.0, 0.5), dtype, &[0.0; 6]);
            is(&arange(1.7, 5.2, 1.3), dtype, &[1.0, 2.0, 3.0]);
            is(&arange(5.0, 0.5, -1.5), dtype, &[5.0, 4.0, 3.0]);
            is(&arange(0.0, 1.0, 0.3), dtype, &[0.0; 4]);
            let linspace = |a: f64, b: f64, n| Tensor::linspace(a, b, n, dtype, &cpu());
            is(&linspace(0.0, 10.0, 4), dtype, &[0.0, 3.0, 6.0, 10.0]);
            is(&linspace(0.5, 9.5, 4), dtype, &[0.0, 3.0, 6.0, 9.0]);
            is(&linspace(10.0, 0.0, 4), dtype, &[10.0, 6.0, 3.0, 0.0]);
            is(&linspace(2.7, 9.0, 1), dtype, &[2.0]);
            is(&linspace(0.0, 7.0, 5), dtype, &[0.0, 1.0, 3.0, 5.0, 7.0]);
        }
        is(
            &Tensor::arange(-1.5, 2.5, 1, I32, &cpu()),
            I32,
            &[-1.0, 0.0, 1.0, 2.0],
        );
        is(
            &Tensor::arange(-1.5, 2.5, 1, U8, &cpu()),
            U8,
            &[255.0, 0.0, 1.0, 2.0],
        );
        is(
            &Tensor::linspace(-3.7, 3.7, 5, I32, &cpu()),
            I32,
            &[-3.0, -1.0, 0.0, 1.0, 3.0],
        );
        let want = [-2.0, 0.0, 1.0, 3.0, 4.0, 6.0, 8.0];
        is(&Tensor::linspace(-2.5, 8.9, 7, I64, &cpu()), I64, &want);
        refused(&Tensor::arange(3.0, 1.5, 4.0, F64, &cpu()), &["arange"]);
        refused(
            &Tensor::linspace(0, 300, 4, U8, &cpu()),
            &["linspace", "300", "u8"],
        );
        refused(
            &Tensor::linspace(-3.7, 3.7, 5, U8, &cpu()),
            &["linspace", "-3.7"],
        );
    });
}

#[test]
fn sums_of_einsum_promote() {
    both(|| {
        let x = of(&[200.0; 6], U8).reshape([2, 3]);
        is(&Tensor::einsum("ij->", &[&x]), I64, &[1200.0]);
        is(&Tensor::einsum("ij->j", &[&x]), I64, &[400.0; 3]);
        is(&Tensor::einsum("ij->ji", &[&x]), U8, &[200.0; 6]);
        is(&Tensor::einsum("ij,kj->", &[&x, &x]), I64, &[480_000.0]);
        is(&Tensor::einsum("ij,kj->ik", &[&x, &x]), U8, &[192.0; 4]);
        is(&Tensor::einsum("ij,ij->", &[&x, &x]), U8, &[128.0]);
        is(&Tensor::einsum("ij->", &[&x.gt(1)]), I64, &[6.0]);
    });
}

#[test]
fn classes() {
    both(|| {
        let x = Tensor::zeros([2, 3], F32, &cpu());
        let ignored = ints(&[-100, 1]);
        is(&x.nll_loss(&ignored), F32, &[0.0]);
        let loss = x.cross_entropy(&ignored).to_scalar::<f32>().unwrap();
        assert!((f64::from(loss) - 3f64.ln()).abs() < 1e-6);
        assert!(
            x.cross_entropy(&ints(&[-100, -100]))
                .to_scalar::<f32>()
                .unwrap()
                .is_nan()
        );
        assert!(
            x.nll_loss(&ints(&[-1, 0])).eval().is_err()
                && x.nll_loss(&ints(&[0, 3])).eval().is_err()
        );
        assert!(ints(&[0, 3]).one_hot(3).eval().is_err() && ints(&[-1]).one_hot(3).eval().is_err());
        is(
            &ints(&[2, 0]).one_hot(3),
            I64,
            &[0.0, 0.0, 1.0, 1.0, 0.0, 0.0],
        );
        assert_eq!(Tensor::zeros(0, I64, &cpu()).one_hot(3).dims(), [0, 3]);
    });
}

#[test]
fn scattered_sources_have_the_dtype() {
    both(|| {
        let at = ints(&[0, 1]);
        for (dtype, other) in [(F32, I64), (I64, U8), (F16, F32), (U8, I64), (F32, F16)] {
            let (x, src) = (
                Tensor::zeros(2, dtype, &cpu()),
                Tensor::ones(2, other, &cpu()),
            );
            let remedy = format!("to_dtype(DType::{dtype:?})");
            refused(&x.scatter(0, &at, &src), &["scatter", &remedy]);
            refused(&x.scatter_add(0, &at, &src), &["scatter_add", &remedy]);
            refused(
                &x.scatter_reduce(0, &at, &src, ReduceOp::Sum, true),
                &["scatter_reduce", &remedy],
            );
            refused(
                &x.index_put(&[Some(&at)], &src, true),
                &["index_put", &remedy],
            );
            is(&x.slice_assign(0, 0, 2, 1, &src), dtype, &[1.0, 1.0]);
        }
        let flags = Tensor::ones(2, Bool, &cpu());
        refused(
            &flags.scatter_reduce(0, &at, &flags, ReduceOp::Mean, true),
            &["scatter_reduce", "bool"],
        );
        is(
            &flags.scatter_reduce(0, &at, &flags, ReduceOp::Sum, true),
            Bool,
            &[1.0, 1.0],
        );
    });
}

#[test]
fn tensors_without_dimensions() {
    both(|| {
        let (x, zero, none) = (
            Tensor::scalar(5.0, F32, &cpu()),
            Tensor::scalar(0, I64, &cpu()),
            ints(&[]),
        );
        for at in [&zero, &ints(&[0]), &ints(&[-1])] {
            let y = x.index_select(0, at);
            assert_eq!(y.rank(), 0);
            is(&y, F32, &[5.0]);
        }
        is(&x.index_select(-1, &zero), F32, &[5.0]);
        refused(&x.index_select(0, &ints(&[0, 0])), &["index_select"]);
        refused(&x.index_select(0, &none), &["index_select"]);
        refused(&x.index_select(1, &zero), &["index_select"]);
        let outside = x
            .index_select(0, &ints(&[1]))
            .eval()
            .unwrap_err()
            .to_string();
        assert!(outside.starts_with("index_select: index 1 "), "{outside}");
        let window = x.unfold(0, 1, 1);
        assert_eq!(window.dims(), [1]);
        is(&window, F32, &[5.0]);
        is(&x.unfold(-1, 1, 3), F32, &[5.0]);
        assert_eq!(x.unfold(0, 0, 1).dims(), [0]);
        refused(&x.unfold(0, 2, 1), &["unfold"]);
        refused(&x.unfold(0, 1, 0), &["unfold"]);
        refused(&x.unfold(1, 1, 1), &["unfold"]);
        // What PyTorch takes, and what it refuses.
        is(&x.gather(0, &zero), F32, &[5.0]);
        is(
            &x.scatter(0, &zero, &Tensor::scalar(1.0, F32, &cpu())),
            F32,
            &[1.0],
        );
        is(&x.sort(0, false).0, F32, &[5.0]);
        is(&x.topk(1, 0, true).0, F32, &[5.0]);
        is(&x.cumsum(0), F32, &[5.0]);
        is(&x.cummax(0).0, F32, &[5.0]);
        is(&x.flip(0), F32, &[5.0]);
        is(&x.squeeze(0), F32, &[5.0]);
        is(&x.softmax(0), F32, &[1.0]);
        is(&x.logsumexp(0), F32, &[5.0]);
        is(&x.transpose(0, -1), F32, &[5.0]);
        is(&x.argmax(0), I64, &[0.0]);
        is(&x.repeat(&[2]), F32, &[5.0, 5.0]);
        is(&x.masked_select(&x.gt(1)), F32, &[5.0]);
        is(&x.norm(2.0, 0), F32, &[5.0]);
        assert_eq!(x.flatten(0, -1).dims(), [1]);
        refused(&x.topk(2, 0, true).0, &["topk"]);
        refused(&x.narrow(0, 0, 1), &["narrow"]);
        refused(&x.select(0, 0), &["select"]);
        refused(&x.tril(0), &["tril"]);
        refused(&x.pad(&[(1, 1)], 0), &["pad"]);
        refused(&Tensor::cat(&[&x, &x], 0), &["cat"]);
        assert!(x.chunk(1, 0)[0].error().is_some());
    });
}

// PyTorch's sums begin with 0. The sign shows in the reciprocal.
#[test]
fn sums_of_negative_zeros_are_positive() {
    both(|| {
        for dtype in [F32, F64, BF16, F16] {
            for n in [1, 2, 3, 7, 8, 16, 17, 100] {
                let zeros = |shape: [usize; 2]| of(&vec![-0.0; 5 * n], dtype).reshape(shape);
                let (rows, columns) = (zeros([5, n]), zeros([n, 5]));
                let sums = [
                    rows.sum(1),
                    columns.sum(0),
                    rows.sum(..).unsqueeze(0),
                    rows.mean(1),
                    columns.sum_keepdim(0).squeeze(0),
                ];
                for sum in sums {
                    let signs = sum.recip().to_dtype(F64).to_vec::<f64>().unwrap();
                    assert!(
                        signs.iter().all(|&x| x == f64::INFINITY),
                        "{n} {dtype}: {signs:?}"
                    );
                }
            }
        }
    });
}
