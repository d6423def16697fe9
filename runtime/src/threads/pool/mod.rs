//! The pool of threads that run kernels.
//!
//! A kernel of ten microseconds cannot wait for a sleeping thread, so a worker spins for a while after each job before
//! it parks. A job is published in one atomic word; a worker enters a job only while it is open, and the caller, which
//! works too, closes it and waits for those inside alone: a worker that comes late costs nothing. Where all workers
//! sleep, the caller begins alone and wakes them only for work that turns out to last.
//!
//! Each thread has a share of the chunks, taken from the front in pieces, and takes from the others' shares when its
//! own is done. So consecutive jobs of one shape touch the same memory from the same core, and an uneven job is still
//! spread.
//!
//! Callers that come at the same time share the threads, and none waits for another: who finds the pool occupied works
//! alone.

mod crowd;
mod placement;

use self::crowd::{Crowd, now};
use self::placement::Placement;
use crate::config::MAX_THREADS;
use crate::{Apart, Config, FloatEnvironment};
use parking_lot::Mutex;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long a worker spins after its last job.
const SPIN: Duration = Duration::from_micros(100);
/// How long callers work alone, in one job or in several without a longer pause than [`SPIN`], before they wake the
/// sleeping workers: waking one costs the caller about as much.
const ALONE: Duration = Duration::from_micros(15);
/// Where the pieces that a thread's share is taken in end, in sixteenths of it: large ones first, since taking one costs a
/// little, small ones last, since threads wait for who is busy with the last one (cores are seldom equally fast).
const ENDS: [usize; 8] = [4, 8, 10, 12, 13, 14, 15, 16];
/// Chunks a thread below which callers do not begin alone while the workers sleep.
const FEW: usize = 4;
/// Sleeping workers that a caller, or a worker just woken, wakes at most: waking costs a system call each.
const WAKES: usize = 2;

// The state word: flags, then the number of workers inside, the number of threads of the job, and the job's epoch.
const BUSY: u64 = 1;
const OPEN: u64 = 2;
const INSIDE: u64 = 1 << 8;
const INSIDE_MASK: u64 = 0xfff << 8;
const THREADS_SHIFT: u32 = 20;
const THREADS_MASK: u64 = 0xfff;
const EPOCH_SHIFT: u32 = 32;

const fn threads_of(state: u64) -> usize {
    (state >> THREADS_SHIFT & THREADS_MASK) as usize
}

const fn epoch_of(state: u64) -> u32 {
    (state >> EPOCH_SHIFT) as u32
}

type Work<'a> = dyn Fn(usize, usize, usize) + Sync + 'a;

/// What the threads inside a job share. Written by the caller while it holds `BUSY` and the job is not open.
#[derive(Clone, Copy)]
struct Job {
    work: *const Work<'static>,
    first: usize,
    chunks: usize,
    threads: usize,
    epoch: u32,
}

/// A thread's share of the current job, and how to wake it.
#[repr(align(128))]
struct Slot {
    /// The epoch of the job in the upper half, pieces taken from this share in the lower; an older epoch means none.
    taken: AtomicU64,
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
    placement: Placement,
}

const _: () = assert!(size_of::<Board>() <= 64);

/// The state word and the job it speaks of, in one cache line: a worker that sees a job open has it at hand.
struct Board {
    state: AtomicU64,
    job: UnsafeCell<Option<Job>>,
}

/// A pool of threads that spin before they sleep.
pub struct Pool {
    board: Apart<Board>,
    /// Workers asleep or about to be.
    sleepers: Apart<AtomicUsize>,
    /// When the last job begun alone ended, and the time spent alone without a pause until then: nanoseconds.
    alone: Apart<[AtomicU64; 2]>,
    crowd: Crowd,
    panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    slots: Box<[Slot]>,
    workers: AtomicUsize,
    growing: Mutex<()>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} workers)", self.workers.load(Relaxed))
    }
}

// SAFETY: `job` is written only by the caller that holds `BUSY`, while no worker is inside, and read only by that caller
// and by workers inside; entering and publishing synchronise through `state`. All else is Sync by itself.
unsafe impl Sync for Pool {}
// SAFETY: the raw pointer in `job` is used only while the call of `run` that lent it is in progress.
unsafe impl Send for Pool {}

thread_local! {
    /// Whether this thread is inside a job, or is a worker: then it runs further jobs alone.
    static INSIDE_JOB: Cell<bool> = const { Cell::new(false) };
    /// The number of threads asked for by `with_threads`, 0 for none.
    static THREADS: Cell<usize> = const { Cell::new(0) };
}

static GLOBAL: OnceLock<Pool> = OnceLock::new();

impl Pool {
    /// The pool of the process. Its workers start with the first job that has use for them and are never joined.
    #[inline]
    pub fn global() -> &'static Pool {
        GLOBAL.get_or_init(|| Pool {
            board: Apart(Board {
                state: AtomicU64::new(0),
                job: UnsafeCell::new(None),
            }),
            sleepers: Apart(AtomicUsize::new(0)),
            alone: Apart([AtomicU64::new(0), AtomicU64::new(0)]),
            crowd: Crowd::new(),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
            slots: (0..MAX_THREADS)
                .map(|_| Slot {
                    taken: AtomicU64::new(0),
                    asleep: AtomicBool::new(false),
                    thread: OnceLock::new(),
                    placement: Placement::default(),
                })
                .collect(),
            workers: AtomicUsize::new(0),
            growing: Mutex::new(()),
        })
    }

    /// The number of threads over which a job of this thread is spread: the configured one, or that of the enclosing
    /// [`with_threads`]. Thread indices passed to work are below it.
    #[inline]
    pub fn threads(&self) -> usize {
        match THREADS.get() {
            0 => Config::get().threads,
            n => n,
        }
    }

    /// Runs `f(begin, end, thread)` over ranges of chunks that together are `0..chunks`, each chunk once, on this
    /// thread (index 0) and the workers, and returns when all have run. Everything runs here when there is one chunk or
    /// one thread, when called from inside a job, and when another thread's job occupies the pool.
    ///
    /// # Panics
    /// With the first panic of `f`, after every thread has left the job.
    #[inline]
    pub fn run(&'static self, chunks: usize, f: &(dyn Fn(usize, usize, usize) + Sync)) {
        let threads = self.threads().min(chunks);
        if threads > 1 && !INSIDE_JOB.get() {
            self.spread(chunks, threads, f);
        } else if chunks > 0 {
            f(0, chunks, 0);
        }
    }

    fn spread(&'static self, chunks: usize, mut threads: usize, f: &Work<'_>) {
        let callers = self.crowd.callers(now());
        if callers > 1 && THREADS.get() == 0 {
            threads = threads.min(Config::get().threads / callers);
            if threads <= 1 {
                return Inside::alone(0, chunks, f);
            }
        }
        let all_asleep = self.sleepers.0.load(Relaxed) == self.workers.load(Relaxed);
        let few = chunks < threads * FEW;
        let done = if all_asleep && !few {
            self.begin_alone(chunks, f)
        } else {
            0
        };
        let left = chunks - done;
        let threads = threads.min(left);
        if left > 0 && (threads == 1 || !self.run_shared(done, left, threads, f)) {
            Inside::alone(done, chunks, f);
        }
    }

    /// Runs chunks from the first on, in doubling steps, until all have run or [`ALONE`] is used up; the number that ran.
    fn begin_alone(&self, chunks: usize, f: &Work<'_>) -> usize {
        let [ended, spent] = &self.alone.0;
        let start = now();
        let paused = start.saturating_sub(ended.load(Relaxed)) > SPIN.as_nanos() as u64;
        let before = if paused { 0 } else { spent.load(Relaxed) };
        let (mut done, mut step, mut time) = (0, 1, before);
        let inside = Inside::enter();
        while done < chunks && time < ALONE.as_nanos() as u64 {
            let end = chunks.min(done + step);
            f(done, end, 0);
            (done, step) = (end, step * 2);
            time = before + now() - start;
        }
        drop(inside);
        ended.store(start + time - before, Relaxed);
        spent.store(time, Relaxed);
        done
    }

    /// Runs `chunks` chunks from `first` on. False, with nothing run, if another job occupies the pool.
    fn run_shared(
        &'static self,
        first: usize,
        chunks: usize,
        threads: usize,
        f: &Work<'_>,
    ) -> bool {
        let state = self.board.0.state.load(Relaxed);
        let free = state & BUSY == 0;
        if !free
            || self
                .board
                .0
                .state
                .compare_exchange(state, state | BUSY, Acquire, Relaxed)
                .is_err()
        {
            return false;
        }
        if self.workers.load(Relaxed) + 1 < threads {
            self.grow(threads - 1);
        }
        let epoch = epoch_of(state).wrapping_add(1);
        if epoch == 0 {
            // A share untouched since the epochs began anew would look taken.
            self.slots
                .iter()
                .for_each(|slot| slot.taken.store(0, Relaxed));
        }
        let work: *const Work<'_> = f;
        // SAFETY: only the lifetime changes. The pointer is used by this call and by workers inside the job, and this
        // call returns only when the job is closed and nobody is inside.
        let work = unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
        let job = Job {
            work,
            first,
            chunks,
            threads,
            epoch,
        };
        // SAFETY: `BUSY` is ours and the job is not open, so nobody else reads or writes it.
        unsafe { *self.board.0.job.get() = Some(job) };
        let open = (epoch as u64) << EPOCH_SHIFT | (threads as u64) << THREADS_SHIFT | OPEN | BUSY;
        // SeqCst, as in `sleep`: either the worker sees this job before it parks, or this thread sees it asleep.
        self.board.0.state.swap(open, SeqCst);
        if self.sleepers.0.load(SeqCst) > 0 {
            self.wake(threads);
        }
        let inside = Inside::enter();
        self.work(&job, 0);
        drop(inside);
        let mut state = self.board.0.state.fetch_and(!OPEN, AcqRel) & !OPEN;
        let mut spins = 0u32;
        while state & INSIDE_MASK != 0 {
            spins += 1;
            if spins.is_multiple_of(4096) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            state = self.board.0.state.load(Acquire);
        }
        let panic = if self.panicked.load(Relaxed) {
            self.take_panic()
        } else {
            None
        };
        self.board.0.state.store(state & !BUSY, Release);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
        true
    }

    #[cold]
    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panicked.store(false, Relaxed);
        self.panic.lock().take()
    }

    /// Takes pieces of the job, first of the thread's own share, then of the others', until none is left.
    fn work(&self, job: &Job, thread: usize) {
        let result = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: this thread is inside the job, so the call of `run` that lent the pointer is in progress.
            let work = unsafe { &*job.work };
            let (even, odd) = (job.chunks / job.threads, job.chunks % job.threads);
            for other in 0..job.threads {
                let owner = (thread + other) % job.threads;
                let share = |t: usize| even * t + t.min(odd);
                let (begin, end) = (job.first + share(owner), job.first + share(owner + 1));
                let pieces = ENDS.len().min(end - begin);
                while let Some(piece) = take(&self.slots[owner].taken, job.epoch, pieces) {
                    let ended = |pieces: usize| part_of(end - begin, pieces);
                    let (from, to) = (begin + ended(piece), begin + ended(piece + 1));
                    if from < to {
                        work(from, to, thread);
                    }
                }
            }
        }));
        if let Err(payload) = result {
            for slot in &self.slots[..job.threads] {
                slot.taken
                    .store((job.epoch as u64) << 32 | u32::MAX as u64, Relaxed);
            }
            self.panic.lock().get_or_insert(payload);
            self.panicked.store(true, Relaxed);
        }
    }

    /// Wakes up to `WAKES` sleeping workers of a job of `threads` threads.
    #[cold]
    fn wake(&self, threads: usize) {
        let mut woken = 0;
        for slot in &self.slots[1..threads] {
            if slot.asleep.load(Relaxed) && slot.asleep.swap(false, AcqRel) {
                if let Some(thread) = slot.thread.get() {
                    slot.placement.wake();
                    thread.unpark();
                }
                woken += 1;
                if woken == WAKES {
                    break;
                }
            }
        }
    }

    /// Starts workers until there are `wanted`. Where the system refuses, the job runs on those there are.
    #[cold]
    fn grow(&'static self, wanted: usize) {
        let _guard = self.growing.lock();
        for index in self.workers.load(Relaxed) + 1..=wanted.min(MAX_THREADS - 1) {
            let builder = std::thread::Builder::new().name(format!("ferrotrace-{index}"));
            if builder.spawn(move || self.worker(index)).is_err() {
                return;
            }
            self.workers.store(index, Relaxed);
        }
    }

    fn worker(&self, index: usize) {
        INSIDE_JOB.set(true);
        FloatEnvironment::start_thread();
        let _ = self.slots[index].thread.set(std::thread::current());
        self.slots[index].placement.start();
        let mut seen = epoch_of(self.board.0.state.load(Relaxed)).wrapping_sub(1);
        let mut idle_since = Instant::now();
        let mut spins = 0u32;
        loop {
            let state = self.board.0.state.load(Acquire);
            if self.wanted(state, index, seen) {
                let entered = state + INSIDE;
                if self
                    .board
                    .0
                    .state
                    .compare_exchange(state, entered, Acquire, Relaxed)
                    .is_ok()
                {
                    seen = epoch_of(state);
                    // SAFETY: the job is open and this thread inside it, so the caller leaves it alone.
                    if let Some(job) = unsafe { *self.board.0.job.get() } {
                        self.work(&job, index);
                    }
                    self.board.0.state.fetch_sub(INSIDE, Release);
                    idle_since = Instant::now();
                }
                continue;
            }
            std::hint::spin_loop();
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(32) && idle_since.elapsed() > SPIN {
                self.sleep(index, seen);
                idle_since = Instant::now();
            }
        }
    }

    /// Whether a worker whose last job had epoch `seen` may enter the job of `state`.
    #[inline]
    fn wanted(&self, state: u64, index: usize, seen: u32) -> bool {
        state & OPEN != 0 && epoch_of(state) != seen && index < threads_of(state)
    }

    /// Parks until a job wants this worker, and passes the waking on.
    fn sleep(&self, index: usize, seen: u32) {
        let slot = &self.slots[index];
        slot.asleep.store(true, SeqCst);
        self.sleepers.0.fetch_add(1, SeqCst);
        while slot.asleep.load(Acquire) {
            if self.wanted(self.board.0.state.load(SeqCst), index, seen) {
                slot.asleep.store(false, Relaxed);
                break;
            }
            std::thread::park();
        }
        slot.placement.awake();
        let others = self.sleepers.0.fetch_sub(1, SeqCst) - 1;
        let state = self.board.0.state.load(Relaxed);
        if others > 0 && state & OPEN != 0 {
            self.wake(threads_of(state));
        }
    }
}

/// Marks this thread as inside a job while it lives.
struct Inside;

impl Inside {
    fn enter() -> Inside {
        INSIDE_JOB.set(true);
        Inside
    }

    /// Runs chunks of a job on this thread alone. Jobs within it run alone too, even if the pool is free by then.
    fn alone(begin: usize, end: usize, f: &Work<'_>) {
        let _inside = Inside::enter();
        f(begin, end, 0);
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE_JOB.set(false);
    }
}

/// How many of a share's chunks its first `pieces` pieces have: one each where there are no more than pieces.
fn part_of(share: usize, pieces: usize) -> usize {
    if share <= ENDS.len() {
        return pieces.min(share);
    }
    let Some(sixteenths) = pieces.checked_sub(1).map(|last| ENDS[last]) else {
        return 0;
    };
    share / 16 * sixteenths + share % 16 * sixteenths / 16
}

/// Takes the next of a share's `pieces` in the job of `epoch`.
#[inline]
fn take(taken: &AtomicU64, epoch: u32, pieces: usize) -> Option<usize> {
    let mut word = taken.load(Relaxed);
    loop {
        let next = if (word >> 32) as u32 == epoch {
            word as u32
        } else {
            0
        };
        if next as usize >= pieces {
            return None;
        }
        let new = (epoch as u64) << 32 | (next + 1) as u64;
        match taken.compare_exchange_weak(word, new, Relaxed, Relaxed) {
            Ok(_) => return Some(next as usize),
            Err(now) => word = now,
        }
    }
}

/// Runs `f` with jobs of this thread spread over `n` threads (1 to [`MAX_THREADS`]), even if there are fewer cores.
pub fn with_threads<R>(n: usize, f: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            THREADS.set(self.0);
        }
    }
    let _restore = Restore(THREADS.replace(n.clamp(1, MAX_THREADS)));
    f()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Runs a job of `chunks` and checks that each ran once.
    fn cover(chunks: usize) {
        let seen: Vec<AtomicU32> = (0..chunks).map(|_| AtomicU32::new(0)).collect();
        let limit = Pool::global().threads();
        Pool::global().run(chunks, &|begin, end, thread| {
            assert!(begin < end && end <= chunks && thread < limit);
            seen[begin..end].iter().for_each(|s| {
                s.fetch_add(1, Relaxed);
            });
        });
        assert!(seen.iter().all(|s| s.load(Relaxed) == 1), "{chunks} chunks");
    }

    #[test]
    fn every_chunk_runs_once() {
        for threads in [1, 2, 3, 5, 8] {
            with_threads(threads, || {
                for chunks in (0..40).chain([64, 1000, 4097]) {
                    cover(chunks);
                }
            });
        }
    }

    #[test]
    fn pieces_of_a_share_shrink_and_cover_it() {
        for share in (0..200).chain([1 << 20, usize::MAX / 2]) {
            let ends: Vec<usize> = (0..=ENDS.len()).map(|n| part_of(share, n)).collect();
            assert!(ends[0] == 0 && ends[ENDS.len()] == share && ends.is_sorted());
            let last = ends[ENDS.len()] - ends[ENDS.len() - 1];
            assert!(last <= share.div_ceil(16), "{share}: {ends:?}");
        }
    }

    #[test]
    fn jobs_back_to_back_and_after_sleep() {
        with_threads(4, || {
            for round in 0..3 {
                for _ in 0..2000 {
                    cover(8);
                }
                std::thread::sleep(Duration::from_millis(round));
            }
        });
    }

    #[test]
    fn many_callers_and_nested_jobs() {
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    with_threads(3, || {
                        for _ in 0..200 {
                            let total = AtomicUsize::new(0);
                            Pool::global().run(10, &|begin, end, _| {
                                for _ in begin..end {
                                    Pool::global().run(5, &|b, e, thread| {
                                        assert_eq!(thread, 0);
                                        total.fetch_add(e - b, Relaxed);
                                    });
                                }
                            });
                            assert_eq!(total.load(Relaxed), 50);
                        }
                    });
                });
            }
        });
    }

    #[test]
    fn jobs_within_a_job_beside_another_run_alone() {
        let [begun, let_go, free] = [(); 3].map(|()| AtomicBool::new(false));
        let wait_for = |flag: &AtomicBool| {
            while !flag.load(Acquire) {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                with_threads(3, || {
                    Pool::global().run(3, &|_, _, _| {
                        begun.store(true, Release);
                        wait_for(&let_go);
                    });
                });
                free.store(true, Release);
            });
            wait_for(&begun);
            with_threads(3, || {
                // The pool is occupied here, and free within.
                Pool::global().run(10, &|_, _, _| {
                    let_go.store(true, Release);
                    wait_for(&free);
                    Pool::global().run(5, &|_, _, thread| {
                        assert_eq!(thread, 0);
                        std::thread::sleep(Duration::from_millis(1));
                    });
                });
            });
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        with_threads(4, || {
            for bad in 0..16 {
                let result = catch_unwind(AssertUnwindSafe(|| {
                    Pool::global().run(16, &|begin, end, _| {
                        assert!(!(begin..end).contains(&bad), "chunk {bad}");
                    });
                }));
                let payload = result.expect_err("the panic came through");
                let text = payload.downcast_ref::<String>().expect("a message");
                assert!(text.contains(&format!("chunk {bad}")));
                cover(100);
            }
        });
    }

    #[test]
    fn a_thread_count_is_scoped() {
        let outer = Pool::global().threads();
        with_threads(7, || {
            assert_eq!(Pool::global().threads(), 7);
            with_threads(0, || assert_eq!(Pool::global().threads(), 1));
        });
        assert_eq!(Pool::global().threads(), outer);
    }
}
