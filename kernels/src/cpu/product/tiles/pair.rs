//! Sums of two tiles of rows by two of columns.

use super::source::Format;
use super::tile::{Configured, Factors, SIDE};
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::long::Join;

/// Rows and columns that are multiplied at once: two tiles of each side.
pub(super) const PAIR: usize = 2 * SIDE;
/// Sums of so many rows and columns.
pub(super) const SUMS: usize = PAIR * PAIR;

/// A run of terms of at most two tiles of each side.
pub(super) struct Pair {
    pub format: Format,
    /// Rows and columns.
    pub size: (usize, usize),
    pub steps: usize,
    /// Its place in the result, with the distance of rows.
    pub to: (*mut f32, usize),
    /// Whether the run is the first of its terms, and whether it is the last.
    pub first: bool,
    pub last: bool,
}

impl Pair {
    /// Sums a run, and writes the result where it is the last; asks for elements from `ahead` on. `sums` has room for two tiles of each side.
    ///
    /// # Safety
    /// The factors may be read, and the result and the sums written.
    #[inline]
    pub unsafe fn run(
        &self,
        factors: [Factors; 2],
        ahead: *const u16,
        registers: &Configured,
        sums: *mut f32,
        totals: &mut [f64],
    ) {
        let (rows, columns) = self.size;
        let tiles = (rows.div_ceil(SIDE), columns.div_ceil(SIDE));
        let whole = rows.is_multiple_of(SIDE) && columns.is_multiple_of(SIDE);
        // SAFETY: as the caller promises.
        let sum = |to| unsafe {
            match self.format {
                Format::Half => registers.sums(self.size, self.steps, factors, ahead, to),
                Format::Single => registers.sums_of_parts(tiles, self.steps, factors, ahead, to),
            }
        };
        let all = self.format == Format::Half || tiles == (2, 2);
        if whole && all && self.first && self.last {
            return sum(self.to);
        }
        sum((sums, PAIR));
        // SAFETY: there is room for two tiles of each side.
        let sums = unsafe { std::slice::from_raw_parts_mut(sums, SUMS) };
        match (self.first, self.last) {
            (true, true) => {}
            (begin, false) => {
                return dispatch(Join {
                    totals,
                    sums,
                    begin,
                });
            }
            (false, true) => dispatch(Finish { totals, sums }),
        }
        // SAFETY: as the caller promises.
        unsafe { copy(self.size, sums, self.to) };
    }
}

/// Copies some rows and columns of a pair of tiles.
///
/// # Safety
/// The result has room for them.
unsafe fn copy((rows, columns): (usize, usize), sums: &[f32], (to, pitch): (*mut f32, usize)) {
    for (i, sums) in sums.chunks_exact(PAIR).take(rows).enumerate() {
        // SAFETY: a row of the result, as the caller promises.
        unsafe {
            to.add(i * pitch)
                .copy_from_nonoverlapping(sums.as_ptr(), columns)
        };
    }
}

/// Adds totals to the last run's sums.
struct Finish<'a> {
    totals: &'a [f64],
    sums: &'a mut [f32],
}

impl Loop for Finish<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (sum, total) in self.sums.iter_mut().zip(self.totals) {
            *sum = (total + f64::from(*sum)) as f32;
        }
    }
}
