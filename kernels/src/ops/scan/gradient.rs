//! Gradients of scans.

use super::{Scan, ScanKind};
use crate::op::gradient::{Adjoint, Gradients, wide};
use crate::op::{Flip, Pad};
use crate::ops::index::gradient::added_along;
use crate::{BinaryOp, Op, OpBuilder, OpBuilderExt, UnaryOp, ValueId};
use ferrotrace_runtime::Result;
use smallvec::{SmallVec, smallvec};

impl Scan {
    pub(super) fn pull(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let (x, dim) = (of.value(0)?, self.dim);
        let shape = b.shape(x).clone();
        let g = match self.kind {
            ScanKind::ArgMax | ScanKind::ArgMin => return Ok(of.none()),
            // One element is its own scan.
            _ if shape.rank() == 0 || shape.numel() == 0 => return Ok(of.first(of.gradient)),
            _ => wide(b, of.gradient)?,
        };
        let found = match self.kind {
            ScanKind::Sum => reversed(b, g, dim, ScanKind::Sum)?,
            ScanKind::Prod => {
                let x = wide(b, x)?;
                of_product(b, x, g, dim)?
            }
            ScanKind::LogSumExp => {
                let (x, y) = (wide(b, x)?, wide(b, of.result)?);
                of_logarithm(b, (x, y), g, dim)?
            }
            // To the element that is the greatest or least so far, the last of equals.
            ScanKind::Max | ScanKind::ArgMax | ScanKind::Min | ScanKind::ArgMin => {
                let kind = match self.kind {
                    ScanKind::Max => ScanKind::ArgMax,
                    _ => ScanKind::ArgMin,
                };
                let index = b.push(Op::Scan(Scan { kind, dim }), &[x.into()])?;
                added_along(b, g, index, &shape, dim)?
            }
        };
        Ok(of.first(found))
    }
}

/// A scan from the end of a dimension.
fn reversed(b: &mut dyn OpBuilder, x: ValueId, dim: usize, kind: ScanKind) -> Result<ValueId> {
    let flip = Op::Flip(Flip { mask: 1 << dim });
    let back = b.push(flip.clone(), &[x.into()])?;
    let scan = b.push(Op::Scan(Scan { kind, dim }), &[back.into()])?;
    b.push(flip, &[scan.into()])
}

/// `x` moved by `by` elements along a dimension, `fill` where none comes from.
fn moved(
    b: &mut dyn OpBuilder,
    x: ValueId,
    (dim, by): (usize, isize),
    fill: f64,
) -> Result<ValueId> {
    let mut pads: SmallVec<[(isize, isize); 4]> = smallvec![(0, 0); dim];
    pads.push((by, -by));
    b.push(Op::Pad(Pad(pads)), &[x.into(), fill.into()])
}

/// Sₖ = gₖ + fₖ Sₖ₊₁ along a dimension, in as many steps as the length has binary digits (the scan of Hillis and Steele, Data
/// Parallel Algorithms, 1986). It is linear in g, and exact where factors are 0.
fn recurrence(
    b: &mut dyn OpBuilder,
    g: ValueId,
    mut factor: ValueId,
    dim: usize,
) -> Result<ValueId> {
    let len = b.shape(g)[dim];
    let (mut sum, mut step) = (g, 1);
    while step < len {
        let next = moved(b, sum, (dim, -(step as isize)), 0.0)?;
        let part = b.mul(factor, next)?;
        sum = b.add(sum, part)?;
        step *= 2;
        if step < len {
            let next = moved(b, factor, (dim, -((step / 2) as isize)), 0.0)?;
            factor = b.mul(factor, next)?;
        }
    }
    Ok(sum)
}

/// The gradient of running products: Pₖ₋₁ Sₖ, where P are the products and Sₖ = gₖ + xₖ₊₁ Sₖ₊₁. No quotient is taken, so that
/// zeros do no harm to it or to its own gradient.
fn of_product(b: &mut dyn OpBuilder, x: ValueId, g: ValueId, dim: usize) -> Result<ValueId> {
    let before = moved(b, x, (dim, 1), 1.0)?;
    let kind = ScanKind::Prod;
    let before = b.push(Op::Scan(Scan { kind, dim }), &[before.into()])?;
    let factor = moved(b, x, (dim, -1), 0.0)?;
    let sum = recurrence(b, g, factor, dim)?;
    b.mul(before, sum)
}

/// The gradient of running log Σ eˣ, y: Σ gᵢ eˣₖ⁻ʸᵢ over i ≥ k, which is eˣₖ⁻ʸₖ Sₖ with Sₖ = gₖ + eʸₖ⁻ʸₖ₊₁ Sₖ₊₁. No exponent
/// is positive, so that nothing overflows.
fn of_logarithm(
    b: &mut dyn OpBuilder,
    (x, y): (ValueId, ValueId),
    g: ValueId,
    dim: usize,
) -> Result<ValueId> {
    // Where y is −∞ no element has a share.
    let present = b.binary(BinaryOp::Gt, y, f64::NEG_INFINITY)?;
    let share = |b: &mut dyn OpBuilder, of: ValueId, all: ValueId| {
        let log = b.sub(of, all)?;
        let share = b.unary(UnaryOp::Exp, log)?;
        b.select(present, share, 0.0)
    };
    let own = share(b, x, y)?;
    let next = moved(b, y, (dim, -1), f64::INFINITY)?;
    let factor = share(b, y, next)?;
    let sum = recurrence(b, g, factor, dim)?;
    b.mul(own, sum)
}
