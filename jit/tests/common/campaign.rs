//! Many seeds: which ones, on how many threads, and how many there were.
//!
//! `FERROTRACE_FUZZ_SEED` is the first, `FERROTRACE_FUZZ_COUNT` how many, `FERROTRACE_FUZZ_THREADS` on how many threads a
//! test goes through them, one unless that is said.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Failures after which a campaign ends.
const ENOUGH: usize = 5;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The seeds that are asked for, or `default` of them.
pub fn seeds(default: u64) -> Range<u64> {
    let start = number("FERROTRACE_FUZZ_SEED").unwrap_or(0);
    start..start + number("FERROTRACE_FUZZ_COUNT").unwrap_or(default)
}

/// An eighth of as many, where that many are not asked for by default.
pub fn few(default: u64) -> Range<u64> {
    let all = seeds(default * 8);
    all.start..all.start + (all.end - all.start) / 8
}

/// The threads that are asked for, or `default` of them.
pub fn threads(default: usize) -> usize {
    number("FERROTRACE_FUZZ_THREADS").map_or(default, |n| n.clamp(1, 1024) as usize)
}

/// Calls `test` with every seed. It panics where a graph fails.
#[track_caller]
pub fn each(seeds: Range<u64>, test: impl Fn(u64) + Sync) {
    batches(seeds, 1, |batch| test(batch.start));
}

/// Calls `test` with ranges of at most `size` seeds that make up all of them, each on one of the threads, and prints how
/// many there were. What panics does not end the others.
#[track_caller]
pub fn batches(seeds: Range<u64>, size: u64, test: impl Fn(Range<u64>) + Sync) {
    let (next, done) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    let failed = Mutex::new(Vec::new());
    let failures = || failed.lock().map_or(ENOUGH, |failed| failed.len());
    let work = || loop {
        let start = next.fetch_add(size, Relaxed);
        if start >= seeds.end || failures() >= ENOUGH {
            return;
        }
        let batch = start..seeds.end.min(start + size);
        match catch_unwind(AssertUnwindSafe(|| test(batch.clone()))) {
            Ok(()) => drop(done.fetch_add(batch.end - batch.start, Relaxed)),
            Err(_) => failed
                .lock()
                .expect("no panic while it is held")
                .push(batch),
        }
    };
    let threads = threads(1);
    let name = std::thread::current().name().unwrap_or("fuzz").to_owned();
    if threads == 1 {
        work();
    } else {
        std::thread::scope(|scope| {
            (0..threads).for_each(|_| drop(scope.spawn(work)));
        });
    }
    let (done, failed) = (done.into_inner(), failed.into_inner().unwrap_or_default());
    println!(
        "{name}: {done} seeds of {seeds:?} on {threads} threads, {} failures",
        failed.len()
    );
    assert!(failed.is_empty(), "seeds {failed:?}");
}
