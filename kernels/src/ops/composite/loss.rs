//! Losses of elements or samples, their sums and means.

mod gradient;

use super::activation::log1p_exp_neg_abs;
use super::arrange;
use super::build::{all_dims, float, operand, promoted, tensor_of, value};
use super::{Definition, inferred};
use crate::op::gradient::{Adjoint, Gradients};
use crate::op::operator::Operator;
use crate::op::{Gather, Squeeze, Unsqueeze};
use crate::text::{Line, Named, Value, words};
use crate::{
    BinaryOp, Class, Op, OpBuilder, OpBuilderExt, Operand, ReduceKind, Sizes, UnaryOp, ValueId,
};
use ferrotrace_runtime::{DType, Error, Result, Scalar, Shape};

/// What a loss is of one element, or of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// (x − t)².
    Mse,
    /// The Huber-like loss: operands x, t, beta.
    SmoothL1,
    /// |x − t|.
    L1,
    /// The Huber loss: operands x, t, delta.
    Huber,
    /// eᵗ-free KL terms: operands log-probabilities x, probabilities t.
    KlDiv,
    /// `−x[class]`: operands log-probabilities (classes in dimension 1), class indices.
    Nll,
    /// Cross entropy of logits with class indices or probabilities.
    CrossEntropy,
    /// Binary cross entropy of logits.
    BceWithLogits,
}

const LOSSES: [Loss; 8] = [
    Loss::Mse,
    Loss::SmoothL1,
    Loss::L1,
    Loss::Huber,
    Loss::KlDiv,
    Loss::Nll,
    Loss::CrossEntropy,
    Loss::BceWithLogits,
];

/// What becomes of the losses of the elements (or samples).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// They stay.
    None,
    /// Their sum.
    Sum,
    /// Their mean: the loss without `_reduced`.
    Mean,
}

words! {
    Reduction: "mean, sum or none" {
        "mean" = Reduction::Mean,
        "sum" = Reduction::Sum,
        "none" = Reduction::None,
    }
}

/// A loss of x and t, and what becomes of those of elements or samples.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReducedLoss {
    /// The loss.
    pub loss: Loss,
    /// What becomes of them.
    pub reduction: Reduction,
}

impl Operator for ReducedLoss {
    fn name(&self) -> &'static str {
        name(self.loss)
    }

    fn attributes(&self) -> Vec<Named> {
        match self.reduction {
            Reduction::Mean => Vec::new(),
            other => vec![("reduction", other.write())],
        }
    }

    fn read(name: &str, line: &Line<'_>) -> Result<Option<ReducedLoss>> {
        let Some(loss) = LOSSES.into_iter().find(|&loss| self::name(loss) == name) else {
            return Ok(None);
        };
        let reduction = match line.has("reduction") {
            true => line.value("reduction")?,
            false => Reduction::Mean,
        };
        Ok(Some(ReducedLoss { loss, reduction }))
    }

    fn class(&self) -> Class {
        match (self.reduction, self.loss) {
            (Reduction::Sum | Reduction::Mean, _) => Class::Reduce,
            (Reduction::None, Loss::CrossEntropy) => Class::Reduce,
            (Reduction::None, Loss::Nll) => Class::Gather,
            (
                Reduction::None,
                Loss::Mse
                | Loss::SmoothL1
                | Loss::L1
                | Loss::Huber
                | Loss::KlDiv
                | Loss::BceWithLogits,
            ) => Class::Pointwise,
        }
    }

    fn is_light(&self) -> bool {
        false
    }

    fn jumps(&self, _: usize) -> bool {
        false
    }

    fn work(&self, of: &Sizes<'_>) -> u64 {
        of.elements()
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        self.pull(b, of)
    }

    inferred!();
}

impl Definition for ReducedLoss {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        decompose(self.loss, self.reduction, b, args)
    }

    fn told(&self, index: i64, size: usize) -> i64 {
        match self.loss {
            Loss::Nll | Loss::CrossEntropy => arrange::class_given(index, size),
            Loss::Mse
            | Loss::SmoothL1
            | Loss::L1
            | Loss::Huber
            | Loss::KlDiv
            | Loss::BceWithLogits => index,
        }
    }
}

/// The operands x and t in the dtype of their arithmetic, and the dtype of the result.
fn pair(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<(ValueId, ValueId, DType)> {
    let (x, t) = (value(args, 0)?, value(args, 1)?);
    let dtype = float(promoted(b, &[x.into(), t.into()]));
    Ok((
        b.cast(x, dtype.compute())?,
        b.cast(t, dtype.compute())?,
        dtype,
    ))
}

/// The losses before they are reduced.
struct Losses {
    /// In the dtype of their arithmetic.
    values: ValueId,
    /// The dimension of classes, whose values are the parts of a sample's loss.
    classes: Option<usize>,
    /// Samples that count for nothing.
    ignored: Option<ValueId>,
    /// The dtype of the result.
    dtype: DType,
}

impl Losses {
    /// A loss for each element, without classes.
    fn of((values, dtype): (ValueId, DType)) -> Losses {
        Losses {
            values,
            classes: None,
            ignored: None,
            dtype,
        }
    }
}

/// The name of a loss, as errors and text forms give it.
pub fn name(loss: Loss) -> &'static str {
    match loss {
        Loss::Mse => "mse_loss",
        Loss::SmoothL1 => "smooth_l1_loss",
        Loss::L1 => "l1_loss",
        Loss::Huber => "huber_loss",
        Loss::KlDiv => "kl_div",
        Loss::Nll => "nll_loss",
        Loss::CrossEntropy => "cross_entropy",
        Loss::BceWithLogits => "binary_cross_entropy_with_logits",
    }
}

/// A loss, reduced.
pub(super) fn decompose(
    loss: Loss,
    reduction: Reduction,
    b: &mut dyn OpBuilder,
    args: &[Operand],
) -> Result<ValueId> {
    let losses = match loss {
        Loss::Mse => Losses::of(mse(b, args)?),
        Loss::SmoothL1 => Losses::of(smooth_l1(b, args)?),
        Loss::L1 => Losses::of(l1(b, args)?),
        Loss::Huber => Losses::of(huber(b, args)?),
        Loss::KlDiv => Losses::of(kl_div(b, args)?),
        Loss::Nll => nll(b, args)?,
        Loss::CrossEntropy => cross_entropy(b, args)?,
        Loss::BceWithLogits => Losses::of(bce_with_logits(b, args)?),
    };
    let dtype = losses.dtype;
    let reduced = match reduction {
        Reduction::None => separate(b, &losses)?,
        Reduction::Sum => sum(b, &losses)?,
        Reduction::Mean => mean(b, &losses)?,
    };
    b.cast(reduced, dtype)
}

/// The losses, 0 where they are ignored.
fn counted(b: &mut dyn OpBuilder, losses: &Losses) -> Result<ValueId> {
    let zero = Operand::Const(Scalar::Bool(false));
    match losses.ignored {
        Some(ignored) => b.select(ignored, zero, losses.values),
        None => Ok(losses.values),
    }
}

/// One for each element or sample.
fn separate(b: &mut dyn OpBuilder, losses: &Losses) -> Result<ValueId> {
    let values = counted(b, losses)?;
    match losses.classes {
        None => Ok(values),
        Some(dim) if b.shape(values)[dim] == 1 => {
            b.push(Op::Squeeze(Squeeze { mask: 1 << dim }), &[values.into()])
        }
        Some(dim) => b.reduce(ReduceKind::Sum, values, 1 << dim, false),
    }
}

fn sum(b: &mut dyn OpBuilder, losses: &Losses) -> Result<ValueId> {
    let values = counted(b, losses)?;
    let mask = all_dims(b.shape(values).rank());
    b.reduce(ReduceKind::Sum, values, mask, false)
}

/// The mean of those that are not ignored: NaN of none.
fn mean(b: &mut dyn OpBuilder, losses: &Losses) -> Result<ValueId> {
    let shape = b.shape(losses.values).clone();
    let mask = all_dims(shape.rank());
    match (losses.ignored, losses.classes) {
        (Some(ignored), _) => {
            let of = b.dtype(losses.values);
            let sum = sum(b, losses)?;
            let counted = b.unary(UnaryOp::LogicalNot, ignored)?;
            let count = b.reduce(ReduceKind::Sum, counted, mask, false)?;
            let count = b.cast(count, of)?;
            b.div(sum, count)
        }
        (None, Some(dim)) if shape[dim] != 1 => {
            let sum = sum(b, losses)?;
            let count = shape.reduced(1 << dim, false).numel();
            b.div(sum, count as f64)
        }
        _ => b.reduce(ReduceKind::Mean, losses.values, mask, false),
    }
}

/// (x − t)².
fn mse(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<(ValueId, DType)> {
    let (x, t, dtype) = pair(b, args)?;
    let d = b.sub(x, t)?;
    Ok((b.unary(UnaryOp::Square, d)?, dtype))
}

/// ½d²/β where d = |x − t| < β, else d − ½β; d itself for β = 0.
fn smooth_l1(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<(ValueId, DType)> {
    let (x, t, dtype) = pair(b, args)?;
    let beta = tensor_of(b, operand(args, 2)?, dtype.compute())?;
    let difference = b.sub(x, t)?;
    let d = b.unary(UnaryOp::Abs, difference)?;
    let near = b.binary(BinaryOp::Lt, d, beta)?;
    // β = 0 must not put an infinity into the branch not taken.
    let positive = b.binary(BinaryOp::Gt, beta, 0.0)?;
    let divisor = b.select(positive, beta, 1.0)?;
    let half = b.mul(d, 0.5)?;
    let square = b.mul(half, d)?;
    let curve = b.div(square, divisor)?;
    let offset = b.mul(beta, 0.5)?;
    let line = b.sub(d, offset)?;
    Ok((b.select(near, curve, line)?, dtype))
}

/// |x − t|.
fn l1(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<(ValueId, DType)> {
    let (x, t, dtype) = pair(b, args)?;
    let d = b.sub(x, t)?;
    Ok((b.unary(UnaryOp::Abs, d)?, dtype))
}

/// ½d² where d = |x − t| ≤ δ, else δ(d − ½δ).
fn huber(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<(ValueId, DType)> {
    let (x, t, dtype) = pair(b, args)?;
    let delta = tensor_of(b, operand(args, 2)?, dtype.compute())?;
    let difference = b.sub(x, t)?;
    let d = b.unary(UnaryOp::Abs, difference)?;
    let near = b.binary(BinaryOp::Le, d, delta)?;
    let square = b.unary(UnaryOp::Square, difference)?;
    let curve = b.mul(square, 0.5)?;
    let offset = b.mul(delta, 0.5)?;
    let beyond = b.sub(d, offset)?;
    let line = b.mul(beyond, delta)?;
    Ok((b.select(near, curve, line)?, dtype))
}

/// t·(log t − x), 0·log 0 being 0; x are log-probabilities.
fn kl_div(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<(ValueId, DType)> {
    let (x, t, dtype) = pair(b, args)?;
    let zero = b.binary(BinaryOp::Eq, t, 0.0)?;
    let present = b.select(zero, 1.0, t)?;
    let log = b.unary(UnaryOp::Log, present)?;
    let d = b.sub(log, x)?;
    Ok((b.mul(t, d)?, dtype))
}

/// max(x, 0) − x·t + log(1 + e^−|x|).
fn bce_with_logits(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<(ValueId, DType)> {
    let (x, t, dtype) = pair(b, args)?;
    if b.shape(x) != b.shape(t) {
        return Err(Error::shape(format!(
            "logits {} and targets {} differ",
            b.shape(x),
            b.shape(t)
        )));
    }
    let positive = b.unary(UnaryOp::Relu, x)?;
    let product = b.mul(x, t)?;
    let line = b.sub(positive, product)?;
    let tail = log1p_exp_neg_abs(b, x)?;
    Ok((b.add(line, tail)?, dtype))
}

/// The dimension of classes: 1, or 0 of a vector.
fn class_dim(shape: &Shape) -> Result<usize> {
    match shape.rank() {
        0 => Err(Error::shape("a 0-d tensor has no dimension of classes")),
        1 => Ok(0),
        _ => Ok(1),
    }
}

/// The class that stands for none: a sample of it adds nothing to a loss, and does not count.
const IGNORED: i64 = -100;

/// `x` at the classes `t`, which keep their dimension as 1, and where they are [`IGNORED`], if they can be.
///
/// # Errors
/// `t` is not of integers, or its shape is not `x`'s without the dimension of classes.
fn at_classes(b: &mut dyn OpBuilder, x: ValueId, t: ValueId) -> Result<(ValueId, Option<ValueId>)> {
    let shape = b.shape(x);
    let dim = class_dim(shape)?;
    if !b.dtype(t).is_int() {
        return Err(Error::dtype(format!(
            "class indices must be integers, not {}: to_dtype(DType::I64) first",
            b.dtype(t)
        )));
    }
    let expected = shape.reduced(1 << dim, false);
    if *b.shape(t) != expected {
        return Err(Error::shape(format!(
            "classes of shape {} for scores of shape {shape}",
            b.shape(t)
        )));
    }
    let n = shape[dim];
    let index = b.push(Op::Unsqueeze(Unsqueeze { dim }), &[t.into()])?;
    if b.dtype(t) == DType::U8 {
        let taken = b.push(Op::Gather(Gather { dim }), &[x.into(), index.into()])?;
        return Ok((taken, None));
    }
    let index = b.cast(index, DType::I64)?;
    let ignored = b.binary(BinaryOp::Eq, index, IGNORED)?;
    let index = arrange::classes(b, index, n)?;
    let index = b.select(ignored, 0i64, index)?;
    let taken = b.push(Op::Gather(Gather { dim }), &[x.into(), index.into()])?;
    Ok((taken, Some(ignored)))
}

/// −x[class].
fn nll(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<Losses> {
    let (x, t) = (value(args, 0)?, value(args, 1)?);
    let dtype = float(b.dtype(x));
    let (taken, ignored) = at_classes(b, x, t)?;
    let taken = b.cast(taken, dtype.compute())?;
    Ok(Losses {
        values: b.unary(UnaryOp::Neg, taken)?,
        classes: Some(class_dim(b.shape(x))?),
        ignored,
        dtype,
    })
}

/// Of class indices, log Σ eˣ − x[class]; of probabilities t of x's shape, −t·log softmax(x), whose sum over the classes
/// is a sample's loss.
fn cross_entropy(b: &mut dyn OpBuilder, args: &[Operand]) -> Result<Losses> {
    let (x, t) = (value(args, 0)?, value(args, 1)?);
    let shape = b.shape(x).clone();
    let dim = class_dim(&shape)?;
    let by_index = b.dtype(t).is_int();
    let dtype = if by_index {
        float(b.dtype(x))
    } else {
        float(promoted(b, &[x.into(), t.into()]))
    };
    if !by_index && (!b.dtype(t).is_float() || *b.shape(t) != shape) {
        let (ty, other) = (b.dtype(t), b.shape(t));
        return Err(Error::shape(format!(
            "targets {ty}{other} are neither classes nor probabilities for {shape}"
        )));
    }
    if shape[dim] == 0 {
        return Err(Error::shape(format!(
            "no classes in dimension {dim} of shape {shape}"
        )));
    }
    let mask = 1 << dim;
    let taken = if by_index {
        Some(at_classes(b, x, t)?)
    } else {
        None
    };
    let x = b.cast(x, dtype.compute())?;
    let greatest = b.reduce(ReduceKind::Max, x, mask, true)?;
    let d = b.sub(x, greatest)?;
    let e = b.unary(UnaryOp::Exp, d)?;
    let sum = b.reduce(ReduceKind::Sum, e, mask, true)?;
    let log = b.unary(UnaryOp::Log, sum)?;
    let (values, ignored) = match taken {
        // Only the class's element: log-probabilities of all classes are never needed.
        Some((taken, ignored)) => {
            let taken = b.cast(taken, dtype.compute())?;
            let taken = b.sub(taken, greatest)?;
            (b.sub(log, taken)?, ignored)
        }
        None => {
            let t = b.cast(t, dtype.compute())?;
            let surprise = b.sub(log, d)?;
            (b.mul(t, surprise)?, None)
        }
    };
    Ok(Losses {
        values,
        classes: Some(dim),
        ignored,
        dtype,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::ReducedLoss;
    use crate::Composite;
    use crate::Loss::{self, *};
    use crate::Reduction::Mean;
    use ferrotrace_runtime::DType::{self, *};

    const NAN: f64 = f64::NAN;

    fn loss(of: Loss) -> Composite {
        let reduction = Mean;
        Composite::Loss(ReducedLoss {
            loss: of,
            reduction,
        })
    }

    fn average(values: impl IntoIterator<Item = f64>) -> [f64; 1] {
        let values: Vec<f64> = values.into_iter().collect();
        [values.iter().sum::<f64>() / values.len() as f64]
    }

    #[test]
    fn of_numbers() {
        let (x, y) = (sample(12, 22), sample(12, 23));
        let pairs = || x.iter().zip(&y);
        for dtype in FLOATS {
            let both = [t(&[3, 4], dtype, &x), t(&[3, 4], dtype, &y)];
            let mse = average(pairs().map(|(a, b)| (a - b).powi(2)));
            check(loss(Mse), &both, &[], dtype, &mse);
            for beta in [0.5, 1.0, 0.0] {
                let l1 = average(pairs().map(|(a, b)| {
                    let d = (a - b).abs();
                    if d < beta {
                        0.5 * d * d / beta
                    } else {
                        d - 0.5 * beta
                    }
                }));
                let args = [both[0].clone(), both[1].clone(), n(beta)];
                check(loss(SmoothL1), &args, &[], dtype, &l1);
            }
            let l1 = average(pairs().map(|(a, b)| (a - b).abs()));
            check(loss(L1), &both, &[], dtype, &l1);
            for delta in [0.5, 1.0, 10.0] {
                let huber = average(pairs().map(|(a, b)| {
                    let d = (a - b).abs();
                    if d <= delta {
                        0.5 * d * d
                    } else {
                        delta * (d - 0.5 * delta)
                    }
                }));
                let args = [both[0].clone(), both[1].clone(), n(delta)];
                check(loss(Huber), &args, &[], dtype, &huber);
            }
            let targets: Vec<f64> = y.iter().map(|y| (y + 2.0) / 4.0).collect();
            let bce = average(x.iter().zip(&targets).map(|(x, t)| {
                let p = 1.0 / (1.0 + (-x).exp());
                -(t * p.ln() + (1.0 - t) * (1.0 - p).ln())
            }));
            check(
                loss(BceWithLogits),
                &[both[0].clone(), t(&[3, 4], dtype, &targets)],
                &[],
                dtype,
                &bce,
            );
            let kl = average(
                x.iter()
                    .zip(&targets)
                    .map(|(x, t)| if *t == 0.0 { 0.0 } else { t * (t.ln() - x) }),
            );
            check(
                loss(KlDiv),
                &[both[0].clone(), t(&[3, 4], dtype, &targets)],
                &[],
                dtype,
                &kl,
            );
        }
    }

    #[test]
    fn extremes_and_broadcasts() {
        let (x, y) = ([200.0, -200.0], [1.0, 0.0]);
        check(
            loss(BceWithLogits),
            &[t(&[2], F32, &x), t(&[2], F32, &y)],
            &[],
            F32,
            &[0.0],
        );
        check(
            loss(BceWithLogits),
            &[t(&[2], F32, &y), t(&[2], F32, &[NAN, 0.0])],
            &[],
            F32,
            &[NAN],
        );
        refused(
            &loss(BceWithLogits),
            &[t(&[2], F32, &y), t(&[1], F32, &[0.0])],
        );
        check(
            loss(Mse),
            &[t(&[2], F32, &[1.0, 3.0]), t(&[], F32, &[1.0])],
            &[],
            F32,
            &[2.0],
        );
        check(
            loss(Mse),
            &[t(&[0], F32, &[]), t(&[0], F32, &[])],
            &[],
            F32,
            &[NAN],
        );
        check(
            loss(Mse),
            &[t(&[1], F16, &[1.0]), t(&[1], F64, &[3.0])],
            &[],
            F64,
            &[4.0],
        );
        check(
            loss(Mse),
            &[t(&[2], I32, &[1.0, 2.0]), t(&[2], I32, &[1.0, 4.0])],
            &[],
            F32,
            &[2.0],
        );
        // 300² is no binary16 number, but the mean over many is.
        let x: Vec<f64> = (0..64).map(|i| if i == 0 { 300.0 } else { 0.0 }).collect();
        check(
            loss(Mse),
            &[t(&[64], F16, &x), t(&[64], F16, &[0.0; 64])],
            &[],
            F16,
            &[1406.25],
        );
        refused(
            &loss(Mse),
            &[t(&[2], F32, &[0.0; 2]), t(&[3], F32, &[0.0; 3])],
        );
    }

    fn log_softmax(dims: &[usize], dim: usize, x: &[f64]) -> Vec<f64> {
        along(dims, dim, x, |row| {
            let sum = row.iter().map(|x| x.exp()).sum::<f64>();
            row.iter().map(|x| x - sum.ln()).collect()
        })
    }

    /// (shape, dimension of classes, class indices).
    const CASES: [(&[usize], usize, &[f64]); 4] = [
        (&[4, 3], 1, &[0.0, 2.0, 1.0, 2.0]),
        (&[2, 3, 2], 1, &[2.0, 0.0, 1.0, 1.0]),
        (&[12], 0, &[7.0]),
        (&[1, 12], 1, &[11.0]),
    ];

    #[test]
    fn of_class_indices() {
        let x = sample(12, 24);
        for (dims, dim, classes) in CASES {
            let (count, inner) = (dims[dim], dims[dim + 1..].iter().product::<usize>());
            let taken = |from: &[f64]| {
                let at = |(i, c): (usize, &f64)| {
                    from[i / inner * count * inner + *c as usize * inner + i % inner]
                };
                average(classes.iter().enumerate().map(at).map(|x| -x))
            };
            let kept: Vec<usize> = dims
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != dim)
                .map(|(_, n)| *n)
                .collect();
            for dtype in FLOATS {
                for index in [I64, I32, U8] {
                    let args = [t(dims, dtype, &x), t(&kept, index, classes)];
                    check(loss(Nll), &args, &[], dtype, &taken(&x));
                    check(
                        loss(CrossEntropy),
                        &args,
                        &[],
                        dtype,
                        &taken(&log_softmax(dims, dim, &x)),
                    );
                }
            }
        }
    }

    #[test]
    fn ignored_classes_do_not_count() {
        let x = [-1.0, -2.0, -4.0, -3.0, NAN, -6.0];
        let log = log_softmax(&[3, 2], 1, &x);
        for dtype in FLOATS {
            let args = |classes: [f64; 3]| [t(&[3, 2], dtype, &x), t(&[3], I64, &classes)];
            let one = args([1.0, 0.0, -100.0]);
            check(loss(Nll), &one, &[], dtype, &[3.0]);
            check(
                loss(CrossEntropy),
                &one,
                &[],
                dtype,
                &[-(log[1] + log[2]) / 2.0],
            );
            let none = args([-100.0; 3]);
            check(loss(Nll), &none, &[], dtype, &[NAN]);
            check(loss(CrossEntropy), &none, &[], dtype, &[NAN]);
        }
    }

    #[test]
    fn of_probabilities() {
        let (x, p) = (sample(12, 25), sample(12, 26));
        for (dims, dim, classes) in CASES {
            let log = log_softmax(dims, dim, &x);
            let sum: f64 = log.iter().zip(&p).map(|(l, p)| -l * p).sum();
            for dtype in FLOATS {
                let args = [t(dims, dtype, &x), t(dims, dtype, &p)];
                check(
                    loss(CrossEntropy),
                    &args,
                    &[],
                    dtype,
                    &[sum / classes.len() as f64],
                );
            }
        }
        let mixed = [t(&[1, 2], F16, &[0.0; 2]), t(&[1, 2], F32, &[0.25, 0.75])];
        check(loss(CrossEntropy), &mixed, &[], F32, &[2f64.ln()]);
    }

    #[test]
    fn what_classes_must_be() {
        let x = |dims: &[usize]| t(dims, F32, &vec![0.0; dims.iter().product()]);
        let c = |dims: &[usize], dtype: DType| t(dims, dtype, &vec![0.0; dims.iter().product()]);
        refused(&loss(Nll), &[x(&[2, 3]), c(&[2], F32)]);
        refused(&loss(Nll), &[x(&[2, 3]), c(&[2], Bool)]);
        refused(&loss(Nll), &[x(&[2, 3]), c(&[3], I64)]);
        refused(&loss(Nll), &[x(&[]), c(&[], I64)]);
        refused(&loss(CrossEntropy), &[x(&[2, 3]), c(&[2, 3], I64)]);
        refused(&loss(CrossEntropy), &[x(&[2, 3]), c(&[2], F32)]);
        refused(&loss(CrossEntropy), &[x(&[2, 3]), c(&[2, 3], Bool)]);
        refused(&loss(CrossEntropy), &[x(&[2, 0]), c(&[2], I64)]);
        check(loss(Nll), &[x(&[0, 3]), c(&[0], I64)], &[], F32, &[NAN]);
        check(
            loss(CrossEntropy),
            &[x(&[0, 3]), c(&[0], I64)],
            &[],
            F32,
            &[NAN],
        );
        check(
            loss(CrossEntropy),
            &[t(&[1, 2], F32, &[1e30, 0.0]), c(&[1], I64)],
            &[],
            F32,
            &[0.0],
        );
        for op in [loss(Nll), loss(CrossEntropy)] {
            for class in [2i64, -1, -2, -99, -101, 7] {
                let args = [x(&[2, 2]), t(&[2], I64, &[0.0, class as f64])];
                assert_eq!(outside(&op, &args), (class, 2));
            }
        }
    }
}
