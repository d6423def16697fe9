//! Normalisations: statistics in F32 for the half types, the result in the operand's dtype.

mod gradient;

use super::build::{in_float, last_dims, operand, reshape, value};
use super::{Definition, defined, inferred, run_definition};
use crate::op::gradient::{Adjoint, Gradients};
use crate::op::operator::{Inferred, Operator, facts, text};
use crate::ops::tensor;
use crate::{
    Arg, ArgMeta, Array, BinaryOp, Class, OpBuilder, OpBuilderExt, Operand, ReduceKind, UnaryOp,
    ValueId,
};
use ferrotrace_runtime::{DType, Error, Result, Shape};

/// Layer norm over the last `n` dimensions: operands x, then weight and bias if present, then eps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LayerNorm {
    /// How many trailing dimensions.
    pub n: usize,
    /// Whether a weight is among the operands.
    pub weight: bool,
    /// Whether a bias is.
    pub bias: bool,
}

impl Operator for LayerNorm {
    text!("layer_norm" { n, weight, bias });
    facts! { class: Class::Reduce, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer(self.n, self.weight, self.bias, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        gradient::over_last(b, of, self.n, (self.weight, self.bias), true)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run_definition(self, args, shape, dtype)
    }
}

impl Definition for LayerNorm {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        layer_norm(b, args, self.n, self.weight, self.bias)
    }
}

/// Root-mean-square norm over the last `n` dimensions: operands x, weight if present, eps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RmsNorm {
    /// How many trailing dimensions.
    pub n: usize,
    /// Whether a weight is among the operands.
    pub weight: bool,
}

impl Operator for RmsNorm {
    text!("rms_norm" { n, weight });
    facts! { class: Class::Reduce, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer(self.n, self.weight, false, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        gradient::over_last(b, of, self.n, (self.weight, false), false)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run_definition(self, args, shape, dtype)
    }
}

impl Definition for RmsNorm {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        rms_norm(b, args, self.n, self.weight)
    }
}

/// Group norm over channel groups of dimension 1: operands x, weight and bias if present, eps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupNorm {
    /// How many groups.
    pub groups: usize,
    /// Whether a weight is among the operands.
    pub weight: bool,
    /// Whether a bias is.
    pub bias: bool,
}

impl Operator for GroupNorm {
    text!("group_norm" { groups, weight, bias });
    facts! { class: Class::Reduce, light: false, jumps: false, work: |_, of| of.elements() }
    inferred!();

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        gradient::of_groups(b, of, self.groups, (self.weight, self.bias))
    }
}

impl Definition for GroupNorm {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        group_norm(b, args, self.groups, self.weight, self.bias)
    }
}

/// Batch norm with given statistics: operands x, mean, var, weight and bias if present, eps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BatchNorm {
    /// Whether a weight is among the operands.
    pub weight: bool,
    /// Whether a bias is.
    pub bias: bool,
}

impl Operator for BatchNorm {
    text!("batch_norm" { weight, bias });
    facts! { class: Class::Pointwise, light: false, jumps: false, work: |_, of| of.elements() }
    defined!();
}

impl Definition for BatchNorm {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        batch_norm(b, args, self.weight, self.bias)
    }
}

/// What is normalised is of floats, and has `n` dimensions or more.
fn check_operand(shape: &Shape, dtype: DType, n: usize) -> Result<()> {
    if !dtype.is_float() {
        return Err(Error::dtype(format!(
            "a norm needs floating-point elements, not {dtype}: to_dtype(DType::F32) first"
        )));
    }
    if n == 0 || n > shape.rank() {
        return Err(Error::argument(format!(
            "a norm over the last {n} dimensions of shape {shape}"
        )));
    }
    Ok(())
}

/// A weight or bias has the shape `dims`.
fn check_affine(what: &str, shape: &Shape, dims: &[usize]) -> Result<()> {
    if shape.dims() == dims {
        return Ok(());
    }
    Err(Error::shape(format!(
        "the {what} has shape {shape} where {dims:?} is normalised"
    )))
}

/// The direct rule of layer norm and RMS norm.
pub(super) fn infer(n: usize, weight: bool, bias: bool, args: &[ArgMeta<'_>]) -> Inferred {
    let (shape, dtype) = tensor(args, 0)?;
    check_operand(shape, dtype, n)?;
    let last = &shape[shape.rank() - n..];
    for (i, what) in names(weight, bias).enumerate() {
        check_affine(what, tensor(args, i + 1)?.0, last)?;
    }
    if args.len() <= 1 + usize::from(weight) + usize::from(bias) {
        return Err(Error::argument("a norm needs its eps"));
    }
    Ok((shape.clone(), dtype))
}

/// Names of the affine operands, in order.
fn names(weight: bool, bias: bool) -> impl Iterator<Item = &'static str> {
    [("weight", weight), ("bias", bias)]
        .into_iter()
        .filter(|(_, present)| *present)
        .map(|(name, _)| name)
}

/// The weight and bias that stand from operand `at` on, and eps behind them; each must have the shape `dims`.
struct Affine {
    weight: Option<ValueId>,
    bias: Option<ValueId>,
    eps: Operand,
}

impl Affine {
    fn new(
        b: &dyn OpBuilder,
        args: &[Operand],
        mut at: usize,
        weight: bool,
        bias: bool,
        dims: &[usize],
    ) -> Result<Affine> {
        let mut next = |what: &str, present: bool| {
            if !present {
                return Ok(None);
            }
            let v = value(args, at)?;
            check_affine(what, b.shape(v), dims)?;
            at += 1;
            Ok(Some(v))
        };
        let (weight, bias) = (next("weight", weight)?, next("bias", bias)?);
        Ok(Affine {
            weight,
            bias,
            eps: operand(args, at)?,
        })
    }

    /// 1 / √(v + eps).
    fn inverse_root(&self, b: &mut dyn OpBuilder, v: ValueId) -> Result<ValueId> {
        let above = b.add(v, self.eps)?;
        b.unary(UnaryOp::Rsqrt, above)
    }

    /// y·weight + bias, those under the shape `dims`, which broadcasts against `y`.
    fn apply(&self, b: &mut dyn OpBuilder, mut y: ValueId, dims: &[usize]) -> Result<ValueId> {
        let dtype = b.dtype(y);
        if let Some(weight) = self.weight {
            let weight = b.cast(weight, dtype)?;
            let weight = reshape(b, weight, dims)?;
            y = b.mul(y, weight)?;
        }
        if let Some(bias) = self.bias {
            let bias = b.cast(bias, dtype)?;
            let bias = reshape(b, bias, dims)?;
            y = b.add(y, bias)?;
        }
        Ok(y)
    }
}

/// x − mean, and the mean of its square, over the dimensions of `mask` (kept). What the mean lacks by its rounding is
/// taken off both (Chan, Golub and LeVeque, 1983; ir T10).
fn centred(b: &mut dyn OpBuilder, x: ValueId, mask: u64) -> Result<(ValueId, ValueId)> {
    let mean = b.reduce(ReduceKind::Mean, x, mask, true)?;
    let d = b.sub(x, mean)?;
    let squares = b.unary(UnaryOp::Square, d)?;
    let var = b.reduce(ReduceKind::Mean, squares, mask, true)?;
    let rest = b.reduce(ReduceKind::Mean, d, mask, true)?;
    let square = b.unary(UnaryOp::Square, rest)?;
    let var = b.sub(var, square)?;
    let var = b.binary(BinaryOp::Maximum, var, 0.0)?;
    let d = b.sub(d, rest)?;
    Ok((d, var))
}

/// (x − mean) / √(var + eps) · weight + bias over the last `n` dimensions, whose shape weight and bias have (Ba et al.,
/// Layer Normalization, 2016).
pub(super) fn layer_norm(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    n: usize,
    weight: bool,
    bias: bool,
) -> Result<ValueId> {
    let x = value(args, 0)?;
    let shape = b.shape(x).clone();
    check_operand(&shape, b.dtype(x), n)?;
    let last = &shape[shape.rank() - n..];
    let affine = Affine::new(b, args, 1, weight, bias, last)?;
    in_float(b, x, |b, x| {
        let (d, var) = centred(b, x, last_dims(shape.rank(), n))?;
        let scale = affine.inverse_root(b, var)?;
        let y = b.mul(d, scale)?;
        affine.apply(b, y, last)
    })
}

/// x / √(mean x² + eps) · weight over the last `n` dimensions (Zhang and Sennrich, Root Mean Square Layer
/// Normalization, 2019).
pub(super) fn rms_norm(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    n: usize,
    weight: bool,
) -> Result<ValueId> {
    let x = value(args, 0)?;
    let shape = b.shape(x).clone();
    check_operand(&shape, b.dtype(x), n)?;
    let last = &shape[shape.rank() - n..];
    let affine = Affine::new(b, args, 1, weight, false, last)?;
    in_float(b, x, |b, x| {
        let squares = b.unary(UnaryOp::Square, x)?;
        let mean = b.reduce(ReduceKind::Mean, squares, last_dims(shape.rank(), n), true)?;
        let scale = affine.inverse_root(b, mean)?;
        let y = b.mul(x, scale)?;
        affine.apply(b, y, last)
    })
}

/// The channels of `x` (dimension 1), and the shape that broadcasts a vector of them against it.
fn channels(b: &dyn OpBuilder, x: ValueId) -> Result<(usize, Shape)> {
    let shape = b.shape(x);
    check_operand(shape, b.dtype(x), 1)?;
    if shape.rank() < 2 {
        return Err(Error::shape(format!(
            "shape {shape} has no channel dimension 1"
        )));
    }
    let mut column = Shape::from(shape[1]);
    column.dims_mut().resize(shape.rank() - 1, 1);
    Ok((shape[1], column))
}

/// A shape with its channels, dimension 1, as groups of channels.
fn grouped(shape: &Shape, groups: usize) -> Shape {
    let mut split = Shape::new(&[shape[0], groups, shape[1] / groups]);
    split.dims_mut().extend_from_slice(&shape[2..]);
    split
}

/// Layer norm of each group of channels, weight and bias being one number a channel (Wu and He, Group Normalization,
/// 2018).
pub(super) fn group_norm(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    groups: usize,
    weight: bool,
    bias: bool,
) -> Result<ValueId> {
    let x = value(args, 0)?;
    let (count, column) = channels(b, x)?;
    if groups == 0 || count % groups != 0 {
        return Err(Error::argument(format!(
            "{count} channels do not divide into {groups} groups"
        )));
    }
    let affine = Affine::new(b, args, 1, weight, bias, &[count])?;
    let shape = b.shape(x).clone();
    in_float(b, x, |b, x| {
        let split = grouped(&shape, groups);
        let grouped = reshape(b, x, &split)?;
        let (d, var) = centred(b, grouped, last_dims(split.rank(), split.rank() - 2))?;
        let scale = affine.inverse_root(b, var)?;
        let y = b.mul(d, scale)?;
        let y = reshape(b, y, &shape)?;
        affine.apply(b, y, &column)
    })
}

/// (x − mean) / √(var + eps) · weight + bias, all of these one number a channel of dimension 1 (Ioffe and Szegedy, Batch
/// Normalization, 2015, as it is at inference).
pub(super) fn batch_norm(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    weight: bool,
    bias: bool,
) -> Result<ValueId> {
    let x = value(args, 0)?;
    let (count, column) = channels(b, x)?;
    let (mean, var) = (value(args, 1)?, value(args, 2)?);
    check_affine("mean", b.shape(mean), &[count])?;
    check_affine("variance", b.shape(var), &[count])?;
    let affine = Affine::new(b, args, 3, weight, bias, &[count])?;
    in_float(b, x, |b, x| {
        let dtype = b.dtype(x);
        let mean = b.cast(mean, dtype)?;
        let mean = reshape(b, mean, &column)?;
        let var = b.cast(var, dtype)?;
        let scale = affine.inverse_root(b, var)?;
        let scale = reshape(b, scale, &column)?;
        let d = b.sub(x, mean)?;
        let y = b.mul(d, scale)?;
        affine.apply(b, y, &column)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::{BatchNorm, GroupNorm, LayerNorm, RmsNorm};
    use crate::Composite::*;
    use ferrotrace_runtime::DType::*;

    const EPS: f64 = 1e-5;

    fn normal(row: &[f64], eps: f64) -> Vec<f64> {
        let n = row.len() as f64;
        let mean = row.iter().sum::<f64>() / n;
        let var = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        row.iter()
            .map(|x| (x - mean) / (var + eps).sqrt())
            .collect()
    }

    #[test]
    fn layer_norms() {
        let (dims, x) = ([4, 2, 3], sample(24, 10));
        let (w, b) = (sample(6, 11), sample(6, 12));
        for dtype in FLOATS {
            for (n_dims, len) in [(1, 3), (2, 6)] {
                let of_last = &dims[3 - n_dims..];
                let plain: Vec<f64> = x.chunks(len).flat_map(|row| normal(row, EPS)).collect();
                let op = |weight, bias| {
                    LayerNorm(LayerNorm {
                        n: n_dims,
                        weight,
                        bias,
                    })
                };
                let x = t(&dims, dtype, &x);
                let (wt, bt) = (t(of_last, dtype, &w[..len]), t(of_last, dtype, &b[..len]));
                check(op(false, false), &[x.clone(), n(EPS)], &dims, dtype, &plain);
                let scaled: Vec<f64> = plain
                    .iter()
                    .enumerate()
                    .map(|(i, y)| y * w[i % len])
                    .collect();
                check(
                    op(true, false),
                    &[x.clone(), wt.clone(), n(EPS)],
                    &dims,
                    dtype,
                    &scaled,
                );
                let both: Vec<f64> = scaled
                    .iter()
                    .enumerate()
                    .map(|(i, y)| y + b[i % len])
                    .collect();
                check(
                    op(true, true),
                    &[x.clone(), wt, bt.clone(), n(EPS)],
                    &dims,
                    dtype,
                    &both,
                );
                let moved: Vec<f64> = plain
                    .iter()
                    .enumerate()
                    .map(|(i, y)| y + b[i % len])
                    .collect();
                check(op(false, true), &[x, bt, n(EPS)], &dims, dtype, &moved);
            }
        }
    }

    #[test]
    fn large_means_and_mixed_weights() {
        let op = LayerNorm(LayerNorm {
            n: 1,
            weight: true,
            bias: false,
        });
        let args = [
            t(&[2], BF16, &[256.0, 258.0]),
            t(&[2], F32, &[1.0, 3.0]),
            n(0.0),
        ];
        check(op.clone(), &args, &[2], BF16, &[-1.0, 3.0]);
        let x = [10000.0, 10001.0, 10002.0, 10003.0];
        let plain = LayerNorm(LayerNorm {
            n: 1,
            weight: false,
            bias: false,
        });
        check(
            plain.clone(),
            &[t(&[4], F32, &x), n(0)],
            &[4],
            F32,
            &normal(&x, 0.0),
        );
        check(
            plain.clone(),
            &[t(&[0, 3], F32, &[]), n(EPS)],
            &[0, 3],
            F32,
            &[],
        );
        check(
            plain.clone(),
            &[t(&[2, 0], F32, &[]), n(EPS)],
            &[2, 0],
            F32,
            &[],
        );
        check(
            plain.clone(),
            &[t(&[1], F32, &[f64::NAN]), n(EPS)],
            &[1],
            F32,
            &[f64::NAN],
        );
        refused(&plain, &[t(&[], F32, &[1.0]), n(EPS)]);
        refused(&plain, &[t(&[2], I32, &[1.0, 2.0]), n(EPS)]);
        refused(&plain, &[t(&[2], F32, &[1.0, 2.0])]);
        refused(
            &LayerNorm(LayerNorm {
                n: 0,
                weight: false,
                bias: false,
            }),
            &[t(&[2], F32, &[1.0, 2.0]), n(EPS)],
        );
        let message = refused(
            &op,
            &[t(&[3], F32, &[0.0; 3]), t(&[2], F32, &[0.0; 2]), n(EPS)],
        );
        assert!(
            message.contains("weight") && message.contains("[2]"),
            "{message}"
        );
    }

    #[test]
    fn rms_norms() {
        let (dims, x, w) = ([5, 4], sample(20, 13), sample(4, 14));
        for dtype in FLOATS {
            let root = |row: &[f64]| (row.iter().map(|x| x * x).sum::<f64>() / 4.0 + EPS).sqrt();
            let plain: Vec<f64> = x
                .chunks(4)
                .flat_map(|row| row.iter().map(|x| x / root(row)))
                .collect();
            let x = t(&dims, dtype, &x);
            check(
                RmsNorm(RmsNorm {
                    n: 1,
                    weight: false,
                }),
                &[x.clone(), n(EPS)],
                &dims,
                dtype,
                &plain,
            );
            let scaled: Vec<f64> = plain
                .iter()
                .enumerate()
                .map(|(i, y)| y * w[i % 4])
                .collect();
            let args = [x, t(&[4], dtype, &w), n(EPS)];
            check(
                RmsNorm(RmsNorm { n: 1, weight: true }),
                &args,
                &dims,
                dtype,
                &scaled,
            );
        }
        let whole = RmsNorm(RmsNorm {
            n: 2,
            weight: false,
        });
        check(
            whole,
            &[t(&[1, 2], F16, &[300.0, 400.0]), n(0.0)],
            &[1, 2],
            F16,
            &[0.84852814, 1.13137085],
        );
    }

    #[test]
    fn group_norms() {
        let (x, w, b) = (sample(48, 15), sample(4, 16), sample(4, 17));
        for dtype in FLOATS {
            for dims in [&[2usize, 4, 6][..], &[2, 4, 3, 2], &[12, 4]] {
                let inner: usize = dims[2..].iter().product();
                for groups in [1, 2, 4] {
                    let len = 4 / groups * inner;
                    let plain: Vec<f64> = x.chunks(len).flat_map(|row| normal(row, EPS)).collect();
                    let op = GroupNorm(GroupNorm {
                        groups,
                        weight: false,
                        bias: false,
                    });
                    check(op, &[t(dims, dtype, &x), n(EPS)], dims, dtype, &plain);
                    let channel = |i: usize| i / inner % 4;
                    let affine = plain
                        .iter()
                        .enumerate()
                        .map(|(i, y)| y * w[channel(i)] + b[channel(i)]);
                    let affine: Vec<f64> = affine.collect();
                    let op = GroupNorm(GroupNorm {
                        groups,
                        weight: true,
                        bias: true,
                    });
                    let args = [
                        t(dims, dtype, &x),
                        t(&[4], dtype, &w),
                        t(&[4], dtype, &b),
                        n(EPS),
                    ];
                    check(op, &args, dims, dtype, &affine);
                }
            }
        }
        let op = |groups| {
            GroupNorm(GroupNorm {
                groups,
                weight: false,
                bias: false,
            })
        };
        check(
            op(2),
            &[t(&[0, 4, 2], F32, &[]), n(EPS)],
            &[0, 4, 2],
            F32,
            &[],
        );
        refused(&op(3), &[t(&[1, 4], F32, &[0.0; 4]), n(EPS)]);
        refused(&op(0), &[t(&[1, 4], F32, &[0.0; 4]), n(EPS)]);
        refused(&op(1), &[t(&[4], F32, &[0.0; 4]), n(EPS)]);
    }

    #[test]
    fn batch_norms() {
        let (x, mean, var) = (sample(24, 18), sample(3, 19), [0.5, 1.0, 4.0]);
        let (w, b) = (sample(3, 20), sample(3, 21));
        for dtype in FLOATS {
            for dims in [&[2usize, 3, 4][..], &[8, 3], &[1, 3, 2, 4]] {
                let inner: usize = dims[2..].iter().product();
                let value = |i: usize| {
                    let c = i / inner % 3;
                    ((x[i] - mean[c]) / (var[c] + EPS).sqrt(), w[c], b[c])
                };
                let statistics = [t(dims, dtype, &x), t(&[3], F32, &mean), t(&[3], F32, &var)];
                let plain: Vec<f64> = (0..24).map(|i| value(i).0).collect();
                let mut args = statistics.to_vec();
                args.push(n(EPS));
                check(
                    BatchNorm(BatchNorm {
                        weight: false,
                        bias: false,
                    }),
                    &args,
                    dims,
                    dtype,
                    &plain,
                );
                let affine: Vec<f64> = (0..24)
                    .map(|i| value(i).0 * value(i).1 + value(i).2)
                    .collect();
                let mut args = statistics.to_vec();
                args.extend([t(&[3], dtype, &w), t(&[3], dtype, &b), n(EPS)]);
                check(
                    BatchNorm(BatchNorm {
                        weight: true,
                        bias: true,
                    }),
                    &args,
                    dims,
                    dtype,
                    &affine,
                );
            }
        }
        let args = [
            t(&[1, 2], F32, &[0.0; 2]),
            t(&[3], F32, &mean),
            t(&[3], F32, &var),
            n(EPS),
        ];
        assert!(
            refused(
                &BatchNorm(BatchNorm {
                    weight: false,
                    bias: false
                }),
                &args
            )
            .contains("mean")
        );
    }
}
