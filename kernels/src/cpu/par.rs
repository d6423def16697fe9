//! Work split over the threads of the pool.

use ferrotrace_runtime::Pool;
use std::ops::Range;

/// Elements below which a loop stays on the calling thread.
pub const GRAIN: usize = 1 << 15;

/// Runs `f` on ranges that together are `0..chunks`, on the pool if there are at least [`GRAIN`] elements of work.
/// Which ranges it gets depends on the number of threads: results must depend on the chunks alone.
#[inline]
pub fn ranges(chunks: usize, elements: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    if elements < GRAIN || chunks <= 1 {
        f(0..chunks);
    } else {
        Pool::global().run(chunks, &|begin, end, _| f(begin..end));
    }
}

/// A pointer that threads share, each to read, or to write its own part.
#[derive(Clone, Copy, Debug)]
pub struct Shared(*mut u8);

// SAFETY: who dereferences the pointer answers for the bytes being written by no other thread.
unsafe impl Send for Shared {}
// SAFETY: shared access gives the address alone; who dereferences it answers for the bytes being written by no other thread.
unsafe impl Sync for Shared {}

impl Shared {
    /// A pointer to write through.
    #[inline]
    pub fn new(ptr: *mut u8) -> Shared {
        Shared(ptr)
    }

    /// The pointer.
    #[inline]
    pub fn get(self) -> *mut u8 {
        self.0
    }
}
