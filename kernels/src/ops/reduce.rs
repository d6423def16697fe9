//! Reductions over dimensions: shape and dtype rules, and the ready-made kernel.

use super::tensor;
use crate::arg::{Arg, array};
use crate::op::gradient::{Adjoint, Gradients, expanded, kept, reshaped, wide};
use crate::op::operator::{Inferred, Operator, attributes, facts, question};
use crate::op::{Flip, Pad, Permute, Scan};
use crate::text::Line;
use crate::{
    ArgMeta, Array, BinaryOp, Class, Op, OpBuilder, OpBuilderExt, ReduceKind, ScanKind, ValueId,
};
use ferrotrace_runtime::{DType, Error, ErrorKind, Result, Shape};
use smallvec::{SmallVec, smallvec};

const KINDS: [ReduceKind; 9] = [
    ReduceKind::Sum,
    ReduceKind::Prod,
    ReduceKind::Mean,
    ReduceKind::Max,
    ReduceKind::Min,
    ReduceKind::Any,
    ReduceKind::All,
    ReduceKind::ArgMax,
    ReduceKind::ArgMin,
];

/// A reduction over dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// What is computed.
    pub kind: ReduceKind,
    /// Bit per reduced dimension.
    pub mask: u64,
    /// Whether they stay as 1.
    pub keepdim: bool,
}

question! {
    /// The reduction that it is.
    as_reduce: Reduce(Reduce)
}

impl Operator for Reduce {
    fn name(&self) -> &'static str {
        name(self.kind)
    }

    attributes!(dims = mask as dims, keepdim = keepdim);

    fn read(name: &str, line: &Line<'_>) -> Result<Option<Reduce>> {
        let Some(kind) = KINDS.into_iter().find(|&kind| self::name(kind) == name) else {
            return Ok(None);
        };
        Ok(Some(Reduce {
            kind,
            mask: line.dims("dims")?,
            keepdim: line.value("keepdim")?,
        }))
    }

    facts! { class: Class::Reduce, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer(self.kind, self.mask, self.keepdim, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let (x, mut gradients) = (of.value(0)?, of.none());
        let shape = b.shape(x).clone();
        let g = kept(b, of.gradient, &shape, self.mask)?;
        gradients[0] = match self.kind {
            ReduceKind::Any | ReduceKind::All | ReduceKind::ArgMax | ReduceKind::ArgMin => None,
            ReduceKind::Sum => Some(expanded(b, g, &shape)?),
            ReduceKind::Mean => {
                let all = (0..shape.rank()).filter(|d| self.mask >> d & 1 == 1);
                let count: usize = all.map(|d| shape[d]).product();
                let part = b.div(g, count as f64)?;
                Some(expanded(b, part, &shape)?)
            }
            // Shared evenly by all that are extreme.
            ReduceKind::Max | ReduceKind::Min => {
                let y = kept(b, of.result, &shape, self.mask)?;
                let extreme = b.binary(BinaryOp::Eq, x, y)?;
                let one = b.cast(extreme, b.dtype(g).compute())?;
                let count = b.reduce(ReduceKind::Sum, one, self.mask, true)?;
                let wide = wide(b, g)?;
                let part = b.div(wide, count)?;
                // Of NaN nothing is extreme, and the gradient is NaN.
                Some(b.mul(one, part)?)
            }
            ReduceKind::Prod => Some(pull_product(b, x, g, self.mask)?),
        };
        Ok(gradients)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run(self.kind, self.mask, args, shape, dtype)
    }
}

/// The gradient of a product over the dimensions of `mask`, from `g`: for each element the product of all others, those
/// before it and those behind it, so that zeros among them do no harm.
fn pull_product(b: &mut dyn OpBuilder, x: ValueId, g: ValueId, mask: u64) -> Result<ValueId> {
    let shape = b.shape(x).clone();
    let rank = shape.rank();
    let reduces = |d: &usize| mask >> d & 1 == 1;
    let order: SmallVec<[usize; 6]> = (0..rank)
        .filter(|d| !reduces(d))
        .chain((0..rank).filter(reduces))
        .collect();
    let permute = |order: &[usize]| Op::Permute(Permute(order.iter().map(|&d| d as u8).collect()));
    let lined: Shape = order.iter().map(|&d| shape[d]).collect();
    let lead = (0..rank).filter(|d| !reduces(d)).count();
    let mut row: Shape = Shape::new(&lined[..lead]);
    let count: usize = lined[lead..].iter().product();
    row.dims_mut().push(count);
    let x = b.push(permute(&order), &[x.into()])?;
    let x = reshaped(b, x, &row)?;
    let scan = Op::Scan(Scan {
        kind: ScanKind::Prod,
        dim: lead,
    });
    let flip = Op::Flip(Flip { mask: 1 << lead });
    // The products of all that stand before each element, 1 for the first.
    let before = |b: &mut dyn OpBuilder, x: ValueId| {
        let mut pads: SmallVec<[(isize, isize); 4]> = smallvec![(0, 0); lead];
        pads.push((1, -1));
        let shifted = b.push(Op::Pad(Pad(pads)), &[x.into(), 1.0.into()])?;
        b.push(scan.clone(), &[shifted.into()])
    };
    let ahead = before(b, x)?;
    let reversed = b.push(flip.clone(), &[x.into()])?;
    let behind = before(b, reversed)?;
    let behind = b.push(flip, &[behind.into()])?;
    let others = b.mul(ahead, behind)?;
    let others = reshaped(b, others, &lined)?;
    let mut inverse = order.clone();
    for (out, &d) in order.iter().enumerate() {
        inverse[d] = out;
    }
    let others = b.push(permute(&inverse), &[others.into()])?;
    b.mul(g, others)
}

/// The reduction's name.
pub fn name(kind: ReduceKind) -> &'static str {
    match kind {
        ReduceKind::Sum => "sum",
        ReduceKind::Prod => "prod",
        ReduceKind::Mean => "mean",
        ReduceKind::Max => "max",
        ReduceKind::Min => "min",
        ReduceKind::Any => "any",
        ReduceKind::All => "all",
        ReduceKind::ArgMax => "argmax",
        ReduceKind::ArgMin => "argmin",
    }
}

/// The dtype of the result for elements of `dtype`; `None` where the reduction does not take them.
pub fn result_dtype(kind: ReduceKind, dtype: DType) -> Option<DType> {
    match kind {
        ReduceKind::Sum | ReduceKind::Prod if !dtype.is_float() => Some(DType::I64),
        ReduceKind::Mean if !dtype.is_float() => None,
        ReduceKind::Sum
        | ReduceKind::Prod
        | ReduceKind::Mean
        | ReduceKind::Max
        | ReduceKind::Min => Some(dtype),
        ReduceKind::Any | ReduceKind::All => Some(DType::Bool),
        ReduceKind::ArgMax | ReduceKind::ArgMin => Some(DType::I64),
    }
}

/// Whether the reduction of no elements has a value (ir R6).
pub fn has_identity(kind: ReduceKind) -> bool {
    !matches!(
        kind,
        ReduceKind::Max | ReduceKind::Min | ReduceKind::ArgMax | ReduceKind::ArgMin
    )
}

/// The shape and dtype of the result: dimensions of `mask` removed, or kept as 1.
///
/// # Errors
/// A dimension that is not there; a dtype not taken (mean of integers or truth values); an extreme of no elements, where
/// the result itself has elements (ir T1).
pub fn infer(kind: ReduceKind, mask: u64, keepdim: bool, args: &[ArgMeta<'_>]) -> Inferred {
    let (shape, dtype) = tensor(args, 0)?;
    let rank = shape.rank();
    if let Some(dim) = (0..64).rev().find(|&d| mask >> d & 1 == 1 && d >= rank) {
        return Err(Error::new(ErrorKind::Dim {
            dim: dim as isize,
            rank,
        }));
    }
    let result =
        result_dtype(kind, dtype).ok_or_else(|| Error::untaken(name(kind), dtype, DType::F32))?;
    let reduced = shape.reduced(mask, keepdim);
    if !has_identity(kind) && shape.numel() == 0 && reduced.numel() != 0 {
        return Err(Error::argument(format!(
            "{} of no elements: the shape is {shape}",
            name(kind)
        )));
    }
    Ok((reduced, result))
}

/// Runs the reduction on the CPU. `shape` and `dtype` are those of the result.
///
/// # Errors
/// Out of memory.
pub fn run(
    kind: ReduceKind,
    mask: u64,
    args: &[Arg],
    shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    crate::cpu::reduce::reduce(kind, mask, array(args, 0)?, shape, dtype)
}

#[cfg(test)]
mod tests {
    use super::*;
    use DType::*;

    fn rule(kind: ReduceKind, shape: &[usize], dtype: DType, mask: u64) -> Option<(Shape, DType)> {
        infer(
            kind,
            mask,
            false,
            &[ArgMeta::Tensor(&Shape::new(shape), dtype)],
        )
        .ok()
    }

    #[test]
    fn dtypes_are_pytorchs() {
        for (kind, from, to) in [
            (ReduceKind::Sum, I8, Some(I64)),
            (ReduceKind::Prod, Bool, Some(I64)),
            (ReduceKind::Sum, BF16, Some(BF16)),
            (ReduceKind::Mean, F16, Some(F16)),
            (ReduceKind::Mean, I32, None),
            (ReduceKind::Mean, Bool, None),
            (ReduceKind::Max, Bool, Some(Bool)),
            (ReduceKind::Any, F32, Some(Bool)),
            (ReduceKind::ArgMin, U8, Some(I64)),
        ] {
            assert_eq!(
                rule(kind, &[2, 3], from, 0b11).map(|r| r.1),
                to,
                "{kind:?} {from}"
            );
        }
    }

    #[test]
    fn no_elements() {
        for kind in [
            ReduceKind::Max,
            ReduceKind::Min,
            ReduceKind::ArgMax,
            ReduceKind::ArgMin,
        ] {
            assert_eq!(rule(kind, &[0, 3], F32, 0b01), None);
            assert_eq!(
                rule(kind, &[0, 3], F32, 0b10).map(|r| r.0),
                Some(Shape::from([0]))
            );
            assert_eq!(rule(kind, &[0], F32, 0b1), None);
        }
        assert_eq!(
            rule(ReduceKind::Sum, &[0], F32, 1).map(|r| r.0),
            Some(Shape::scalar())
        );
        assert_eq!(rule(ReduceKind::All, &[0], F32, 1).map(|r| r.1), Some(Bool));
    }

    #[test]
    fn dimensions_must_exist() {
        assert_eq!(rule(ReduceKind::Sum, &[2, 3], F32, 0b100), None);
        let kept = infer(
            ReduceKind::Sum,
            0b10,
            true,
            &[ArgMeta::Tensor(&Shape::from([2, 3]), F32)],
        );
        assert_eq!(kept.ok().map(|r| r.0), Some(Shape::from([2, 1])));
    }
}
