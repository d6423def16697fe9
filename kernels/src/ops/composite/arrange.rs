//! Elements chosen or moved by position.

use super::build::value;
use super::{Definition, defined};
use crate::op::operator::{Operator, attributes, facts, text};
use crate::op::{Cat, Index, Iota, Narrow, Unsqueeze};
use crate::text::Line;
use crate::{BinaryOp, Class, Op, OpBuilder, OpBuilderExt, Operand, ValueId};
use ferrotrace_runtime::{DType, Error, ErrorKind, Result, Scalar, Shape};
use smallvec::SmallVec;

/// The lower (or upper) triangle of the last two dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Triangle {
    /// Offset of the diagonal.
    pub k: isize,
    /// Upper instead of lower.
    pub upper: bool,
}

impl Operator for Triangle {
    fn name(&self) -> &'static str {
        if self.upper { "triu" } else { "tril" }
    }

    attributes!(k = k);

    fn read(name: &str, line: &Line<'_>) -> Result<Option<Triangle>> {
        let upper = match name {
            "tril" => false,
            "triu" => true,
            _ => return Ok(None),
        };
        let k = line.value("k")?;
        Ok(Some(Triangle { k, upper }))
    }

    facts! { class: Class::Pointwise, light: true, jumps: false, work: |_, of| of.elements() }
    defined!();
}

impl Definition for Triangle {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        triangle(b, args, self.k, self.upper)
    }
}

/// Elements moved along a dimension, those past the end to the front.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Roll {
    /// By how many.
    pub shift: isize,
    /// The dimension.
    pub dim: usize,
}

impl Operator for Roll {
    text!("roll" { shift, dim });
    facts! { class: Class::Arrange, light: false, jumps: false, work: |_, of| of.elements() }
    defined!();
}

impl Definition for Roll {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        roll(b, args, self.shift, self.dim)
    }
}

/// A new last dimension of `n`, 1 at the index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OneHot {
    /// Its size.
    pub n: usize,
}

impl Operator for OneHot {
    text!("one_hot" { n });
    facts! { class: Class::Pointwise, light: false, jumps: false, work: |_, of| of.elements() }
    defined!();
}

impl Definition for OneHot {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        one_hot(b, args, self.n)
    }

    fn told(&self, index: i64, size: usize) -> i64 {
        class_given(index, size)
    }
}

/// The class index that a program gave, of one that is out of range: [`classes`] moves those below 0.
pub(super) fn class_given(index: i64, size: usize) -> i64 {
    match index < 0 {
        true => index.saturating_add(size as i64),
        false => index,
    }
}

/// The elements of the last two dimensions with column − row ≤ `k` (`upper`: ≥ `k`), zeros elsewhere.
pub(super) fn triangle(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    k: isize,
    upper: bool,
) -> Result<ValueId> {
    let x = value(args, 0)?;
    let shape = b.shape(x);
    let &[.., rows, columns] = shape.dims() else {
        return Err(Error::shape(format!(
            "shape {shape} has no last two dimensions"
        )));
    };
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
    let above = b.sub(column, row)?;
    let kept = b.binary(
        if upper { BinaryOp::Ge } else { BinaryOp::Le },
        above,
        k as i64,
    )?;
    // False is the zero of every dtype, and promotes none.
    b.select(kept, x, Operand::Const(Scalar::Bool(false)))
}

/// Element i of a dimension moved to (i + `shift`) modulo its size.
pub(super) fn roll(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    shift: isize,
    dim: usize,
) -> Result<ValueId> {
    let x = value(args, 0)?;
    let shape = b.shape(x);
    if dim >= shape.rank() {
        return Err(Error::new(ErrorKind::Dim {
            dim: dim as isize,
            rank: shape.rank(),
        }));
    }
    let size = shape[dim];
    let moved = if size == 0 {
        0
    } else {
        shift.rem_euclid(size as isize) as usize
    };
    if moved == 0 {
        return Ok(x);
    }
    let mut part = |start: usize, len: usize| {
        b.push(
            Op::Narrow(Narrow {
                dim,
                start: start as isize,
                len,
            }),
            &[x.into()],
        )
    };
    let (front, back) = (part(size - moved, moved)?, part(0, size - moved)?);
    b.push(Op::Cat(Cat { dim }), &[front.into(), back.into()])
}

/// Class indices as `I64`, those below 0 less the number of classes: a read at one of them is refused, as at one that is
/// too great, where that of a place counted from the end is not. [`told`](super::told) says it as it was.
pub(super) fn classes(b: &mut dyn OpBuilder, index: ValueId, n: usize) -> Result<ValueId> {
    let index = b.cast(index, DType::I64)?;
    let negative = b.binary(BinaryOp::Lt, index, 0i64)?;
    let below = b.sub(index, n as i64)?;
    b.select(negative, below, index)
}

/// A new last dimension of `n`: 1 where its position is the class index, as `I64`.
///
/// An index outside `[0, n)` is an error when it runs.
pub(super) fn one_hot(b: &mut dyn OpBuilder, args: &[Operand], n: usize) -> Result<ValueId> {
    let index = value(args, 0)?;
    if !b.dtype(index).is_int() {
        return Err(Error::dtype(format!(
            "class indices must be integers, not {}: to_dtype(DType::I64) first",
            b.dtype(index)
        )));
    }
    let dim = b.shape(index).rank();
    let unsigned = b.dtype(index) == DType::U8;
    let index = match unsigned {
        true => b.cast(index, DType::I64)?,
        false => classes(b, index, n)?,
    };
    let positions = b.push(
        Op::Iota(Iota {
            shape: Shape::from(n),
            dim: 0,
        }),
        &[],
    )?;
    // What stands at an index that is in range is the index.
    let axes = SmallVec::from_slice(&[0]);
    let index = b.push(
        Op::Index(Index { axes, at: 0 }),
        &[positions.into(), index.into()],
    )?;
    let index = b.push(Op::Unsqueeze(Unsqueeze { dim }), &[index.into()])?;
    let hot = b.binary(BinaryOp::Eq, index, positions)?;
    b.cast(hot, DType::I64)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::{OneHot, Roll, Triangle};
    use crate::Composite::*;
    use ferrotrace_runtime::DType;

    #[test]
    fn triangles() {
        for dtype in DType::ALL {
            let x = vec![1.0; 24];
            for k in [-9, -1, 0, 1, 2, 9] {
                for upper in [false, true] {
                    let kept = |i: usize| {
                        let above = (i % 4) as isize - (i / 4 % 3) as isize;
                        f64::from(u8::from(if upper { above >= k } else { above <= k }))
                    };
                    let want: Vec<f64> = (0..24).map(kept).collect();
                    check(
                        Triangle(Triangle { k, upper }),
                        &[t(&[2, 3, 4], dtype, &x)],
                        &[2, 3, 4],
                        dtype,
                        &want,
                    );
                }
            }
        }
        let x = t(
            &[2, 2],
            DType::F32,
            &[f64::NAN, f64::INFINITY, f64::NAN, 1.0],
        );
        check(
            Triangle(Triangle {
                k: -1,
                upper: false,
            }),
            &[x],
            &[2, 2],
            DType::F32,
            &[0.0, 0.0, f64::NAN, 0.0],
        );
        check(
            Triangle(Triangle { k: 0, upper: false }),
            &[t(&[0, 3], DType::I8, &[])],
            &[0, 3],
            DType::I8,
            &[],
        );
        refused(
            &Triangle(Triangle { k: 0, upper: false }),
            &[t(&[3], DType::F32, &[0.0; 3])],
        );
    }

    #[test]
    fn rolls() {
        let x: Vec<f64> = (0..30).map(f64::from).collect();
        for (dim, size, inner) in [(0, 2, 15), (1, 3, 5), (2, 5, 1)] {
            for shift in [0, 1, -1, 2, 4, 5, -7, 100, isize::MAX, isize::MIN] {
                let source = |i: usize| {
                    let at = i / inner % size;
                    let from = (at as i128 - shift as i128).rem_euclid(size as i128) as usize;
                    x[i - at * inner + from * inner]
                };
                let want: Vec<f64> = (0..30).map(source).collect();
                let args = [t(&[2, 3, 5], DType::I32, &x)];
                check(
                    Roll(Roll { shift, dim }),
                    &args,
                    &[2, 3, 5],
                    DType::I32,
                    &want,
                );
            }
        }
        check(
            Roll(Roll { shift: 3, dim: 0 }),
            &[t(&[0, 2], DType::F32, &[])],
            &[0, 2],
            DType::F32,
            &[],
        );
        refused(
            &Roll(Roll { shift: 1, dim: 1 }),
            &[t(&[2], DType::F32, &[0.0; 2])],
        );
        refused(
            &Roll(Roll { shift: 1, dim: 0 }),
            &[t(&[], DType::F32, &[0.0])],
        );
    }

    #[test]
    fn one_hots() {
        for dtype in [DType::I64, DType::I32, DType::U8, DType::I8] {
            let want = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0];
            let args = [t(&[2, 2], dtype, &[0.0, 2.0, 1.0, 1.0])];
            check(
                OneHot(OneHot { n: 3 }),
                &args,
                &[2, 2, 3],
                DType::I64,
                &want,
            );
            assert_eq!(
                outside(&OneHot(OneHot { n: 3 }), &[t(&[2], dtype, &[0.0, 3.0])]),
                (3, 3)
            );
        }
        for (dtype, n) in [(DType::I64, 3), (DType::I8, 300), (DType::I32, 1)] {
            for index in [-1i64, -3, -100] {
                let args = [t(&[2], dtype, &[0.0, index as f64])];
                assert_eq!(outside(&OneHot(OneHot { n }), &args), (index, n));
            }
        }
        let (one, none) = (t(&[], DType::I64, &[1.0]), t(&[0], DType::I64, &[]));
        check(
            OneHot(OneHot { n: 2 }),
            &[one],
            &[2],
            DType::I64,
            &[0.0, 1.0],
        );
        check(
            OneHot(OneHot { n: 2 }),
            std::slice::from_ref(&none),
            &[0, 2],
            DType::I64,
            &[],
        );
        check(OneHot(OneHot { n: 0 }), &[none], &[0, 0], DType::I64, &[]);
        refused(&OneHot(OneHot { n: 0 }), &[t(&[2], DType::I64, &[0.0; 2])]);
        refused(&OneHot(OneHot { n: 2 }), &[t(&[1], DType::F32, &[0.0])]);
        refused(&OneHot(OneHot { n: 2 }), &[t(&[1], DType::Bool, &[0.0])]);
    }
}
