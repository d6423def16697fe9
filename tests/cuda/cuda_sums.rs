//! Sums on a CUDA device: about a mean, of what is the same along them, of many terms that round alike. References are
//! computed here in binary64. Where there is no device, every test says so and passes.

#[path = "../common/mod.rs"]
mod common;

use common::{data, device, near};
use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use ferrotrace::with_precision;

/// The variance of everything, of rows and of columns, where a mean far from zero leaves few digits to lose; the same
/// bits every time.
#[test]
fn variances() {
    let Some(d) = device() else { return };
    for (rows, columns) in [(1, 3_000_001), (700, 4097), (40, 70_000), (3_000, 33)] {
        for shift in [0.0f32, 3000.0] {
            let n = rows * columns;
            let mut whole = data(n);
            whole.iter_mut().for_each(|x| *x += shift);
            // The first value of a thread is what it sums about.
            whole[0] = 1e4;
            let x = Tensor::from_slice(&whole, [rows, columns], &d);
            let moments = |of: &mut dyn Iterator<Item = f32>| {
                let all: Vec<f64> = of.map(f64::from).collect();
                let mean = all.iter().sum::<f64>() / all.len() as f64;
                let squares = all.iter().map(|x| (x - mean).powi(2));
                (mean, squares.sum::<f64>() / all.len() as f64)
            };
            let run = |x: &Tensor| {
                let (v, m) = x.var_mean(.., 0);
                let (by_row, by_column) = (x.var(1, 0), x.var(0, 0));
                let all = [v, m, by_row, by_column];
                eval(&all).expect("runs");
                all.map(|t| t.to_vec::<f32>().expect("runs"))
            };
            let (first, second) = (run(&x), run(&x));
            assert_eq!(first, second);
            let [v, m, by_row, by_column] = first;
            let (mean, variance) = moments(&mut whole.iter().copied());
            near(m[0].into(), mean, 1e-5);
            near(v[0].into(), variance, 1e-4);
            for (r, &got) in by_row.iter().enumerate() {
                let row = &whole[r * columns..][..columns];
                near(got.into(), moments(&mut row.iter().copied()).1, 1e-4);
            }
            for (c, &got) in by_column.iter().enumerate().step_by(1 + columns / 100) {
                let mut column = whole.iter().copied().skip(c).step_by(columns);
                let want = moments(&mut column).1;
                if rows > 1 {
                    near(got.into(), want, 1e-4);
                }
            }
        }
    }
    for bad in [f32::NAN, f32::INFINITY] {
        let mut whole = data(1_000_000);
        whole[777_777] = bad;
        let x = Tensor::from_vec(whole, 1_000_000, &d);
        assert!(x.var(.., 1).to_scalar::<f32>().expect("runs").is_nan());
    }
}

/// Reductions of what is the same along them: of few and of many rows, short, in registers, long, and in pieces.
#[test]
fn rows_of_one_value() {
    let Some(d) = device() else { return };
    for (rows, columns) in [
        (33, 2),
        (5, 100),
        (300, 3000),
        (300, 10_000),
        (257, 99_999),
        (2, 1_000_003),
    ] {
        let whole = data(rows);
        for dtype in [F32, BF16, F64] {
            let x = Tensor::from_slice(&whole, rows, &d).to_dtype(dtype);
            x.eval().expect("runs");
            let used = x.to_dtype(F64).to_vec::<f64>().expect("runs");
            let along = x.reshape([rows, 1]).expand([rows, columns]);
            let across = x.flip(0).repeat(&[columns, 1]);
            let slack = if dtype == BF16 { 1e-2 } else { 1e-5 };
            for (x, dim, backward) in [(&along, 1, false), (&across, 0, true)] {
                let read = |t: Tensor| {
                    let mut all = t.to_dtype(F64).to_vec::<f64>().expect("runs");
                    if backward {
                        all.reverse();
                    }
                    all
                };
                let n = columns as f64;
                for p in read(x.softmax(dim)) {
                    near(p, 1.0 / n, slack);
                }
                let logs = read(x.logsumexp(dim));
                let sums = read(x.sum(dim));
                let most = read(x.max(dim));
                let spread = read(x.var(dim, 1));
                let first = x.argmax(dim).to_vec::<i64>().expect("runs");
                assert!(first.iter().all(|&i| i == 0));
                for (r, &v) in used.iter().enumerate() {
                    assert!(
                        (logs[r] - (v + n.ln())).abs() <= slack * 10.0,
                        "{} for {v}",
                        logs[r]
                    );
                    assert!(
                        (sums[r] - v * n).abs() <= slack * (v * n).abs(),
                        "{} for {v}",
                        sums[r]
                    );
                    assert_eq!(most[r], v);
                    assert!(spread[r].abs() <= slack * v * v, "{} for {v}", spread[r]);
                }
            }
        }
    }
}

/// Sums of terms that round alike are off by a few units of the sum of magnitudes, however long they are.
#[test]
fn long_sums() {
    let Some(d) = device() else { return };
    for (rows, columns) in [
        (1, 50_000_003),
        (8, 628_864),
        (300, 100_003),
        (4099, 8192),
        (60_000, 40),
        (1_000_000, 3),
    ] {
        let x = Tensor::full([rows, columns], 0.1, F32, &d);
        x.eval().expect("runs");
        let (each, n) = (f64::from(0.1f32), rows as f64 * columns as f64);
        for (t, want) in [
            (x.sum(1), each * columns as f64),
            (x.sum(0), each * rows as f64),
            (x.sum(..), each * n),
            (x.mean(1), each),
            (x.exp().sum(0), each.exp() * rows as f64),
            (x.logsumexp(1).exp() / columns as f64, each.exp()),
        ] {
            for got in t.to_vec::<f32>().expect("runs") {
                near(got.into(), want, 3e-6);
            }
        }
    }
}

/// Running sums of terms that round alike, in one pass over long rows, tile by tile, and down columns.
#[test]
fn long_running_sums() {
    let Some(d) = device() else { return };
    for (rows, columns) in [
        (1, 50_000_003),
        (300, 100_003),
        (4099, 8192),
        (60_000, 40),
        (4_000_000, 3),
    ] {
        let x = Tensor::full([rows, columns], 0.1, F32, &d);
        x.eval().expect("runs");
        let each = f64::from(0.1f32);
        for precision in [Precision::Fast, Precision::EagerExact] {
            let last = with_precision(precision, || {
                [
                    (x.cumsum(1).narrow(1, -1, 1), columns),
                    (
                        x.cumsum(1).narrow(1, columns as isize / 3, 1),
                        columns / 3 + 1,
                    ),
                    (x.cumsum(0).narrow(0, -1, 1), rows),
                    (x.cumsum(0).narrow(0, rows as isize / 3, 1), rows / 3 + 1),
                ]
            });
            for (t, terms) in last {
                for got in t.to_vec::<f32>().expect("runs") {
                    near(got.into(), each * terms as f64, 1e-6);
                }
            }
        }
    }
}
