//! The operands of a product as the template takes them.

use crate::body::Source;
use crate::graph::{Graph, Rounding};
use crate::lower::{Call, CallArg};
use ferrotrace_runtime::{DType, Layout, Shape};

/// Elements of 16 bytes, in which lines are copied.
const CHUNK: i64 = 8;
/// Most dimensions of a batch that the copy engine takes besides those of a matrix.
const BATCH: usize = 3;

/// A batch of matrices in memory, of lines, rows or columns, whose elements follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The memory.
    pub source: Source,
    /// The first element.
    pub offset: i64,
    /// From a line to the next.
    pub line: i64,
    /// Whether the dimension that is summed over is dense.
    pub inner: bool,
    /// From a matrix to the next along each dimension of the batch: 0 where they share one.
    pub steps: Vec<i64>,
}

/// Both operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides {
    /// m × k and k × n.
    pub sides: [Side; 2],
    /// The half type of both.
    pub dtype: DType,
    /// m, n, k.
    pub sizes: [usize; 3],
    /// The sizes of the batch.
    pub batch: Vec<usize>,
}

/// One operand's place before its orientation is known.
struct Place {
    source: Source,
    offset: i64,
    row: i64,
    column: i64,
    steps: Vec<i64>,
}

impl Sides {
    /// Matrices of the batch.
    pub fn count(&self) -> usize {
        self.batch.iter().product()
    }

    /// The operands of a product of half precision whose lines and matrices begin at multiples of 16 bytes, as far as
    /// strides tell; `None` for others.
    pub fn of(graph: &Graph, call: &Call) -> Option<Sides> {
        let node = graph.node(call.node);
        let rank = node.shape.rank();
        let [CallArg::Window(a, left), CallArg::Window(b, right)] = &call.args[..] else {
            return None;
        };
        let dtype = |source: &Source| match *source {
            Source::Input(n) => graph.inputs()[n as usize].dtype,
            Source::Node(v) => graph.node(v).dtype,
        };
        let matrices = left.shape().rank().min(right.shape().rank()) >= 2 && rank >= 2;
        let dtype = Some(dtype(a)).filter(|&of| of.is_half() && of == dtype(b))?;
        let wide = node.rounding == Rounding::Never && node.dtype == dtype.compute();
        if !matrices || node.dtype != dtype && !wide {
            return None;
        }
        let lead = &node.shape[..rank - 2];
        let (mut m, n) = (node.shape[rank - 2], node.shape[rank - 1]);
        let k = left.shape()[left.shape().rank() - 1];
        if node.shape.numel() == 0 || k == 0 {
            return None;
        }
        let place = |source: Source, layout: &Layout| {
            let own = &layout.shape()[layout.shape().rank() - 2..];
            let wide = Shape::new(&[lead, own].concat());
            let wide = layout.broadcast_to(&wide)?;
            let strides: Vec<i64> = wide.strides().iter().map(|&s| s as i64).collect();
            let long = lead.iter().zip(&strides).filter(|(n, _)| **n != 1);
            Some(Place {
                source,
                offset: wide.offset() as i64,
                row: strides[rank - 2],
                column: strides[rank - 1],
                steps: long.map(|(_, &step)| step).collect(),
            })
        };
        let (mut a, mut b) = (place(*a, left)?, place(*b, right)?);
        let mut batch: Vec<usize> = lead.iter().copied().filter(|&n| n != 1).collect();
        // One matrix on the right: the batch is part of the rows on the left.
        while let (Some(&step), Some(0)) = (a.steps.last(), b.steps.last()) {
            // One row is at any distance from the next.
            a.row = if m == 1 { step } else { a.row };
            if step != m as i64 * a.row {
                break;
            }
            m *= batch.pop()?;
            a.steps.pop();
            b.steps.pop();
        }
        let mut at = 1;
        while at < batch.len() {
            let size = batch[at] as i64;
            if [&a, &b]
                .iter()
                .all(|x| x.steps[at - 1] == size * x.steps[at])
            {
                batch[at - 1] *= batch.remove(at);
                a.steps.remove(at - 1);
                b.steps.remove(at - 1);
            } else {
                at += 1;
            }
        }
        let sizes = [m, n, k];
        let tiles = [m, n].iter().map(|n| n.div_ceil(128)).product::<usize>();
        let fits = sizes.iter().all(|&n| n < 1 << 30)
            && batch.len() <= BATCH
            && tiles.saturating_mul(batch.iter().product()) < 1 << 30;
        let left = a.side([m, k], false)?;
        let right = b.side([k, n], true)?;
        fits.then_some(Sides {
            sides: [left, right],
            dtype,
            sizes,
            batch,
        })
    }
}

impl Place {
    /// As lines; `right`: rows are what is summed over.
    fn side(self, [rows, columns]: [usize; 2], right: bool) -> Option<Side> {
        let by_rows = self.column == 1 && self.row >= columns as i64;
        let by_columns = self.row == 1 && self.column >= rows as i64;
        let line = match (by_rows, by_columns) {
            (true, _) => self.row,
            (_, true) => self.column,
            _ => return None,
        };
        let aligned = |n: i64| n >= 0 && n % CHUNK == 0;
        let all = aligned(line) && aligned(self.offset) && self.steps.iter().all(|&s| aligned(s));
        all.then_some(Side {
            source: self.source,
            offset: self.offset,
            line,
            inner: by_rows != right,
            steps: self.steps,
        })
    }
}
