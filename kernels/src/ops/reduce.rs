//! Reductions over dimensions: shape and dtype rules, and the ready-made kernel.

use super::tensor;
use crate::eager::{Arg, array};
use crate::op::operator::{Inferred, Operator, attributes, facts, question};
use crate::op::text::Line;
use crate::{ArgMeta, Array, Class};
use ferrotrace_runtime::{DType, Error, ErrorKind, Result, Shape};

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceKind {
    /// Σ; integers and bools give `I64`.
    Sum,
    /// Π; integers and bools give `I64`.
    Prod,
    /// Σ / n, of floats.
    Mean,
    /// The greatest; NaN propagates.
    Max,
    /// The least; NaN propagates.
    Min,
    /// Whether any element is not zero (NaN counts).
    Any,
    /// Whether no element is zero.
    All,
    /// Row-major position, in the reduced dimensions, of the first greatest element (the first NaN if any): `I64`.
    ArgMax,
    /// Row-major position, in the reduced dimensions, of the first least element (the first NaN if any): `I64`.
    ArgMin,
}

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

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run(self.kind, self.mask, args, shape, dtype)
    }
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
