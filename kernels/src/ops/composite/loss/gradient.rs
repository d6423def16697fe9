//! Gradients of losses in closed form.

use super::{IGNORED, Loss, ReducedLoss, Reduction, class_dim, decompose, pair};
use crate::op::gradient::{Adjoint, Gradients, by_definition, kept, wide};
use crate::op::{Iota, Unsqueeze};
use crate::ops::composite::build::{all_dims, float, operand, promoted, tensor_of};
use crate::{BinaryOp, Op, OpBuilder, OpBuilderExt, ReduceKind, UnaryOp, ValueId};
use ferrotrace_runtime::{DType, Result, Shape};

impl ReducedLoss {
    pub(super) fn pull(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let reduction = self.reduction;
        match self.loss {
            Loss::SmoothL1 if !of.wants(2) => smooth_l1(b, of, reduction),
            Loss::Huber if !of.wants(2) => huber(b, of, reduction),
            Loss::Nll => nll(b, of, reduction),
            Loss::CrossEntropy if b.dtype(of.value(1)?).is_int() => of_classes(b, of, reduction),
            Loss::CrossEntropy => of_probabilities(b, of, reduction),
            Loss::BceWithLogits => bce_with_logits(b, of, reduction),
            Loss::Mse | Loss::SmoothL1 | Loss::L1 | Loss::Huber | Loss::KlDiv => {
                by_definition(b, of, |b, args| decompose(self.loss, reduction, b, args))
            }
        }
    }
}

/// The gradient of each of so many losses.
fn share(
    b: &mut dyn OpBuilder,
    of: &Adjoint<'_>,
    reduction: Reduction,
    count: usize,
) -> Result<ValueId> {
    let g = wide(b, of.gradient)?;
    match reduction {
        Reduction::None | Reduction::Sum => Ok(g),
        Reduction::Mean => b.div(g, count as f64),
    }
}

/// Of a pair whose difference counts: the gradient of x, and its opposite.
fn opposite(b: &mut dyn OpBuilder, of: &Adjoint<'_>, gradient: ValueId) -> Result<Gradients> {
    let mut gradients = of.none();
    gradients[0] = of.wants(0).then_some(gradient);
    if of.wants(1) {
        gradients[1] = Some(b.unary(UnaryOp::Neg, gradient)?);
    }
    Ok(gradients)
}

/// d/β where |d| < β, else the sign of d.
fn smooth_l1(b: &mut dyn OpBuilder, of: &Adjoint<'_>, reduction: Reduction) -> Result<Gradients> {
    let (x, t, dtype) = pair(b, of.args)?;
    let beta = tensor_of(b, operand(of.args, 2)?, dtype.compute())?;
    let d = b.sub(x, t)?;
    let size = b.unary(UnaryOp::Abs, d)?;
    let near = b.binary(BinaryOp::Lt, size, beta)?;
    let positive = b.binary(BinaryOp::Gt, beta, 0.0)?;
    let divisor = b.select(positive, beta, 1.0)?;
    let (line, sign) = (b.div(d, divisor)?, b.unary(UnaryOp::Sign, d)?);
    let slope = b.select(near, line, sign)?;
    let count = b.shape(d).numel();
    let part = share(b, of, reduction, count)?;
    let gradient = b.mul(slope, part)?;
    opposite(b, of, gradient)
}

/// d where |d| ≤ δ, else δ with the sign of d.
fn huber(b: &mut dyn OpBuilder, of: &Adjoint<'_>, reduction: Reduction) -> Result<Gradients> {
    let (x, t, dtype) = pair(b, of.args)?;
    let delta = tensor_of(b, operand(of.args, 2)?, dtype.compute())?;
    let d = b.sub(x, t)?;
    let size = b.unary(UnaryOp::Abs, d)?;
    let near = b.binary(BinaryOp::Le, size, delta)?;
    let sign = b.unary(UnaryOp::Sign, d)?;
    let line = b.mul(sign, delta)?;
    let slope = b.select(near, d, line)?;
    let count = b.shape(d).numel();
    let part = share(b, of, reduction, count)?;
    let gradient = b.mul(slope, part)?;
    opposite(b, of, gradient)
}

/// σ(x) − t, and −x.
fn bce_with_logits(
    b: &mut dyn OpBuilder,
    of: &Adjoint<'_>,
    reduction: Reduction,
) -> Result<Gradients> {
    let (x, t, _) = pair(b, of.args)?;
    let count = b.shape(x).numel();
    let part = share(b, of, reduction, count)?;
    let mut gradients = of.none();
    if of.wants(0) {
        let gate = b.unary(UnaryOp::Sigmoid, x)?;
        let slope = b.sub(gate, t)?;
        gradients[0] = Some(b.mul(slope, part)?);
    }
    if of.wants(1) {
        let product = b.mul(x, part)?;
        gradients[1] = Some(b.unary(UnaryOp::Neg, product)?);
    }
    Ok(gradients)
}

/// Scores and classes of samples.
struct Classes {
    /// The dimension of classes.
    dim: usize,
    /// Where the class of a sample stands, in the shape of the scores.
    hot: ValueId,
    /// Samples that do not count, their dimension of classes kept as 1.
    ignored: Option<ValueId>,
    /// The gradient of each sample's loss, whether it counts or not.
    part: ValueId,
}

impl Classes {
    fn of(b: &mut dyn OpBuilder, of: &Adjoint<'_>, reduction: Reduction) -> Result<Classes> {
        let (shape, t) = (b.shape(of.value(0)?).clone(), of.value(1)?);
        let dim = class_dim(&shape)?;
        let index = b.push(Op::Unsqueeze(Unsqueeze { dim }), &[t.into()])?;
        let index = b.cast(index, DType::I64)?;
        let ignored = match b.dtype(t) {
            DType::U8 => None,
            _ => Some(b.binary(BinaryOp::Eq, index, IGNORED)?),
        };
        let mut along = Shape::scalar();
        along.dims_mut().resize(shape.rank(), 1);
        along.dims_mut()[dim] = shape[dim];
        let positions = b.push(Op::Iota(Iota { shape: along, dim }), &[])?;
        let hot = b.binary(BinaryOp::Eq, positions, index)?;
        let g = wide(b, of.gradient)?;
        let part = match (reduction, ignored) {
            (Reduction::Sum, _) => g,
            (Reduction::None, _) => kept(b, g, &shape, 1 << dim)?,
            (Reduction::Mean, None) => {
                let count = b.shape(index).numel();
                b.div(g, count as f64)?
            }
            (Reduction::Mean, Some(ignored)) => {
                let counted = b.unary(UnaryOp::LogicalNot, ignored)?;
                let mask = all_dims(shape.rank());
                let count = b.reduce(ReduceKind::Sum, counted, mask, false)?;
                let count = b.cast(count, b.dtype(g))?;
                b.div(g, count)?
            }
        };
        Ok(Classes {
            dim,
            hot,
            ignored,
            part,
        })
    }
}

/// −1 at the class.
fn nll(b: &mut dyn OpBuilder, of: &Adjoint<'_>, reduction: Reduction) -> Result<Gradients> {
    let classes = Classes::of(b, of, reduction)?;
    let negated = b.unary(UnaryOp::Neg, classes.part)?;
    b.select(classes.hot, negated, 0.0).map(|g| of.first(g))
}

/// eˣ⁻ᵐ, its sum, and x − m, with m = max x, over the dimensions of `mask`.
fn exponentials(b: &mut dyn OpBuilder, x: ValueId, mask: u64) -> Result<[ValueId; 3]> {
    let greatest = b.reduce(ReduceKind::Max, x, mask, true)?;
    let d = b.sub(x, greatest)?;
    let e = b.unary(UnaryOp::Exp, d)?;
    Ok([e, b.reduce(ReduceKind::Sum, e, mask, true)?, d])
}

/// softmax(x), less 1 at the class.
fn of_classes(b: &mut dyn OpBuilder, of: &Adjoint<'_>, reduction: Reduction) -> Result<Gradients> {
    let classes = Classes::of(b, of, reduction)?;
    let x = of.value(0)?;
    let dtype = float(b.dtype(x)).compute();
    let x = b.cast(x, dtype)?;
    let [e, sum, _] = exponentials(b, x, 1 << classes.dim)?;
    let p = b.div(e, sum)?;
    let hot = b.cast(classes.hot, dtype)?;
    let slope = b.sub(p, hot)?;
    let gradient = b.mul(slope, classes.part)?;
    let gradient = match classes.ignored {
        Some(ignored) => b.select(ignored, 0.0, gradient)?,
        None => gradient,
    };
    Ok(of.first(gradient))
}

/// softmax(x) Σ t − t, and −log softmax(x).
fn of_probabilities(
    b: &mut dyn OpBuilder,
    of: &Adjoint<'_>,
    reduction: Reduction,
) -> Result<Gradients> {
    let (x, t) = (of.value(0)?, of.value(1)?);
    let shape = b.shape(x).clone();
    let (dim, dtype) = (class_dim(&shape)?, promoted(b, of.args));
    let (mask, dtype) = (1 << dim, float(dtype).compute());
    let (x, t) = (b.cast(x, dtype)?, b.cast(t, dtype)?);
    let part = share(b, of, reduction, shape.reduced(mask, true).numel())?;
    let part = match reduction {
        Reduction::None => kept(b, part, &shape, mask)?,
        Reduction::Sum | Reduction::Mean => part,
    };
    let [e, sum, d] = exponentials(b, x, mask)?;
    let mut gradients = of.none();
    if of.wants(0) {
        let p = b.div(e, sum)?;
        let total = b.reduce(ReduceKind::Sum, t, mask, true)?;
        let slope = b.mul(p, total).and_then(|p| b.sub(p, t))?;
        gradients[0] = Some(b.mul(slope, part)?);
    }
    if of.wants(1) {
        let log = b.unary(UnaryOp::Log, sum)?;
        let surprise = b.sub(log, d)?;
        gradients[1] = Some(b.mul(surprise, part)?);
    }
    Ok(gradients)
}
