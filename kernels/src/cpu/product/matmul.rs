//! Matrix products: the `gemm` crates' blocked kernel on panels of the result, and kernels of our own for vectors. Processors with
//! instructions for bf16 multiply matrices by tiles instead (`tiles/`).
//!
//! A result's bits do not depend on how it is cut into panels, hence not on the number of threads: each element is one
//! chain of fused multiply-adds over k, cut by k alone (`long.rs`). The library's special cases for tiny panels would break
//! this, so a panel is never smaller than they reach ([`panels`]). Few rows by a matrix of dense columns are dot products,
//! and products by a packed matrix have a kernel of their own (`packed.rs`): their bits depend on nothing else either. A constant's
//! packed copy may change the last bits of a product, as its sums are cut elsewhere.

use super::dots::{by_dots, row_dots};
use super::library::{by_library, has_dense_columns, turn};
use super::packed::{self, Panels};
use super::vector::{Real, vector_matrix};
use super::view::{Sizes, View};
use super::{long, small};
use crate::cpu::dense::{Shared, ranges};
use crate::cpu::number::{Number, Wide};
use ferrotrace_runtime::{Error, Pool, Result};
use gemm_common::Parallelism;
use std::ops::Range;

/// Multiply-adds below which a panel is not worth a task of its own.
pub(in crate::cpu) const TASK: usize = 1 << 19;
/// The narrowest panel: twice the width of the library's widest kernel, and past its special cases.
pub(in crate::cpu) const COLUMNS: usize = 96;
/// The widest panel: wider ones are cut at half of this, so that the part of `b` that a thread packs stays in its second
/// cache.
const WIDE: usize = 1024;
/// Rows below which wide panels are not cut.
const TALL: usize = 256;
/// The lowest panel, before its rows are rounded to vectors: more rows are left than dot products take.
pub(in crate::cpu) const ROWS: usize = 80;

/// The right matrix of a product: where it lies, and its packed copy, if it has one.
#[derive(Clone, Copy, Debug)]
pub struct Right<'a, T> {
    /// The matrix.
    pub view: View<'a, T>,
    /// Its panels; of matrices of `f32` alone.
    pub panels: Option<Panels<'a>>,
}

impl<'a, T> From<View<'a, T>> for Right<'a, T> {
    fn from(view: View<'a, T>) -> Right<'a, T> {
        Right { view, panels: None }
    }
}

impl<'a, T> Right<'a, T> {
    /// The matrix that starts at `start`.
    pub fn at(self, start: usize) -> Right<'a, T> {
        Right {
            view: View { start, ..self.view },
            ..self
        }
    }

    /// The matrix from column `j` on, a multiple of 16.
    pub fn from_column(self, j: usize) -> Right<'a, T> {
        Right {
            view: self.view.from(0, j),
            panels: self.panels.map(|panels| panels.from(j)),
        }
    }
}

/// How many panels of columns, and of rows, a result is cut into for `tasks` tasks.
///
/// Columns are cut first: panels of columns share `a`, which is not packed, while each panel of rows packs all of `b`.
pub fn panels(s: Sizes, tasks: usize) -> (usize, usize) {
    let tasks = tasks.min(s.work() / TASK).max(1);
    let narrowest = if s.m < 4 { 4 * COLUMNS } else { COLUMNS };
    let wide = tasks > 1 && s.m >= TALL && s.n / tasks > WIDE;
    let wanted = match wide {
        true => s.n.div_ceil(WIDE / 2).next_multiple_of(tasks),
        false => tasks,
    };
    let columns = (s.n / narrowest).clamp(1, wanted);
    let rows = (s.m / ROWS).clamp(1, tasks.div_ceil(columns));
    (columns, rows)
}

pub(in crate::cpu) fn part(n: usize, parts: usize, i: usize) -> usize {
    // Panels end at multiples of a vector, but for the last.
    if i == parts {
        n
    } else {
        n * i / parts / 16 * 16
    }
}

/// Writes (or adds, if `accumulate`) the product to `c`, whose rows are `row` apart, on this thread alone.
///
/// # Errors
/// `Internal`: a matrix leaves its memory.
pub fn multiply<T: Real>(
    s: Sizes,
    a: View<'_, T>,
    b: View<'_, T>,
    c: &mut [T],
    row: usize,
    accumulate: bool,
) -> Result<()> {
    multiply_panel(
        s,
        a,
        b.into(),
        &Shared::new(c),
        0,
        row,
        (0..s.m, 0..s.n),
        accumulate,
        Parallelism::None,
    )
}

/// The product `c = a · b` of dense matrices by the library alone, on its own threads: what ours is compared with.
///
/// # Errors
/// `Internal`: a matrix leaves its memory.
pub fn library_product<T: Real>(
    s: Sizes,
    a: &[T],
    b: &[T],
    c: &mut [T],
    threads: usize,
) -> Result<()> {
    let (a, b) = (View::dense(a, s.k), View::dense(b, s.n));
    let all = (0..s.m, 0..s.n);
    let parallelism = match threads {
        0 | 1 => Parallelism::None,
        n => Parallelism::Rayon(n),
    };
    multiply_panel(
        s,
        a,
        b.into(),
        &Shared::new(c),
        0,
        s.n,
        all,
        false,
        parallelism,
    )
}

/// [`multiply`] into a matrix that starts at `start` of memory that other threads write too.
///
/// # Safety
/// No other thread touches the elements of the result meanwhile.
///
/// # Errors
/// `Internal`: a matrix leaves its memory.
pub unsafe fn multiply_shared<T: Real>(
    s: Sizes,
    a: View<'_, T>,
    b: View<'_, T>,
    c: &Shared<'_, T>,
    start: usize,
    row: usize,
) -> Result<()> {
    multiply_panel(
        s,
        a,
        b.into(),
        c,
        start,
        row,
        (0..s.m, 0..s.n),
        false,
        Parallelism::None,
    )
}

#[allow(clippy::too_many_arguments)]
fn multiply_panel<T: Real>(
    s: Sizes,
    a: View<'_, T>,
    b: Right<'_, T>,
    c: &Shared<'_, T>,
    start: usize,
    row: usize,
    panel: (Range<usize>, Range<usize>),
    accumulate: bool,
    parallelism: Parallelism,
) -> Result<()> {
    let (rows, columns) = &panel;
    if rows.is_empty() || columns.is_empty() {
        return Ok(());
    }
    if columns.end > s.n || rows.end > s.m || start + (s.m - 1) * row + s.n > c.len() {
        return Err(Error::internal("a matrix leaves its memory"));
    }
    // SAFETY: the result is inside its memory, as just checked; callers pass disjoint panels.
    unsafe {
        let to = c.as_mut_ptr().add(start + rows.start * row + columns.start);
        product_panel(s, a, b, (to, row), panel, accumulate, parallelism)
    }
}

/// Writes a panel of the product to `c`, its first element and the distance of its rows, on this thread alone.
///
/// # Safety
/// The panel's place is inside one allocation, and no other thread touches it meanwhile.
///
/// # Errors
/// `Internal`: an operand leaves its memory.
pub(in crate::cpu) unsafe fn multiply_to<T: Real>(
    s: Sizes,
    a: View<'_, T>,
    b: Right<'_, T>,
    c: (*mut T, usize),
    panel: (Range<usize>, Range<usize>),
) -> Result<()> {
    // SAFETY: as the caller answers for.
    unsafe { product_panel(s, a, b, c, panel, false, Parallelism::None) }
}

/// [`multiply_to`] with the library's threads.
unsafe fn product_panel<T: Real>(
    s: Sizes,
    a: View<'_, T>,
    b: Right<'_, T>,
    (to, row): (*mut T, usize),
    (rows, columns): (Range<usize>, Range<usize>),
    accumulate: bool,
    parallelism: Parallelism,
) -> Result<()> {
    if rows.is_empty() || columns.is_empty() {
        return Ok(());
    }
    a.check(s.m, s.k)?;
    b.view.check(s.k, s.n)?;
    if columns.end > s.n || rows.end > s.m {
        return Err(Error::internal("a panel leaves its matrix"));
    }
    let (a, b) = (a.from(rows.start, 0), b.from_column(columns.start));
    let sizes = Sizes {
        m: rows.len(),
        n: columns.len(),
        k: s.k,
    };
    if let Some(panels) = b.panels.filter(|_| !accumulate) {
        // SAFETY: the operand is inside its memory, as just checked; callers answer for the result. Only matrices of `f32` have
        // panels.
        unsafe { packed::product(sizes, a, panels, (to, row)) };
        return Ok(());
    }
    let b = b.view;
    if !accumulate && small::is_small(s) {
        // SAFETY: the operands are inside their memory, as just checked; callers answer for the result.
        unsafe { small::product(sizes, a, b, (to, row)) };
        return Ok(());
    }
    if !accumulate && by_dots(s.m, s.k, &a, &b) {
        // SAFETY: rows and columns are those of the panel, whose place callers answer for.
        row_dots((sizes.m, sizes.n, s.k), a, b, |i, j, sum| unsafe {
            to.add(i * row + j).write(sum)
        });
        return Ok(());
    }
    // SAFETY: the operands are inside their memory, as just checked; callers answer for the result.
    unsafe {
        if !accumulate && packed::packs(s, &b) {
            packed::packing_product(sizes, a, b, (to, row));
        } else if long::is_long::<T>(sizes) {
            long::product(sizes, a, b, (to, row), accumulate);
        } else if is_turned(sizes, &b) {
            by_turned(sizes, a, b, (to, row), accumulate, parallelism);
        } else {
            by_library(sizes, a, b, (to, row), accumulate, parallelism);
        }
    }
    Ok(())
}

/// Most rows of a product for which a matrix of dense columns is turned first. The library packs such a matrix element by
/// element, at 9 cycles each, where turning it takes half of one and a row multiplies it in a thirtieth: with so many rows
/// a tenth of the time is left to gain.
const TURNED: usize = 2048;
/// Elements turned at a time, which stay in the second-level cache.
const TURNED_ELEMENTS: usize = 1 << 16;

fn is_turned<T>(s: Sizes, b: &View<'_, T>) -> bool {
    s.m <= TURNED && has_dense_columns(s, b)
}

/// [`by_library`] with some columns of `b` at a time turned into dense rows.
///
/// # Safety
/// As for [`by_library`].
unsafe fn by_turned<T: Real>(
    s: Sizes,
    a: View<'_, T>,
    b: View<'_, T>,
    (to, row): (*mut T, usize),
    accumulate: bool,
    parallelism: Parallelism,
) {
    let parts = (s.n / COLUMNS.max(TURNED_ELEMENTS / s.k)).max(1);
    let mut turned: Vec<T> = Vec::new();
    for i in 0..parts {
        let (start, end) = (part(s.n, parts, i), part(s.n, parts, i + 1));
        let sizes = Sizes {
            n: end - start,
            ..s
        };
        turned.clear();
        turned.reserve(sizes.n * s.k);
        // SAFETY: the columns are inside their memory, and the vector has room for as many elements, all of which are
        // written; the rest as the caller promises.
        unsafe {
            turn(sizes, &b.from(0, start), turned.as_mut_ptr());
            turned.set_len(sizes.n * s.k);
            let b = View::dense(&turned, sizes.n);
            by_library(sizes, a, b, (to.add(start), row), accumulate, parallelism);
        }
    }
}

/// Where the matrices of a batch start: of both operands and of the result.
pub type Starts = [usize; 3];

/// Products of a batch: number `i` multiplies the matrices that start at `starts[i]` of `a` and `b`, and is written to
/// the `i`-th dense matrix of `out`. Spread over the pool by product if there are many, else by panel.
///
/// # Errors
/// `Internal`: a matrix leaves its memory.
pub fn products<'a, T: Real>(
    s: Sizes,
    a: View<'a, T>,
    b: impl Into<Right<'a, T>>,
    starts: &[(usize, usize)],
    out: &mut [T],
) -> Result<()> {
    let size = s.m * s.n;
    if out.len() != size * starts.len() {
        return Ok(());
    }
    let starts = starts.iter().enumerate();
    let starts: Vec<Starts> = starts.map(|(i, of)| [of.0, of.1, i * size]).collect();
    products_into(s, a, b, &starts, &Shared::new(out), s.n)
}

/// [`products`] into memory: result number `i` is written where its third start says, its rows dense and `row` apart.
/// Matrices of the result have no element in common, and nobody else uses them meanwhile.
///
/// # Errors
/// `Internal`: a matrix leaves its memory.
pub fn products_into<'a, T: Real>(
    s: Sizes,
    a: View<'a, T>,
    b: impl Into<Right<'a, T>>,
    starts: &[Starts],
    c: &Shared<'_, T>,
    row: usize,
) -> Result<()> {
    let b = b.into();
    if s.m * s.n == 0 {
        return Ok(());
    }
    for &[i, j, to] in starts {
        View { start: i, ..a }.check(s.m, s.k)?;
        b.at(j).view.check(s.k, s.n)?;
        if to + (s.m - 1) * row + s.n > c.len() {
            return Err(Error::internal("a matrix leaves its memory"));
        }
    }
    if s.k == 0 {
        for at in starts
            .iter()
            .flat_map(|at| (0..s.m).map(move |i| at[2] + i * row))
        {
            // SAFETY: the row is inside, as just checked, and nobody else uses it.
            unsafe { c.part(at..at + s.n) }.fill(T::ZERO);
        }
        return Ok(());
    }
    let failed = std::sync::Mutex::new(Ok(()));
    let keep = |result: Result<()>| {
        if result.is_err()
            && let Ok(mut failed) = failed.lock()
        {
            *failed = result;
        }
    };
    let one = |i: usize| {
        let [of_a, of_b, to] = starts[i];
        product(s, View { start: of_a, ..a }, b.at(of_b), c, to, row)
    };
    if starts.len() >= 2 * Pool::global().threads() || s.work() < 2 * TASK {
        ranges(starts.len(), s.work() / 8, |range| {
            range.for_each(|i| keep(one(i)))
        });
    } else {
        (0..starts.len()).for_each(|i| keep(one(i)));
    }
    failed.into_inner().unwrap_or(Ok(()))
}

/// One product, written to `c` from `start` on in dense rows `row` apart, spread over the pool by panels.
fn product<T: Real>(
    s: Sizes,
    a: View<'_, T>,
    b: Right<'_, T>,
    c: &Shared<'_, T>,
    start: usize,
    row: usize,
) -> Result<()> {
    // SAFETY: products have disjoint results; a vector's elements are next to each other.
    let whole = || unsafe { c.part(start..start + s.m * s.n) };
    if s.m == 1 && b.panels.is_none() && vector_matrix(s.k, s.n, a, b.view, whole()) {
        return Ok(());
    }
    if s.n == 1 && row == 1 && vector_matrix(s.k, s.m, b.view.transpose(), a.transpose(), whole()) {
        return Ok(());
    }
    let (columns, rows) = panels(s, Pool::global().threads());
    let panel = |i: usize| {
        let (r, col) = (i / columns, i % columns);
        let rows = part(s.m, rows, r)..part(s.m, rows, r + 1);
        (rows, part(s.n, columns, col)..part(s.n, columns, col + 1))
    };
    if columns * rows == 1 {
        return multiply_panel(
            s,
            a,
            b,
            c,
            start,
            row,
            (0..s.m, 0..s.n),
            false,
            Parallelism::None,
        );
    }
    let failed = std::sync::atomic::AtomicBool::new(false);
    Pool::global().run(columns * rows, &|begin, end, _| {
        for i in begin..end {
            if multiply_panel(s, a, b, c, start, row, panel(i), false, Parallelism::None).is_err() {
                failed.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
    });
    match failed.into_inner() {
        true => Err(Error::internal("a matrix leaves its memory")),
        false => Ok(()),
    }
}

/// Products of integer matrices, which wrap; `b` is dense.
///
/// # Errors
/// `Internal`: a matrix leaves its memory.
pub fn integer_products<T: Number<Wide = T> + Wide>(
    s: Sizes,
    a: View<'_, T>,
    b: &[T],
    starts: &[(usize, usize)],
    out: &mut [T],
) -> Result<()> {
    let size = s.m * s.n;
    if size == 0 || out.len() != size * starts.len() {
        return Ok(());
    }
    for &(i, j) in starts {
        View { start: i, ..a }.check(s.m, s.k)?;
        View {
            start: j,
            ..View::dense(b, s.n)
        }
        .check(s.k, s.n)?;
    }
    crate::cpu::dense::rows(out, s.n, s.n * s.k, |first, out| {
        for (r, out) in out.chunks_exact_mut(s.n).enumerate() {
            let (batch, i) = ((first + r) / s.m, (first + r) % s.m);
            let (a_start, b_start) = starts[batch];
            out.fill(T::ZERO);
            for k in 0..s.k {
                let at = a_start as isize + i as isize * a.row + k as isize * a.col;
                let factor = a.data[at as usize];
                for (out, &b) in out.iter_mut().zip(&b[b_start + k * s.n..]) {
                    *out = out.plus(factor.times(b));
                }
            }
        }
    });
    Ok(())
}
