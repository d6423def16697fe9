//! Sums of products that are long: a chain of additions in binary32 errs in proportion to its length.
//!
//! `n` equal terms that are added one by one err at most `n / 4` units of 2⁻²⁴ of their sum. So a long sum is cut into
//! chains of [`CHAIN`] terms, some chains are added up in binary32 to a run, and runs in binary64. Cuts are by sizes
//! alone. Sums that are kept in binary64 anyway are not cut.

use super::library::{by_library, has_dense_columns, turn};
use crate::cpu::dense::scratch_of_two;
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::number::Wide;
use crate::cpu::vector::Real;
use crate::cpu::view::{Sizes, View};
use gemm_common::Parallelism;
use std::ops::Range;

/// Terms from which every product is cut: the library adds fewer, in chains of 512 at most, and is up to 1.4 times as
/// fast where the result is small.
const LONG: usize = 4096;
/// Terms from which a product with at least [`LARGE`] rows and columns is cut: there it is the faster of the two.
pub(super) const WORTH: usize = 512;
/// No panel of a result as large has fewer rows or columns.
const LARGE: usize = 64;
/// Terms of a chain.
pub(in crate::cpu) const CHAIN: usize = 48;
/// Terms of a run, whose chains are added up in binary32.
const RUN: usize = 12 * CHAIN;
/// Rows and columns of a tile of the result: its sums and totals stay in the second-level cache.
const TILE: (usize, usize) = (128, 256);

/// Whether the sums of a product are cut: the same for a product and its panels.
pub(in crate::cpu) fn is_long<T>(s: Sizes) -> bool {
    let worth = s.m >= LARGE && s.n >= LARGE && s.k > WORTH;
    size_of::<T>() == 4 && (worth || s.k > LONG)
}

/// Part `i` of `range`, cut evenly into as few parts as are at most `most` long.
fn part(range: &Range<usize>, most: usize, i: usize) -> Range<usize> {
    let (n, parts) = (range.len(), range.len().div_ceil(most));
    range.start + n * i / parts..range.start + n * (i + 1) / parts
}

/// `range`, cut evenly into parts that are at most `most` long.
pub(in crate::cpu) fn parts(
    range: Range<usize>,
    most: usize,
) -> impl Iterator<Item = Range<usize>> {
    (0..range.len().div_ceil(most)).map(move |i| part(&range, most, i))
}

/// Adds sums to totals, or begins the totals with them.
pub(in crate::cpu) struct Join<'a, T: Wide> {
    pub totals: &'a mut [T::Total],
    pub sums: &'a [T],
    pub begin: bool,
}

impl<T: Wide> Loop for Join<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let pairs = self.totals.iter_mut().zip(self.sums);
        match self.begin {
            true => pairs.for_each(|(total, sum)| *total = sum.total()),
            false => pairs.for_each(|(total, sum)| *total = T::both(*total, sum.total())),
        }
    }
}

/// Adds sums to totals and begins the sums anew.
#[inline(always)]
pub(in crate::cpu) fn join<T: Wide>(sums: &mut [T], totals: &mut [T::Total]) {
    for (sum, total) in sums.iter_mut().zip(totals) {
        *total = T::both(*total, sum.total());
        *sum = T::ZERO;
    }
}

/// Writes (or adds, if `accumulate`) a product to `to`, whose rows are `row` apart.
///
/// # Safety
/// The operands are inside their memory; the result is inside one allocation, and no other thread touches it meanwhile.
pub(in crate::cpu) unsafe fn product<T: Real>(
    s: Sizes,
    a: View<'_, T>,
    b: View<'_, T>,
    (to, row): (*mut T, usize),
    accumulate: bool,
) {
    let most = TILE.0.min(s.m) * TILE.1.min(s.n);
    let turned = match has_dense_columns(s, &b) {
        true => RUN.min(s.k) * TILE.1.min(s.n),
        false => 0,
    };
    scratch_of_two(
        most,
        most + turned,
        |totals: &mut [f64], memory: &mut [T]| {
            let (sums, turned) = memory.split_at_mut(most);
            for rows in parts(0..s.m, TILE.0) {
                for columns in parts(0..s.n, TILE.1) {
                    let (height, width) = (rows.len(), columns.len());
                    let totals = &mut totals[..height * width];
                    let a = a.from(rows.start, 0);
                    let b = b.from(0, columns.start);
                    let sizes = Sizes {
                        m: height,
                        n: width,
                        k: s.k,
                    };
                    // SAFETY: parts of the operands.
                    unsafe { tile(sizes, a, b, (&mut sums[..height * width], turned), totals) };
                    for (i, totals) in rows.clone().zip(totals.chunks_exact(width)) {
                        let to = to.wrapping_add(i * row + columns.start);
                        // SAFETY: the tile's part of a row of the result, which the caller answers for.
                        let to = unsafe { std::slice::from_raw_parts_mut(to, width) };
                        for (to, &total) in to.iter_mut().zip(totals) {
                            let old = if accumulate { to.total() } else { 0.0 };
                            *to = T::of_total(old + total);
                        }
                    }
                }
            }
        },
    );
}

/// Writes a product to `totals`, by way of `sums`; both are its dense rows. `turned` has room for the part of a right matrix
/// of dense columns that a run needs: the library would pack it element by element.
///
/// # Safety
/// The operands are inside their memory.
unsafe fn tile<T: Real>(
    s: Sizes,
    a: View<'_, T>,
    b: View<'_, T>,
    (sums, turned): (&mut [T], &mut [T]),
    totals: &mut [f64],
) {
    for run in parts(0..s.k, RUN) {
        let first = run.start;
        let all = Sizes { k: run.len(), ..s };
        let mut b = b.from(first, 0);
        if has_dense_columns(all, &b) && turned.len() >= all.k * all.n {
            // SAFETY: a part of the operand, and room for it.
            unsafe { turn(all, &b, turned.as_mut_ptr()) };
            b = View::dense(turned, all.n);
        }
        for chain in parts(run, CHAIN) {
            let (a, b) = (a.from(0, chain.start), b.from(chain.start - first, 0));
            let (to, more) = (sums.as_mut_ptr(), chain.start > first);
            let k = chain.len();
            // SAFETY: parts of the operands, and as many sums as the sizes say.
            unsafe { by_library(Sizes { k, ..s }, a, b, (to, s.n), more, Parallelism::None) };
        }
        dispatch(Join {
            totals,
            sums,
            begin: first == 0,
        });
    }
}
