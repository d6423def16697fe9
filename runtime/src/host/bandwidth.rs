//! The rate at which memory is read and written, measured.

use crate::Pool;
use once_cell::sync::Lazy;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Bytes that each thread copies.
const BLOCK: usize = 24 << 20;

static BANDWIDTH: Lazy<u64> = Lazy::new(|| {
    let pool = Pool::global();
    let threads = pool.threads();
    let blocks: Vec<Mutex<(Vec<u8>, Vec<u8>)>> = (0..threads)
        .map(|_| Mutex::new((vec![1; BLOCK], vec![2; BLOCK])))
        .collect();
    let copy = |chunk: usize| {
        let (from, to) = &mut *blocks[chunk].lock();
        to.copy_from_slice(from);
    };
    let pass = || {
        let start = Instant::now();
        pool.run(threads, &|first, last, _| (first..last).for_each(copy));
        start.elapsed()
    };
    let best = (0..5).map(|_| pass()).min().unwrap_or(Duration::MAX);
    ((2 * BLOCK * threads) as f64 / best.as_secs_f64()) as u64
});

/// Bytes a second that all threads together read and write while they copy memory past the caches; measured when first
/// asked for, in some 50 ms.
pub fn bandwidth() -> u64 {
    *BANDWIDTH
}
