//! Products by the library of a device that is not the CPU.

use super::{Arranged, arranged};
use crate::Array;
use crate::arg::{Arg, array};
use crate::copy::Dense;
use crate::cpu::view::Sizes;
use ferrotrace_runtime::{
    Activation, DType, Device, Error, Layout, Matrix, Product, Result, Shape, product,
};
use smallvec::SmallVec;

/// Bytes that a device copies in the time of a call of the library.
const CALL: usize = 8 << 20;

/// What a library does with each element of a product before it stores it.
#[derive(Clone, Copy, Debug, Default)]
pub struct After<'a> {
    /// Dense numbers of the product's dtype that are added, one for each column.
    pub bias: Option<&'a Array>,
    /// What follows.
    pub activation: Activation,
}

/// The product by the library of a device that is not the CPU; `None` where it has none or does not take the operands:
/// dtypes that differ, integers. Operands whose rows and columns are both strided are copied by `dense`, and ones whose
/// matrices lie so that more calls would take longer.
///
/// # Errors
/// Out of memory; what the library answers.
pub fn run_by_library(
    device: &Device,
    args: &[Arg],
    shape: &Shape,
    dtype: DType,
    after: &After<'_>,
    dense: Dense<'_>,
) -> Result<Option<Array>> {
    let (a, b) = (array(args, 0)?, array(args, 1)?);
    let wide = a.dtype.is_half() && dtype == DType::F32;
    if a.dtype != b.dtype || !(wide || a.dtype == dtype) || !dtype.is_float() {
        return Ok(None);
    }
    let out = Array::empty(device, shape.clone(), dtype)?;
    let mut operands = Operands::of(a, b)?;
    let [left, right] = operands.copied_for_calls()?;
    if left || right {
        let lies = |x: &Array, copy: bool| if copy { dense(x) } else { Ok(x.clone()) };
        operands = Operands::of(&lies(a, left)?, &lies(b, right)?)?;
    }
    let mut done = operands.multiply(&out, after)?;
    if !done && !operands.are_dense() {
        operands = Operands::of(&dense(&operands.a)?, &dense(&operands.b)?)?;
        done = operands.multiply(&out, after)?;
    }
    Ok((done && out.numel() > 0).then_some(out))
}

/// Matrices to multiply, and the calls that do.
struct Operands {
    a: Array,
    b: Array,
    arranged: Arranged,
    calls: Calls,
}

impl Operands {
    fn of(a: &Array, b: &Array) -> Result<Operands> {
        let arranged = arranged(&a.layout, &b.layout, None)?;
        Ok(Operands {
            a: a.clone(),
            b: b.clone(),
            calls: Calls::of(&arranged)?,
            arranged,
        })
    }

    fn are_dense(&self) -> bool {
        self.a.layout.is_contiguous() && self.b.layout.is_contiguous()
    }

    /// Which operands to copy first, so that one call multiplies matrices for which there would be several.
    fn copied_for_calls(&self) -> Result<[bool; 2]> {
        let now = self.calls.starts.len();
        if now <= 1 {
            return Ok([false; 2]);
        }
        let operands = [&self.a, &self.b];
        let copied = operands.map(|x| {
            let rank = x.shape().rank().saturating_sub(2);
            let (sizes, strides) = (&x.shape()[..rank], &x.layout.strides()[..rank]);
            merged(sizes.iter().zip(strides).map(|(n, s)| (*n, [*s]))).len() > 1
        });
        let then = |i: usize| match copied[i] {
            true => Layout::contiguous(operands[i].shape().clone()),
            false => operands[i].layout.clone(),
        };
        let then = Calls::of(&arranged(&then(0), &then(1), None)?)?
            .starts
            .len();
        let bytes = operands.iter().zip(copied).filter(|(_, copied)| *copied);
        let bytes: usize = bytes.map(|(x, _)| x.numel() * x.dtype.size()).sum();
        let pays = now.saturating_sub(then).saturating_mul(CALL) > bytes;
        Ok(copied.map(|copy| copy && pays))
    }

    /// Writes the product; `false` where the library does not take the operands as they lie.
    fn multiply(&self, out: &Array, after: &After<'_>) -> Result<bool> {
        let Arranged {
            parts, left, right, ..
        } = &self.arranged;
        let Sizes { m, n, k } = parts.sizes;
        let [left_step, right_step, step] = self.calls.steps;
        for [left_start, right_start, start] in &self.calls.starts {
            let done = product(&Product {
                dtype: self.a.dtype,
                result: out.dtype,
                sizes: [m, n, k],
                count: self.calls.count,
                a: matrix_at(&self.a, left, *left_start, left_step)?,
                b: matrix_at(&self.b, right, *right_start, right_step)?,
                bias: after.bias.map(|x| (&x.buffer, x.layout.offset())),
                activation: after.activation,
                out: (&out.buffer, *start as usize * m * n),
                out_batch: step as usize * m * n,
            })?;
            if !done {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Dimensions and the strides along them; ones that follow each other evenly are one, and those of one element none.
fn merged<const N: usize>(
    dims: impl Iterator<Item = (usize, [isize; N])>,
) -> SmallVec<[(usize, [isize; N]); 4]> {
    let mut found: SmallVec<[(usize, [isize; N]); 4]> = SmallVec::new();
    for (size, strides) in dims.filter(|(size, _)| *size != 1) {
        match found.last_mut() {
            Some(outer) if outer.1 == strides.map(|s| s * size as isize) => {
                *outer = (outer.0 * size, strides);
            }
            _ => found.push((size, strides)),
        }
    }
    found
}

/// The calls for a batch of products: one multiplies the matrices along one dimension of the batch.
struct Calls {
    /// Matrices of a call.
    count: usize,
    /// From a matrix to the next: elements of the left operand and the right one, and results.
    steps: [isize; 3],
    /// The first matrices of each call, in elements, and the first result.
    starts: Vec<[isize; 3]>,
}

impl Calls {
    fn of(of: &Arranged) -> Result<Calls> {
        let batch = &of.parts.batch;
        let (left, right) = (leading(&of.left, batch)?, leading(&of.right, batch)?);
        let results = Layout::contiguous(batch.clone());
        let strides = left.iter().zip(&right).zip(results.strides());
        let strides = strides.map(|((a, b), c)| [*a, *b, *c]);
        let mut dims = merged(batch.iter().copied().zip(strides));
        // The library goes forwards.
        let forwards = |dim: &(usize, [isize; 3])| dim.1.iter().all(|s| *s >= 0);
        let longest = (0..dims.len()).filter(|i| forwards(&dims[*i]));
        let longest = longest.max_by_key(|i| dims[*i].0);
        let (count, steps) = match longest {
            Some(i) => dims.remove(i),
            None => (1, [0; 3]),
        };
        let first = [of.left.offset() as isize, of.right.offset() as isize, 0];
        let mut starts = vec![first];
        for (size, strides) in dims {
            let along = |start: &[isize; 3]| {
                let start = *start;
                let at = move |i: usize, x: usize| start[x] + i as isize * strides[x];
                (0..size).map(move |i| [0, 1, 2].map(|x| at(i, x)))
            };
            starts = starts.iter().flat_map(along).collect();
        }
        Ok(Calls {
            count,
            steps,
            starts,
        })
    }
}

/// The strides of a batch of matrices along the dimensions of `batch`, to which it is broadcast.
fn leading(matrices: &Layout, batch: &Shape) -> Result<SmallVec<[isize; 4]>> {
    let shape = matrices.shape();
    let full: Shape = batch
        .iter()
        .chain(&shape[shape.rank() - 2..])
        .copied()
        .collect();
    let spread = matrices.broadcast_to(&full);
    let spread = spread.ok_or_else(|| Error::internal("batch sizes"))?;
    Ok(spread.strides()[..batch.rank()].into())
}

/// Matrices of an array that lie so, from the element `start` on, `step` elements from one to the next.
fn matrix_at<'a>(x: &'a Array, lies: &Layout, start: isize, step: isize) -> Result<Matrix<'a>> {
    let [.., row, column] = lies.strides()[..] else {
        return Err(Error::internal("a matrix without rows"));
    };
    Ok(Matrix {
        buffer: &x.buffer,
        start: start as usize,
        row,
        column,
        batch: step,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(left: &Layout, right: &Layout) -> (usize, [isize; 3], usize) {
        let arranged = arranged(left, right, None).expect("operands of a product");
        let calls = Calls::of(&arranged).expect("calls");
        (calls.count, calls.steps, calls.starts.len())
    }

    fn dense(sizes: &[usize]) -> Layout {
        Layout::contiguous(Shape::from(sizes))
    }

    /// `[batch, heads, rows, columns]` of memory in the order `[batch, rows, heads, columns]`.
    fn heads(of: [usize; 4]) -> Layout {
        dense(&[of[0], of[2], of[1], of[3]]).permute(&[0, 2, 1, 3])
    }

    #[test]
    fn matrices_at_even_distances_are_one_call() {
        let (a, b) = (dense(&[5, 7, 2, 3]), dense(&[5, 7, 3, 4]));
        assert_eq!(calls(&a, &b), (35, [6, 12, 1], 1));
        assert_eq!(calls(&dense(&[2, 3]), &dense(&[3, 4])), (1, [0; 3], 1));
        // One left matrix for all, and one for each seven.
        assert_eq!(calls(&dense(&[2, 3]), &b), (35, [0, 12, 1], 1));
        assert_eq!(calls(&dense(&[5, 1, 2, 3]), &b), (7, [0, 12, 1], 5));
    }

    /// As many calls as the shorter dimension has matrices.
    #[test]
    fn heads_side_by_side_are_few_calls() {
        let (a, b) = (heads([64, 6, 2, 3]), heads([64, 6, 3, 4]));
        assert_eq!(calls(&a, &b), (64, [36, 72, 6], 6));
        let (a, b) = (heads([4, 9, 2, 3]), heads([4, 9, 3, 4]));
        assert_eq!(calls(&a, &b), (9, [3, 4, 1], 4));
    }

    /// Every matrix is multiplied once, and its result lies where the batch has it.
    #[test]
    fn calls_cover_the_batch() {
        let a = dense(&[3, 2, 4, 5, 6]).permute(&[2, 0, 1, 3, 4]);
        let b = dense(&[2, 4, 6, 7]).permute(&[1, 0, 2, 3]);
        let b = b.reshape(&Shape::from([4, 1, 2, 6, 7])).expect("a view");
        let arranged = arranged(&a, &b, None).expect("operands of a product");
        let calls = Calls::of(&arranged).expect("calls");
        let mut found: Vec<[isize; 3]> = (calls.starts.iter())
            .flat_map(|start| {
                (0..calls.count).map(|i| [0, 1, 2].map(|x| start[x] + i as isize * calls.steps[x]))
            })
            .collect();
        found.sort_by_key(|at| at[2]);
        let mut wanted = Vec::new();
        for i in 0..4 {
            for j in 0..3 {
                for l in 0..2 {
                    let left = (j * 2 + l) * 4 + i;
                    let right = l * 4 + i;
                    wanted.push([left * 30, right * 42, wanted.len() as isize]);
                }
            }
        }
        assert_eq!(found, wanted);
    }
}
