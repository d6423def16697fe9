//! Methods under names of NumPy's and PyTorch's, and what these take. Values are theirs.

use super::{apart, differentiable, refused};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use std::f64::consts::PI;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

#[test]
fn extremes_without_nan() {
    let a = [1.0, NAN, 3.0, NAN, NAN, NAN, -2.0, 7.0, NAN, -INF, NAN, INF];
    each(&FLOATS, true, |dtype| {
        for x in forms(&[4, 3], dtype, &a) {
            equal(&x.nanmax(..), &[], &[INF]);
            equal(&x.nanmax(0), &[3], &[1.0, 7.0, INF]);
            equal(&x.nanmax_keepdim(1), &[4, 1], &[3.0, NAN, 7.0, INF]);
            equal(&x.nanmin(()), &[], &[-INF]);
            equal(&x.nanmin_keepdim(0), &[1, 3], &[-INF, 7.0, 3.0]);
            equal(&x.nanmin(-1), &[4], &[1.0, NAN, -2.0, -INF]);
            assert_eq!(x.nanmax(0).dtype(), dtype);
        }
    });
    both(|| {
        equal(&ints(&[3, 1, 2]).nanmax(0), &[], &[3.0]);
        assert_eq!(ints(&[3]).to_dtype(U8).nanmin(0).dtype(), U8);
        equal(&Tensor::scalar(NAN, F32, &cpu()).nanmax(0), &[], &[NAN]);
        let none = Tensor::zeros((2, 0), F32, &cpu());
        refused(&none.nanmax(1), "nanmax", &[]);
        refused(&none.nanmin(2), "nanmin", &["2"]);
        equal(&none.nanmin(0), &[0], &[]);
    });
    let x = dense(&[2, 3], F64, &[0.5, NAN, 3.0, -1.0, 2.0, NAN]);
    let clean = dense(&[2, 3], F64, &apart(6));
    differentiable(&[clean], &|v| {
        let holes = x.isnan().where_cond(NAN, &v[0]);
        holes.nanmax(1) + holes.nanmin(1)
    });
}

#[test]
fn moments_without_nan() {
    let a = [1.0, NAN, 3.0, NAN, NAN, NAN, -2.0, 7.0, NAN];
    each(&FLOATS, true, |dtype| {
        let bits = 4.0 * unit(dtype);
        for x in forms(&[3, 3], dtype, &a) {
            for (n, want) in [(0, 10.6875), (1, 14.25), (2, 21.375)] {
                near(&x.nanvar(.., n), &[], &[want], bits);
                near(&x.nanstd((), n), &[], &[want.sqrt()], bits);
            }
            near(&x.nanvar(0, 0), &[3], &[2.25, 0.0, 0.0], bits);
            near(&x.nanvar_keepdim(0, 1), &[1, 3], &[4.5, NAN, NAN], bits);
            near(&x.nanvar(0, 2), &[3], &[NAN; 3], bits);
            near(&x.nanstd(1, 0), &[3], &[1.0, NAN, 4.5], bits);
            let want = [2f64.sqrt(), NAN, 40.5f64.sqrt()];
            near(&x.nanstd_keepdim(1, 1), &[3, 1], &want, bits);
            assert_eq!(x.nanstd(0, 0).dtype(), dtype);
        }
    });
    both(|| {
        refused(&ints(&[1, 2]).nanvar(0, 1), "nanvar", &["i64"]);
        equal(
            &Tensor::zeros((2, 0), F32, &cpu()).nanvar(1, 0),
            &[2],
            &[NAN; 2],
        );
        // Sums of squares of large halves overflow, their mean does not.
        let far = dense(&[2, 64], F16, &[[200.0; 64], [0.0; 64]].concat());
        near(&far.nanstd(0, 0), &[64], &[100.0; 64], 1e-3);
    });
    let mask = dense(&[2, 4], F64, &[1.0, NAN, 1.0, 1.0, 1.0, 1.0, NAN, 1.0]);
    differentiable(&[dense(&[2, 4], F64, &apart(8))], &|v| {
        mask.isnan().where_cond(NAN, &v[0]).nanvar(1, 1)
    });
}

#[test]
fn other_names() {
    let a = eighths(6);
    each(&FLOATS, false, |dtype| {
        for x in forms(&[2, 3], dtype, &a) {
            let want: Vec<f64> = a.iter().map(|x| x.clamp(-0.5, 1.0)).collect();
            equal(&x.clip(-0.5, 1.0), &[2, 3], &want);
            equal(&x.new_zeros(2), &[2], &[0.0; 2]);
            equal(&x.new_ones((1, 2)), &[1, 2], &[1.0; 2]);
            equal(&x.new_full((), -2.5), &[], &[-2.5]);
            assert_eq!(x.new_full([0], 1).dtype(), dtype);
        }
    });
    both(|| {
        let x = ints(&[1, 2, 3]);
        refused(&x.to_dtype(U8).new_full(2, 300), "new_full", &["300"]);
        refused(&x.clip(&x, ints(&[1, 2])), "clip", &["2"]);
        assert_eq!(x.unsqueeze(0).size(-1).unwrap(), 3);
        assert!(x.size(1).is_err() && x.matmul(&ints(&[1])).size(0).is_err());
        refused(&x.matmul(&ints(&[1])).new_zeros(2), "matmul", &[]);
    });
}

#[test]
fn equal_tensors() {
    each(&ALL, false, |dtype| {
        let a = whole(6, 2);
        for x in forms(&[2, 3], dtype, &a) {
            assert!(x.equal(&dense(&[2, 3], dtype, &a)).unwrap());
            assert!(x.equal(&dense(&[2, 3], F64, &a)).unwrap());
            assert!(!x.equal(&x.logical_not().to_dtype(dtype)).unwrap());
            assert!(!x.equal(&x.reshape([3, 2])).unwrap());
            assert!(!x.equal(&x.unsqueeze(0)).unwrap());
        }
    });
    both(|| {
        let x = dense(&[2], F32, &[1.0, NAN]);
        assert!(!x.equal(&x).unwrap());
        let none = Tensor::zeros(0, F32, &cpu());
        assert!(none.equal(&none).unwrap() && !none.equal(&x).unwrap());
        assert!(x.equal(&x.matmul(&ints(&[1]))).is_err());
    });
}

#[test]
fn equal_multiples() {
    let geometric = |a: f64, b: f64, n: usize| -> Vec<f64> {
        let at = |i: usize| a * (b / a).powf(i as f64 / (n - 1).max(1) as f64);
        (0..n).map(at).collect()
    };
    each(&FLOATS, true, |dtype| {
        for (a, b, n) in [
            (1.0, 1000.0, 4),
            (-256.0, -1.0, 9),
            (5.0, 5.0, 3),
            (2.0, 7.0, 1),
        ] {
            let y = Tensor::geomspace(a, b, n, dtype, &cpu());
            near(&y, &[n], &geometric(a, b, n), unit(dtype));
            equal(&y.at(0), &[], &[a]);
            assert_eq!(y.dtype(), dtype);
        }
        equal(
            &Tensor::geomspace(3, 9, 2, dtype, &cpu()),
            &[2],
            &[3.0, 9.0],
        );
        equal(&Tensor::geomspace(3, 9, 0, dtype, &cpu()), &[0], &[]);
    });
    both(|| {
        let y = Tensor::geomspace(1, 100, 3, I64, &cpu());
        equal(&y, &[3], &[1.0, 10.0, 100.0]);
        for (a, b) in [(0.0, 1.0), (-1.0, 1.0), (1.0, INF), (NAN, 1.0)] {
            refused(&Tensor::geomspace(a, b, 3, F32, &cpu()), "geomspace", &[]);
        }
        refused(
            &Tensor::geomspace(1, 300, 3, U8, &cpu()),
            "geomspace",
            &["300"],
        );
    });
}

#[test]
fn several_dimensions_rolled() {
    let a: Vec<f64> = (0..12).map(f64::from).collect();
    let both_ways = [10.0, 11.0, 8.0, 9.0, 2.0, 3.0, 0.0, 1.0, 6.0, 7.0, 4.0, 5.0];
    let in_line = [7.0, 8.0, 9.0, 10.0, 11.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    each(&NUMBERS, false, |dtype| {
        for x in forms(&[3, 4], dtype, &a) {
            equal(&x.roll((1, -2), (0, 1)), &[3, 4], &both_ways);
            equal(&x.roll([1, -2], [0, -1]), &[3, 4], &both_ways);
            equal(
                &x.roll(vec![-2i64, 1], vec![1usize, 0]),
                &[3, 4],
                &both_ways,
            );
            equal(&x.roll((1, -2), ..), &[3, 4], &both_ways);
            equal(&x.roll(5, ..), &[3, 4], &in_line);
            equal(&x.roll(1isize, 0).roll(-2i64, 1), &[3, 4], &both_ways);
            let none: [isize; 0] = [];
            equal(&x.roll(none, ()), &[3, 4], &a);
            equal(&x.roll(&[3, 4], (0, 1)), &[3, 4], &a);
        }
    });
    both(|| {
        let number = Tensor::scalar(3.0, F32, &cpu());
        equal(&number.roll(1, ..), &[], &[3.0]);
        equal(
            &Tensor::zeros((0, 2), F32, &cpu()).roll(3, ..),
            &[0, 2],
            &[],
        );
        let x = dense(&[3, 4], F32, &a);
        refused(&x.roll(1, (0, 1)), "roll", &["1 shifts", "2 dimensions"]);
        refused(&number.roll(1, 0), "roll", &["dimension 0"]);
        refused(&x.roll((1, 2), (0, 2)), "roll", &["dimension 2"]);
        refused(&x.roll((1, 2), (0, -2)), "roll", &["twice"]);
    });
    differentiable(&[dense(&[3, 2], F64, &apart(6))], &|v| {
        v[0].roll((1, 1), (0, 1)) + v[0].roll(2, ..)
    });
}

#[test]
fn counts_of_repetitions_are_written_as_sizes() {
    both(|| {
        let x = ints(&[1, 2]);
        let want = [1.0, 2.0, 1.0, 2.0];
        let counts: Vec<usize> = vec![2, 1];
        equal(&x.tile(2), &[4], &want);
        equal(&x.tile((2, 1)), &[2, 2], &want);
        equal(&x.tile([2, 1]), &[2, 2], &want);
        equal(&x.tile(&[2, 1]), &[2, 2], &want);
        equal(&x.tile(&counts[..]), &[2, 2], &want);
        equal(&x.repeat((2, 1)), &[2, 2], &want);
        equal(&x.repeat(counts.clone()), &[2, 2], &want);
        equal(&x.tile(&counts), &[2, 2], &want);
        equal(&x.repeat(&counts), &[2, 2], &want);
        equal(&x.tile(()), &[2], &[1.0, 2.0]);
    });
}

#[test]
fn percentiles() {
    let a = [4.0, 1.0, 2.0, 8.0, 0.0, 5.0, 3.0, 9.0];
    each(&FLOATS, true, |dtype| {
        for x in forms(&[2, 4], dtype, &a) {
            let want = [1.3, 0.9, 3.0, 4.0, 6.8, 7.8];
            let y = x.percentile([10.0, 50.0, 90.0], 1);
            near(&y, &[3, 2], &want, unit(dtype));
            near(&x.at(0).percentile(30.0, 0), &[], &[1.9], unit(dtype));
            near(&x.percentile_keepdim(100.0, 1), &[2, 1], &[8.0, 9.0], 0.0);
        }
    });
    both(|| {
        let x = dense(&[2, 4], F64, &a);
        equal(&x.percentile(25.0, 0), &[4], &values(&x.quantile(0.25, 0)));
        refused(&x.percentile(100.5, 0), "percentile", &["100.5", "100]"]);
        refused(&x.percentile(-1.0, 0), "percentile", &["-1"]);
        refused(&ints(&[1]).percentile(50.0, 0), "percentile", &["i64"]);
    });
}

#[test]
fn angles_without_jumps() {
    let far = -4.0 + 2.0 * PI - 1e-9;
    let a = [
        0.0,
        3.0,
        6.5,
        -1.0,
        2.0,
        PI + 2.0,
        2.0 + 2.0 * PI,
        -4.0,
        far,
    ];
    let want = [
        0.0,
        3.0,
        0.21681469282041377,
        -1.0,
        2.0,
        5.141592653589793,
        8.283185307179586,
        8.566370614359172,
        8.566370613359172,
    ];
    both(|| {
        for x in forms(&[9], F64, &a) {
            near(&x.unwrap(0, 2.0 * PI), &[9], &want, 1e-14);
        }
    });
    each(&FLOATS, true, |dtype| {
        for x in forms(&[2, 3], dtype, &[0.0, 4.0, 1.0, 5.0, 0.0, 2.0]) {
            let want = [0.0, 4.0, 1.0, 1.0, 4.0, 2.0];
            equal(&x.unwrap(0, 4.0), &[2, 3], &want);
        }
        let x = dense(&[8], dtype, &[0.0, 3.0, 0.0, -3.0, 4.0, 7.0, 20.0, -3.5]);
        let want = [0.0, 3.0, 0.0, -3.0, -2.0, 1.0, 2.0, 2.5];
        equal(&x.unwrap(-1, 6.0), &[8], &want);
        assert_eq!(x.unwrap(0, 6.0).dtype(), dtype);
    });
    both(|| {
        let x = dense(&[4], F32, &[0.0, 5.0, NAN, 1.0]);
        equal(&x.unwrap(0, 4.0), &[4], &[0.0, 1.0, NAN, NAN]);
        equal(&x.at(1).unwrap(0, 4.0), &[], &[5.0]);
        equal(&x.at(..0).unwrap(0, 4.0), &[0], &[]);
        for period in [0.0, -1.0, NAN, INF] {
            refused(&x.unwrap(0, period), "unwrap", &["positive"]);
        }
        refused(&ints(&[1]).unwrap(0, 1.0), "unwrap", &["i64"]);
    });
    differentiable(&[dense(&[5], F64, &[0.1, 2.9, 0.3, -2.8, 5.0])], &|v| {
        v[0].unwrap(0, 4.0)
    });
}

#[test]
fn transforms_of_images() {
    both(|| {
        let x = dense(&[2, 3, 4, 2], F64, &eighths(48));
        let y = x.fft2();
        near(&y, &[2, 3, 4, 2], &values(&x.fft([1, 2])), 1e-14);
        near(&y.ifft2(), &[2, 3, 4, 2], &eighths(48), 1e-13);
        let real = x.at((.., .., .., 0));
        let half = real.rfft2();
        near(&half, &[2, 3, 3, 2], &values(&real.rfft([1, 2])), 1e-14);
        near(&half.irfft2(4), &[2, 3, 4], &values(&real), 1e-13);
        refused(&x.fft2().at((0, 0, 0)).fft2(), "fft2", &[]);
        refused(&half.irfft2(0), "irfft2", &[]);
        refused(&ints(&[1]).rfft2(), "rfft2", &[]);
    });
}

/// Values are NumPy's.
#[test]
fn slopes_along_a_dimension() {
    let y = [1.0, 4.0, 9.0, 2.0, 0.0, -3.0, 5.0, 8.0, 2.0, 2.0, 7.0, 1.0];
    let down = [
        -1.0, -7.0, -4.0, 6.0, 0.5, -1.0, -1.0, -0.5, 2.0, 5.0, 2.0, -7.0,
    ];
    let across = [
        6.0, 8.0, -2.0, -14.0, -6.0, 5.0, 11.0, 6.0, 0.0, 5.0, -1.0, -12.0,
    ];
    let uneven = [
        [3.0, 17.0 / 6.0, -10.7, -14.0],
        [-3.0, -2.0 / 3.0, 5.6, 6.0],
        [0.0, 5.0 / 6.0, -9.1, -12.0],
    ];
    each(&FLOATS, true, |dtype| {
        for y in forms(&[3, 4], dtype, &y) {
            equal(&y.gradient(1.0, 0), &[3, 4], &down);
            equal(&y.gradient(0.5, -1), &[3, 4], &across);
            assert_eq!(y.gradient(1, 0).dtype(), dtype);
            let bits = 4.0 * unit(dtype);
            let x = dense(&[4], dtype, &[0.0, 1.0, 3.0, 3.5]);
            near(&y.gradient(&x, 1), &[3, 4], uneven.as_flattened(), bits);
            // Places of their own for each row.
            let x = x.expand([3, 4]).contiguous();
            near(&y.gradient(&x, 1), &[3, 4], uneven.as_flattened(), bits);
        }
    });
    both(|| {
        let y = ints(&[3, 5]).gradient(1, 0);
        assert_eq!(y.dtype(), F32);
        equal(&y, &[2], &[2.0, 2.0]);
        equal(
            &Tensor::zeros([0, 2], F32, &cpu()).gradient(1.0, 1),
            &[0, 2],
            &[],
        );
        refused(&ints(&[3]).gradient(1, 0), "gradient", &["two elements"]);
        refused(&ints(&[3, 4]).gradient(1, 1), "gradient", &["1"]);
        refused(
            &Tensor::scalar(1.0, F32, &cpu()).gradient(1, 0),
            "gradient",
            &[],
        );
        let places = dense(&[3], F32, &[0.0, 1.0, 2.0]);
        refused(
            &ints(&[3, 4]).gradient(&places, 0),
            "gradient",
            &["3 places of 2"],
        );
    });
    let y = dense(&[3, 4], F64, &apart(12));
    let x = dense(&[4], F64, &[0.0, 1.0, 3.0, 3.5]);
    differentiable(&[y, x], &|v| {
        v[0].gradient(&v[1], 1) + v[0].gradient(2.0, 0)
    });
}

#[test]
fn dimensions_and_shapes_by_other_names() {
    both(|| {
        let x = dense(&[2, 3, 4], F32, &whole(24, 97));
        equal(&x.swapdims(0, -1), &[4, 3, 2], &values(&x.transpose(0, 2)));
        equal(
            &x.moveaxis(0, -1),
            &[3, 4, 2],
            &values(&x.permute([1, 2, 0])),
        );
        refused(&x.swapdims(0, 3), "swapdims", &["3"]);
        refused(&x.moveaxis([0, 1], 0), "moveaxis", &["2 dimensions for 1"]);
        let like = x.to_dtype(BF16).empty_like();
        assert_eq!((like.dims(), like.dtype()), (&[2, 3, 4][..], BF16));
    });
}
