//! Factorisations of matrices by blocks: Cholesky's, Gaussian elimination, and equations of triangles (Golub and Van Loan,
//! Matrix Computations, 3.1, 3.4 and 4.2.9). A block is factorised or solved by the kernel that brings its elements up to date,
//! so that a step of a factorisation takes two launches, and one of substitution takes one. Matrices of a batch go side by
//! side. Sums have an order by sizes alone.

pub(crate) mod cholesky;
pub(crate) mod lu;
pub(crate) mod triangular;
mod update;

use super::library::{Run, source};
use crate::Array;
use crate::cpu::dense::elements;
use crate::support::scalar_type;
use ferrotrace_runtime::{DType, Device, Error, KernelSource, Result, Shape};

const MOVE: &str = include_str!("move.cu");
const FIRST_FAULT: &str = include_str!("first_fault.cu");

/// Rows and columns of a block.
const BLOCK: usize = 32;
/// Threads that go through elements.
const THREADS: u32 = 256;
/// Most blocks of such threads.
const BLOCKS: usize = 4096;

/// A text for a type, behind constants.
fn text(dtype: DType, constants: &str, text: &str) -> KernelSource {
    let head = format!("typedef {} T;\n{constants}", scalar_type(dtype));
    source(&[&head, text])
}

/// A text that copies by the threads of a block.
fn moving(dtype: DType, constants: &str, text: &str) -> KernelSource {
    self::text(dtype, &[constants, MOVE].concat(), text)
}

/// Every source for every type.
pub(super) fn sources() -> Vec<KernelSource> {
    let of = |dtype| {
        [
            cholesky::sources(dtype),
            update::sources(dtype),
            lu::sources(dtype),
        ]
        .concat()
    };
    let mut all = [of(DType::F32), of(DType::F64)].concat();
    all.push(source(&[FIRST_FAULT]));
    all
}

/// Blocks of threads that go through so many elements.
fn blocks(elements: usize) -> usize {
    elements.div_ceil(THREADS as usize).min(BLOCKS)
}

/// What each matrix of a batch lacks; 0 where it has its factors.
struct Faults(Array);

impl Faults {
    /// Room for those of a batch.
    ///
    /// # Errors
    /// Out of memory.
    fn empty(device: &Device, count: usize) -> Result<Faults> {
        Array::empty(device, Shape::from(count), DType::I32).map(Faults)
    }

    /// The first matrix that has a fault, and the fault. The host waits for it.
    ///
    /// # Errors
    /// Out of memory; what the driver answers.
    fn first(&self) -> Result<Option<(usize, usize)>> {
        let device = self.0.buffer.device();
        let out = Array::empty(device, Shape::from(2), DType::I64)?;
        Run {
            name: ("first_fault", DType::I32, 0),
            device,
            arrays: &[&self.0, &out],
            params: &[self.0.numel() as i64],
            blocks: 1,
            threads: THREADS,
            shared: 0,
        }
        .start(|| source(&[FIRST_FAULT]))?;
        let found = out.to_device(&Device::cpu())?;
        match *elements::<i64>(&found)? {
            [matrix, fault] => Ok((matrix >= 0).then_some((matrix as usize, fault as usize))),
            _ => Err(Error::internal("a fault is two numbers")),
        }
    }
}

/// Where elements of a batch of matrices lie in an array, in elements from its first.
#[derive(Clone, Copy, Debug)]
struct Lines {
    first: i64,
    row: i64,
    column: i64,
    matrix: i64,
}

impl Lines {
    /// Dense matrices of as many rows and columns.
    fn dense(rows: usize, columns: usize) -> Lines {
        Lines {
            first: 0,
            row: columns as i64,
            column: 1,
            matrix: (rows * columns) as i64,
        }
    }

    /// The matrices from a row and a column on.
    fn at(self, row: usize, column: usize) -> Lines {
        Lines {
            first: self.first + row as i64 * self.row + column as i64 * self.column,
            ..self
        }
    }

    /// Rows for columns.
    fn turned(self) -> Lines {
        Lines {
            row: self.column,
            column: self.row,
            ..self
        }
    }

    /// The rows of matrices of `n` rows from the last to the first.
    fn upward(self, n: usize) -> Lines {
        Lines {
            first: self.first + (n as i64 - 1) * self.row,
            row: -self.row,
            ..self
        }
    }

    fn params(self) -> [i64; 4] {
        [self.first, self.row, self.column, self.matrix]
    }
}
