//! Right matrices of products: where they lie, and their tiles.

use super::pack::{Lines, pack};
use super::panel::block_rows;
use super::small::Place;
use super::tile::{ELEMENTS, SIDE, TERMS};
use crate::cpu::dense::{Shared, ranges};
use crate::cpu::matmul::{Sizes, View};
use ferrotrace_runtime::{Buffer, Error, Layout, Order, Result};
use half::bf16;
use std::sync::Mutex;

/// The right matrix of a product.
#[derive(Clone, Copy, Debug)]
pub struct Right<'a> {
    /// Where it lies.
    pub view: View<'a, bf16>,
    /// Its tiles, if it has some: none of their factors is less than 2⁻¹²⁶.
    pub tiles: Option<&'a [bf16]>,
}

/// Elements of the tiles of a right matrix.
pub(super) fn elements(s: Sizes) -> usize {
    let groups = s.n.div_ceil(SIDE);
    groups.saturating_mul(s.k.div_ceil(TERMS).saturating_mul(ELEMENTS))
}

/// Bytes of the tiles of as many right matrices as a product packs before it begins.
pub fn packed_bytes(s: Sizes, count: usize) -> usize {
    let bytes = elements(s).saturating_mul(size_of::<bf16>());
    match s.m > block_rows(s.k) {
        true => bytes.saturating_mul(count),
        false => 0,
    }
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
    let copy = buffer.copy_in(order, elements(s) * size_of::<bf16>(), |to| {
        let shared = || Error::internal("a copy's memory is shared");
        let small = pack_right(matrix, s, to.get_mut().ok_or_else(shared)?)?;
        match small.is_empty() {
            true => Ok(()),
            false => Err(Error::internal("small factors, whose places no copy has")),
        }
    });
    copy?.as_slice().get(..elements(s))
}

/// Writes the tiles of a right matrix; gives where factors are small, in order: columns and terms.
pub(super) fn pack_right(matrix: View<'_, bf16>, s: Sizes, to: &mut [bf16]) -> Result<Vec<Place>> {
    matrix.check(s.k, s.n)?;
    let to = to.get_mut(..elements(s));
    let to = Shared::new(to.ok_or_else(|| Error::internal("tiles without room"))?);
    let next = s.k.div_ceil(TERMS) * ELEMENTS;
    let small = Mutex::new(Vec::new());
    ranges(s.n.div_ceil(SIDE), next / 8, |groups| {
        // SAFETY: groups of columns have no tile in common.
        let to = unsafe { to.part(groups.start * next..groups.end * next) };
        let columns = groups.start * SIDE..s.n.min(groups.end * SIDE);
        let of = lines(matrix.from(0, columns.start).transpose());
        let tell = |(column, term)| {
            if let Ok(mut small) = small.lock() {
                small.push((columns.start + column, term));
            }
        };
        let size = (columns.len(), s.k);
        // SAFETY: the matrix is inside its memory, as just checked, and there is room for the tiles.
        unsafe { pack(of, size, true, to.as_mut_ptr().cast(), next, tell) };
    });
    let mut small = small.into_inner().unwrap_or_default();
    small.sort_unstable();
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
