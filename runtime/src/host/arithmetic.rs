//! The rate of arithmetic that the processor reaches, measured.

use crate::{Isa, Pool};
use once_cell::sync::Lazy;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Independent vectors: enough that none waits for the one before, few enough that all stay in registers.
const CHAINS: usize = 12;
/// Multiply-adds of each chain.
const ROUNDS: usize = 1 << 15;

/// Multiply-adds of 16 numbers on every chain.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512(factor: f32, term: f32) -> f32 {
    use std::arch::x86_64::*;
    let (factor, term) = (_mm512_set1_ps(factor), _mm512_set1_ps(term));
    let mut sums = [_mm512_set1_ps(1.0); CHAINS];
    for _ in 0..ROUNDS {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, factor, term);
        }
    }
    let all = sums.into_iter().fold(term, |a, b| _mm512_add_ps(a, b));
    _mm512_reduce_add_ps(all)
}

/// Multiply-adds of 8 numbers on every chain.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2(factor: f32, term: f32) -> f32 {
    use std::arch::x86_64::*;
    let (factor, term) = (_mm256_set1_ps(factor), _mm256_set1_ps(term));
    let mut sums = [_mm256_set1_ps(1.0); CHAINS];
    for _ in 0..ROUNDS {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, factor, term);
        }
    }
    let all = sums.into_iter().fold(term, |a, b| _mm256_add_ps(a, b));
    _mm256_cvtss_f32(all)
}

/// One thread's share, and its lanes; `None` for an instruction set without a measurement.
fn pass(isa: Isa) -> Option<usize> {
    let (factor, term) = (black_box(0.999), black_box(1e-3));
    let (sum, lanes) = match isa {
        // SAFETY: the instruction set was detected on this machine.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => (unsafe { avx512(factor, term) }, 16),
        // SAFETY: the instruction set was detected on this machine.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => (unsafe { avx2(factor, term) }, 8),
        _ => (factor + term, 0),
    };
    black_box(sum);
    (lanes > 0).then_some(lanes)
}

static PEAK: Lazy<Option<u64>> = Lazy::new(|| {
    let pool = Pool::global();
    let (threads, isa) = (pool.threads(), Isa::host());
    let lanes = pass(isa)?;
    let timed = || {
        let start = Instant::now();
        pool.run(threads, &|first, last, _| {
            for _ in first..last {
                pass(isa);
            }
        });
        start.elapsed()
    };
    let best = (0..5).map(|_| timed()).min()?;
    let operations = 2 * lanes * CHAINS * ROUNDS * threads;
    Some((operations as f64 / best.max(Duration::from_nanos(1)).as_secs_f64()) as u64)
});

/// Additions and multiplications of binary32 a second that all threads together do on vectors in registers; measured when
/// first asked for, in a few milliseconds. `None` for an instruction set that is not measured. In a build without
/// optimisation it is far below what generated kernels reach.
pub fn peak() -> Option<u64> {
    *PEAK
}
