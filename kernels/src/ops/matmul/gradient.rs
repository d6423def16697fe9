//! The gradients of matrix products.

use crate::op::gradient::{Adjoint, Gradients, reshaped, transposed};
use crate::{OpBuilder, OpBuilderExt};
use ferrotrace_runtime::{Result, Shape};

/// gradient · bᵀ and aᵀ · gradient, with vectors as a row and a column. Sums over batches that were broadcast are left to
/// the caller, but for a single matrix on the right: there the rows of all batches are those of one matrix.
pub(super) fn vjp(b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
    let (left, right) = (of.value(0)?, of.value(1)?);
    let (left_shape, right_shape) = (b.shape(left).clone(), b.shape(right).clone());
    let (mut rows, mut columns) = (left_shape.clone(), right_shape.clone());
    let mut out = b.shape(of.gradient).clone();
    if left_shape.rank() == 1 {
        rows.dims_mut().insert(0, 1);
        let at = out.rank() - usize::from(right_shape.rank() > 1);
        out.dims_mut().insert(at, 1);
    }
    if right_shape.rank() == 1 {
        columns.dims_mut().push(1);
        out.dims_mut().push(1);
    }
    let whole = rows.clone();
    if columns.rank() == 2 && rows.rank() > 2 {
        (rows, out) = (folded(&rows), folded(&out));
    }
    let gradient = reshaped(b, of.gradient, &out)?;
    let mut gradients = of.none();
    if of.wants(0) {
        let right = reshaped(b, right, &columns)?;
        let right = transposed(b, right)?;
        let product = b.matmul(gradient, right)?;
        gradients[0] = Some(match rows == whole {
            true => product,
            false => reshaped(b, product, &whole)?,
        });
    }
    if of.wants(1) {
        let left = reshaped(b, left, &rows)?;
        let left = transposed(b, left)?;
        let product = b.matmul(left, gradient)?;
        let mut shape = b.shape(product).clone();
        if right_shape.rank() == 1 {
            shape.dims_mut().pop();
        }
        gradients[1] = Some(reshaped(b, product, &shape)?);
    }
    Ok(gradients)
}

/// The shape as a matrix: all dimensions but the last as one.
pub(crate) fn folded(shape: &Shape) -> Shape {
    let last = shape.rank() - 1;
    Shape::from([shape[..last].iter().product(), shape[last]])
}
