//! A CUDA device against the CPU's eager mode: every family of methods, compiled and eager. Where there is no device, or
//! no NVRTC, every test says so and passes.

#[path = "../common/mod.rs"]
mod common;

use common::{FLOATS, agree, device, epsilon, index, noise, numbers};
use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use ferrotrace::{ErrorKind, Generator, Interpolation, stats_scope, with_precision};

#[test]
fn pointwise_functions() {
    for dtype in FLOATS {
        agree(epsilon(dtype), |d| {
            let x = noise(&[33, 70], dtype, d);
            let p = x.abs() + 0.5;
            vec![
                x.exp(),
                x.tanh(),
                x.sigmoid(),
                x.erf(),
                x.sin(),
                x.cos(),
                x.atan(),
                x.gelu(),
                x.gelu_tanh(),
                x.silu(),
                x.mish(),
                x.softplus(),
                x.relu(),
                x.elu(0.5),
                x.floor(),
                x.round(),
                x.sign(),
                p.log(),
                p.log2(),
                p.sqrt(),
                p.rsqrt(),
                p.recip(),
                p.pow(1.7),
                &x / &p,
                &x % 0.7,
                x.clamp(-0.5, 0.5),
                x.lt(&p).where_cond(&x, &p),
            ]
        });
    }
}

/// With exact precision, pointwise results have the very bits of the CPU's.
#[test]
fn exact_pointwise_results_are_bit_for_bit_the_cpus() {
    for dtype in FLOATS {
        agree(0.0, |d| {
            with_precision(Precision::EagerExact, || {
                let x = noise(&[1000], dtype, d);
                let y = (&x * 1.7).exp() + (x.abs() + 0.1).log() * x.tanh();
                vec![(y.sin() / (x.erf() + 2.0)).to_dtype(dtype), y.pow(x.abs())]
            })
        });
    }
}

#[test]
fn integers_and_casts() {
    for dtype in [U8, I8, I16, I32, I64] {
        agree(0.0, |d| {
            let x = (noise(&[500], F32, d) * 100.0).to_dtype(dtype);
            let y = (noise(&[500], F64, d) * 3.0).floor().to_dtype(dtype);
            vec![
                &x + &y,
                &x - &y,
                &x * &y,
                &x % &y,
                x.floor_divide(&y),
                x.maximum(&y),
                x.eq(&y),
                x.gt(3).logical_and(y.ne(0)),
                x.bitwise_xor(&y),
                x.to_dtype(F16),
                x.to_dtype(Bool),
                (noise(&[500], F32, d) * 1e12).to_dtype(dtype),
                x.abs(),
                x.sign(),
            ]
        });
    }
}

#[test]
fn reductions_of_every_form() {
    for dtype in [F32, BF16, F64] {
        for shape in [
            [3, 5],
            [40, 1000],
            [1000, 33],
            [2, 70_001],
            [70_001, 2],
            [600, 4096],
        ] {
            agree(epsilon(dtype) * 4.0, |d| {
                let x = noise(&shape, dtype, d);
                vec![
                    x.sum(0) / shape[0] as f64,
                    x.sum(1) / shape[1] as f64,
                    x.mean(..),
                    x.max(0),
                    x.max(1),
                    x.min(..),
                    x.argmax(0),
                    x.argmax(1),
                    x.argmin(1),
                    x.var(1, 1),
                    x.var(0, 1),
                    x.std(.., 0),
                    x.gt(1.9).any(1),
                    x.gt(-3.0).all(0),
                    x.logsumexp(1),
                    x.gt(0.0).sum(0),
                    x.norm(2.0, 1),
                    x.sum_keepdim(1) * 0.0 + &x,
                ]
            });
        }
    }
}

#[test]
fn argmax_of_nan_and_ties() {
    agree(0.0, |d| {
        let data = [1.0f32, f32::NAN, 3.0, f32::NAN, 2.0, 7.0, 7.0, -1.0];
        let x = Tensor::from_slice(&data, [2, 4], d);
        let zeros = Tensor::zeros([3, 5000], F32, d);
        vec![
            x.argmax(1),
            x.argmin(1),
            x.max(1),
            x.argmax(0),
            zeros.argmax(1),
            zeros.argmin(0),
        ]
    });
}

#[test]
fn normalisations() {
    for dtype in [F32, BF16] {
        for n in [5, 64, 1000, 9000] {
            agree(epsilon(dtype) * 4.0, |d| {
                let x = noise(&[17, n], dtype, d);
                let (w, b) = (noise(&[n], dtype, d), noise(&[n], dtype, d) * 0.3);
                vec![
                    x.softmax(1),
                    x.softmax(0),
                    x.log_softmax(1),
                    x.layer_norm(1, Some(&w), Some(&b), 1e-5),
                    x.rms_norm(1, Some(&w), 1e-5),
                    (&x - x.mean_keepdim(1)) / (x.std_keepdim(1, 1) + 1e-5),
                    x.softmax(1).sum(0),
                ]
            });
        }
    }
}

#[test]
fn shapes_and_views() {
    agree(0.0, |d| {
        let x = noise(&[6, 7, 8], F32, d);
        vec![
            x.permute([2, 0, 1]) + 1.0,
            x.flip(1) * 2.0,
            x.slice(2, 1, 7, 2).abs(),
            x.transpose(0, 2).reshape([8, 42]),
            x.select(1, 3),
            x.narrow(0, 2, 3) + x.narrow(0, 1, 3),
            x.pad(&[(0, 0), (1, 2), (-1, 3)], 5.0),
            Tensor::cat(&[&x, &(&x * 2.0)], 1),
            Tensor::stack(&[&x, &x.neg()], 0),
            x.roll(2, 1),
            x.unfold(2, 3, 2) * 1.0,
            x.tril(0),
            x.diagonal(0, 0, 1) + 0.5,
            x.repeat(&[2, 1, 1]),
            x.t_like(),
            x.slice_assign(1, 0, 4, 1, &Tensor::zeros([6, 4, 8], F32, d)),
            x.expand_rows(),
        ]
    });
}

trait Views {
    fn t_like(&self) -> Tensor;
    fn expand_rows(&self) -> Tensor;
}

impl Views for Tensor {
    fn t_like(&self) -> Tensor {
        let x = self.select(0, 0);
        x.t() + x.t().sqrt().t().t()
    }
    fn expand_rows(&self) -> Tensor {
        self.select(0, 0).select(0, 0).expand([5, 8]) * 3.0
    }
}

/// Eager mode on the device compiles an operator once, whatever the sizes.
#[test]
fn eager_operators_are_kernels_for_all_sizes() {
    let Some(d) = device() else { return };
    with_mode(Mode::Eager, || {
        let run = |n: usize| (noise(&[n, 64], F32, &d) * 2.0).exp().softmax(1);
        run(100).eval().expect("runs");
        let ((), stats) = stats_scope(|| {
            for n in [104, 200, 332] {
                run(n).eval().expect("runs");
            }
        });
        assert_eq!((stats.kernels_compiled, stats.host_runs), (0, 0));
        assert_eq!(stats.kernels_launched, 9);
        let ((), stats) = stats_scope(|| run(200).eval().expect("runs"));
        assert_eq!((stats.plans_built, stats.plan_cache_hits), (0, 3));
    });
}

#[test]
fn products_and_layers() {
    agree(1e-4, |d| {
        let (a, b) = (noise(&[4, 17, 33], F32, d), noise(&[33, 21], F32, d));
        let image = noise(&[2, 3, 12, 11], F32, d);
        let weight = noise(&[4, 3, 3, 3], F32, d);
        let q = noise(&[2, 2, 9, 8], F32, d);
        let classes = index(&[0, 2, 1, 2], d);
        vec![
            a.matmul(&b),
            (a.matmul(&b) + 1.0).relu().sum(-1),
            Tensor::einsum("bij,jk->ikb", &[&a, &b]),
            image.conv2d(&weight, None, 1, 1, 1, 1).relu(),
            image.max_pool2d(2, 2, 0),
            image.avg_pool2d(3, 1, 1),
            image.adaptive_avg_pool2d([3, 3]),
            image.interpolate([7, 7], Interpolation::Bilinear, false),
            image.interpolate([9, 30], Interpolation::Bicubic, true),
            image.conv2d(&noise(&[3, 1, 3, 3], F32, d), None, 2, 1, 2, 3),
            image.conv_transpose2d(&noise(&[3, 4, 3, 3], F32, d), None, 2, 1, 1, 1, 1),
            Tensor::scaled_dot_product_attention(&q, &q, &q, None, true, None),
            noise(&[4, 3], F32, d).cross_entropy(&classes),
            a.mse_loss(&(&a * 0.5)),
        ]
    });
}

/// Batches, views and vectors, by cuBLAS where it is.
#[test]
fn matrix_products() {
    for dtype in FLOATS {
        agree(epsilon(dtype) * 10.0, |d| {
            let x = noise(&[5, 6, 7], dtype, d);
            let m = noise(&[7, 9], dtype, d);
            let t = noise(&[9, 7], dtype, d);
            vec![
                x.matmul(&m),
                x.matmul(&t.t()),
                x.transpose(1, 2).matmul(&x),
                x.select(0, 1).matmul(&m.slice(1, 0, 9, 2)),
                x.matmul(&noise(&[7], dtype, d)),
                noise(&[6], dtype, d).matmul(&x),
                noise(&[2, 1, 3, 7], dtype, d).matmul(&noise(&[4, 7, 5], dtype, d)),
                x.flip(0).matmul(&m),
                noise(&[4, 0], dtype, d).matmul(&noise(&[0, 3], dtype, d)),
                noise(&[1], dtype, d).expand([4, 7]).matmul(&m),
            ]
        });
    }
}

/// A bias for each column, relu and gelu after products: one call of the library, or two steps where it has none.
#[test]
fn products_with_what_follows() {
    for dtype in FLOATS {
        agree(epsilon(dtype) * 10.0, |d| {
            let x = noise(&[3, 16, 24], dtype, d) * 0.3;
            let w = noise(&[24, 32], dtype, d) * 0.3;
            let turned = noise(&[32, 24], dtype, d) * 0.3;
            let bias = noise(&[40], dtype, d).narrow(0, 5, 32);
            eval([&x, &w, &turned]).unwrap_or_else(|e| panic!("{e}"));
            vec![
                x.matmul(&w) + &bias,
                (&bias + x.matmul(&w)).gelu_tanh(),
                x.matmul(&turned.t()).gelu_tanh(),
                (x.matmul(&w) + &bias).relu(),
                x.select(0, 1).matmul(&w).relu(),
                // Nothing that a library has.
                (x.matmul(&w) + &bias).gelu(),
                x.matmul(&w) + noise(&[16, 1], dtype, d),
                x.matmul(&w).relu() + &bias,
            ]
        });
    }
    let Some(d) = device() else { return };
    let (x, w, b) = (
        noise(&[64, 32], BF16, &d),
        noise(&[32, 128], BF16, &d),
        noise(&[128], BF16, &d),
    );
    eval([&x, &w, &b]).unwrap();
    // A value of the chain that is still held would be stored.
    let y = (x.matmul(&w) + &b).gelu_tanh();
    let (result, stats) = stats_scope(|| y.eval());
    result.unwrap();
    assert_eq!((stats.library_calls, stats.host_runs), (1, 0));
    assert_eq!(stats.kernels_launched, 0, "the library adds and bends");
}

/// Profiles tell what kernels took on the device.
#[test]
fn profiles_have_the_devices_times() {
    let Some(d) = device() else { return };
    let x = Tensor::ones([1 << 27], F32, &d);
    x.eval().unwrap();
    let program = || (&x * 2.0 + 1.0).eval().unwrap();
    program();
    let ((), profile) = ferrotrace::profile(program);
    let kernel = |span: &&ferrotrace::Span| span.activity == ferrotrace::Activity::Kernel;
    let span = profile.spans().iter().find(kernel).expect("a kernel");
    assert_eq!((span.bytes, &span.device), (2 << 29, &d));
    assert!(d.bandwidth().unwrap() > 1 << 30);
    let table = profile.to_string();
    assert!(table.contains(&format!("a copy on {d} moves")), "{table}");
    println!("{table}");
}

#[test]
fn random_numbers_are_the_cpus() {
    agree(1e-6, |d| {
        let g = Generator::new(42);
        let mut all = vec![
            g.randint(-5, 1000, [301], I64, d),
            g.bernoulli(0.3, [301], Bool, d),
            g.rand([301], F32, d) + 1.0,
        ];
        for dtype in FLOATS {
            all.extend([g.rand([301], dtype, d), g.randn([301], dtype, d)]);
        }
        all
    });
    // Uniform numbers bit for bit.
    agree(0.0, |d| {
        FLOATS
            .map(|dtype| Generator::new(7).rand([1001], dtype, d))
            .to_vec()
    });
}

#[test]
fn data_comes_and_goes() {
    let Some(d) = device() else { return };
    let values: Vec<f32> = (0..3_000_001).map(|i| i as f32).collect();
    let x = Tensor::from_slice(&values, values.len(), &d);
    assert_eq!(x.to_vec::<f32>().unwrap(), values);
    assert_eq!(
        x.narrow(0, 1_000_000, 3).to_vec::<f32>().unwrap(),
        [1e6, 1_000_001.0, 1_000_002.0]
    );
    assert_eq!(
        Tensor::scalar(2.5, F64, &d).to_scalar::<f64>().unwrap(),
        2.5
    );
    assert_eq!(
        x.narrow(0, 0, 2).to_string(),
        x.narrow(0, 0, 2)
            .to_device(&Device::cpu())
            .to_string()
            .replace(")", &format!(", device={d})"))
    );
    assert!(
        Tensor::zeros([0, 3], F32, &d)
            .to_vec::<f32>()
            .unwrap()
            .is_empty()
    );
    let mixed = &x + &Tensor::ones(1, F32, &Device::cpu());
    assert!(matches!(
        mixed.eval().unwrap_err().kind(),
        ErrorKind::Device(_)
    ));
    d.synchronize().unwrap();
    assert!(d.report().contains("sm_"), "{}", d.report());
}

#[test]
fn functions_are_replayed_and_arguments_overwritten() {
    let Some(d) = device() else { return };
    let step = jit(|(w, g): (Tensor, &Tensor)| w - g * 0.1);
    let g = noise(&[1 << 16], F32, &d);
    let mut w = Tensor::ones(1 << 16, F32, &d);
    w.eval().unwrap();
    let ((), stats) = stats_scope(|| {
        for _ in 0..10 {
            w = step.call((w.clone(), &g));
            let taken = std::mem::replace(&mut w, Tensor::zeros(1, F32, &d));
            w = step.call((taken, &g));
        }
        w.eval().unwrap();
    });
    let want: Vec<f64> = numbers(&g).iter().map(|g| 1.0 - 20.0 * 0.1 * g).collect();
    for (a, b) in numbers(&w).iter().zip(want) {
        assert!((a - b).abs() < 1e-5);
    }
    assert_eq!(stats.host_runs, 0);
    assert!(stats.in_place_writes >= 10, "{stats:?}");
}

#[test]
fn faults_and_shortages_are_errors() {
    let Some(d) = device() else { return };
    let x = noise(&[4, 4], F32, &d);
    let error = x.index_select(0, &index(&[1, 9], &d)).eval().unwrap_err();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::Index {
                index: 9,
                size: 4,
                ..
            }
        ),
        "{error}"
    );
    let error = Tensor::zeros([1 << 46], F32, &d).eval().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::OutOfMemory { .. }),
        "{error}"
    );
    assert!((&x + 1.0).eval().is_ok(), "the device works on");
}

/// More kernels than compile at a time share files.
#[test]
fn kernels_needed_at_once_compile_together() {
    let Some(d) = device() else { return };
    let n = 24usize;
    let program = |number: usize, d: &Device| {
        let x = noise(&[number + 30, 40], F32, d);
        let y = (0..5).fold(x.clone(), |y, bit| match number >> bit & 1 {
            0 => y.abs() * 0.5 + &x,
            _ => (y * 1.5).tanh(),
        });
        if number.is_multiple_of(3) {
            y.softmax(1)
        } else {
            y
        }
    };
    let there: Vec<Tensor> = (0..n).map(|k| program(k, &d)).collect();
    let (done, stats) = stats_scope(|| eval(&there));
    done.expect("runs");
    assert!(
        stats.kernels_compiled + stats.disk_cache_hits > 16,
        "{stats:?}"
    );
    for (k, got) in there.iter().enumerate() {
        let want = numbers(&program(k, &Device::cpu()));
        for (a, b) in numbers(got).iter().zip(want) {
            assert!((a - b).abs() < 1e-5, "program {k}: {a} for {b}");
        }
    }
}

/// Indices that are inputs are checked by a kernel of their own ahead of a large one, which is then part of a graph.
#[test]
fn indices_are_checked_ahead() {
    let Some(d) = device() else { return };
    let (rows, columns, n) = (500usize, 1024usize, 4000usize);
    let table = noise(&[rows, columns], F32, &d);
    let places = |wrong: Option<(usize, i64)>| {
        let mut all: Vec<i64> = (0..n)
            .map(|i| (i * 7919 % (2 * rows)) as i64 - rows as i64)
            .collect();
        if let Some((at, index)) = wrong {
            all[at] = index;
        }
        Tensor::from_slice(&all, n, &d)
    };
    let good = places(None);
    let want = numbers(&table);
    let pick = |index: &Tensor| (table.embedding(index) * 2.0).eval();
    let f = jit(|(table, index): (&Tensor, &Tensor)| {
        let picked = table.embedding(index) * 2.0;
        picked.softmax(1).sum(0).cumsum(0)
    });
    let sums = numbers(&f.call((&table, &good)));
    for round in 0..5 {
        let (got, stats) = stats_scope(|| {
            let y = table.embedding(&good) * 2.0;
            y.eval().expect("in range");
            y
        });
        assert_eq!((stats.kernels_launched, stats.host_syncs), (2, 1));
        let got = got.to_vec::<f32>().expect("runs");
        for i in (0..n).step_by(37) {
            let row = (i * 7919 % rows) * columns;
            let wanted = want[row..row + columns].iter().map(|v| 2.0 * *v as f32);
            assert!(
                got[i * columns..][..columns].iter().copied().eq(wanted),
                "{i}"
            );
        }
        for (at, wrong) in [(0, 500), (n - 1, -501), (n / 2, i64::MAX)] {
            let bad = places(Some((at, wrong)));
            for error in [pick(&bad), f.call((&table, &bad)).eval()] {
                let error = error.expect_err("out of range");
                let is_it = matches!(error.kind(), ErrorKind::Index { index, dim: 0, size: 500 } if *index == wrong);
                assert!(is_it && error.to_string().contains("cuda.rs"), "{error}");
            }
        }
        let (again, stats) = stats_scope(|| f.call((&table, &good)));
        assert_eq!(numbers(&again), sums);
        assert!(round < 2 || stats.graph_launches == 1, "{stats:?}");
    }
    // Where two indices are out of range the error names one; each thread has a verdict of its own.
    let (low, high) = (places(Some((7, -999))), places(Some((9, 999))));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let two = (table.embedding(&low) + table.embedding(&high)).eval();
                    let kind = two.expect_err("out of range").kind().clone();
                    assert!(matches!(
                        kind,
                        ErrorKind::Index {
                            index: -999 | 999,
                            ..
                        }
                    ));
                    pick(&good).expect("in range");
                }
            });
        }
    });
}

#[test]
fn fourier_transforms() {
    for dtype in [F32, F64, BF16] {
        // Products of the library, of factors, and convolutions.
        for n in [7, 64, 134, 1000, 4096] {
            agree(8.0 * epsilon(dtype), |d| {
                let x = noise(&[6, n, 2], dtype, d);
                let scale = 1.0 / (n as f64).sqrt();
                let window = Tensor::hann_window(7, true, dtype, d);
                vec![
                    x.fft(1) * scale,
                    x.ifft(1) * (1.0 / scale),
                    x.rfft([0, 1]) * (scale * 0.5),
                    x.fft([0, 1]).ifft([1, 0]),
                    x.select(-1, 0).rfft(1).irfft(n, 1),
                    x.select(-1, 1).stft(7, 3, &window, true).complex_abs(),
                ]
            });
        }
    }
}

#[test]
fn elements_past_two_to_the_31() {
    let Some(d) = device() else { return };
    let n = (1usize << 31) + 12345;
    let x = Tensor::full([n], 1, U8, &d);
    let y = &x + x.narrow(0, n as isize - 1, 1);
    let picked = y.narrow(0, n as isize - 3, 3).to_vec::<u8>();
    match picked {
        Ok(picked) => assert_eq!(picked, [2, 2, 2]),
        Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory { .. }) => {
            return eprintln!("skipped: {error}");
        }
        Err(error) => panic!("{error}"),
    }
    assert_eq!(y.sum(..).to_scalar::<i64>().unwrap(), 2 * n as i64);
}

#[test]
fn threads_share_the_device() {
    let Some(d) = device() else { return };
    std::thread::scope(|scope| {
        for k in 0..8 {
            let d = &d;
            scope.spawn(move || {
                for round in 0..20 {
                    let x = noise(&[300 + k], F32, d);
                    let want = noise(&[300 + k], F32, &Device::cpu());
                    let got = (&x * (round as f64)).sum(0).to_scalar::<f32>().unwrap();
                    let want: f64 = numbers(&want).iter().sum::<f64>() * round as f64;
                    assert!((got as f64 - want).abs() < 1e-2);
                }
            });
        }
    });
}
