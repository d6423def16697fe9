//! Matrices whose tiles are packed before a product begins.

use super::extent::Extent;
use super::pack::{Findings, pack};
use super::panel::{Packed, block_rows};
use super::small::Place;
use super::source::{Format, Source};
use super::tile::{ELEMENTS, SIDE, TERMS};
use crate::cpu::dense::{Shared, ranges};
use crate::cpu::view::Sizes;
use ferrotrace_runtime::{Buffer, Device, Error, Layout, Order, Result};
use half::bf16;
use std::sync::Mutex;

/// Columns of a product above which its left matrix is packed first: several panels of columns read its rows.
const WIDE: usize = 1024;

/// The right matrix of a product.
#[derive(Clone, Copy, Debug)]
pub struct Right<'a> {
    /// Where it lies.
    pub source: Source<'a>,
    /// What its memory keeps of it, packed, if that is something.
    pub kept: Option<Kept<'a>>,
}

/// Tiles that memory keeps: of bf16, none of whose factors is less than 2⁻¹²⁶, or of `f32`, with extents behind them.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a>(pub(super) &'a [bf16]);

/// Elements of the tiles of so many lines of `k` terms.
pub(super) fn elements(lines: usize, k: usize, format: Format) -> usize {
    let group = k.div_ceil(TERMS).saturating_mul(ELEMENTS * format.parts());
    lines.div_ceil(SIDE).saturating_mul(group)
}

/// Elements of tiles of so many lines with what is known of them: an [`Extent`] is as large as two elements.
pub(super) fn kept_elements(lines: usize, k: usize, format: Format) -> usize {
    let extents = match format {
        Format::Half => 0,
        Format::Single => 2 * lines.div_ceil(SIDE),
    };
    elements(lines, k, format).saturating_add(extents)
}

/// Whether the left matrices of a product, and the right ones, are packed before it begins.
pub(super) fn are_packed(s: Sizes, format: Format) -> [bool; 2] {
    [s.n > WIDE, s.m > block_rows(s.k, format)]
}

/// Bytes of the tiles of left and of right matrices that a product packs before it begins, of as many as it has of each.
pub fn packed_bytes(s: Sizes, format: Format, [left, right]: [usize; 2]) -> usize {
    let bytes = |lines: usize, count: usize, packed: bool| match packed {
        true => elements(lines, s.k, format)
            .saturating_mul(size_of::<bf16>())
            .saturating_mul(count),
        false => 0,
    };
    let [a, b] = are_packed(s, format);
    bytes(s.m, left, a).saturating_add(bytes(s.n, right, b))
}

/// The tiles of a right matrix in a constant's memory, of which the buffer keeps a copy. `None` where it has no room for one, or
/// factors of bf16 are less than 2⁻¹²⁶.
pub fn kept<'a>(buffer: &'a Buffer, matrix: Source<'_>, s: Sizes) -> Option<Kept<'a>> {
    if !buffer.has_copies() {
        return None;
    }
    let (start, row, col) = matrix.place();
    let strides = [row, col].into_iter().collect();
    let layout = Layout::new([s.k, s.n].into(), strides, start);
    let format = matrix.format();
    let order = Order {
        name: match format {
            Format::Half => "tiles of pairs of rows",
            Format::Single => "tiles of pairs of rows in three parts",
        },
        of: &layout,
    };
    let all = kept_elements(s.n, s.k, format);
    let copy = buffer.copy_in(order, all * size_of::<bf16>(), |to| {
        matrix.check(s.k, s.n)?;
        let shared = || Error::internal("a copy's memory is shared");
        let to: &mut [bf16] = to.get_mut().ok_or_else(shared)?;
        pack_kept(matrix, s, to.get_mut(..all).ok_or_else(shared)?)
    });
    copy?.as_slice().get(..all).map(Kept)
}

/// Writes what is [kept] of a matrix inside its memory.
///
/// # Errors
/// Factors of bf16 are less than 2⁻¹²⁶.
pub(super) fn pack_kept(matrix: Source<'_>, s: Sizes, to: &mut [bf16]) -> Result<()> {
    let (format, lines) = (matrix.format(), matrix.transpose());
    let (tiles, behind) = to.split_at_mut(elements(s.n, s.k, format));
    let found = pack_lines(lines, &[lines.place().0], (s.n, s.k), true, tiles)?;
    if found.iter().any(|found| !found.small.is_empty()) {
        return Err(Error::internal("small factors, whose places no copy has"));
    }
    let extents = found.iter().flat_map(|found| &found.extents);
    for (to, of) in behind.chunks_exact_mut(2).zip(extents) {
        to.copy_from_slice(&of.to_elements());
    }
    Ok(())
}

impl Kept<'_> {
    /// The extents of a matrix of `n` columns and `k` rows.
    pub(super) fn extents(&self, (n, k): (usize, usize), format: Format) -> Vec<Extent> {
        let behind = &self.0[elements(n, k, format)..];
        let extent = |of: &[bf16]| Extent::from_elements([of[0], of[1]]);
        behind.chunks_exact(2).map(extent).collect()
    }
}

/// What is known of a packed matrix's lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Of bf16: where factors are small, in order.
    pub small: Vec<Place>,
    /// Of `f32`: the extents of every 16 lines.
    pub extents: Vec<Extent>,
}

impl Found {
    /// Nothing yet of so many lines.
    pub fn new(lines: usize, format: Format) -> Found {
        let extents = match format {
            Format::Half => 0,
            Format::Single => lines.div_ceil(SIDE),
        };
        Found {
            small: Vec::new(),
            extents: vec![Extent::NONE; extents],
        }
    }
}

/// What is found in lines from a line, a multiple of 16, and a term on.
pub(super) struct FoundAt<'a> {
    found: &'a mut Found,
    line: usize,
    term: usize,
}

impl Found {
    /// What is found from a line, a multiple of 16, and a term on.
    pub fn at(&mut self, line: usize, term: usize) -> FoundAt<'_> {
        FoundAt {
            found: self,
            line,
            term,
        }
    }
}

impl Findings for FoundAt<'_> {
    fn extent(&mut self, group: usize, extent: Extent) {
        if let Some(of) = self.found.extents.get_mut(self.line / SIDE + group) {
            *of = of.and(extent);
        }
    }

    fn small(&mut self, (line, term): Place) {
        let place = (self.line + line, self.term + term);
        self.found.small.push(place);
    }
}

/// Writes the tiles of the rows of matrices that start at these places inside their memory, one after another; gives what it found
/// in each.
pub(super) fn pack_lines(
    matrix: Source<'_>,
    starts: &[usize],
    (rows, k): (usize, usize),
    pairs: bool,
    to: &mut [bf16],
) -> Result<Vec<Found>> {
    let format = matrix.format();
    let (each, next) = (elements(rows, k, format), elements(SIDE, k, format));
    let to = to.get_mut(..starts.len() * each);
    let to = Shared::new(to.ok_or_else(|| Error::internal("tiles without room"))?);
    let groups = rows.div_ceil(SIDE);
    let all = Mutex::new(vec![Found::new(rows, format); starts.len()]);
    ranges(groups * starts.len(), next / 8, |range| {
        let mut at = range.start;
        while at < range.end {
            // Groups of one matrix together.
            let (i, group) = (at / groups, at % groups);
            let end = range.end.min(at + groups - group);
            let first = group * SIDE;
            // SAFETY: groups of rows have no tile in common.
            let to = unsafe { to.part(at * next..end * next) };
            let of = matrix.at(starts[i]).from(first, 0).lines();
            let size = (rows.min(first + (end - at) * SIDE) - first, k);
            let mut found = Found::new(size.0, format);
            // SAFETY: the matrix is inside its memory, and there is room for the tiles.
            unsafe {
                pack(
                    of,
                    size,
                    pairs,
                    to.as_mut_ptr().cast(),
                    next,
                    &mut found.at(0, 0),
                )
            };
            if let Ok(mut all) = all.lock() {
                let places = found.small.iter().map(|&(row, term)| (first + row, term));
                all[i].small.extend(places);
                for (to, of) in all[i].extents.iter_mut().skip(group).zip(found.extents) {
                    *to = of;
                }
            }
            at = end;
        }
    });
    let mut all = all.into_inner().unwrap_or_default();
    all.iter_mut().for_each(|of| of.small.sort_unstable());
    Ok(all)
}

/// Packed matrices of a batch.
#[derive(Debug)]
pub(super) struct Matrices {
    /// Where each starts, in order, and what is known of it. Their tiles follow each other.
    all: Vec<(usize, Found)>,
    memory: Buffer,
    size: (usize, usize),
    format: Format,
}

impl Matrices {
    /// The matrices that start at these places, each packed once: their rows, of `size`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(
        matrix: Source<'_>,
        mut starts: Vec<usize>,
        size: (usize, usize),
        pairs: bool,
    ) -> Result<Matrices> {
        starts.sort_unstable();
        starts.dedup();
        let format = matrix.format();
        let bytes = starts.len() * elements(size.0, size.1, format) * size_of::<bf16>();
        let mut memory = Buffer::allocate(&Device::cpu(), bytes)?;
        let shared = || Error::internal("tiles in shared memory");
        let found = match bytes {
            0 => Vec::new(),
            _ => {
                let to = memory.get_mut().ok_or_else(shared)?;
                pack_lines(matrix, &starts, size, pairs, to)?
            }
        };
        Ok(Matrices {
            all: starts.into_iter().zip(found).collect(),
            memory,
            size,
            format,
        })
    }

    /// The matrix that starts at a place, from a line on, a multiple of 16; `None` if it is not packed.
    pub fn get(&self, start: usize, line: usize) -> Option<Packed<'_>> {
        let at = self.all.binary_search_by_key(&start, |of| of.0).ok()?;
        let each = elements(self.size.0, self.size.1, self.format);
        let tiles = &self.memory.as_slice::<bf16>()[at * each..];
        let found = &self.all[at].1;
        Some(from(tiles, (self.size.1, self.format), found, line))
    }
}

/// The tiles of a matrix of `k` terms from a line on.
pub(super) fn from<'a>(
    tiles: &'a [bf16],
    (k, format): (usize, Format),
    found: &'a Found,
    line: usize,
) -> Packed<'a> {
    Packed {
        tiles: tiles[elements(line, k, format)..].as_ptr().cast(),
        found,
        first: line,
    }
}
