//! Equations of triangular matrices by substitution, block by block.

use super::update::{After, Step};
use super::{BLOCK, Lines};
use crate::Array;
use crate::cpu::linalg::Triangular;
use ferrotrace_runtime::Result;

/// Matrices, and which of their elements count.
pub(super) struct Triangles<'a> {
    pub array: &'a Array,
    pub lines: Lines,
    pub form: Triangular,
}

impl Triangles<'_> {
    /// Solves a·x = b in place of b: dense matrices of `n` rows and `k` columns.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn solve(&self, x: &Array, (n, k): (usize, usize)) -> Result<()> {
        if x.numel() == 0 {
            return Ok(());
        }
        let (mut from, mut to) = (self.lines, Lines::dense(n, k));
        // The last row first: an upper triangle is a lower one then.
        if self.form.upper {
            from = from.upward(n).turned().upward(n).turned();
            to = to.upward(n);
        }
        let step = |product, start: usize| {
            Step {
                arrays: [self.array, x, x, self.array],
                faults: None,
                product,
                out: to.at(start, 0),
                sizes: [n - start, k],
                lower: false,
                after: After::Solve {
                    factors: from.at(start, start),
                    unit: self.form.unit,
                },
                count: x.numel() / (n * k),
            }
            .start()
        };
        step(None, 0)?;
        for start in (BLOCK..n).step_by(BLOCK) {
            let known = start - BLOCK;
            step(Some([from.at(start, known), to.at(known, 0)]), start)?;
        }
        Ok(())
    }
}

/// Solves a·x = b in place of b, dense matrices of `n` rows and `k` columns. `a` is one matrix or one for each of these, in any
/// order of rows and columns.
///
/// # Errors
/// What the driver answers.
pub(crate) fn solve(a: &Array, x: &Array, sizes: (usize, usize), form: Triangular) -> Result<()> {
    let (shape, strides) = (a.shape(), a.layout.strides());
    let rank = shape.rank();
    let one = shape.numel() == sizes.0 * sizes.0;
    let lines = Lines {
        first: 0,
        row: strides[rank - 2] as i64,
        column: strides[rank - 1] as i64,
        matrix: if one { 0 } else { strides[rank - 3] as i64 },
    };
    Triangles {
        array: a,
        lines,
        form,
    }
    .solve(x, sizes)
}
