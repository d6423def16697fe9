//! Functions of two elements that others express, against binary64, in both modes.

use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::Rounding;
use ferrotrace::prelude::*;

/// Runs `f` on every form of two operands of every floating-point dtype, broadcast, against `g` of each pair.
fn pairs(f: impl Fn(&Tensor, &Tensor) -> Tensor, g: impl Fn(f64, f64) -> f64) {
    let (a, b) = (eighths(12), eighths(4));
    let expected: Vec<f64> = (0..12).map(|i| g(a[i], b[i % 4])).collect();
    both(|| {
        for dtype in FLOATS {
            for x in forms(&[3, 4], dtype, &a) {
                for y in forms(&[4], dtype, &b) {
                    let z = f(&x, &y);
                    assert_eq!(z.dtype(), dtype);
                    near(&z, &[3, 4], &expected, unit(dtype));
                }
            }
        }
    });
}

#[test]
fn lengths_and_sums_of_logarithms() {
    pairs(|x, y| x.hypot(y), f64::hypot);
    pairs(|x, y| x.logaddexp(y), |a, b| (a.exp() + b.exp()).ln());
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    both(|| {
        let x = dense(&[6], F32, &[inf, -inf, nan, 0.0, 3e38, inf]);
        let y = dense(&[6], F32, &[nan, 1.0, 1.0, 0.0, 0.0, inf]);
        near(&x.hypot(&y), &[6], &[inf, inf, nan, 0.0, 3e38, inf], 1e-6);
        let x = dense(&[6], F32, &[inf, -inf, nan, 1000.0, inf, -inf]);
        let y = dense(&[6], F32, &[inf, -inf, 1.0, 1000.0, -inf, 2.0]);
        let expected = [inf, -inf, nan, 1000.0 + 2f64.ln(), inf, 2.0];
        near(&x.logaddexp(&y), &[6], &expected, 1e-6);
        near(
            &dense(&[2], F64, &[3e200, -3e-200]).hypot(4e-200),
            &[2],
            &[3e200, 5e-200],
            1e-14,
        );
        let tiny = dense(&[1], F64, &[-3e-200])
            .hypot(4e-200)
            .item::<f64>()
            .unwrap();
        assert!((tiny / 5e-200 - 1.0).abs() < 1e-14);
        assert_eq!(
            dense(&[1], F16, &[1.0])
                .hypot(&dense(&[1], F64, &[1.0]))
                .dtype(),
            F64
        );
        assert_eq!(
            dense(&[1], F16, &[1.0])
                .hypot(&dense(&[1], BF16, &[1.0]))
                .dtype(),
            F32
        );
        near(&ints(&[3]).hypot(4.0), &[1], &[5.0], 1e-6);
        near(
            &Tensor::scalar(3.0, F32, &cpu()).hypot(4),
            &[],
            &[5.0],
            1e-6,
        );
        equal(
            &Tensor::zeros((0, 2), F32, &cpu()).logaddexp(1),
            &[0, 2],
            &[],
        );
        fails(
            &ints(&[3]).hypot(&ints(&[4])),
            &["hypot", "i64", "to_dtype(DType::F32)"],
        );
        fails(&ints(&[3]).logaddexp(4), &["logaddexp", "i64"]);
        let (a, b) = (Tensor::ones(2, F32, &cpu()), Tensor::ones(3, F32, &cpu()));
        fails(&a.hypot(&b), &["hypot", "[2]", "[3]"]);
    });
}

#[test]
fn quotients() {
    pairs(|x, y| x.divide(y, Rounding::True), |a, b| a / b);
    // Exact in each dtype: both sides are eighths.
    pairs(|x, y| x.divide(y, Rounding::Trunc), |a, b| (a / b).trunc());
    pairs(|x, y| x.divide(y, Rounding::Floor), |a, b| (a / b).floor());
    both(|| {
        for dtype in INTS {
            let sign = if dtype == U8 { 1.0 } else { -1.0 };
            let a: Vec<f64> = whole(12, 20).iter().map(|v| v * sign + 1.0).collect();
            let a: Vec<f64> = a
                .iter()
                .map(|v| v.max(if dtype == U8 { 0.0 } else { -v.abs() }))
                .collect();
            for x in forms(&[12], dtype, &a) {
                for by in [3.0, 3.0 * sign] {
                    let y = dense(&[1], dtype, &[by]);
                    let each = |f: fn(f64) -> f64| a.iter().map(|v| f(v / by)).collect::<Vec<_>>();
                    let trunc = x.divide(&y, Rounding::Trunc);
                    assert_eq!(trunc.dtype(), dtype);
                    equal(&trunc, &[12], &each(f64::trunc));
                    equal(&x.divide(&y, Rounding::Floor), &[12], &each(f64::floor));
                    assert_eq!(x.divide(&y, Rounding::True).dtype(), F32);
                }
            }
        }
        let x = ints(&[i64::MAX, i64::MIN + 1, 7]);
        let quotient = x.divide(&ints(&[2, 2, 0]), Rounding::Trunc);
        assert_eq!(
            quotient.to_vec::<i64>().unwrap()[..2],
            [i64::MAX / 2, (i64::MIN + 1) / 2]
        );
        equal(&ints(&[-7]).divide(2.0, Rounding::Trunc), &[1], &[-3.0]);
        equal(
            &Tensor::scalar(-7, I32, &cpu()).divide(2, Rounding::Trunc),
            &[],
            &[-3.0],
        );
        let mask = dense(&[1], Bool, &[1.0]);
        fails(&mask.divide(&mask, Rounding::Trunc), &["divide", "bool"]);
    });
}

#[test]
fn closeness() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    both(|| {
        for dtype in FLOATS {
            let x = dense(&[6], dtype, &[1.0, 1.0, inf, -inf, nan, inf]);
            let y = dense(&[6], dtype, &[1.125, 1.5, inf, inf, nan, 1.0]);
            equal(
                &x.isclose(&y, 0.125, 0.0, false),
                &[6],
                &[1.0, 0.0, 1.0, 0.0, 0.0, 0.0],
            );
            equal(
                &x.isclose(&y, 0.0, 0.125, true),
                &[6],
                &[1.0, 0.0, 1.0, 0.0, 1.0, 0.0],
            );
            equal(
                &x.isclose(&y, 0.0, 0.0, true),
                &[6],
                &[0.0, 0.0, 1.0, 0.0, 1.0, 0.0],
            );
            assert!(x.allclose_equal_nan(&x, 0.0, 0.0).unwrap());
            assert!(!x.allclose(&x, 0.0, 0.0).unwrap());
            assert!(!x.allclose_equal_nan(&y, 0.1, 0.1).unwrap());
        }
        for dtype in INTS {
            let x = dense(&[3, 1], dtype, &[1.0, 2.0, 100.0]);
            let close = x.isclose(&dense(&[1], dtype, &[3.0]), 0.0, 1.0, false);
            assert_eq!(close.dtype(), Bool);
            equal(&close, &[3, 1], &[0.0, 1.0, 0.0]);
        }
        let mask = dense(&[2], Bool, &[1.0, 0.0]);
        equal(&mask.isclose(&mask, 1e-5, 1e-8, false), &[2], &[1.0, 1.0]);
        let x = Tensor::scalar(1.0, F32, &cpu());
        equal(&x.isclose(&x, 1e-5, 1e-8, false), &[], &[1.0]);
        fails(&x.isclose(&x, -1.0, 0.0, false), &["isclose", "negative"]);
        fails(
            &x.isclose(&x.to_dtype(F64), 0.0, 0.0, false),
            &["isclose", "to_dtype(DType::F32)"],
        );
        let (a, b) = (Tensor::ones(2, F32, &cpu()), Tensor::ones(3, F32, &cpu()));
        fails(&a.isclose(&b, 0.0, 0.0, false), &["isclose", "[2]", "[3]"]);
    });
}
