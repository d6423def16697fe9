//! The forms of kernels on a CUDA device: tiles, long rows, scans, and the errors of approximated functions.
//! References are computed here in binary64. Where there is no device, every test says so and passes.

#[path = "../common/mod.rs"]
mod common;

use common::{data, device, near, value};
use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

/// Numbers without a period, for errors of sums that grow with the root of their count.
fn noise(n: usize) -> Vec<f32> {
    let mix = |h: u32, by: u32, shift: u32| (h ^ (h >> shift)).wrapping_mul(by);
    let bits = |i: usize| {
        mix(
            mix((i as u32).wrapping_mul(0x9e37_79b1), 0x846c_a68b, 15),
            1,
            13,
        )
    };
    (0..n)
        .map(|i| (bits(i) % 4001) as f32 / 1000.0 - 2.0)
        .collect()
}

/// Turned operands of every width, with edges and offsets that no access of 16 bytes fits, beside others as they lie.
#[test]
fn transposed_operands() {
    let Some(d) = device() else { return };
    for (rows, columns, first) in [(64, 64, 0), (200, 136, 0), (131, 77, 1), (16, 1000, 3)] {
        for dtype in [F32, F64, BF16, F16, U8, I64] {
            let n = rows * columns + first;
            let whole: Vec<f32> = (0..n).map(|i| (i * 31 % 101) as f32).collect();
            let flat = Tensor::from_slice(&whole, n, &d).to_dtype(dtype);
            flat.eval().expect("runs");
            let turned = flat
                .narrow(0, first as isize, rows * columns)
                .reshape([columns, rows])
                .t();
            let plain = flat
                .narrow(0, first as isize, rows * columns)
                .reshape([rows, columns]);
            let row = flat.narrow(0, 0, columns);
            let got = ((&turned + &turned) + &plain + &row).to_dtype(F32);
            let got = got.to_vec::<f32>().expect("runs");
            for r in 0..rows {
                for c in 0..columns {
                    let want = 2.0 * whole[first + c * rows + r]
                        + whole[first + r * columns + c]
                        + whole[c];
                    let want = match dtype {
                        U8 => want % 256.0,
                        _ => want,
                    };
                    let at = got[r * columns + c];
                    // Sums up to 400 are exact but in bfloat16, which has eight bits.
                    let slack = if dtype == BF16 { 4.0 } else { 0.0 };
                    assert!(
                        (at - want).abs() <= slack,
                        "{dtype} {rows}x{columns} {r} {c}: {at} for {want}"
                    );
                }
            }
        }
    }
}

/// Permutations of three and four dimensions, batched and with both operands turned.
#[test]
fn permuted_operands() {
    let Some(d) = device() else { return };
    let whole = data(5 * 70 * 90);
    let x = Tensor::from_slice(&whole, [5, 70, 90], &d);
    for order in [[0, 2, 1], [1, 2, 0], [2, 1, 0], [2, 0, 1], [1, 0, 2]] {
        let got = (x.permute(order) * 2.0).to_vec::<f32>().expect("runs");
        let (dims, strides) = ([5, 70, 90], [6300, 90, 1]);
        let [a, b, c] = order;
        let mut at = 0;
        for i in 0..dims[a] {
            for j in 0..dims[b] {
                for k in 0..dims[c] {
                    let from = i * strides[a] + j * strides[b] + k * strides[c];
                    assert_eq!(got[at], whole[from] * 2.0, "{order:?} {i} {j} {k}");
                    at += 1;
                }
            }
        }
    }
}

/// Extremes of a few negated integers, which a compiler may join to fewer instructions.
#[test]
fn extremes_of_negated_integers() {
    let Some(d) = device() else { return };
    let whole: Vec<i32> = (0..7 * 300).map(|i| (i * 7919 % 41) - 20).collect();
    let x = Tensor::from_slice(&whole, [300, 7], &d);
    for dtype in [I32, DType::I16, DType::I8] {
        let x = -x.to_dtype(dtype);
        let got = [x.max(1), x.min(1)].map(|t| t.to_dtype(I32).to_vec::<i32>().expect("runs"));
        for (r, row) in whole.chunks(7).enumerate() {
            assert_eq!(
                Some(got[0][r]),
                row.iter().map(|x| -x).max(),
                "{dtype}: {row:?}"
            );
            assert_eq!(
                Some(got[1][r]),
                row.iter().map(|x| -x).min(),
                "{dtype}: {row:?}"
            );
        }
    }
}

/// Softmax and log-sum-exp of rows past every threshold, with −∞ at the front, whole rows of it, +∞ and NaN.
#[test]
fn long_rows() {
    let Some(d) = device() else { return };
    for (rows, columns) in [(300, 40_000), (270, 65_536), (257, 99_999)] {
        let mut whole = data(rows * columns);
        for (r, row) in whole.chunks_mut(columns).enumerate() {
            match r {
                0 => row[..columns / 2].fill(f32::NEG_INFINITY),
                1 => row.fill(f32::NEG_INFINITY),
                2 => row[columns - 1] = f32::INFINITY,
                3 => row[17] = f32::NAN,
                4 => row
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, x)| *x += i as f32 * 0.01),
                5 => row
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, x)| *x -= i as f32 * 0.01),
                _ => {}
            }
        }
        for dtype in [F32, BF16] {
            let x = Tensor::from_slice(&whole, [rows, columns], &d).to_dtype(dtype);
            x.eval().expect("runs");
            let used = x.to_dtype(F32).to_vec::<f32>().expect("runs");
            let soft = x.softmax(1).to_dtype(F32).to_vec::<f32>().expect("runs");
            let sums = x.logsumexp(1).to_dtype(F32).to_vec::<f32>().expect("runs");
            let tolerance = if dtype == F32 { 2e-5 } else { 8e-3 };
            for r in (0..rows).filter(|r| r % 37 < 6) {
                let row: Vec<f64> = used[r * columns..][..columns]
                    .iter()
                    .map(|&x| x.into())
                    .collect();
                let most = row.iter().copied().fold(f64::NEG_INFINITY, |a, b| {
                    if b.is_nan() || a.is_nan() {
                        f64::NAN
                    } else {
                        a.max(b)
                    }
                });
                let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
                let finite = most.is_finite();
                if finite {
                    near(sums[r].into(), most + sum.ln(), tolerance);
                }
                for (c, x) in row.iter().enumerate().step_by(13) {
                    let got = f64::from(soft[r * columns + c]);
                    let want = (x - most).exp() / sum;
                    assert!(
                        (got - want).abs() <= tolerance * want + 1e-38
                            || got.is_nan() && want.is_nan(),
                        "{dtype} {rows}x{columns} {r} {c}: {got} for {want}"
                    );
                }
            }
        }
    }
}

/// Running sums of rows and columns of every form, of every width, forwards and backwards, beside binary64; the same bits
/// every time.
#[test]
fn running_sums() {
    let Some(d) = device() else { return };
    let shapes = [
        (3_000, 33),
        (700, 512),
        (700, 4097),
        (300, 8192),
        (270, 50_001),
        (1, 3_000_001),
        (3, 700_000),
        (100_001, 3),
        (900, 1_500),
    ];
    for (rows, columns) in shapes {
        let whole = noise(rows * columns);
        for (dtype, tolerance) in [(F32, 3e-6), (F64, 1e-13), (BF16, 9e-3), (F16, 2e-3)] {
            let x = Tensor::from_slice(&whole, [rows, columns], &d).to_dtype(dtype);
            x.eval().expect("runs");
            let used = x.to_dtype(F64).to_vec::<f64>().expect("runs");
            let run = || {
                let forwards = [x.cumsum(1), x.cumsum(0)];
                let backwards = [x.flip([1]).cumsum(1).flip([1]), x.flip([0]).cumsum(0)];
                let all = [forwards, backwards].concat();
                let all: Vec<Tensor> = all.iter().map(|t| t.to_dtype(F64)).collect();
                eval(&all).expect("runs");
                let read = |t: &Tensor| t.to_vec::<f64>().expect("runs");
                all.iter().map(read).collect::<Vec<_>>()
            };
            let first = run();
            assert!(first == run(), "{dtype} {rows}x{columns}");
            let at = |r: usize, c: usize| used[r * columns + c];
            let close = |got: f64, want: f64, mass: f64, what: &str| {
                assert!(
                    (got - want).abs() <= tolerance * (mass + 1.0),
                    "{dtype} {rows}x{columns} {what}: {got} for {want}"
                );
            };
            for r in 0..rows {
                let (mut sum, mut mass) = (0.0, 0.0);
                for c in 0..columns {
                    (sum, mass) = (sum + at(r, c), mass + at(r, c).abs());
                    close(
                        first[0][r * columns + c],
                        sum,
                        mass.sqrt() + sum.abs(),
                        "along rows",
                    );
                }
                (sum, mass) = (0.0, 0.0);
                for c in (0..columns).rev() {
                    (sum, mass) = (sum + at(r, c), mass + at(r, c).abs());
                    close(
                        first[2][r * columns + c],
                        sum,
                        mass.sqrt() + sum.abs(),
                        "backwards",
                    );
                }
            }
            for c in 0..columns {
                let (mut sum, mut mass) = (0.0, 0.0);
                for r in 0..rows {
                    (sum, mass) = (sum + at(r, c), mass + at(r, c).abs());
                    close(
                        first[1][r * columns + c],
                        sum,
                        mass.sqrt() + sum.abs(),
                        "along columns",
                    );
                }
                (sum, mass) = (0.0, 0.0);
                for r in 0..rows {
                    (sum, mass) = (sum + at(rows - 1 - r, c), mass + at(rows - 1 - r, c).abs());
                    close(
                        first[3][r * columns + c],
                        sum,
                        mass.sqrt() + sum.abs(),
                        "upwards",
                    );
                }
            }
        }
    }
}

/// Scans of integers, extremes with their places, scans of scans, and what joins the loop, the same as on the CPU.
#[test]
fn scans_as_on_the_cpu() {
    let Some(d) = device() else { return };
    let cpu = Device::cpu();
    for (rows, columns) in [
        (500, 40),
        (40, 500),
        (300, 9_000),
        (2, 200_000),
        (200_000, 2),
    ] {
        let whole: Vec<i32> = (0..rows * columns)
            .map(|i| (i * 7919 % 2003) as i32)
            .collect();
        let mut floats: Vec<f32> = whole.iter().map(|&x| (x % 97) as f32 - 40.0).collect();
        floats[rows * columns / 3] = f32::NAN;
        let run = |d: &Device| {
            let x = Tensor::from_slice(&whole, [rows, columns], d);
            let y = Tensor::from_slice(&floats, [rows, columns], d);
            let mut all = Vec::new();
            for dim in [0, 1] {
                let (most, highest) = y.cummax(dim);
                let (least, lowest) = x.cummin(dim);
                all.extend([
                    most.nan_to_num(7.0, f32::INFINITY, f32::NEG_INFINITY),
                    highest,
                    least,
                    lowest,
                ]);
                all.push(x.cumsum(dim).cumsum(dim));
                all.push((x.to_dtype(U8) + 1u8).cumprod(dim) * 2);
                let sums = (&x * 3).cumsum(dim) - 5;
                all.extend([sums.sum(dim), sums.max(dim), &sums * &x]);
                all.push(x.gt(2000).to_dtype(Bool).cummax(dim).0);
            }
            eval(&all).expect("runs");
            let read = |t: &Tensor| t.to_dtype(F64).to_vec::<f64>().expect("runs");
            all.iter().map(read).collect::<Vec<_>>()
        };
        let (got, want) = (run(&d), run(&cpu));
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            assert!(got == want, "{rows}x{columns} result {i}");
        }
    }
}

/// Binary32 numbers by their bits without the sign, `from` to `from + n`.
fn patterns(from: i64, n: i64, device: &Device) -> Tensor {
    let bits = Tensor::arange(from, from + n, 1, I64, device);
    let (exponent, mantissa) = (bits.floor_divide(1i64 << 23), &bits % (1i64 << 23));
    let fraction = mantissa.to_dtype(F64) * 2.0f64.powi(-23);
    let normal = (&fraction + 1.0) * (exponent.to_dtype(F64) - 127.0).exp2();
    let subnormal = fraction * 2.0f64.powi(-126);
    exponent.eq(0).where_cond(&subnormal, &normal).to_dtype(F32)
}

/// The greatest errors of functions that have a form of fewer instructions, in units of the last place against binary64, over all finite numbers of
/// binary32.
#[test]
fn approximations() {
    let Some(d) = device() else { return };
    let mut worst = [(0.0f64, 0.0f32); 6];
    let (end, step) = (0x7f80_0000i64, 1i64 << 26);
    for from in (0..end).step_by(step as usize) {
        for sign in [1.0, -1.0] {
            let x = patterns(from, step.min(end - from), &d) * sign;
            x.eval().expect("runs");
            let wide = x.to_dtype(F64);
            let results = [
                (x.exp(), wide.exp(), 0.0),
                (x.tanh(), wide.tanh(), 0.0),
                // Results below the smallest normal number may be 0.
                (x.sigmoid(), wide.sigmoid(), f64::from(f32::MIN_POSITIVE)),
                (x.abs().log(), wide.abs().log(), 0.0),
                (x.maximum(-1.0).log1p(), wide.maximum(-1.0).log1p(), 0.0),
                (x.erf(), wide.erf(), 0.0),
            ];
            for ((got, want, least), worst) in results.into_iter().zip(&mut worst) {
                let got = got.to_dtype(F64);
                // Infinite where binary32 ends, and a number elsewhere.
                let ends = want.gt(f64::from(f32::MAX));
                let normal = want.abs().maximum(f64::from(f32::MIN_POSITIVE));
                let unit = (normal.log2().floor() - 23.0).exp2();
                let error = (&got - &want).abs() / unit;
                let free = ends
                    .logical_or(want.abs().lt(least))
                    .logical_or(got.eq(&want));
                let counted = free.where_cond(error.zeros_like(), &error);
                let (most, at) = (counted.max(0), counted.argmax(0));
                let short = ends.logical_and(got.lt(f64::from(f32::MAX))).any(0);
                eval([&most, &at, &short]).expect("runs");
                let (most, at) = (most.to_scalar::<f64>(), at.to_scalar::<i64>());
                let (most, at) = (most.expect("runs"), at.expect("runs"));
                let of = || x.select(0, at as isize).to_scalar::<f32>().expect("runs");
                assert!(!most.is_nan(), "{:?}", of());
                assert_eq!(short.to_scalar::<bool>().ok(), Some(false));
                if most > worst.0 {
                    *worst = (most, of());
                }
            }
        }
    }
    let [exp, tanh, sigmoid, log, log1p, erf] = worst;
    println!("ulp, at: exp {exp:?}, tanh {tanh:?}, sigmoid {sigmoid:?}");
    println!("log {log:?}, log1p {log1p:?}, erf {erf:?}");
    for ((error, at), most) in worst.into_iter().zip([2.0, 3.0, 5.0, 2.0, 2.0, 2.0]) {
        assert!(error <= most, "{error} ulp at {at}");
    }
}

/// tanh of every half number, rounded once, and within a product as gelu has it.
#[test]
fn half_types_are_rounded_well() {
    let Some(d) = device() else { return };
    for (dtype, digits) in [(F16, 11), (BF16, 8)] {
        let all: Vec<f32> = (0..=u16::MAX)
            .map(|bits| f32::from_bits(u32::from(bits) << 16))
            .collect();
        let half = Tensor::from_slice(&all, all.len(), &d).to_dtype(dtype);
        let wide = half.to_dtype(F64).to_vec::<f64>().expect("runs");
        let of = |x: &Tensor| x.tanh() * 3.0;
        let [plain, tripled] =
            [half.tanh(), of(&half)].map(|t| t.to_dtype(F64).to_vec::<f64>().expect("runs"));
        for (i, x) in wide.iter().enumerate() {
            for (got, want) in [(plain[i], x.tanh()), (tripled[i], 3.0 * x.tanh())] {
                let unit = (want.abs().max(1e-4).log2().floor() - f64::from(digits - 1)).exp2();
                let close = (got - want).abs() <= 0.55 * unit || got.is_nan() && want.is_nan();
                assert!(close, "{dtype}: {got} for {want} of {x}");
            }
        }
    }
}

/// Many tensors of all sizes through one program each: kernels of one text are one launch, and nobody's results are
/// another's.
#[test]
fn many_tensors_are_one_launch() {
    let Some(d) = device() else { return };
    for count in [2usize, 7, 148, 300] {
        let sizes = (0..count).map(|i| 4 * (1 + i * 37 % 1000) + usize::from(i % 5 == 0) * 100_000);
        let all: Vec<(Vec<f32>, Tensor)> = sizes
            .enumerate()
            .map(|(i, n)| {
                let values: Vec<f32> = (0..n).map(|k| value(k + 1000 * i)).collect();
                let x = Tensor::from_slice(&values, n, &d);
                (values, x)
            })
            .collect();
        let (results, stats) = stats_scope(|| {
            let results: Vec<Tensor> = all.iter().map(|(_, x)| x * 2.0 + 1.0).collect();
            eval(&results).expect("runs");
            results
        });
        let launches = stats.kernels_launched;
        assert!(launches <= 1 + count as u64 / 100, "{launches} for {count}");
        for ((values, _), result) in all.iter().zip(&results) {
            let want: Vec<f32> = values.iter().map(|x| x * 2.0 + 1.0).collect();
            assert_eq!(result.to_vec::<f32>().expect("runs"), want);
        }
        // Rows of one length, however many, and reductions, which share memory within a block.
        let results: Vec<Tensor> = all.iter().map(|(_, x)| x.reshape([-1, 4]).sum(1)).collect();
        eval(&results).expect("runs");
        for ((values, _), result) in all.iter().zip(&results) {
            let got = result.to_vec::<f32>().expect("runs");
            for (got, row) in got.iter().zip(values.chunks(4)) {
                let want: f64 = row.iter().map(|&x| f64::from(x)).sum();
                assert!((f64::from(*got) - want).abs() < 1e-5, "{got} for {want}");
            }
        }
    }
}

/// Steps of an optimiser in place, several in a row.
#[test]
fn an_optimiser_steps_in_place() {
    let Some(d) = device() else { return };
    let sizes = [768usize, 768 * 9, 13, 1 << 20, 4, 50_000];
    let mut state: Vec<[Tensor; 3]> = sizes
        .iter()
        .map(|&n| [0, 1, 2].map(|k| Tensor::from_slice(&data(n + k)[k..], n, &d)))
        .collect();
    let mut want: Vec<[Vec<f64>; 3]> = sizes
        .iter()
        .map(|&n| [0, 1, 2].map(|k| data(n + k)[k..].iter().map(|&x| f64::from(x)).collect()))
        .collect();
    for _ in 0..3 {
        state = state
            .into_iter()
            .map(|[p, m, v]| {
                let m = m * 0.9 + &p * 0.1;
                let v = v * 0.99 + p.square() * 0.01;
                [p - &m / (v.abs().sqrt() + 1e-3) * 0.01, m, v]
            })
            .collect();
        eval(&state.iter().flatten().cloned().collect::<Vec<_>>()).expect("runs");
        for [p, m, v] in &mut want {
            for ((p, m), v) in p.iter_mut().zip(m).zip(v) {
                *m = *m * 0.9 + *p * 0.1;
                *v = *v * 0.99 + *p * *p * 0.01;
                *p -= *m / (v.abs().sqrt() + 1e-3) * 0.01;
            }
        }
    }
    for (got, want) in state.iter().flatten().zip(want.iter().flatten()) {
        for (got, want) in got.to_vec::<f32>().expect("runs").iter().zip(want) {
            assert!(
                (f64::from(*got) - want).abs() < 1e-3 * want.abs().max(1.0),
                "{got} for {want}"
            );
        }
    }
}

/// Rows that start at any element, held in registers or not, reduced and written, of every width.
#[test]
fn unaligned_rows() {
    let Some(d) = device() else { return };
    for (rows, columns) in [
        (300, 33),
        (70, 1001),
        (2050, 5003),
        (30, 50_257),
        (9, 131_073),
    ] {
        for dtype in [F32, BF16, F16, F64] {
            let n = rows * columns;
            let x = Tensor::from_slice(&data(n), [rows, columns], &d).to_dtype(dtype);
            x.eval().expect("runs");
            let whole = x.to_dtype(F64).to_vec::<f64>().expect("runs");
            let [sum, most, sums] = [
                x.to_dtype(F32).sum(1),
                x.max(1),
                x.to_dtype(F32).logsumexp(1),
            ]
            .map(|t| t.to_dtype(F64).to_vec::<f64>().expect("runs"));
            let place = x.argmin(1).to_vec::<i64>().expect("runs");
            let soft = x.softmax(1).to_dtype(F64).to_vec::<f64>().expect("runs");
            let slack = if dtype.is_half() { 1e-2 } else { 1e-5 };
            for (r, row) in whole.chunks(columns).enumerate() {
                let scale: f64 = row.iter().map(|x| x.abs()).sum();
                assert!(
                    (sum[r] - row.iter().sum::<f64>()).abs() < 1e-6 * scale,
                    "{dtype} {r}"
                );
                assert_eq!(most[r], row.iter().copied().fold(f64::MIN, f64::max));
                let least = row.iter().copied().fold(f64::MAX, f64::min);
                assert_eq!(
                    Some(place[r] as usize),
                    row.iter().position(|&x| x == least)
                );
                let total: f64 = row.iter().map(|x| x.exp()).sum();
                near(sums[r], total.ln(), 1e-5);
                for c in [0, 1, columns / 2, columns - 2, columns - 1] {
                    let (got, want) = (soft[r * columns + c], row[c].exp() / total);
                    // Subnormal numbers of binary16 lie 2⁻²⁴ apart.
                    let close = (got - want).abs() <= slack * want + 2f64.powi(-24);
                    assert!(close, "{dtype} {r} {c}: {got} for {want}");
                }
            }
        }
    }
}

/// The loss of classes, of rows of odd length, with the gradient's softmax beside it.
#[test]
fn cross_entropies() {
    let Some(d) = device() else { return };
    for (rows, columns) in [(100, 50_257), (3000, 1003), (5, 17)] {
        for dtype in [F32, BF16] {
            let x = Tensor::from_slice(&data(rows * columns), [rows, columns], &d).to_dtype(dtype);
            let classes: Vec<i64> = (0..rows).map(|r| (r * 7919 % columns) as i64).collect();
            let t = Tensor::from_slice(&classes, rows, &d);
            let whole = x.to_dtype(F64).to_vec::<f64>().expect("runs");
            let of = |(row, &class): (&[f64], &i64)| {
                let total: f64 = row.iter().map(|x| x.exp()).sum();
                total.ln() - row[class as usize]
            };
            let losses: f64 = whole.chunks(columns).zip(&classes).map(of).sum();
            let got = x
                .cross_entropy(&t)
                .to_dtype(F64)
                .to_scalar::<f64>()
                .expect("runs");
            near(
                got,
                losses / rows as f64,
                if dtype == F32 { 1e-5 } else { 5e-3 },
            );
        }
    }
}

/// Rows of a table, whole chunks of them or not, and an index out of range.
#[test]
fn gathered_rows() {
    let Some(d) = device() else { return };
    for (rows, columns, first) in [(500, 1024, 0), (77, 40, 0), (33, 37, 0), (60, 64, 3)] {
        for dtype in [F32, BF16, U8, I64] {
            let n = rows * columns + first;
            let whole: Vec<f32> = (0..n).map(|i| (i * 31 % 101) as f32).collect();
            let flat = Tensor::from_slice(&whole, n, &d).to_dtype(dtype);
            let table = flat
                .narrow(0, first as isize, rows * columns)
                .reshape([rows, columns]);
            let places: Vec<i64> = (0..999)
                .map(|i| (i * 7919 % (2 * rows)) as i64 - rows as i64)
                .collect();
            let index = Tensor::from_slice(&places, [3, 333], &d);
            let got = (table.embedding(&index) + 1)
                .to_dtype(F32)
                .to_vec::<f32>()
                .expect("runs");
            for (i, &place) in places.iter().enumerate() {
                let row = place.rem_euclid(rows as i64) as usize;
                for c in 0..columns {
                    let want = whole[first + row * columns + c] + 1.0;
                    assert_eq!(got[i * columns + c], want, "{dtype} {i} {c}");
                }
            }
            let wrong = Tensor::from_slice(&[0i64, rows as i64], 2, &d);
            assert!(table.embedding(&wrong).eval().is_err());
        }
    }
}

/// Products of matrices and vectors, which read the matrix once: by rows, by columns, batched, with what follows.
#[test]
fn matrices_and_vectors() {
    let Some(d) = device() else { return };
    for dtype in [F32, BF16, F16, F64] {
        for (m, k) in [(1000, 4096), (37, 129), (3, 70_000), (4096, 16), (1, 5000)] {
            // Sums of 70,000 products of up to 4 stay below what binary16 holds.
            let a = (Tensor::from_slice(&data(m * k), [m, k], &d) / 8.0).to_dtype(dtype);
            let x = Tensor::from_slice(&data(k), k, &d).to_dtype(dtype);
            let [left, right] = [&a, &x].map(|t| t.to_dtype(F64).to_vec::<f64>().expect("runs"));
            let transposed = a.t().contiguous();
            transposed.eval().expect("runs");
            let strided = x.matmul(&transposed).to_dtype(F64).to_vec::<f64>();
            let strided = strided.expect("runs");
            let products = [
                a.matmul(&x),
                a.matmul(&x.reshape([k, 1])).reshape(m),
                x.matmul(&a.t()),
                x.reshape([1, k]).matmul(&a.t()).reshape(m),
                (a.reshape([1, m, k])
                    .matmul(&x.reshape([1, k, 1]))
                    .reshape(m)
                    + 1.0)
                    .relu()
                    - 1.0,
            ];
            let ((), stats) = stats_scope(|| eval(&products).expect("runs"));
            assert_eq!(stats.library_calls, 0);
            let mut all: Vec<Vec<f64>> = products
                .iter()
                .map(|t| t.to_dtype(F64).to_vec::<f64>().expect("runs"))
                .collect();
            all.push(strided);
            for (i, got) in all.iter().enumerate() {
                for (r, row) in left.chunks(k).enumerate() {
                    let terms = row.iter().zip(&right).map(|(a, b)| a * b);
                    let scale: f64 = terms.clone().map(f64::abs).sum();
                    let mut want: f64 = terms.sum();
                    if i == 4 {
                        want = (want + 1.0).max(0.0) - 1.0;
                    }
                    let ulp = match dtype {
                        BF16 => 1.0 / 64.0,
                        F16 => 1.0 / 512.0,
                        _ => 0.0,
                    };
                    let slack = ulp * (want.abs() + 1.0) + 1e-6 * scale;
                    assert!(
                        (got[r] - want).abs() <= slack,
                        "{dtype} {m} {k} {i} {r}: {} for {want}",
                        got[r]
                    );
                }
            }
        }
    }
}
