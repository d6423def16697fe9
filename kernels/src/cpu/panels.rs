//! Products whose result a generated kernel takes up panel by panel (scheduler T-01, T-08, codegen A10.1).
//!
//! A panel is computed, then the kernel runs over it while it is in the second cache, on the same thread. The kernel's
//! units are (piece of the columns, row), so that those of a panel follow each other. Results do not depend on how a
//! product is cut, so these do not either.

use super::dense::Shared;
use super::matmul::{COLUMNS, ROWS, Sizes, TASK, View, multiply_to, part, products};
use super::par;
use super::vector::Real;
use ferrotrace_runtime::{
    Buffer, Device, Element, Error, Fault, Launch, Pool, Prepared, Result, prepare,
};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes of a panel: half of a core's second cache, the other half is for the operands.
const PANEL: usize = 1 << 19;
/// Columns of a unit of the kernel where the product is not cut.
const PIECE: usize = 1 << 14;
/// Fewest columns of the last panel: past the library's special cases.
const LAST: usize = 72;

/// A generated kernel that takes up a product. Its units are (piece of the columns, row), pieces outermost.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a> {
    /// Its launch; the number of chunks is not looked at.
    pub launch: Launch<'a>,
    /// Which of the launch's buffers the product is.
    pub pointer: usize,
    /// Whether that buffer is the product's whole memory. If not, the product lies in scratch memory.
    pub whole: bool,
    /// The argument that is the distance of the product's rows.
    pub pitch: usize,
    /// The argument that is the number of columns of a piece.
    pub piece: usize,
    /// The argument that is the number of pieces.
    pub pieces: usize,
}

/// How the products of a batch are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    sizes: Sizes,
    count: usize,
    /// Matrices of a panel; more than one only where none is cut.
    group: usize,
    /// Panels of rows of a matrix.
    rows: usize,
    /// Columns of a panel; the last of a row of panels may have more or fewer.
    piece: usize,
    /// Panels of columns of a matrix.
    columns: usize,
}

/// A panel: the matrices, the rows and the columns of each.
type Panel = (Range<usize>, Range<usize>, Range<usize>);

impl Cut {
    /// The cut of `count` products for so many threads, of elements of `size` bytes.
    fn of(sizes: Sizes, count: usize, threads: usize, size: usize) -> Cut {
        let Sizes { m, n, .. } = sizes;
        let one = m * n * size;
        let mut cut = Cut {
            sizes,
            count,
            group: 1,
            rows: 1,
            piece: n,
            columns: 1,
        };
        if one <= PANEL && count > 1 {
            // Small products together, as many as a panel holds and every thread a few times.
            let shared = count.div_ceil(threads * 4).max(TASK / sizes.work().max(1));
            cut.group = shared.clamp(1, (PANEL / one.max(1)).max(1));
            return cut;
        }
        let tasks = threads.min(sizes.work() / TASK).max(1);
        // As many panels as the cache asks for, and the same number for each thread.
        let wanted = one.div_ceil(PANEL).next_multiple_of(tasks);
        let columns = (n / COLUMNS).clamp(1, wanted);
        cut.rows = (m / ROWS).clamp(1, wanted.div_ceil(columns));
        if columns > 1 {
            let even = n.div_ceil(columns).next_multiple_of(16);
            let last = (n - 1) % even + 1;
            cut.piece = if last >= LAST {
                even
            } else {
                n / columns / 16 * 16
            };
            // The last panel takes what is left.
            cut.columns = if last >= LAST {
                n.div_ceil(even)
            } else {
                columns
            };
        }
        cut
    }

    fn panels(&self) -> usize {
        self.count.div_ceil(self.group) * self.rows * self.columns
    }

    /// Panels of rows run through first, then those of columns.
    fn panel(&self, i: usize) -> Panel {
        let (r, rest) = (i % self.rows, i / self.rows);
        let (c, g) = (rest % self.columns, rest / self.columns);
        let rows = part(self.sizes.m, self.rows, r)..part(self.sizes.m, self.rows, r + 1);
        let end = if c + 1 == self.columns {
            self.sizes.n
        } else {
            (c + 1) * self.piece
        };
        let matrices = g * self.group..((g + 1) * self.group).min(self.count);
        (matrices, rows, c * self.piece..end)
    }

    /// The most rows and columns of a panel.
    fn largest(&self) -> (usize, usize) {
        let last = self.sizes.n - (self.columns - 1) * self.piece;
        let rows = (0..self.rows)
            .map(|r| part(self.sizes.m, self.rows, r + 1) - part(self.sizes.m, self.rows, r));
        (rows.max().unwrap_or(0), last.max(self.piece))
    }
}

/// What a batch of products is cut into, and the scratch memory that the panels lie in.
struct Scratch {
    cut: Cut,
    /// Whether the products are computed whole before the kernel runs.
    at_once: bool,
    /// Elements of a part.
    panel: usize,
    /// Parts: one for each thread that computes panels.
    workers: usize,
}

impl Scratch {
    fn of(s: Sizes, count: usize, threads: usize, size: usize) -> Scratch {
        let cut = Cut::of(s, count, threads, size);
        // One matrix on one thread gains nothing; `products` knows vectors.
        let at_once = cut.panels() == 1 || s.k == 0 || s.m == 1 || s.n == 1;
        let (highest, widest) = cut.largest();
        let (panel, workers) = match at_once {
            true => (s.m * s.n * count, 1),
            false => (highest * widest * cut.group, threads.min(cut.panels())),
        };
        Scratch {
            cut,
            at_once,
            panel,
            workers,
        }
    }
}

/// Elements, each of `size` bytes, of the scratch memory that [`products_then`] takes where the product has no memory.
pub(crate) fn scratch_elements(s: Sizes, count: usize, size: usize) -> usize {
    if s.m * s.n * count == 0 {
        return 0;
    }
    let scratch = Scratch::of(s, count, Pool::global().threads(), size);
    scratch.panel * scratch.workers
}

/// The products of a batch, as [`products`] computes them, taken up by a kernel.
///
/// # Errors
/// Out of memory; `Internal`: a matrix leaves its memory, or the launch is not the product's.
pub fn products_then<T: Real + Element>(
    s: Sizes,
    a: View<'_, T>,
    b: View<'_, T>,
    starts: &[(usize, usize)],
    epilogue: &Epilogue<'_>,
) -> Result<Option<Fault>> {
    let (size, count) = (s.m * s.n, starts.len());
    if size * count == 0 {
        return Ok(None);
    }
    let threads = Pool::global().threads();
    let Scratch {
        cut,
        at_once,
        panel,
        workers,
    } = Scratch::of(s, count, threads, size_of::<T>());
    let (_, widest) = cut.largest();
    let bytes = if epilogue.whole {
        0
    } else {
        panel * workers * size_of::<T>()
    };
    let mut memory = Buffer::allocate(&Device::cpu(), bytes)?;
    let memory = memory.get_mut::<T>();
    let memory = Shared::new(memory.ok_or_else(|| Error::internal("scratch memory is shared"))?);
    let (piece, pieces) = match at_once {
        true => (PIECE.min(s.n), s.n.div_ceil(PIECE)),
        false => (cut.piece, cut.columns),
    };
    let dense = epilogue.whole || at_once;
    let pitch = if dense { s.n } else { widest };
    let mut params: SmallVec<[i64; 32]> = SmallVec::from_slice(epilogue.launch.params);
    for (at, value) in [
        (epilogue.pitch, pitch),
        (epilogue.piece, piece),
        (epilogue.pieces, pieces),
    ] {
        let param = params.get_mut(at);
        *param.ok_or_else(|| Error::internal("an epilogue without its arguments"))? = value as i64;
    }
    let launch = Launch {
        params: &params,
        chunks: s.m * count * pieces,
        ..epilogue.launch
    };
    let buffer = launch.buffers.get(epilogue.pointer);
    if buffer.is_none_or(|b| epilogue.whole && b.span < size * count * size_of::<T>()) {
        return Err(Error::internal("an epilogue without its product"));
    }
    let prepared = prepare(&launch, threads)?;
    let (pointer, rows) = (epilogue.pointer, s.m * count);
    if at_once {
        let whole = match epilogue.whole {
            true => prepared.pointer(pointer).cast::<T>(),
            false => memory.as_mut_ptr(),
        };
        // SAFETY: the memory is as large as the products, which was checked, and nobody else uses it yet.
        products(s, a, b, starts, unsafe {
            std::slice::from_raw_parts_mut(whole, size * count)
        })?;
        let whole = par::Shared::new(whole.cast());
        Pool::global().run(rows * pieces, &|begin, end, thread| {
            // SAFETY: the pool gives out each chunk once; the product is complete.
            unsafe { prepared.run(begin, end, thread, Some((pointer, whole.get()))) }
        });
        return Ok(prepared.finish());
    }
    let job = Job {
        cut,
        a,
        b,
        starts,
        pointer,
        pitch,
        scratch: (!epilogue.whole).then_some((memory, panel)),
        prepared: &prepared,
    };
    let failed = AtomicBool::new(false);
    Pool::global().run(cut.panels(), &|begin, end, thread| {
        for i in begin..end {
            if job.panel(i, thread).is_err() {
                failed.store(true, Relaxed);
            }
        }
    });
    match failed.into_inner() {
        true => Err(Error::internal("a matrix leaves its memory")),
        false => Ok(prepared.finish()),
    }
}

/// What the threads share.
struct Job<'a, T> {
    cut: Cut,
    a: View<'a, T>,
    b: View<'a, T>,
    starts: &'a [(usize, usize)],
    pointer: usize,
    /// The distance of the product's rows.
    pitch: usize,
    /// Memory of all threads, and the elements of each; none where the product lies in the kernel's own buffer.
    scratch: Option<(Shared<'a, T>, usize)>,
    prepared: &'a Prepared<'a>,
}

impl<T: Real> Job<'_, T> {
    /// Computes panel `i` and runs the kernel over it.
    fn panel(&self, i: usize, thread: usize) -> Result<()> {
        let (matrices, rows, columns) = self.cut.panel(i);
        let Sizes { m, .. } = self.cut.sizes;
        let first = matrices.start * m + rows.start;
        // Where the first row of the first matrix would start.
        let base = match &self.scratch {
            None => self.prepared.pointer(self.pointer).cast::<T>(),
            Some((memory, each)) => (memory.as_mut_ptr().wrapping_add(thread * each))
                .wrapping_sub(first * self.pitch + columns.start),
        };
        for i in matrices.clone() {
            let (a, b) = self.starts[i];
            let to = base.wrapping_add((i * m + rows.start) * self.pitch + columns.start);
            // SAFETY: `to` is the panel's place in the product, which is as large as the launch says, or in this
            // thread's scratch memory, which holds the largest panel at this pitch. Panels are disjoint.
            unsafe {
                multiply_to(
                    self.cut.sizes,
                    View { start: a, ..self.a },
                    View { start: b, ..self.b },
                    (to, self.pitch),
                    (rows.clone(), columns.clone()),
                )?;
            }
        }
        let last = (matrices.end - 1) * m + rows.end;
        let before = columns.start / self.cut.piece * m * self.cut.count;
        // SAFETY: the units of this panel, which nobody else runs; the product of them is complete.
        unsafe {
            self.prepared.run(
                before + first,
                before + last,
                thread,
                Some((self.pointer, base.cast())),
            );
        }
        Ok(())
    }
}
