//! The index space of a result and its operands, cut into tiles that fit the first-level cache.

use crate::cpu::strided::Window;
use ferrotrace_runtime::Shape;
use smallvec::SmallVec;

/// The result (0) and at most three operands.
pub const ARRAYS: usize = 4;

/// A dimension: its size, and the stride of each array in elements.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// The size of the dimension.
    pub size: usize,
    /// The stride of each array.
    pub strides: [isize; ARRAYS],
}

const ONE: Axis = Axis {
    size: 1,
    strides: [0; ARRAYS],
};

/// The dimensions of an index space without those of size 1, neighbours merged where every array allows it. There are
/// at least two.
fn collapse(shape: &Shape, strides: &[&[isize]]) -> SmallVec<[Axis; 6]> {
    let mut axes: SmallVec<[Axis; 6]> = SmallVec::new();
    for (d, &size) in shape.iter().enumerate().filter(|(_, size)| **size != 1) {
        let mut axis = Axis { size, ..ONE };
        for (k, s) in strides.iter().enumerate() {
            axis.strides[k] = s[d];
        }
        match axes.last_mut() {
            Some(last)
                if (0..strides.len())
                    .all(|k| last.strides[k] == axis.strides[k] * size as isize) =>
            {
                last.size *= size;
                last.strides = axis.strides;
            }
            _ => axes.push(axis),
        }
    }
    while axes.len() < 2 {
        axes.insert(0, ONE);
    }
    axes
}

/// A cut of an index space into tiles: two dimensions, of which a tile is a block, and the others around them.
#[derive(Debug)]
pub struct Tiles {
    outer: SmallVec<[Axis; 4]>,
    rows: Axis,
    cols: Axis,
    tile: (usize, usize),
    grid: (usize, usize),
    /// Tiles that follow each other down a column of tiles, before the next column.
    band: usize,
    across: bool,
    /// How many tiles.
    pub count: usize,
}

/// One tile: the offset of its first element in each array, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// Offsets by array.
    pub offsets: [isize; ARRAYS],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

/// Rows of a band where an operand lies across: so many pages of both arrays stay in the translation buffer.
const BAND: usize = 256;

impl Tiles {
    /// Tiles of at most `limit` elements of an index space with at least one element. The strides are the result's,
    /// which is row-major, then each operand's. `size` is the largest of the operands' element sizes in bytes.
    ///
    /// Tiles run along the last dimension, so that they are contiguous in the result, unless an operand lies along
    /// another dimension: then they are blocks of both, a cache line of that operand high. Others are half as large, so
    /// that the scratch of every array stays in the first-level cache.
    pub fn new(shape: &Shape, strides: &[&[isize]], size: usize, limit: usize) -> Tiles {
        let mut axes = collapse(shape, strides);
        let cols = axes.pop().unwrap_or(ONE);
        let nearer = |k: usize| {
            let here = cols.strides[k].unsigned_abs();
            let near = |a: &&Axis| a.strides[k] != 0 && a.strides[k].unsigned_abs() < here;
            let best = axes
                .iter()
                .filter(near)
                .min_by_key(|a| a.strides[k].unsigned_abs())?;
            axes.iter().position(|a| std::ptr::eq(a, best))
        };
        let across = (1..strides.len()).find_map(nearer);
        let rows = axes.remove(across.unwrap_or(axes.len() - 1));
        let high = if across.is_some() {
            (64 / size).clamp(16, limit).min(rows.size)
        } else {
            1
        };
        let limit = if across.is_some() || limit < 512 {
            limit
        } else {
            limit / 2
        };
        let wide = even(cols.size, (limit / high).max(1));
        let high = if across.is_some() || wide == cols.size {
            (limit / wide).clamp(1, rows.size)
        } else {
            1
        };
        let grid = (rows.size.div_ceil(high), cols.size.div_ceil(wide));
        let count = axes.iter().map(|a| a.size).product::<usize>() * grid.0 * grid.1;
        let band = if across.is_some() {
            (BAND / high).clamp(1, grid.0)
        } else {
            1
        };
        let outer = SmallVec::from_slice(&axes);
        Tiles {
            outer,
            rows,
            cols,
            tile: (high, wide),
            grid,
            band,
            across: across.is_some(),
            count,
        }
    }

    /// Tile `i`: bands of rows of tiles, column by column, within the dimensions around them.
    pub fn tile(&self, i: usize) -> Tile {
        let area = self.grid.0 * self.grid.1;
        let (mut i, within) = if i < area {
            (0, i)
        } else {
            (i / area, i % area)
        };
        let (row, col) = if self.band == 1 {
            (within / self.grid.1, within % self.grid.1)
        } else {
            let whole = self.band * self.grid.1;
            let (first, within) = (within / whole * self.band, within % whole);
            let band = self.band.min(self.grid.0 - first);
            (first + within % band, within / band)
        };
        let (row, col) = (row * self.tile.0, col * self.tile.1);
        let mut offsets = [0isize; ARRAYS];
        for (k, offset) in offsets.iter_mut().enumerate() {
            *offset = row as isize * self.rows.strides[k] + col as isize * self.cols.strides[k];
        }
        for axis in self.outer.iter().rev() {
            let at = (i % axis.size) as isize;
            i /= axis.size;
            for (offset, stride) in offsets.iter_mut().zip(axis.strides) {
                *offset += at * stride;
            }
        }
        let rows = self.tile.0.min(self.rows.size - row);
        Tile {
            offsets,
            rows,
            cols: self.tile.1.min(self.cols.size - col),
        }
    }

    /// The window of array `k` that a tile is.
    #[inline]
    pub fn window(&self, tile: &Tile, k: usize) -> Window {
        Window {
            rows: tile.rows,
            cols: tile.cols,
            row: self.rows.strides[k],
            col: self.cols.strides[k],
        }
    }

    /// Whether an operand lies across the rows of the result.
    #[inline]
    pub fn is_across(&self) -> bool {
        self.across
    }
}

/// The length of nearly equal pieces of at most `limit`, a multiple of 64 where that is possible.
fn even(n: usize, limit: usize) -> usize {
    if n <= limit {
        return n;
    }
    let piece = n.div_ceil(n.div_ceil(limit));
    piece.next_multiple_of(64).min(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrotrace_runtime::Layout;

    /// Every element of the result belongs to one tile, whose offsets are the operands'.
    fn check(shape: &[usize], order: &[usize], limit: usize) {
        let shape = Shape::new(shape);
        let out = Layout::contiguous(shape.clone());
        let from: Shape = order.iter().map(|&d| shape[d]).collect();
        let mut back = vec![0; order.len()];
        order.iter().enumerate().for_each(|(i, &d)| back[d] = i);
        let x = Layout::contiguous(from).permute(&back);
        let expected: Vec<usize> = x.offsets().collect();
        let tiles = Tiles::new(&shape, &[out.strides(), x.strides()], 4, limit);
        let mut seen = vec![false; shape.numel()];
        for tile in (0..tiles.count).map(|i| tiles.tile(i)) {
            assert!(tile.rows * tile.cols <= limit);
            let (o, a) = (tiles.window(&tile, 0), tiles.window(&tile, 1));
            for r in 0..tile.rows as isize {
                for c in 0..tile.cols as isize {
                    let at = (tile.offsets[0] + r * o.row + c * o.col) as usize;
                    let from = (tile.offsets[1] + r * a.row + c * a.col) as usize;
                    assert!(!std::mem::replace(&mut seen[at], true));
                    assert_eq!(from, expected[at]);
                }
            }
        }
        assert!(seen.into_iter().all(|s| s));
    }

    #[test]
    fn tiles_cover_the_space() {
        check(&[], &[], 64);
        check(&[1], &[0], 64);
        check(&[1000], &[0], 64);
        check(&[100, 100], &[1, 0], 256);
        check(&[3, 1000], &[1, 0], 256);
        check(&[1000, 3], &[1, 0], 256);
        check(&[1000, 700], &[1, 0], 1024);
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            check(&[5, 40, 33], &order, 256);
            check(&[40, 1, 70], &order, 2048);
        }
    }
}
