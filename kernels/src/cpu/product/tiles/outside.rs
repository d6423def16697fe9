//! Products of factors of `f32` that are too large or too small for tiles: by AVX-512, for 16 rows and 16 columns whose extents do not
//! suit each other, whatever else is computed.

use super::extent::Extent;
use super::panel::Panel;
use super::source::Source;
use super::tile::SIDE;
use crate::cpu::product::packed::packing_product;
use crate::cpu::view::Sizes;
use std::ops::Range;

impl Panel<'_> {
    /// Whether tiles compute something of 32 columns from one on, as far as extents are known yet: they only grow.
    pub(super) fn some_suit(&self, [left, right]: [&[Extent]; 2], column: usize) -> bool {
        let groups = column / SIDE..right.len().min(column / SIDE + 2);
        let suits = |of: Extent| left.iter().any(|left| left.suits(of, self.k));
        right[groups].iter().copied().any(suits)
    }

    /// Computes those of some rows' elements that tiles cannot. The extents are those of every 16 rows and columns.
    ///
    /// # Safety
    /// As for [`Panel::run`].
    pub(super) unsafe fn outside(&self, rows: Range<usize>, [left, right]: [Vec<Extent>; 2]) {
        let of = |extents: &[Extent]| extents.iter().copied().fold(Extent::NONE, Extent::and);
        if of(&left).suits(of(&right), self.k) {
            return;
        }
        let outside = |i: usize| -> Vec<Range<usize>> {
            let suits = |j: usize| left[i].suits(right[j], self.k);
            runs(right.len(), |j| !suits(j))
        };
        let mut first = 0;
        while first < left.len() {
            let columns = outside(first);
            let mut end = first + 1;
            while end < left.len() && outside(end) == columns {
                end += 1;
            }
            let these = rows.start + first * SIDE..rows.end.min(rows.start + end * SIDE);
            for groups in columns {
                let columns = groups.start * SIDE..self.columns.min(groups.end * SIDE);
                // SAFETY: rows and columns of the panel.
                unsafe { self.by_vectors(these.clone(), columns) };
            }
            first = end;
        }
    }

    /// Computes some elements by AVX-512.
    ///
    /// # Safety
    /// As for [`Panel::run`].
    #[cold]
    unsafe fn by_vectors(&self, rows: Range<usize>, columns: Range<usize>) {
        let of = [
            self.of[0].from(rows.start, 0),
            self.of[1].from(0, columns.start),
        ];
        let [Source::Single(a), Source::Single(b)] = of else {
            return;
        };
        let (m, n) = (rows.len(), columns.len());
        let (to, pitch) = self.to;
        let to = to.wrapping_add(rows.start * pitch + columns.start);
        // SAFETY: the factors are inside their memory, as the caller promises, which answers for the result.
        unsafe { packing_product(Sizes { m, n, k: self.k }, a, b, (to, pitch)) };
    }
}

/// The longest runs of numbers below `n` of which something is true.
fn runs(n: usize, is: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for i in (0..n).filter(|&i| is(i)) {
        match runs.last_mut() {
            Some(run) if run.end == i => run.end += 1,
            _ => runs.push(i..i + 1),
        }
    }
    runs
}
