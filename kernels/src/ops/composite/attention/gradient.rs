//! The gradients of attention, from its result: the probabilities are computed again.
//!
//! With P = softmax(q·kᵀ·scale + mask), the result o = P·v and g its gradient, that of v is Pᵀ·g, and that of the scores
//! D = P ∘ (g·vᵀ − Σ g∘o), the sum over each row (Dao et al., FlashAttention, 2022): scale·D·k is that of q, scale·Dᵀ·q that
//! of k, and D that of an added mask.

use super::{Attention, Call, Scores, matrices};
use crate::arg::{Arg, array};
use crate::copy::{Dense, cast, join};
use crate::cpu::attention::Extent;
use crate::cpu::attention::gradient::Backward;
use crate::cpu::dense::{Plain, elements_mut};
use crate::cpu::reduce::reduce;
use crate::cpu::vector::Real;
use crate::cuda;
use crate::op::gradient::{Adjoint, Gradients, fit, reshaped, transposed, wide};
use crate::op::operator::{Inferred, OnDevice, Operator, facts, text};
use crate::op::{Cat, Narrow};
use crate::ops::composite::build::{float, promoted, value};
use crate::ops::composite::{Definition, derived, infer_by_definition, run_definition};
use crate::{
    ArgMeta, Array, Class, Composite, Op, OpBuilder, OpBuilderExt, Operand, ReduceKind, ValueId,
    WEIGHTS,
};
use ferrotrace_runtime::{DType, Device, Element, Layout, Result, Shape};
use smallvec::SmallVec;

/// The gradients of the query, the key and the value of an attention, one behind the other in one dimension: operands q, k,
/// v, the result, its gradient, mask if present. Programs do not record it; the gradient of attention does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionGradient {
    /// Whether a mask is among the operands.
    pub mask: bool,
    /// Whether later keys are hidden.
    pub causal: bool,
    /// Bits of the scale (binary64); NaN: 1/√d.
    pub scale: u64,
}

impl Operator for AttentionGradient {
    text!("scaled_dot_product_attention_gradient" { mask = mask, causal = causal, scale = scale as bits });
    facts! {
        class: Class::Library,
        light: false,
        jumps: false,
        // Scores and their softmax again, and four products.
        work: |_, of| {
            let (queries, keys) = (of.numel(0) / of.last(0, 1).max(1), of.last(1, 2));
            queries * keys * (6 * of.last(0, 1) + WEIGHTS.function + 6 + 4 * of.last(2, 1))
        }
    }
    derived!();

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_by_definition(self, args)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let mask = self.mask.then_some(5);
        let scale = f64::from_bits(self.scale);
        let call = Call::new(args, dtype.compute(), (mask, self.causal), scale)?;
        let e = call.extent();
        if [e.queries, e.keys, e.width, e.values, shape.numel()].contains(&0) {
            return run_definition(self, args, shape, dtype);
        }
        let parts = match dtype.compute() {
            DType::F64 => call.gradients::<f64>(args)?,
            _ => call.gradients::<f32>(args)?,
        };
        let out = Array::empty(call.q.buffer.device(), shape.clone(), dtype)?;
        let mut start = 0;
        for (i, part) in parts.iter().enumerate() {
            // Matrices that several of the batch share have the sum of their gradients.
            let to = array(args, i)?.shape();
            let mut shared = part.clone();
            if part.shape() != to {
                let lead = part.shape().rank() - to.rank();
                let broadcast = |d: &usize| *d < lead || to[*d - lead] != part.shape()[*d];
                let mask = (0..part.shape().rank()).filter(broadcast);
                let mask = mask.fold(0u64, |mask, d| mask | 1 << d);
                let kept = part.shape().reduced(mask, true);
                shared = reduce(ReduceKind::Sum, mask, part, &kept, part.dtype)?;
            }
            let flat = shared.with_layout(Layout::contiguous(Shape::from(to.numel())));
            join(&out, 0, &[(start, &flat)])?;
            start += to.numel();
        }
        Ok(out)
    }
}

impl OnDevice for AttentionGradient {
    fn has(&self, args: &[ArgMeta<'_>], shared: usize) -> bool {
        cuda::attention::takes(args, self.causal, shared)
    }

    fn run_on(
        &self,
        _: &Device,
        args: &[Arg],
        _: &Shape,
        _: DType,
        _: Dense<'_>,
    ) -> Result<Option<Array>> {
        let arrays: Result<SmallVec<[&Array; 6]>> =
            (0..args.len()).map(|i| array(args, i)).collect();
        cuda::attention::gradients(&arrays?, self.causal, f64::from_bits(self.scale))
    }
}

impl Call {
    /// The gradients of query, key and value, one for each matrix of the broadcast batch.
    fn gradients<T: Element + Real + Plain>(&self, args: &[Arg]) -> Result<[Array; 3]> {
        let Extent {
            queries,
            keys,
            width,
            values,
        } = self.extent();
        let (result, gradient) = (
            cast(array(args, 3)?, T::DTYPE)?,
            cast(array(args, 4)?, T::DTYPE)?,
        );
        let rank = gradient.shape().rank() - 2;
        let batch = Shape::new(&gradient.shape()[..rank]);
        let of = |x, rows, columns| matrices::<T>(x, &batch, rows, columns);
        let pulled = Backward {
            q: of(&self.q, queries, width)?,
            k: of(&self.k, keys, width)?,
            v: of(&self.v, keys, values)?,
            mask: self.mask(&batch)?,
            result: of(&result, queries, values)?,
            gradient: of(&gradient, queries, values)?,
        };
        let empty = |rows: usize, columns: usize| {
            let shape = batch.iter().copied().chain([rows, columns]).collect();
            Array::empty(self.q.buffer.device(), shape, T::DTYPE)
        };
        let mut to = [
            empty(queries, width)?,
            empty(keys, width)?,
            empty(keys, values)?,
        ];
        let [dq, dk, dv] = &mut to;
        let memory = [elements_mut(dq)?, elements_mut(dk)?, elements_mut(dv)?];
        pulled.gradients(self.extent(), self.scale(), memory)?;
        Ok(to)
    }
}

impl Definition for AttentionGradient {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        let attention = Attention {
            mask: self.mask,
            causal: self.causal,
            scale: self.scale,
        };
        let mask = match self.mask {
            true => Some(value(args, 5)?),
            false => None,
        };
        let pulled = Pulled {
            operands: [value(args, 0)?, value(args, 1)?, value(args, 2)?],
            mask,
            result: value(args, 3)?,
            gradient: value(args, 4)?,
        };
        let (parts, _) = pulled.gradients(&attention, b, [true; 3])?;
        let dtype = b.dtype(pulled.gradient);
        let mut flat: SmallVec<[Operand; 3]> = SmallVec::new();
        for (part, like) in parts.into_iter().zip(pulled.operands) {
            let Some(part) = part else { continue };
            let shape = b.shape(like).clone();
            let part = fit(b, part, &shape, dtype)?;
            flat.push(reshaped(b, part, &Shape::from(shape.numel()))?.into());
        }
        b.push(Op::from(Cat { dim: 0 }), &flat)
    }

    fn has_kernel(&self) -> bool {
        true
    }
}

/// What the gradients of an attention follow from.
struct Pulled {
    /// Query, key, value.
    operands: [ValueId; 3],
    mask: Option<ValueId>,
    result: ValueId,
    gradient: ValueId,
}

impl Pulled {
    /// The gradients of the operands that are asked for, and of the scores with the mask, of broadcast shapes.
    fn gradients(
        &self,
        op: &Attention,
        b: &mut dyn OpBuilder,
        wanted: [bool; 3],
    ) -> Result<([Option<ValueId>; 3], Option<ValueId>)> {
        let [q, k, v] = self.operands;
        let dtype: DType = float(promoted(b, &[q.into(), k.into(), v.into()]));
        let compute = dtype.compute();
        let wide_operands = (b.cast(q, compute)?, b.cast(k, compute)?);
        let scores = Scores::new(op, b, wide_operands)?;
        let p = scores.probabilities(b, self.mask)?;
        let mut parts = [None; 3];
        if wanted[2] {
            let rounded = b.cast(p, dtype)?;
            let columns = transposed(b, rounded)?;
            parts[2] = Some(b.matmul(columns, self.gradient)?);
        }
        if !wanted[0] && !wanted[1] && self.mask.is_none() {
            return Ok((parts, None));
        }
        let g = wide(b, self.gradient)?;
        let values = b.cast(v, compute)?;
        let columns = transposed(b, values)?;
        let products = b.matmul(g, columns)?;
        let result = wide(b, self.result)?;
        let along = b.mul(g, result)?;
        let last = 1 << (b.shape(along).rank() - 1);
        let along = b.reduce(ReduceKind::Sum, along, last, true)?;
        let rest = b.sub(products, along)?;
        let d = b.mul(rest, p)?;
        let rounded = b.cast(d, dtype)?;
        // The scale is multiplied where there are fewest elements.
        let scaled = |b: &mut dyn OpBuilder, x: ValueId| {
            let x = b.cast(x, compute)?;
            let x = b.mul(x, scores.scale)?;
            b.cast(x, dtype)
        };
        if wanted[0] {
            let keys = scaled(b, k)?;
            parts[0] = Some(b.matmul(rounded, keys)?);
        }
        if wanted[1] {
            let queries = scaled(b, q)?;
            let columns = transposed(b, rounded)?;
            parts[1] = Some(b.matmul(columns, queries)?);
        }
        Ok((parts, Some(d)))
    }
}

/// The gradients as [`AttentionGradient`] gives them, of which no more is held at once than needed; an added mask that has
/// one needs that of the scores.
pub(super) fn vjp(op: &Attention, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
    let operands = [of.value(0)?, of.value(1)?, of.value(2)?];
    let mut gradients = of.none();
    let mask = match op.mask {
        true => Some(of.value(3)?),
        false => None,
    };
    if of.wants(3) {
        let pulled = Pulled {
            operands,
            mask,
            result: of.result,
            gradient: of.gradient,
        };
        let wanted = [of.wants(0), of.wants(1), of.wants(2)];
        let (parts, scores) = pulled.gradients(op, b, wanted)?;
        gradients[..3].copy_from_slice(&parts);
        gradients[3] = scores;
        return Ok(gradients);
    }
    let mask = match mask {
        Some(mask) if b.dtype(mask).is_half() => Some(wide(b, mask)?),
        mask => mask,
    };
    let all = Composite::from(AttentionGradient {
        mask: op.mask,
        causal: op.causal,
        scale: op.scale,
    });
    let given = operands
        .into_iter()
        .chain([of.result, of.gradient])
        .chain(mask);
    let given: SmallVec<[Operand; 6]> = given.map(Operand::from).collect();
    let packed = b.push(Op::from(all), &given)?;
    let mut start = 0;
    for (i, operand) in operands.into_iter().enumerate() {
        let shape = b.shape(operand).clone();
        let len = shape.numel();
        if of.wants(i) {
            let part = Narrow { dim: 0, start, len };
            let part = b.push(Op::from(part), &[packed.into()])?;
            gradients[i] = Some(reshaped(b, part, &shape)?);
        }
        start += len as isize;
    }
    Ok(gradients)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::*;
    use super::AttentionGradient;
    use crate::Arg;
    use crate::Composite;
    use crate::op::operator::Operator;
    use crate::ops::composite::run_definition;
    use ferrotrace_runtime::DType::{self, *};

    /// Beside the definition, which holds all scores.
    #[track_caller]
    fn as_defined(op: &AttentionGradient, args: &[Arg]) {
        let metas: Vec<_> = args.iter().map(Arg::meta).collect();
        let (shape, dtype) = op.infer(&metas).expect("a shape");
        let want = run_definition(op, args, &shape, dtype).expect("the definition");
        check(
            Composite::from(op.clone()),
            args,
            shape.dims(),
            dtype,
            &read(&want),
        );
    }

    #[test]
    fn by_blocks() {
        // Query, key, value: more queries than a block has; matrices that several of the batch share.
        let cases: [[&[usize]; 3]; 4] = [
            [&[3, 4], &[5, 4], &[5, 2]],
            [&[2, 150, 8], &[2, 170, 8], &[2, 170, 5]],
            [&[2, 3, 4, 2], &[2, 1, 5, 2], &[1, 5, 3]],
            [&[1, 130, 2], &[3, 1, 140, 2], &[2, 140, 1]],
        ];
        for dtype in [F64, F32] {
            for [q, k, v] in cases {
                let of = |dims: &[usize], seed: u64| {
                    t(dims, dtype, &sample(dims.iter().product(), seed))
                };
                let lead = |dims: &[usize]| dims[..dims.len() - 2].to_vec();
                let batch = [q, k, v]
                    .map(lead)
                    .into_iter()
                    .fold(vec![], |all: Vec<usize>, own| {
                        let rank = all.len().max(own.len());
                        let at = |x: &[usize], d: usize| {
                            (d + x.len()).checked_sub(rank).map_or(1, |d| x[d])
                        };
                        (0..rank).map(|d| at(&all, d).max(at(&own, d))).collect()
                    });
                let (rows, keys) = (q[q.len() - 2], k[k.len() - 2]);
                let to = [&batch[..], &[rows, v[v.len() - 1]]].concat();
                let args = [of(q, 1), of(k, 2), of(v, 3), of(&to, 4), of(&to, 5)];
                let op = |mask, causal, scale: f64| AttentionGradient {
                    mask,
                    causal,
                    scale: scale.to_bits(),
                };
                as_defined(&op(false, false, f64::NAN), &args);
                as_defined(&op(false, true, 0.7), &args);
                // The first query sees no key.
                let seen = (0..rows * keys).map(|i| f64::from(u8::from(i >= keys && i % 3 != 1)));
                let seen: Vec<f64> = seen.collect();
                let added = sample(rows * keys, 6);
                let masks: [(DType, &[f64]); 2] = [(Bool, &seen), (dtype, &added)];
                for (kind, mask) in masks {
                    let with = [&args[..], &[t(&[rows, keys], kind, mask)]].concat();
                    as_defined(&op(true, false, f64::NAN), &with);
                }
            }
        }
    }
}
