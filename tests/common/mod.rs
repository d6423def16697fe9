//! What tests of devices share.
#![allow(dead_code)]

use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

/// The CUDA device that `FERROTRACE_TEST_DEVICE` numbers, the first where it does not, or what is missing, printed.
pub fn device() -> Option<Device> {
    let number = std::env::var("FERROTRACE_TEST_DEVICE").ok();
    found(number.and_then(|n| n.parse().ok()).unwrap_or(0))
}

/// The first two CUDA devices, or what is missing, printed.
pub fn two_devices() -> Option<[Device; 2]> {
    Some([found(0)?, found(1)?])
}

fn found(number: usize) -> Option<Device> {
    match Device::cuda(number) {
        Ok(device) => Some(device),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Elements as binary64, on the host.
pub fn numbers(x: &Tensor) -> Vec<f64> {
    let host = x.to_device(&Device::cpu());
    let wide = with_mode(Mode::Eager, || host.to_dtype(F64));
    wide.to_vec::<f64>().unwrap_or_else(|e| panic!("{e}"))
}

/// Runs `f` for the CPU in eager mode, and for the device in both; results agree to `tolerance`, and the device computes
/// all of them itself.
#[track_caller]
pub fn agree(tolerance: f64, f: impl Fn(&Device) -> Vec<Tensor>) {
    let Some(device) = device() else { return };
    let want: Vec<Tensor> = with_mode(Mode::Eager, || f(&Device::cpu()));
    for mode in [Mode::Compiled, Mode::Eager] {
        let (got, stats) = stats_scope(|| {
            let got = with_mode(mode, || f(&device));
            with_mode(mode, || eval(&got)).unwrap_or_else(|e| panic!("{mode:?}: {e}"));
            got
        });
        assert_eq!(stats.host_runs, 0, "{mode:?}");
        assert_eq!(got.len(), want.len());
        for (i, (g, w)) in got.iter().zip(&want).enumerate() {
            assert_eq!((g.dims(), g.dtype()), (w.dims(), w.dtype()), "{mode:?} {i}");
            assert_eq!(g.device(), device, "{mode:?} {i}");
            let (g, w) = (numbers(g), numbers(w));
            for (at, (a, b)) in g.iter().zip(&w).enumerate() {
                let close = a == b
                    || (a.is_nan() && b.is_nan())
                    || (a - b).abs() <= tolerance * b.abs().max(1.0);
                assert!(close, "{mode:?}: result {i}, element {at}: {a} for {b}");
            }
        }
    }
}

/// Numbers that are the same on every device.
pub fn noise(shape: &[usize], dtype: DType, device: &Device) -> Tensor {
    let n: usize = shape.iter().product();
    let value = |i: usize| ((i * 7919 + 13) % 4001) as f32 / 1000.0 - 2.0;
    let data: Vec<f32> = (0..n).map(value).collect();
    let host = Tensor::from_vec(data, shape, &Device::cpu());
    with_mode(Mode::Eager, || host.to_dtype(dtype)).to_device(device)
}

/// Positions.
pub fn index(values: &[i64], device: &Device) -> Tensor {
    Tensor::from_slice(values, values.len(), device)
}

/// The types with fractions.
pub const FLOATS: [DType; 4] = [F32, F64, F16, BF16];

/// What results of a type may differ by, of their magnitude.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype {
        F16 => 4e-3,
        BF16 => 3e-2,
        F64 => 1e-12,
        _ => 2e-5,
    }
}

/// A number for each position, from −2 to 2, the same on every run.
pub fn value(i: usize) -> f32 {
    ((i.wrapping_mul(7919) + 13) % 4001) as f32 / 1000.0 - 2.0
}

/// The numbers of the first `n` positions.
pub fn data(n: usize) -> Vec<f32> {
    (0..n).map(value).collect()
}

/// Two numbers are equal, or differ by at most so much of the second.
#[track_caller]
pub fn near(got: f64, want: f64, tolerance: f64) {
    let close = got == want
        || got.is_nan() && want.is_nan()
        || (got - want).abs() <= tolerance * want.abs().max(1e-30);
    assert!(close, "{got} for {want}");
}
