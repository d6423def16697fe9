//! How rows are cut into units of work, by sizes alone.

use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::reduce::moments;
use crate::emit::cpu::transform::tile;
use crate::kernel::ir::Name;

/// Elements of a piece of a long row of a kernel without reductions.
const PIECE: usize = 1 << 14;
/// Elements of a chunk of a split reduction.
const CHUNK: usize = 1 << 16;
/// Most columns of a block of an outer reduction.
pub(super) const BLOCK: usize = 512;

/// How the rows are cut: the arguments that say so.
pub(super) struct Pieces {
    /// Length of a piece.
    pub piece: Name,
    /// Pieces of a row.
    pub pieces: Name,
    /// Length of the row along what is cut.
    pub extent: Name,
}

/// How the rows are cut: numbers.
pub(super) struct Cut {
    /// Length of a piece.
    pub piece: usize,
    /// Pieces of a row.
    pub pieces: usize,
    /// Length of the row along what is cut.
    pub extent: usize,
}

impl Writer<'_> {
    /// Values of all walked variables together.
    pub(super) fn walked(&self) -> usize {
        self.walked_vars()
            .iter()
            .map(|&v| self.extents[v])
            .product()
    }

    /// The pieces of a row, of `rows` rows of `vector` elements along the vector axis.
    pub(super) fn cut(&self, rows: usize, vector: usize, l2: usize) -> Cut {
        let node = self.node;
        let extent = match (self.outer, self.walked_vars().first()) {
            (false, Some(&v)) => self.extents[v],
            _ => vector,
        };
        let pure =
            !node.reduces() && !self.ordered && self.stages.row_stores.iter().all(Vec::is_empty);
        let piece = if self.tile.is_some() {
            tile::PIECE
        } else if self.split {
            let per = node.cols() / extent.max(1);
            let elements = if self.moments.is_empty() {
                CHUNK
            } else {
                moments::BYTES / 4
            };
            (elements / per.max(1))
                .max(1)
                .next_multiple_of(if self.walked_vars().is_empty() { 64 } else { 1 })
        } else if let Some(chunks) = self.chunks {
            chunks.panel
        } else if self.outer {
            let saved = self.stages.saved.len() * node.cols() * 4;
            let fit = match saved {
                0 => BLOCK,
                saved => (l2 / 4 / saved).clamp(self.lanes, BLOCK),
            };
            // Enough units for the threads, by other rows or by pieces of this one.
            let spread = vector
                .div_ceil(8usize.div_ceil(rows.max(1)))
                .max(self.lanes);
            fit.min(spread).next_multiple_of(self.lanes)
        } else if pure && self.walked() == 1 && vector > 2 * PIECE {
            PIECE
        } else {
            return Cut {
                piece: vector.max(1),
                pieces: 1,
                extent,
            };
        };
        let cut = if self.split { extent } else { vector };
        Cut {
            piece,
            pieces: cut.div_ceil(piece),
            extent,
        }
    }
}
