//! Writes at positions given by index tensors, deterministic: what meets at one place meets in row-major order of the
//! source.

use super::dense::{Shared, ranges, rows};
use super::gather::{OutOfRange, Selection, wrap};
use super::isa::{Loop, dispatch};
use super::number::{Number, Wide};
use crate::ScatterMode;
use ferrotrace_runtime::Result;
use std::ops::Range;

/// Elements of a run that one task takes.
const PIECE: usize = 64;

/// Writes (or adds) `src`, in order, to the selected elements of `out`. Offsets are inside `out`.
///
/// Kept dimensions are disjoint, so tasks share them out; each task goes through the whole block of indices.
pub fn put<T: Number>(out: &mut [T], src: &[T], s: &Selection, accumulate: bool) {
    if s.is_empty() || src.len() != s.len() {
        return;
    }
    let out = Shared::new(out);
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
            });
        }
    });
}

/// Writes to the elements of one kept position `p`, and to some columns of their runs.
struct Put<'a, T> {
    out: Shared<'a, T>,
    src: &'a [T],
    s: &'a Selection,
    p: usize,
    columns: Range<usize>,
    accumulate: bool,
}

impl<T: Number> Loop for Put<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (s, columns) = (self.s, self.columns);
        let (blocks, posts) = (s.block.len(), s.post.len());
        for (b, block) in s.block.iter().enumerate() {
            for (q, post) in s.post.iter().enumerate() {
                let from = s.pre[self.p] as isize + block + *post as isize;
                let from = (from + columns.start as isize * s.step) as usize;
                let row = ((self.p * blocks + b) * posts + q) * s.run;
                let src = &self.src[row + columns.start..row + columns.end];
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
                    // SAFETY: as above.
                    let place = unsafe { &mut self.out.part(at..at + 1)[0] };
                    *place = match self.accumulate {
                        true => T::narrow(place.wide().plus(value.wide())),
                        false => value,
                    };
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
    /// Calls `f(place, at)` for index number `at`, which points to `place`: those of one place in order, on one thread.
    fn each(&self, f: impl Fn(usize, usize) + Sync) -> Result<()> {
        let bad = OutOfRange::new();
        let (dim, size) = self.dim;
        let inner = self.inner.len();
        let pieces = (inner / PIECE).max(1);
        ranges(
            self.outer.len() * pieces,
            self.len * (inner / pieces) * 4,
            |tasks| {
                for task in tasks {
                    let (o, piece) = (task / pieces, task % pieces);
                    let columns = inner * piece / pieces..inner * (piece + 1) / pieces;
                    if inner == 1 {
                        let base = self.outer[o] + self.inner[0];
                        let at = o * self.len..(o + 1) * self.len;
                        for (at, &index) in at.clone().zip(&self.index[at]) {
                            match wrap(index, size) {
                                Some(i) => f(base + i * self.stride, at),
                                None => bad.report(at),
                            }
                        }
                        continue;
                    }
                    for l in 0..self.len {
                        let row = (o * self.len + l) * inner;
                        for c in columns.clone() {
                            match wrap(self.index[row + c], size) {
                                Some(i) => {
                                    let place = self.outer[o] + i * self.stride + self.inner[c];
                                    f(place, row + c);
                                }
                                None => bad.report(row + c),
                            }
                        }
                    }
                }
            },
        );
        bad.check(self.index, dim, size)
    }

    fn update<T: Number>(
        &self,
        out: &mut [T],
        combine: impl Fn(T, usize) -> T + Sync,
    ) -> Result<()> {
        let len = out.len();
        let shared = Shared::new(out);
        self.each(|place, at| {
            assert!(place < len);
            // SAFETY: the place is inside, and one task alone meets it: outer and inner positions of tasks differ.
            let place = unsafe { &mut *shared.as_mut_ptr().add(place) };
            *place = combine(*place, at);
        })
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
        ScatterMode::Sum => places.update(out, |old, i| T::narrow(old.wide().plus(src[i].wide()))),
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
            places.update(out, |old, i| T::narrow(old.wide().plus(src[i].wide())))?;
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
