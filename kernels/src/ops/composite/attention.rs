//! Attention: its definition, and the ready-made kernel that never holds the scores.

mod gradient;

pub use gradient::AttentionGradient;

use super::build::{float, promoted, transpose, value};
use super::softmax;
use super::{Definition, infer_by_definition};
use crate::arg::{Arg, array};
use crate::copy::cast;
use crate::cpu::attention::{Extent, Mask, Matrices, attention};
use crate::cpu::dense::{Plain, elements_mut};
use crate::cpu::vector::Real;
use crate::cpu::view::View;
use crate::op::Iota;
use crate::op::gradient::{Adjoint, Gradients};
use crate::op::operator::{Inferred, Operator, facts, text};
use crate::ops::matmul::batched;
use crate::{
    ArgMeta, Array, BinaryOp, Class, Op, OpBuilder, OpBuilderExt, Operand, ValueId, WEIGHTS,
};
use ferrotrace_runtime::{DType, Element, Error, Result, Scalar, Shape};

/// Attention: operands q, k, v, mask if present.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Whether a mask is among the operands.
    pub mask: bool,
    /// Whether later keys are hidden.
    pub causal: bool,
    /// Bits of the scale (binary64); NaN: 1/√d.
    pub scale: u64,
}

impl Operator for Attention {
    text!("scaled_dot_product_attention" { mask = mask, causal = causal, scale = scale as bits });
    facts! {
        class: Class::Library,
        light: false,
        jumps: false,
        // Scores, their softmax, and the weighted sum of the values.
        work: |_, of| {
            let (queries, keys) = (of.numel(0) / of.last(0, 1).max(1), of.last(1, 2));
            queries * keys * (2 * of.last(0, 1) + WEIGHTS.function + 3 + 2 * of.last(2, 1))
        }
    }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_by_definition(self, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        gradient::vjp(self, b, of)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let scale = f64::from_bits(self.scale);
        run(args, self.mask, self.causal, scale, shape, dtype)
    }
}

impl Definition for Attention {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        decompose(b, args, self)
    }

    fn has_kernel(&self) -> bool {
        true
    }
}

/// softmax(q·kᵀ·scale + mask)·v over `[.., l, e]`, `[.., s, e]` and `[.., s, d]` (Vaswani et al., Attention Is All You
/// Need, 2017).
///
/// Where a truth mask is false, a number mask is −∞, or (causal) the key's position is greater than the query's, the
/// key is not seen. A query that sees no key gives zeros. Scores and softmax are in F32 for the half types; the
/// probabilities are rounded to the operands' dtype before the second product.
///
/// [`run`] computes the same without the matrix of scores.
pub(super) fn decompose(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    op: &Attention,
) -> Result<ValueId> {
    let (q, k, v) = (value(args, 0)?, value(args, 1)?, value(args, 2)?);
    for (what, x) in [("query", q), ("key", k), ("value", v)] {
        if b.shape(x).rank() < 2 {
            return Err(Error::shape(format!(
                "a {what} of shape {} has no rows",
                b.shape(x)
            )));
        }
    }
    if op.mask && op.causal {
        return Err(Error::argument(
            "attention is causal or takes a mask, not both",
        ));
    }
    let mask = match op.mask {
        true => Some(value(args, 3)?),
        false => None,
    };
    let dtype = float(promoted(b, &[q.into(), k.into(), v.into()]));
    let (q, k) = (b.cast(q, dtype.compute())?, b.cast(k, dtype.compute())?);
    let probabilities = Scores::new(op, b, (q, k))?.probabilities(b, mask)?;
    let probabilities = b.cast(probabilities, dtype)?;
    let v = b.cast(v, dtype)?;
    b.push(Op::Matmul, &[probabilities.into(), v.into()])
}

/// Products of queries and keys, scaled.
struct Scores {
    products: ValueId,
    scale: f64,
    causal: bool,
}

impl Scores {
    /// Of q and k, in the dtype of their arithmetic.
    fn new(op: &Attention, b: &mut dyn OpBuilder, (q, k): (ValueId, ValueId)) -> Result<Scores> {
        let width = *b.shape(q).last().unwrap_or(&1);
        let scale = match f64::from_bits(op.scale) {
            scale if scale.is_nan() => 1.0 / (width as f64).sqrt(),
            scale => scale,
        };
        let k = transpose(b, k)?;
        Ok(Scores {
            products: b.push(Op::Matmul, &[q.into(), k.into()])?,
            scale,
            causal: op.causal,
        })
    }

    /// Their softmax over the keys that each query sees.
    fn probabilities(&self, b: &mut dyn OpBuilder, mask: Option<ValueId>) -> Result<ValueId> {
        let scores = b.mul(self.products, self.scale)?;
        let keys = 1 << (b.shape(scores).rank() - 1);
        match mask {
            Some(mask) => {
                let scores = masked(b, scores, mask)?;
                softmax::over_masked(b, scores, keys)
            }
            None if self.causal => {
                // The first key is seen from everywhere.
                let scores = causally_masked(b, scores)?;
                softmax::over(b, scores, keys)
            }
            None => softmax::over(b, scores, keys),
        }
    }
}

fn masked(b: &mut dyn OpBuilder, scores: ValueId, mask: ValueId) -> Result<ValueId> {
    let (shape, hides) = (b.shape(scores), b.shape(mask));
    if shape.broadcast(hides).as_ref() != Some(shape) {
        return Err(Error::shape(format!(
            "a mask of shape {hides} for scores of shape {shape}"
        )));
    }
    match b.dtype(mask) {
        DType::Bool => b.select(mask, scores, f64::NEG_INFINITY),
        dtype if dtype.is_float() => {
            let mask = b.cast(mask, b.dtype(scores))?;
            b.add(scores, mask)
        }
        dtype => Err(Error::dtype(format!(
            "an attention mask is of truth values or floats, not {dtype}"
        ))),
    }
}

/// Row i sees columns 0 to i.
fn causally_masked(b: &mut dyn OpBuilder, scores: ValueId) -> Result<ValueId> {
    let shape = b.shape(scores);
    let (rows, columns) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    let row = b.push(
        Op::Iota(Iota {
            shape: Shape::from([rows, 1]),
            dim: 0,
        }),
        &[],
    )?;
    let column = b.push(
        Op::Iota(Iota {
            shape: Shape::from([1, columns]),
            dim: 1,
        }),
        &[],
    )?;
    let seen = b.binary(BinaryOp::Ge, row, column)?;
    b.select(
        seen,
        scores,
        Operand::Const(Scalar::Float(f64::NEG_INFINITY)),
    )
}

/// Computes the operator by blocks. `shape` and `dtype` are those of the result. Half types are computed in F32
/// throughout.
///
/// # Errors
/// Out of memory.
pub(super) fn run(
    args: &[Arg],
    mask: bool,
    causal: bool,
    scale: f64,
    shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    let compute = dtype.compute();
    let hides = mask.then_some(3);
    let call = Call::new(args, compute, (hides, causal), scale)?;
    let out = Array::empty(call.q.buffer.device(), shape.clone(), compute)?;
    let out = match compute {
        DType::F64 => call.run::<f64>(out)?,
        DType::F32 => call.run::<f32>(out)?,
        other => return Err(Error::internal(format!("attention of {other}"))),
    };
    cast(&out, dtype)
}

/// Operands in their compute type.
struct Call {
    q: Array,
    k: Array,
    v: Array,
    hides: Option<Array>,
    causal: bool,
    scale: f64,
}

impl Call {
    /// The operands, in the dtype of their arithmetic; the mask, if any, is the one at a place.
    fn new(
        args: &[Arg],
        compute: DType,
        (mask, causal): (Option<usize>, bool),
        scale: f64,
    ) -> Result<Call> {
        let operand = |i: usize| cast(array(args, i)?, compute);
        let hides = match mask {
            None => None,
            Some(i) => Some(match array(args, i)? {
                truth if truth.dtype == DType::Bool => truth.clone(),
                added => cast(added, compute)?,
            }),
        };
        Ok(Call {
            q: operand(0)?,
            k: operand(1)?,
            v: operand(2)?,
            hides,
            causal,
            scale,
        })
    }

    fn extent(&self) -> Extent {
        let last = |x: &Array, back: usize| x.shape()[x.shape().rank() - back];
        Extent {
            queries: last(&self.q, 2),
            keys: last(&self.k, 2),
            width: last(&self.q, 1),
            values: last(&self.v, 1),
        }
    }

    /// The mask of each matrix of the batch.
    fn mask<T: Element>(&self, batch: &Shape) -> Result<Mask<'_, T>> {
        let Extent { queries, keys, .. } = self.extent();
        Ok(match &self.hides {
            None if self.causal => Mask::Causal,
            None => Mask::None,
            Some(x) if x.dtype == DType::Bool => Mask::Truth(matrices(x, batch, queries, keys)?),
            Some(x) => Mask::Added(matrices::<T>(x, batch, queries, keys)?),
        })
    }

    fn scale<T: Real>(&self) -> T {
        T::from_f64(match self.scale.is_nan() {
            true => 1.0 / (self.extent().width as f64).sqrt(),
            false => self.scale,
        })
    }

    fn run<T: Element + Real + Plain>(&self, mut out: Array) -> Result<Array> {
        let extent = self.extent();
        let rank = out.shape().rank() - 2;
        let batch = Shape::new(&out.shape()[..rank]);
        let of = |x, rows, columns| matrices::<T>(x, &batch, rows, columns);
        let q = of(&self.q, extent.queries, extent.width)?;
        let k = of(&self.k, extent.keys, extent.width)?;
        let v = of(&self.v, extent.keys, extent.values)?;
        let (mask, scale) = (self.mask::<T>(&batch)?, self.scale());
        attention(extent, scale, &q, &k, &v, &mask, elements_mut(&mut out)?)?;
        Ok(out)
    }
}

/// The matrices of an operand, spread over the batch.
fn matrices<'a, T: Element>(
    x: &'a Array,
    batch: &Shape,
    rows: usize,
    columns: usize,
) -> Result<Matrices<'a, T>> {
    let (starts, row, col) = batched(&x.layout, batch, rows, columns)?;
    Ok(Matrices {
        starts,
        view: View {
            data: x.buffer.as_slice::<T>(),
            start: 0,
            row,
            col,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::Attention;
    use crate::Composite;
    use ferrotrace_runtime::DType::{self, *};

    /// Attention of one head by its definition: `seen(i, j)` is what is added to a score.
    fn reference(
        (q, k, v): (&[f64], &[f64], &[f64]),
        (l, s, e, d): (usize, usize, usize, usize),
        scale: f64,
        added: impl Fn(usize, usize) -> f64,
    ) -> Vec<f64> {
        let mut out = Vec::new();
        for i in 0..l {
            let score = |j: usize| {
                (0..e).map(|c| q[i * e + c] * k[j * e + c]).sum::<f64>() * scale + added(i, j)
            };
            let weights: Vec<f64> = (0..s).map(|j| score(j).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for c in 0..d {
                let total: f64 = (0..s).map(|j| weights[j] * v[j * d + c]).sum();
                out.push(if sum == 0.0 { 0.0 } else { total / sum });
            }
        }
        out
    }

    fn attention(mask: bool, causal: bool, scale: f64) -> Composite {
        Composite::Attention(Attention {
            mask,
            causal,
            scale: scale.to_bits(),
        })
    }

    #[test]
    fn attentions() {
        const HIDDEN: f64 = f64::NEG_INFINITY;
        let (l, s, e, d) = (3, 5, 4, 2);
        let (q, k, v) = (
            sample(2 * l * e, 30),
            sample(2 * s * e, 31),
            sample(2 * s * d, 32),
        );
        // The second query sees nothing.
        let seen: Vec<f64> = (0..l * s)
            .map(|i| f64::from(u8::from(i / s != 1 && i % 3 != 1)))
            .collect();
        let bias: Vec<f64> = sample(l * s, 33);
        let head = |h: usize| {
            (
                &q[h * l * e..][..l * e],
                &k[h * s * e..][..s * e],
                &v[h * s * d..][..s * d],
            )
        };
        let want = |scale: f64, added: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            (0..2)
                .flat_map(|h| reference(head(h), (l, s, e, d), scale, added))
                .collect()
        };
        for dtype in FLOATS {
            for lead in [&[2][..], &[2, 1], &[1, 2]] {
                let shape = |rest: [usize; 2]| [lead, &rest[..]].concat();
                let qkv = [
                    t(&shape([l, e]), dtype, &q),
                    t(&shape([s, e]), dtype, &k),
                    t(&shape([s, d]), dtype, &v),
                ];
                let to = shape([l, d]);
                let with = |mask| [&qkv[..], &[mask]].concat();
                check(
                    attention(false, false, f64::NAN),
                    &qkv,
                    &to,
                    dtype,
                    &want(0.5, &|_, _| 0.0),
                );
                check(
                    attention(false, false, 0.1),
                    &qkv,
                    &to,
                    dtype,
                    &want(0.1, &|_, _| 0.0),
                );
                let causal = want(0.5, &|i, j| if j <= i { 0.0 } else { HIDDEN });
                check(attention(false, true, f64::NAN), &qkv, &to, dtype, &causal);
                let masked = want(0.5, &|i, j| {
                    if seen[i * s + j] == 1.0 { 0.0 } else { HIDDEN }
                });
                let mask = with(t(&[l, s], Bool, &seen));
                check(attention(true, false, f64::NAN), &mask, &to, dtype, &masked);
                let added = want(0.5, &|i, j| bias[i * s + j]);
                let mask = with(t(&[l, s], dtype, &bias));
                check(attention(true, false, f64::NAN), &mask, &to, dtype, &added);
                let hidden = vec![HIDDEN; s];
                let mask = with(t(&[1, s], F32, &hidden));
                check(
                    attention(true, false, f64::NAN),
                    &mask,
                    &to,
                    dtype,
                    &vec![0.0; 2 * l * d],
                );
            }
        }
    }

    #[test]
    fn attention_at_the_edges() {
        let z = |dims: &[usize], dtype: DType| t(dims, dtype, &vec![0.0; dims.iter().product()]);
        let f = |q: &[usize], k: &[usize], v: &[usize]| [z(q, F32), z(k, F32), z(v, F32)];
        let plain = attention(false, false, f64::NAN);
        check(
            plain.clone(),
            &f(&[2, 3], &[0, 3], &[0, 4]),
            &[2, 4],
            F32,
            &[0.0; 8],
        );
        check(
            plain.clone(),
            &f(&[0, 3], &[2, 3], &[2, 4]),
            &[0, 4],
            F32,
            &[],
        );
        check(
            plain.clone(),
            &f(&[5, 1, 2, 3], &[4, 2, 3], &[4, 2, 1]),
            &[5, 4, 2, 1],
            F32,
            &[0.0; 40],
        );
        refused(&plain, &f(&[3], &[2, 3], &[2, 4]));
        refused(&plain, &f(&[2, 3], &[2, 4], &[2, 4]));
        refused(&plain, &f(&[2, 3], &[2, 3], &[3, 4]));
        let with = |mask| [&f(&[2, 3], &[2, 3], &[2, 4])[..], &[mask]].concat();
        refused(&attention(true, true, 1.0), &with(z(&[2, 2], F32)));
        refused(&attention(true, false, 1.0), &with(z(&[2, 2], I64)));
        refused(&attention(true, false, 1.0), &with(z(&[7, 2, 2], F32)));
    }

    /// More queries and keys than a block holds, strided and broadcast.
    #[test]
    fn attention_over_several_blocks() {
        let (l, s, e, d) = (150, 600, 8, 5);
        let (q, k, v) = (sample(l * e, 40), sample(s * e, 41), sample(s * d, 42));
        let causal = |i: usize, j: usize| if j <= i { 0.0 } else { f64::NEG_INFINITY };
        // Scores grow from block to block, so that every block changes what is summed about.
        let rising: Vec<f64> = (0..l * s).map(|i| (i % s) as f64 / 50.0).collect();
        for dtype in [F32, F64] {
            let qkv = [
                t(&[1, l, e], dtype, &q),
                t(&[1, s, e], dtype, &k),
                t(&[1, s, d], dtype, &v),
            ];
            let to = [1, l, d];
            let want = |added: &dyn Fn(usize, usize) -> f64| {
                reference((&q, &k, &v), (l, s, e, d), 0.25, added)
            };
            check(
                attention(false, true, 0.25),
                &qkv,
                &to,
                dtype,
                &want(&causal),
            );
            let mask = [&qkv[..], &[t(&[l, s], dtype, &rising)]].concat();
            let added = want(&|i, j| rising[i * s + j]);
            check(attention(true, false, 0.25), &mask, &to, dtype, &added);
        }
    }

    #[test]
    fn attention_to_nan_and_infinity() {
        let row = |x: f64| [1.0, x, 0.5];
        for bad in [f64::NAN, f64::INFINITY] {
            let (q, k) = (t(&[1, 1], F32, &[1.0]), t(&[3, 1], F32, &row(bad)));
            let v = t(&[3, 1], F32, &[1.0, 2.0, 3.0]);
            check(
                attention(false, false, 1.0),
                &[q, k, v],
                &[1, 1],
                F32,
                &[f64::NAN],
            );
        }
        // A score of -inf hides a key; where all are, nothing is defined.
        let (q, v) = (t(&[1, 1], F32, &[1.0]), t(&[3, 1], F32, &[1.0, 2.0, 3.0]));
        let k = t(&[3, 1], F32, &row(f64::NEG_INFINITY));
        let want = (1.0f64.exp() + 3.0 * 0.5f64.exp()) / (1.0f64.exp() + 0.5f64.exp());
        check(
            attention(false, false, 1.0),
            &[q.clone(), k, v.clone()],
            &[1, 1],
            F32,
            &[want],
        );
        let k = t(&[3, 1], F32, &[f64::NEG_INFINITY; 3]);
        check(
            attention(false, false, 1.0),
            &[q, k, v],
            &[1, 1],
            F32,
            &[f64::NAN],
        );
    }
}
