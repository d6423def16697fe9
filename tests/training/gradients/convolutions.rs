use super::differences::{check, read, second, smooth, tensor};
use ferrotrace::prelude::*;

/// Stride, padding, dilation, groups, and the sizes of the input and of the weight.
type Case = (
    [usize; 2],
    [usize; 2],
    [usize; 2],
    usize,
    [usize; 4],
    [usize; 4],
);

const PLANES: [Case; 10] = [
    ([1, 1], [0, 0], [1, 1], 1, [2, 3, 5, 4], [2, 3, 3, 2]),
    // Rows and columns that no window reaches.
    ([2, 3], [1, 0], [1, 1], 1, [1, 2, 6, 8], [3, 2, 2, 3]),
    ([1, 2], [2, 1], [2, 1], 1, [2, 1, 5, 6], [2, 1, 3, 3]),
    ([2, 1], [1, 1], [1, 2], 2, [2, 4, 5, 5], [4, 2, 3, 2]),
    // One channel a group.
    ([1, 1], [1, 1], [1, 1], 3, [2, 3, 4, 4], [3, 1, 3, 3]),
    ([2, 2], [0, 1], [1, 1], 2, [1, 2, 5, 4], [6, 1, 2, 2]),
    // Products.
    ([1, 1], [0, 0], [1, 1], 1, [2, 3, 3, 4], [5, 3, 1, 1]),
    // Results with many more positions than the weight has taps.
    ([1, 1], [1, 1], [1, 1], 2, [3, 4, 9, 9], [6, 2, 3, 3]),
    ([2, 1], [1, 1], [1, 2], 1, [2, 2, 17, 10], [2, 2, 3, 3]),
    // Windows that step over elements.
    ([3, 3], [0, 0], [1, 1], 1, [1, 2, 7, 7], [2, 2, 1, 2]),
];

#[test]
fn of_planes() {
    for (i, (stride, padding, dilation, groups, x, w)) in PLANES.into_iter().enumerate() {
        let operands = [tensor(&x, 1), tensor(&w, 2), tensor(&w[..1], 3)];
        let with_bias =
            |t: &[Tensor]| t[0].conv2d(&t[1], Some(&t[2]), stride, padding, dilation, groups);
        let plain = |t: &[Tensor]| t[0].conv2d(&t[1], None, stride, padding, dilation, groups);
        match i % 2 {
            0 => check(&operands, with_bias),
            _ => check(&operands[..2], plain),
        }
    }
}

#[test]
fn transposed_over_planes() {
    for (i, (stride, padding, dilation, groups, y, w)) in PLANES.into_iter().enumerate() {
        let mut x = y;
        x[1] = w[0];
        let extra = [0, 1].map(|d| (stride[d].max(dilation[d]) - 1).min(1));
        let operands = [tensor(&x, 4), tensor(&w, 5), tensor(&[w[1] * groups], 6)];
        let with_bias = |t: &[Tensor]| {
            t[0].conv_transpose2d(&t[1], Some(&t[2]), stride, padding, extra, dilation, groups)
        };
        match i % 2 {
            0 => check(&operands, with_bias),
            _ => smooth(&operands, &with_bias),
        }
    }
}

#[test]
fn of_lines_and_volumes() {
    let line = [
        tensor(&[2, 4, 9], 1),
        tensor(&[6, 2, 3], 2),
        tensor(&[6], 3),
    ];
    check(&line, |t| t[0].conv1d(&t[1], Some(&t[2]), 2, 1, 2, 2));
    // Without a batch.
    let alone = [tensor(&[2, 7], 1), tensor(&[3, 2, 2], 2)];
    check(&alone, |t| t[0].conv1d(&t[1], None, 1, 1, 1, 1));
    let back = [tensor(&[2, 5], 1), tensor(&[2, 3, 2], 2)];
    smooth(&back, &|t| {
        t[0].conv_transpose1d(&t[1], None, 2, 0, 1, 1, 1)
    });
    let volume = [tensor(&[1, 2, 3, 4, 3], 1), tensor(&[2, 1, 2, 2, 3], 2)];
    smooth(&volume, &|t| t[0].conv3d(&t[1], None, [1, 2, 1], 1, 1, 2));
    smooth(&volume, &|t| {
        t[0].conv_transpose3d(&t[1], None, [1, 2, 1], 1, 0, 1, 2)
    });
}

// More images than a tile of columns holds, and sums of many terms.
#[test]
fn of_many_images() {
    let (x, w) = (tensor(&[40, 3, 12, 12], 1), tensor(&[4, 3, 3, 3], 2));
    let gradients = |dtype: DType| {
        let leaves = [
            x.to_dtype(dtype).requires_grad(),
            w.to_dtype(dtype).requires_grad(),
        ];
        let y = leaves[0].conv2d(&leaves[1], None, 1, 1, 1, 1);
        let loss = (&y * &tensor(&[40, 4, 12, 12], 3).to_dtype(dtype)).sum(..);
        let found = grad(&loss, &[&leaves[0], &leaves[1]]);
        (read(&found[0]), read(&found[1]))
    };
    // The sums by their definition.
    let (images, weights) = (read(&x), read(&tensor(&[40, 4, 12, 12], 3)));
    let at = |n: usize, c: usize, i: isize, j: isize| {
        let inside = (0..12).contains(&i) && (0..12).contains(&j);
        let (i, j) = (i as usize, j as usize);
        if inside {
            images[((n * 3 + c) * 12 + i) * 12 + j]
        } else {
            0.0
        }
    };
    let mut want = Vec::new();
    for (o, c, t) in (0..4).flat_map(|o| (0..3).flat_map(move |c| (0..9).map(move |t| (o, c, t)))) {
        let mut sum = 0.0;
        for p in 0..40 * 144 {
            let (n, i, j) = (p / 144, (p / 12 % 12) as isize, (p % 12) as isize);
            let g = weights[(n * 4 + o) * 144 + p % 144];
            sum += g * at(n, c, i + t / 3 - 1, j + t % 3 - 1);
        }
        want.push(sum);
    }
    for mode in [Mode::Eager, Mode::Compiled] {
        let exact = with_mode(mode, || gradients(DType::F64));
        let single = with_mode(mode, || gradients(DType::F32));
        for (i, want) in want.iter().enumerate() {
            assert!((exact.1[i] - want).abs() < 1e-9, "{mode:?} {i}");
            assert!((single.1[i] - want).abs() < 2e-4, "{mode:?} {i}");
        }
        let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-5;
        assert!(exact.0.iter().zip(&single.0).all(close));
    }
}

#[test]
fn of_gradients() {
    let x = [tensor(&[1, 2, 5, 4], 1), tensor(&[2, 2, 2, 3], 2)];
    second(&x, |t| t[0].conv2d(&t[1], None, [2, 1], 1, 1, 1));
    let x = [tensor(&[2, 2, 4], 1), tensor(&[2, 1, 2], 2)];
    second(&x, |t| t[0].conv_transpose1d(&t[1], None, 2, 1, 1, 1, 2));
}

#[test]
fn as_pytorch() {
    let both = [Mode::Eager, Mode::Compiled];
    for mode in both {
        with_mode(mode, || {
            let cpu = Device::cpu();
            let x = Tensor::from_slice(&[0.5, -1.0, 2.0], [1, 1, 3], &cpu).requires_grad();
            let w = Tensor::from_slice(&[1.0, 2.0, 3.0, -1.0], [1, 2, 2], &cpu).requires_grad();
            let y = x.conv_transpose1d(&w, None, 2, 1, 1, 2, 1);
            let weights = Tensor::arange(1, 13, 1, DType::F64, &cpu).reshape([1, 2, 6]);
            let found = grad(&(&y * &weights).sum(..), &[&x, &w]);
            assert_eq!(read(&found[0]), [-4.0, 24.0, 34.0]);
            assert_eq!(read(&found[1]), [6.0, 9.0, 12.0, 18.0]);
        });
    }
}

#[test]
fn without_elements() {
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let x = tensor(&[0, 2, 4], 1).requires_grad();
            let w = tensor(&[3, 2, 2], 2).requires_grad();
            let loss = x.conv1d(&w, None, 1, 0, 1, 1).sum(..);
            let found = grad(&loss, &[&x, &w]);
            assert_eq!(found[0].shape().dims(), [0, 2, 4]);
            assert_eq!(read(&found[1]), [0.0; 12]);
        });
    }
}
