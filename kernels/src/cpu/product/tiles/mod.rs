//! Products of matrices by the processor's instructions for bf16, summed in binary32: Intel's Advanced Matrix Extensions (registers of
//! tiles), or AVX-512's dot products of pairs (`dots.rs`), which take factors in the same order.
//!
//! An instruction of the former adds 32 terms to each of 16 by 16 sums: those at even places one after another, those at odd ones,
//! then both to the sum. So a chain of 1,024 terms rounds as often as one of 48 that are added one by one. One of the latter adds two
//! terms to each of 16 sums; chains of 64 terms are added up to 1,024. Longer chains are added up in binary64. The bits of an element
//! depend on its row, its column and their length alone.
//!
//! - Of bf16: infinities and NaNs come out as IEEE 754 says. Products and sums of less than 2⁻¹²⁶ in magnitude may come out as zeros;
//!   factors as small count as what they are (`small.rs`; many of a line by a
//!   second product, `scaled.rs`). Dot products are twice as fast as products of the converted factors.
//! - Of `f32`: each number is the sum of three of bf16, and six of the nine products of parts are added, so that a sum errs by no more
//!   than a chain of fused multiply-adds. Where infinities, NaNs or numbers of extreme magnitude make parts inexact, 16 rows by 16
//!   columns are multiplied by AVX-512 instead (`outside.rs`). Twice as fast as AVX-512, by registers of tiles alone.

#[cfg(target_arch = "x86_64")]
mod dots;
mod extent;
mod outside;
mod pack;
mod packed;
mod pair;
mod panel;
mod scaled;
mod small;
mod source;
#[cfg(target_arch = "x86_64")]
mod split;
#[cfg(test)]
mod tests;
mod tile;
#[cfg(target_arch = "x86_64")]
mod vectors;
pub(in crate::cpu) mod windows;

use super::view::Sizes;
use ferrotrace_runtime::{Error, Result, has_amx, has_bf16_dots};
use packed::{Found, Matrices, are_packed, from, kept_elements};
pub use packed::{Kept, Right, kept, packed_bytes};
use panel::Panel;
pub use source::{Format, Source};
use std::ops::Range;
use tile::SIDE;

/// Fewest terms, and fewest rows and columns, of a product of bf16 for which tiles pay.
const FEWEST: (usize, usize) = (24, 2);
/// Fewest multiplications of a product of bf16.
const WORK: usize = 1 << 15;
/// Fewest terms of a product of `f32`.
const TERMS: usize = 64;
/// Fewest m·n / (m + n) of a product of `f32`, multiplications for each packed factor: 128 by 3,072 (122) gain a fifth to a half. An
/// estimate.
const EACH: usize = 96;

/// Rows of a panel of a product of `k` terms.
pub fn panel_rows(k: usize, format: Format) -> usize {
    panel::block_rows(k, format).min(256)
}

/// Whether tiles multiply matrices of these sizes here.
pub fn takes(s: Sizes, format: Format) -> bool {
    match format {
        Format::Half => {
            let fewest = s.k >= FEWEST.0 && s.m.min(s.n) >= FEWEST.1;
            has_tiles(format) && fewest && s.work() >= WORK
        }
        Format::Single => {
            let each = s.m.saturating_mul(s.n) / (s.m + s.n).max(1);
            has_tiles(format) && s.k >= TERMS && each >= EACH
        }
    }
}

/// Whether this machine multiplies by tiles of this format.
fn has_tiles(format: Format) -> bool {
    match format {
        Format::Half => has_amx() || has_bf16_dots(),
        Format::Single => has_parts(),
    }
}

/// Whether this machine makes parts of numbers of `f32`.
pub(in crate::cpu) fn has_parts() -> bool {
    #[cfg(target_arch = "x86_64")]
    return has_amx() && std::arch::is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Products of a batch. Matrices that several panels read are packed first.
#[derive(Debug)]
pub struct Products<'a> {
    s: Sizes,
    a: Source<'a>,
    b: Right<'a>,
    /// What is known of the right matrix that is kept.
    kept: Found,
    packed: [Matrices; 2],
}

impl<'a> Products<'a> {
    /// The products of the matrices that start at these places of `a` and `b`, of one format.
    ///
    /// # Errors
    /// Out of memory; `Internal`: a matrix leaves its memory, or the machine has no such tiles.
    pub fn new(
        s: Sizes,
        a: Source<'a>,
        b: Right<'a>,
        starts: &[(usize, usize)],
    ) -> Result<Products<'a>> {
        let format = a.format();
        let few = |kept: Kept<'_>| kept.0.len() < kept_elements(s.n, s.k, format);
        if !has_tiles(format) || b.source.format() != format || b.kept.is_some_and(few) {
            return Err(Error::internal("a product without tiles"));
        }
        for &(i, j) in starts {
            a.at(i).check(s.m, s.k)?;
            b.source.at(j).check(s.k, s.n)?;
        }
        let [left, right] = are_packed(s, format);
        let some = |of: Vec<usize>, packed: bool| if packed { of } else { Vec::new() };
        let lefts = some(starts.iter().map(|of| of.0).collect(), left);
        let rights = starts.iter().map(|of| of.1).collect();
        let rights = some(rights, right && b.kept.is_none());
        let packed = [
            Matrices::new(a, lefts, (s.m, s.k), false)?,
            Matrices::new(b.source.transpose(), rights, (s.n, s.k), true)?,
        ];
        let extents = b.kept.map(|kept| kept.extents((s.n, s.k), format));
        let kept = Found {
            extents: extents.unwrap_or_default(),
            ..Found::default()
        };
        Ok(Products {
            s,
            a,
            b,
            kept,
            packed,
        })
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
        let format = self.a.format();
        let [of_left, of_right] = &self.packed;
        let kept = self.b.kept;
        let kept = kept.map(|kept| from(kept.0, (k, format), &self.kept, columns.start));
        let panel = Panel {
            rows: rows.len(),
            columns: columns.len(),
            k,
            of: [
                self.a.at(a).from(rows.start, 0),
                self.b.source.at(b).from(0, columns.start),
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
