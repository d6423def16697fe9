//! Counters of what the library did: of the process, and of one thread's work in a scope.
//!
//! Each thread adds to cells of its own, which only it writes; [`stats`] sums over the cells of all threads. A cell
//! block outlives its thread, keeping its counts, and is taken over by a later thread. Live and peak bytes of the
//! process are two shared atomics, since a peak cannot be summed; a thread tells them of small buffers many at a time.

use crate::Apart;
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What can be counted. Bytes alive are not among these: the allocator keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Counter {
    /// Operations recorded.
    OpsRecorded,
    /// Flushes of a trace.
    Flushes,
    /// Runs of a `jit` function to record it.
    Traces,
    /// Plans built.
    PlansBuilt,
    /// Flushes served by a cached plan.
    PlanCacheHits,
    /// Kernels compiled.
    KernelsCompiled,
    /// Kernels found in memory.
    KernelCacheHits,
    /// Kernels found on disk.
    DiskCacheHits,
    /// Generated kernels run.
    KernelsLaunched,
    /// Ready-made steps run (matrix products, sorts, ..).
    LibraryCalls,
    /// Kernels replaced by ready-made ones since they could not be compiled.
    Fallbacks,
    /// Waits of the host for a device.
    HostSyncs,
    /// Copies between devices.
    DeviceCopies,
    /// Bytes handed out by allocators.
    BytesAllocated,
    /// Buffers served from an allocator's cache.
    BuffersReused,
    /// Outputs written over an operand that died.
    InPlaceWrites,
    /// Operators of another device run on the host.
    HostRuns,
    /// Launches of several kernels at once.
    CombinedLaunches,
    /// Loop nests before fusion.
    Nests,
    /// Values computed where they are used, and pairs of nodes made one kernel.
    Fusions,
    /// Fused pairs of which one walks its loops in another order or split.
    LoopReorders,
    /// Graphs made of runs of launches on a device.
    GraphsCaptured,
    /// Launches of such graphs.
    GraphLaunches,
    /// Candidates of plans whose launches were timed.
    CandidatesMeasured,
    /// Microseconds that making, compiling and timing candidates took.
    MeasuringMicroseconds,
}

const COUNTERS: usize = 25;

/// Counts since the start of the process or the last [`reset_stats`]; from [`stats_scope`], of one thread's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Operations recorded.
    pub ops_recorded: u64,
    /// Flushes of a trace.
    pub flushes: u64,
    /// Runs of a `jit` function to record it.
    pub traces: u64,
    /// Plans built.
    pub plans_built: u64,
    /// Flushes served by a cached plan.
    pub plan_cache_hits: u64,
    /// Kernels compiled.
    pub kernels_compiled: u64,
    /// Kernels found in memory.
    pub kernel_cache_hits: u64,
    /// Kernels found on disk.
    pub disk_cache_hits: u64,
    /// Generated kernels run, one for each fused node, however many threads run it.
    pub kernels_launched: u64,
    /// Ready-made steps run (matrix products, sorts, ..).
    pub library_calls: u64,
    /// Kernels replaced by ready-made ones since they could not be compiled.
    pub fallbacks: u64,
    /// Waits of the host for a device.
    pub host_syncs: u64,
    /// Copies between devices.
    pub device_copies: u64,
    /// Bytes handed out by allocators, as requested.
    pub bytes_allocated: u64,
    /// Bytes of buffers alive now. Of a scope: the net change by this thread, 0 if it released more than it took.
    pub live_bytes: u64,
    /// The largest `live_bytes` since the last reset, to 64 KiB for each other thread that takes or releases buffers. Of
    /// a scope: the most by which this thread's buffers exceeded what was alive when the scope began.
    pub peak_bytes: u64,
    /// Buffers served from an allocator's cache.
    pub buffers_reused: u64,
    /// Outputs written over an operand that died.
    pub in_place_writes: u64,
    /// Operators of another device run on the host, with copies there and back.
    pub host_runs: u64,
    /// Launches of several independent kernels at once; each of the kernels counts among those launched.
    pub combined_launches: u64,
    /// Loop nests before fusion (scheduler V-09: work is counted).
    pub nests: u64,
    /// Operations computed where their result is used, and pairs of nodes made one kernel: what `FERROTRACE_FUSE_LIMIT`
    /// counts.
    pub fusions: u64,
    /// Fused pairs of which one walks its loops in another order, split or merged (scheduler R-15: reorderings are
    /// counted).
    pub loop_reorders: u64,
    /// Graphs made of runs of launches on a device (scheduler G-04: a recorded run becomes a graph).
    pub graphs_captured: u64,
    /// Launches of such graphs; the kernels in them count among those launched.
    pub graph_launches: u64,
    /// Candidates of plans whose launches were timed; nothing else that measuring does is counted (codegen A11.3:
    /// fusions are chosen by measuring).
    pub candidates_measured: u64,
    /// Microseconds that making, compiling and timing candidates took.
    pub measuring_microseconds: u64,
}

impl Stats {
    fn from_counts(c: &[u64; COUNTERS], live_bytes: u64, peak_bytes: u64) -> Stats {
        let of = |counter: Counter| c[counter as usize];
        Stats {
            ops_recorded: of(Counter::OpsRecorded),
            flushes: of(Counter::Flushes),
            traces: of(Counter::Traces),
            plans_built: of(Counter::PlansBuilt),
            plan_cache_hits: of(Counter::PlanCacheHits),
            kernels_compiled: of(Counter::KernelsCompiled),
            kernel_cache_hits: of(Counter::KernelCacheHits),
            disk_cache_hits: of(Counter::DiskCacheHits),
            kernels_launched: of(Counter::KernelsLaunched),
            library_calls: of(Counter::LibraryCalls),
            fallbacks: of(Counter::Fallbacks),
            host_syncs: of(Counter::HostSyncs),
            device_copies: of(Counter::DeviceCopies),
            bytes_allocated: of(Counter::BytesAllocated),
            live_bytes,
            peak_bytes,
            buffers_reused: of(Counter::BuffersReused),
            in_place_writes: of(Counter::InPlaceWrites),
            host_runs: of(Counter::HostRuns),
            combined_launches: of(Counter::CombinedLaunches),
            nests: of(Counter::Nests),
            fusions: of(Counter::Fusions),
            loop_reorders: of(Counter::LoopReorders),
            graphs_captured: of(Counter::GraphsCaptured),
            graph_launches: of(Counter::GraphLaunches),
            candidates_measured: of(Counter::CandidatesMeasured),
            measuring_microseconds: of(Counter::MeasuringMicroseconds),
        }
    }
}

/// One thread's cells. Written by the owning thread alone, read by any; hence loads and stores, not read-modify-write.
#[repr(align(128))]
struct Block {
    counts: [AtomicU64; COUNTERS],
    /// Bytes taken less bytes released by this thread, wrapping.
    live: AtomicU64,
    /// How much of `live` is counted in [`LIVE`].
    told: AtomicU64,
    /// The largest `live`, as a signed number, since the innermost scope began.
    peak: AtomicU64,
}

impl Block {
    const fn new() -> Block {
        Block {
            counts: [const { AtomicU64::new(0) }; COUNTERS],
            live: AtomicU64::new(0),
            told: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    fn counts(&self) -> [u64; COUNTERS] {
        std::array::from_fn(|i| self.counts[i].load(Relaxed))
    }

    /// The part of `live` that [`LIVE`] does not count yet, wrapping.
    fn untold(&self) -> u64 {
        self.live
            .load(Relaxed)
            .wrapping_sub(self.told.load(Relaxed))
    }

    /// Counts all of `live` in [`LIVE`].
    fn tell(&self) {
        LIVE.fetch_add(self.untold(), Relaxed);
        self.told.store(self.live.load(Relaxed), Relaxed);
    }
}

struct Registry {
    blocks: Vec<&'static Block>,
    free: Vec<&'static Block>,
    /// Sums at the last reset.
    base: [u64; COUNTERS],
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    blocks: Vec::new(),
    free: Vec::new(),
    base: [0; COUNTERS],
});
/// Counts of threads whose cells are already given back: work in destructors of thread-local values.
static ORPHANS: Block = Block::new();
/// Bytes of buffers alive, wrapping, but for what each thread has not told yet: threads that take and release small
/// buffers all the time would else pass this line around.
static LIVE: Apart<AtomicU64> = Apart(AtomicU64::new(0));
/// The largest number of bytes alive that a thread has seen.
static PEAK: Apart<AtomicU64> = Apart(AtomicU64::new(0));
/// Most bytes that a thread leaves out of [`LIVE`].
const UNTOLD: u64 = 64 << 10;

thread_local! {
    static BLOCK: Cell<Option<&'static Block>> = const { Cell::new(None) };
    static GUARD: Guard = const { Guard };
}

/// Gives the thread's block back when the thread ends.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(block) = BLOCK.take() {
            REGISTRY.lock().free.push(block);
        }
    }
}

#[cold]
fn register() -> Option<&'static Block> {
    GUARD.try_with(|_| ()).ok()?;
    let mut registry = REGISTRY.lock();
    let block = registry.free.pop().unwrap_or_else(|| {
        let block: &'static Block = Box::leak(Box::new(Block::new()));
        registry.blocks.push(block);
        block
    });
    BLOCK.set(Some(block));
    Some(block)
}

#[inline]
fn block() -> Option<&'static Block> {
    match BLOCK.get() {
        Some(block) => Some(block),
        None => register(),
    }
}

/// Adds `n` to a counter of this thread. One or two nanoseconds.
#[inline]
pub fn count(counter: Counter, n: u64) {
    match block() {
        Some(block) => {
            let cell = &block.counts[counter as usize];
            cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
        }
        None => {
            ORPHANS.counts[counter as usize].fetch_add(n, Relaxed);
        }
    }
}

/// Notes that a buffer of `bytes` came alive on this thread.
#[inline]
pub(crate) fn add_live(bytes: u64) {
    let seen = match block() {
        Some(block) => {
            let live = block.live.load(Relaxed).wrapping_add(bytes);
            block.live.store(live, Relaxed);
            if (live as i64) > block.peak.load(Relaxed) as i64 {
                block.peak.store(live, Relaxed);
            }
            tell_much(block);
            LIVE.load(Relaxed).wrapping_add(block.untold())
        }
        None => LIVE.fetch_add(bytes, Relaxed).wrapping_add(bytes),
    };
    // Other threads' untold releases may make the sum slightly negative.
    if seen as i64 > PEAK.load(Relaxed) as i64 {
        PEAK.fetch_max(seen, Relaxed);
    }
}

/// Notes that a buffer of `bytes` was released on this thread.
#[inline]
pub(crate) fn sub_live(bytes: u64) {
    match block() {
        Some(block) => {
            let live = block.live.load(Relaxed).wrapping_sub(bytes);
            block.live.store(live, Relaxed);
            tell_much(block);
        }
        None => {
            LIVE.fetch_sub(bytes, Relaxed);
        }
    }
}

#[inline]
fn tell_much(block: &Block) {
    if (block.untold() as i64).unsigned_abs() > UNTOLD {
        block.tell();
    }
}

/// Bytes of buffers alive now, in the whole process.
pub fn live_bytes() -> u64 {
    live(&REGISTRY.lock())
}

fn live(registry: &Registry) -> u64 {
    let untold = registry.blocks.iter().map(|block| block.untold());
    let live = untold.fold(LIVE.load(Relaxed), u64::wrapping_add);
    // Other threads go on meanwhile: one may release what another took a moment ago.
    (live as i64).max(0) as u64
}

fn sums(registry: &Registry) -> [u64; COUNTERS] {
    let mut total = ORPHANS.counts();
    for block in &registry.blocks {
        for (sum, n) in total.iter_mut().zip(block.counts()) {
            *sum = sum.wrapping_add(n);
        }
    }
    total
}

/// The counts of the whole process since its start or the last [`reset_stats`].
pub fn stats() -> Stats {
    let registry = REGISTRY.lock();
    let mut counts = sums(&registry);
    for (count, base) in counts.iter_mut().zip(registry.base) {
        *count = count.wrapping_sub(base);
    }
    let live = live(&registry);
    Stats::from_counts(&counts, live, PEAK.load(Relaxed).max(live))
}

/// Starts the counts of [`stats`] anew; `peak_bytes` starts at what is alive now. Scopes are not disturbed.
pub fn reset_stats() {
    let mut registry = REGISTRY.lock();
    registry.base = sums(&registry);
    PEAK.store(live(&registry), Relaxed);
}

/// Runs `f` and returns what this thread did meanwhile. Work that a flush hands to other threads is counted on the
/// thread that flushes; work of threads that `f` starts by itself is not counted here.
pub fn stats_scope<R>(f: impl FnOnce() -> R) -> (R, Stats) {
    let Some(block) = block() else {
        return (f(), Stats::default());
    };
    /// Restores the peak of the enclosing scope, also when `f` panics.
    struct Enclosing(&'static Block, i64);
    impl Drop for Enclosing {
        fn drop(&mut self) {
            let peak = (self.0.peak.load(Relaxed) as i64).max(self.1);
            self.0.peak.store(peak as u64, Relaxed);
        }
    }
    let start = block.counts();
    let live = block.live.load(Relaxed);
    let enclosing = Enclosing(block, block.peak.load(Relaxed) as i64);
    block.peak.store(live, Relaxed);
    let result = f();
    let end = block.counts();
    let delta = std::array::from_fn(|i| end[i].wrapping_sub(start[i]));
    let above = |bytes: u64| (bytes.wrapping_sub(live) as i64).max(0) as u64;
    let stats = Stats::from_counts(
        &delta,
        above(block.live.load(Relaxed)),
        above(block.peak.load(Relaxed)),
    );
    drop(enclosing);
    (result, stats)
}

/// Cells that belong to no thread, for [`uncounted`].
static SPARE: Mutex<Vec<&'static Block>> = Mutex::new(Vec::new());

/// Runs `f` without counting what this thread does meanwhile: for work that no program asked for. Bytes alive, and the
/// most at once, are those of the process all the same.
pub fn uncounted<R>(f: impl FnOnce() -> R) -> R {
    /// Puts the thread's own cells back, also when `f` panics.
    struct Own(Option<&'static Block>);
    impl Drop for Own {
        fn drop(&mut self) {
            if let Some(spare) = BLOCK.replace(self.0) {
                spare.tell();
                SPARE.lock().push(spare);
            }
        }
    }
    // The thread has cells of its own first, so that they are given back when it ends.
    let own = Own(block());
    let spare = SPARE.lock().pop();
    BLOCK.set(Some(
        spare.unwrap_or_else(|| Box::leak(Box::new(Block::new()))),
    ));
    let result = f();
    drop(own);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_counts_its_own_thread_alone() {
        let ((), outer) = stats_scope(|| {
            count(Counter::Flushes, 2);
            std::thread::spawn(|| count(Counter::Flushes, 100))
                .join()
                .expect("counts");
            let ((), inner) = stats_scope(|| count(Counter::Flushes, 3));
            assert_eq!(inner.flushes, 3);
        });
        assert_eq!(outer.flushes, 5);
    }

    #[test]
    fn what_is_not_to_be_counted_is_not() {
        let ((), stats) = stats_scope(|| {
            count(Counter::OpsRecorded, 1);
            uncounted(|| {
                count(Counter::OpsRecorded, 10);
                let ((), inner) = stats_scope(|| count(Counter::Traces, 5));
                assert_eq!(inner.traces, 5);
                add_live(70);
                sub_live(70);
            });
            let unwound = std::panic::catch_unwind(|| uncounted(|| panic!("unwinds")));
            assert!(unwound.is_err());
            count(Counter::OpsRecorded, 1);
        });
        assert_eq!((stats.ops_recorded, stats.traces), (2, 0));
        assert_eq!((stats.live_bytes, stats.peak_bytes), (0, 0));
    }

    #[test]
    fn the_process_sums_over_finished_threads() {
        let before = stats().in_place_writes;
        for _ in 0..3 {
            std::thread::spawn(|| count(Counter::InPlaceWrites, 7))
                .join()
                .expect("counts");
        }
        assert!(stats().in_place_writes >= before + 21);
    }

    #[test]
    fn peaks_nest() {
        let ((), outer) = stats_scope(|| {
            add_live(100);
            let ((), inner) = stats_scope(|| {
                add_live(50);
                sub_live(50);
                add_live(20);
            });
            assert_eq!((inner.peak_bytes, inner.live_bytes), (50, 20));
            sub_live(120);
        });
        assert_eq!((outer.peak_bytes, outer.live_bytes), (150, 0));
    }

    #[test]
    fn a_scope_survives_a_panic() {
        let _ = std::panic::catch_unwind(|| {
            stats_scope(|| {
                add_live(10);
                sub_live(10);
                panic!("inside");
            })
        });
        let ((), s) = stats_scope(|| count(Counter::Traces, 1));
        assert_eq!((s.traces, s.peak_bytes), (1, 0));
    }
}
