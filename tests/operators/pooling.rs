//! Pooling with every option, adaptive pooling and resampling, against references worked out in the test, in both modes.

use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::Interpolation;
use ferrotrace::prelude::*;

/// Windows of `n` spatial dimensions behind `lead` others, by their elements' places.
struct Reference {
    kernel: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
    ceil: bool,
}

impl Reference {
    fn pool(&self) -> Pool {
        Pool::new(&self.kernel[..])
            .stride(&self.stride[..])
            .padding(&self.padding[..])
            .dilation(&self.dilation[..])
            .ceil_mode(self.ceil)
    }

    /// As PyTorch counts: a last window may leave the padded input, but begins in the input or the padding before it.
    fn outputs(&self, input: &[usize]) -> Vec<usize> {
        let count = |d: usize| {
            let span = self.dilation[d] * (self.kernel[d] - 1) + 1;
            let room = (input[d] + 2 * self.padding[d]) as isize - span as isize;
            let stride = self.stride[d] as isize;
            let mut n = (room.div_euclid(stride) + 1) as usize;
            if self.ceil {
                n = ((room + stride - 1).div_euclid(stride) + 1) as usize;
                if (n - 1) * self.stride[d] >= input[d] + self.padding[d] {
                    n -= 1;
                }
            }
            n
        };
        (0..input.len()).map(count).collect()
    }

    /// For each result, the places of its window in the plane, and how many places of the padded plane it has.
    fn windows(&self, input: &[usize]) -> (Vec<usize>, Vec<(Vec<usize>, usize)>) {
        let outputs = self.outputs(input);
        let results: usize = outputs.iter().product();
        let taps: usize = self.kernel.iter().product();
        let window = |r: usize| {
            let at = index_of(r, &outputs);
            let (mut places, mut counted) = (Vec::new(), 0);
            for t in 0..taps {
                let tap = index_of(t, &self.kernel);
                let place: Vec<usize> = (0..input.len())
                    .map(|d| at[d] * self.stride[d] + tap[d] * self.dilation[d])
                    .collect();
                let padded = |d: usize| place[d] < input[d] + 2 * self.padding[d];
                counted += usize::from((0..input.len()).all(padded));
                let inside =
                    |d: usize| place[d] >= self.padding[d] && place[d] < input[d] + self.padding[d];
                if (0..input.len()).all(inside) {
                    let index: Vec<usize> = (0..input.len())
                        .map(|d| place[d] - self.padding[d])
                        .collect();
                    places.push(offset(&index, input));
                }
            }
            (places, counted)
        };
        let windows = (0..results).map(window).collect();
        (outputs, windows)
    }
}

fn with_n(n: usize, x: &Tensor, pool: &Pool) -> [Tensor; 3] {
    let ((most, at), mean) = match n {
        1 => (x.max_pool1d_with_indices(pool), x.avg_pool1d_with(pool)),
        2 => (x.max_pool2d_with_indices(pool), x.avg_pool2d_with(pool)),
        _ => (x.max_pool3d_with_indices(pool), x.avg_pool3d_with(pool)),
    };
    [most, at, mean]
}

fn plain_max(n: usize, x: &Tensor, pool: &Pool) -> Tensor {
    match n {
        1 => x.max_pool1d_with(pool),
        2 => x.max_pool2d_with(pool),
        _ => x.max_pool3d_with(pool),
    }
}

#[test]
fn windows_of_every_option() {
    let cases = [
        (vec![7], [vec![2], vec![2], vec![1], vec![1]], true),
        (vec![8], [vec![3], vec![2], vec![1], vec![2]], false),
        (vec![5], [vec![3], vec![3], vec![1], vec![1]], true),
        (vec![2], [vec![5], vec![4], vec![0], vec![1]], true),
        (vec![2], [vec![3], vec![4], vec![1], vec![2]], true),
        (
            vec![6, 7],
            [vec![3, 2], vec![2, 3], vec![1, 1], vec![1, 1]],
            true,
        ),
        (
            vec![6, 7],
            [vec![2, 3], vec![1, 2], vec![1, 2], vec![2, 2]],
            true,
        ),
        (
            vec![6, 7],
            [vec![2, 2], vec![2, 2], vec![0, 0], vec![1, 1]],
            false,
        ),
        (
            vec![4, 5, 3],
            [vec![2; 3], vec![2, 2, 1], vec![1, 0, 1], vec![1; 3]],
            true,
        ),
    ];
    for (input, [kernel, stride, padding, dilation], ceil) in cases {
        let n = input.len();
        let case = Reference {
            kernel,
            stride,
            padding,
            dilation,
            ceil,
        };
        let (outputs, windows) = case.windows(&input);
        let plane: usize = input.iter().product();
        let lead = if n == 2 { vec![3] } else { vec![2, 2] };
        let planes: usize = lead.iter().product();
        let dims: Vec<usize> = lead.iter().chain(&input).copied().collect();
        let out: Vec<usize> = lead.iter().chain(&outputs).copied().collect();
        let x: Vec<f64> = whole(plane * planes, 23);
        let (mut most, mut at, mut mean, mut inner) = (vec![], vec![], vec![], vec![]);
        for p in 0..planes {
            let x = &x[p * plane..];
            for (places, counted) in &windows {
                let best = places
                    .iter()
                    .copied()
                    .reduce(|a, b| if x[b] > x[a] { b } else { a });
                let best = best.unwrap();
                at.push(best as f64);
                most.push(x[best]);
                let sum: f64 = places.iter().map(|&i| x[i]).sum();
                mean.push(sum / *counted as f64);
                inner.push(sum / places.len() as f64);
            }
        }
        each(&NUMBERS, n == 1 && ceil, |dtype| {
            for x in forms(&dims, dtype, &x) {
                let pool = case.pool();
                let [m, i, _] = with_n(n, &x, &pool);
                assert_eq!((m.dtype(), i.dtype()), (dtype, I64));
                equal(&m, &out, &most);
                equal(&i, &out, &at);
                equal(&plain_max(n, &x, &pool), &out, &most);
                if case.dilation.iter().all(|&d| d == 1) && dtype.is_float() {
                    near(&with_n(n, &x, &pool)[2], &out, &mean, unit(dtype));
                    let pool = pool.count_include_pad(false);
                    near(&with_n(n, &x, &pool)[2], &out, &inner, unit(dtype));
                }
            }
        });
    }
}

#[test]
fn windows_of_what_is_no_number() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    both(|| {
        let x = dense(&[1, 6], F32, &[-inf, -inf, nan, 1.0, 2.0, inf]);
        let (most, at) = x.max_pool1d_with_indices(Pool::new(2).padding(1));
        equal(&most, &[1, 4], &[-inf, nan, 2.0, inf]);
        equal(&at, &[1, 4], &[0.0, 2.0, 4.0, 5.0]);
        let least = dense(&[1, 2], I8, &[-128.0, -128.0]);
        equal(
            &least.max_pool1d_with_indices(Pool::new(2).padding(1)).1,
            &[1, 2],
            &[0.0, 1.0],
        );
        let none = Tensor::zeros((0, 2, 4), F32, &cpu());
        assert_eq!(
            none.max_pool1d_with(Pool::new(3).ceil_mode(true)).dims(),
            [0, 2, 2]
        );
        assert_eq!(x.max_pool1d_with(3).dims(), [1, 2]);
        let square = Tensor::zeros((1, 4, 4), F32, &cpu());
        assert_eq!(square.avg_pool2d_with([2, 1]).dims(), [1, 2, 4]);
        for long in [Pool::new(7), Pool::new(9).stride(2).ceil_mode(true)] {
            fails(&x.max_pool1d_with(long), &["max_pool1d", "window of"]);
        }
        fails(
            &x.max_pool1d_with(Pool::new(2).padding(2).ceil_mode(true)),
            &["half"],
        );
        fails(&x.max_pool1d_with(Pool::new(0)), &["max_pool1d"]);
        fails(
            &x.max_pool1d_with(Pool::new(2).dilation(0)),
            &["max_pool1d", "dilation"],
        );
        fails(
            &x.max_pool2d_with(Pool::new(2).ceil_mode(true)),
            &["max_pool2d", "rank"],
        );
        fails(
            &square.max_pool2d_with(Pool::new([2, 2, 2])),
            &["max_pool2d", "[2, 2, 2]"],
        );
        fails(
            &x.avg_pool1d_with(Pool::new(2).dilation(2)),
            &["avg_pool1d", "dilation"],
        );
        let counts = ints(&[1, 2, 3]).reshape((1, 3));
        let pool = Pool::new(2).ceil_mode(true);
        fails(
            &counts.avg_pool1d_with(&pool),
            &["avg_pool1d", "to_dtype(DType::F32)"],
        );
        fails(
            &counts.gt(1).max_pool1d_with(&pool),
            &["max_pool1d", "bool"],
        );
        fails(
            &counts.gt(1).max_pool1d_with_indices(2).1,
            &["max_pool1d_with_indices", "bool"],
        );
        fails(
            &x.max_pool1d_with(Pool::new(usize::MAX).dilation(3)),
            &["max_pool1d"],
        );
    });
}

/// From and to which places window `i` of `m` goes.
fn run(i: usize, n: usize, m: usize) -> std::ops::Range<usize> {
    i * n / m..((i + 1) * n).div_ceil(m)
}

#[test]
fn windows_of_a_size_that_is_asked_for() {
    let cases = [
        (vec![7], vec![3]),
        (vec![6], vec![3]),
        (vec![3], vec![5]),
        (vec![5, 7], vec![2, 3]),
        (vec![4, 6], vec![1, 1]),
        (vec![4, 5, 3], vec![2, 2, 2]),
        (vec![4, 6, 2], vec![2, 3, 1]),
    ];
    for (input, output) in cases {
        let n = input.len();
        let plane: usize = input.iter().product();
        let x = whole(2 * plane, 29);
        let (mut most, mut at, mut mean) = (vec![], vec![], vec![]);
        for p in 0..2 {
            let x = &x[p * plane..];
            for r in 0..output.iter().product() {
                let index = index_of(r, &output);
                let inside = |place: &usize| {
                    let place = index_of(*place, &input);
                    (0..n).all(|d| run(index[d], input[d], output[d]).contains(&place[d]))
                };
                let places: Vec<usize> = (0..plane).filter(inside).collect();
                let best = places
                    .iter()
                    .copied()
                    .reduce(|a, b| if x[b] > x[a] { b } else { a });
                at.push(best.unwrap() as f64);
                most.push(x[best.unwrap()]);
                mean.push(places.iter().map(|&i| x[i]).sum::<f64>() / places.len() as f64);
            }
        }
        let dims: Vec<usize> = [1, 2].into_iter().chain(input.clone()).collect();
        let out: Vec<usize> = [1, 2].into_iter().chain(output.clone()).collect();
        each(&NUMBERS, n == 1 && input[0] == 7, |dtype| {
            for x in forms(&dims, dtype, &x) {
                let size = &output;
                let (extremes, plain) = match n {
                    1 => (
                        x.adaptive_max_pool1d_with_indices(size[0]),
                        x.adaptive_max_pool1d(size[0]),
                    ),
                    2 => (
                        x.adaptive_max_pool2d_with_indices([size[0], size[1]]),
                        x.adaptive_max_pool2d([size[0], size[1]]),
                    ),
                    _ => (
                        x.adaptive_max_pool3d_with_indices([size[0], size[1], size[2]]),
                        x.adaptive_max_pool3d([size[0], size[1], size[2]]),
                    ),
                };
                equal(&extremes.0, &out, &most);
                equal(&extremes.1, &out, &at);
                equal(&plain, &out, &most);
                if dtype.is_float() {
                    let means = match n {
                        1 => x.adaptive_avg_pool1d(size[0]),
                        2 => x.adaptive_avg_pool2d([size[0], size[1]]),
                        _ => x.adaptive_avg_pool3d([size[0], size[1], size[2]]),
                    };
                    assert_eq!(means.dtype(), dtype);
                    near(&means, &out, &mean, unit(dtype));
                }
            }
        });
    }
    both(|| {
        let x = Tensor::ones((2, 4), F32, &cpu());
        assert_eq!(x.adaptive_avg_pool1d(0).dims(), [2, 0]);
        let nan = x.assign((0, 1), f64::NAN);
        equal(
            &nan.adaptive_max_pool1d(2),
            &[2, 2],
            &[f64::NAN, 1.0, 1.0, 1.0],
        );
        let (most, at) = nan.adaptive_max_pool1d_with_indices(2);
        equal(&most, &[2, 2], &[f64::NAN, 1.0, 1.0, 1.0]);
        equal(&at, &[2, 2], &[1.0, 2.0, 0.0, 2.0]);
        fails(&x.adaptive_avg_pool3d(1), &["adaptive_avg_pool3d", "rank"]);
        fails(
            &ints(&[1, 2]).reshape((1, 2)).adaptive_avg_pool1d(1),
            &["adaptive_avg_pool1d", "F32"],
        );
        fails(
            &x.gt(0).adaptive_max_pool1d(1),
            &["adaptive_max_pool1d", "bool"],
        );
        let none = Tensor::zeros((2, 0), F32, &cpu());
        fails(
            &none.adaptive_max_pool1d(1),
            &["adaptive_max_pool1d", "[2, 0]"],
        );
    });
}

/// Weights of the elements that each result of a dimension mixes.
fn mixed(n: usize, m: usize, align: bool) -> Vec<Vec<(usize, f64)>> {
    let of = |i: usize| {
        let at = match align {
            true if m > 1 => i as f64 * (n - 1) as f64 / (m - 1) as f64,
            true => 0.0,
            false => ((i as f64 + 0.5) * n as f64 / m as f64 - 0.5).max(0.0),
        };
        let low = (at.floor() as usize).min(n - 1);
        let t = at - low as f64;
        vec![(low, 1.0 - t), ((low + 1).min(n - 1), t)]
    };
    (0..m).map(of).collect()
}

fn picked(n: usize, m: usize, exact: bool) -> Vec<Vec<(usize, f64)>> {
    let shift = if exact { 0.5 } else { 0.0 };
    let of = |i: usize| ((i as f64 + shift) * n as f64 / m as f64) as usize;
    (0..m).map(|i| vec![(of(i).min(n - 1), 1.0)]).collect()
}

#[test]
fn resampling_of_one_to_three_dimensions() {
    let sizes = [
        (vec![5], vec![8]),
        (vec![6], vec![4]),
        (vec![3, 4], vec![5, 3]),
        (vec![2, 3, 4], vec![3, 2, 6]),
        (vec![1, 3, 2], vec![2, 1, 2]),
    ];
    for (input, output) in sizes {
        let n = input.len();
        let plane: usize = input.iter().product();
        let x = eighths(2 * plane);
        let linear = [
            Interpolation::Linear,
            Interpolation::Bilinear,
            Interpolation::Trilinear,
        ][n - 1];
        let kinds = [
            (Interpolation::Nearest, false),
            (Interpolation::NearestExact, false),
            (linear, false),
            (linear, true),
        ];
        for (kind, align) in kinds {
            let taps: Vec<_> = (0..n)
                .map(|d| match kind {
                    Interpolation::Nearest => picked(input[d], output[d], false),
                    Interpolation::NearestExact => picked(input[d], output[d], true),
                    _ => mixed(input[d], output[d], align),
                })
                .collect();
            let mut expected = vec![];
            for p in 0..2 {
                for r in 0..output.iter().product() {
                    let index = index_of(r, &output);
                    let mut terms = vec![(0, 1.0)];
                    for d in 0..n {
                        let size = input[d];
                        let next = |&(at, w): &(usize, f64)| {
                            let row = taps[d][index[d]].clone();
                            row.into_iter().map(move |(i, v)| (at * size + i, w * v))
                        };
                        terms = terms.iter().flat_map(next).collect();
                    }
                    expected.push(terms.iter().map(|(at, w)| x[p * plane + at] * w).sum());
                }
            }
            let dims: Vec<usize> = [1, 2].into_iter().chain(input.clone()).collect();
            let out: Vec<usize> = [1, 2].into_iter().chain(output.clone()).collect();
            each(&FLOATS, n == 1, |dtype| {
                for x in forms(&dims, dtype, &x) {
                    let y = x.interpolate(&output[..], kind, align);
                    assert_eq!(y.dtype(), dtype);
                    near(&y, &out, &expected, unit(dtype));
                }
            });
        }
    }
    both(|| {
        let x = ints(&[1, 2, 3]).reshape((1, 1, 3));
        let twice = x.interpolate([6], Interpolation::NearestExact, false);
        equal(&twice, &[1, 1, 6], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
        equal(
            &x.gt(1).interpolate([2], Interpolation::Nearest, false),
            &[1, 1, 2],
            &[0.0, 1.0],
        );
        fails(
            &x.interpolate([2], Interpolation::Linear, false),
            &["interpolate", "to_dtype(DType::F32)"],
        );
        fails(
            &x.interpolate([2], Interpolation::Bilinear, false),
            &["interpolate", "Bilinear"],
        );
        fails(
            &x.interpolate([2, 2, 2], Interpolation::Bicubic, false),
            &["interpolate", "Bicubic"],
        );
        fails(
            &x.interpolate([0], Interpolation::Nearest, false),
            &["interpolate", "[0]"],
        );
        fails(
            &x.interpolate([2, 2, 2], Interpolation::Nearest, false),
            &["interpolate", "rank"],
        );
        fails(
            &x.narrow(2, 0, 0)
                .interpolate([2], Interpolation::Nearest, false),
            &["interpolate"],
        );
    });
}

#[test]
fn borders() {
    let row = |mode: PadMode, i: isize, n: isize| match mode {
        PadMode::Reflect if i < 0 => -i,
        PadMode::Reflect if i >= n => 2 * n - 2 - i,
        PadMode::Replicate => i.clamp(0, n - 1),
        PadMode::Circular => i.rem_euclid(n),
        PadMode::Reflect => i,
    };
    let x = whole(12, 2);
    for mode in [PadMode::Reflect, PadMode::Replicate, PadMode::Circular] {
        for [top, bottom, left, right] in [[1, 2, 3, 0], [2, 0, 1, 3], [0, 0, 2, 2], [2, 1, 0, 0]] {
            let (height, width) = (3 + top + bottom, 4 + left + right);
            let mut expected = vec![];
            for i in 0..height {
                for j in 0..width {
                    let (i, j) = (row(mode, i - top, 3), row(mode, j - left, 4));
                    expected.push(x[(i * 4 + j) as usize]);
                }
            }
            each(&ALL, mode == PadMode::Reflect && top == 1, |dtype| {
                for x in forms(&[3, 4], dtype, &x) {
                    let y = x.pad_with(&[(top, bottom), (left, right)], mode);
                    assert_eq!(y.dtype(), dtype);
                    equal(&y, &[height as usize, width as usize], &expected);
                }
            });
        }
    }
    both(|| {
        let x = ints(&[1, 2, 3, 4]);
        equal(
            &x.pad_with(&[(-1, 2)], PadMode::Reflect),
            &[5],
            &[2.0, 3.0, 4.0, 3.0, 2.0],
        );
        equal(
            &x.pad_with(&[(1, -2)], PadMode::Circular),
            &[3],
            &[2.0, 1.0, 2.0],
        );
        equal(
            &x.pad_with(&[], PadMode::Circular),
            &[4],
            &[1.0, 2.0, 3.0, 4.0],
        );
        equal(&x.pad_with(&[(-2, -2)], PadMode::Replicate), &[0], &[]);
        fails(
            &x.pad_with(&[(4, 0)], PadMode::Reflect),
            &["pad_with", "Reflect"],
        );
        fails(
            &x.pad_with(&[(0, 5)], PadMode::Circular),
            &["pad_with", "Circular"],
        );
        fails(
            &ints(&[]).pad_with(&[(1, 0)], PadMode::Replicate),
            &["pad_with"],
        );
        fails(
            &x.pad_with(&[(-3, -2)], PadMode::Replicate),
            &["pad_with", "crops"],
        );
        fails(
            &x.pad_with(&[(0, 1), (0, 1)], PadMode::Replicate),
            &["pad_with", "rank 1"],
        );
        let number = Tensor::scalar(1, I64, &cpu());
        equal(&number.pad_with(&[], PadMode::Reflect), &[], &[1.0]);
    });
}
