//! Matrix products and convolutions with what surrounds them.

use super::build::{operand, reshape, transpose, value};
use super::{Definition, defined, inferred};
use crate::op::gradient::{Adjoint, Gradients, reshaped, transposed};
use crate::op::operator::{Operator, facts, text};
use crate::ops::matmul::folded;
use crate::text::{Line, Named, Value};
use crate::{
    ArgMeta, BinaryOp, Class, ConvSpec, Op, OpBuilder, OpBuilderExt, Operand, Unrounded, ValueId,
};
use ferrotrace_runtime::{DType, Error, Result, Shape};

/// x·wᵀ (+ b).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Linear {
    /// Whether a bias is among the operands.
    pub bias: bool,
}

impl Operator for Linear {
    text!("linear" { bias });
    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| of.elements() }
    inferred!();

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let (x, w, mut gradients) = (of.value(0)?, of.value(1)?, of.none());
        let (whole, weights) = (b.shape(x).clone(), b.shape(w).clone());
        // A vector is one row, a weight without outputs one of them.
        let inner = weights[weights.rank() - 1];
        let outputs = if weights.rank() == 1 { 1 } else { weights[0] };
        let matrix = Shape::from([outputs, inner]);
        let mut out = whole.clone();
        out.dims_mut()[whole.rank() - 1] = outputs;
        let gradient = match of.wants(0) || of.wants(1) {
            true => reshaped(b, of.gradient, &out)?,
            false => of.gradient,
        };
        if of.wants(0) {
            let w = reshaped(b, w, &matrix)?;
            gradients[0] = Some(b.matmul(gradient, w)?);
        }
        if of.wants(1) {
            let rows = |shape: &Shape| match shape.rank() {
                1 => Shape::from([1, shape[0]]),
                _ => folded(shape),
            };
            let x = reshaped(b, x, &rows(&whole))?;
            let gradient = reshaped(b, gradient, &rows(&out))?;
            let columns = transposed(b, gradient)?;
            let product = b.matmul(columns, x)?;
            gradients[1] = Some(reshaped(b, product, &weights)?);
        }
        if self.bias && of.wants(2) {
            gradients[2] = Some(of.gradient);
        }
        Ok(gradients)
    }
}

impl Definition for Linear {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        linear(b, args, self.bias)
    }
}

/// α·(a·b) + β·x, rounded once: operands a and b, x where it is added, then α and, where x is added, β, unless both are 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddMatmul {
    /// Whether x is added.
    pub added: bool,
    /// Whether there are factors.
    pub scaled: bool,
}

impl Operator for AddMatmul {
    text!("addmm" { added = added, scaled = scaled });
    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| 2 * of.result() * of.last(0, 1) }
    defined!();
}

impl Definition for AddMatmul {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        let (left, right) = (value(args, 0)?, value(args, 1)?);
        let dtype = b.dtype(left);
        let (wide, factors) = (dtype.compute(), 2 + usize::from(self.added));
        let y = summed(b, Op::Matmul, &[left.into(), right.into()])?;
        let mut y = b.cast(y, wide)?;
        if self.scaled {
            y = b.mul(y, operand(args, factors)?)?;
        }
        if self.added {
            let mut x = b.cast(value(args, 2)?, wide)?;
            if self.scaled {
                x = b.mul(x, operand(args, factors + 1)?)?;
            }
            y = b.add(y, x)?;
        }
        b.cast(y, dtype)
    }
}

/// Convolution with bias: operands x, weight, bias.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvBias(pub Box<ConvSpec>);

impl Operator for ConvBias {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn attributes(&self) -> Vec<Named> {
        let mut list = self.0.attributes();
        list.push(("bias", true.write()));
        list
    }

    fn read(name: &str, line: &Line<'_>) -> Result<Option<ConvBias>> {
        match line.has("bias") {
            true => Ok(ConvSpec::named(name, line)?.map(|spec| ConvBias(Box::new(spec)))),
            false => Ok(None),
        }
    }

    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| of.elements() }
    defined!();
}

impl Definition for ConvBias {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        conv_bias(b, args, &self.0)
    }
}

/// The operator's result as it was summed: a bias is to be added before it is rounded.
fn summed(b: &mut dyn OpBuilder, op: Op, operands: &[Operand; 2]) -> Result<ValueId> {
    b.push(Op::Unrounded(Unrounded(Box::new(op))), operands)
}

/// The sum `y` of operands whose common dtype is `dtype`, with a bias that must not change its shape, rounded once.
fn biased(b: &mut dyn OpBuilder, y: ValueId, bias: ValueId, dtype: DType) -> Result<ValueId> {
    let (shape, added) = (b.shape(y), b.shape(bias));
    if shape.broadcast(added).as_ref() != Some(shape) {
        return Err(Error::shape(format!(
            "a bias of shape {added} does not fit a result of shape {shape}"
        )));
    }
    let metas = [
        ArgMeta::Tensor(shape, dtype),
        ArgMeta::Tensor(added, b.dtype(bias)),
    ];
    let (_, dtype) = Op::Binary(BinaryOp::Add).infer(&metas)?;
    let (y, bias) = (b.cast(y, dtype.compute())?, b.cast(bias, dtype.compute())?);
    let sum = b.add(y, bias)?;
    b.cast(sum, dtype)
}

/// x·wᵀ (+ bias): x `[.., in]`, w `[out, in]` (or `[in]`, for one output without a dimension), bias `[out]`.
pub(super) fn linear(b: &mut dyn OpBuilder, args: &[Operand], bias: bool) -> Result<ValueId> {
    let (x, w) = (value(args, 0)?, value(args, 1)?);
    let w = match b.shape(w).rank() {
        1 => w,
        2 => transpose(b, w)?,
        _ => {
            return Err(Error::shape(format!(
                "a linear weight of shape {}",
                b.shape(w)
            )));
        }
    };
    let operands = [x.into(), w.into()];
    if !bias {
        return b.push(Op::Matmul, &operands);
    }
    let dtype = b.dtype(x).promote(b.dtype(w));
    let y = summed(b, Op::Matmul, &operands)?;
    biased(b, y, value(args, 2)?, dtype)
}

/// Convolution + one number a channel of the result.
pub(super) fn conv_bias(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    spec: &ConvSpec,
) -> Result<ValueId> {
    let (x, w, bias) = (value(args, 0)?, value(args, 1)?, value(args, 2)?);
    let dtype = b.dtype(x).promote(b.dtype(w));
    let y = summed(b, Op::Conv(Box::new(spec.clone())), &[x.into(), w.into()])?;
    let spatial = spec.stride.len();
    let shape = b.shape(y);
    let channels = shape[shape.rank() - spatial - 1];
    if b.shape(bias).dims() != [channels] {
        return Err(Error::shape(format!(
            "a bias of shape {} for {channels} channels",
            b.shape(bias)
        )));
    }
    let mut column = Shape::from(channels);
    column.dims_mut().resize(spatial + 1, 1);
    let bias = reshape(b, bias, &column)?;
    biased(b, y, bias, dtype)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::{ConvBias, Linear};
    use crate::{Composite, ConvSpec};
    use ferrotrace_runtime::DType::*;
    use smallvec::smallvec;

    #[test]
    fn linears() {
        let linear = |bias| Composite::from(Linear { bias });
        let (x, w, b) = (sample(24, 27), sample(20, 28), sample(5, 29));
        for dtype in FLOATS {
            for dims in [&[6usize, 4][..], &[2, 3, 4], &[24 / 4, 1, 4]] {
                let mut to = dims.to_vec();
                to[dims.len() - 1] = 5;
                let at = |i: usize| {
                    (0..4)
                        .map(|k| x[i / 5 * 4 + k] * w[i % 5 * 4 + k])
                        .sum::<f64>()
                };
                let plain: Vec<f64> = (0..30).map(at).collect();
                let moved: Vec<f64> = (0..30).map(|i| at(i) + b[i % 5]).collect();
                let (xt, wt, bt) = (
                    t(dims, dtype, &x),
                    t(&[5, 4], dtype, &w),
                    t(&[5], dtype, &b),
                );
                check(linear(false), &[xt.clone(), wt.clone()], &to, dtype, &plain);
                check(linear(true), &[xt, wt, bt], &to, dtype, &moved);
            }
            let row: Vec<f64> = (0..5)
                .map(|j| (0..4).map(|k| x[k] * w[j * 4 + k]).sum::<f64>() + b[j])
                .collect();
            let args = [
                t(&[4], dtype, &x[..4]),
                t(&[5, 4], dtype, &w),
                t(&[5], dtype, &b),
            ];
            check(linear(true), &args, &[5], dtype, &row);
        }
        let z = |dims: &[usize]| t(dims, F32, &vec![0.0; dims.iter().product()]);
        check(
            linear(true),
            &[z(&[0, 4]), z(&[5, 4]), z(&[5])],
            &[0, 5],
            F32,
            &[],
        );
        check(linear(false), &[z(&[2, 4]), z(&[4])], &[2], F32, &[0.0; 2]);
        refused(&linear(false), &[z(&[2, 4]), z(&[5, 3])]);
        refused(&linear(false), &[z(&[2, 4]), z(&[1, 5, 4])]);
        refused(&linear(true), &[z(&[2, 4]), z(&[5, 4]), z(&[3])]);
        refused(&linear(true), &[z(&[2, 4]), z(&[5, 4]), z(&[3, 2, 5])]);
    }

    #[test]
    fn convolutions_with_bias() {
        let spec = |n: usize| {
            Box::new(ConvSpec {
                stride: smallvec![1; n],
                padding: smallvec![0; n],
                dilation: smallvec![1; n],
                output_padding: smallvec![0; n],
                groups: 1,
                transposed: false,
            })
        };
        let x = t(&[1, 1, 3], F32, &[1.0, 2.0, 3.0]);
        let (w, b) = (
            t(&[2, 1, 2], F32, &[1.0, 1.0, 1.0, -1.0]),
            t(&[2], F32, &[10.0, 20.0]),
        );
        let want = [13.0, 15.0, 19.0, 19.0];
        check(
            Composite::ConvBias(ConvBias(spec(1))),
            &[x.clone(), w.clone(), b],
            &[1, 2, 2],
            F32,
            &want,
        );
        refused(
            &Composite::ConvBias(ConvBias(spec(1))),
            &[x, w, t(&[3], F32, &[0.0; 3])],
        );
        let x = t(&[1, 1, 2, 2], F64, &[1.0, 2.0, 3.0, 4.0]);
        let (w, b) = (
            t(&[2, 1, 1, 2], F64, &[1.0, 1.0, 1.0, -1.0]),
            t(&[2], F64, &[10.0, 20.0]),
        );
        check(
            Composite::ConvBias(ConvBias(spec(2))),
            &[x, w, b],
            &[1, 2, 2, 1],
            F64,
            &[13.0, 17.0, 19.0, 19.0],
        );
    }
}
