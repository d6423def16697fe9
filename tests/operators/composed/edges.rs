//! Composed methods at their edges: numbers that are special, integers, 0-d and empty tensors, and arguments that do not fit.

use super::refused;
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::nn::{AlphaDropout, Dropout1d, Dropout2d, Dropout3d, Module, Pad, Upsample};
use ferrotrace::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Numbers that PyTorch gives.
#[test]
fn special_numbers() {
    both(|| {
        let x = dense(&[5], F64, &[0.0, -1.0, -0.5, INF, NAN]);
        near(
            &x.lgamma(),
            &[5],
            &[INF, INF, 1.2655121234846454, INF, NAN],
            1e-12,
        );
        let want = [-INF, NAN, 0.03648997397857652, INF, NAN];
        near(&x.digamma(), &[5], &want, 1e-12);
        let x = dense(&[4], F64, &[1.0, -1.0, 1.5, NAN]);
        equal(&x.erfinv(), &[4], &[INF, -INF, NAN, NAN]);
        let x = dense(&[4], F32, &[0.0, -0.0, INF, NAN]);
        equal(&x.signbit(), &[4], &[0.0, 1.0, 0.0, 0.0]);
        equal(&x.isposinf(), &[4], &[0.0, 0.0, 1.0, 0.0]);
        equal(&x.neg().isneginf(), &[4], &[0.0, 0.0, 1.0, 0.0]);
        equal(&x.hardshrink(0.5), &[4], &[0.0, 0.0, INF, NAN]);
        equal(&x.softshrink(0.5), &[4], &[0.0, 0.0, INF, NAN]);
        equal(&x.threshold(1.0, 2.0), &[4], &[2.0, 2.0, INF, NAN]);
        equal(&x.fmax(-1.0), &[4], &[0.0, 0.0, INF, -1.0]);
        equal(&x.fmin(NAN), &[4], &[0.0, 0.0, INF, NAN]);
        equal(
            &x.heaviside(&dense(&[], F32, &[0.5])),
            &[4],
            &[0.5, 0.5, 1.0, NAN],
        );
        let y = dense(&[4], F32, &[0.0, -1.0, 0.0, 0.0]);
        equal(&x.zeros_like().xlogy(&y), &[4], &[0.0; 4]);
        equal(&x.zeros_like().xlogy(INF), &[4], &[0.0; 4]);
        equal(&x.zeros_like().xlogy(NAN), &[4], &[NAN; 4]);
        let powers = dense(&[2], F64, &[2000.0, 1.0]).logaddexp2(dense(&[2], F64, &[2000.0, -INF]));
        near(&powers, &[2], &[2001.0, 1.0], 1e-12);
        // 2¹⁵⁰ is no number of binary32, the product is.
        equal(
            &dense(&[1], F32, &[(2f64).powi(-140)]).ldexp(150),
            &[1],
            &[1024.0],
        );
        let slope = |x: f64, y: f64| {
            let [x, y] = [x, y].map(|v| Tensor::scalar(v, F64, &cpu()).requires_grad());
            let by = grad(&x.xlogy(&y), &[&x, &y]);
            [values(&by[0])[0], values(&by[1])[0]]
        };
        assert_eq!(slope(0.0, 0.0), [0.0, 0.0]);
        assert_eq!(slope(0.0, 1.0), [0.0, 0.0]);
        let zero = Tensor::scalar(0.0, F64, &cpu()).requires_grad();
        equal(&grad(&zero.sinc(), &[&zero])[0], &[], &[0.0]);
    });
}

#[test]
fn integers() {
    each(&[I64, I32, I16, U8], true, |dtype| {
        for x in forms(&[4], dtype, &[12.0, 18.0, 0.0, 7.0]) {
            let y = x.gcd(8);
            assert_eq!(y.dtype(), dtype);
            equal(&y, &[4], &[4.0, 2.0, 8.0, 1.0]);
            equal(&x.lcm(8), &[4], &[24.0, 72.0, 0.0, 56.0]);
            equal(&x.nansum(0), &[], &[37.0]);
            equal(&x.threshold(7, 1), &[4], &[12.0, 18.0, 1.0, 1.0]);
            equal(&x.kthvalue(2, 0).0, &[], &[7.0]);
            equal(&x.kthvalue(2, 0).1, &[], &[3.0]);
            equal(&x.channel_order(), &[1, 4, 1], &[12.0, 0.0, 18.0, 7.0]);
        }
    });
    both(|| {
        for y in [
            ints(&[1, 2]).lgamma(),
            ints(&[1, 2]).deg2rad(),
            ints(&[1, 2]).trapezoid(1, 0),
            ints(&[1, 2]).corrcoef(),
            ints(&[1, 2]).xlogy(2),
            ints(&[1, 2]).copysign(-1),
        ] {
            assert_eq!(y.dtype(), F32);
        }
        equal(&ints(&[1, 2, 3]).cov(1, None, None), &[], &[1.0]);
        equal(
            &ints(&[2, 3]).vander(3, false),
            &[2, 3],
            &[4.0, 2.0, 1.0, 9.0, 3.0, 1.0],
        );
        let rows = ints(&[1, 2, 3, 4]).reshape([2, 2]);
        equal(&rows.matrix_power(3), &[2, 2], &[37.0, 54.0, 81.0, 118.0]);
        equal(
            &rows.tensordot(&rows, 0, 1),
            &[2, 2],
            &[7.0, 15.0, 10.0, 22.0],
        );
        let y = ints(&[1, 2]).addmm(&rows, &rows, 1, 2);
        equal(&y, &[2, 2], &[15.0, 22.0, 31.0, 46.0]);
    });
}

/// 256.5 is no number of bf16, the rest after 256 is; 65,536 is none of f16, a quarter of it is.
#[test]
fn sums_with_products_are_rounded_once() {
    both(|| {
        let half = |numbers: &[f32], shape: [usize; 2], dtype| {
            Tensor::from_slice(numbers, shape, &cpu()).to_dtype(dtype)
        };
        let (a, b) = (
            half(&[16.0, 1.0], [1, 2], BF16),
            half(&[16.0, 0.5], [2, 1], BF16),
        );
        let x = Tensor::full(1, -256, BF16, &cpu());
        let y = x.addmm(&a, &b, 1.0, 1.0);
        equal(&y.to_dtype(F32), &[1, 1], &[0.5]);
        let [a, b] = [&a, &b].map(|x| x.unsqueeze(0));
        let y = (&x * 0.5).baddbmm(&a, &b, 2.0, 1.0);
        equal(&y.to_dtype(F32), &[1, 1, 1], &[0.5]);
        let (a, b) = (half(&[256.0], [1, 1], F16), half(&[256.0], [1, 1], F16));
        let none = Tensor::full(1, f64::NAN, F16, &cpu());
        let y = none.addmm(&a, &b, 0.0, 0.25);
        equal(&y.to_dtype(F32), &[1, 1], &[16384.0]);
    });
}

trait Order {
    fn channel_order(&self) -> Tensor;
}

impl Order for Tensor {
    /// Four numbers as channels of two groups, shuffled.
    fn channel_order(&self) -> Tensor {
        self.reshape([1, 4, 1]).channel_shuffle(2)
    }
}

#[test]
fn numbers_and_nothing() {
    both(|| {
        let number = Tensor::scalar(0.5, F32, &cpu());
        equal(&number.nansum(..), &[], &[0.5]);
        equal(&number.nanmean(0), &[], &[0.5]);
        equal(&number.corrcoef(), &[], &[NAN]);
        equal(&number.prelu(&dense(&[1], F32, &[0.25])), &[], &[0.5]);
        equal(&number.hardshrink(0.5), &[], &[0.0]);
        equal(&number.dist(&number, 2.0), &[], &[0.0]);
        equal(&number.kthvalue(1, 0).0, &[], &[0.5]);
        equal(&number.index_fill(0, &ints(&[0]), 2.0), &[], &[2.0]);
        equal(&Tensor::block_diag([&number]), &[1, 1], &[0.5]);
        equal(&dense(&[2], F32, &[NAN, NAN]).nanmean(0), &[], &[NAN]);
        let none = Tensor::zeros([0, 4], F32, &cpu());
        equal(&none.glu(1), &[0, 2], &[]);
        equal(&none.softshrink(0.1), &[0, 4], &[]);
        equal(&none.nansum(0), &[4], &[0.0; 4]);
        equal(&none.nanmean(0), &[4], &[NAN; 4]);
        equal(&none.trapezoid(1.0, 0), &[4], &[0.0; 4]);
        equal(&none.cumulative_trapezoid(1.0, 1), &[0, 3], &[]);
        equal(&none.pdist(2.0), &[0], &[]);
        equal(&none.pairwise_distance(&none, 2.0, 0.0, false), &[0], &[]);
        equal(&none.tensordot(&none, 0, 0), &[4, 4], &[0.0; 16]);
        equal(&none.diag_embed(0, -1, -2), &[0, 4, 4], &[]);
        equal(&none.select(1, 0).diag_embed(1, 0, 1), &[1, 1], &[0.0]);
        equal(&none.unflatten(0, [0, 3]), &[0, 3, 4], &[]);
        equal(&none.select(1, 0).vander(2, true), &[0, 2], &[]);
        equal(&ints(&[5]).vander(0, true), &[1, 0], &[]);
        equal(&none.masked_scatter(&none.gt(0), &none), &[0, 4], &[]);
        equal(&none.index_copy(0, &ints(&[]), &none), &[0, 4], &[]);
        let images = Tensor::zeros([0, 2, 4, 4], F32, &cpu());
        equal(&images.im2col(2, 1, 0, 2), &[0, 8, 4], &[]);
        equal(
            &images.im2col(2, 1, 0, 2).col2im(4, 2, 1, 0, 2),
            &[0, 2, 4, 4],
            &[],
        );
        equal(
            &images.local_response_norm(2, 1.0, 1.0, 1.0),
            &[0, 2, 4, 4],
            &[],
        );
        assert_eq!(none.tensor_split(3, 0).len(), 3);
    });
}

#[test]
fn arguments_that_do_not_fit() {
    let x = dense(&[2, 3], F32, &eighths(6));
    let (whole, image) = (ints(&[1, 2]), Tensor::zeros([1, 3, 4, 4], F32, &cpu()));
    let at = ints(&[0]);
    for (y, name) in [
        (x.glu(1), "glu"),
        (whole.glu(0), "glu"),
        (x.softmin(2), "softmin"),
        (x.softshrink(-1.0), "softshrink"),
        (whole.hardshrink(0.5), "hardshrink"),
        (x.prelu(&x), "prelu"),
        (x.prelu(&dense(&[2], F32, &[0.5, 0.5])), "prelu"),
        (x.gcd(2), "gcd"),
        (whole.lcm(1.5), "lcm"),
        (x.heaviside(&whole), "heaviside"),
        (x.fmax(&whole), "fmax"),
        (whole.nanmean(0), "nanmean"),
        (x.nansum(2), "nansum"),
        (x.trapezoid(&dense(&[2], F32, &[0.0, 1.0]), 1), "trapezoid"),
        (x.unsqueeze(0).cov(1, None, None), "cov"),
        (x.cov(1, Some(&x), None), "cov"),
        (x.unsqueeze(0).corrcoef(), "corrcoef"),
        (x.tensordot(&x, [0, 1], 0), "tensordot"),
        (x.tensordot(&x, 0, 1), "tensordot"),
        (x.vander(2, false), "vander"),
        (x.matrix_power(2), "matrix_power"),
        (x.addmm(&x, &x, 1.0, 1.0), "addmm"),
        (x.baddbmm(&x, &x.t(), 1.0, 1.0), "baddbmm"),
        (
            x.pairwise_distance(&whole, 2.0, 0.0, false),
            "pairwise_distance",
        ),
        (whole.pdist(2.0), "pdist"),
        (x.renorm(0.0, 0, 1.0), "renorm"),
        (
            x.local_response_norm(2, 1.0, 1.0, 1.0),
            "local_response_norm",
        ),
        (image.channel_shuffle(2), "channel_shuffle"),
        (x.unflatten(1, [2, 2]), "unflatten"),
        (x.unflatten(1, [-1, -1]), "unflatten"),
        (x.rot90(1, 0), "rot90"),
        (x.tensor_split(0, 0).remove(0), "tensor_split"),
        (x.diag_embed(0, 1, 1), "diag_embed"),
        (Tensor::block_diag([&image]), "block_diag"),
        (image.im2col(5, 1, 0, 1), "im2col"),
        (image.im2col(2, 1, 0, 0), "im2col"),
        (
            image.select(0, 0).narrow(1, 0, 3).col2im(4, 2, 1, 0, 2),
            "col2im",
        ),
        (image.lp_pool2d(0.0, 2), "lp_pool2d"),
        (image.lp_pool2d(2.0, 5), "lp_pool2d"),
        (x.index_copy(0, &at, &x), "index_copy"),
        (x.index_fill(0, &x, 1.0), "index_fill"),
        (x.index_fill(0, &at, &x), "index_fill"),
        (x.masked_scatter(&at, &x), "masked_scatter"),
        (x.kthvalue(4, 1).0, "kthvalue"),
        (x.kthvalue(0, 1).1, "kthvalue"),
    ] {
        refused_by(&y, name);
    }
    refused(&x.matmul(&x).glu(0), "matmul", &[]);
    both(|| {
        let full = dense(&[2], Bool, &[1.0, 1.0]);
        let few = whole.narrow(0, 0, 1);
        assert!(whole.masked_scatter(&full, &few).eval().is_err());
        assert!(
            x.index_copy(0, &ints(&[2]), &x.narrow(0, 0, 1))
                .eval()
                .is_err()
        );
    });
}

fn refused_by(x: &Tensor, name: &str) {
    let error = x
        .error()
        .unwrap_or_else(|| panic!("{name}: no error but {x:?}"));
    assert!(
        error.to_string().starts_with(&format!("{name}: ")),
        "{name}: {error}"
    );
}

#[test]
fn layers_of_paddings_and_sizes() {
    both(|| {
        let x = dense(&[1, 1, 2, 2], F32, &[1.0, 2.0, 3.0, 4.0]);
        let y = Pad::constant([(0, 1), (1, 0)], 9.0).forward(&x);
        let want = [9.0, 1.0, 2.0, 9.0, 3.0, 4.0, 9.0, 9.0, 9.0];
        equal(&y, &[1, 1, 3, 3], &want);
        let y = Pad::with([(1, 0)], PadMode::Replicate).forward(&x);
        equal(&y, &[1, 1, 2, 3], &[1.0, 1.0, 2.0, 3.0, 3.0, 4.0]);
        let nearest = ferrotrace::Interpolation::Nearest;
        let y = Upsample::by(2, nearest).forward(&x);
        let want = [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0];
        equal(&y.narrow(2, 0, 2), &[1, 1, 2, 4], &want);
        let y = Upsample::to([1, 2], nearest).forward(&x);
        equal(&y, &[1, 1, 1, 2], &[1.0, 2.0]);
    });
}

/// Whole channels, and the moments of what is dropped alone.
#[test]
fn dropped_channels() {
    both(|| {
        let x = Tensor::ones([3, 40, 5], F32, &cpu());
        let channels = |y: &Tensor| {
            let rows = values(&y.reshape([-1, 5]));
            let whole = |row: &[f64]| row.iter().all(|v| *v == row[0] && [0.0, 2.0].contains(v));
            assert!(rows.chunks(5).all(whole));
            rows.iter().step_by(5).filter(|v| **v == 0.0).count()
        };
        let dropped = channels(&Dropout1d::new(0.5).forward(&x));
        assert!((30..90).contains(&dropped), "{dropped}");
        channels(&Dropout1d::new(0.5).forward(&x.select(0, 0)));
        channels(&Dropout2d::new(0.5).forward(&x));
        channels(&Dropout3d::new(0.5).forward(&x.reshape([3, 40, 1, 1, 5])));
        channels(&Dropout3d::new(0.5).forward(&x.reshape([3, 40, 1, 5])));
        let mut layer = AlphaDropout::new(0.25);
        let x = Tensor::randn(20_000, F32, &cpu());
        let (var, mean) = layer.forward(&x).var_mean(0, 0);
        assert!(values(&mean)[0].abs() < 0.05 && (values(&var)[0] - 1.0).abs() < 0.05);
        layer.training = false;
        equal(&layer.forward(&x), &[20_000], &values(&x));
    });
}

/// The greatest common divisor of magnitudes.
fn divisor(a: i64, b: i64) -> u64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[test]
fn divisors_of_every_pair_of_bytes() {
    let n = 256i64;
    both(|| {
        for (dtype, low) in [(I8, -128), (U8, 0)] {
            let line = Tensor::arange(low, low + n, 1, I64, &cpu()).to_dtype(dtype);
            let found = line.unsqueeze(1).gcd(&line);
            assert_eq!((found.dims(), found.dtype()), (&[256, 256][..], dtype));
            let found = found.to_dtype(I64).to_vec::<i64>().unwrap();
            for (k, got) in found.into_iter().enumerate() {
                let (a, b) = (low + k as i64 / n, low + k as i64 % n);
                let want = divisor(a, b);
                // 128 is −128 in a byte.
                let want = if dtype == I8 {
                    want as i8 as i64
                } else {
                    want as i64
                };
                assert_eq!(got, want, "{a} and {b} of {dtype}");
            }
        }
    });
}

#[test]
fn divisors_of_long_integers() {
    let mut state = 1u64;
    let mut drawn = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> (state >> 58)) as i64
    };
    let mut a = vec![
        i64::MIN,
        i64::MIN,
        6,
        i64::MIN,
        0,
        i64::MIN,
        -1,
        i64::MAX,
        1 << 62,
        0,
    ];
    let mut b = vec![
        6,
        i64::MIN,
        i64::MIN,
        0,
        i64::MIN,
        -1,
        i64::MIN,
        7,
        3 << 61,
        0,
    ];
    // Neighbours in Fibonacci's sequence take Euclid the most steps.
    let (mut x, mut y) = (1i64, 1i64);
    while let Some(next) = x.checked_add(y) {
        (x, y) = (y, next);
        a.push(x);
        b.push(-y);
    }
    for _ in 0..1000 {
        a.push(drawn());
        b.push(drawn());
    }
    both(|| {
        for dtype in [I64, I32, I16] {
            let narrow = |x: &[i64]| ints(x).to_dtype(dtype);
            let wide = |x: &Tensor| x.to_dtype(I64).to_vec::<i64>().unwrap();
            let (x, y) = (narrow(&a), narrow(&b));
            let pairs = wide(&x).into_iter().zip(wide(&y));
            let want: Vec<i64> = pairs.map(|(a, b)| divisor(a, b) as i64).collect();
            assert_eq!(wide(&x.gcd(&y)), wide(&ints(&want).to_dtype(dtype)));
        }
        let (x, y) = (ints(&[i64::MIN, 0, 4]), ints(&[i64::MIN, 5, -6]));
        equal(&x.lcm(&y), &[3], &[i64::MIN as f64, 0.0, 12.0]);
    });
}
