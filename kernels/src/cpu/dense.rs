//! Dense arrays as slices, and loops over disjoint pieces of them on the pool.

use crate::Array;
use ferrotrace_runtime::{DType, Element, Error, Pool, Result};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

/// Elementary operations below which a loop stays on one thread, about ten microseconds.
const GRAIN: usize = 1 << 15;

/// The elements of a row-major dense array. `Bool` is read as `u8`.
///
/// # Errors
/// `Internal`: the array is not dense, or of another type.
pub fn elements<T: Element>(x: &Array) -> Result<&[T]> {
    if x.numel() == 0 {
        return Ok(&[]);
    }
    let dense = x.layout.is_contiguous() && holds::<T>(x.dtype);
    let from = x.layout.offset();
    x.buffer
        .as_slice::<T>()
        .get(from..from + x.numel())
        .filter(|_| dense)
        .ok_or_else(|| Error::internal(format!("a dense {} array was expected", T::DTYPE)))
}

/// The elements of an array that was just allocated. `Bool` is written as `u8`.
///
/// # Errors
/// `Internal`: the array shares its memory, or is of another type.
pub fn elements_mut<T: Element>(x: &mut Array) -> Result<&mut [T]> {
    let (n, typed) = (x.numel(), holds::<T>(x.dtype));
    x.buffer
        .get_mut::<T>()
        .filter(|_| typed)
        .and_then(|all| all.get_mut(..n))
        .ok_or_else(|| Error::internal("a result's memory is shared"))
}

/// The memory that an array which is being made lies in, of all of the buffer. Nothing else may use the array's elements
/// meanwhile; others of the buffer are left alone by who stays inside the window.
///
/// # Errors
/// `Internal`: the array is of another type, or not on the CPU.
pub fn in_the_making<T: Element>(x: &Array) -> Result<Shared<'_, T>> {
    if !holds::<T>(x.dtype) || !x.buffer.device().is_cpu() {
        return Err(Error::internal("a result of another type"));
    }
    Ok(Shared {
        start: x.buffer.as_mut_ptr().cast(),
        len: x.buffer.bytes() / size_of::<T>(),
        owner: PhantomData,
    })
}

fn holds<T: Element>(dtype: DType) -> bool {
    T::DTYPE == dtype || (T::DTYPE == DType::U8 && dtype == DType::Bool)
}

/// A mutable slice of which threads take disjoint parts.
#[derive(Debug)]
pub struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: parts are handed out by `part` and `at` alone, whose callers answer for their being disjoint.
unsafe impl<T: Send> Sync for Shared<'_, T> {}
// SAFETY: parts are handed out by `part` and `at` alone, whose callers answer for their being disjoint.
unsafe impl<T: Send> Send for Shared<'_, T> {}

impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    /// All of `slice`.
    pub fn new(slice: &'a mut [T]) -> Shared<'a, T> {
        Shared {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            owner: PhantomData,
        }
    }

    /// The elements of `range`.
    ///
    /// # Safety
    /// Parts in use at the same time are disjoint.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: the range is inside the slice; the caller answers for its being disjoint from other parts.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// The first element, for loops that check their own bounds.
    #[inline]
    pub fn as_mut_ptr(&self) -> *mut T {
        self.start
    }

    /// How many elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Calls `f(range)` on disjoint ranges that cover `0..count`, in parallel where `count · cost` elementary operations
/// are worth it. What `f` computes must not depend on where ranges end.
pub fn ranges(count: usize, cost: usize, f: impl Fn(Range<usize>) + Sync) {
    split(count, cost, &|range, _| f(range));
}

/// Runs [`ranges`] with a function that is also given the index of its thread, below the pool's number of threads. No
/// two calls have one index at the same time.
pub fn ranges_on(count: usize, cost: usize, f: impl Fn(Range<usize>, usize) + Sync) {
    split(count, cost, &f);
}

fn split(count: usize, cost: usize, f: &(dyn Fn(Range<usize>, usize) + Sync)) {
    if count == 0 {
        return;
    }
    let pool = Pool::global();
    let worth = count.saturating_mul(cost.max(1)) / GRAIN;
    let chunks = worth.min(count).min(pool.threads() * 16);
    if chunks <= 1 {
        return f(0..count, 0);
    }
    let at = |chunk: usize| (count as u128 * chunk as u128 / chunks as u128) as usize;
    pool.run(chunks, &|begin, end, thread| f(at(begin)..at(end), thread));
}

/// Calls `f(first, block)` on blocks of whole rows of `row` elements that cover `out`; `first` is the number of the
/// block's first row, `cost` the elementary operations of one row.
pub fn rows<T: Send>(out: &mut [T], row: usize, cost: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if row == 0 || out.is_empty() {
        return;
    }
    let count = out.len() / row;
    let shared = Shared::new(out);
    ranges(count, cost, |range| {
        // SAFETY: ranges of rows are disjoint.
        f(range.start, unsafe {
            shared.part(range.start * row..range.end * row)
        });
    });
}

thread_local! {
    static SCRATCH: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// A number type of which every pattern of bits is a value.
pub trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for i8 {}
impl Plain for i16 {}
impl Plain for i32 {}
impl Plain for i64 {}
impl Plain for f32 {}
impl Plain for f64 {}
impl Plain for half::bf16 {}

/// Calls `f` with `len` elements of this thread's scratch memory, of arbitrary contents. A call inside `f` gets other
/// memory.
pub fn scratch<T: Plain, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    scratch_of_two(len, 0, |memory, _: &mut [u8]| f(memory))
}

/// Scratch memory, as of [`scratch`], with elements of two types.
pub fn scratch_of_two<A: Plain, B: Plain, R>(
    first: usize,
    second: usize,
    f: impl FnOnce(&mut [A], &mut [B]) -> R,
) -> R {
    // A thread that ends may have dropped its memory already.
    let mut words = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let needed = (first * size_of::<A>()).div_ceil(8);
    let all = needed + (second * size_of::<B>()).div_ceil(8);
    if words.len() < all {
        words = vec![0; all];
    }
    let (a, b) = words.split_at_mut(needed);
    // SAFETY: every pattern of bits is a value of A, and of B, and no alignment of theirs exceeds that of u64.
    let (a, b) = unsafe { (a.align_to_mut::<A>().1, b.align_to_mut::<B>().1) };
    let result = f(&mut a[..first], &mut b[..second]);
    let _ = SCRATCH.try_with(|scratch| scratch.set(words));
    result
}
