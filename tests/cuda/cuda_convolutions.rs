//! Convolutions on a CUDA device, by cuDNN or without it (`FERROTRACE_CUDNN=0`): references are computed here in binary64.
//! Where there is no device, every test says so and passes.

#[path = "../common/mod.rs"]
mod common;

use common::device;
use ferrotrace::DType::{self, *};
use ferrotrace::prelude::*;
use ferrotrace::{explain, stats_scope};

/// Small multiples of an eighth: every product and sum of them here is exact in binary32.
fn value(i: usize) -> f32 {
    ((i * 7919 + i / 7 * 31 + 13) % 17) as f32 / 8.0 - 1.0
}

fn data(shape: &[usize], seed: usize) -> Vec<f32> {
    let n: usize = shape.iter().product();
    (0..n).map(|i| value(i + seed * 101)).collect()
}

/// The geometry of a convolution, with a number a spatial dimension.
#[derive(Clone, Debug)]
struct Case {
    x: Vec<usize>,
    w: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
    groups: usize,
    /// Sizes added to a transposed result, of a transposed convolution.
    transposed: Option<Vec<usize>>,
}

fn case(x: &[usize], w: &[usize]) -> Case {
    let spatial = x.len() - 2;
    Case {
        x: x.to_vec(),
        w: w.to_vec(),
        stride: vec![1; spatial],
        padding: vec![0; spatial],
        dilation: vec![1; spatial],
        groups: 1,
        transposed: None,
    }
}

impl Case {
    fn tensor(&self, x: &Tensor, w: &Tensor) -> Tensor {
        macro_rules! by_rank {
            ($($n:literal $plain:ident $turned:ident),*) => {
                match self.stride.len() {
                    $($n => {
                        let of = |list: &[usize]| <[usize; $n]>::try_from(list).expect("a number each");
                        let (s, p, d) = (of(&self.stride), of(&self.padding), of(&self.dilation));
                        match &self.transposed {
                            None => x.$plain(w, None, s, p, d, self.groups),
                            Some(extra) => x.$turned(w, None, s, p, of(extra), d, self.groups),
                        }
                    })*
                    other => panic!("{other} dimensions"),
                }
            };
        }
        by_rank!(1 conv1d conv_transpose1d, 2 conv2d conv_transpose2d, 3 conv3d conv_transpose3d)
    }

    /// Every tap of every position, one after another.
    fn reference(&self, x: &[f32], w: &[f32], out: &[usize]) -> Vec<f64> {
        let index = |mut at: usize, shape: &[usize]| {
            let mut index = vec![0; shape.len()];
            for d in (0..shape.len()).rev() {
                (index[d], at) = (at % shape[d], at / shape[d]);
            }
            index
        };
        let flat = |index: &[usize], shape: &[usize]| {
            index.iter().zip(shape).fold(0, |at, (i, n)| at * n + i)
        };
        let transposed = self.transposed.is_some();
        // Seen from the smaller side, whose positions step over the larger.
        let (small, large) = match transposed {
            false => (out, &self.x[..]),
            true => (&self.x[..], out),
        };
        let taken = self.w[1];
        let each = self.w[0] / self.groups;
        let taps = &self.w[2..];
        let mut sum = vec![0.0; out.iter().product()];
        for at in 0..small.iter().product() {
            let s = index(at, small);
            for (c, t) in
                (0..taken).flat_map(|c| (0..taps.iter().product::<usize>()).map(move |t| (c, t)))
            {
                let tap = index(t, taps);
                let mut l = vec![s[0], s[1] / each * taken + c];
                for d in 0..taps.len() {
                    let place = s[2 + d] * self.stride[d] + tap[d] * self.dilation[d];
                    match place.checked_sub(self.padding[d]) {
                        Some(place) if place < large[2 + d] => l.push(place),
                        _ => break,
                    }
                }
                if l.len() < large.len() {
                    continue;
                }
                let weight = [&[s[1], c], &tap[..]].concat();
                let (there, weight) = (flat(&l, large), w[flat(&weight, &self.w)] as f64);
                match transposed {
                    false => sum[at] += x[there] as f64 * weight,
                    true => sum[there] += x[at] as f64 * weight,
                }
            }
        }
        sum
    }

    fn check(&self, dtype: DType, d: &Device) {
        let (x, w) = (data(&self.x, 1), data(&self.w, 2));
        let plain = |data: &[f32], shape: &[usize]| Tensor::from_slice(data, shape, d);
        let first = plain(&x, &self.x).to_dtype(dtype);
        let weight = plain(&w, &self.w).to_dtype(dtype);
        first.eval().expect("memory");
        weight.eval().expect("memory");
        // The input with channels innermost, and with gaps between its elements.
        let rank = self.x.len();
        let last: Vec<isize> = [0].into_iter().chain(2..rank as isize).chain([1]).collect();
        let mut back: Vec<isize> = vec![0, rank as isize - 1];
        back.extend(1..rank as isize - 1);
        let turned = |t: &Tensor| {
            let copy = t.permute(last.clone()).contiguous();
            copy.eval().expect("memory");
            copy.permute(back.clone())
        };
        let gaps = |t: &Tensor| {
            let wide = Tensor::cat(&[t, &(t * 3.0)], -1);
            wide.eval().expect("memory");
            let n = t.dims()[rank - 1];
            wide.narrow(-1, 0, n)
        };
        let forms = [
            (first.clone(), weight.clone()),
            (turned(&first), turned(&weight)),
            (gaps(&first), gaps(&weight)),
            (turned(&first), weight.clone()),
        ];
        for (i, (x_form, w_form)) in forms.iter().enumerate() {
            let y = self.tensor(x_form, w_form);
            let shape = y.dims().to_vec();
            let got = y.to_dtype(F64).to_vec::<f64>();
            let got = got.unwrap_or_else(|e| panic!("{dtype} {i} {self:?}: {e}"));
            let want = self.reference(&x, &w, &shape);
            // Sums of eighths are exact in binary32; half types round them once.
            let epsilon = match dtype {
                BF16 => 1.0 / 256.0,
                F16 => 1.0 / 2048.0,
                _ => 0.0,
            };
            for (at, (a, b)) in got.iter().zip(&want).enumerate() {
                assert!(
                    (a - b).abs() <= epsilon * b.abs(),
                    "{dtype} form {i} element {at}: {a} for {b}; {self:?}"
                );
            }
        }
    }
}

const FLOATS: [DType; 4] = [F16, BF16, F32, F64];

#[test]
fn two_dimensions() {
    let Some(d) = device() else { return };
    for dtype in FLOATS {
        case(&[2, 16, 12, 10], &[24, 16, 3, 3]).check(dtype, &d);
        case(&[3, 5, 11, 7], &[7, 5, 3, 2]).check(dtype, &d);
        let mut c = case(&[2, 8, 13, 9], &[16, 8, 3, 5]);
        (c.stride, c.padding) = (vec![2, 1], vec![1, 2]);
        c.check(dtype, &d);
        c.dilation = vec![2, 1];
        c.check(dtype, &d);
        // Windows of one element: by steps, and as they are.
        let mut c = case(&[2, 8, 9, 9], &[8, 8, 1, 1]);
        c.check(dtype, &d);
        c.stride = vec![2, 3];
        c.check(dtype, &d);
    }
}

#[test]
fn groups() {
    let Some(d) = device() else { return };
    for dtype in FLOATS {
        let mut c = case(&[2, 32, 8, 9], &[16, 8, 3, 3]);
        (c.groups, c.padding) = (4, vec![1, 1]);
        c.check(dtype, &d);
        let mut c = case(&[2, 6, 8, 9], &[9, 2, 3, 3]);
        c.groups = 3;
        c.check(dtype, &d);
        let mut c = case(&[2, 6, 8, 9], &[12, 1, 3, 3]);
        c.groups = 6;
        c.check(dtype, &d);
    }
}

#[test]
fn one_and_three_dimensions() {
    let Some(d) = device() else { return };
    for dtype in FLOATS {
        let mut c = case(&[3, 8, 41], &[16, 8, 5]);
        (c.stride, c.padding) = (vec![2], vec![2]);
        c.check(dtype, &d);
        let mut c = case(&[2, 8, 5, 6, 7], &[8, 8, 3, 2, 3]);
        (c.stride, c.padding) = (vec![1, 2, 1], vec![1, 0, 1]);
        c.check(dtype, &d);
    }
}

#[test]
fn transposed() {
    let Some(d) = device() else { return };
    for dtype in FLOATS {
        let mut c = case(&[2, 16, 7, 6], &[16, 8, 3, 3]);
        (c.stride, c.padding, c.transposed) = (vec![2, 2], vec![1, 1], Some(vec![1, 0]));
        c.check(dtype, &d);
        let mut c = case(&[2, 6, 5, 7], &[6, 5, 3, 2]);
        (c.stride, c.groups, c.transposed) = (vec![3, 1], 2, Some(vec![2, 0]));
        c.check(dtype, &d);
        let mut c = case(&[2, 5, 9], &[5, 3, 4]);
        (c.stride, c.padding, c.transposed) = (vec![2], vec![1], Some(vec![0]));
        c.check(dtype, &d);
        let mut c = case(&[1, 4, 3, 4, 5], &[4, 6, 2, 3, 2]);
        c.transposed = Some(vec![0, 0, 0]);
        c.check(dtype, &d);
    }
}

/// The gradient of a weight is a convolution of the input by the result's gradient, batch and channels exchanged, whose
/// window has more taps than there are results.
#[test]
fn gradients_of_weights() {
    let Some(d) = device() else { return };
    for dtype in FLOATS {
        // Input [8, 6, 10, 9], weight [16, 6, 3, 3], padding 1.
        let mut c = case(&[6, 8, 10, 9], &[16, 8, 10, 9]);
        c.padding = vec![1, 1];
        c.check(dtype, &d);
        // By steps of two, which space the taps: one more is computed than the weight has.
        let mut c = case(&[8, 4, 12, 11], &[8, 4, 5, 5]);
        c.dilation = vec![2, 2];
        c.check(dtype, &d);
    }
}

/// What stands between convolutions, and around them; every run gives the same bits, also as a graph.
#[test]
fn blocks_of_layers_replayed() {
    let Some(d) = device() else { return };
    let tensor = |shape: &[usize], seed: usize, dtype| {
        let t = Tensor::from_slice(&data(shape, seed), shape, &d).to_dtype(dtype);
        t.eval().expect("memory");
        t
    };
    for dtype in [F16, F32] {
        let weights = [
            tensor(&[16, 16, 3, 3], 3, dtype),
            tensor(&[16, 16, 1, 1], 4, dtype),
        ];
        let bias = tensor(&[16], 5, dtype);
        let run = |x: &Tensor| {
            let y = x.conv2d(&weights[0], Some(&bias), 1, 1, 1, 1).relu();
            let z = y.conv2d(&weights[1], Some(&bias), 1, 0, 1, 1) * 0.125;
            let z = (z + &y).relu();
            (z.conv2d(&weights[0], None, 2, 1, 1, 1) * 0.0625 + 1.0).max_pool2d(2, 2, 0)
        };
        let x = tensor(&[4, 16, 10, 14], 6, dtype);
        let host = Device::cpu();
        let want = with_mode(Mode::Eager, || {
            let all = [&weights[0], &weights[1], &bias].map(|t| t.to_device(&host));
            let x = x.to_device(&host);
            let y = x.conv2d(&all[0], Some(&all[2]), 1, 1, 1, 1).relu();
            let z = y.conv2d(&all[1], Some(&all[2]), 1, 0, 1, 1) * 0.125;
            let z = (z + &y).relu();
            let z = (z.conv2d(&all[0], None, 2, 1, 1, 1) * 0.0625 + 1.0).max_pool2d(2, 2, 0);
            z.to_dtype(F64).to_vec::<f64>().expect("runs")
        });
        let scale = want.iter().fold(1.0, |most: f64, v| most.max(v.abs()));
        let mut first: Option<Vec<f64>> = None;
        for i in 0..6 {
            // Other memory every time.
            let copy = &x * 1.0;
            copy.eval().expect("memory");
            let got = run(&copy).to_dtype(F64).to_vec::<f64>().expect("runs");
            let tolerance = if dtype == F16 { 4e-3 } else { 1e-6 } * scale;
            for (a, b) in got.iter().zip(&want) {
                assert!((a - b).abs() <= tolerance, "{dtype} run {i}: {a} for {b}");
            }
            assert_eq!(first.get_or_insert(got.clone()), &got, "{dtype} run {i}");
        }
        let (_, stats) = stats_scope(|| run(&x).eval().expect("runs"));
        assert_eq!(stats.host_runs, 0, "{dtype}");
    }
}

/// A bias and relu between convolutions, by the library or a kernel of their own; what is no number stays so.
#[test]
fn biases_and_activations() {
    let Some(d) = device() else { return };
    let is_there = d.report().contains("cudnn: 9");
    for dtype in [F16, BF16] {
        for (bias, relu) in [(true, true), (true, false), (false, true)] {
            let c = case(&[2, 16, 9, 10], &[24, 16, 3, 3]);
            let (mut x, w, b) = (data(&c.x, 1), data(&c.w, 2), data(&[24], 3));
            let tensor = |data: &[f32], shape: &[usize]| {
                let t = Tensor::from_slice(data, shape, &d).to_dtype(dtype);
                t.eval().expect("memory");
                t
            };
            let plain = c.reference(&x, &w, &[2, 24, 7, 8]);
            // The last element of the first image and channel: of the window that ends there.
            x[89] = f32::NAN;
            let (input, weight, added) = (tensor(&x, &c.x), tensor(&w, &c.w), tensor(&b, &[24]));
            let one: Vec<f32> = (0..24 * 24).map(|i| (i % 25 == 0) as u8 as f32).collect();
            let one = tensor(&one, &[24, 24, 1, 1]);
            let run = || {
                let y = input.conv2d(&weight, bias.then_some(&added), 1, 0, 1, 1);
                let y = if relu { y.relu() } else { y };
                // What the first gives, between zeros.
                y.conv2d(&one, None, 1, 1, 1, 1)
            };
            if is_there {
                let text = explain(&[&run()]).to_string();
                assert!(text.contains("by the library with it"), "{dtype}\n{text}");
            }
            for _ in 0..5 {
                let got = run().narrow(2, 1, 7).narrow(3, 1, 8).to_dtype(F64);
                let got = got.to_vec::<f64>().expect("runs");
                let epsilon = if dtype == F16 {
                    1.0 / 2048.0
                } else {
                    1.0 / 256.0
                };
                for (at, (a, first)) in got.iter().zip(&plain).enumerate() {
                    if at < 24 * 56 && at % 56 == 55 {
                        assert!(a.is_nan(), "{dtype} {bias} {relu} element {at}: {a}");
                        continue;
                    }
                    let sum = first + if bias { b[at / 56 % 24] as f64 } else { 0.0 };
                    let want = if relu { sum.max(0.0) } else { sum };
                    // Rounded once by the library, twice otherwise.
                    let close = (a - want).abs() <= epsilon * (first.abs() + sum.abs());
                    assert!(close, "{dtype} {bias} {relu} element {at}: {a} for {want}");
                }
            }
        }
    }
}

/// Which convolutions the library computes, where it is there, is to be seen.
#[test]
fn the_library_is_named() {
    let Some(d) = device() else { return };
    let is_there = d.report().contains("cudnn: 9");
    eprintln!("{}", d.report());
    for (dtype, taps, by_library) in [
        (F16, 3, true),
        (F32, 3, true),
        (F16, 1, false),
        (I32, 3, false),
    ] {
        let x = Tensor::zeros([2, 16, 12, 12], dtype, &d);
        let w = Tensor::zeros([16, 16, taps, taps], dtype, &d);
        x.eval().expect("memory");
        w.eval().expect("memory");
        let y = x.conv2d(&w, None, 1, taps / 2, 1, 1);
        let text = explain(&[&y]).to_string();
        assert_eq!(
            text.contains("correlate"),
            is_there && by_library,
            "{dtype}\n{text}"
        );
        assert!(!text.contains("on the host"), "{dtype}\n{text}");
    }
}
