//! Failures on request, for tests of what follows a failure.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Where a failure can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Site {
    /// A run of the compiler.
    Compile,
    /// The loading of an artifact.
    Load,
    /// An allocation.
    Allocate,
    /// A launch.
    Launch,
}

/// Calls until the failure, 0 for none: reading it is all that a site costs when nothing is asked for.
static COUNTDOWN: [AtomicI64; 4] = [const { AtomicI64::new(0) }; 4];

/// Makes the `n`-th call of `site` from now on, counted from 1 over all threads, fail once; 0 takes it back. Returns how
/// far the last request was from failing: 0 if it failed.
#[doc(hidden)]
pub fn fail(site: Site, n: u32) -> u32 {
    let left = COUNTDOWN[site as usize].swap(n as i64, Relaxed);
    left.max(0) as u32
}

/// Whether this call of `site` is to fail.
#[inline]
pub(crate) fn fails(site: Site) -> bool {
    let countdown = &COUNTDOWN[site as usize];
    countdown.load(Relaxed) > 0 && countdown.fetch_sub(1, Relaxed) == 1
}
