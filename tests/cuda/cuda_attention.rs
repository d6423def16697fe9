//! Attention on a CUDA device against its definition in binary64: types, masks, changes of scores, strides, widths, and
//! that one kernel does it on the device. Where there is no device, every test says so and passes.

#[path = "../common/mod.rs"]
mod common;

#[path = "attention_gradients.rs"]
mod gradients;

use common::{device, numbers};
use ferrotrace::DType::{self, *};
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

const HIDDEN: f64 = f64::NEG_INFINITY;

/// Numbers about 0 that are the same on every device.
fn noise(shape: &[usize], dtype: DType, seed: usize, device: &Device) -> Tensor {
    let n: usize = shape.iter().product();
    let value = |i: usize| (((i + seed * 977) * 7919 + 13) % 4001) as f32 / 1000.0 - 2.0;
    let data: Vec<f32> = (0..n).map(value).collect();
    let host = Tensor::from_vec(data, shape, &Device::cpu());
    with_mode(Mode::Eager, || host.to_dtype(dtype)).to_device(device)
}

/// Σ over keys of softmax(change(batch, query, key, q·k))·v by the definition, all operands expanded to one batch.
fn reference(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    change: &dyn Fn(usize, usize, usize, f64) -> f64,
) -> Vec<f64> {
    let dims = |x: &Tensor| x.dims().to_vec();
    let (rank, batch): (usize, usize) = (q.rank(), dims(q)[..q.rank() - 2].iter().product());
    let (rows, width) = (dims(q)[rank - 2], dims(q)[rank - 1]);
    let (keys, values) = (dims(k)[rank - 2], dims(v)[rank - 1]);
    let (q, k, v) = (numbers(q), numbers(k), numbers(v));
    let mut out = Vec::new();
    for b in 0..batch {
        for i in 0..rows {
            let score = |j: usize| {
                let x = &q[(b * rows + i) * width..][..width];
                let y = &k[(b * keys + j) * width..][..width];
                change(b, i, j, x.iter().zip(y).map(|(x, y)| x * y).sum())
            };
            let scores: Vec<f64> = (0..keys).map(score).collect();
            let most = scores.iter().copied().fold(HIDDEN, f64::max);
            let about = if most == HIDDEN { 0.0 } else { most };
            let weights: Vec<f64> = scores.iter().map(|s| (s - about).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for d in 0..values {
                let total: f64 = (0..keys)
                    .map(|j| weights[j] * v[(b * keys + j) * values + d])
                    .sum();
                out.push(if sum == 0.0 { 0.0 } else { total / sum });
            }
        }
    }
    out
}

/// ‖got − want‖ / ‖want‖ and every element, with at most `launches` kernels and nothing on the host.
#[track_caller]
fn check(what: &str, launches: u64, want: &[f64], f: impl Fn() -> Tensor) {
    let (y, stats) = stats_scope(|| {
        let y = f();
        y.eval().map(|()| y)
    });
    let y = y.unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(
        (stats.host_runs, stats.library_calls),
        (0, 0),
        "{what}: {stats:?}"
    );
    assert_eq!(stats.kernels_launched, launches, "{what}");
    close(what, &y, want);
}

#[track_caller]
fn close(what: &str, y: &Tensor, want: &[f64]) {
    let tolerance = match y.dtype() {
        F32 => 2e-6,
        F16 => 1e-3,
        _ => 8e-3,
    };
    let got = numbers(y);
    assert_eq!(got.len(), want.len(), "{what}");
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let finite = || got.iter().zip(want).filter(|(_, w)| w.is_finite());
    for (at, (g, w)) in got.iter().zip(want).enumerate() {
        assert_eq!(g.is_nan(), w.is_nan(), "{what}: element {at}: {g} for {w}");
    }
    let error = norm(&mut finite().map(|(g, w)| g - w));
    let size = norm(&mut finite().map(|(_, w)| *w));
    assert!(error <= tolerance * size, "{what}: {error} of {size}");
    let worst = finite().map(|(g, w)| (g - w).abs()).fold(0.0, f64::max);
    assert!(worst <= 20.0 * tolerance, "{what}: {worst}");
}

fn attention(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>, causal: bool) -> Tensor {
    Tensor::scaled_dot_product_attention(q, k, v, mask, causal, None)
}

/// Widths from 1 to the widest, lengths on both sides of blocks; aligned and not.
#[test]
fn every_width_and_length() {
    let Some(d) = device() else { return };
    for dtype in [BF16, F16, F32] {
        for (rows, keys, width, values) in [
            (1, 2, 1, 1),
            (3, 70, 8, 24),
            (64, 64, 16, 16),
            (65, 129, 64, 64),
            (130, 67, 50, 51),
            (200, 260, 128, 128),
            (129, 70, 99, 101),
            (70, 130, 200, 256),
        ] {
            let q = noise(&[2, rows, width], dtype, 1, &d);
            let k = noise(&[2, keys, width], dtype, 2, &d);
            let v = noise(&[2, keys, values], dtype, 3, &d);
            let scale = 1.0 / (width as f64).sqrt();
            let what = format!("{dtype} {rows} {keys} {width} {values}");
            let want = reference(&q, &k, &v, &|_, _, _, s| s * scale);
            check(&what, 1, &want, || attention(&q, &k, &v, None, false));
            let seen = |i: usize, j: usize, s: f64| if j <= i { s * scale } else { HIDDEN };
            let want = reference(&q, &k, &v, &|_, i, j, s| seen(i, j, s));
            check(&what, 1, &want, || attention(&q, &k, &v, None, true));
        }
    }
}

/// The first head of the first sequence, and the last of the last.
fn ends(x: &Tensor) -> Tensor {
    let [n, h] = [x.dims()[0] as isize, x.dims()[1] as isize];
    let one = |i: isize, j: isize| x.narrow(0, i, 1).narrow(1, j, 1);
    Tensor::cat(&[&one(0, 0), &one(n - 1, h - 1)], 0)
}

/// The reference of those heads.
fn at_ends([q, k, v]: [&Tensor; 3], change: &dyn Fn(usize, usize, f64) -> f64) -> Vec<f64> {
    reference(&ends(q), &ends(k), &ends(v), &|_, i, j, s| change(i, j, s))
}

/// One kernel computes attention of whose heads the first and the last are `want`, five times the same.
#[track_caller]
fn five(what: &str, want: &[f64], f: &dyn Fn() -> Tensor) {
    let mut first = Vec::new();
    for turn in 0..5 {
        let (y, stats) = stats_scope(|| {
            let y = f();
            y.eval().map(|()| y)
        });
        let y = y.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(stats.kernels_launched, 1, "{what}: {stats:?}");
        let got = numbers(&y);
        match turn {
            0 => close(what, &ends(&y), want),
            _ => assert!(got == first, "{what}: another result"),
        }
        first = got;
    }
}

/// Enough aligned queries for groups of warps that take turns on Hopper: lengths on both sides of tiles and blocks, masks,
/// scales and changes of scores, heads beside rows or sharing keys, matrices that begin at any element.
fn many_queries(dtype: DType, [rows, keys, width, values]: [usize; 4]) {
    let Some(d) = device() else { return };
    let heads = 17;
    let q = noise(&[5, heads, rows, width], dtype, 1, &d);
    let k = noise(&[5, heads, keys, width], dtype, 2, &d);
    let v = noise(&[5, heads, keys, values], dtype, 3, &d);
    let named = |what: &str| format!("{what} {dtype} {rows} {keys} {width} {values}");
    let scale = 1.0 / (width as f64).sqrt();
    let want = at_ends([&q, &k, &v], &|_, _, s| s * scale);
    five(&named("plain"), &want, &|| {
        attention(&q, &k, &v, None, false)
    });
    let seen = |i: usize, j: usize, s: f64| if j <= i { s * scale } else { HIDDEN };
    let causal = at_ends([&q, &k, &v], &seen);
    five(&named("causal"), &causal, &|| {
        attention(&q, &k, &v, None, true)
    });
    let product = || q.matmul(&k.transpose(2, 3));
    // Scores that grow along the keys, within a block too.
    let slope = |j: usize| j as f32 * if j % 64 < 32 { 0.5 } else { 0.125 };
    let slopes = Tensor::from_vec((0..keys).map(slope).collect::<Vec<f32>>(), [keys], &d);
    slopes.eval().unwrap();
    let want = at_ends([&q, &k, &v], &|_, j, s| s * 0.0625 + f64::from(slope(j)));
    five(&named("steep"), &want, &|| {
        let scores = product().to_dtype(F32) * 0.0625 + &slopes;
        scores.softmax(-1).to_dtype(dtype).matmul(&v)
    });
    for scale in [-0.125, 0.0, 2.0] {
        let want = at_ends([&q, &k, &v], &|_, _, s| s * scale);
        five(&named(&format!("times {scale}")), &want, &|| {
            (product() * scale).softmax(-1).matmul(&v)
        });
    }
    let sees = |i: usize, j: usize| i != 7 && (i * 5 + j) % 3 != 1;
    let truth = (0..rows * keys).map(|at| sees(at / keys, at % keys));
    let truth = Tensor::from_vec(truth.collect::<Vec<bool>>(), [rows, keys], &d);
    let masked = |i: usize, j: usize, s: f64| if sees(i, j) { s * scale } else { HIDDEN };
    let want = at_ends([&q, &k, &v], &masked);
    five(&named("masked"), &want, &|| {
        attention(&q, &k, &v, Some(&truth), false)
    });
    // Heads beside rows.
    let [a, b, c] = [&q, &k, &v].map(|x| {
        let beside = x.permute([0, 2, 1, 3]).contiguous();
        beside.eval().unwrap();
        beside.permute([0, 2, 1, 3])
    });
    five(&named("beside"), &causal, &|| {
        attention(&a, &b, &c, None, true)
    });
    // Matrices from the second element of their memory on.
    let [a, b, c] = [&q, &k, &v].map(|x| {
        let all = Tensor::cat(&[&Tensor::zeros([1], dtype, &d), &x.flatten(0, -1)], 0);
        all.eval().unwrap();
        all.narrow(0, 1, x.numel()).reshape(x.dims())
    });
    five(&named("odd"), &causal, &|| {
        attention(&a, &b, &c, None, true)
    });
    // Keys of one head for all.
    let [k, v] = [&k, &v].map(|x| x.narrow(1, 3, 1));
    let wide = |x: &Tensor| x.expand([5, heads, x.dims()[2], x.dims()[3]]);
    let want = at_ends([&q, &wide(&k), &wide(&v)], &seen);
    five(&named("shared"), &want, &|| {
        attention(&q, &k, &v, None, true)
    });
}

#[test]
fn many_wide_queries() {
    many_queries(BF16, [257, 300, 128, 128]);
}

#[test]
fn many_wide_queries_of_f16() {
    many_queries(F16, [300, 257, 128, 128]);
}

#[test]
fn many_narrow_queries() {
    many_queries(BF16, [200, 130, 64, 64]);
}

#[test]
fn many_narrow_queries_of_f16() {
    many_queries(F16, [385, 400, 64, 64]);
}

#[test]
fn many_queries_of_odd_widths() {
    many_queries(BF16, [260, 140, 120, 52]);
    many_queries(BF16, [256, 256, 64, 104]);
}

/// Truth and number masks, broadcast; a query that sees nothing gives zeros.
#[test]
fn masks() {
    let Some(d) = device() else { return };
    let (rows, keys, width) = (90, 150, 32);
    for dtype in [BF16, F16, F32] {
        let q = noise(&[2, 3, rows, width], dtype, 1, &d);
        let k = noise(&[2, 3, keys, width], dtype, 2, &d);
        let v = noise(&[2, 3, keys, width], dtype, 3, &d);
        let scale = 1.0 / (width as f64).sqrt();
        let sees = |i: usize, j: usize| i != 7 && (i * 5 + j) % 3 != 1;
        let truth: Vec<bool> = (0..rows * keys)
            .map(|at| sees(at / keys, at % keys))
            .collect();
        let truth = Tensor::from_vec(truth, [rows, keys], &d);
        let want = reference(&q, &k, &v, &|_, i, j, s| {
            if sees(i, j) { s * scale } else { HIDDEN }
        });
        check("truth", 1, &want, || {
            attention(&q, &k, &v, Some(&truth), false)
        });
        let added = noise(&[2, 1, 1, keys], dtype, 5, &d);
        let of = numbers(&added);
        let want = reference(&q, &k, &v, &|b, _, j, s| s * scale + of[b / 3 * keys + j]);
        check("added", 1, &want, || {
            attention(&q, &k, &v, Some(&added), false)
        });
        let hidden = Tensor::full([1, 1, 1, keys], f64::NEG_INFINITY, dtype, &d);
        hidden.eval().unwrap();
        check("hidden", 1, &vec![0.0; 6 * rows * width], || {
            attention(&q, &k, &v, Some(&hidden), false)
        });
    }
}

/// Keys up to a position that a tensor holds, as a cache that is partly filled has them: none, some, all, and in forms
/// that a kernel takes for a limit of its loop.
#[test]
fn keys_up_to_positions() {
    let Some(d) = device() else { return };
    for dtype in [BF16, F16, F32] {
        for (batch, rows, keys, width) in [
            (2, 1, 1500, 64),
            (3, 4, 700, 32),
            (5, 16, 333, 128),
            (70, 3, 140, 64),
            (1, 2, 9_000, 64),
            (2, 90, 150, 40),
            (50, 130, 140, 64),
        ] {
            let q = noise(&[batch, rows, width], dtype, 1, &d);
            let k = noise(&[batch, keys, width], dtype, 2, &d);
            let v = noise(&[batch, keys, width], dtype, 3, &d);
            let scale = 1.0 / (width as f64).sqrt();
            let last = |b: usize, i: usize| ((b * 37 + i * 13) * 29 % (keys + 40)) as i64 - 20;
            let all: Vec<i64> = (0..batch * rows)
                .map(|at| last(at / rows, at % rows))
                .collect();
            let positions = Tensor::from_vec(all, [batch, rows, 1], &d);
            let key = Tensor::arange(0, keys as i64, 1, I64, &d);
            eval([&positions, &key]).unwrap();
            let sees = |b: usize, i: usize, j: usize, s: f64| match j as i64 <= last(b, i) {
                true => s * scale,
                false => HIDDEN,
            };
            let want = reference(&q, &k, &v, &sees);
            let what = format!("{dtype} {batch} {rows} {keys} {width}");
            let index = || Tensor::arange(0, keys as i64, 1, I64, &d);
            check(&what, 1, &want, || {
                attention(&q, &k, &v, Some(&index().le(&positions)), false)
            });
            check(&what, 1, &want, || {
                let after = (&positions + 3).gt(&(index() + 2));
                attention(&q, &k, &v, Some(&after), false)
            });
            check(&what, 1, &want, || {
                attention(&q, &k, &v, Some(&key.le(&positions)), false)
            });
            // Hidden ones by name, where every query sees a key.
            let some = positions.maximum(0);
            some.eval().unwrap();
            let least = |b: usize, i: usize, j: usize, s: f64| match j as i64 <= last(b, i).max(0) {
                true => s * scale,
                false => HIDDEN,
            };
            let want = reference(&q, &k, &v, &least);
            check(&what, 1, &want, || {
                let scores = q.matmul(&k.transpose(1, 2)).to_dtype(F32) * scale;
                let scores = scores.masked_fill(&key.gt(&some), HIDDEN);
                scores.softmax(2).to_dtype(dtype).matmul(&v)
            });
            // A window of keys.
            let near = |b: usize, i: usize, j: usize, s: f64| match j as i64 > last(b, i) - 50 {
                false => HIDDEN,
                true => sees(b, i, j, s),
            };
            let want = reference(&q, &k, &v, &near);
            check(&what, 1, &want, || {
                let near = index().gt(&(&positions - 50));
                let mask = near.logical_and(&index().le(&positions));
                attention(&q, &k, &v, Some(&mask), false)
            });
        }
    }
}

/// Heads beside rows, turned keys, flipped rows, keys shared by heads.
#[test]
fn strides_and_grouped_heads() {
    let Some(d) = device() else { return };
    for dtype in [BF16, F32] {
        let qkv = noise(&[2, 80, 3, 4, 32], dtype, 1, &d);
        let part = |i: usize| qkv.select(2, i as isize).permute([0, 2, 1, 3]);
        let (q, k, v) = (part(0), part(1), part(2));
        let scale = 1.0 / 32f64.sqrt();
        let want = reference(&q, &k, &v, &|_, _, _, s| s * scale);
        check("heads", 1, &want, || attention(&q, &k, &v, None, false));
        let turned = noise(&[2, 4, 32, 80], dtype, 2, &d).transpose(2, 3);
        let flipped = v.flip(2);
        let want = reference(&q, &turned, &flipped, &|_, _, _, s| s * scale);
        check("turned", 1, &want, || {
            attention(&q, &turned, &flipped, None, false)
        });
        // Four queries' heads a key's head.
        let (k, v) = (
            noise(&[2, 1, 90, 32], dtype, 3, &d),
            noise(&[2, 1, 90, 32], dtype, 4, &d),
        );
        let (wide_k, wide_v) = (k.expand([2, 4, 90, 32]), v.expand([2, 4, 90, 32]));
        let want = reference(&q, &wide_k, &wide_v, &|_, _, _, s| s * scale);
        check("grouped", 1, &want, || attention(&q, &k, &v, None, false));
    }
}

/// Products, softmax and products as programs write them, with what they do to scores.
#[test]
fn written_out() {
    let Some(d) = device() else { return };
    let (rows, keys, width) = (100, 140, 64);
    for dtype in [BF16, F16, F32] {
        let q = noise(&[3, rows, width], dtype, 1, &d);
        let k = noise(&[3, keys, width], dtype, 2, &d);
        let v = noise(&[3, keys, 48], dtype, 3, &d);
        let product = || q.matmul(&k.transpose(1, 2));
        for scale in [0.125, 0.25, -0.1, 0.0] {
            let want = reference(&q, &k, &v, &|_, _, _, s| s * scale);
            check(&format!("scale {scale}"), 1, &want, || {
                (product() * scale).softmax(-1).matmul(&v)
            });
        }
        let want = reference(&q, &k, &v, &|_, _, _, s| s / 8.0);
        check("divided", 1, &want, || {
            (product() / 8.0).softmax(-1).matmul(&v)
        });
        let cap = |s: f64| 5.0 * (s * 0.025).tanh();
        let want = reference(&q, &k, &v, &|_, _, _, s| cap(s));
        check("capped", 1, &want, || {
            ((product() * 0.025).tanh() * 5.0).softmax(-1).matmul(&v)
        });
        let slopes = noise(&[3, 1, 1], F32, 9, &d);
        let of = numbers(&slopes);
        // A cast reads what was recorded: products of the half type.
        let read = |s: f64| match dtype {
            BF16 => half::bf16::from_f64(s).to_f64(),
            F16 => half::f16::from_f64(s).to_f64(),
            _ => s,
        };
        let want = reference(&q, &k, &v, &|b, i, j, s| {
            read(s) * 0.125 + of[b] * (j as f64 - i as f64) * 0.01
        });
        check("slopes", 1, &want, || {
            let position = |n: usize| Tensor::arange(0.0, n as f64, 1.0, F32, &d);
            let distance = position(keys).unsqueeze(0) - position(rows).unsqueeze(1);
            let bias = &slopes * &(distance * 0.01);
            (product().to_dtype(F32) * 0.125 + bias)
                .softmax(-1)
                .to_dtype(dtype)
                .matmul(&v)
        });
    }
}

/// Few queries and many keys: the keys are cut over blocks, and a second kernel combines the pieces.
#[test]
fn decoding() {
    let Some(d) = device() else { return };
    for dtype in [BF16, F16, F32] {
        for (rows, keys, width) in [(1, 5000, 128), (4, 3001, 64), (1, 600, 80)] {
            let q = noise(&[2, 2, rows, width], dtype, 1, &d);
            let k = noise(&[2, 2, keys, width], dtype, 2, &d);
            let v = noise(&[2, 2, keys, width], dtype, 3, &d);
            let scale = 1.0 / (width as f64).sqrt();
            let want = reference(&q, &k, &v, &|_, _, _, s| s * scale);
            check(&format!("{dtype} {rows} {keys}"), 1, &want, || {
                attention(&q, &k, &v, None, false)
            });
            let sees = |j: usize| j % 7 != 3 && j < 4 * keys / 5;
            let mask = Tensor::from_vec((0..keys).map(sees).collect::<Vec<bool>>(), [1, keys], &d);
            let want = reference(&q, &k, &v, &|_, _, j, s| {
                if sees(j) { s * scale } else { HIDDEN }
            });
            check("masked", 1, &want, || {
                attention(&q, &k, &v, Some(&mask), false)
            });
            let none = Tensor::full([1, keys], false, Bool, &d);
            none.eval().unwrap();
            check("nothing seen", 1, &vec![0.0; 4 * rows * width], || {
                attention(&q, &k, &v, Some(&none), false)
            });
        }
    }
}

/// Single queries of heads that share keys, with a mask of each head's own.
#[test]
fn decoding_with_shared_keys() {
    let Some(d) = device() else { return };
    let (heads, keys, width) = (8, 2000, 64);
    for dtype in [BF16, F32] {
        let q = noise(&[2, 3, heads, 1, width], dtype, 1, &d);
        let k = noise(&[2, 3, 1, keys, width], dtype, 2, &d);
        let v = noise(&[2, 3, 1, keys, width], dtype, 3, &d);
        let wide = |x: &Tensor| x.expand([2, 3, 8, 2000, 64]);
        let want = reference(&q, &wide(&k), &wide(&v), &|_, _, _, s| s * 0.125);
        check("shared", 1, &want, || attention(&q, &k, &v, None, false));
        let added = noise(&[heads, 1, keys], dtype, 5, &d);
        let of = numbers(&added);
        let want = reference(&q, &wide(&k), &wide(&v), &|b, _, j, s| {
            s * 0.125 + of[b % heads * keys + j]
        });
        check("added", 1, &want, || {
            attention(&q, &k, &v, Some(&added), false)
        });
    }
}

/// A NaN shows in the rows that it reaches, an infinite score does, one of −∞ hides its key.
#[test]
fn numbers_that_are_none() {
    let Some(d) = device() else { return };
    for dtype in [BF16, F16, F32] {
        let q = Tensor::ones([1, 3, 1], dtype, &d);
        let v = noise(&[1, 3, 4], dtype, 1, &d);
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let data = [1.0, bad as f32, 0.5];
            let host = Tensor::from_slice(&data, [1, 3, 1], &Device::cpu());
            let k = with_mode(Mode::Eager, || host.to_dtype(dtype)).to_device(&d);
            let want = reference(&q, &k, &v, &|_, _, _, s| s);
            let want = match bad == HIDDEN {
                true => want,
                false => vec![f64::NAN; 12],
            };
            let y = Tensor::scaled_dot_product_attention(&q, &k, &v, None, false, Some(1.0));
            y.eval().unwrap();
            close(&format!("{dtype} {bad}"), &y, &want);
        }
    }
}

/// Scores that something else needs are stored; what no kernel takes runs on the device all the same.
#[test]
fn what_is_no_attention() {
    let Some(d) = device() else { return };
    let (q, k) = (
        noise(&[2, 40, 32], F32, 1, &d),
        noise(&[2, 50, 32], F32, 2, &d),
    );
    let v = noise(&[2, 50, 16], F32, 3, &d);
    let run = || {
        let scores = q.matmul(&k.transpose(1, 2)) * 0.2;
        let y = scores.softmax(-1).matmul(&v);
        eval(&[y.clone(), scores.clone()]).map(|()| (y, scores))
    };
    let (all, stats) = stats_scope(run);
    let (y, scores) = all.unwrap();
    assert!(
        stats.library_calls >= 2 && stats.host_runs == 0,
        "{stats:?}"
    );
    let want = reference(&q, &k, &v, &|_, _, _, s| s * 0.2);
    close("stored scores", &y, &want);
    assert_eq!(numbers(&scores).len(), 2 * 40 * 50);
    let wide = noise(&[1, 20, 300], F32, 4, &d);
    let scale = 1.0 / 300f64.sqrt();
    let want = reference(&wide, &wide, &wide, &|_, _, _, s| s * scale);
    let (y, stats) = stats_scope(|| {
        let y = attention(&wide, &wide, &wide, None, false);
        y.eval().map(|()| y)
    });
    assert_eq!(stats.host_runs, 0);
    close("too wide", &y.unwrap(), &want);
}
