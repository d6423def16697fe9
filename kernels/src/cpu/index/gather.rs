//! Reads at positions given by index tensors.

use crate::cpu::dense::{Shared, ranges};
use ferrotrace_runtime::{Element, Error, ErrorKind, Isa, Layout, Result, Shape, host};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The first index, in row-major order, that was out of range; loops that run in parallel report to it.
#[derive(Debug)]
pub struct OutOfRange(AtomicUsize);

impl OutOfRange {
    /// No index was out of range yet.
    pub fn new() -> OutOfRange {
        OutOfRange(AtomicUsize::new(usize::MAX))
    }

    /// Index number `at` is out of range.
    #[cold]
    pub fn report(&self, at: usize) {
        self.0.fetch_min(at, Ordering::Relaxed);
    }

    /// The error of the first one reported.
    ///
    /// # Errors
    /// `Index`, if there was one.
    pub fn check(&self, index: &[i64], dim: usize, size: usize) -> Result<()> {
        match index.get(self.0.load(Ordering::Relaxed)) {
            Some(&index) => Err(Error::new(ErrorKind::Index { index, dim, size })),
            None => Ok(()),
        }
    }
}

impl Default for OutOfRange {
    fn default() -> Self {
        OutOfRange::new()
    }
}

/// `index` counted from the front, if it is in `0..size` (or, negative, in `-size..0`).
#[inline(always)]
pub fn wrap(index: i64, size: usize) -> Option<usize> {
    let wrapped = if index < 0 {
        index.wrapping_add(size as i64)
    } else {
        index
    };
    ((wrapped as u64) < size as u64).then_some(wrapped as usize)
}

/// Adds `index · stride` to each of `offsets`.
///
/// # Errors
/// `Index`: the first index out of range.
pub fn add_offsets(
    offsets: &mut [isize],
    index: &[i64],
    stride: isize,
    dim: usize,
    size: usize,
) -> Result<()> {
    let bad = OutOfRange::new();
    let shared = Shared::new(offsets);
    ranges(index.len(), 2, |range| {
        // SAFETY: ranges are disjoint.
        let offsets = unsafe { shared.part(range.clone()) };
        for (i, offset) in range.zip(offsets) {
            match wrap(index[i], size) {
                Some(index) => *offset += index as isize * stride,
                None => bad.report(i),
            }
        }
    });
    bad.check(index, dim, size)
}

/// The elements that advanced indexing selects: for each offset of `pre`, of `block` and of `post` (their sums), `run`
/// elements that are `step` apart.
#[derive(Debug)]
pub struct Selection {
    /// Offsets of the kept dimensions before the block, with the array's own.
    pub pre: Vec<usize>,
    /// Offsets of the indices.
    pub block: Vec<isize>,
    /// Offsets of the kept dimensions after the block, without those of the run.
    pub post: Vec<usize>,
    /// Elements in a run.
    pub run: usize,
    /// Elements from one of them to the next.
    pub step: isize,
}

impl Selection {
    /// The selection whose kept dimensions are `before` and `after` the block, given as (size, stride).
    pub fn new(
        offset: usize,
        before: &[(usize, isize)],
        block: Vec<isize>,
        after: &[(usize, isize)],
    ) -> Selection {
        let (mut run, mut step, mut rest) = (1usize, 1isize, after.len());
        while rest > 0 {
            let (size, stride) = after[rest - 1];
            if run != 1 && size != 1 && stride != step * run as isize {
                break;
            }
            if run == 1 {
                step = stride;
            }
            run *= size;
            rest -= 1;
        }
        let offsets = |dims: &[(usize, isize)], from| -> Vec<usize> {
            let shape: Shape = dims.iter().map(|d| d.0).collect();
            Layout::new(shape, dims.iter().map(|d| d.1).collect(), from)
                .offsets()
                .collect()
        };
        Selection {
            pre: offsets(before, offset),
            block,
            post: offsets(&after[..rest], 0),
            run,
            step,
        }
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.pre.len() * self.block.len() * self.post.len() * self.run
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Copies the selected elements of `x` to `out`, in order. Offsets are inside `x`.
pub fn select<T: Element>(x: &[T], out: &mut [T], s: &Selection) {
    if s.is_empty() || out.len() != s.len() {
        return;
    }
    let shared = Shared::new(out);
    let (blocks, posts) = (s.block.len(), s.post.len());
    if s.run == 1 && posts == 1 {
        let from = s.post[0] as isize;
        // The run is one element, so rows are divided among threads too: there may be only one row.
        ranges(s.pre.len() * blocks, 4, |range| {
            // SAFETY: ranges are disjoint.
            let out = unsafe { shared.part(range.clone()) };
            let mut done = 0;
            while done < out.len() {
                let at = range.start + done;
                let (p, b) = (at / blocks, at % blocks);
                let n = (blocks - b).min(out.len() - done);
                let base = s.pre[p] as isize + from;
                for (out, offset) in out[done..done + n].iter_mut().zip(&s.block[b..]) {
                    *out = x[(base + offset) as usize];
                }
                done += n;
            }
        });
        return;
    }
    let bytes = s.run * size_of::<T>();
    let aligned = bytes.is_multiple_of(32) && (shared.as_mut_ptr() as usize).is_multiple_of(32);
    let large = host::exceeds_caches(s.len() * size_of::<T>());
    let stream = aligned && large && Isa::host() != Isa::Sse2;
    let start = |row: usize| {
        let (p, rest) = (row / (blocks * posts), row % (blocks * posts));
        (s.pre[p] as isize + s.block[rest / posts] + s.post[rest % posts] as isize) as usize
    };
    ranges(s.pre.len() * blocks * posts, s.run + 8, |range| {
        // SAFETY: ranges of rows are disjoint.
        let out = unsafe { shared.part(range.start * s.run..range.end * s.run) };
        for (row, out) in range.clone().zip(out.chunks_exact_mut(s.run)) {
            let from = start(row);
            if s.step == 1 {
                if row + AHEAD < range.end {
                    prefetch(x, start(row + AHEAD), s.run);
                }
                let x = &x[from..from + s.run];
                if stream {
                    copy_past_caches(x, out);
                } else {
                    out.copy_from_slice(x);
                }
            } else {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = x[(from as isize + i as isize * s.step) as usize];
                }
            }
        }
        if stream {
            fence();
        }
    });
}

/// Rows fetched ahead: their places are known, but not to the processor.
const AHEAD: usize = 4;

/// Copies a row without loading the memory it is written to: for results larger than the caches, which then hold more
/// of what is read. Both are whole vectors, and `out` is aligned to them.
fn copy_past_caches<T: Copy>(x: &[T], out: &mut [T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};
        #[target_feature(enable = "avx")]
        fn copy<T>(x: &[T], out: &mut [T]) {
            let vectors = size_of_val(x).min(size_of_val(out)) / 32;
            let (from, to) = (
                x.as_ptr().cast::<__m256i>(),
                out.as_mut_ptr().cast::<__m256i>(),
            );
            for i in 0..vectors {
                // SAFETY: both slices hold that many vectors, and the second is aligned.
                unsafe { _mm256_stream_si256(to.add(i), _mm256_loadu_si256(from.add(i))) };
            }
        }
        // SAFETY: the caller has found an instruction set with AVX.
        unsafe { copy(x, out) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    out.copy_from_slice(x);
}

/// Orders what [`copy_past_caches`] wrote before what this thread does next.
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[inline(always)]
fn prefetch<T>(x: &[T], from: usize, run: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let bytes = (run * size_of::<T>()).min(1024);
        let start = x.as_ptr().wrapping_add(from).cast::<i8>();
        for line in (0..bytes).step_by(64) {
            // SAFETY: a prefetch reads nothing and may be given any address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (x, from, run);
}

/// `out[i] = x[i with i[dim] replaced by index[i]]`: for each row of `row` indices, `starts` holds where it starts in
/// `x` (without the contribution of `dim`). Along a row, positions move by `step`; indices move them by `stride`.
///
/// # Errors
/// `Index`: the first index out of range.
#[derive(Debug)]
pub struct Gather<'a> {
    /// The indices.
    pub index: &'a [i64],
    /// Where each row starts.
    pub starts: &'a [usize],
    /// Indices in a row.
    pub row: usize,
    /// The distance of neighbours of a row in `x`, 0 if the row runs along `dim`.
    pub step: isize,
    /// The stride of `dim`.
    pub stride: isize,
    /// Which dimension is indexed, and its size.
    pub dim: (usize, usize),
}

/// Runs the gather.
///
/// # Errors
/// `Index`: the first index out of range.
pub fn gather<T: Element>(x: &[T], out: &mut [T], g: &Gather<'_>) -> Result<()> {
    let bad = OutOfRange::new();
    let (dim, size) = g.dim;
    let shared = Shared::new(out);
    ranges(g.index.len(), 4, |range| {
        // SAFETY: ranges are disjoint.
        let out = unsafe { shared.part(range.clone()) };
        let mut done = 0;
        while done < out.len() {
            let at = range.start + done;
            let (row, column) = (at / g.row, at % g.row);
            let n = (g.row - column).min(out.len() - done);
            let out = &mut out[done..done + n];
            let index = &g.index[at..at + n];
            let mut base = g.starts[row] as isize + column as isize * g.step;
            done += n;
            if g.step == 0 && g.stride == 1 {
                let x = &x[base as usize..][..size];
                for (i, (out, &index)) in out.iter_mut().zip(index).enumerate() {
                    match wrap(index, x.len()) {
                        Some(index) => *out = x[index],
                        None => bad.report(at + i),
                    }
                }
                continue;
            }
            for (i, (out, &index)) in out.iter_mut().zip(index).enumerate() {
                match wrap(index, size) {
                    Some(index) => *out = x[(base + index as isize * g.stride) as usize],
                    None => bad.report(at + i),
                }
                base += g.step;
            }
        }
    });
    bad.check(g.index, dim, size)
}
