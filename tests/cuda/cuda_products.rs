//! Products of half precision with what follows them, as one generated kernel of a CUDA device, against binary64: every
//! orientation, sizes on both sides of tiles, batches, several results, rounding. Where there is no device, every test
//! says so and passes.

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

/// Small whole numbers: their products and sums are exact in binary32.
fn whole(shape: &[usize], dtype: DType, seed: usize, device: &Device) -> Tensor {
    let n: usize = shape.iter().product();
    let value = |i: usize| (((i + seed * 331) * 613 + 7) % 9) as f32 - 4.0;
    from(n, value, shape, dtype, device)
}

fn from(n: usize, f: impl Fn(usize) -> f32, shape: &[usize], dtype: DType, d: &Device) -> Tensor {
    let host = Tensor::from_vec((0..n).map(f).collect(), shape, &Device::cpu());
    with_mode(Mode::Eager, || host.to_dtype(dtype)).to_device(d)
}

/// Products of matrices in binary64, of operands expanded to one batch.
fn product(a: &Tensor, b: &Tensor) -> Vec<f64> {
    let (rank, k) = (a.rank(), a.dims()[a.rank() - 1]);
    let (m, n) = (a.dims()[rank - 2], b.dims()[rank - 1]);
    let batch: usize = a.dims()[..rank - 2].iter().product();
    let (a, b) = (numbers(a), numbers(b));
    let mut out = vec![0.0; batch * m * n];
    for (row, to) in out.chunks_mut(n).enumerate() {
        let matrix = &b[row / m * k * n..][..k * n];
        for (x, line) in a[row * k..][..k].iter().zip(matrix.chunks(n)) {
            for (sum, y) in to.iter_mut().zip(line) {
                *sum += x * y;
            }
        }
    }
    out
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// What `f` gives, in one launch of a generated kernel and no call of a library.
#[track_caller]
fn fused<R>(what: &str, f: impl FnOnce() -> R, eval: impl FnOnce(&R)) -> R {
    let (y, stats) = stats_scope(|| {
        let y = f();
        eval(&y);
        y
    });
    let counts = (stats.kernels_launched, stats.library_calls, stats.host_runs);
    assert_eq!(counts, (1, 0, 0), "{what}: {stats:?}");
    y
}

#[track_caller]
fn one(what: &str, f: impl FnOnce() -> Tensor) -> Tensor {
    fused(what, f, |y| {
        y.eval().unwrap_or_else(|e| panic!("{what}: {e}"))
    })
}

/// ‖got − want‖ / ‖want‖ and every element.
#[track_caller]
fn close(what: &str, y: &Tensor, want: &[f64]) {
    let tolerance = match y.dtype() {
        F32 => 1e-5,
        F16 => 1e-3,
        _ => 8e-3,
    };
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

/// A matrix that lies row by row or column by column.
fn matrix(
    rows: usize,
    columns: usize,
    turned: bool,
    dtype: DType,
    seed: usize,
    d: &Device,
) -> Tensor {
    match turned {
        false => noise(&[rows, columns], dtype, seed, d),
        true => noise(&[columns, rows], dtype, seed, d).t(),
    }
}

/// Every orientation; tiles that end anywhere; what is summed over too.
#[test]
fn orientations_and_sizes() {
    let Some(d) = device() else { return };
    for dtype in [BF16, F16] {
        for [m, n, k] in [
            [128, 128, 256],
            [128, 256, 256],
            [304, 520, 264],
            [136, 72, 1000],
            [520, 264, 328],
        ] {
            let residual = noise(&[m, n], dtype, 3, &d);
            for (left, right) in [(false, false), (false, true), (true, false), (true, true)] {
                let what = format!("{dtype} {m} {n} {k} {left} {right}");
                let a = matrix(m, k, left, dtype, 1, &d);
                let b = matrix(k, n, right, dtype, 2, &d);
                let y = one(&what, || a.matmul(&b).silu() + &residual);
                let more = numbers(&residual);
                let want = product(&a, &b).into_iter().zip(more);
                let want: Vec<f64> = want.map(|(p, r)| silu(p) + r).collect();
                close(&what, &y, &want);
            }
        }
    }
}

/// Sizes that no 16 bytes divide, along dimensions that are not dense.
#[test]
fn odd_sizes() {
    let Some(d) = device() else { return };
    for [m, n, k] in [[131, 136, 267], [67, 131, 336], [259, 265, 333]] {
        // Windows whose lines are longer.
        let wide = |rows: usize, columns: usize, seed: usize| {
            let x = noise(&[rows, columns.next_multiple_of(8) + 8], BF16, seed, &d);
            x.eval().unwrap_or_else(|e| panic!("{e}"));
            x.narrow(1, 0, columns)
        };
        for turned in [false, true] {
            let what = format!("{m} {n} {k} {turned}");
            let a = if turned {
                wide(k, m, 1).t()
            } else {
                wide(m, k, 1)
            };
            let b = if turned {
                wide(n, k, 2).t()
            } else {
                wide(k, n, 2)
            };
            let y = one(&what, || (a.matmul(&b) * 0.5).tanh());
            let want: Vec<f64> = product(&a, &b).iter().map(|p| (p * 0.5).tanh()).collect();
            close(&what, &y, &want);
        }
    }
}

/// Matrices that begin at any element.
/// Few rows by matrices of both orientations: lines that end anywhere, terms that a cluster shares or that one warp has,
/// alone and with what follows.
#[test]
fn few_rows() {
    let Some(d) = device() else { return };
    for dtype in [BF16, F16] {
        for [m, n, k] in [
            [2, 16, 8],
            [3, 515, 200],
            [7, 2048, 1000],
            [8, 64, 4104],
            [12, 1031, 264],
            [16, 4096, 512],
            [20, 40, 8192],
            [32, 2048, 2056],
        ] {
            for turned in [false, true] {
                let what = format!("{dtype} {m} {n} {k} {turned}");
                let a = noise(&[m, k], dtype, 1, &d);
                let b = matrix(k, n, turned, dtype, 2, &d);
                let (column, residual) = (noise(&[n], dtype, 3, &d), noise(&[m, n], dtype, 4, &d));
                eval([&a, &b, &column, &residual]).unwrap();
                let want = product(&a, &b);
                let run = |f: &dyn Fn() -> Tensor| {
                    let (y, stats) = stats_scope(|| {
                        let y = f();
                        y.eval().map(|()| y)
                    });
                    assert_eq!(stats.host_runs, 0, "{what}: {stats:?}");
                    y.unwrap_or_else(|e| panic!("{what}: {e}"))
                };
                close(&what, &run(&|| a.matmul(&b)), &want);
                // Operands that are computed too.
                close(&what, &run(&|| (&a + &a).matmul(&(&b * 0.5))), &want);
                let y = run(&|| (a.matmul(&b) + &column).silu() + &residual);
                let (column, residual) = (numbers(&column), numbers(&residual));
                let more = |(i, p): (usize, &f64)| silu(p + column[i % n]) + residual[i];
                let want: Vec<f64> = want.iter().enumerate().map(more).collect();
                close(&what, &y, &want);
            }
        }
    }
}

/// Lines of terms that begin at no multiple of 16 bytes, and numbers of them that are no multiple of 8.
#[test]
fn few_rows_that_are_not_aligned() {
    let Some(d) = device() else { return };
    for (first, k) in [(1, 264), (4, 100), (0, 37)] {
        let window = |rows: usize, seed: usize| {
            let x = noise(&[rows, k + 8], BF16, seed, &d);
            x.eval().unwrap_or_else(|e| panic!("{e}"));
            x.narrow(1, first, k)
        };
        let (a, b) = (window(6, 1), window(150, 2));
        let y = a.matmul(&b.t()).silu();
        let want: Vec<f64> = product(&a, &b.t()).into_iter().map(silu).collect();
        close(&format!("from {first}"), &y, &want);
    }
}

#[test]
fn unaligned_matrices() {
    let Some(d) = device() else { return };
    for first in [1, 4] {
        let window = |rows: usize, columns: usize, seed: usize| {
            let x = noise(&[rows, columns + 8], F16, seed, &d);
            x.eval().unwrap_or_else(|e| panic!("{e}"));
            x.narrow(1, first, columns)
        };
        let (a, b) = (window(272, 264, 1), window(264, 136, 2));
        let what = format!("from {first}");
        let y = one(&what, || a.matmul(&b).tanh());
        let want: Vec<f64> = product(&a, &b).iter().map(|p| p.tanh()).collect();
        close(&what, &y, &want);
        let y = one(&what, || a.t().matmul(&a).silu());
        let want: Vec<f64> = product(&a.t(), &a).into_iter().map(silu).collect();
        close(&what, &y, &want);
    }
}

/// Batches: of both, of one side alone, of heads between others.
#[test]
fn batches() {
    let Some(d) = device() else { return };
    let (m, n, k) = (136, 200, 264);
    let check = |what: &str, a: &Tensor, b: &Tensor, shape: &[usize]| {
        let y = one(what, || a.matmul(b).silu());
        let lead = |x: &Tensor| {
            let own = &x.dims()[x.rank() - 2..];
            x.broadcast_to([shape, own].concat())
        };
        let want = product(&lead(a), &lead(b));
        let want: Vec<f64> = want.into_iter().map(silu).collect();
        close(what, &y, &want);
    };
    let x = |shape: &[usize], seed: usize| noise(shape, BF16, seed, &d);
    check("both", &x(&[3, m, k], 1), &x(&[3, k, n], 2), &[3]);
    check("rows", &x(&[3, m, k], 1), &x(&[k, n], 2), &[3]);
    check("single rows", &x(&[264, 1, k], 1), &x(&[k, n], 2), &[264]);
    check("one left", &x(&[m, k], 1), &x(&[3, k, n], 2), &[3]);
    check("crossed", &x(&[3, 1, m, k], 1), &x(&[2, k, n], 2), &[3, 2]);
    let heads = x(&[2, m, 3, k], 1).permute([0, 2, 1, 3]);
    check("heads", &heads, &x(&[2, 3, k, n], 2), &[2, 3]);
    let columns = x(&[2, n, 3, k], 2).permute([0, 2, 3, 1]);
    check("heads turned", &heads, &columns, &[2, 3]);
    let three = x(&[2, m, 3, 2, k], 1).permute([3, 0, 2, 1, 4]);
    check("three", &three, &x(&[2, 1, 3, k, n], 2), &[2, 2, 3]);
}

/// Scales of rows and columns, masks, casts; the product itself and several results of one kernel.
#[test]
fn several_results() {
    let Some(d) = device() else { return };
    let (m, n, k) = (264, 392, 264);
    let (a, b) = (noise(&[m, k], F16, 1, &d), noise(&[k, n], F16, 2, &d));
    let (row, column) = (noise(&[m, 1], F32, 3, &d), noise(&[n], F16, 4, &d));
    let want = product(&a, &b);
    let all = || {
        let p = a.matmul(&b);
        let wide = p.to_dtype(F32) * &row;
        let hidden = p.gt(0.0).where_cond(&(&p + &column), p.zeros_like());
        [wide, hidden, p]
    };
    let [wide, hidden, p] = fused("three", all, |all| {
        ferrotrace::eval(all.iter()).unwrap_or_else(|e| panic!("{e}"));
    });
    close("product", &p, &want);
    let (row, column) = (numbers(&row), numbers(&column));
    let scaled = want.iter().enumerate().map(|(i, p)| p * row[i / n]);
    // The product is rounded or not, as it comes.
    let got = numbers(&wide);
    for ((g, w), p) in got.iter().zip(scaled).zip(&want) {
        assert!((g - w).abs() <= 1e-3 * p.abs() + 1e-3, "{g} for {w}");
    }
    let got = numbers(&hidden);
    for (i, (g, p)) in got.iter().zip(&want).enumerate() {
        let w = if *p > 0.0 { p + column[i % n] } else { 0.0 };
        assert!((g - w).abs() <= 2e-3 * w.abs() + 2e-2, "{g} for {w}");
    }
}

/// Operations are rounded one by one where that is asked for: the bits of eager mode, where sums are exact.
#[test]
fn rounds_one_by_one() {
    let Some(d) = device() else { return };
    let host = Device::cpu();
    for dtype in [BF16, F16] {
        let make = |d: &Device| {
            let (a, b) = (
                whole(&[160, 264], dtype, 1, d),
                whole(&[264, 320], dtype, 2, d),
            );
            (a, b, noise(&[160, 320], dtype, 3, d))
        };
        let compute = |(a, b, r): &(Tensor, Tensor, Tensor)| (a.matmul(b) * 0.3 + r) * r;
        let eager = with_mode(Mode::Eager, || compute(&make(&host)));
        let on = make(&d);
        let y = one("exact", || {
            ferrotrace::with_precision(ferrotrace::Precision::EagerExact, || compute(&on))
        });
        assert_eq!(numbers(&y), numbers(&eager), "{dtype}");
    }
}

/// Again and again, in graphs, with operands that are given away or read by what follows too.
#[test]
fn replays() {
    let Some(d) = device() else { return };
    let w = noise(&[264, 264], BF16, 2, &d);
    let weight = w.clone();
    let step = jit(move |x: &Tensor| {
        let y = x.matmul(&weight).tanh() + x;
        (&y * 0.25).matmul(&weight).silu() + y
    });
    for seed in 0..6 {
        let x = noise(&[200, 264], BF16, seed, &d);
        let first: Vec<f64> = {
            let p = product(&x, &w);
            p.iter()
                .zip(numbers(&x))
                .map(|(p, x)| p.tanh() + x)
                .collect()
        };
        let wn = numbers(&w);
        let y = step.call(&x);
        let got = numbers(&y);
        let mut worst: f64 = 0.0;
        for i in (0..200).step_by(37) {
            for j in 0..264 {
                let p: f64 = (0..264)
                    .map(|l| 0.25 * first[i * 264 + l] * wn[l * 264 + j])
                    .sum();
                let want = silu(p) + first[i * 264 + j];
                worst = worst.max((got[i * 264 + j] - want).abs() / (1.0 + want.abs()));
            }
        }
        assert!(worst < 3e-2, "{seed}: {worst}");
    }
}

/// What the library does with a product stays with it.
#[test]
fn the_library_keeps_its_own() {
    let Some(d) = device() else { return };
    let (a, b) = (
        noise(&[256, 256], BF16, 1, &d),
        noise(&[256, 256], BF16, 2, &d),
    );
    let bias = noise(&[256], BF16, 3, &d);
    let (y, stats) = stats_scope(|| {
        let y = (a.matmul(&b) + &bias).relu();
        y.eval().map(|()| y)
    });
    let y = y.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((stats.library_calls, stats.kernels_launched), (1, 0));
    let z = a.matmul(&b).silu();
    let told = ferrotrace::explain(&[&z]).to_string();
    assert!(
        told.contains("after matmul %2, computed in tiles of 128x"),
        "{told}"
    );
    let column = numbers(&bias);
    let want = product(&a, &b).into_iter().enumerate();
    let want: Vec<f64> = want.map(|(i, p)| (p + column[i % 256]).max(0.0)).collect();
    close("bias and relu", &y, &want);
}

/// Sums of rows that are no multiples of 16 bytes are read by the one kernel that adds the bias and does what follows.
#[test]
fn ragged_rows_have_their_bias_from_one_kernel() {
    let Some(d) = device() else { return };
    let (x, w) = (noise(&[96, 64], BF16, 1, &d), noise(&[50, 64], BF16, 2, &d));
    let bias = noise(&[50], BF16, 3, &d);
    // The product is the library's, or a part of that kernel. Of the two, each is computed by itself: stored together they
    // would hold more memory than one after the other.
    let alone = |f: &dyn Fn() -> Tensor| {
        let (y, stats) = stats_scope(|| {
            let y = f();
            y.eval().unwrap_or_else(|e| panic!("{e}"));
            y
        });
        assert_eq!(stats.kernels_launched, 1);
        y
    };
    let y = alone(&|| x.linear(&w, Some(&bias)));
    let z = alone(&|| x.linear(&w, Some(&bias)).relu() * 2.0);
    let (sums, column) = (product(&x, &w.t()), numbers(&bias));
    let want = sums.iter().enumerate().map(|(i, p)| p + column[i % 50]);
    let want: Vec<f64> = want.collect();
    let after: Vec<f64> = want.iter().map(|y| y.max(0.0) * 2.0).collect();
    close("linear", &y, &want);
    close("what follows", &z, &after);
}

/// Matrices of heads that lie side by side, ones of a batch in another order, one for several: few calls, or a copy and one call.
/// Every mode, and a function's graph.
#[test]
fn batches_lie_in_any_order() {
    let Some(d) = device() else { return };
    for dtype in [F32, BF16] {
        let heads = |of: [usize; 4], seed| {
            let [batch, heads, rows, columns] = of;
            whole(&[batch, rows, heads, columns], dtype, seed, &d).transpose(1, 2)
        };
        let turned = whole(&[3, 2, 4, 12, 16], dtype, 5, &d).permute([2, 0, 1, 3, 4]);
        let pairs = [
            (
                heads([16, 3, 20, 16], 1),
                heads([16, 3, 24, 16], 2).transpose(2, 3),
            ),
            (heads([3, 40, 20, 9], 1), heads([3, 40, 9, 17], 2)),
            (
                whole(&[16, 3, 20, 24], dtype, 3, &d),
                heads([16, 3, 24, 16], 2),
            ),
            (heads([16, 3, 20, 24], 1), whole(&[3, 24, 16], dtype, 3, &d)),
            (heads([16, 3, 20, 24], 1).flip(1), heads([16, 3, 24, 16], 2)),
            (turned, whole(&[4, 1, 2, 16, 10], dtype, 6, &d)),
        ];
        for (i, (a, b)) in pairs.iter().enumerate() {
            let what = format!("{dtype} {i}");
            let lead = |x: &Tensor| Shape::from(&x.dims()[..x.rank() - 2]);
            let batch = lead(a).broadcast(&lead(b)).expect("one batch");
            let spread = |x: &Tensor| {
                let shape: Vec<usize> = (batch.iter())
                    .chain(&x.dims()[x.rank() - 2..])
                    .copied()
                    .collect();
                x.expand(&shape[..])
            };
            let want = product(&spread(a), &spread(b));
            for mode in [Mode::Eager, Mode::Compiled] {
                let y = with_mode(mode, || {
                    let y = a.matmul(b);
                    y.eval().map(|()| y)
                });
                let y = y.unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_eq!(numbers(&y), want, "{what} {mode:?}");
            }
            let function = jit(|(a, b): (&Tensor, &Tensor)| (a.matmul(b) * 0.5).tanh());
            let want: Vec<f64> = want.iter().map(|x| (x * 0.5).tanh()).collect();
            for _ in 0..5 {
                close(&what, &function.call((a, b)), &want);
            }
        }
    }
}
