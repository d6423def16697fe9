//! The gradients of norms, in closed form.
//!
//! With y = (x − m)·s over n elements, m their mean and s the reciprocal of their deviation, and g the gradient of y, that of
//! x is s·(g − mean g − y·mean (g·y)); of a norm without a mean, s·(g − y·mean (g·y)).

use super::{Affine, centred};
use crate::op::gradient::{Adjoint, Gradients, reshaped, wide};
use crate::ops::composite::build::{all_dims, last_dims};
use crate::{OpBuilder, OpBuilderExt, ReduceKind, UnaryOp, ValueId};
use ferrotrace_runtime::{Result, Shape};

/// What is normalised, before weight and bias, and how.
struct Normal {
    /// (x − m)·s, or x·s.
    y: ValueId,
    /// s, with dimensions of 1.
    scale: ValueId,
    /// Whether a mean is taken off.
    centred: bool,
    /// The dimensions of a mean.
    mask: u64,
}

impl Normal {
    /// Of `x`, in the dtype of its arithmetic.
    fn new(
        b: &mut dyn OpBuilder,
        x: ValueId,
        mask: u64,
        affine: &Affine,
        is_centred: bool,
    ) -> Result<Normal> {
        let (d, var) = match is_centred {
            true => centred(b, x, mask)?,
            false => {
                let squares = b.unary(UnaryOp::Square, x)?;
                (x, b.reduce(ReduceKind::Mean, squares, mask, true)?)
            }
        };
        let scale = affine.inverse_root(b, var)?;
        Ok(Normal {
            y: b.mul(d, scale)?,
            scale,
            centred: is_centred,
            mask,
        })
    }

    /// The gradient of x from that of y.
    fn pull(&self, b: &mut dyn OpBuilder, g: ValueId) -> Result<ValueId> {
        let product = b.mul(g, self.y)?;
        let share = b.reduce(ReduceKind::Mean, product, self.mask, true)?;
        let along = b.mul(self.y, share)?;
        let mut rest = b.sub(g, along)?;
        if self.centred {
            let mean = b.reduce(ReduceKind::Mean, g, self.mask, true)?;
            rest = b.sub(rest, mean)?;
        }
        b.mul(rest, self.scale)
    }
}

/// The gradients of the weight and the bias, which have the dimensions that are not in `mask`.
fn of_affine(
    b: &mut dyn OpBuilder,
    of: &Adjoint<'_>,
    affine: &Affine,
    (g, y): (ValueId, Option<ValueId>),
    mask: u64,
    gradients: &mut Gradients,
) -> Result<()> {
    let mut at = 1;
    if affine.weight.is_some() {
        if let (true, Some(y)) = (of.wants(at), y) {
            let product = b.mul(g, y)?;
            gradients[at] = Some(b.reduce(ReduceKind::Sum, product, mask, false)?);
        }
        at += 1;
    }
    if affine.bias.is_some() && of.wants(at) {
        gradients[at] = Some(b.reduce(ReduceKind::Sum, g, mask, false)?);
    }
    Ok(())
}

/// Of layer norm and RMS norm over the last `n` dimensions.
pub(super) fn over_last(
    b: &mut dyn OpBuilder,
    of: &Adjoint<'_>,
    n: usize,
    (weight, bias): (bool, bool),
    centred: bool,
) -> Result<Gradients> {
    let (x, mut gradients) = (of.value(0)?, of.none());
    let shape = b.shape(x).clone();
    let last = &shape[shape.rank() - n..];
    let affine = Affine::new(b, of.args, 1, weight, bias, last)?;
    let mask = last_dims(shape.rank(), n);
    let rows = all_dims(shape.rank()) & !mask;
    let g = wide(b, of.gradient)?;
    let mut normal = None;
    if of.wants(0) || weight && of.wants(1) {
        let x = wide(b, x)?;
        normal = Some(Normal::new(b, x, mask, &affine, centred)?);
    }
    let y = normal.as_ref().map(|normal| normal.y);
    of_affine(b, of, &affine, (g, y), rows, &mut gradients)?;
    if let Some(normal) = normal.filter(|_| of.wants(0)) {
        let g = affine.pull(b, g, last)?;
        gradients[0] = Some(normal.pull(b, g)?);
    }
    Ok(gradients)
}

/// Of group norm: the operand is normalised with its channels in groups.
pub(super) fn of_groups(
    b: &mut dyn OpBuilder,
    of: &Adjoint<'_>,
    groups: usize,
    (weight, bias): (bool, bool),
) -> Result<Gradients> {
    let (x, mut gradients) = (of.value(0)?, of.none());
    let (count, column) = super::channels(b, x)?;
    let affine = Affine::new(b, of.args, 1, weight, bias, &[count])?;
    let shape = b.shape(x).clone();
    let split = super::grouped(&shape, groups);
    let g = wide(b, of.gradient)?;
    let mut normal = None;
    if of.wants(0) || weight && of.wants(1) {
        let x = wide(b, x)?;
        let x = reshaped(b, x, &split)?;
        let mask = last_dims(split.rank(), split.rank() - 2);
        normal = Some(Normal::new(b, x, mask, &affine, true)?);
    }
    let y = match &normal {
        Some(normal) if weight && of.wants(1) => Some(reshaped(b, normal.y, &shape)?),
        _ => None,
    };
    let beside = all_dims(shape.rank()) & !(1 << 1);
    of_affine(b, of, &affine, (g, y), beside, &mut gradients)?;
    if let Some(normal) = normal.filter(|_| of.wants(0)) {
        let g = affine.pull(b, g, &column)?;
        let g = reshaped(b, g, &split)?;
        let dx = normal.pull(b, g)?;
        gradients[0] = Some(reshaped(b, dx, &shape)?);
    }
    Ok(gradients)
}

impl Affine {
    /// The gradient of what the weight, under the shape `dims`, multiplies.
    fn pull(&self, b: &mut dyn OpBuilder, g: ValueId, dims: &[usize]) -> Result<ValueId> {
        let Some(weight) = self.weight else {
            return Ok(g);
        };
        let dtype = b.dtype(g);
        let weight = b.cast(weight, dtype)?;
        let weight = reshaped(b, weight, &Shape::new(dims))?;
        b.mul(g, weight)
    }
}
