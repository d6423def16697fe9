//! How long the launches of a plan took while somebody profiled.

use crate::draft::{Draft, Step, origins};
use ferrotrace_runtime::{Activity, Label, Timer};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Runs of one launch, and the time of all.
#[derive(Debug, Default)]
struct Reading {
    runs: AtomicU64,
    nanoseconds: AtomicU64,
}

/// A reading for each launch or call.
#[derive(Debug)]
pub(super) struct Meter {
    readings: Vec<Reading>,
    /// The label of each, once they are asked for.
    labels: OnceLock<Vec<Label>>,
}

impl Meter {
    /// A meter of so many launches and calls.
    pub fn new(launches: usize) -> Meter {
        Meter {
            readings: (0..launches).map(|_| Reading::default()).collect(),
            labels: OnceLock::new(),
        }
    }

    /// Notes that group `i` of the draft's launches ran.
    #[inline]
    pub fn stop(&self, timer: Timer, draft: &Draft, i: usize) {
        let activity = match draft.steps[draft.launches.groups[i].start] {
            Step::Launch(_) | Step::Template(_) => Activity::Kernel,
            Step::Call(_) => Activity::Call,
        };
        let label = || self.labels.get_or_init(|| origins::labels(draft))[i].clone();
        if let Some(time) = timer.stop(activity, label) {
            self.readings[i].runs.fetch_add(1, Relaxed);
            let nanoseconds = time.as_nanos() as u64;
            self.readings[i].nanoseconds.fetch_add(nanoseconds, Relaxed);
        }
    }

    /// Runs of a group and their mean time, if it was ever timed.
    pub fn mean(&self, i: usize) -> Option<(u64, Duration)> {
        let reading = self.readings.get(i)?;
        let runs = reading.runs.load(Relaxed);
        let mean = reading.nanoseconds.load(Relaxed).checked_div(runs)?;
        Some((runs, Duration::from_nanos(mean)))
    }
}
