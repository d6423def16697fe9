//! The gradients of attention, from its result: the probabilities are computed again.
//!
//! With P = softmax(q·kᵀ·scale + mask), the result o = P·v and g its gradient, that of v is Pᵀ·g, and that of the scores
//! D = P ∘ (g·vᵀ − Σ g∘o), the sum over each row (Dao et al., FlashAttention, 2022): scale·D·k is that of q, scale·Dᵀ·q that
//! of k, and D that of an added mask.

use super::{Attention, Scores};
use crate::op::gradient::{Adjoint, Gradients, fit, reshaped, transposed, wide};
use crate::op::operator::{Operator, facts, text};
use crate::op::{Cat, Narrow};
use crate::ops::composite::build::{float, promoted, value};
use crate::ops::composite::{Definition, defined};
use crate::{Class, Composite, Op, OpBuilder, OpBuilderExt, Operand, ReduceKind, ValueId, WEIGHTS};
use ferrotrace_runtime::{DType, Result, Shape};
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
    defined!();
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
