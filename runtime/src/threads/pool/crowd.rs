//! How many threads of the program have jobs at the same time: they share the processors.
//!
//! Sixteen callers on sixteen cores are best served by a thread each: a worker that helps one of them, or spins between
//! its jobs, takes a core from another. Each caller notes on a line of its own when it came last; now and then one counts
//! those that came a moment ago.

use crate::{Apart, STRIPES, stripe};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A thread that came this long ago, or later, counts as a caller.
const RECENT: Duration = Duration::from_millis(1);
/// How often callers are counted at most.
const COUNTING: Duration = Duration::from_micros(100);

/// The callers of the pool.
pub(super) struct Crowd {
    /// For each stripe the time at which a thread of it came last, in nanoseconds; 0 for never.
    came: [Apart<AtomicU64>; STRIPES],
    /// How many there were when they were counted last, and when that was. Read by all, written rarely.
    callers: Apart<(AtomicUsize, AtomicU64)>,
}

/// Nanoseconds since the first question, more than 0.
pub(super) fn now() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    1 + ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

impl Crowd {
    pub(super) const fn new() -> Crowd {
        Crowd {
            came: [const { Apart(AtomicU64::new(0)) }; STRIPES],
            callers: Apart((AtomicUsize::new(1), AtomicU64::new(0))),
        }
    }

    /// Notes that this thread has a job at `now`; how many threads came a moment ago, this one among them.
    pub(super) fn callers(&self, now: u64) -> usize {
        self.came[stripe()].store(now, Relaxed);
        let (callers, counted) = &*self.callers;
        if now.saturating_sub(counted.load(Relaxed)) > COUNTING.as_nanos() as u64 {
            counted.store(now, Relaxed);
            let recent = |came: &&Apart<AtomicU64>| {
                let came = came.load(Relaxed);
                came > 0 && now.saturating_sub(came) < RECENT.as_nanos() as u64
            };
            let count = self.came.iter().filter(recent).count().max(1);
            if callers.load(Relaxed) != count {
                callers.store(count, Relaxed);
            }
        }
        callers.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_came_a_moment_ago_are_counted() {
        let crowd = Crowd::new();
        let second = 1_000_000_000;
        assert_eq!(crowd.callers(second), 1);
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| crowd.callers(second + 1))
                    .join()
                    .expect("no panic");
            }
        });
        // Threads that ran one after another may have shared a stripe.
        let all = crowd.callers(second + 500_000);
        assert!((2..=4).contains(&all), "{all}");
        assert_eq!(crowd.callers(3 * second), 1);
    }
}
