//! Products of few rows of half precision whose operands are computed as they are read, as one generated kernel of a CUDA
//! device, against binary64. Where there is no device, every test says so and passes.

#[path = "../common/mod.rs"]
mod common;

use common::{device, numbers};
use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

/// Numbers about 0 that are the same on every device.
fn noise(shape: &[usize], dtype: DType, seed: usize, device: &Device) -> Tensor {
    let n: usize = shape.iter().product();
    let value = |i: usize| (((i + seed * 977) * 7919 + 13) % 4001) as f32 / 2000.0 - 1.0;
    from(n, value, shape, dtype, device)
}

/// Whole numbers of 8 bits.
fn bytes(shape: &[usize], seed: usize, device: &Device) -> Tensor {
    let n: usize = shape.iter().product();
    let value = |i: usize| (((i + seed * 331) * 613 + 7) % 255) as f32 - 127.0;
    from(n, value, shape, I8, device)
}

fn from(n: usize, f: impl Fn(usize) -> f32, shape: &[usize], dtype: DType, d: &Device) -> Tensor {
    let host = Tensor::from_vec((0..n).map(f).collect(), shape, &Device::cpu());
    with_mode(Mode::Eager, || host.to_dtype(dtype)).to_device(d)
}

/// The product of two matrices in binary64.
fn product(a: &[f64], b: &[f64], [m, n, k]: [usize; 3]) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    for (to, line) in out.chunks_mut(n).zip(a.chunks(k)) {
        for (x, line) in line.iter().zip(b.chunks(n)) {
            for (sum, y) in to.iter_mut().zip(line) {
                *sum += x * y;
            }
        }
    }
    out
}

/// What `f` gives, in one launch and no call of a library.
#[track_caller]
fn one(what: &str, f: impl FnOnce() -> Tensor) -> Tensor {
    let (y, stats) = stats_scope(|| {
        let y = f();
        y.eval().unwrap_or_else(|e| panic!("{what}: {e}"));
        y
    });
    let counts = (stats.kernels_launched, stats.library_calls, stats.host_runs);
    assert_eq!(counts, (1, 0, 0), "{what}: {stats:?}");
    y
}

/// ‖got − want‖ / ‖want‖ and every element.
#[track_caller]
fn close(what: &str, y: &Tensor, want: &[f64]) {
    let tolerance = if y.dtype() == F16 { 1e-3 } else { 8e-3 };
    let got = numbers(y);
    assert_eq!(got.len(), want.len(), "{what}");
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let error = norm(&mut got.iter().zip(want).map(|(g, w)| g - w));
    let size = norm(&mut want.iter().copied());
    assert!(error <= tolerance * size, "{what}: {error} of {size}");
    let most = want.iter().fold(0.0, |most: f64, w| most.max(w.abs()));
    for (at, (g, w)) in got.iter().zip(want).enumerate() {
        let near = (g - w).abs() <= 2.0 * tolerance * (w.abs() + 0.1 * most);
        assert!(near, "{what}: element {at}: {g} for {w}");
    }
}

/// Numbers rounded to a half type.
fn rounded(x: &[f64], dtype: DType) -> Vec<f64> {
    let x: Vec<f32> = x.iter().map(|x| *x as f32).collect();
    let host = Tensor::from_slice(&x, x.len(), &Device::cpu());
    numbers(&with_mode(Mode::Eager, || host.to_dtype(dtype)))
}

/// Whole numbers of 8 bits times a scale for each column, of both orientations, with rows on both sides of tiles, and sizes
/// that no tile, no step and no part divides.
#[test]
fn scaled_bytes() {
    let Some(d) = device() else { return };
    for dtype in [BF16, F16] {
        for [m, n, k] in [
            [16, 512, 1024],
            [3, 136, 584],
            [31, 264, 2056],
            [32, 72, 328],
            [17, 4160, 520],
        ] {
            let x = noise(&[m, k], dtype, 1, &d);
            for turned in [false, true] {
                let what = format!("{dtype} {m} {n} {k} {turned}");
                let w = bytes(&if turned { [n, k] } else { [k, n] }, 2, &d);
                let scale = noise(&if turned { [n, 1] } else { [1, n] }, dtype, 3, &d);
                let y = one(&what, || {
                    let w = w.to_dtype(dtype) * &scale;
                    x.matmul(&if turned { w.t() } else { w })
                });
                let (w, s) = (numbers(&w), numbers(&scale));
                let right: Vec<f64> = (0..k * n)
                    .map(|i| {
                        let (row, column) = (i / n, i % n);
                        let w = if turned { w[column * k + row] } else { w[i] };
                        w * s[column]
                    })
                    .collect();
                let right = rounded(&right, dtype);
                close(&what, &y, &product(&numbers(&x), &right, [m, n, k]));
            }
        }
    }
}

/// Functions of both operands, masks and broadcast numbers, with what follows the product.
#[test]
fn both_operands_and_what_follows() {
    let Some(d) = device() else { return };
    for [m, n, k] in [[16, 520, 1032], [24, 264, 776]] {
        let what = format!("{m} {n} {k}");
        let (x, w) = (noise(&[m, k], BF16, 1, &d), noise(&[n, k], BF16, 2, &d));
        let (row, column) = (noise(&[m, 1], BF16, 3, &d), noise(&[k], BF16, 4, &d));
        let residual = noise(&[m, n], BF16, 5, &d);
        let y = one(&what, || {
            let left = (x.relu() * &row) + &column;
            let mask = w.gt(0.25);
            let right = mask.where_cond(&(&w * 2.0), w.zeros_like());
            left.matmul(&right.t()).silu() + &residual
        });
        let (xs, ws, rs, cs) = (numbers(&x), numbers(&w), numbers(&row), numbers(&column));
        let left: Vec<f64> = (0..m * k)
            .map(|i| xs[i].max(0.0) * rs[i / k] + cs[i % k])
            .collect();
        let right: Vec<f64> = (0..k * n)
            .map(|i| ws[i % n * k + i / n])
            .map(|w| if w > 0.25 { 2.0 * w } else { 0.0 })
            .collect();
        let sums = product(&left, &right, [m, n, k]);
        let more = numbers(&residual);
        let want = sums
            .iter()
            .zip(more)
            .map(|(p, r)| p / (1.0 + (-p).exp()) + r);
        close(&what, &y, &want.collect::<Vec<f64>>());
    }
}

/// A scale for each 128 terms of a column, and operands that begin at any element.
#[test]
fn groups_and_windows() {
    let Some(d) = device() else { return };
    let [m, n, k] = [16, 200, 1024];
    let x = noise(&[m, k], BF16, 1, &d);
    let scale = noise(&[n, k / 128, 1], BF16, 3, &d);
    for first in [0, 3] {
        let wide = bytes(&[n, k + 8], 2, &d);
        wide.eval().unwrap_or_else(|e| panic!("{e}"));
        let w = wide.narrow(1, first, k);
        let what = format!("from {first}");
        let y = one(&what, || {
            let w = w.to_dtype(BF16).reshape([n, k / 128, 128]) * &scale;
            x.matmul(&w.reshape([n, k]).t())
        });
        let (w, s) = (numbers(&w), numbers(&scale));
        let right: Vec<f64> = (0..k * n)
            .map(|i| (i % n, i / n))
            .map(|(column, row)| w[column * k + row] * s[column * (k / 128) + row / 128])
            .collect();
        close(&what, &y, &product(&numbers(&x), &right, [m, n, k]));
    }
}

/// The same bits as with operands that are stored, where sums are exact; and the same every time, in graphs.
#[test]
fn rounds_as_stored_operands() {
    let Some(d) = device() else { return };
    let [m, n, k] = [24, 328, 520];
    let (x, w) = (bytes(&[m, k], 1, &d), bytes(&[k, n], 2, &d));
    let host = |x: &Tensor| x.to_device(&Device::cpu());
    let compute =
        |x: &Tensor, w: &Tensor| (x.to_dtype(BF16) * 0.25).matmul(&(w.to_dtype(BF16) * 0.25));
    let eager = with_mode(Mode::Eager, || compute(&host(&x), &host(&w)));
    let step = jit({
        let w = w.clone();
        move |x: &Tensor| compute(x, &w)
    });
    for _ in 0..6 {
        assert_eq!(numbers(&step.call(&x)), numbers(&eager));
    }
    let y = one("exact", || {
        ferrotrace::with_precision(ferrotrace::Precision::EagerExact, || compute(&x, &w))
    });
    assert_eq!(numbers(&y), numbers(&eager));
    let told = ferrotrace::explain(&[&compute(&x, &w)]).to_string();
    assert!(told.contains("computed in tiles of 32x64"), "{told}");
}
