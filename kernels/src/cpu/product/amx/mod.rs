//! Products of bf16 matrices by the processor's registers of tiles (Intel's Advanced Matrix Extensions), summed in binary32.
//!
//! An instruction adds 32 terms to each of 16 by 16 sums: those at even places one after another, those at odd ones, then both
//! to the sum. So a chain of 1,024 terms rounds as often as one of 48 that are added one by one; chains are added up in binary64.
//! The bits of an element depend on its row, its column and their length alone. Infinities and NaNs come out as IEEE 754 says.
//! Products and sums of less than 2⁻¹²⁶ in magnitude may come out as zeros; factors as small count as what they are.

mod pack;
mod packed;
mod pair;
mod panel;
mod small;
#[cfg(test)]
mod tests;
mod tile;
#[cfg(target_arch = "x86_64")]
mod vectors;

use super::matmul::{Sizes, View};
use ferrotrace_runtime::{Error, Result, has_amx};
use half::bf16;
use packed::{Matrices, are_packed, elements, from, lines};
pub use packed::{Right, packed_bytes, tiles};
use panel::Panel;
use std::ops::Range;
use tile::SIDE;

/// Fewest terms, and fewest rows and columns, of a product for which tiles pay.
const FEWEST: (usize, usize) = (24, 2);
/// Fewest multiplications.
const WORK: usize = 1 << 15;

/// Rows of a panel of a product of `k` terms.
pub fn panel_rows(k: usize) -> usize {
    panel::block_rows(k).min(256)
}

/// Whether tiles multiply matrices of bf16 of these sizes here.
pub fn takes(s: Sizes) -> bool {
    let fewest = s.k >= FEWEST.0 && s.m.min(s.n) >= FEWEST.1;
    has_amx() && fewest && s.work() >= WORK
}

/// Products of a batch. Matrices that several panels read are packed first.
#[derive(Debug)]
pub struct Products<'a> {
    s: Sizes,
    a: View<'a, bf16>,
    b: Right<'a>,
    packed: [Matrices; 2],
}

impl<'a> Products<'a> {
    /// The products of the matrices that start at these places of `a` and `b`.
    ///
    /// # Errors
    /// Out of memory; `Internal`: a matrix leaves its memory, or the machine has no tiles.
    pub fn new(
        s: Sizes,
        a: View<'a, bf16>,
        b: Right<'a>,
        starts: &[(usize, usize)],
    ) -> Result<Products<'a>> {
        let few = |tiles: &[bf16]| tiles.len() < elements(s.n, s.k);
        if !has_amx() || b.tiles.is_some_and(few) {
            return Err(Error::internal("a product without tiles"));
        }
        for &(i, j) in starts {
            View { start: i, ..a }.check(s.m, s.k)?;
            View { start: j, ..b.view }.check(s.k, s.n)?;
        }
        let [left, right] = are_packed(s);
        let some = |of: Vec<usize>, packed: bool| if packed { of } else { Vec::new() };
        let lefts = some(starts.iter().map(|of| of.0).collect(), left);
        let rights = starts.iter().map(|of| of.1).collect();
        let rights = some(rights, right && b.tiles.is_none());
        let packed = [
            Matrices::new(a, lefts, (s.m, s.k), false)?,
            Matrices::new(b.view.transpose(), rights, (s.n, s.k), true)?,
        ];
        Ok(Products { s, a, b, packed })
    }

    /// Writes a panel of the product of the matrices that start at `a` and `b` to `to`, its first element and the distance of rows, on
    /// this thread alone. Its rows and columns begin at multiples of 16.
    ///
    /// # Safety
    /// The starts are some that were given; the panel's place is inside one allocation, and no other thread touches it meanwhile.
    pub unsafe fn panel(
        &self,
        (a, b): (usize, usize),
        (rows, columns): (Range<usize>, Range<usize>),
        to: (*mut f32, usize),
    ) {
        let Sizes { m, n, k } = self.s;
        let begins = rows.start.is_multiple_of(SIDE) && columns.start.is_multiple_of(SIDE);
        assert!(rows.end <= m && columns.end <= n && begins);
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        let (left, right) = (
            View { start: a, ..self.a },
            View {
                start: b,
                ..self.b.view
            },
        );
        let [of_left, of_right] = &self.packed;
        let kept = self.b.tiles.map(|tiles| from(tiles, k, &[], columns.start));
        let panel = Panel {
            rows: rows.len(),
            columns: columns.len(),
            k,
            lines: [
                lines(left.from(rows.start, 0)),
                lines(right.from(0, columns.start).transpose()),
            ],
            packed: [
                of_left.get(a, rows.start),
                kept.or_else(|| of_right.get(b, columns.start)),
            ],
            to,
        };
        // SAFETY: the machine has tiles and the matrices are inside their memory, as was checked; the caller answers for the result.
        unsafe { panel.run() };
    }
}
