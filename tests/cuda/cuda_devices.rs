//! Two CUDA devices in one process. Where there are not two, every test says so and passes.

#[path = "../common/mod.rs"]
mod common;

use common::two_devices;
use ferrotrace::DType::{self, *};
use ferrotrace::prelude::*;
use ferrotrace::{ErrorKind, stats_scope};

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + 13) % 251) as f32).collect()
}

fn read(x: &Tensor) -> Vec<f32> {
    let x = x.to_dtype(F32).to_vec::<f32>();
    x.unwrap_or_else(|e| panic!("{e}"))
}

/// Sizes around those of staging buffers and size classes, windows and strides, there and back.
#[test]
fn copies_keep_every_bit() {
    let Some([a, b]) = two_devices() else { return };
    for n in [0, 1, 7, 1 << 10, (1 << 20) + 3, (40 << 20) + 1] {
        let data = numbers(n);
        let here = Tensor::from_slice(&data, [n], &a);
        let there = here.to_device(&b);
        assert_eq!((here.device(), there.device()), (a.clone(), b.clone()));
        assert_eq!(read(&there), data, "{n}");
        assert_eq!(read(&there.to_device(&a)), data, "{n} back");
    }
    for dtype in DType::ALL {
        let data = numbers(6 * 8 * 10);
        let whole = Tensor::from_slice(&data, [6, 8, 10], &b).to_dtype(dtype);
        whole.eval().expect("runs");
        let part = whole.narrow(1, 2, 5).permute([2, 0, 1]);
        let there = part.to_device(&a);
        assert_eq!((there.dims(), there.dtype()), (part.dims(), dtype));
        assert_eq!(read(&there), read(&part), "{dtype}");
    }
}

/// A copy comes after the kernels that make its source and before those that take the source's memory, without the host
/// waiting for either.
#[test]
fn copies_are_in_the_order_of_both_streams() {
    let Some([a, b]) = two_devices() else { return };
    const N: usize = 1 << 22;
    let start = Tensor::from_slice(&numbers(N), [N], &a);
    let want: Vec<f32> = numbers(N).iter().map(|x| x * 0.5 + 1.0).collect();
    for i in 0..20 {
        // Work that keeps the source's device busy while the host goes on.
        let mut x = &start + 0.0;
        for _ in 0..50 {
            x = (&x * 0.5 + 1.0).max(0) * 0.0 + &x;
            x.eval().expect("runs");
        }
        let source = &x * 0.5 + 1.0;
        let there = source.to_device(&b);
        drop(source);
        // Takes the source's memory.
        let over = &start * 0.0 - 7.0;
        over.eval().expect("runs");
        let back = (&there + 1.0).to_device(&a);
        drop(there);
        let on = Tensor::full([N], -9.0, F32, &b);
        on.eval().expect("runs");
        let got = read(&back);
        let wrong = got.iter().zip(&want).position(|(g, w)| *g != w + 1.0);
        assert_eq!(wrong, None, "round {i}");
        assert_eq!(over.max(..).to_scalar::<f32>().ok(), Some(-7.0));
    }
}

#[test]
fn operands_of_two_devices_are_an_error_that_names_both() {
    let Some([a, b]) = two_devices() else { return };
    let (x, y) = (
        Tensor::full([4], 1.0, F32, &a),
        Tensor::full([4], 2.0, F32, &b),
    );
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            let all = [&x + &y, x.matmul(&y), Tensor::cat(&[&x, &y], 0)];
            for sum in all {
                let error = sum.eval().expect_err("two devices");
                assert!(matches!(error.kind(), ErrorKind::Device(_)), "{error}");
                let text = error.to_string();
                assert!(text.contains("cuda:0") && text.contains("cuda:1"), "{text}");
            }
        });
    }
    assert_eq!(read(&(&x + y.to_device(&a))), [3.0; 4]);
}

fn program(x: &Tensor) -> Tensor {
    let y = (x.exp() + 1.0).log().softmax(-1);
    let z = y.matmul(&x.t()) - y.mean_keepdim(0).sum_keepdim(1);
    z.cumsum(1) + z.sort(1, false).0
}

/// The same program on both gives the same bits, flushed together, by threads of their own, and eagerly.
#[test]
fn both_compute() {
    let Some(devices) = two_devices() else { return };
    let data: Vec<f32> = numbers(96 * 128).iter().map(|x| x / 256.0).collect();
    let on = |d: &Device| Tensor::from_slice(&data, [96, 128], d);
    let results = devices.each_ref().map(|d| program(&on(d)));
    eval(&results).expect("both run");
    let want = read(&results[0]);
    assert_eq!(want, read(&results[1]));
    std::thread::scope(|scope| {
        for d in &devices {
            let (on, want) = (&on, &want);
            scope.spawn(move || {
                for i in 0..20 {
                    let x = on(d);
                    assert_eq!(&read(&program(&x)), want, "{d} {i}");
                    // Memory of every size comes and goes.
                    let other = Tensor::full([1 << (i % 16), 3], i as f64, F32, d);
                    assert_eq!(
                        other.sum(..).to_scalar::<f32>().ok(),
                        Some((3 << (i % 16)) as f32 * i as f32)
                    );
                }
            });
        }
    });
    let eager = |d: &Device| with_mode(Mode::Eager, || read(&program(&on(d))));
    assert_eq!(eager(&devices[0]), eager(&devices[1]));
}

/// Plans are captured in a graph of each device; a graph goes on where it began.
#[test]
fn graphs_are_of_one_device() {
    let Some(devices) = two_devices() else { return };
    let turns = |x: &Tensor| {
        let mut z = x.clone();
        for _ in 0..4 {
            z = &z - z.mean_keepdim(0);
            z = (&z - z.mean_keepdim(1)) * 1.5;
        }
        z
    };
    let data = numbers(64 * 80);
    let inputs = devices
        .each_ref()
        .map(|d| Tensor::from_slice(&data, [64, 80], d));
    let want = read(&turns(&inputs[0]));
    let (_, stats) = stats_scope(|| {
        for i in 0..8 {
            for x in &inputs {
                assert_eq!(read(&turns(x)), want, "run {i} on {}", x.device());
            }
        }
    });
    let graphs = std::env::var("FERROTRACE_GRAPHS").map_or(true, |v| v != "0");
    assert_eq!(
        stats.graphs_captured,
        if graphs { 2 } else { 0 },
        "{stats:?}"
    );
}

/// A function given to `jit` is traced for each device.
#[test]
fn functions_follow_their_arguments() {
    let Some([a, b]) = two_devices() else { return };
    let f = jit(|x: &Tensor| (x * 2.0).sum(0));
    for i in 0..6 {
        for d in [&a, &b] {
            let x = Tensor::full([5, 3], i as f64, F32, d);
            let y = f.call(&x);
            assert_eq!(y.device(), *d);
            assert_eq!(read(&y), [10.0 * i as f32; 3]);
        }
    }
}

/// Giving back one device's memory leaves the other's alone.
#[test]
fn memory_is_each_devices_own() {
    let Some([a, b]) = two_devices() else { return };
    let keep = Tensor::full([1 << 20], 3.0, F32, &b);
    keep.eval().expect("memory");
    for _ in 0..3 {
        let x = Tensor::full([1 << 22], 1.0, F32, &a);
        x.eval().expect("memory");
        drop(x);
        a.trim().expect("gives memory back");
        assert_eq!(keep.mean(..).to_scalar::<f32>().ok(), Some(3.0));
    }
}

/// What one device's program was compiled to serves another device of the same model, from the disk.
#[test]
fn devices_of_one_model_share_compiled_code() {
    let Some([a, b]) = two_devices() else { return };
    if a.capability().ok() != b.capability().ok() {
        eprintln!("skipped: the devices are not of one model");
        return;
    }
    let run = |d: &Device| {
        let x = Tensor::from_slice(&numbers(1 << 12), [64, 64], d);
        let y = ((&x * 0.37 + 2.5).tanh() - x.mean_keepdim(1)).abs() * &x;
        stats_scope(|| read(&y))
    };
    let (first, _) = run(&a);
    let (second, stats) = run(&b);
    assert_eq!(first, second);
    assert_eq!(stats.kernels_compiled, 0, "{stats:?}");
    assert!(stats.disk_cache_hits > 0, "{stats:?}");
}
