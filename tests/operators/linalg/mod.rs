//! Linear algebra in both modes: residuals in binary64, and numbers that NumPy gave.

mod elimination;
mod equations;
mod factors;
mod general;
mod norms;
mod refusals;

use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

pub const WIDE: [DType; 2] = [F64, F32];

/// How far numbers computed of some hundred others may be off.
pub fn slack(dtype: DType) -> f64 {
    match dtype {
        F64 => 1e-11,
        _ => 2e-4,
    }
}

/// Numbers in (−1, 1) without order, which binary32 holds.
pub fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        f64::from((state >> 40) as f32 / (1u32 << 23) as f32 - 1.0)
    };
    (0..n).map(|_| next()).collect()
}

/// a·b of row-major matrices.
pub fn product(a: &[f64], b: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for l in 0..k {
            for j in 0..n {
                c[i * n + j] += a[i * k + l] * b[l * n + j];
            }
        }
    }
    c
}

/// Rows and columns exchanged.
pub fn turned(a: &[f64], [m, n]: [usize; 2]) -> Vec<f64> {
    (0..n * m).map(|at| a[at % m * n + at / m]).collect()
}

/// The identity.
pub fn one(n: usize) -> Vec<f64> {
    (0..n * n)
        .map(|at| f64::from(u8::from(at % (n + 1) == 0)))
        .collect()
}

/// A symmetric matrix, all of whose eigenvalues are at least 1, rounded to binary32.
pub fn definite(n: usize, seed: u64) -> Vec<f64> {
    let a = noise(n * n, seed);
    let square = product(&a, &turned(&a, [n, n]), [n, n, n]);
    square
        .iter()
        .zip(one(n))
        .map(|(x, one)| f64::from((x + one) as f32))
        .collect()
}

/// The elements agree, relative to the greatest expected one.
#[track_caller]
pub fn agree(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    let most = want
        .iter()
        .fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        assert!(
            (a - b).abs() <= tolerance * most,
            "element {i}: {a} for {b}"
        );
    }
}

/// A batch of as many matrices, one behind another.
pub fn batch(count: usize, f: impl Fn(u64) -> Vec<f64>) -> Vec<f64> {
    (0..count as u64).flat_map(f).collect()
}
