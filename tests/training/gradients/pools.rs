use super::differences::{check, read, second, smooth, tensor};
use ferrotrace::prelude::*;

/// Kernel, stride, padding, and the sizes of a plane.
type Window = ([usize; 2], [usize; 2], [usize; 2], [usize; 2]);

const WINDOWS: [Window; 7] = [
    ([2, 2], [2, 2], [0, 0], [4, 6]),
    // Elements behind the last window.
    ([2, 3], [2, 3], [0, 0], [5, 7]),
    ([3, 3], [2, 2], [1, 1], [5, 6]),
    ([3, 2], [1, 1], [1, 0], [4, 4]),
    // Elements between windows.
    ([2, 1], [3, 2], [1, 0], [7, 5]),
    ([5, 5], [1, 1], [2, 2], [6, 5]),
    ([4, 5], [4, 5], [0, 0], [4, 5]),
];

#[test]
fn of_planes() {
    for (kernel, stride, padding, [rows, columns]) in WINDOWS {
        let x = [tensor(&[2, 3, rows, columns], 1)];
        check(&x, |t| t[0].max_pool2d(kernel, stride, padding));
        check(&x, |t| t[0].avg_pool2d(kernel, stride, padding));
    }
}

#[test]
fn of_lines_and_volumes() {
    let line = [tensor(&[3, 9], 1)];
    check(&line, |t| t[0].max_pool1d(3, 2, 1));
    check(&line, |t| t[0].avg_pool1d(4, 3, 2));
    let volume = [tensor(&[1, 2, 4, 3, 5], 1)];
    smooth(&volume, &|t| {
        t[0].max_pool3d([2, 3, 2], [1, 3, 2], [1, 0, 0])
    });
    smooth(&volume, &|t| {
        t[0].avg_pool3d([2, 3, 2], [1, 3, 2], [1, 0, 0])
    });
}

#[test]
fn with_options() {
    let x = [tensor(&[2, 7, 6], 1)];
    smooth(&x, &|t| {
        t[0].max_pool2d_with(Pool::new(3).stride(2).ceil_mode(true))
    });
    smooth(&x, &|t| {
        t[0].max_pool2d_with(Pool::new(2).stride(2).dilation(2))
    });
    smooth(&x, &|t| {
        t[0].avg_pool2d_with(Pool::new(3).stride(2).padding(1).count_include_pad(false))
    });
    smooth(&x, &|t| {
        t[0].avg_pool2d_with(Pool::new(3).stride(2).ceil_mode(true))
    });
}

#[test]
fn adaptive() {
    smooth(&[tensor(&[2, 1, 7], 1)], &|t| t[0].adaptive_avg_pool1d(3));
    smooth(&[tensor(&[1, 3, 4, 5], 1)], &|t| {
        t[0].adaptive_avg_pool3d([2, 3, 2])
    });
    smooth(&[tensor(&[2, 5, 7], 1)], &|t| {
        t[0].adaptive_max_pool2d([3, 4])
    });
    for size in [[1, 1], [2, 3], [3, 4], [4, 6], [7, 9], [8, 4]] {
        check(&[tensor(&[2, 4, 6], 1)], |t| t[0].adaptive_avg_pool2d(size));
    }
}

#[test]
fn resampled() {
    use ferrotrace::Interpolation::*;
    for size in [[5, 7], [2, 3], [3, 4], [1, 9]] {
        for kind in [Nearest, Bilinear, Bicubic] {
            for align in [false, true] {
                smooth(&[tensor(&[2, 3, 4], 1)], &|t| {
                    t[0].interpolate(size, kind, align)
                });
            }
        }
        let image = [tensor(&[2, 2, 3, 4], 1)];
        check(&image, |t| t[0].interpolate(size, Bilinear, false));
        smooth(&image, &|t| t[0].interpolate(size, NearestExact, false));
    }
    let (line, volume) = ([tensor(&[2, 5], 1)], [tensor(&[1, 2, 3, 2, 4], 1)]);
    smooth(&line, &|t| t[0].interpolate([8], Linear, true));
    smooth(&volume, &|t| t[0].interpolate([2, 4, 5], Trilinear, false));
    second(&[tensor(&[2, 3, 3], 1)], |t| {
        t[0].interpolate([4, 5], Bicubic, false).square()
    });
}

/// The gradient by a plane of 4 by 4 whose results are weighted 1, 2, 3, ..
fn weighted(plane: [f64; 16], f: &dyn Fn(&Tensor) -> Tensor) -> Vec<f64> {
    let cpu = Device::cpu();
    let x = Tensor::from_slice(&plane, [1, 1, 4, 4], &cpu).requires_grad();
    let y = f(&x);
    let count = y.numel() as i64;
    let weights = Tensor::arange(1, count + 1, 1, DType::F64, &cpu).reshape(y.shape().clone());
    read(&grad(&(&y * &weights).sum(..), &[&x])[0])
}

#[rustfmt::skip]
const TIES: [f64; 16] = [
    1.0, 1.0, 0.0, 2.0,
    1.0, 0.0, 2.0, 2.0,
    0.0, 0.0, 0.0, 0.0,
    5.0, 0.0, 0.0, 1.0,
];

// Values of PyTorch 2: the first of equal elements has the gradient.
#[test]
fn ties_as_pytorch() {
    type Case = (fn(&Tensor) -> Tensor, &'static [(usize, f64)]);
    let cases: [Case; 7] = [
        (
            |x| x.max_pool2d_with(Pool::new(3).stride(3).padding(1).ceil_mode(true)),
            &[(0, 1.0), (3, 2.0), (12, 3.0), (15, 4.0)],
        ),
        (
            |x| x.max_pool2d_with(Pool::new(2).stride(2).dilation(2)),
            &[(0, 1.0)],
        ),
        (
            |x| x.adaptive_max_pool2d([3, 2]),
            &[(0, 1.0), (3, 2.0), (4, 3.0), (6, 4.0), (12, 5.0), (15, 6.0)],
        ),
        (
            |x| x.max_pool2d(2, 2, 0),
            &[(0, 1.0), (3, 2.0), (12, 3.0), (15, 4.0)],
        ),
        (
            |x| x.max_pool2d(2, 1, 0),
            &[
                (0, 1.0),
                (3, 3.0),
                (4, 4.0),
                (6, 13.0),
                (9, 8.0),
                (12, 7.0),
                (15, 9.0),
            ],
        ),
        (
            |x| x.max_pool2d(3, 2, 1),
            &[(0, 1.0), (3, 2.0), (6, 4.0), (12, 3.0)],
        ),
        (
            |x| x.max_pool2d(3, 1, 1),
            &[(0, 6.0), (3, 22.0), (6, 31.0), (12, 46.0), (15, 31.0)],
        ),
    ];
    for mode in [Mode::Eager, Mode::Compiled] {
        for (i, (f, wanted)) in cases.iter().enumerate() {
            let mut want = [0.0; 16];
            wanted.iter().for_each(|&(at, g)| want[at] = g);
            let got = with_mode(mode, || weighted(TIES, f));
            assert_eq!(got, want, "{mode:?} {i}");
            // A NaN is the greatest.
            let mut plane = TIES;
            plane[12] = f64::NAN;
            let got = with_mode(mode, || weighted(plane, f));
            assert_eq!(got, want, "{mode:?} {i}");
        }
    }
}

#[test]
fn of_gradients() {
    let x = [tensor(&[1, 2, 5, 5], 1)];
    second(&x, |t| t[0].avg_pool2d(3, 2, 1).square());
    second(&x, |t| t[0].max_pool2d(3, 2, 1).square());
    second(&x, |t| t[0].adaptive_avg_pool2d([2, 3]).square());
}

#[test]
fn without_elements() {
    let x = tensor(&[0, 2, 4, 4], 1).requires_grad();
    for y in [
        x.max_pool2d(2, 2, 0),
        x.avg_pool2d(2, 2, 0),
        x.adaptive_avg_pool2d([3, 3]),
    ] {
        assert_eq!(grad(&y.sum(..), &[&x])[0].shape().dims(), [0, 2, 4, 4]);
    }
}
