//! Parts of dimensions: slices, single positions, reversed dimensions, diagonals, windows.

use super::{View, ViewMap, along, check_dim, clamp_slice, same, view, wrap_index};
use crate::arg::{Arg, array};
use crate::copy::contiguous;
use crate::op::gradient::{Adjoint, Gradients, expanded, full, reshaped};
use crate::op::operator::{Inferred, Operator, question, text};
use crate::op::{Iota, Permute, Scatter, SliceAssign};
use crate::ops::tensor;
use crate::{
    ArgMeta, Array, BinaryOp, Class, Op, OpBuilder, OpBuilderExt, ScatterMode, Sizes, ValueId,
};
use ferrotrace_runtime::{DType, Error, Layout, Result, Shape};
use smallvec::SmallVec;

/// Python's `start:end:step` of one dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The dimension.
    pub dim: usize,
    /// Start, negative from the end, clamped.
    pub start: isize,
    /// End, negative from the end, clamped.
    pub end: isize,
    /// Step, at least 1.
    pub step: usize,
}

impl Slice {
    /// `len` positions of a dimension from `start` on, counted from the front.
    pub fn between(dim: usize, start: isize, len: usize) -> Slice {
        let end = start + len as isize;
        Slice {
            dim,
            start,
            end,
            step: 1,
        }
    }

    /// The assignment to this slice.
    pub fn assigned(&self) -> SliceAssign {
        let Slice {
            dim,
            start,
            end,
            step,
        } = *self;
        SliceAssign {
            dim,
            start,
            end,
            step,
        }
    }

    /// The first position in a tensor of this shape, and how many there are.
    pub fn span(&self, of: &Shape) -> (usize, usize) {
        clamp_slice(of[self.dim], self.start, self.end, self.step)
    }
}

impl Operator for Slice {
    text!("slice" { dim, start, end, step });
    view!();
}

impl View for Slice {
    fn window(&self, _: &Shape) -> Option<Slice> {
        Some(self.clone())
    }

    fn shape(&self, of: &Shape) -> Result<Shape> {
        check_dim(self.dim, of)?;
        if self.step == 0 {
            return Err(Error::argument("a slice's step must be at least 1"));
        }
        let mut to = of.clone();
        to.dims_mut()[self.dim] = self.span(of).1;
        Ok(to)
    }

    fn map(&self, from: &Shape, _: &Shape) -> Option<ViewMap> {
        let first = self.span(from).0 as isize;
        let mut dims = same(from.rank());
        dims[self.dim] = (
            first,
            SmallVec::from_slice(&[(self.dim, self.step as isize)]),
        );
        Some(ViewMap { dims })
    }

    fn is_reshape(&self) -> bool {
        false
    }

    fn pullback(&self, b: &mut dyn OpBuilder, gradient: ValueId, from: &Shape) -> Result<ValueId> {
        placed(b, gradient, from, self)
    }
}

/// Zeros of `shape` with `x` in a slice.
fn placed(b: &mut dyn OpBuilder, x: ValueId, shape: &Shape, at: &Slice) -> Result<ValueId> {
    let dtype = b.dtype(x);
    let zeros = full(b, shape, 0.0, dtype)?;
    b.push(Op::SliceAssign(at.assigned()), &[zeros.into(), x.into()])
}

/// `len` elements of one dimension from `start`, which must exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Narrow {
    /// The dimension.
    pub dim: usize,
    /// Start, negative from the end.
    pub start: isize,
    /// Length.
    pub len: usize,
}

impl Narrow {
    /// The first position, counted from the front, in a dimension of `size`.
    fn first(&self, size: usize) -> isize {
        match self.start < 0 {
            true => self.start + size as isize,
            false => self.start,
        }
    }
}

impl Operator for Narrow {
    text!("narrow" { dim, start, len });
    view!();
}

impl View for Narrow {
    fn window(&self, from: &Shape) -> Option<Slice> {
        let start = self.first(from[self.dim]);
        Some(Slice::between(self.dim, start, self.len))
    }

    fn shape(&self, of: &Shape) -> Result<Shape> {
        let Narrow { dim, start, len } = *self;
        check_dim(dim, of)?;
        let size = of[dim];
        let first = self.first(size);
        let ends_after = |first: usize| first.checked_add(len).is_none_or(|end| end > size);
        if first < 0 || ends_after(first as usize) {
            return Err(Error::argument(format!(
                "narrow of {len} from {start} leaves dimension {dim} of size {size}"
            )));
        }
        let mut to = of.clone();
        to.dims_mut()[dim] = len;
        Ok(to)
    }

    fn map(&self, from: &Shape, _: &Shape) -> Option<ViewMap> {
        let mut dims = same(from.rank());
        dims[self.dim].0 = self.first(from[self.dim]);
        Some(ViewMap { dims })
    }

    fn is_reshape(&self) -> bool {
        false
    }

    fn pullback(&self, b: &mut dyn OpBuilder, gradient: ValueId, from: &Shape) -> Result<ValueId> {
        let start = self.first(from[self.dim]);
        placed(
            b,
            gradient,
            from,
            &Slice::between(self.dim, start, self.len),
        )
    }
}

/// One index of a dimension, which goes away.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Select {
    /// The dimension.
    pub dim: usize,
    /// The index, negative from the end.
    pub index: isize,
}

impl Operator for Select {
    text!("select" { dim, index });
    view!();
}

impl View for Select {
    fn window(&self, from: &Shape) -> Option<Slice> {
        let start = wrap_index(self.index, self.dim, from[self.dim]).ok()?;
        Some(Slice::between(self.dim, start as isize, 1))
    }

    fn shape(&self, of: &Shape) -> Result<Shape> {
        check_dim(self.dim, of)?;
        wrap_index(self.index, self.dim, of[self.dim])?;
        let mut to = of.clone();
        to.dims_mut().remove(self.dim);
        Ok(to)
    }

    fn map(&self, from: &Shape, _: &Shape) -> Option<ViewMap> {
        let at = match self.index < 0 {
            true => self.index + from[self.dim] as isize,
            false => self.index,
        };
        let mut dims = same(from.rank() - 1);
        dims.insert(self.dim, (at, SmallVec::new()));
        Some(ViewMap { dims })
    }

    fn is_reshape(&self) -> bool {
        false
    }

    fn pullback(&self, b: &mut dyn OpBuilder, gradient: ValueId, from: &Shape) -> Result<ValueId> {
        let start = wrap_index(self.index, self.dim, from[self.dim])? as isize;
        let mut one = from.clone();
        one.dims_mut()[self.dim] = 1;
        let row = reshaped(b, gradient, &one)?;
        placed(b, row, from, &Slice::between(self.dim, start, 1))
    }
}

/// Dimensions in reverse; a bit each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flip {
    /// Bit per dimension.
    pub mask: u64,
}

impl Operator for Flip {
    text!("flip" { dims = mask as dims });
    view!();
}

impl View for Flip {
    fn shape(&self, of: &Shape) -> Result<Shape> {
        Ok(of.clone())
    }

    fn map(&self, from: &Shape, _: &Shape) -> Option<ViewMap> {
        let mut dims = same(from.rank());
        for d in (0..from.rank()).filter(|d| self.mask >> d & 1 == 1) {
            dims[d] = (from[d] as isize - 1, SmallVec::from_slice(&[(d, -1)]));
        }
        Some(ViewMap { dims })
    }

    fn is_reshape(&self) -> bool {
        false
    }

    fn pullback(&self, b: &mut dyn OpBuilder, gradient: ValueId, _: &Shape) -> Result<ValueId> {
        b.push(Op::Flip(self.clone()), &[gradient.into()])
    }
}

/// The diagonal of two dimensions, as a new last one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Diagonal {
    /// Offset: positive above the main diagonal.
    pub offset: isize,
    /// The row dimension.
    pub a: usize,
    /// The column dimension.
    pub b: usize,
}

impl Diagonal {
    fn len(&self, of: &Shape) -> usize {
        let (rows, columns) = (of[self.a] as isize, of[self.b] as isize);
        let len = if self.offset >= 0 {
            rows.min(columns - self.offset)
        } else {
            (rows + self.offset).min(columns)
        };
        len.max(0) as usize
    }
}

impl Operator for Diagonal {
    text!("diagonal" { offset, a, b });
    view!();
}

impl View for Diagonal {
    fn shape(&self, of: &Shape) -> Result<Shape> {
        let Diagonal { a, b, .. } = *self;
        check_dim(a, of)?;
        check_dim(b, of)?;
        if a == b {
            return Err(Error::argument("a diagonal needs two different dimensions"));
        }
        let rest = (0..of.rank()).filter(|&d| d != a && d != b);
        Ok(rest.map(|d| of[d]).chain([self.len(of)]).collect())
    }

    fn map(&self, from: &Shape, to: &Shape) -> Option<ViewMap> {
        let last = to.rank() - 1;
        let from_first = |first: isize| (first, SmallVec::from_slice(&[(last, 1)]));
        let mut rest = 0..;
        let index = |d: usize| match d {
            d if d == self.a => Some(from_first(self.offset.saturating_neg().max(0))),
            d if d == self.b => Some(from_first(self.offset.max(0))),
            _ => rest.next().map(along),
        };
        let dims = (0..from.rank()).map(index).collect::<Option<_>>()?;
        Some(ViewMap { dims })
    }

    fn is_reshape(&self) -> bool {
        false
    }

    fn pullback(&self, b: &mut dyn OpBuilder, gradient: ValueId, from: &Shape) -> Result<ValueId> {
        // A row of zeros with one element of the diagonal in it, for each row of the matrix.
        let (rows, columns) = (from[self.a], from[self.b]);
        let first = self.offset.saturating_neg().max(0);
        let mut shape = b.shape(gradient).clone();
        let last = shape.rank() - 1;
        shape.dims_mut()[last] = rows;
        let len = self.len(from);
        let column = placed(b, gradient, &shape, &Slice::between(last, first, len))?;
        shape.dims_mut().push(1);
        let column = reshaped(b, column, &shape)?;
        shape.dims_mut()[last + 1] = columns;
        let dim = |dim| {
            Op::Iota(Iota {
                shape: Shape::from([rows, columns]),
                dim,
            })
        };
        let (row, at) = (b.push(dim(0), &[])?, b.push(dim(1), &[])?);
        let met = b.add(row, self.offset as i64)?;
        let met = b.binary(BinaryOp::Eq, met, at)?;
        let whole = b.select(met, column, 0.0)?;
        // The matrix stands in the last two dimensions.
        let mut order: SmallVec<[u8; 6]> = SmallVec::new();
        let mut rest = 0..;
        for d in 0..from.rank() {
            order.push(match d {
                d if d == self.a => last as u8,
                d if d == self.b => last as u8 + 1,
                _ => rest.next().unwrap_or(0),
            });
        }
        b.push(Op::Permute(Permute(order)), &[whole.into()])
    }
}

/// Windows of one dimension, as a new last dimension of `size`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unfold {
    /// The dimension.
    pub dim: usize,
    /// Window length.
    pub size: usize,
    /// Distance of windows.
    pub step: usize,
}

question! {
    /// The windows that it is.
    as_unfold: Unfold(Unfold)
}

impl Operator for Unfold {
    text!("unfold" { dim, size, step });
    view!();
}

impl View for Unfold {
    fn shape(&self, of: &Shape) -> Result<Shape> {
        let Unfold { dim, size, step } = *self;
        check_dim(dim, of)?;
        if step == 0 || size > of[dim] {
            return Err(Error::argument(format!(
                "windows of {size} by {step} in a dimension of {}",
                of[dim]
            )));
        }
        let mut to = of.clone();
        to.dims_mut()[dim] = (of[dim] - size) / step + 1;
        to.dims_mut().push(size);
        Ok(to)
    }

    fn map(&self, from: &Shape, _: &Shape) -> Option<ViewMap> {
        let (within, window) = ((from.rank(), 1), (self.dim, self.step as isize));
        let mut dims = same(from.rank());
        dims[self.dim] = (0, SmallVec::from_slice(&[window, within]));
        Some(ViewMap { dims })
    }

    fn is_reshape(&self) -> bool {
        false
    }

    fn pullback(&self, b: &mut dyn OpBuilder, gradient: ValueId, from: &Shape) -> Result<ValueId> {
        // Each window's elements are added where they came from, windows side by side along the dimension.
        let Unfold { dim, size, step } = *self;
        let windows = b.shape(gradient)[dim];
        let rank = from.rank();
        let mut order: SmallVec<[u8; 6]> = (0..rank as u8).collect();
        order.insert(dim + 1, rank as u8);
        let beside = b.push(Op::Permute(Permute(order)), &[gradient.into()])?;
        let mut shape = from.clone();
        shape.dims_mut()[dim] = windows * size;
        let beside = reshaped(b, beside, &shape)?;
        let position = |dim| {
            Op::Iota(Iota {
                shape: Shape::from([windows, size]),
                dim,
            })
        };
        let (window, within) = (b.push(position(0), &[])?, b.push(position(1), &[])?);
        let first = b.mul(window, step as i64)?;
        let place = b.add(first, within)?;
        let mut along: Shape = (0..rank).map(|_| 1).collect();
        along.dims_mut()[dim] = windows * size;
        let place = reshaped(b, place, &along)?;
        let place = expanded(b, place, &shape)?;
        let dtype = b.dtype(gradient);
        let zeros = full(b, from, 0.0, dtype)?;
        let add = Scatter {
            dim,
            mode: ScatterMode::Sum,
            include_self: true,
        };
        b.push(
            Op::Scatter(add),
            &[zeros.into(), place.into(), beside.into()],
        )
    }
}

impl Op {
    /// Where a slice starts and ends, or the one number that says where it lies: what varies from step to step in loops
    /// over slices.
    pub fn position(&self) -> Option<[isize; 2]> {
        match *self {
            Op::Slice(Slice { start, end, .. })
            | Op::SliceAssign(SliceAssign { start, end, .. }) => Some([start, end]),
            Op::Narrow(Narrow { start, .. }) => Some([start, 0]),
            Op::Select(Select { index, .. }) => Some([index, 0]),
            _ => None,
        }
    }

    /// The dimension and the step of an operator that has a [position](Op::position).
    pub fn without_position(&self) -> Option<(usize, usize)> {
        match *self {
            Op::Slice(Slice { dim, step, .. }) | Op::SliceAssign(SliceAssign { dim, step, .. }) => {
                Some((dim, step))
            }
            Op::Narrow(Narrow { dim, .. }) | Op::Select(Select { dim, .. }) => Some((dim, 1)),
            _ => None,
        }
    }
}
