//! Products of bf16 matrices by the processor's registers of tiles (Intel's Advanced Matrix Extensions), summed in binary32.
//!
//! An instruction adds 32 terms to each of 16 by 16 sums: those at even places one after another, those at odd ones, then both
//! to the sum. So a chain of 1,024 terms rounds as often as one of 48 that are added one by one; chains are added up in binary64.
//! The bits of an element depend on its row, its column and their length alone. Infinities and NaNs come out as IEEE 754 says.
//! Products and sums of less than 2⁻¹²⁶ in magnitude may come out as zeros; factors as small count as what they are.

mod pack;
mod panel;
mod right;
mod small;
#[cfg(test)]
mod tests;
mod tile;

use super::matmul::{Sizes, View};
use ferrotrace_runtime::{Buffer, Device, Error, Result, has_amx};
use half::bf16;
use panel::{Packed, Panel};
pub use right::{Right, packed_bytes, tiles};
use right::{elements, lines, pack_right};
use small::Place;
use std::ops::Range;
use tile::{ELEMENTS, SIDE, TERMS};

/// Fewest terms, and fewest rows and columns, of a product for which tiles pay.
const FEWEST: (usize, usize) = (24, 2);
/// Fewest multiplications.
const WORK: usize = 1 << 15;

/// Whether tiles multiply matrices of bf16 of these sizes here.
pub fn takes(s: Sizes) -> bool {
    let fewest = s.k >= FEWEST.0 && s.m.min(s.n) >= FEWEST.1;
    has_amx() && fewest && s.work() >= WORK
}

/// Products of a batch, whose right matrices are packed first where several blocks of rows read them.
#[derive(Debug)]
pub struct Products<'a> {
    s: Sizes,
    a: View<'a, bf16>,
    b: Right<'a>,
    /// The packed matrices, by where they start; their tiles follow each other.
    packed: Vec<(usize, Vec<Place>)>,
    memory: Buffer,
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
        if !has_amx() || b.tiles.is_some_and(|tiles| tiles.len() < elements(s)) {
            return Err(Error::internal("a product without tiles"));
        }
        let right = |start: usize| View { start, ..b.view };
        for &(i, j) in starts {
            View { start: i, ..a }.check(s.m, s.k)?;
            right(j).check(s.k, s.n)?;
        }
        let mut wanted: Vec<usize> = Vec::new();
        if b.tiles.is_none() && packed_bytes(s, 1) > 0 {
            wanted.extend(starts.iter().map(|of| of.1));
            wanted.sort_unstable();
            wanted.dedup();
        }
        let mut packed = Vec::with_capacity(wanted.len());
        let mut memory = Buffer::allocate(&Device::cpu(), packed_bytes(s, wanted.len()))?;
        if let Some(memory) = memory.get_mut::<bf16>() {
            for (start, to) in wanted.into_iter().zip(memory.chunks_exact_mut(elements(s))) {
                packed.push((start, pack_right(right(start), s, to)?));
            }
        }
        Ok(Products {
            s,
            a,
            b,
            packed,
            memory,
        })
    }

    /// Writes a panel of the product of the matrices that start at `a` and `b` to `to`, its first element and the distance of rows, on
    /// this thread alone. Its columns begin at a multiple of 16.
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
        assert!(rows.end <= m && columns.end <= n && columns.start.is_multiple_of(SIDE));
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
        let panel = Panel {
            rows: rows.len(),
            columns: columns.len(),
            k,
            a: lines(left.from(rows.start, 0)),
            b: lines(right.from(0, columns.start).transpose()),
            packed: self.packed_from(b, columns.start),
            to,
        };
        // SAFETY: the machine has tiles and the matrices are inside their memory, as was checked; the caller answers for the result.
        unsafe { panel.run() };
    }

    /// The tiles of the right matrix that starts at `b`, from a column on.
    fn packed_from(&self, b: usize, column: usize) -> Option<Packed<'_>> {
        let (tiles, small) = match self.b.tiles {
            Some(tiles) => (tiles, &[][..]),
            None => {
                let at = self.packed.binary_search_by_key(&b, |of| of.0).ok()?;
                let tiles = &self.memory.as_slice::<bf16>()[at * elements(self.s)..];
                (tiles, &self.packed[at].1[..])
            }
        };
        let before = column / SIDE * self.s.k.div_ceil(TERMS) * ELEMENTS;
        Some(Packed {
            tiles: tiles[before..].as_ptr().cast(),
            small,
            first: column,
        })
    }
}
