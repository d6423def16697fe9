//! Indexing, sorting, selecting, scattering and scanning on a CUDA device, against the CPU's eager mode. Where there is no
//! device every test says so and passes.

#[path = "../common/mod.rs"]
mod common;

use common::{FLOATS, agree, device, epsilon, index, noise, numbers};
use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use ferrotrace::{ReduceOp, stats_scope, with_precision};

#[test]
fn indexing() {
    agree(1e-6, |d| {
        let x = noise(&[20, 30], F32, d);
        let rows = index(&[3, -1, 0, 3, 19], d);
        let at = Tensor::from_slice(&[0i64, 5, 19, 7, -2, 1], [2, 3], d);
        let src = noise(&[5, 30], F32, d);
        vec![
            x.index_select(0, &rows),
            x.embedding(&rows),
            x.gather(1, &at),
            x.index(&[Some(&rows), None]),
            x.index_put(&[Some(&rows)], &src, true),
            x.scatter_add(0, &at, &noise(&[2, 3], F32, d)),
            x.scatter_reduce(1, &at, &noise(&[2, 3], F32, d), ReduceOp::Amax, true),
            rows.abs().one_hot(20),
            x.masked_fill(&x.gt(0.5), 9.0),
            x.masked_select(&x.gt(1.0)),
            x.masked_select(&x.gt(5.0)),
            x.gt(1.5).nonzero(),
            x.narrow(0, 0, 1).gt(5.0).nonzero(),
            noise(&[30, 40, 50], F32, d).gt(1.0).nonzero(),
            x.index(&[None, Some(&x.select(0, 0).gt(0.0))]),
        ]
    });
}

#[test]
fn sorting_and_scans() {
    agree(1e-5, |d| {
        let x = noise(&[9, 50], F32, d);
        let (sorted, order) = x.sort(1, true);
        let (top, places) = x.topk(5, 0, true);
        let (most, at) = x.cummax(1);
        vec![
            sorted,
            order,
            top,
            places,
            most,
            at,
            x.cumsum(1),
            x.cumprod(0),
            x.argsort(0, false),
        ]
    });
}

/// Elements that cannot meet, at places that tensors say, of tensors that live on, lie otherwise, and die.
#[test]
fn rows_at_positions() {
    for dtype in [F32, F64, BF16, F16, I32, I64, U8, Bool] {
        agree(0.0, |d| {
            let cache = noise(&[3, 40, 33], F32, d).to_dtype(dtype);
            let row = noise(&[3, 1, 33], F32, d).to_dtype(dtype);
            let at = index(&[-3], d);
            let turned = noise(&[33, 40], F32, d).to_dtype(dtype).t();
            let of_rows = Tensor::from_slice(&[3i64, 0, 32], [3, 1], d);
            let mut all = vec![
                cache.index_put(&[None, Some(&at)], &row, false),
                cache.index_put(
                    &[Some(&index(&[1], d)), Some(&at)],
                    &row.select(0, 0),
                    false,
                ),
                turned.index_put(&[Some(&at)], &row.select(0, 1), false),
                turned.slice_assign(0, 3, 5, 1, &row.select(1, 0).narrow(0, 0, 2)),
                cache.slice_assign(1, 7, 8, 1, &row),
                cache
                    .select(1, 5)
                    .scatter(1, &of_rows, &row.narrow(2, 0, 1).select(1, 0)),
            ];
            if dtype != Bool && !matches!(dtype, F16 | BF16) {
                let taken = row.narrow(2, 0, 1).select(1, 0);
                for op in [ReduceOp::Prod, ReduceOp::Amax, ReduceOp::Amin] {
                    all.push(
                        cache
                            .select(1, 5)
                            .scatter_reduce(1, &of_rows, &taken, op, true),
                    );
                }
                all.push(cache.index_put(&[None, Some(&at)], &row, true));
            }
            all
        });
    }
}

/// A cache that a function is given and gives back is written in place, a row a call.
#[test]
fn a_lent_cache_is_written_in_place() {
    let Some(d) = device() else { return };
    let step = ferrotrace::jit(|(cache, row, at): (Tensor, &Tensor, &Tensor)| {
        cache.index_put(&[None, Some(at)], &row.gelu(), false)
    });
    let mut cache = Tensor::zeros([4, 1 << 16, 64], F32, &d);
    let row = noise(&[4, 1, 64], F32, &d);
    let mut peak = 0;
    for t in 0..20i64 {
        let at = Tensor::from_slice(&[t * 3], 1, &d);
        let (next, stats) = stats_scope(|| step.call((cache, &row, &at)));
        cache = next;
        peak = stats.in_place_writes.max(peak);
    }
    assert!(peak >= 1, "the cache was copied");
    let want = with_mode(Mode::Eager, || {
        numbers(&row.to_device(&Device::cpu()).gelu())
    });
    let got = numbers(&cache.index_select(1, &index(&[0, 27, 57, 58], &d)));
    for (i, x) in got.iter().enumerate() {
        let (head, place, column) = (i / 256, i / 64 % 4, i % 64);
        let want = if place == 3 {
            0.0
        } else {
            want[head * 64 + column]
        };
        assert!((x - want).abs() < 1e-6, "{i}: {x} for {want}");
    }
}

/// Rows in shared memory and rows sorted by digits, every type, ties, NaNs and zeros of both signs.
#[test]
fn sorts_of_every_length() {
    let short = [
        [700, 3],
        [50, 70],
        [40, 129],
        [30, 300],
        [9, 600],
        [33, 2048],
    ];
    let long = [[5, 2049], [7, 4096], [2, 4097], [3, 70_001], [1, 1_000_003]];
    for shape in [&short[..], &long].concat() {
        for dtype in [Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64] {
            if shape[1] > 100_000 && ![I64, F32].contains(&dtype) {
                continue;
            }
            agree(0.0, |d| {
                let x = match dtype.is_float() {
                    true => noise(&shape, F32, d) * 1e4,
                    false => noise(&shape, F32, d) * 60.0 + 120.0,
                };
                let zero = x.zeros_like();
                let x = x.gt(8000.0).where_cond(&(&zero / &zero), &x);
                let x = x.lt(-8000.0).where_cond(zero.neg(), &x).to_dtype(dtype);
                let (up, order) = x.sort(1, false);
                let (down, back) = x.sort(1, true);
                let (most, places) = x.topk(3, 1, true);
                vec![up, order, down, back, most, places, x.argsort(0, true)]
            });
        }
    }
}

/// The first of rows: few and many of them, of rows in one piece and in several, with many equal elements at their end.
#[test]
fn selections() {
    for shape in [[60, 50], [3, 9000], [300, 4500], [1, 600_001], [5, 70_000]] {
        for (dtype, step) in [
            (F32, 0.0),
            (F32, 0.5),
            (F32, 1e9),
            (F16, 0.0),
            (I64, 0.25),
            (U8, 9.0),
        ] {
            agree(0.0, |d| {
                let x = match dtype {
                    U8 => noise(&shape, F32, d) * 20.0 + 120.0,
                    _ => noise(&shape, F32, d) * 1000.0,
                };
                let x = match step == 0.0 {
                    true => x,
                    false => (x / step).round() * step,
                };
                let x = x.to_dtype(dtype);
                let mut results = Vec::new();
                for k in [1, 10, 300, 1000, 1001] {
                    let k = k.min(shape[1]);
                    for largest in [false, true] {
                        let (values, places) = x.topk(k, 1, largest);
                        results.extend([values, places]);
                    }
                }
                results.push(x.t().topk(2, 0, true).1);
                results
            });
        }
    }
}

/// Many values at few places and few at many, in rows and one by one: the bits of the CPU, which takes the elements in the
/// same order. A device adds sums and means of binary32 in binary64, so the CPU is given these operands in binary64.
#[test]
fn scatters_in_order() {
    let spread = |n: usize, size: usize, d: &Device| {
        let at: Vec<i64> = (0..n).map(|i| ((i * 7919 + i / 3) % size) as i64).collect();
        Tensor::from_slice(&at, n, d)
    };
    for (n, places, width) in [
        (50_000, 300, 64),
        (300_000, 7, 1),
        (3000, 2, 1),
        (2000, 70, 1),
        (90_000, 1500, 1),
        (70_000, 3_000_000, 1),
        (3000, 200_000, 5),
        (9, 4, 1000),
    ] {
        for dtype in [F32, F64, BF16, I32, I64, U8] {
            agree(0.0, |d| {
                let adds_in = match dtype {
                    F32 if d.is_cpu() => F64,
                    _ => dtype,
                };
                let x = noise(&[places, width], dtype, d);
                let src = noise(&[n, width], F32, d);
                // Many that meet at a place meet in parts: of such numbers sums are exact, and products vanish.
                let src = if n / places < 1024 {
                    src
                } else {
                    (src * 8.0).round().clamp(-8.0, 8.0) / 8.0
                };
                let few = n / places < 1024 || !dtype.is_float();
                let x = if few { x } else { x.round() };
                let src = src.to_dtype(dtype);
                let (sum, addend) = (x.to_dtype(adds_in), src.to_dtype(adds_in));
                let rows = spread(n, places, d);
                let all = rows.unsqueeze(1).expand([n, width]);
                let mut results = vec![
                    sum.index_put(&[Some(&rows)], &addend, true),
                    x.index_put(&[Some(&rows)], &src, false),
                    sum.scatter_add(0, &all, &addend),
                ];
                for include in [true, false] {
                    for op in [ReduceOp::Prod, ReduceOp::Amax, ReduceOp::Amin] {
                        results.push(x.scatter_reduce(0, &all, &src, op, include));
                    }
                    let op = ReduceOp::Mean;
                    results.push(sum.scatter_reduce(0, &all, &addend, op, include));
                }
                let short = spread(n.min(5000) * width, width, d).reshape([n.min(5000), width]);
                let part = addend.narrow(0, 0, n.min(5000));
                let wide = noise(&[n.min(5000), width], dtype, d).to_dtype(adds_in);
                results.push(wide.scatter_add(1, &short, &part));
                results.into_iter().map(|t| t.to_dtype(dtype)).collect()
            });
        }
    }
}

/// A place that half of all elements meet, beside some that a few hundred meet and many that few do; scatters that share their
/// index, of rows and of single values. Sums of these numbers are exact.
#[test]
fn scatters_of_uneven_places() {
    for (n, places, width) in [
        (40_000, 5000, 1),
        (40_000, 5000, 64),
        (20_000, 300, 4),
        (9_000, 40, 7),
        (70_000, 64, 36),
    ] {
        for dtype in [F32, F64, BF16, I32, I64] {
            agree(0.0, |d| {
                let at = (0..n).map(|i| match i % 1000 {
                    at if at < 500 => 3,
                    at if at < 600 => 7 + (i / 300 % 5) as i64,
                    _ => (i * 7919 % places) as i64,
                });
                let at = Tensor::from_slice(&at.collect::<Vec<i64>>(), n, d);
                let adds_in = match dtype {
                    F32 if d.is_cpu() => F64,
                    _ => dtype,
                };
                let eighths = |shape: &[usize]| (noise(shape, F32, d) * 4.0).round() / 8.0;
                let src = eighths(&[n, width]).to_dtype(adds_in);
                let x = eighths(&[places, width]).to_dtype(adds_in);
                let all = at.unsqueeze(1).expand([n, width]);
                let single = src.select(1, 0);
                let mut results = vec![
                    x.index_add(0, &at, &src),
                    x.select(1, 0).index_add(0, &at, &single),
                    // Over memory that nothing else holds.
                    (&x + &x).index_add(0, &at, &src),
                ];
                for op in [ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Amax] {
                    for include in [true, false] {
                        results.push(x.scatter_reduce(0, &all, &src, op, include));
                    }
                }
                results.into_iter().map(|t| t.to_dtype(dtype)).collect()
            });
        }
    }
}

#[test]
fn running_sums_in_order_and_of_exponentials() {
    for dtype in FLOATS {
        agree(epsilon(dtype), |d| {
            let x = noise(&[17, 300], dtype, d);
            vec![x.logcumsumexp(0), x.logcumsumexp(1)]
        });
        // Several tiles, the last in part; infinities, and a number far above those before it.
        agree(epsilon(dtype), |d| {
            let x = noise(&[5, 5_003], dtype, d) * 3;
            let (row, at) = (
                Tensor::arange(0, 5, 1, I64, d).reshape([5, 1]),
                Tensor::arange(0, 5_003, 1, I64, d),
            );
            let set = |x: Tensor, r: i64, from: i64, to: f64| {
                let there = row.eq(r).logical_and(at.eq(from));
                there.where_cond(Tensor::full([], to, dtype, d), &x)
            };
            let x = set(x, 1, 0, f64::NEG_INFINITY);
            let x = set(x, 1, 2_049, f64::NEG_INFINITY);
            let x = set(x, 2, 2_500, f64::INFINITY);
            let x = set(x, 2, 4_100, f64::INFINITY);
            let x = set(x, 3, 2_040, f64::NAN);
            vec![set(x, 4, 2_047, 10_000.0).logcumsumexp(1)]
        });
    }
    // One addition after the other: the bits of the CPU's eager mode.
    let Some(device) = device() else { return };
    let run = |d: &Device| {
        with_precision(Precision::EagerExact, || {
            let x = noise(&[300, 500], F32, d);
            vec![x.cumsum(1), x.cumsum(0), (&x * 0.3).cumprod(0)]
        })
    };
    let want = with_mode(Mode::Eager, || run(&Device::cpu()));
    let (got, stats) = stats_scope(|| {
        let got = run(&device);
        eval(&got).expect("runs");
        got
    });
    assert_eq!(stats.host_runs, 0);
    for (got, want) in got.iter().zip(&want) {
        assert_eq!(numbers(got), numbers(want));
    }
}
