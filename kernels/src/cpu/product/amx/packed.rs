//! Matrices whose tiles are packed before a product begins.

use super::pack::{Lines, pack};
use super::panel::{Packed, block_rows};
use super::small::Place;
use super::tile::{ELEMENTS, SIDE, TERMS};
use crate::cpu::dense::{Shared, ranges};
use crate::cpu::matmul::{Sizes, View};
use ferrotrace_runtime::{Buffer, Device, Error, Layout, Order, Result};
use half::bf16;
use std::sync::Mutex;

/// Columns of a product above which its left matrix is packed first: several panels of columns read its rows.
const WIDE: usize = 1024;

/// The right matrix of a product.
#[derive(Clone, Copy, Debug)]
pub struct Right<'a> {
    /// Where it lies.
    pub view: View<'a, bf16>,
    /// Its tiles, if it has some: none of their factors is less than 2⁻¹²⁶.
    pub tiles: Option<&'a [bf16]>,
}

/// Elements of the tiles of so many lines of `k` terms.
pub(super) fn elements(lines: usize, k: usize) -> usize {
    let group = k.div_ceil(TERMS).saturating_mul(ELEMENTS);
    lines.div_ceil(SIDE).saturating_mul(group)
}

/// Whether the left matrices of a product, and the right ones, are packed before it begins.
pub(super) fn are_packed(s: Sizes) -> [bool; 2] {
    [s.n > WIDE, s.m > block_rows(s.k)]
}

/// Bytes of the tiles of left and of right matrices that a product packs before it begins, of as many as it has of each.
pub fn packed_bytes(s: Sizes, [left, right]: [usize; 2]) -> usize {
    let bytes = |lines: usize, count: usize, packed: bool| match packed {
        true => elements(lines, s.k)
            .saturating_mul(size_of::<bf16>())
            .saturating_mul(count),
        false => 0,
    };
    let [a, b] = are_packed(s);
    bytes(s.m, left, a).saturating_add(bytes(s.n, right, b))
}

/// The tiles of a right matrix in a constant's memory, of which the buffer keeps a copy. `None` where it has no room for one, or
/// factors are less than 2⁻¹²⁶.
pub fn tiles<'a>(buffer: &'a Buffer, matrix: View<'_, bf16>, s: Sizes) -> Option<&'a [bf16]> {
    if !buffer.has_copies() {
        return None;
    }
    let strides = [matrix.row, matrix.col].into_iter().collect();
    let layout = Layout::new([s.k, s.n].into(), strides, matrix.start);
    let order = Order {
        name: "tiles of pairs of rows",
        of: &layout,
    };
    let all = elements(s.n, s.k);
    let copy = buffer.copy_in(order, all * size_of::<bf16>(), |to| {
        matrix.check(s.k, s.n)?;
        let shared = || Error::internal("a copy's memory is shared");
        let to = to.get_mut().ok_or_else(shared)?;
        let starts = [matrix.start];
        let small = pack_lines(matrix.transpose(), &starts, (s.n, s.k), true, to)?;
        match small.iter().all(Vec::is_empty) {
            true => Ok(()),
            false => Err(Error::internal("small factors, whose places no copy has")),
        }
    });
    copy?.as_slice().get(..all)
}

/// Writes the tiles of the rows of matrices that start at these places inside their memory, one after another; gives where
/// factors are small, of each in order: rows and terms.
pub(super) fn pack_lines(
    matrix: View<'_, bf16>,
    starts: &[usize],
    (rows, k): (usize, usize),
    pairs: bool,
    to: &mut [bf16],
) -> Result<Vec<Vec<Place>>> {
    let (each, next) = (elements(rows, k), elements(SIDE, k));
    let to = to.get_mut(..starts.len() * each);
    let to = Shared::new(to.ok_or_else(|| Error::internal("tiles without room"))?);
    let groups = rows.div_ceil(SIDE);
    let small = Mutex::new(vec![Vec::new(); starts.len()]);
    ranges(groups * starts.len(), next / 8, |range| {
        let mut at = range.start;
        while at < range.end {
            // Groups of one matrix together.
            let (i, group) = (at / groups, at % groups);
            let end = range.end.min(at + groups - group);
            let first = group * SIDE;
            // SAFETY: groups of rows have no tile in common.
            let to = unsafe { to.part(at * next..end * next) };
            let tell = |(row, term)| {
                if let Ok(mut small) = small.lock() {
                    small[i].push((first + row, term));
                }
            };
            let start = starts[i];
            let of = lines(View { start, ..matrix }.from(first, 0));
            let size = (rows.min(first + (end - at) * SIDE) - first, k);
            // SAFETY: the matrix is inside its memory, and there is room for the tiles.
            unsafe { pack(of, size, pairs, to.as_mut_ptr().cast(), next, tell) };
            at = end;
        }
    });
    let mut small = small.into_inner().unwrap_or_default();
    small.iter_mut().for_each(|of| of.sort_unstable());
    Ok(small)
}

/// A matrix's rows.
pub(super) fn lines(matrix: View<'_, bf16>) -> Lines {
    Lines {
        first: matrix.data.as_ptr().wrapping_add(matrix.start).cast(),
        line: matrix.row,
        term: matrix.col,
    }
}

/// Packed matrices of a batch.
#[derive(Debug)]
pub(super) struct Matrices {
    /// Where each starts, in order, and where its factors are small. Their tiles follow each other.
    all: Vec<(usize, Vec<Place>)>,
    memory: Buffer,
    size: (usize, usize),
}

impl Matrices {
    /// The matrices that start at these places, each packed once: their rows, of `size`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(
        matrix: View<'_, bf16>,
        mut starts: Vec<usize>,
        size: (usize, usize),
        pairs: bool,
    ) -> Result<Matrices> {
        starts.sort_unstable();
        starts.dedup();
        let each = elements(size.0, size.1);
        let bytes = starts.len() * each * size_of::<bf16>();
        let mut memory = Buffer::allocate(&Device::cpu(), bytes)?;
        let shared = || Error::internal("tiles in shared memory");
        let small = match bytes {
            0 => Vec::new(),
            _ => {
                let to = memory.get_mut().ok_or_else(shared)?;
                pack_lines(matrix, &starts, size, pairs, to)?
            }
        };
        let all = starts.into_iter().zip(small).collect();
        Ok(Matrices { all, memory, size })
    }

    /// The matrix that starts at a place, from a line on, a multiple of 16; `None` if it is not packed.
    pub fn get(&self, start: usize, line: usize) -> Option<Packed<'_>> {
        let at = self.all.binary_search_by_key(&start, |of| of.0).ok()?;
        let tiles = &self.memory.as_slice::<bf16>()[at * elements(self.size.0, self.size.1)..];
        Some(from(tiles, self.size.1, &self.all[at].1, line))
    }
}

/// The tiles of a matrix from a line on.
pub(super) fn from<'a>(tiles: &'a [bf16], k: usize, small: &'a [Place], line: usize) -> Packed<'a> {
    Packed {
        tiles: tiles[elements(line, k)..].as_ptr().cast(),
        small,
        first: line,
    }
}
