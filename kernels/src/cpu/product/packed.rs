//! Products by matrices packed in panels: some columns, row after row, as the kernel reads them.
//!
//! Each element of a product is a chain of fused multiply-adds over 256 terms; chains are added up in binary64. So its bits depend
//! neither on the panel nor on what else is computed, nor on when the matrix was packed.

use super::dots::CUT;
use super::long::Join;
use super::packed_tiles::{LINE, MOST, Terms, sums, tile_sizes};
use super::vector::Real;
use super::view::{Sizes, View};
use crate::cpu::dense::{Shared, ranges, scratch};
use crate::cpu::isa::dispatch;
use crate::cpu::strided::{self, Window};
use ferrotrace_runtime::{Buffer, DType, Element, Error, Isa, Layout, Order, Result};
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::Range;

/// Columns of a panel: three vectors of 16 elements.
const WIDTH: usize = 48;
/// Elements that are read behind the last panel at most: panels are of any width, and kernels read whole vectors.
const BEHIND: usize = 16;
/// Parts of a product begin at multiples of so many columns.
const STEP: usize = 16;
/// Fewest terms for which a matrix is packed.
const TERMS: usize = 16;
/// Terms of a chain.
const RUN: usize = 256;
/// Fewest elements of a matrix that is worth a packed copy.
const WORTH: usize = 1 << 14;
/// Bytes of a block of rows, which stay in the second-level cache while panels go by.
const BLOCK: usize = 1 << 20;
/// Most terms: more are cut into shorter chains (`long.rs`).
const LONG: usize = 4096;
/// Rows from which packing a matrix for one product pays: packing takes half a cycle for each element, a row a thirtieth.
const MANY: usize = 64;

/// Whether this machine has kernels for packed matrices.
fn has_kernels() -> bool {
    matches!(Isa::host(), Isa::Avx512 | Isa::Avx2)
}

/// A packed matrix, from one of its columns on.
#[derive(Clone, Copy, Debug)]
pub struct Panels<'a> {
    data: &'a [f32],
    k: usize,
    n: usize,
    first: usize,
}

impl<'a> Panels<'a> {
    /// The panels of a matrix of `k` rows and `n` columns, which `data` begins with; `None` if it has not as many elements.
    pub fn of(data: &'a [f32], (k, n): (usize, usize)) -> Option<Panels<'a>> {
        let data = data.get(..elements(k, n))?;
        Some(Panels {
            data,
            k,
            n,
            first: 0,
        })
    }

    /// The matrix from column `j` on, a multiple of 16.
    pub fn from(self, j: usize) -> Panels<'a> {
        debug_assert!(j.is_multiple_of(STEP));
        Panels {
            first: self.first + j,
            ..self
        }
    }

    /// Some columns of one panel from column `j` on, at most `most`: the first element and the distance of rows, and how many.
    fn columns(&self, j: usize, most: usize) -> ((*const f32, usize), usize) {
        let at = self.first + j;
        let panel = at / WIDTH * WIDTH;
        let width = WIDTH.min(self.n - panel);
        let place = &self.data[panel * self.k + at - panel..];
        ((place.as_ptr(), width), most.min(panel + WIDTH - at))
    }
}

/// Elements of a packed matrix of `k` rows and `n` columns.
fn elements(k: usize, n: usize) -> usize {
    k.saturating_mul(n).saturating_add(BEHIND)
}

/// The panels of a matrix of `k` rows and `n` columns in a constant's memory, of which the buffer keeps a packed copy. `None` where
/// it has no room for one, or packing gains nothing.
pub fn panels<'a, T: Element>(
    buffer: &'a Buffer,
    matrix: View<'_, T>,
    (k, n): (usize, usize),
) -> Option<Panels<'a>> {
    let packs = T::DTYPE == DType::F32 && buffer.has_copies() && has_kernels();
    let worth = packs && n >= WIDTH && (TERMS..=LONG).contains(&k);
    if !worth || k.saturating_mul(n) < WORTH {
        return None;
    }
    let strides = [matrix.row, matrix.col].into_iter().collect();
    let layout = Layout::new([k, n].into(), strides, matrix.start);
    let order = Order {
        name: "panels of 48 columns",
        of: &layout,
    };
    let from = View {
        data: buffer.as_slice::<f32>(),
        start: matrix.start,
        row: matrix.row,
        col: matrix.col,
    };
    let copy = buffer.copy_in(order, elements(k, n) * size_of::<f32>(), |to| {
        let shared = || Error::internal("a copy's memory is shared");
        pack(from, (k, n), to.get_mut().ok_or_else(shared)?)
    });
    Panels::of(copy?.as_slice(), (k, n))
}

/// Writes the panels of a matrix to `to`.
///
/// # Errors
/// `Internal`: the matrix leaves its memory, or there is no room for its panels.
fn pack(matrix: View<'_, f32>, (k, n): (usize, usize), to: &mut [f32]) -> Result<()> {
    matrix.check(k, n)?;
    let to = to.get_mut(..elements(k, n));
    let to = to.ok_or_else(|| Error::internal("panels without room"))?;
    to[k * n..].fill(0.0);
    let to = Shared::new(to);
    ranges(n.div_ceil(WIDTH), k * WIDTH, |range| {
        for panel in range {
            let columns = panel * WIDTH..n.min((panel + 1) * WIDTH);
            let all = columns.start * k..columns.end * k;
            // SAFETY: panels have no element in common.
            let to = unsafe { to.part(all) };
            pack_panel(matrix.from(0, columns.start), (k, columns.len()), to);
        }
    });
    Ok(())
}

/// Writes one panel.
fn pack_panel(matrix: View<'_, f32>, (k, n): (usize, usize), to: &mut [f32]) {
    let to = &mut to[..k * n];
    let window = Window {
        rows: k,
        cols: n,
        row: matrix.row,
        col: matrix.col,
    };
    // SAFETY: the matrix is inside its memory, as callers checked, and there is room for as many rows.
    unsafe {
        let from = matrix.data.as_ptr().add(matrix.start);
        strided::gather(
            size_of::<f32>(),
            window,
            from.cast(),
            to.as_mut_ptr().cast(),
            n,
        );
    }
}

/// Whether a product packs its right matrix for itself: many rows by a matrix of dense columns, of more terms than dot products take.
pub(super) fn packs<T>(s: Sizes, b: &View<'_, T>) -> bool {
    let columns = b.row == 1 && b.col >= s.k as isize && s.n > 1;
    let long = s.k > *CUT.end() && s.k <= LONG;
    size_of::<T>() == 4 && has_kernels() && columns && long && s.m > MANY
}

/// Writes a product to `to`, whose rows are `row` apart. The panels have as many columns.
///
/// # Safety
/// The left operand is inside its memory, and so is the result, which no other thread touches meanwhile; `T` is `f32`.
pub(super) unsafe fn product<T: Real>(
    s: Sizes,
    a: View<'_, T>,
    b: Panels<'_>,
    (to, row): (*mut T, usize),
) {
    for rows in blocks(s) {
        // SAFETY: rows of the operand and of the result, as the caller promises.
        unsafe {
            let (a, to) = (left(&a, rows.start), to.add(rows.start * row).cast());
            block((rows.len(), s.n), a, b, (to, row));
        }
    }
}

/// Writes a product to `to`, whose rows are `row` apart; its right matrix is packed panel by panel.
///
/// # Safety
/// The operands are inside their memory, and so is the result, which no other thread touches meanwhile; `T` is `f32`.
pub(super) unsafe fn packing_product<T: Real>(
    s: Sizes,
    a: View<'_, T>,
    b: View<'_, T>,
    (to, row): (*mut T, usize),
) {
    // SAFETY: the type is as the caller promises.
    let data = unsafe { std::slice::from_raw_parts(b.data.as_ptr().cast::<f32>(), b.data.len()) };
    let b = View {
        data,
        start: b.start,
        row: b.row,
        col: b.col,
    };
    scratch(s.k * WIDTH + BEHIND, |memory: &mut [f32]| {
        for rows in blocks(s) {
            for j in (0..s.n).step_by(WIDTH) {
                let n = WIDTH.min(s.n - j);
                pack_panel(b.from(0, j), (s.k, n), memory);
                let Some(panel) = Panels::of(memory, (s.k, n)) else {
                    return;
                };
                // SAFETY: rows of the operand and of the result, as the caller promises.
                unsafe {
                    let (a, to) = (left(&a, rows.start), to.add(rows.start * row + j).cast());
                    block((rows.len(), n), a, panel, (to, row));
                }
            }
        }
    });
}

/// The left matrix from a row on: its first element and the distances of rows and of columns.
type Left = (*const f32, isize, isize);

/// # Safety
/// `T` is `f32`, and the row is inside the matrix's memory.
unsafe fn left<T>(a: &View<'_, T>, row: usize) -> Left {
    let place = a.data.as_ptr().wrapping_add(a.start).cast::<f32>();
    (place.wrapping_offset(row as isize * a.row), a.row, a.col)
}

/// Blocks of rows.
fn blocks(s: Sizes) -> impl Iterator<Item = Range<usize>> {
    let most = BLOCK / size_of::<f32>() / s.k;
    let most = most.next_multiple_of(MOST.0).max(MOST.0);
    let starts = (0..s.m).step_by(most);
    starts.map(move |first| first..s.m.min(first + most))
}

thread_local! {
    /// Whether this thread's next product of few rows goes through its panels from the last to the first.
    static BACKWARDS: Cell<bool> = const { Cell::new(false) };
}

/// Writes a product of `m` rows and `n` columns, tile by tile. Every other product of few rows begins with the last panel: a
/// recurrence's next step then finds in the cache what this one read last, where a larger matrix would drive it out.
///
/// # Safety
/// The left operand has as many rows as the result, which no other thread touches meanwhile.
unsafe fn block((m, n): (usize, usize), a: Left, b: Panels<'_>, (to, row): (*mut f32, usize)) {
    let (height, width, lanes) = tile_sizes();
    let mut columns: SmallVec<[Range<usize>; 64]> = SmallVec::new();
    while let Some(from) = columns
        .last()
        .map_or(Some(0), |c| (c.end < n).then_some(c.end))
    {
        columns.push(from..from + b.columns(from, width.min(n - from)).1);
    }
    if m <= height && BACKWARDS.replace(!BACKWARDS.get()) {
        columns.reverse();
    }
    for (at, these) in columns.iter().enumerate() {
        let (j, panel) = (these.start, b.columns(these.start, these.len()).0);
        let next = columns
            .get(at + 1)
            .map_or(panel, |c| b.columns(c.start, c.len()).0);
        for (tile, i) in (0..m).step_by(height).enumerate() {
            // The first tiles ask for the columns after these.
            let next = match tile < panel.1 / LINE {
                true => next.0.wrapping_add(tile * LINE * b.k),
                false => panel.0,
            };
            let terms = Terms {
                k: b.k,
                a: (a.0.wrapping_offset(i as isize * a.1), a.1, a.2),
                b: panel,
                next,
                to: (to.wrapping_add(i * row + j), row),
            };
            // SAFETY: rows of the operand and of the result, and columns of the panel.
            unsafe { self::tile((height.min(m - i), these.len()), lanes, terms) };
        }
    }
}

/// Writes a tile of so many rows and columns.
///
/// # Safety
/// As for [`block`]; as many elements as a vector has may be read behind it.
unsafe fn tile((rows, columns): (usize, usize), lanes: usize, terms: Terms) {
    if terms.k <= RUN && columns.is_multiple_of(lanes) {
        // SAFETY: as the caller promises.
        unsafe { sums((rows, columns), terms) };
        return;
    }
    let Terms { k, a, b, next, to } = terms;
    let pitch = columns.next_multiple_of(lanes);
    let mut part = [0.0f32; MOST.0 * MOST.1];
    let mut totals = [0.0f64; MOST.0 * MOST.1];
    for from in (0..k).step_by(RUN) {
        let terms = Terms {
            k: RUN.min(k - from),
            a: (a.0.wrapping_offset(from as isize * a.2), a.1, a.2),
            b: (b.0.wrapping_add(from * b.1), b.1),
            next: next.wrapping_add(from * LINE),
            to: (part.as_mut_ptr(), pitch),
        };
        // SAFETY: terms of the operands; `part` has room for the largest tile.
        unsafe { sums((rows, pitch), terms) };
        dispatch(Join {
            totals: &mut totals[..rows * pitch],
            sums: &part[..rows * pitch],
            begin: from == 0,
        });
    }
    for (i, totals) in totals.chunks_exact(pitch).take(rows).enumerate() {
        // SAFETY: a row of the tile's place, which the caller answers for.
        let to = unsafe { std::slice::from_raw_parts_mut(to.0.add(i * to.1), columns) };
        for (to, &total) in to.iter_mut().zip(totals) {
            *to = total as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::matmul::{Right, products_into};
    use ferrotrace_runtime::{Copies, Device, Room, with_threads};
    use std::sync::Arc;

    /// Elements of whole numbers: below 2^24 every order of summation is exact.
    fn whole(n: usize, by: usize, of: usize) -> Vec<f32> {
        let element = |i: usize| (i * by % of) as f32 - (of / 2) as f32;
        (0..n).map(element).collect()
    }

    /// The product of a strided left matrix and a matrix with these distances, which is packed where that is asked for.
    fn check((m, n, k): (usize, usize, usize), (row, col): (usize, usize), kept: bool) {
        let (a, b) = (whole(m * (k + 3), 37, 19), whole(n * k + 8, 101, 23));
        let left = View {
            row: k as isize + 3,
            ..View::dense(&a, k)
        };
        let room = Arc::new(Room::default());
        room.at_least(if kept { 1 << 30 } else { 0 });
        let buffer = Buffer::from_slice(&Device::cpu(), &b).expect("memory");
        let buffer = buffer.with_copies(Arc::new(Copies::new(room.clone())));
        let view = View {
            data: &b[..],
            start: 8,
            row: row as isize,
            col: col as isize,
        };
        let panels = panels::<f32>(&buffer, view, (k, n));
        assert_eq!(panels.is_some(), kept && has_kernels(), "{m} {n} {k}");
        assert_eq!(room.taken() > 0, panels.is_some());
        let of = |threads: usize| {
            let mut out = vec![f32::NAN; m * n];
            let b = Right { view, panels };
            let s = Sizes { m, n, k };
            with_threads(threads, || {
                products_into(s, left, b, &[[0, 8, 0]], &Shared::new(&mut out), n)
            })
            .expect("inside");
            out
        };
        let got = of(1);
        for (at, got) in got.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let term = |l: usize| a[i * (k + 3) + l] as f64 * b[8 + l * row + j * col] as f64;
            assert_eq!(
                *got as f64,
                (0..k).map(term).sum::<f64>(),
                "{m} {n} {k}: {i}, {j}"
            );
        }
        assert_eq!(got, of(3));
    }

    // Whole panels and tiles, columns and rows left over, one chain and several.
    #[test]
    fn products_of_packed_matrices() {
        for m in (1..=17).chain([65, 128, 131]) {
            for (n, k) in [
                (48, 350),
                (50, 400),
                (191, 90),
                (1030, 16),
                (129, 256),
                (96, 700),
            ] {
                check((m, n, k), (n, 1), true);
                check((m, n, k), (1, k), true);
            }
        }
    }

    #[test]
    fn products_that_pack_for_themselves() {
        for (m, n, k) in [
            (65, 48, 2500),
            (131, 20, 3001),
            (150, 3, 2049),
            (70, 100, 4096),
        ] {
            check((m, n, k), (1, k), false);
        }
    }

    #[test]
    fn small_matrices_are_not_copied() {
        let b = whole(64 * 64, 101, 23);
        let buffer = Buffer::from_slice(&Device::cpu(), &b).expect("memory");
        assert!(panels::<f32>(&buffer, View::dense(&b, 64), (64, 64)).is_none());
        let room = Arc::new(Room::default());
        room.at_least(1 << 30);
        let buffer = buffer.with_copies(Arc::new(Copies::new(room)));
        assert!(panels::<f32>(&buffer, View::dense(&b, 64), (64, 64)).is_none());
        assert!(panels::<f64>(&buffer, View::dense(&whole64(&b), 64), (64, 64)).is_none());
    }

    fn whole64(of: &[f32]) -> Vec<f64> {
        of.iter().map(|&x| x as f64).collect()
    }

    // A chain in binary32 alone would err by a quarter of as many units as it has terms.
    #[test]
    fn long_sums_of_equal_terms_are_close() {
        let (m, n, k) = (9, 60, 4000);
        let (a, b) = (vec![0.1f32; m * k], vec![0.3f32; n * k]);
        let mut packed = vec![0.0; elements(k, n)];
        pack(View::dense(&b, k).transpose(), (k, n), &mut packed).expect("room");
        let mut out = vec![0.0f32; m * n];
        let b = Right {
            view: View::dense(&b, k).transpose(),
            panels: Panels::of(&packed, (k, n)).filter(|_| has_kernels()),
        };
        let s = Sizes { m, n, k };
        products_into(
            s,
            View::dense(&a, k),
            b,
            &[[0, 0, 0]],
            &Shared::new(&mut out),
            n,
        )
        .expect("inside");
        let want = k as f64 * 0.1f32 as f64 * 0.3f32 as f64;
        for got in out {
            assert!(
                (got as f64 / want - 1.0).abs() <= 66.0 / (1 << 24) as f64,
                "{got} {want}"
            );
        }
    }
}
