//! Products whose result a generated kernel takes up panel by panel, or one of whose operands a generated kernel computes
//! so (scheduler T-01, T-02, T-08, codegen A10.1).
//!
//! A panel is computed, then the kernel runs over it while it is in the second cache, on the same thread. The kernel's
//! units are (piece of the columns, row), so that those of a panel follow each other. Results do not depend on how a
//! product is cut, so these do not either.

use super::dense::Shared;
use super::matmul::{
    COLUMNS, ROWS, Sizes, Starts, TASK, View, multiply_to, part, products, products_into,
};
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
/// Most bytes of an operand's panel that a kernel computes: all of a core's second cache.
const OPERAND: usize = 1 << 20;
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

/// A generated kernel that computes an operand of a product. Its units are (piece of the columns, row), pieces outermost,
/// over the rows and columns of the operand's matrix as it would lie in memory.
#[derive(Clone, Copy, Debug)]
pub struct Prologue<'a> {
    /// Its launch; the number of chunks is not looked at.
    pub launch: Launch<'a>,
    /// Which of the launch's buffers the operand is.
    pub pointer: usize,
    /// The argument that is the distance of the matrix's rows.
    pub pitch: usize,
    /// The argument that is the number of columns of a piece.
    pub piece: usize,
    /// The argument that is the number of pieces.
    pub pieces: usize,
    /// Bytes of an element.
    pub size: usize,
    /// Whether it is the right operand.
    pub right: bool,
    /// Whether the matrix's rows are those of the left operand, or the columns of the right.
    pub by_rows: bool,
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
        cut.in_columns(columns)
    }

    /// The cut of a product one of whose operands is computed panel by panel, each element once.
    fn fed(sizes: Sizes, right: bool, threads: usize, size: usize) -> Cut {
        let Sizes { m, n, k } = sizes;
        let (across, lowest) = if right { (n, COLUMNS) } else { (m, ROWS) };
        let tasks = threads.min(sizes.work() / TASK).max(1);
        let wanted = (m * n * size).div_ceil(PANEL);
        let wanted = wanted.max((across * k * size).div_ceil(OPERAND));
        let panels = (across / lowest).clamp(1, wanted.next_multiple_of(tasks));
        let cut = Cut {
            sizes,
            count: 1,
            group: 1,
            rows: if right { 1 } else { panels },
            piece: n,
            columns: 1,
        };
        cut.in_columns(if right { panels } else { 1 })
    }

    /// The same, cut into so many panels of columns, or about as many.
    fn in_columns(mut self, columns: usize) -> Cut {
        let (n, cut) = (self.sizes.n, &mut self);
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
        self
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
    /// Columns, or rows, of a part of a computed operand.
    across: usize,
    /// Parts: one for each thread that computes panels.
    workers: usize,
}

impl Scratch {
    /// `right` says which operand is computed, if one is.
    fn of(s: Sizes, count: usize, threads: usize, size: usize, right: Option<bool>) -> Scratch {
        let cut = match right {
            Some(right) if count == 1 => Cut::fed(s, right, threads, size),
            _ => Cut::of(s, count, threads, size),
        };
        // One matrix on one thread gains nothing; `products` knows vectors. An operand is the whole batch's.
        let small = cut.panels() == 1 || s.k == 0 || s.m == 1 || s.n == 1;
        let at_once = small || (right.is_some() && count > 1);
        let (highest, widest) = cut.largest();
        let (panel, workers) = match at_once {
            true => (s.m * s.n * count, 1),
            false => (highest * widest * cut.group, threads.min(cut.panels())),
        };
        let across = match (at_once, right) {
            (true, Some(true)) => s.n,
            (true, _) => s.m,
            (false, Some(true)) => widest,
            (false, _) => highest,
        };
        Scratch {
            cut,
            at_once,
            panel,
            across,
            workers,
        }
    }
}

/// Elements, each of `size` bytes, of the scratch memory that [`products_then`] takes for a product that passes from panel
/// to panel without memory of its own, and for an operand that is computed: the right one or the left.
pub(crate) fn scratch_elements(
    s: Sizes,
    count: usize,
    size: usize,
    passes: bool,
    right: Option<bool>,
) -> usize {
    if s.m * s.n * count == 0 {
        return 0;
    }
    let scratch = Scratch::of(s, count, Pool::global().threads(), size, right);
    let product = if passes { scratch.panel } else { 0 };
    let operand = if right.is_some() {
        scratch.across * s.k
    } else {
        0
    };
    (product + operand) * scratch.workers
}

/// Where products go.
#[derive(Clone, Copy, Debug)]
pub enum Then<'a, T> {
    /// To a kernel that runs over every panel.
    Kernel(&'a Epilogue<'a>),
    /// To memory: dense matrices one after another.
    Store(Shared<'a, T>),
}

/// The products of a batch, as [`products`] computes them. A kernel may compute one of their operands, of a batch of one
/// matrix panel by panel, just before it is read.
///
/// # Errors
/// Out of memory; `Internal`: a matrix leaves its memory, or a launch is not the product's.
pub fn products_then<T: Real + Element>(
    s: Sizes,
    a: View<'_, T>,
    b: View<'_, T>,
    starts: &[(usize, usize)],
    prologue: Option<&Prologue<'_>>,
    then: Then<'_, T>,
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
        across,
        workers,
    } = Scratch::of(s, count, threads, size_of::<T>(), prologue.map(|p| p.right));
    let feeding = prologue.map(|p| Feeding::of(p, &cut, at_once, across, workers));
    let mut feeding = feeding.transpose()?;
    let fed = match (prologue, &mut feeding) {
        (Some(prologue), Some(feeding)) => Some(Fed::new(prologue, feeding, threads)?),
        _ => None,
    };
    let (mut a, mut b) = (a, b);
    let mut starts = SmallVec::<[(usize, usize); 4]>::from_slice(starts);
    if at_once && let Some(fed) = &fed {
        let whole = fed.all();
        match fed.prologue.right {
            true => b = whole,
            false => a = whole,
        }
        for (a, b) in &mut starts {
            *(if fed.prologue.right { b } else { a }) = 0;
        }
    }
    let epilogue = match then {
        Then::Kernel(epilogue) => epilogue,
        Then::Store(out) if at_once => {
            let starts = starts.iter().enumerate();
            let starts: Vec<Starts> = starts.map(|(i, of)| [of.0, of.1, i * size]).collect();
            products_into(s, a, b, &starts, &out, s.n)?;
            return Ok(fed.and_then(|fed| fed.prepared.finish()));
        }
        Then::Store(out) => {
            let job = Job {
                cut,
                a,
                b,
                starts: &starts,
                pitch: s.n,
                fed: fed.as_ref(),
                to: To::Memory(out),
            };
            job.run()?;
            return Ok(fed.and_then(|fed| fed.prepared.finish()));
        }
    };
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
    let params = with_params(
        &epilogue.launch,
        [
            (epilogue.pitch, pitch),
            (epilogue.piece, piece),
            (epilogue.pieces, pieces),
        ],
    )?;
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
        products(s, a, b, &starts, unsafe {
            std::slice::from_raw_parts_mut(whole, size * count)
        })?;
        let whole = par::Shared::new(whole.cast());
        Pool::global().run(rows * pieces, &|begin, end, thread| {
            // SAFETY: the pool gives out each chunk once; the product is complete.
            unsafe { prepared.run(begin, end, thread, Some((pointer, whole.get()))) }
        });
    } else {
        let job = Job {
            cut,
            a,
            b,
            starts: &starts,
            pitch,
            fed: fed.as_ref(),
            to: To::Kernel {
                prepared: &prepared,
                pointer,
                scratch: (!epilogue.whole).then_some((memory, panel)),
            },
        };
        job.run()?;
    }
    // A fault of the operand comes first.
    let before = fed.and_then(|fed| fed.prepared.finish());
    Ok(before.or(prepared.finish()))
}

/// The integers of a launch with some of them set.
fn with_params(launch: &Launch<'_>, set: [(usize, usize); 3]) -> Result<SmallVec<[i64; 32]>> {
    let mut params: SmallVec<[i64; 32]> = SmallVec::from_slice(launch.params);
    for (at, value) in set {
        let param = params.get_mut(at);
        *param.ok_or_else(|| Error::internal("a kernel by panels without its arguments"))? =
            value as i64;
    }
    Ok(params)
}

/// Memory and arguments of a kernel that computes an operand.
struct Feeding {
    params: SmallVec<[i64; 32]>,
    memory: Buffer,
    /// Elements of each thread.
    each: usize,
    /// Distances of the operand's elements along what panels cut, and along k.
    strides: (isize, isize),
    /// Units of a piece, and of all.
    units: (usize, usize),
}

impl Feeding {
    fn of(
        prologue: &Prologue<'_>,
        cut: &Cut,
        whole: bool,
        across: usize,
        workers: usize,
    ) -> Result<Feeding> {
        let Sizes { m, n, k } = cut.sizes;
        let all = if prologue.right { n } else { m };
        let (rows, pitch, piece, pieces) = match (prologue.by_rows, whole) {
            (true, _) => (all, k, k, 1),
            (false, true) => (k, all, all, 1),
            (false, false) => (k, across, cut.piece, cut.columns),
        };
        let each = across * k;
        // Every element has a size of its own: 4 or 8 bytes.
        let bytes = each * workers * prologue.size;
        let set = [
            (prologue.pitch, pitch),
            (prologue.piece, piece),
            (prologue.pieces, pieces),
        ];
        Ok(Feeding {
            params: with_params(&prologue.launch, set)?,
            memory: Buffer::allocate(&Device::cpu(), bytes)?,
            each,
            strides: match prologue.by_rows {
                true => (k as isize, 1),
                false => (1, pitch as isize),
            },
            units: (rows, rows * pieces),
        })
    }
}

/// An operand that a kernel computes.
struct Fed<'a, T> {
    prologue: &'a Prologue<'a>,
    prepared: Prepared<'a>,
    memory: Shared<'a, T>,
    each: usize,
    strides: (isize, isize),
    units: (usize, usize),
}

impl<'a, T: Real + Element> Fed<'a, T> {
    fn new(
        prologue: &'a Prologue<'a>,
        feeding: &'a mut Feeding,
        threads: usize,
    ) -> Result<Fed<'a, T>> {
        let launch = Launch {
            params: &feeding.params,
            chunks: feeding.units.1,
            ..prologue.launch
        };
        if prologue.pointer >= launch.buffers.len() || prologue.size != size_of::<T>() {
            return Err(Error::internal("a prologue without its operand"));
        }
        let memory = feeding.memory.get_mut::<T>();
        let memory = memory.ok_or_else(|| Error::internal("scratch memory is shared"))?;
        Ok(Fed {
            prologue,
            prepared: prepare(&launch, threads)?,
            memory: Shared::new(memory),
            each: feeding.each,
            strides: feeding.strides,
            units: feeding.units,
        })
    }

    /// All of the operand, computed by all threads.
    fn all(&self) -> View<'a, T> {
        let whole = par::Shared::new(self.memory.as_mut_ptr().cast());
        Pool::global().run(self.units.1, &|begin, end, thread| {
            let moved = Some((self.prologue.pointer, whole.get()));
            // SAFETY: the pool gives out each chunk once; the memory holds the operand, and nobody else uses it.
            unsafe { self.prepared.run(begin, end, thread, moved) }
        });
        self.view(0)
    }

    /// The part of the operand that a panel needs: `range` of what is cut, in piece `piece` of that. `thread` is the
    /// caller's, in 0..workers.
    fn part(&self, range: &Range<usize>, piece: usize, thread: usize) -> View<'a, T> {
        let place = self.memory.as_mut_ptr().wrapping_add(thread * self.each);
        let base = place.wrapping_offset(-(range.start as isize * self.strides.0));
        let units = match self.prologue.by_rows {
            true => range.clone(),
            false => piece * self.units.0..(piece + 1) * self.units.0,
        };
        let moved = Some((self.prologue.pointer, base.cast()));
        // SAFETY: these units belong to this panel alone, and write the thread's own part of the memory, which holds
        // the largest panel.
        unsafe { self.prepared.run(units.start, units.end, thread, moved) };
        self.view(thread)
    }

    /// The operand in a thread's memory.
    fn view(&self, thread: usize) -> View<'a, T> {
        let place = self.memory.as_mut_ptr().wrapping_add(thread * self.each);
        let (across, along) = self.strides;
        let (row, col) = match self.prologue.right {
            true => (along, across),
            false => (across, along),
        };
        View {
            // SAFETY: this thread's part of the memory, which nobody writes while the product reads it.
            data: unsafe { std::slice::from_raw_parts(place, self.each) },
            start: 0,
            row,
            col,
        }
    }
}

/// Where a panel goes.
enum To<'a, T> {
    /// To its place in memory.
    Memory(Shared<'a, T>),
    /// To a kernel.
    Kernel {
        prepared: &'a Prepared<'a>,
        pointer: usize,
        /// Memory of all threads, and the elements of each; none where the product lies in the kernel's own buffer.
        scratch: Option<(Shared<'a, T>, usize)>,
    },
}

/// What the threads share.
struct Job<'a, T> {
    cut: Cut,
    a: View<'a, T>,
    b: View<'a, T>,
    starts: &'a [(usize, usize)],
    /// The distance of the product's rows.
    pitch: usize,
    fed: Option<&'a Fed<'a, T>>,
    to: To<'a, T>,
}

impl<T: Real + Element> Job<'_, T> {
    /// All panels, spread over the pool.
    fn run(&self) -> Result<()> {
        let failed = AtomicBool::new(false);
        Pool::global().run(self.cut.panels(), &|begin, end, thread| {
            for i in begin..end {
                if self.panel(i, thread).is_err() {
                    failed.store(true, Relaxed);
                }
            }
        });
        match failed.into_inner() {
            true => Err(Error::internal("a matrix leaves its memory")),
            false => Ok(()),
        }
    }

    /// Computes panel `i` and runs the kernels before and after it.
    fn panel(&self, i: usize, thread: usize) -> Result<()> {
        let (matrices, rows, columns) = self.cut.panel(i);
        let Sizes { m, k, .. } = self.cut.sizes;
        let first = matrices.start * m + rows.start;
        // Where the first row of the first matrix would start.
        let base = match &self.to {
            To::Memory(out) => out.as_mut_ptr(),
            To::Kernel {
                prepared,
                pointer,
                scratch: None,
            } => prepared.pointer(*pointer).cast::<T>(),
            To::Kernel {
                scratch: Some((memory, each)),
                ..
            } => (memory.as_mut_ptr().wrapping_add(thread * each))
                .wrapping_sub(first * self.pitch + columns.start),
        };
        for i in matrices.clone() {
            let (a, b) = self.starts[i];
            let mut a = View { start: a, ..self.a }.from(rows.start, 0);
            let mut b = View { start: b, ..self.b }.from(0, columns.start);
            match self.fed {
                Some(fed) if fed.prologue.right => {
                    b = fed.part(&columns, columns.start / self.cut.piece, thread);
                }
                Some(fed) => a = fed.part(&rows, 0, thread),
                None => {}
            }
            let to = base.wrapping_add((i * m + rows.start) * self.pitch + columns.start);
            let sizes = Sizes {
                m: rows.len(),
                n: columns.len(),
                k,
            };
            // SAFETY: `to` is the panel's place in the product, which is as large as the launch says, or in this
            // thread's scratch memory, which holds the largest panel at this pitch. Panels are disjoint.
            unsafe {
                let all = (0..sizes.m, 0..sizes.n);
                multiply_to(sizes, a, b, (to, self.pitch), all)?;
            }
        }
        let To::Kernel {
            prepared, pointer, ..
        } = &self.to
        else {
            return Ok(());
        };
        let last = (matrices.end - 1) * m + rows.end;
        let before = columns.start / self.cut.piece * m * self.cut.count;
        // SAFETY: the units of this panel, which nobody else runs; the product of them is complete.
        unsafe {
            let moved = Some((*pointer, base.cast()));
            prepared.run(before + first, before + last, thread, moved);
        }
        Ok(())
    }
}
