//! A tensor of more than 2^31 elements, and of more than 2^32 bytes read: its far end is where it should be.
//!
//! Runs where the memory is there; says so where it is not.

use ferrotrace::prelude::*;
use std::io::Write;

/// Past 2^31, a multiple of 8, and not of the 251 that the values repeat after.
const N: usize = (1 << 31) + 1000;
/// Two tensors of a byte an element, and room for others' work.
const NEEDED: usize = 7 << 30;

/// Bytes that the system could give.
fn available() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
    kib.unwrap_or(0) << 10
}

fn value(i: usize) -> u8 {
    (i % 251) as u8
}

/// The sum of the first `n` values.
fn sum(n: usize) -> i64 {
    let (whole, rest) = ((n / 251) as i64, (n % 251) as i64);
    whole * (250 * 251 / 2) + rest * (rest - 1) / 2
}

#[test]
fn more_than_2_to_the_31_elements() {
    if available() < NEEDED {
        // Past the test harness, which shows what passing tests print to nobody.
        let free = available() >> 20;
        let said = format!(
            "skipped: {free} MiB of memory are free, {} are needed\n",
            NEEDED >> 20
        );
        std::io::stderr().write_all(said.as_bytes()).unwrap();
        return;
    }
    let device = Device::cpu();
    let numbers = || Tensor::arange(0i64, N as i64, 1i64, DType::I64, &device);
    // Generated inside of kernels: no tensor of eight bytes an element ever exists.
    let x = numbers().remainder(251).to_dtype(DType::U8);
    x.eval().unwrap();
    assert_eq!(x.numel(), N);
    let far: Vec<usize> = vec![N - 1, 1 << 31, (1 << 31) - 1, 0, (1 << 31) + 7];
    let values: Vec<u8> = far.iter().map(|&i| value(i)).collect();
    let positions: Vec<i64> = far.iter().map(|&i| i as i64).collect();
    let positions = Tensor::from_slice(&positions, far.len(), &device);
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            let tail = x.narrow(0, (N - 5) as isize, 5);
            let want: Vec<u8> = (N - 5..N).map(value).collect();
            assert_eq!(tail.to_vec::<u8>().unwrap(), want, "{mode:?}");
            assert_eq!((&tail + 1).to_vec::<u8>().unwrap()[4], want[4] + 1);
            assert_eq!(
                x.index_select(0, &positions).to_vec::<u8>().unwrap(),
                values,
                "{mode:?}"
            );
            assert_eq!(
                x.gather(0, &positions).to_vec::<u8>().unwrap(),
                values,
                "{mode:?}"
            );
            let backwards = x.flip(0).narrow(0, 0, 3).to_vec::<u8>().unwrap();
            assert_eq!(
                backwards,
                [value(N - 1), value(N - 2), value(N - 3)],
                "{mode:?}"
            );
            assert_eq!(x.sum(..).to_scalar::<i64>().unwrap(), sum(N), "{mode:?}");
        });
    }
    // Rows of 2^28 and more.
    let rows = x.reshape([8, N / 8]).sum(1).to_vec::<i64>().unwrap();
    let want: Vec<i64> = (0..8)
        .map(|r| sum((r + 1) * (N / 8)) - sum(r * (N / 8)))
        .collect();
    assert_eq!(rows, want);
    // The greatest stands near the end, once; the other half of the elements is not read for nothing.
    let at = N - 3;
    let marked = Tensor::where_cond(&numbers().eq(at as i64), 255u8, &x);
    assert_eq!(marked.argmax(0).to_scalar::<i64>().unwrap(), at as i64);
    // A whole pass that stores: each element twice, in bytes.
    let twice = &x * 2;
    let last = twice.narrow(0, (N - 2) as isize, 2).to_vec::<u8>().unwrap();
    assert_eq!(
        last,
        [value(N - 2).wrapping_mul(2), value(N - 1).wrapping_mul(2)]
    );
    assert!(!twice.ne(&(&x + &x)).any(..).to_scalar::<bool>().unwrap());
}

// ir T12: counts of more than binary32 holds exactly.
#[test]
fn means_and_variances_of_more_than_2_to_the_24_elements() {
    const N: usize = 3 * (1 << 24) + 1;
    let numbers = Tensor::arange(0i64, N as i64, 1i64, DType::I64, &Device::cpu());
    let x = numbers.remainder(2).to_dtype(DType::F32);
    x.eval().unwrap();
    let ones = (N / 2) as f64;
    let mean = ones / N as f64;
    let variance = mean * (1.0 - mean);
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            let got = x.mean(0).to_scalar::<f32>().unwrap();
            assert!((got as f64 - mean).abs() < 1e-6, "{mode:?}: {got}");
            let got = x.var(0, 0).to_scalar::<f32>().unwrap();
            assert!((got as f64 - variance).abs() < 1e-6, "{mode:?}: {got}");
        });
    }
}
