//! Gradients of attention on a CUDA device against binary64: types, lengths, widths, masks, strides, shared matrices; no
//! matrix of scores in memory, the same bits in every run.

use super::{HIDDEN, attention, device, numbers};
use ferrotrace::DType::{self, *};
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

/// Numbers from −2 to 2 without a pattern: gradients of equal rows are differences of equal numbers.
fn noise(shape: &[usize], dtype: DType, seed: usize, device: &Device) -> Tensor {
    let value = |i: usize| {
        let wave = (i as f64 * 12.9898 + seed as f64 * 78.233).sin() * 43758.5453;
        4.0 * wave.fract().abs() - 2.0
    };
    let data: Vec<f64> = (0..shape.iter().product()).map(value).collect();
    let host = Tensor::from_vec(data, shape, &Device::cpu());
    with_mode(Mode::Eager, || host.to_dtype(dtype)).to_device(device)
}

/// The gradients of q, k and v by the definition from that of the result, in binary64, all of one batch. `change` makes a
/// score of a product, times a scale for which it has that derivative.
fn reference(
    [q, k, v, g]: [&Tensor; 4],
    scale: f64,
    change: &dyn Fn(usize, usize, usize, f64) -> f64,
) -> [Vec<f64>; 3] {
    let (rank, dims) = (q.rank(), |x: &Tensor| x.dims().to_vec());
    let batch: usize = dims(q)[..rank - 2].iter().product();
    let (rows, width) = (dims(q)[rank - 2], dims(q)[rank - 1]);
    let (keys, values) = (dims(k)[rank - 2], dims(v)[rank - 1]);
    let [q, k, v, g] = [q, k, v, g].map(numbers);
    let [mut dq, mut dk, mut dv] = [&q, &k, &v].map(|x| vec![0.0; x.len()]);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let add = |to: &mut [f64], by: f64, of: &[f64]| {
        to.iter_mut().zip(of).for_each(|(x, y)| *x += by * y);
    };
    for b in 0..batch {
        for i in 0..rows {
            let of_q = (b * rows + i) * width..(b * rows + i + 1) * width;
            let of_g = &g[(b * rows + i) * values..][..values];
            let of_k = |j: usize| (b * keys + j) * width..(b * keys + j + 1) * width;
            let of_v = |j: usize| (b * keys + j) * values..(b * keys + j + 1) * values;
            let score = |j: usize| change(b, i, j, scale * dot(&q[of_q.clone()], &k[of_k(j)]));
            let scores: Vec<f64> = (0..keys).map(score).collect();
            let most = scores.iter().copied().fold(HIDDEN, f64::max);
            if most == HIDDEN {
                continue;
            }
            let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let weights: Vec<f64> = weights.iter().map(|w| w / sum).collect();
            let pulled: Vec<f64> = (0..keys).map(|j| dot(of_g, &v[of_v(j)])).collect();
            let mean = dot(&weights, &pulled);
            for j in 0..keys {
                let by = scale * weights[j] * (pulled[j] - mean);
                add(&mut dq[of_q.clone()], by, &k[of_k(j)]);
                add(&mut dk[of_k(j)], by, &q[of_q.clone()]);
                add(&mut dv[of_v(j)], weights[j], of_g);
            }
        }
    }
    [dq, dk, dv]
}

/// The gradients of q, k and v where that of `f` of them is `g`.
fn gradients([q, k, v, g]: [&Tensor; 4], f: &dyn Fn([&Tensor; 3]) -> Tensor) -> Vec<Tensor> {
    let leaves = [q, k, v].map(Tensor::requires_grad);
    let y = f([&leaves[0], &leaves[1], &leaves[2]]);
    grad(&(y.to_dtype(F32) * g.to_dtype(F32)).sum(..), &leaves)
}

/// ‖found − wanted‖ is at most so much of ‖wanted‖: weights, changes of scores, results and gradients are rounded once
/// each to the dtype; sums of binary32 are of three products of TF32.
#[track_caller]
fn close(what: &str, found: &[Tensor], wanted: &[Vec<f64>; 3]) {
    for ((x, want), name) in found.iter().zip(wanted).zip(["q", "k", "v"]) {
        let unit = match x.dtype() {
            F32 => 2e-6,
            F16 => 2f64.powi(-11),
            _ => 2f64.powi(-8),
        };
        let got = numbers(x);
        assert_eq!(got.len(), want.len(), "{what}: {name}");
        let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
        let error = norm(&mut got.iter().zip(want).map(|(g, w)| g - w));
        let size = norm(&mut want.iter().copied());
        assert!(
            error <= 2.0 * unit * size,
            "{what}, {name}: {error} of {size}"
        );
    }
}

/// The library's kernels compute them, on the device, twice with the same bits, in both modes.
#[track_caller]
fn check(
    what: &str,
    operands: [&Tensor; 4],
    wanted: &[Vec<f64>; 3],
    f: &dyn Fn([&Tensor; 3]) -> Tensor,
) {
    let mut first: Vec<Vec<f64>> = Vec::new();
    for turn in 0..3 {
        let mode = if turn == 2 {
            Mode::Eager
        } else {
            Mode::Compiled
        };
        let (found, stats) = stats_scope(|| {
            with_mode(mode, || {
                let found = gradients(operands, f);
                eval(&found).map(|()| found)
            })
        });
        let found = found.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(stats.host_runs, 0, "{what}: {stats:?}");
        close(what, &found, wanted);
        let bits: Vec<Vec<f64>> = found.iter().map(numbers).collect();
        match turn {
            0 => {
                assert_eq!(stats.library_calls, 1, "{what}: {stats:?}");
                first = bits;
            }
            1 => assert!(bits == first, "{what}: other bits"),
            _ => {}
        }
    }
}

fn operands(
    lead: &[usize],
    [rows, keys, width, values]: [usize; 4],
    dtype: DType,
    device: &Device,
) -> [Tensor; 4] {
    let of = |n: usize, m: usize, seed: usize| {
        let shape = [lead, &[n, m]].concat();
        noise(&shape, dtype, seed, device)
    };
    [
        of(rows, width, 1),
        of(keys, width, 2),
        of(keys, values, 3),
        of(rows, values, 4),
    ]
}

fn plain(causal: bool) -> impl Fn([&Tensor; 3]) -> Tensor {
    move |[q, k, v]| attention(q, k, v, None, causal)
}

fn later(i: usize, j: usize, s: f64) -> f64 {
    if j <= i { s } else { HIDDEN }
}

/// Lengths on both sides of blocks, more queries than keys and fewer, widths that fill panels and others.
#[test]
fn lengths_and_widths() {
    let Some(d) = device() else { return };
    for dtype in [BF16, F16, F32] {
        for sizes in [
            [2, 5, 4, 8],
            [3, 70, 8, 24],
            [64, 64, 16, 16],
            [65, 129, 64, 64],
            [130, 67, 50, 51],
            [200, 260, 128, 128],
            [300, 129, 64, 128],
            [129, 70, 99, 101],
        ] {
            let all = operands(&[2], sizes, dtype, &d);
            let all = [&all[0], &all[1], &all[2], &all[3]];
            let scale = 1.0 / (sizes[2] as f64).sqrt();
            let what = format!("{dtype} {sizes:?}");
            let wanted = reference(all, scale, &|_, _, _, s| s);
            check(&what, all, &wanted, &plain(false));
            let wanted = reference(all, scale, &|_, i, j, s| later(i, j, s));
            check(&format!("{what}, causal"), all, &wanted, &plain(true));
        }
    }
}

/// Truth and number masks, broadcast; a query that sees nothing has no gradient, nor gives one.
#[test]
fn masks() {
    let Some(d) = device() else { return };
    let sizes @ [rows, keys, width, _] = [90, 150, 32, 48];
    let scale = 1.0 / (width as f64).sqrt();
    for dtype in [BF16, F16, F32] {
        let all = operands(&[2, 3], sizes, dtype, &d);
        let all = [&all[0], &all[1], &all[2], &all[3]];
        let sees = |i: usize, j: usize| i != 7 && (i * 5 + j) % 3 != 1;
        let truth = (0..rows * keys).map(|at| sees(at / keys, at % keys));
        let truth = Tensor::from_vec(truth.collect::<Vec<bool>>(), [rows, keys], &d);
        let wanted = reference(all, scale, &|_, i, j, s| {
            if sees(i, j) { s } else { HIDDEN }
        });
        check(&format!("{dtype} truth"), all, &wanted, &|[q, k, v]| {
            attention(q, k, v, Some(&truth), false)
        });
        let added = noise(&[2, 1, 1, keys], dtype, 5, &d);
        let of = numbers(&added);
        let wanted = reference(all, scale, &|b, _, j, s| s + of[b / 3 * keys + j]);
        check(&format!("{dtype} added"), all, &wanted, &|[q, k, v]| {
            attention(q, k, v, Some(&added), false)
        });
    }
}

/// Heads beside rows, turned and flipped operands, other scales.
#[test]
fn strides_and_scales() {
    let Some(d) = device() else { return };
    for dtype in [BF16, F32] {
        let qkv = noise(&[2, 80, 3, 4, 64], dtype, 1, &d);
        let part = |i: isize| qkv.select(2, i).permute([0, 2, 1, 3]);
        let g = noise(&[2, 80, 4, 64], dtype, 2, &d).permute([0, 2, 1, 3]);
        let turned = noise(&[2, 4, 64, 80], dtype, 3, &d).transpose(2, 3);
        let flipped = part(2).flip(2);
        for (what, k, v) in [("heads", &part(1), &part(2)), ("turned", &turned, &flipped)] {
            let all = [&part(0), k, v, &g];
            for scale in [0.125, -0.2, 0.0] {
                let wanted = reference(all, scale, &|_, i, j, s| later(i, j, s));
                let what = format!("{dtype} {what} {scale}");
                check(&what, all, &wanted, &|[q, k, v]| {
                    Tensor::scaled_dot_product_attention(q, k, v, None, true, Some(scale))
                });
            }
        }
    }
}

/// Heads of queries that share those of keys, and keys that share queries: the sums of their gradients.
#[test]
fn shared_heads() {
    let Some(d) = device() else { return };
    for dtype in [BF16, F32] {
        let sizes @ [rows, keys, width, _] = [70, 90, 64, 64];
        let all = operands(&[2, 3, 4], sizes, dtype, &d);
        let one = |x: &Tensor, dim: isize| x.narrow(dim, 1, 1).contiguous();
        let wide = |x: &Tensor, rows: usize| x.expand([2, 3, 4, rows, width]);
        let scale = 0.125;
        let summed = |of: &[f64], n: usize, dim: usize| -> Vec<f64> {
            let (outer, shared, inner) = match dim {
                1 => (2, 3, 4 * n * width),
                _ => (6, 4, n * width),
            };
            let at = |i: usize| {
                let (o, e) = (i / inner, i % inner);
                (0..shared).map(|s| of[(o * shared + s) * inner + e]).sum()
            };
            (0..outer * inner).map(at).collect()
        };
        // Four heads of queries a head of keys, and three of keys a head of queries.
        let (q, k, v) = (one(&all[0], 1), one(&all[1], 2), one(&all[2], 2));
        let spread = [&wide(&q, rows), &wide(&k, keys), &wide(&v, keys), &all[3]];
        let [dq, dk, dv] = reference(spread, scale, &|_, i, j, s| later(i, j, s));
        let wanted = [
            summed(&dq, rows, 1),
            summed(&dk, keys, 2),
            summed(&dv, keys, 2),
        ];
        check(
            &format!("{dtype}"),
            [&q, &k, &v, &all[3]],
            &wanted,
            &plain(true),
        );
    }
}

/// A long sequence never has its scores in memory, in any dtype that the kernels have.
#[test]
fn no_scores_in_memory() {
    let Some(d) = device() else { return };
    for dtype in [BF16, F32] {
        let all = operands(&[1, 4], [4096, 4096, 64, 64], dtype, &d);
        eval(&all).unwrap();
        let run = || {
            eval(gradients(
                [&all[0], &all[1], &all[2], &all[3]],
                &plain(true),
            ))
        };
        let (done, stats) = stats_scope(run);
        done.unwrap();
        let scores = 4 * 4096 * 4096 * dtype.size();
        let most = stats.peak_bytes as usize;
        assert!(most < scores / 2, "{dtype}: {most} bytes");
    }
}

/// Widths that the kernels do not have: by the definition.
#[test]
fn wide_heads() {
    let Some(d) = device() else { return };
    for dtype in [BF16, F32] {
        let all = operands(&[2], [40, 50, 200, 136], dtype, &d);
        let all = [&all[0], &all[1], &all[2], &all[3]];
        let wanted = reference(all, 1.0 / 200f64.sqrt(), &|_, i, j, s| later(i, j, s));
        let found = gradients(all, &plain(true));
        eval(&found).unwrap();
        close(&format!("{dtype}"), &found, &wanted);
    }
}
