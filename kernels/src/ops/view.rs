//! Views: operators that look at their operand through another index map.

mod reshape;
mod window;

pub use reshape::{Barrier, Expand, Flatten, Permute, Reshape, Squeeze, Unsqueeze};
pub use window::{Diagonal, Flip, Narrow, Select, Slice, Unfold};

use crate::op::operator::Operator;
use crate::text::{Attribute, Unlike, Value};
use crate::{Op, OpBuilder, ValueId};
use ferrotrace_runtime::{Error, ErrorKind, Layout, Result, Shape, Strides};
use smallvec::SmallVec;

/// One size of a target shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// This many.
    Size(usize),
    /// Given as −1: inferred from the element count (reshape) or kept (expand).
    Auto,
}

/// −1 is a size that is not given.
impl Value for Extent {
    fn write(&self) -> Attribute {
        match self {
            Extent::Size(n) => n.write(),
            Extent::Auto => Attribute::Int(-1),
        }
    }

    fn read(from: &Attribute) -> Result<Self, Unlike> {
        match from {
            Attribute::Int(-1) => Ok(Extent::Auto),
            size => usize::read(size).map(Extent::Size),
        }
    }
}

/// What a view answers beside what every operator does.
pub trait View: Operator {
    /// The shape of the result.
    ///
    /// # Errors
    /// The operand does not fit.
    fn shape(&self, of: &Shape) -> Result<Shape>;

    /// The index map from a tensor of shape `from` to the result of shape `to`; `None` where there is none that is
    /// affine: the elements in row-major order under another shape.
    fn map(&self, from: &Shape, to: &Shape) -> Option<ViewMap>;

    /// Whether the result has the operand's elements in the same row-major order, under another shape.
    fn is_reshape(&self) -> bool;

    /// The gradient of the operand, of shape `from`, from that of the result.
    ///
    /// # Errors
    /// An operator of its definition that cannot be recorded.
    fn pullback(&self, b: &mut dyn OpBuilder, gradient: ValueId, from: &Shape) -> Result<ValueId>;

    /// The slice of one dimension that it is, of an operand of shape `from`, but for the shape of the result.
    fn window(&self, _from: &Shape) -> Option<Slice> {
        None
    }

    /// The window of shape `to` on memory that lies so; `None` where a new shape needs a copy.
    fn layout(&self, of: &Layout, to: &Shape) -> Option<Layout> {
        match self.map(of.shape(), to) {
            Some(map) => Some(map.apply(of, to)),
            None => of.reshape(to),
        }
    }
}

/// What views answer alike.
macro_rules! view {
    () => {
        fn class(&self) -> Class {
            Class::View
        }

        fn is_light(&self) -> bool {
            true
        }

        fn jumps(&self, _: usize) -> bool {
            false
        }

        fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
            let (of, dtype) = tensor(args, 0)?;
            Ok((self.shape(of)?, dtype))
        }

        fn work(&self, _: &Sizes<'_>) -> u64 {
            0
        }

        fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
            let from = b.shape(of.value(0)?).clone();
            Ok(of.first(self.pullback(b, of.gradient, &from)?))
        }

        fn run(&self, args: &[Arg], shape: &Shape, _: DType) -> Result<Array> {
            let x = array(args, 0)?;
            if let Some(layout) = self.layout(&x.layout, shape) {
                return Ok(x.with_layout(layout));
            }
            let dense = contiguous(x)?;
            Ok(dense.with_layout(Layout::contiguous(shape.clone())))
        }

        fn as_view(&self) -> Option<&dyn View> {
            Some(self)
        }
    };
}
use view;

/// An affine index: the constant, and (output dimension, coefficient) terms.
pub type AffineIndex = (isize, SmallVec<[(usize, isize); 2]>);

/// The affine index map of a view: input index `d` is `base[d] + Σ coefficient · output index`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewMap {
    /// The index of each input dimension.
    pub dims: Vec<AffineIndex>,
}

impl ViewMap {
    /// The window that the view of shape `shape` is on `layout`'s memory.
    pub fn apply(&self, layout: &Layout, shape: &Shape) -> Layout {
        let mut strides = Strides::from_elem(0, shape.rank());
        let mut offset = layout.offset() as isize;
        for ((base, terms), &stride) in self.dims.iter().zip(layout.strides()) {
            // Products leave the address space only where nothing follows them: dimensions of one element, empty windows.
            offset = offset.wrapping_add(base.wrapping_mul(stride));
            for &(out, coefficient) in terms {
                strides[out] = strides[out].wrapping_add(coefficient.wrapping_mul(stride));
            }
        }
        // A window without elements has no position.
        let offset = if shape.numel() == 0 {
            0
        } else {
            offset as usize
        };
        Layout::new(shape.clone(), strides, offset)
    }
}

/// Python's clamping of `start:end` to a dimension of `size` (ir V8), as (start, length after `step`).
pub fn clamp_slice(size: usize, start: isize, end: isize, step: usize) -> (usize, usize) {
    let wrap = |i: isize| if i < 0 { i.saturating_add(size as isize).max(0) } else { i.min(size as isize) } as usize;
    let (start, end) = (wrap(start), wrap(end));
    (start, end.saturating_sub(start).div_ceil(step.max(1)))
}

/// `dim` counted from the front.
///
/// # Errors
/// It is not a dimension of a tensor of this rank.
pub fn wrap_dim(dim: isize, rank: usize) -> Result<usize> {
    let wrapped = if dim < 0 { dim + rank as isize } else { dim };
    if wrapped < 0 || wrapped >= rank as isize {
        return Err(Error::new(ErrorKind::Dim { dim, rank }));
    }
    Ok(wrapped as usize)
}

pub(super) fn wrap_index(index: isize, dim: usize, size: usize) -> Result<usize> {
    let wrapped = if index < 0 {
        index + size as isize
    } else {
        index
    };
    if wrapped < 0 || wrapped >= size as isize {
        return Err(Error::new(ErrorKind::Index {
            index: index as i64,
            dim,
            size,
        }));
    }
    Ok(wrapped as usize)
}

pub(super) fn check_dim(dim: usize, shape: &Shape) -> Result<()> {
    if dim >= shape.rank() {
        return Err(Error::new(ErrorKind::Dim {
            dim: dim as isize,
            rank: shape.rank(),
        }));
    }
    Ok(())
}

/// The index map that leaves every one of `rank` dimensions where it is.
fn same(rank: usize) -> Vec<AffineIndex> {
    (0..rank).map(along).collect()
}

/// An index along one dimension of the result.
fn along(dim: usize) -> AffineIndex {
    (0, SmallVec::from_slice(&[(dim, 1)]))
}

/// The index map of an affine view from a tensor of shape `from` to its result of shape `to`; `None` for all other
/// operators.
pub fn view_map(op: &Op, from: &Shape, to: &Shape) -> Option<ViewMap> {
    op.as_view()?.map(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArgMeta;
    use crate::op;
    use ferrotrace_runtime::DType;

    fn shape_of(op: &Op, from: &Shape) -> Result<Shape> {
        op.infer(&[ArgMeta::Tensor(from, DType::F32)]).map(|r| r.0)
    }

    fn offsets(op: &Op, from: &Shape) -> Vec<usize> {
        let to = shape_of(op, from).expect("valid view");
        let map = view_map(op, from, &to).expect("affine view");
        map.apply(&Layout::contiguous(from.clone()), &to)
            .offsets()
            .collect()
    }

    #[test]
    fn slices_clamp_like_python() {
        assert_eq!(clamp_slice(5, -3, isize::MAX, 1), (2, 3));
        assert_eq!(clamp_slice(5, isize::MIN, -3, 1), (0, 2));
        assert_eq!(clamp_slice(5, 3, 1, 1), (3, 0));
        assert_eq!(clamp_slice(5, 1, 100, 2), (1, 2));
    }

    #[test]
    fn affine_views_read_the_right_elements() {
        let s = Shape::from([2, 3]);
        let permute = Op::Permute(op::Permute(SmallVec::from_slice(&[1, 0])));
        assert_eq!(offsets(&permute, &s), [0, 3, 1, 4, 2, 5]);
        assert_eq!(
            offsets(&Op::Flip(op::Flip { mask: 0b10 }), &s),
            [2, 1, 0, 5, 4, 3]
        );
        assert_eq!(
            offsets(&Op::Select(op::Select { dim: 1, index: -1 }), &s),
            [2, 5]
        );
        assert_eq!(
            offsets(
                &Op::Diagonal(op::Diagonal {
                    offset: 1,
                    a: 0,
                    b: 1
                }),
                &s
            ),
            [1, 5]
        );
        assert_eq!(
            offsets(
                &Op::Diagonal(op::Diagonal {
                    offset: -1,
                    a: 0,
                    b: 1
                }),
                &s
            ),
            [3]
        );
        let unfold = Op::Unfold(op::Unfold {
            dim: 0,
            size: 2,
            step: 2,
        });
        assert_eq!(offsets(&unfold, &Shape::from([5])), [0, 1, 2, 3]);
    }

    #[test]
    fn reshape_infers_and_refuses() {
        let s = Shape::from([2, 3]);
        let to = |e: &[Extent]| shape_of(&Op::Reshape(op::Reshape(SmallVec::from_slice(e))), &s);
        assert_eq!(
            to(&[Extent::Auto, Extent::Size(2)]).ok(),
            Some(Shape::from([3, 2]))
        );
        assert!(to(&[Extent::Auto, Extent::Auto]).is_err());
        assert!(to(&[Extent::Size(4), Extent::Auto]).is_err());
        assert!(to(&[Extent::Size(usize::MAX), Extent::Size(2)]).is_err());
    }
}
