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

/// A running sum over rows takes off what its last addition rounded: its error does not grow with its length.
#[test]
fn running_sums_over_rows_do_not_drift() {
    let (rows, columns) = (1 << 18, 32);
    let x = Tensor::full([rows, columns], 0.1, DType::F32, &Device::cpu());
    modes(|mode| {
        let got = x.cumsum(0).to_vec::<f32>().expect("runs");
        for row in (0..rows).step_by(1021).chain([rows - 1]) {
            let want = f64::from(0.1f32) * (row + 1) as f64;
            let units = (f64::from(got[row * columns]) - want).abs() / (want * f64::exp2(-24.0));
            assert!(units <= 2.0, "{mode} after {row} rows: {units:.1} units");
        }
    });
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

/// Products of several rows and columns: those that the library adds alone, and those that are cut, whose operands lie in
/// any order, are computed as they are read, and are taken up by a kernel.
#[test]
fn products_of_matrices() {
    let n = most();
    let d = Device::cpu();
    for kind in KINDS {
        let all: Vec<f32> = (0..n).map(kind).collect();
        let whole = Tensor::from_slice(&all, n, &d);
        for (rows, columns) in [(2, 3), (8, 5), (64, 64), (100, 70), (3, 300)] {
            let k = n / rows.max(columns);
            let of = sums(&all, (0..rows).map(|r| r * k..(r + 1) * k));
            let a = whole.narrow(0, 0, rows * k).reshape([rows, k]);
            // Powers of two: the sums are those of the rows.
            let weights: Vec<f32> = (0..columns).map(|j| [1.0, -0.5, 2.0][j % 3]).collect();
            let b = Tensor::from_slice(&weights, [1, columns], &d).expand([k, columns]);
            let b = b.contiguous();
            modes(|mode| {
                let turned = (a.t().contiguous().t(), b.t().contiguous().t());
                for (name, got) in [
                    ("product", a.matmul(&b)),
                    ("of turned rows", turned.0.matmul(&b)),
                    ("of turned columns", a.matmul(&turned.1)),
                    ("of both turned", turned.0.matmul(&turned.1)),
                    ("einsum", Tensor::einsum("ik,kj->ij", &[&a, &b])),
                    ("linear", a.linear(&turned.1.t(), None)),
                    ("of a function", (&a * 2.0).matmul(&b) / 2.0),
                    ("before a function", (a.matmul(&b) * 4.0).relu() / 4.0),
                    (
                        "batch",
                        a.unsqueeze(0)
                            .matmul(&b.unsqueeze(0).expand([2, k, columns])),
                    ),
                ] {
                    let got = read(&got);
                    for (r, (want, magnitude)) in of.iter().enumerate() {
                        for (j, &weight) in weights.iter().enumerate() {
                            let weight = f64::from(weight);
                            let mut want = want * weight;
                            if name == "before a function" {
                                want = want.max(0.0);
                            }
                            let name = format!("{mode} {name} [{rows}, {k}, {columns}]");
                            let got = got[r * columns + j];
                            near(&name, got, want, magnitude * weight.abs());
                        }
                    }
                }
            });
        }
    }
}

/// Sums of half types, which are computed in binary32: the result is the sum rounded once.
#[test]
fn products_of_halves() {
    let n = most();
    let d = Device::cpu();
    for (rows, columns) in [(4, 3), (64, 64)] {
        let k = n / rows.max(columns);
        // 1 + 2⁻⁷ is a number of the type; the sum lies in the middle of a step of the result.
        let a = Tensor::full([rows, k], 1.0078125, DType::BF16, &d);
        let b = Tensor::full([k, columns], 1.0 / k as f64, DType::F32, &d).to_dtype(DType::BF16);
        let b_value = read(&b.narrow(0, 0, 1).narrow(1, 0, 1))[0];
        let want = 1.0078125 * b_value * k as f64;
        modes(|mode| {
            for got in read(&a.matmul(&b)) {
                let step = f64::exp2(-8.0) * want;
                assert!((got - want).abs() <= step, "{mode}: {got} for {want}");
            }
        });
    }
}

/// An element of a convolution of step `step` without padding, and the sum of magnitudes.
fn convolved(
    (x, sizes): (&[f32], [usize; 3]),
    (w, kernel): (&[f32], [usize; 2]),
    step: usize,
    at: [usize; 2],
) -> (f64, f64) {
    let [channels, _, width] = sizes;
    let (mut sum, mut magnitude) = (0.0, 0.0);
    for c in 0..channels {
        for i in 0..kernel[0] {
            for j in 0..kernel[1] {
                let from = (c * sizes[1] + at[0] * step + i) * width + at[1] * step + j;
                let tap = (c * kernel[0] + i) * kernel[1] + j;
                let term = f64::from(x[from]) * f64::from(w[tap]);
                sum += term;
                magnitude += term.abs();
            }
        }
    }
    (sum, magnitude)
}

/// Convolutions of many channels and of large windows (as gradients of weights are), and transposed ones.
#[test]
fn convolutions() {
    let d = Device::cpu();
    let large = (most() >> 5).isqrt();
    for kind in KINDS {
        // Input channels and its sides, output channels, the window and its step.
        for (channels, input, outputs, kernel, step) in [
            (1100, [9, 8], 8, [3, 3], 1),
            (1100, [9, 9], 3, [3, 3], 2),
            (1100, [9, 13], 8, [3, 3], 2),
            (9000, [1, 8], 5, [1, 1], 1),
            (9000, [3, 3], 9, [1, 1], 1),
            (9000, [1, 16], 8, [1, 2], 2),
            (8, [large + 2, large + 2], 9, [large, large], 1),
            (1, [3, most() >> 3], 1, [1, most() >> 4], 1),
            (6, [20, 90], 8, [15, 64], 1),
        ] {
            let x: Vec<f32> = (0..channels * input[0] * input[1]).map(kind).collect();
            let taps = channels * kernel[0] * kernel[1];
            let w: Vec<f32> = (0..taps).map(|i| [1.0, 0.5, 2.0][i / 7 % 3]).collect();
            let [height, width] = [0, 1].map(|i| ((input[i] - kernel[i]) / step + 1).min(9));
            let inputs = [
                channels,
                (height - 1) * step + kernel[0],
                (width - 1) * step + kernel[1],
            ];
            let of = Tensor::from_slice(&x, [1, channels, input[0], input[1]], &d);
            let of = of
                .narrow(2, 0, inputs[1])
                .narrow(3, 0, inputs[2])
                .contiguous();
            let x = of.to_vec::<f32>().expect("runs");
            let weight = Tensor::from_slice(&w, [1, channels, kernel[0], kernel[1]], &d);
            let weight = weight.expand([outputs, channels, kernel[0], kernel[1]]);
            let weight = weight.contiguous();
            modes(|mode| {
                let conv = || of.conv2d(&weight, None, [step; 2], [0; 2], [1; 2], 1);
                let (plain, taken) = (read(&conv()), read(&(conv().abs() * 2.0)));
                for i in 0..height {
                    for j in 0..width {
                        let at = [i, j];
                        let (want, magnitude) = convolved((&x, inputs), (&w, kernel), step, at);
                        let last = ((outputs - 1) * height + i) * width + j;
                        let name = format!("{mode} {channels} {kernel:?} {step} at {at:?}");
                        near(&name, plain[last], want, magnitude);
                        near(&name, plain[i * width + j], want, magnitude);
                        near(&name, taken[last], 2.0 * want.abs(), 2.0 * magnitude);
                    }
                }
            });
        }
        let (positions, taps) = (700, 900);
        let x: Vec<f32> = (0..positions).map(kind).collect();
        let input = Tensor::from_slice(&x, [1, 1, positions], &d);
        let weight = Tensor::ones([1, 2, taps], DType::F32, &d);
        modes(|mode| {
            let got = read(&input.conv_transpose1d(&weight, None, 1, 0, 0, 1, 1));
            for at in [0, 300, 699, 750, 1500] {
                let first = (at + 1usize).saturating_sub(taps);
                let of = sums(&x, std::iter::once(first..positions.min(at + 1)))[0];
                near(&format!("{mode} transposed at {at}"), got[at], of.0, of.1);
            }
        });
    }
}

/// The other losses over many elements, and over many samples.
#[test]
fn losses() {
    let n = most();
    let d = Device::cpu();
    let uniform: Vec<f32> = (0..n).map(KINDS[2]).collect();
    for kind in [KINDS[0], KINDS[2]] {
        let all: Vec<f32> = (0..n).map(kind).collect();
        let (x, t) = (
            Tensor::from_slice(&all, n, &d),
            Tensor::from_slice(&uniform, n, &d),
        );
        let mean = |f: &dyn Fn(f64, f64) -> f64| {
            let pairs = all.iter().zip(&uniform);
            let terms = pairs.map(|(&x, &t)| f(f64::from(x), f64::from(t)));
            terms.sum::<f64>() / n as f64
        };
        let smooth = mean(&|x, t| match (x - t).abs() {
            d if d < 1.0 => d * d / 2.0,
            d => d - 0.5,
        });
        let logistic = mean(&|x, t| x.max(0.0) - x * t + (-x.abs()).exp().ln_1p());
        let samples = n / 4;
        let classes: Vec<i64> = (0..samples as i64).map(|i| i % 4).collect();
        let rows = all.chunks_exact(4).zip(&classes);
        let entropy: f64 = rows
            .map(|(row, &c)| {
                let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
                sum.ln() - f64::from(row[c as usize])
            })
            .sum();
        let scores = x.reshape([samples, 4]);
        let classes = Tensor::from_slice(&classes, samples, &d);
        modes(|mode| {
            for (name, got, want) in [
                ("smooth_l1", x.smooth_l1_loss(&t, 1.0), smooth),
                ("bce", x.binary_cross_entropy_with_logits(&t), logistic),
                (
                    "cross_entropy",
                    scores.cross_entropy(&classes),
                    entropy / samples as f64,
                ),
                (
                    "cross_entropy, summed",
                    scores.cross_entropy_reduced(&classes, Reduction::Sum),
                    entropy,
                ),
            ] {
                near(&format!("{mode} {name}"), read(&got)[0], want, want.abs());
            }
        });
    }
}

/// Some sources, and a few thousand, in one place or in few, alone and as rows.
#[test]
fn crowds() {
    let d = Device::cpu();
    for kind in KINDS {
        for count in [60, 2100, 3000] {
            for (places, size) in [(1, 1), (1, 50_000), (3, 3000)] {
                let x: Vec<f32> = (0..count * 5).map(kind).collect();
                let index: Vec<i64> = (0..count)
                    .map(|i| (i % places * (size / places)) as i64)
                    .collect();
                let at = Tensor::from_slice(&index, count, &d);
                let rows = Tensor::from_slice(&x, [count, 5], &d);
                let wide = at.unsqueeze(1).expand([count, 5]);
                let want = sums(
                    &x,
                    (0..places).map(|p| (p..count).step_by(places).map(|r| r * 5 + 2)),
                );
                modes(|mode| {
                    let zeros = Tensor::zeros([size, 5], DType::F32, &d);
                    let column = rows.narrow(1, 2, 1).squeeze(1);
                    let zero = zeros.narrow(1, 0, 1).squeeze(1);
                    for (name, got) in [
                        ("index_put", zeros.index_put(&[Some(&at)], &rows, true)),
                        ("index_add", zeros.index_add(0, &at, &(&rows * 1.0))),
                        ("scatter_add", zeros.scatter_add(0, &wide, &rows)),
                        (
                            "scatter_add of columns",
                            zeros.t().scatter_add(1, &wide.t(), &rows.t()).t(),
                        ),
                        ("of numbers", zero.scatter_add(0, &at, &column)),
                        ("at numbers", zero.index_put(&[Some(&at)], &column, true)),
                    ] {
                        let step = if got.rank() == 2 { 5 } else { 1 };
                        let got = read(&got);
                        for (p, &(want, magnitude)) in want.iter().enumerate() {
                            let at = p * (size / places) * step + if step == 5 { 2 } else { 0 };
                            let name = format!("{mode} {name}, {count} to {places} of {size}");
                            near(&name, got[at], want, magnitude);
                        }
                    }
                });
            }
        }
    }
}
