//! Updates of what is left of a matrix by a block of its factors.

use super::Float;
use crate::cpu::dense::rows;
use crate::cpu::matmul::multiply;
use crate::cpu::view::{Sizes, View};

/// Rows and columns of a block that is factorised by itself.
pub const BLOCK: usize = 48;
/// Rows that are updated by one product.
const TILE: usize = 96;

/// Rows of a matrix, `row` elements apart, of which columns from `column` on are updated.
pub struct Target<'a, T> {
    /// The rows.
    pub rows: &'a mut [T],
    /// The distance of rows.
    pub row: usize,
    /// The first column.
    pub column: usize,
}

/// Subtracts from each row of the target a row of `left` times the matrix `right`: both have `k` elements to sum. `width` says
/// how many columns of the tile that ends before a row are wanted.
pub fn subtract<T: Float>(
    to: Target<'_, T>,
    left: &[T],
    right: View<'_, T>,
    k: usize,
    width: impl Fn(usize) -> usize + Sync,
) {
    let Target {
        rows: all,
        row,
        column,
    } = to;
    let count = all.len() / row.max(1);
    if count == 0 || k == 0 {
        return;
    }
    let minus: Vec<T> = left.iter().map(|&x| -x).collect();
    let one = |first: usize, tile: &mut [T]| {
        let m = tile.len() / row;
        let n = width(first + m);
        if n > 0 {
            let left = View::dense(&minus[first * k..], k);
            let product = multiply(
                Sizes { m, n, k },
                left,
                right,
                &mut tile[column..],
                row,
                true,
            );
            product.expect("rows and both operands are as long as the tile's sizes say");
        }
    };
    by_tiles(all, row, row * k, one);
}

/// Calls `f(first, tile)` on tiles of rows of `row` elements, each of which takes some `cost` operations. Tiles are of one
/// size but for the last, whatever threads there are.
pub fn by_tiles<T: Float>(
    all: &mut [T],
    row: usize,
    cost: usize,
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    let whole = all.len() / row.max(1) / TILE * TILE;
    let (tiles, rest) = all.split_at_mut(whole * row);
    rows(tiles, TILE * row, TILE * cost, |first, tiles| {
        for (i, tile) in tiles.chunks_exact_mut(TILE * row).enumerate() {
            f((first + i) * TILE, tile);
        }
    });
    if !rest.is_empty() {
        f(whole, rest);
    }
}

/// Columns `from..to` of rows of `row` elements, dense.
pub fn panel<T: Float>(a: &[T], row: usize, from: usize, to: usize) -> Vec<T> {
    let rows = a.chunks_exact(row.max(1));
    rows.flat_map(|r| r[from..to].iter().copied()).collect()
}

/// Writes the product of rows of `n` elements and a matrix of `n` rows and columns.
pub fn product<T: Float>(left: &[T], right: &[T], n: usize, out: &mut [T]) {
    let one = |first: usize, tile: &mut [T]| {
        let sizes = Sizes {
            m: tile.len() / n,
            n,
            k: n,
        };
        let left = View::dense(&left[first * n..], n);
        let product = multiply(sizes, left, View::dense(right, n), tile, n, false);
        product.expect("both operands are as long as the tile's sizes say");
    };
    by_tiles(out, n, n * n, one);
}
