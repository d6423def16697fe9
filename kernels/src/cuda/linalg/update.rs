//! Steps of factorisations and of substitution.

use super::{BLOCK, Lines, moving};
use crate::Array;
use crate::cuda::library::Run;
use ferrotrace_runtime::{DType, KernelSource, Result};

const UPDATE: &str = include_str!("update.cu");

/// Rows and columns of a tile.
const TILE: usize = 64;

/// What follows the subtraction of a product.
#[derive(Clone, Copy, Debug)]
pub(super) enum After {
    Nothing,
    /// The first block is factorised, below as many rows of the matrix.
    Factor {
        done: usize,
    },
    /// The equations of the first block's rows are solved by a lower triangle, whose diagonal is 1 where it is a `unit` one.
    Solve {
        factors: Lines,
        unit: bool,
    },
}

impl After {
    fn number(self) -> u32 {
        match self {
            After::Nothing => 0,
            After::Factor { .. } => 1,
            After::Solve { .. } => 2,
        }
    }
}

/// A step on each matrix of a batch.
pub(super) struct Step<'a> {
    /// The left and the right operand of the product, the array that is changed, and the triangles.
    pub arrays: [&'a Array; 4],
    /// What matrices lack, of a step that factorises.
    pub faults: Option<&'a Array>,
    /// The operands of the product, of a block's columns and rows; none where nothing is subtracted.
    pub product: Option<[Lines; 2]>,
    /// What is changed.
    pub out: Lines,
    /// Its rows and columns.
    pub sizes: [usize; 2],
    /// Whether only the lower triangle counts.
    pub lower: bool,
    pub after: After,
    /// Matrices of the batch.
    pub count: usize,
}

impl Step<'_> {
    /// # Errors
    /// What the driver answers.
    pub fn start(&self) -> Result<()> {
        let [rows, columns] = self.sizes;
        let first = rows.min(BLOCK);
        // Without a product only the tiles on top have anything to do.
        let down = self.product.map_or(1, |_| rows.div_ceil(TILE));
        let across = columns.div_ceil(TILE);
        let (done, factors, unit) = match self.after {
            After::Nothing => (0, self.out, false),
            After::Factor { done } => (done, self.out, false),
            After::Solve { factors, unit } => (0, factors, unit),
        };
        let [left, right] = self.product.unwrap_or([self.out; 2]);
        let depth = self.product.map_or(0, |_| BLOCK);
        let mut params: Vec<i64> = [rows, columns, depth, down, across, first, done]
            .map(|n| n as i64)
            .to_vec();
        for lines in [left, right, self.out, factors] {
            params.extend(lines.params());
        }
        params.extend([i64::from(unit), i64::from(self.lower)]);
        let [a, b, out, triangles] = self.arrays;
        let (dtype, after) = (out.dtype, self.after.number());
        Run {
            name: ("matrix_update", dtype, after),
            device: out.buffer.device(),
            arrays: &[a, b, out, triangles, self.faults.unwrap_or(out)],
            params: &params,
            blocks: down * across * self.count,
            threads: match (self.product, self.after) {
                (None, After::Factor { .. }) => 32,
                // One short block has few elements.
                (None, _) if rows < BLOCK => 64,
                _ => 256,
            },
            shared: 0,
        }
        .start(|| step_text(dtype, after))
    }
}

fn step_text(dtype: DType, after: u32) -> KernelSource {
    moving(dtype, &format!("constexpr int AFTER = {after};\n"), UPDATE)
}

/// Every source for a type.
pub(super) fn sources(dtype: DType) -> Vec<KernelSource> {
    (0..3).map(|after| step_text(dtype, after)).collect()
}
