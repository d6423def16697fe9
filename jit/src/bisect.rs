//! The process's count of fusions, and its limit: for bisecting wrong numbers (codegen B1.5).

use ferrotrace_runtime::{Config, Counter, count};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Whether one more fusion may be done; it counts as done then. `FERROTRACE_FUSE_LIMIT` says after how many of the process
/// none may: an operation is then stored instead of being computed where its result is used, and nodes stay apart.
pub(crate) fn may_fuse() -> bool {
    static DONE: AtomicU64 = AtomicU64::new(0);
    if let Some(limit) = Config::get().fuse_limit {
        let one_more = |done: u64| (done < limit).then_some(done + 1);
        if DONE.fetch_update(Relaxed, Relaxed, one_more).is_err() {
            return false;
        }
    }
    count(Counter::Fusions, 1);
    true
}
