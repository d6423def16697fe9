//! Errors of long sums: what is computed in binary32, in both modes, against binary64, is off by at most 16 · 2⁻²⁴ of the
//! sum of magnitudes, however many terms there are.
//!
//! `FERROTRACE_SUMS=27` compares 2²⁷ elements in place of 2²².

use ferrotrace::prelude::*;

/// Elements of a case.
fn most() -> usize {
    let asked = std::env::var("FERROTRACE_SUMS").ok();
    1 << asked.and_then(|n| n.parse::<u32>().ok()).unwrap_or(22)
}

/// Terms that round alike when they are added one by one, that do not, and of both signs.
const KINDS: [fn(usize) -> f32; 4] = [
    |_| 0.1,
    |_| 1.000_000_1,
    |i| (i.wrapping_mul(2_654_435_761) >> 7 & 0xffff) as f32 / 65_536.0,
    |i| (i.wrapping_mul(2_654_435_761) >> 7 & 0xffff) as f32 / 32_768.0 - 1.0,
];

/// Both modes.
fn modes(test: impl Fn(&str)) {
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || test(&format!("{mode:?}")));
    }
}

#[track_caller]
fn near(name: &str, got: f64, want: f64, magnitude: f64) {
    let units = (got - want).abs() / (magnitude * f64::exp2(-24.0));
    assert!(
        got == want || units <= 16.0,
        "{name}: {got} for {want}, {units:.1} units"
    );
}

/// (Σ x, Σ |x|) of each of the sequences of indices.
fn sums(x: &[f32], of: impl Iterator<Item = impl Iterator<Item = usize>>) -> Vec<(f64, f64)> {
    of.map(|indices| {
        indices.fold((0.0, 0.0), |(sum, most), i| {
            let x = f64::from(x[i]);
            (sum + x, most + x.abs())
        })
    })
    .collect()
}

fn read(t: &Tensor) -> Vec<f64> {
    t.to_dtype(DType::F64).to_vec::<f64>().expect("runs")
}

/// Sums and means over the first, the last and both dimensions, of every ratio of rows to columns, and of what is not
/// stored.
#[test]
fn sums_of_rows_and_columns() {
    let n = most();
    let d = Device::cpu();
    for kind in KINDS {
        let all: Vec<f32> = (0..n).map(kind).collect();
        let whole = Tensor::from_slice(&all, n, &d);
        for bits in [0, 3, 7, 12, 18] {
            let (rows, columns) = (1 << bits, (n - 5) >> bits);
            let x = whole.narrow(0, 3, rows * columns).reshape([rows, columns]);
            let all = &all[3..];
            let by_row = sums(all, (0..rows).map(|r| r * columns..(r + 1) * columns));
            let by_column = sums(
                all,
                (0..columns.min(99)).map(|c| (0..rows).map(move |r| r * columns + c)),
            );
            modes(|mode| {
                let name = format!("{mode} [{rows}, {columns}]");
                for (got, &(want, magnitude)) in read(&x.sum(1)).iter().zip(&by_row) {
                    near(&format!("{name} sum(1)"), *got, want, magnitude);
                }
                for (got, &(want, magnitude)) in read(&(&x * 2.0).sum(0)).iter().zip(&by_column) {
                    near(&format!("{name} sum(0)"), *got, 2.0 * want, 2.0 * magnitude);
                }
                for (got, &(want, magnitude)) in read(&x.mean(1)).iter().zip(&by_row) {
                    let n = columns as f64;
                    near(&format!("{name} mean(1)"), *got, want / n, magnitude / n);
                }
                let (want, magnitude) = by_row
                    .iter()
                    .fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
                let got = read(&(-&x).sum(..))[0];
                near(&format!("{name} sum(..)"), got, -want, magnitude);
            });
        }
    }
}

/// Reductions over dimensions that are no one run of memory.
#[test]
fn sums_over_several_dimensions() {
    let n = most();
    let d = Device::cpu();
    for kind in [KINDS[0], KINDS[2]] {
        let all: Vec<f32> = (0..n).map(kind).collect();
        for inner in [3, 40, 1000] {
            let outer = n / (5 * inner);
            let x = Tensor::from_slice(&all[..outer * 5 * inner], [outer, 5, inner], &d);
            let want = sums(
                &all,
                (0..5).map(|k| {
                    let runs = (0..outer).map(move |o| (o * 5 + k) * inner);
                    runs.flat_map(|at| at..at + inner)
                }),
            );
            modes(|mode| {
                for (got, &(want, magnitude)) in read(&x.sum([0, 2])).iter().zip(&want) {
                    near(&format!("{mode} {inner}"), *got, want, magnitude);
                }
            });
        }
    }
}

/// Sums behind functions: variances, norms, softmax, log Σ exp and losses.
#[test]
fn sums_of_functions() {
    let n = most();
    let d = Device::cpu();
    for kind in KINDS {
        let all: Vec<f32> = (0..n).map(kind).collect();
        let whole = Tensor::from_slice(&all, n, &d);
        for rows in [1, 8, 1 << 12] {
            let columns = n / rows;
            let x = whole.reshape([rows, columns]);
            let of_row = |f: &dyn Fn(f64) -> f64| -> Vec<f64> {
                let rows = all.chunks(columns);
                rows.map(|row| row.iter().map(|&x| f(f64::from(x))).sum())
                    .collect()
            };
            let squares = of_row(&|x| x * x);
            let powers = of_row(&f64::exp);
            let means: Vec<f64> = of_row(&|x| x).iter().map(|s| s / columns as f64).collect();
            modes(|mode| {
                let name = format!("{mode} [{rows}, {columns}]");
                let logs = read(&x.logsumexp(1));
                let norms = read(&x.norm(2.0, 1));
                let shares = read(&x.softmax(1).narrow(1, 0, 1));
                let spread = read(&x.var(1, 0));
                let losses = read(&x.mse_loss(&x.zeros_like()));
                for r in 0..rows {
                    near(
                        &format!("{name} norm"),
                        norms[r],
                        squares[r].sqrt(),
                        squares[r].sqrt(),
                    );
                    // One unit of log Σ exp is one of the sum over it.
                    let want = powers[r].ln();
                    near(
                        &format!("{name} logsumexp"),
                        logs[r],
                        want,
                        want.abs() + 1.0,
                    );
                    let first = f64::from(all[r * columns]).exp();
                    near(
                        &format!("{name} softmax"),
                        shares[r],
                        first / powers[r],
                        2.0 * first / powers[r],
                    );
                    let row = &all[r * columns..][..columns];
                    let about: f64 = row.iter().map(|&x| (f64::from(x) - means[r]).powi(2)).sum();
                    let n = columns as f64;
                    near(
                        &format!("{name} var"),
                        spread[r],
                        about / n,
                        about / n + means[r] * means[r] * 1e-7,
                    );
                }
                let want = squares.iter().sum::<f64>() / n as f64;
                near(&format!("{name} mse"), losses[0], want, want);
            });
        }
    }
}

/// Scans along rows and columns, few and many.
#[test]
fn scans() {
    let n = most();
    let d = Device::cpu();
    for kind in KINDS {
        let all: Vec<f32> = (0..n).map(kind).collect();
        let whole = Tensor::from_slice(&all, n, &d);
        for bits in [0, 2, 6, 10] {
            let (rows, columns) = (1 << bits, n >> bits);
            modes(|mode| {
                for (dim, len, lanes) in [(1, columns, rows), (0, columns, rows)] {
                    let x = match dim {
                        1 => whole.reshape([rows, columns]),
                        _ => whole.reshape([columns, rows]),
                    };
                    let got = x.cumsum(dim).to_vec::<f32>().expect("runs");
                    for lane in [0, lanes / 2, lanes - 1] {
                        let (mut want, mut magnitude) = (0.0, 0.0);
                        for i in 0..len {
                            let at = match dim {
                                1 => lane * columns + i,
                                _ => i * rows + lane,
                            };
                            want += f64::from(all[at]);
                            magnitude += f64::from(all[at].abs());
                            if (f64::from(got[at]) - want).abs() > magnitude * f64::exp2(-20.0) {
                                let name =
                                    format!("{mode} [{rows}, {columns}] cumsum({dim}) at {i}");
                                near(&name, got[at].into(), want, magnitude);
                            }
                        }
                    }
                }
            });
        }
    }
}

/// Pooled means, products by vectors and dot products, einsum.
#[test]
fn pools_and_products() {
    let n = most();
    let d = Device::cpu();
    for kind in KINDS {
        let all: Vec<f32> = (0..n).map(kind).collect();
        let whole = Tensor::from_slice(&all, n, &d);
        let side = n.isqrt();
        let plane = whole.narrow(0, 0, side * side).reshape([1, 1, side, side]);
        let of = sums(&all, std::iter::once(0..side * side))[0];
        let by_row = sums(&all, (0..8).map(|r| r * (n / 8)..(r + 1) * (n / 8)));
        modes(|mode| {
            let pooled = read(&plane.adaptive_avg_pool2d([1, 1]))[0];
            let count = (side * side) as f64;
            near(
                &format!("{mode} adaptive"),
                pooled,
                of.0 / count,
                of.1 / count,
            );
            let pooled = read(&plane.avg_pool2d([side, side], [1, 1], [0, 0]))[0];
            near(&format!("{mode} pool"), pooled, of.0 / count, of.1 / count);
            let a = whole.reshape([8, n / 8]);
            let ones = Tensor::ones(n / 8, DType::F32, &d);
            for (name, got) in [
                ("matrix by vector", read(&a.matmul(&ones))),
                ("vector by matrix", read(&ones.matmul(&a.t()))),
                (
                    "vector by matrix of columns",
                    read(&ones.matmul(&a.t().contiguous())),
                ),
                (
                    "matrix by column",
                    read(&a.matmul(&ones.reshape([n / 8, 1]))),
                ),
                ("einsum", read(&Tensor::einsum("ij,j->i", &[&a, &ones]))),
                ("einsum of one", read(&Tensor::einsum("ij->i", &[&a]))),
            ] {
                for (r, &(want, magnitude)) in by_row.iter().enumerate() {
                    near(&format!("{mode} {name}"), got[r], want, magnitude);
                }
            }
        });
    }
}

/// Many sources that meet in one place, in few, in many; of rows and of elements.
#[test]
fn scatters() {
    let n = most();
    let d = Device::cpu();
    for kind in KINDS {
        let all: Vec<f32> = (0..n).map(kind).collect();
        let whole = Tensor::from_slice(&all, n, &d);
        for (places, size) in [(1, 1), (1, 100_000), (7, 7), (1000, 5000)] {
            let index: Vec<i64> = (0..n)
                .map(|i| (i % places * (size / places)) as i64)
                .collect();
            let at = Tensor::from_slice(&index, n, &d);
            let want = sums(&all, (0..places).map(|p| (p..n).step_by(places)));
            modes(|mode| {
                let zeros = Tensor::zeros(size, DType::F32, &d);
                for (name, got) in [
                    ("scatter_add", read(&zeros.scatter_add(0, &at, &whole))),
                    (
                        "index_put",
                        read(&zeros.index_put(&[Some(&at)], &whole, true)),
                    ),
                    (
                        "of a function",
                        read(&(zeros.scatter_add(0, &at, &(&whole * 2.0)) / 2.0)),
                    ),
                ] {
                    for (p, &(want, magnitude)) in want.iter().enumerate() {
                        let name = format!("{mode} {name} of {places} in {size}");
                        near(&name, got[p * (size / places)], want, magnitude);
                    }
                }
            });
            // Rows.
            let rows = n / 20;
            let at = Tensor::from_slice(&index[..rows], rows, &d);
            let x = whole.narrow(0, 0, rows * 20).reshape([rows, 20]);
            let want = sums(
                &all,
                (0..places).map(|p| (p..rows).step_by(places).map(|r| r * 20 + 11)),
            );
            modes(|mode| {
                let zeros = Tensor::zeros([size, 20], DType::F32, &d);
                let got = read(&zeros.index_put(&[Some(&at)], &x, true));
                for (p, &(want, magnitude)) in want.iter().enumerate() {
                    let name = format!("{mode} rows of {places} in {size}");
                    near(&name, got[p * (size / places) * 20 + 11], want, magnitude);
                }
            });
        }
    }
}
