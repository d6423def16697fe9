//! The caching allocator of host memory.
//!
//! A fresh output costs more in page faults than the kernel that fills it, so a released block is kept for the next
//! request of its size class: small ones first in a magazine of the thread, all others on a shelf of the process, last
//! in first out. What the shelves hold is bounded by [`limit`]; beyond it the blocks of the class that was used longest
//! ago go back to the system, and so does everything when memory runs short. Every byte of a block was written at
//! least once, by the system's zeroes if by nothing else, so that reading an unwritten buffer is defined.

use super::machine::memory_bytes;
use super::plain;
use super::size_class::{CLASSES, LARGE, class_of, size_of};
use crate::observe::counters::live_bytes;
use crate::observe::inject::{self, Site};
use crate::{Config, Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Every block starts at a multiple of this: a cache line, and the widest vector.
pub(crate) const ALIGN: usize = 64;
const HUGE_PAGE: usize = 2 << 20;
/// Size classes with a magazine in each thread: blocks of up to 64 KiB.
const MAGAZINES: usize = 36;
const MAGAZINE: usize = 8;
/// The class of blocks of [`plain`].
const PLAIN: u16 = u16::MAX;
const _: () = assert!(CLASSES < PLAIN as usize);

/// A block handed out.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) ptr: NonNull<u8>,
    pub(crate) class: u16,
    /// Whether it comes from the system just now, and so is all zeroes.
    pub(crate) fresh: bool,
}

struct Shelf {
    blocks: Mutex<Vec<NonNull<u8>>>,
    /// The tick of the last use, kept for large classes alone.
    used: AtomicU64,
}

// SAFETY: the pointers on a shelf are blocks that nobody else holds; they may move between threads.
unsafe impl Sync for Shelf {}

static SHELVES: [Shelf; CLASSES] = [const {
    Shelf {
        blocks: Mutex::new(Vec::new()),
        used: AtomicU64::new(0),
    }
}; CLASSES];
static CACHED: AtomicUsize = AtomicUsize::new(0);
static TICK: AtomicU64 = AtomicU64::new(0);

struct Magazine {
    len: usize,
    blocks: [Option<NonNull<u8>>; MAGAZINE],
}

struct Magazines(UnsafeCell<[Magazine; MAGAZINES]>);

impl Drop for Magazines {
    fn drop(&mut self) {
        empty(self.0.get_mut());
    }
}

thread_local! {
    static FRONT: Magazines = const {
        Magazines(UnsafeCell::new([const { Magazine { len: 0, blocks: [None; MAGAZINE] } }; MAGAZINES]))
    };
}

/// Moves every block of the magazines to the shelves.
fn empty(magazines: &mut [Magazine; MAGAZINES]) {
    for (class, magazine) in magazines.iter_mut().enumerate() {
        let blocks = &mut magazine.blocks[..std::mem::take(&mut magazine.len)];
        shelve(class, blocks.iter_mut().filter_map(Option::take));
    }
}

fn shelve(class: usize, blocks: impl Iterator<Item = NonNull<u8>>) {
    let mut shelf = SHELVES[class].blocks.lock();
    let before = shelf.len();
    shelf.extend(blocks);
    CACHED.fetch_add((shelf.len() - before) * size_of(class), Relaxed);
}

fn unshelve(class: usize) -> Option<NonNull<u8>> {
    let block = SHELVES[class].blocks.lock().pop()?;
    CACHED.fetch_sub(size_of(class), Relaxed);
    Some(block)
}

/// The most bytes kept on the shelves: a quarter of memory, at least 256 MiB.
fn limit() -> usize {
    (memory_bytes() / 4).max(256 << 20)
}

/// A block of at least `bytes`, from a cache or the system. Counts nothing.
///
/// # Errors
/// `OutOfMemory` when the system has none even after everything cached was given back to it.
#[inline]
pub(crate) fn take(bytes: usize) -> Result<Block> {
    if bytes > isize::MAX as usize || inject::fails(Site::Allocate) {
        return Err(out_of_memory(bytes));
    }
    if Config::get().plain_memory {
        let fits = bytes <= memory_bytes();
        let ptr = fits.then(|| plain::take(bytes.max(1), ALIGN)).flatten();
        let ptr = ptr.ok_or_else(|| out_of_memory(bytes))?;
        let (class, fresh) = (PLAIN, false);
        return Ok(Block { ptr, class, fresh });
    }
    let (class, _) = class_of(bytes.max(1));
    if class < MAGAZINES {
        let hit = FRONT.try_with(|front| {
            // SAFETY: the magazines are this thread's, and no reference to them outlives this closure, which calls
            // nothing that could come back here.
            let magazine = unsafe { &mut (&mut *front.0.get())[class] };
            magazine.len = magazine.len.checked_sub(1)?;
            magazine.blocks[magazine.len].take()
        });
        if let Ok(Some(ptr)) = hit {
            return Ok(Block {
                ptr,
                class: class as u16,
                fresh: false,
            });
        }
    }
    take_shared(bytes, class)
}

fn take_shared(bytes: usize, class: usize) -> Result<Block> {
    let size = size_of(class);
    if size > LARGE {
        SHELVES[class]
            .used
            .store(TICK.fetch_add(1, Relaxed), Relaxed);
    }
    if let Some(ptr) = unshelve(class) {
        return Ok(Block {
            ptr,
            class: class as u16,
            fresh: false,
        });
    }
    let memory = memory_bytes();
    if size > memory {
        return Err(out_of_memory(bytes));
    }
    if size > LARGE {
        let held = (live_bytes() as usize).saturating_add(CACHED.load(Relaxed));
        if held.saturating_add(size) > memory / 8 * 7 {
            trim();
        }
    }
    let block = obtain(size).or_else(|| {
        trim();
        obtain(size)
    });
    match block {
        Some(ptr) => Ok(Block {
            ptr,
            class: class as u16,
            fresh: true,
        }),
        None => Err(out_of_memory(bytes)),
    }
}

/// Takes back a block of [`take`], which nobody uses any more.
#[inline]
pub(crate) fn give(ptr: NonNull<u8>, class: u16) {
    let class = class as usize;
    if class < MAGAZINES {
        let kept = FRONT.try_with(|front| {
            // SAFETY: as in `take`; `shelve` does not touch the magazines.
            let magazine = unsafe { &mut (&mut *front.0.get())[class] };
            if magazine.len == MAGAZINE {
                let old = &mut magazine.blocks[..MAGAZINE / 2];
                shelve(class, old.iter_mut().filter_map(Option::take));
                magazine.blocks.rotate_left(MAGAZINE / 2);
                magazine.len -= MAGAZINE / 2;
            }
            magazine.blocks[magazine.len] = Some(ptr);
            magazine.len += 1;
        });
        if kept.is_ok() {
            return;
        }
    }
    give_shared(ptr, class);
}

fn give_shared(ptr: NonNull<u8>, class: usize) {
    if class == PLAIN as usize {
        return plain::give(ptr);
    }
    let size = size_of(class);
    if size > LARGE {
        SHELVES[class]
            .used
            .store(TICK.fetch_add(1, Relaxed), Relaxed);
        if CACHED.load(Relaxed).saturating_add(size) > limit() && !make_room(size, class) {
            return release(ptr, size);
        }
    }
    shelve(class, std::iter::once(ptr));
}

/// Gives blocks of the large classes used longest ago back to the system, until `size` more bytes fit the limit.
fn make_room(size: usize, keep: usize) -> bool {
    let target = limit().saturating_sub(size);
    while CACHED.load(Relaxed) > target {
        let stale = (class_of(LARGE).0 + 1..CLASSES)
            .filter(|&class| class != keep && !SHELVES[class].blocks.lock().is_empty())
            .min_by_key(|&class| SHELVES[class].used.load(Relaxed));
        let Some(class) = stale else { return false };
        if let Some(ptr) = unshelve(class) {
            release(ptr, size_of(class));
        }
    }
    true
}

/// Gives every cached block of the process, and of this thread's magazines, back to the system.
pub fn trim() {
    let _ = FRONT.try_with(|front| {
        // SAFETY: as in `take`; `empty` and `shelve` do not come back here.
        empty(unsafe { &mut *front.0.get() });
    });
    for (class, shelf) in SHELVES.iter().enumerate() {
        let blocks = std::mem::take(&mut *shelf.blocks.lock());
        CACHED.fetch_sub(blocks.len() * size_of(class), Relaxed);
        for ptr in blocks {
            release(ptr, size_of(class));
        }
    }
}

/// An empty vector with room for `len` elements.
///
/// # Errors
/// `OutOfMemory`: the machine has less memory, or the system gives none.
pub fn vector<T>(len: usize) -> Result<Vec<T>> {
    let bytes = len.saturating_mul(std::mem::size_of::<T>());
    let mut vector = Vec::new();
    if bytes > memory_bytes() || vector.try_reserve_exact(len).is_err() {
        return Err(out_of_memory(bytes));
    }
    Ok(vector)
}

/// Bytes that the allocator keeps for reuse, besides what the threads' magazines hold.
pub fn cached_bytes() -> usize {
    CACHED.load(Relaxed)
}

#[cold]
fn out_of_memory(bytes: usize) -> Error {
    Error::new(ErrorKind::OutOfMemory {
        bytes,
        device: "cpu".to_owned(),
    })
}

/// The layout of a block of a small class.
fn small(size: usize) -> Option<Layout> {
    Layout::from_size_align(size, ALIGN).ok()
}

/// A zeroed block of exactly `size` bytes from the system.
fn obtain(size: usize) -> Option<NonNull<u8>> {
    if size > LARGE {
        return map(size);
    }
    // SAFETY: the size of a class is not zero.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(small(size)?) })
}

fn release(ptr: NonNull<u8>, size: usize) {
    if size > LARGE {
        // SAFETY: the block is a mapping of `size` bytes made by `map`, used by nobody.
        unsafe { libc::munmap(ptr.as_ptr().cast(), size) };
    } else if let Some(layout) = small(size) {
        // SAFETY: the block comes from `alloc_zeroed` with this layout, and is used by nobody.
        unsafe { std::alloc::dealloc(ptr.as_ptr(), layout) };
    }
}

/// A mapping of `size` bytes; from one huge page on, aligned to huge pages and asking for them.
fn map(size: usize) -> Option<NonNull<u8>> {
    let slack = if size >= HUGE_PAGE { HUGE_PAGE } else { 0 };
    let length = size.checked_add(slack)?;
    // SAFETY: a private anonymous mapping at an address of the system's choice touches no memory of ours.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return None;
    }
    let base = base.cast::<u8>();
    if slack == 0 {
        return NonNull::new(base);
    }
    let before = base.align_offset(HUGE_PAGE).min(slack);
    let start = base.wrapping_add(before);
    // SAFETY: both ends lie in the mapping made above, outside the `size` bytes kept; all bounds are page multiples.
    unsafe {
        if before > 0 {
            libc::munmap(base.cast(), before);
        }
        if slack > before {
            libc::munmap(start.wrapping_add(size).cast(), slack - before);
        }
        #[cfg(target_os = "linux")]
        libc::madvise(start.cast(), size, libc::MADV_HUGEPAGE);
    }
    NonNull::new(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_give(bytes: usize) -> (usize, bool) {
        let block = take(bytes).expect("memory");
        give(block.ptr, block.class);
        (block.ptr.as_ptr() as usize, block.fresh)
    }

    #[test]
    fn small_blocks_come_back_to_their_thread() {
        for bytes in [1, 64, 65, 1000, 5000, 60_000] {
            let (first, _) = take_give(bytes);
            assert_eq!(take_give(bytes), (first, false));
            assert_eq!(first % ALIGN, 0);
        }
    }

    #[test]
    fn large_blocks_are_aligned_zeroed_and_writable_to_the_end() {
        for bytes in [LARGE + 1, 3 << 20, (4 << 20) + 12345, 37_000_000] {
            let block = take(bytes).expect("memory");
            let p = block.ptr.as_ptr();
            assert_eq!(
                p as usize % if bytes >= HUGE_PAGE { HUGE_PAGE } else { ALIGN },
                0
            );
            // SAFETY: `bytes` bytes from `p` are this test's alone.
            let all = unsafe { std::slice::from_raw_parts_mut(p, bytes) };
            assert!(!block.fresh || all.iter().all(|&b| b == 0));
            all.fill(0xa5);
            give(block.ptr, block.class);
        }
    }

    #[test]
    fn no_block_is_handed_out_twice() {
        let mut blocks: Vec<Block> = (0..100)
            .map(|i| take(100 + i % 7 * 300).expect("memory"))
            .collect();
        let mut starts: Vec<_> = blocks.iter().map(|b| b.ptr).collect();
        starts.sort();
        starts.dedup();
        assert_eq!(starts.len(), blocks.len());
        // Released on another thread, whose magazines move to the shelves when it ends.
        let moved: Vec<(usize, u16)> = blocks
            .drain(..)
            .map(|b| (b.ptr.as_ptr() as usize, b.class))
            .collect();
        std::thread::spawn(move || {
            for (ptr, class) in moved {
                give(NonNull::new(ptr as *mut u8).expect("a block"), class);
            }
        })
        .join()
        .expect("no panic");
        assert!(cached_bytes() > 0);
    }

    #[test]
    fn absurd_sizes_are_errors() {
        for bytes in [
            usize::MAX,
            isize::MAX as usize + 1,
            isize::MAX as usize,
            1 << 62,
            1 << 50,
        ] {
            let error = take(bytes).expect_err("no such memory");
            assert!(matches!(error.kind(), ErrorKind::OutOfMemory { bytes: b, .. } if *b == bytes));
        }
    }

    #[test]
    fn trimming_gives_everything_back() {
        let (_, _) = take_give(9 << 20);
        trim();
        let (_, fresh) = take_give((9 << 20) + 1);
        assert!(fresh || cached_bytes() > 0);
    }
}
