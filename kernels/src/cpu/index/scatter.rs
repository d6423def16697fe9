//! Writes at positions given by index tensors, deterministic: what meets at one place meets in row-major order of the
//! source.

use crate::ScatterMode;
use crate::cpu::dense::{Shared, ranges, rows};
use crate::cpu::gather::{OutOfRange, Selection, wrap};
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::number::{Number, Wide};
use ferrotrace_runtime::{DType, Pool, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering};

/// Elements of a run that one task takes.
const PIECE: usize = 64;
/// Sources along the scattered dimension that are added without a look at how many meet.
const MEETING: usize = 2048;
/// Sources of one place that are added in its own type. Where more meet, they are added in binary64 elsewhere, and what
/// that takes is a small part of the source.
const FEW: usize = 64;

/// Indices that are resolved at a time.
const RESOLVED: usize = 256;

/// Single elements from which threads share out the places.
const SHARED: usize = 1 << 14;

/// Whether sums of a type lose digits where many terms meet.
fn rounds<T: Number>() -> bool {
    T::DTYPE == DType::F32
}

/// Places of a selection at which many sources meet.
#[derive(Default)]
struct Crowds {
    /// For each index the crowded place that it points to, or −1.
    of: Vec<i32>,
    /// The offsets of the crowded places.
    offsets: Vec<isize>,
}

impl Crowds {
    fn find(block: &[isize]) -> Crowds {
        let least = block.iter().copied().min().unwrap_or(0);
        let most = block.iter().copied().max().unwrap_or(0);
        let step = step_of(block.iter().map(|at| at.abs_diff(least))).max(1);
        let places = most.abs_diff(least) / step + 1;
        if places > 8 * block.len() {
            return Crowds::sorted(block);
        }
        let mut marks = vec![0i32; places];
        for at in block {
            let mark = &mut marks[at.abs_diff(least) / step];
            *mark = mark.saturating_add(1);
        }
        if marks.iter().all(|&mark| mark <= FEW as i32) {
            return Crowds::default();
        }
        let mut offsets = Vec::new();
        let mut crowd = |&at: &isize| {
            let mark = &mut marks[at.abs_diff(least) / step];
            if *mark > FEW as i32 {
                offsets.push(at);
                *mark = -(offsets.len() as i32);
            }
            if *mark < 0 { -*mark - 1 } else { -1 }
        };
        let of = block.iter().map(&mut crowd).collect();
        Crowds { of, offsets }
    }

    /// The crowded places found by sorting, for where there are many more places than sources.
    fn sorted(block: &[isize]) -> Crowds {
        let mut all = block.to_vec();
        all.sort_unstable();
        let crowds = all.chunk_by(|a, b| a == b).filter(|one| one.len() > FEW);
        let offsets: Vec<isize> = crowds.map(|one| one[0]).collect();
        let crowd = |at: &isize| offsets.binary_search(at).map_or(-1, |i| i as i32);
        let of = match offsets.is_empty() {
            true => Vec::new(),
            false => block.iter().map(crowd).collect(),
        };
        Crowds { of, offsets }
    }
}

/// The greatest common divisor of distances; 0 of none.
fn step_of(distances: impl Iterator<Item = usize>) -> usize {
    let mut step = 0;
    for distance in distances {
        let (mut a, mut b) = (distance, step);
        if step == 1 {
            break;
        }
        while b != 0 {
            (a, b) = (b, a % b);
        }
        step = a;
    }
    step
}

/// Writes (or adds) `src`, in order, to the selected elements of `out`. Offsets are inside `out`.
///
/// Kept dimensions are disjoint, so tasks share them out; each task goes through the whole block of indices.
pub fn put<T: Number>(out: &mut [T], src: &[T], s: &Selection, accumulate: bool) {
    if s.is_empty() || src.len() != s.len() {
        return;
    }
    let many = accumulate && rounds::<T>() && s.block.len() > MEETING;
    let crowds = many.then(|| Crowds::find(&s.block));
    let crowds = crowds.as_ref().filter(|crowds| !crowds.offsets.is_empty());
    let out = Shared::new(out);
    if crowds.is_none() && s.run * s.post.len() * s.pre.len() == 1 {
        put_elements(out, src, s, accumulate);
        return;
    }
    let pieces = (s.run / PIECE).max(1);
    let cost = s.block.len() * s.post.len() * (s.run / pieces) * 2;
    ranges(s.pre.len() * pieces, cost, |tasks| {
        for task in tasks {
            let (p, piece) = (task / pieces, task % pieces);
            let columns = s.run * piece / pieces..s.run * (piece + 1) / pieces;
            dispatch(Put {
                out,
                src,
                s,
                p,
                columns,
                accumulate,
                crowds,
            });
        }
    });
}

/// [`put`] of single elements, each selected by one index. Tasks share out the places: each goes through all indices.
fn put_elements<T: Number>(out: Shared<'_, T>, src: &[T], s: &Selection, accumulate: bool) {
    let first = s.pre[0] as isize + s.post[0] as isize;
    let tasks = match s.block.len() < SHARED {
        true => 1,
        false => Pool::global().threads().clamp(1, out.len().max(1)),
    };
    ranges(tasks, s.block.len() * 4, |range| {
        let places = out.len() * range.start / tasks..out.len() * range.end / tasks;
        // SAFETY: ranges of places are disjoint.
        let out = unsafe { out.part(places.clone()) };
        let start = first - places.start as isize;
        for (&block, &value) in s.block.iter().zip(src) {
            // A place before the range is a great number.
            if let Some(place) = out.get_mut((start + block) as usize) {
                *place = match accumulate {
                    true => T::narrow(place.wide().plus(value.wide())),
                    false => value,
                };
            }
        }
    });
}

/// Adds `src` to elements of a line, `size` of them `stride` apart from `start` on, with sums in a wider type. Tasks share
/// out the places: each goes through all indices.
///
/// # Errors
/// `Index`: the first index out of range, with nothing written.
pub fn add_to_line<T: Number>(
    out: &mut [T],
    (start, stride, size): (usize, isize, usize),
    index: &[i64],
    src: &[T],
    dim: usize,
) -> Result<()> {
    let bad = OutOfRange::new();
    ranges(index.len(), 1, |range| {
        let inside = |&at: &usize| wrap(index[at], size).is_some();
        if let Some(at) = range.clone().find(|at| !inside(at)) {
            bad.report(at);
        }
    });
    bad.check(index, dim, size)?;
    let out = Shared::new(out);
    let tasks = Pool::global().threads().clamp(1, size);
    ranges(tasks, index.len() * 4, |range| {
        let (first, last) = (size * range.start / tasks, size * range.end / tasks);
        let place = |i: usize| {
            let at = (start as isize + (first + i) as isize * stride) as usize;
            // SAFETY: ranges of places are disjoint.
            unsafe { &mut out.part(at..at + 1)[0] }
        };
        let totals = (0..last - first).map(|i| place(i).wide().total());
        let mut totals: Vec<<T::Wide as Wide>::Total> = totals.collect();
        for (&index, src) in index.iter().zip(src) {
            let at = if index < 0 {
                index + size as i64
            } else {
                index
            };
            // A place before the range is a great number.
            if let Some(total) = totals.get_mut((at as usize).wrapping_sub(first)) {
                *total = T::Wide::both(*total, src.wide().total());
            }
        }
        for (i, &total) in totals.iter().enumerate() {
            *place(i) = T::narrow(T::Wide::of_total(total));
        }
    });
    Ok(())
}

/// Whether [`add_to_line`] adds so many elements to a line of `size`.
pub fn adds_to_line<T: Number>(elements: usize, size: usize) -> bool {
    rounds::<T>() && elements > MEETING && size <= 2 * elements
}

/// Writes to the elements of one kept position `p`, and to some columns of their runs.
struct Put<'a, T> {
    out: Shared<'a, T>,
    src: &'a [T],
    s: &'a Selection,
    p: usize,
    columns: Range<usize>,
    accumulate: bool,
    crowds: Option<&'a Crowds>,
}

impl<T: Number> Loop for Put<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (s, columns) = (self.s, self.columns);
        let (blocks, posts) = (s.block.len(), s.post.len());
        let crowded = self.crowds.map_or(0, |crowds| crowds.offsets.len());
        let mut totals = vec![<T::Wide as Wide>::Total::default(); crowded * posts * columns.len()];
        for (b, block) in s.block.iter().enumerate() {
            for (q, post) in s.post.iter().enumerate() {
                let from = s.pre[self.p] as isize + block + *post as isize;
                let from = (from + columns.start as isize * s.step) as usize;
                let row = ((self.p * blocks + b) * posts + q) * s.run;
                let src = &self.src[row + columns.start..row + columns.end];
                let crowd = self.crowds.map_or(-1, |crowds| crowds.of[b]);
                if crowd >= 0 {
                    let totals = &mut totals[(crowd as usize * posts + q) * src.len()..];
                    for (total, src) in totals.iter_mut().zip(src) {
                        *total = T::Wide::both(*total, src.wide().total());
                    }
                    continue;
                }
                if s.step == 1 {
                    // SAFETY: the positions belong to this task alone: kept dimensions and columns of tasks differ.
                    let out = unsafe { self.out.part(from..from + src.len()) };
                    if self.accumulate {
                        for (out, src) in out.iter_mut().zip(src) {
                            *out = T::narrow(out.wide().plus(src.wide()));
                        }
                    } else {
                        out.copy_from_slice(src);
                    }
                    continue;
                }
                for (c, &value) in src.iter().enumerate() {
                    let at = (from as isize + c as isize * s.step) as usize;
                    // SAFETY: the position belongs to this task alone: kept dimensions and columns of tasks differ.
                    let place = unsafe { &mut self.out.part(at..at + 1)[0] };
                    *place = match self.accumulate {
                        true => T::narrow(place.wide().plus(value.wide())),
                        false => value,
                    };
                }
            }
        }
        let Some(crowds) = self.crowds else { return };
        let mut totals = totals.into_iter();
        for block in &crowds.offsets {
            for post in s.post.iter() {
                for c in columns.clone() {
                    let from = s.pre[self.p] as isize + block + *post as isize;
                    let at = (from + c as isize * s.step) as usize;
                    // SAFETY: the position belongs to this task alone: kept dimensions and columns of tasks differ.
                    let place = unsafe { &mut self.out.part(at..at + 1)[0] };
                    let total = totals.next().unwrap_or_default();
                    *place = T::narrow(T::Wide::of_total(T::Wide::both(
                        place.wide().total(),
                        total,
                    )));
                }
            }
        }
    }
}

/// Places of a scatter: indices as `[outer, len, inner]`, with the offsets, in the destination, of the outer and inner
/// positions.
#[derive(Debug)]
pub struct Places<'a> {
    /// The indices, `outer.len() · len · inner.len()`.
    pub index: &'a [i64],
    /// Offsets of the dimensions before the scattered one.
    pub outer: Vec<usize>,
    /// Indices along the scattered dimension.
    pub len: usize,
    /// Offsets of the dimensions after it.
    pub inner: Vec<usize>,
    /// The stride of the scattered dimension in the destination.
    pub stride: usize,
    /// Which dimension is scattered, and its size in the destination.
    pub dim: (usize, usize),
}

impl Places<'_> {
    /// Calls `f(places, at)` with the places that some indices point to, from number `at` on: those of one place in order, on
    /// one thread.
    fn each(&self, f: &(dyn Fn(&[usize], usize) + Sync)) -> Result<()> {
        let bad = OutOfRange::new();
        let (dim, size) = self.dim;
        let inner = self.inner.len();
        let pieces = (inner / PIECE).max(1);
        let cost = self.len * (inner / pieces) * 4;
        ranges(self.outer.len() * pieces, cost, |tasks| {
            for task in tasks {
                let (o, piece) = (task / pieces, task % pieces);
                let columns = inner * piece / pieces..inner * (piece + 1) / pieces;
                if inner == 1 {
                    let base = self.outer[o] + self.inner[0];
                    self.resolve(o * self.len..(o + 1) * self.len, |_| base, &bad, f);
                    continue;
                }
                for l in 0..self.len {
                    let row = (o * self.len + l) * inner;
                    let base = |at: usize| self.outer[o] + self.inner[at - row];
                    self.resolve(row + columns.start..row + columns.end, base, &bad, f);
                }
            }
        });
        bad.check(self.index, dim, size)
    }

    /// Calls `f` with the places of these indices, some at a time, which lie a multiple of the stride behind `base(at)`.
    fn resolve(
        &self,
        indices: Range<usize>,
        base: impl Fn(usize) -> usize,
        bad: &OutOfRange,
        f: &(dyn Fn(&[usize], usize) + Sync),
    ) {
        let mut places = [0; RESOLVED];
        let (mut first, mut n) = (indices.start, 0);
        for at in indices {
            match wrap(self.index[at], self.dim.1) {
                Some(i) => {
                    places[n] = base(at) + i * self.stride;
                    n += 1;
                }
                None => {
                    bad.report(at);
                    f(&places[..n], first);
                    (first, n) = (at + 1, 0);
                }
            }
            if n == RESOLVED {
                f(&places, first);
                (first, n) = (at + 1, 0);
            }
        }
        f(&places[..n], first);
    }

    fn update<T: Number>(
        &self,
        out: &mut [T],
        combine: impl Fn(T, usize) -> T + Sync,
    ) -> Result<()> {
        let len = out.len();
        let shared = Shared::new(out);
        self.each(&|places, at| {
            for (&place, at) in places.iter().zip(at..) {
                assert!(place < len);
                // SAFETY: the place is inside, and one task alone meets it: outer and inner positions of tasks differ.
                let place = unsafe { &mut *shared.as_mut_ptr().add(place) };
                *place = combine(*place, at);
            }
        })
    }
}

impl Places<'_> {
    /// Adds `src` to what is at the places, all of which are kept in totals meanwhile: where most of them are met.
    fn add_to_totals<T: Number>(&self, out: &mut [T], src: &[T]) -> Result<()> {
        let bad = OutOfRange::new();
        let (dim, size) = self.dim;
        let inner = self.inner.len();
        let pieces = (inner / PIECE).max(1);
        let count = self.outer.len() * pieces;
        let shared = Shared::new(out);
        ranges(count, (self.len + size) * (inner / pieces) * 4, |tasks| {
            for task in tasks {
                let (o, piece) = (task / pieces, task % pieces);
                let columns = inner * piece / pieces..inner * (piece + 1) / pieces;
                let width = columns.len();
                let place = |i: usize, c: usize| {
                    let at = self.outer[o] + i * self.stride + self.inner[columns.start + c];
                    // SAFETY: one task alone meets the place: outer and inner positions of tasks differ.
                    unsafe { &mut shared.part(at..at + 1)[0] }
                };
                let mut totals = Vec::with_capacity(size * width);
                for i in 0..size {
                    totals.extend((0..width).map(|c| place(i, c).wide().total()));
                }
                for l in 0..self.len {
                    let row = (o * self.len + l) * inner + columns.start;
                    for c in 0..width {
                        match wrap(self.index[row + c], size) {
                            Some(i) => {
                                let total = &mut totals[i * width + c];
                                *total = T::Wide::both(*total, src[row + c].wide().total());
                            }
                            None => bad.report(row + c),
                        }
                    }
                }
                let mut totals = totals.into_iter();
                for i in 0..size {
                    for (c, total) in (0..width).zip(&mut totals) {
                        *place(i, c) = T::narrow(T::Wide::of_total(total));
                    }
                }
            }
        });
        bad.check(self.index, dim, size)
    }

    /// Adds `src` to what is at the places.
    fn add<T: Number>(&self, out: &mut [T], src: &[T]) -> Result<()> {
        let plus = |old: T, i: usize| T::narrow(old.wide().plus(src[i].wide()));
        if !rounds::<T>() || self.len <= MEETING {
            return self.update(out, plus);
        }
        if self.dim.1 <= 2 * self.len {
            return self.add_to_totals(out, src);
        }
        // First how many values meet at each place; then, for places where many meet, the number of the place's total.
        let mut marks = vec![0i32; out.len()];
        self.update(&mut marks, |n, _| n.saturating_add(1))?;
        let crowds = AtomicI32::new(0);
        self.update(&mut marks, |n, _| match n > FEW as i32 {
            true => -1 - crowds.fetch_add(1, Ordering::Relaxed),
            false => n,
        })?;
        let crowds = crowds.into_inner() as usize;
        if crowds == 0 {
            return self.update(out, plus);
        }
        let zero = <T::Wide as Wide>::Total::default();
        let mut totals = vec![(0usize, zero); crowds];
        let (len, shared, sums) = (out.len(), Shared::new(out), Shared::new(&mut totals));
        self.each(&|places, at| {
            for (&place, at) in places.iter().zip(at..) {
                assert!(place < len);
                match marks[place] {
                    n if n < 0 => {
                        let crowd = (-1 - n) as usize;
                        // SAFETY: a total is one place's, which one task alone meets.
                        let total = unsafe { &mut sums.part(crowd..crowd + 1)[0] };
                        *total = (place, T::Wide::both(total.1, src[at].wide().total()));
                    }
                    _ => {
                        // SAFETY: the place is inside, and one task alone meets it.
                        let place = unsafe { &mut *shared.as_mut_ptr().add(place) };
                        *place = plus(*place, at);
                    }
                }
            }
        })?;
        for (place, total) in totals {
            let old = out[place].wide().total();
            out[place] = T::narrow(T::Wide::of_total(T::Wide::both(old, total)));
        }
        Ok(())
    }
}

/// Lets `src` meet the values of `out` (which holds the old ones) at the places.
///
/// # Errors
/// `Index`: the first index out of range; `out` is then of no use.
pub fn scatter<T: Number>(
    out: &mut [T],
    src: &[T],
    places: &Places<'_>,
    mode: ScatterMode,
    include_self: bool,
) -> Result<()> {
    let identity = match mode {
        ScatterMode::Assign => None,
        ScatterMode::Sum | ScatterMode::Mean => Some(T::Wide::ZERO),
        ScatterMode::Prod => Some(T::Wide::ONE),
        ScatterMode::Amax => Some(T::Wide::LOWEST),
        ScatterMode::Amin => Some(T::Wide::HIGHEST),
    };
    if let (false, Some(identity)) = (include_self, identity) {
        places.update(out, |_, _| T::narrow(identity))?;
    }
    match mode {
        ScatterMode::Assign => places.update(out, |_, i| src[i]),
        ScatterMode::Sum => places.add(out, src),
        ScatterMode::Prod => {
            places.update(out, |old, i| T::narrow(old.wide().times(src[i].wide())))
        }
        ScatterMode::Amax => {
            places.update(out, |old, i| T::narrow(old.wide().greater(src[i].wide())))
        }
        ScatterMode::Amin => {
            places.update(out, |old, i| T::narrow(old.wide().lesser(src[i].wide())))
        }
        ScatterMode::Mean => {
            places.add(out, src)?;
            let mut counts = vec![i64::from(include_self); out.len()];
            places.update(&mut counts, |n, _| n + 1)?;
            rows(out, 1, 2, |first, out| {
                for (out, &n) in out.iter_mut().zip(&counts[first..]) {
                    if n > 1 {
                        *out = T::narrow(out.wide().over(n));
                    }
                }
            });
            Ok(())
        }
    }
}
