//! How rows are cut into units of work, by sizes alone.

use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::reduce::moments;
use crate::emit::cpu::transform::tile;
use crate::emit::unroll::work_of;
use crate::kernel::ir::Name;
use crate::schedule::FusedNode;

/// Elements of a piece of a long row of a kernel without reductions, where an element takes four operations or fewer.
const PIECE: usize = 1 << 14;
/// Elements of a piece where an element takes many operations.
const LEAST_PIECE: usize = 1 << 9;
/// Rows that are enough units of work for the threads.
const MANY_UNITS: usize = 64;
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
        } else if let Some(piece) = (pure && self.walked() == 1)
            .then(|| piece_of(node, rows))
            .filter(|piece| vector > 2 * piece)
        {
            piece
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

/// Elements of a piece of a row of a kernel without reductions, of this many rows: the fewer, the more an element takes, as
/// of costly functions and of an axis that is written out. A product's panels are the units of a kernel beside it.
fn piece_of(node: &FusedNode, rows: usize) -> usize {
    if rows >= MANY_UNITS || node.product.is_some() || node.feeds {
        return PIECE;
    }
    let element = (work_of(node) + node.stores.len()).max(4);
    (4 * PIECE / element)
        .max(LEAST_PIECE)
        .next_multiple_of(LEAST_PIECE)
}

#[cfg(test)]
mod tests {
    use crate::emit::cpu::unroll::tests::emitted;
    use crate::policy::Policy;

    /// Units of work of the only kernel of a graph.
    fn units(graph: &str) -> usize {
        emitted(graph, &Policy::default()).chunks
    }

    #[test]
    fn units_of_costly_elements_are_short() {
        let sum = "%0: f32[30000] = input 0 [1]
             %1: f32[30000] = input 1 [1]
             %2: f32[30000] = add(%0, %1)";
        assert_eq!(units(&format!("{sum}\nreturn %2")), 1);
        let costly = units(&format!("{sum}\n%3: f32[30000] = tanh(%2)\nreturn %3"));
        assert!((8..60).contains(&costly), "{costly} units");
    }

    #[test]
    fn units_of_axes_that_are_written_out_are_short() {
        let units = units(
            "%0: f32[30000, 4] = input 0 [4, 1]
             %1: f32[1, 4] = input 1 [4, 1]
             %2: f32[30000, 4] = add(%0, %1)
             %3: f32[30000, 4] = tanh(%2)
             return %3",
        );
        assert!((16..30_000).contains(&units), "{units} units");
    }

    #[test]
    fn many_rows_are_not_cut() {
        let of = |rows: usize| {
            units(&format!(
                "%0: f32[{rows}, 30000] = input 0 [60000, 1]
                 %1: f32[{rows}, 30000] = tanh(%0)
                 return %1"
            ))
        };
        assert_eq!(of(64), 64);
        assert!(of(8) >= 32, "{} units", of(8));
    }
}
