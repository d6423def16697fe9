//! The elements under another shape: reshaped, broadcast, permuted.

use super::{AffineIndex, View, ViewMap, along, check_dim, same, view};
use crate::arg::{Arg, array};
use crate::copy::contiguous;
use crate::op::gradient::{Adjoint, Gradients, fit, reshaped};
use crate::op::operator::{Inferred, Operator, question, text};
use crate::ops::tensor;
use crate::{ArgMeta, Array, Class, Extent, Op, OpBuilder, Sizes, ValueId};
use ferrotrace_runtime::{DType, Error, ErrorKind, Layout, Result, Shape};
use smallvec::SmallVec;

/// The same elements in row-major order under another shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reshape(pub SmallVec<[Extent; 4]>);

impl Operator for Reshape {
    text!("reshape" { to = 0 });
    view!();
}

impl View for Reshape {
    fn shape(&self, of: &Shape) -> Result<Shape> {
        reshape(of, &self.0)
    }

    fn map(&self, _: &Shape, _: &Shape) -> Option<ViewMap> {
        None
    }

    fn is_reshape(&self) -> bool {
        true
    }

    fn pullback(&self, b: &mut dyn OpBuilder, gradient: ValueId, from: &Shape) -> Result<ValueId> {
        reshaped(b, gradient, from)
    }
}

/// Sizes of 1 stretched, dimensions added in front.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expand(pub SmallVec<[Extent; 4]>);

question! {
    /// The stretching that it is.
    as_expand: Expand(Expand)
}

impl Operator for Expand {
    text!("expand" { to = 0 });
    view!();
}

impl View for Expand {
    fn shape(&self, of: &Shape) -> Result<Shape> {
        expand(of, &self.0)
    }

    fn map(&self, from: &Shape, to: &Shape) -> Option<ViewMap> {
        let lead = to.rank() - from.rank();
        let index = |d: usize| match from[d] {
            1 => fixed(0),
            _ => along(d + lead),
        };
        let dims = (0..from.rank()).map(index).collect();
        Some(ViewMap { dims })
    }

    fn is_reshape(&self) -> bool {
        false
    }

    fn pullback(&self, b: &mut dyn OpBuilder, gradient: ValueId, from: &Shape) -> Result<ValueId> {
        let dtype = b.dtype(gradient);
        fit(b, gradient, from, dtype)
    }
}

/// Dimension `i` of the result is dimension `order[i]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permute(pub SmallVec<[u8; 6]>);

question! {
    /// The permutation that it is.
    as_permute: Permute(Permute)
}

impl Operator for Permute {
    text!("permute" { order = 0 });
    view!();
}

impl View for Permute {
    fn shape(&self, of: &Shape) -> Result<Shape> {
        let order = &self.0;
        let mut seen = 0u64;
        for &d in order {
            check_dim(d as usize, of)?;
            seen |= 1 << d;
        }
        if order.len() != of.rank() || seen.count_ones() as usize != of.rank() {
            return Err(Error::argument(format!(
                "{order:?} is not a permutation of {} dimensions",
                of.rank()
            )));
        }
        Ok(order.iter().map(|&d| of[d as usize]).collect())
    }

    fn map(&self, from: &Shape, _: &Shape) -> Option<ViewMap> {
        let mut dims = same(from.rank());
        for (out, &d) in self.0.iter().enumerate() {
            dims[d as usize] = along(out);
        }
        Some(ViewMap { dims })
    }

    fn is_reshape(&self) -> bool {
        false
    }

    fn pullback(&self, b: &mut dyn OpBuilder, gradient: ValueId, _: &Shape) -> Result<ValueId> {
        let mut inverse = self.0.clone();
        for (out, &d) in self.0.iter().enumerate() {
            inverse[d as usize] = out as u8;
        }
        b.push(Op::Permute(Permute(inverse)), &[gradient.into()])
    }
}

/// Dimensions of size 1 removed; a bit each (other sizes stay).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Squeeze {
    /// Bit per dimension.
    pub mask: u64,
}

impl Squeeze {
    fn removes(&self, dim: usize, of: &Shape) -> bool {
        self.mask >> dim & 1 == 1 && of[dim] == 1
    }
}

impl Operator for Squeeze {
    text!("squeeze" { dims = mask as dims });
    view!();
}

impl View for Squeeze {
    fn shape(&self, of: &Shape) -> Result<Shape> {
        let kept = (0..of.rank()).filter(|&d| !self.removes(d, of));
        Ok(kept.map(|d| of[d]).collect())
    }

    fn map(&self, from: &Shape, _: &Shape) -> Option<ViewMap> {
        let mut kept = 0..;
        let index = |d: usize| match self.removes(d, from) {
            true => Some(fixed(0)),
            false => kept.next().map(along),
        };
        let dims = (0..from.rank()).map(index).collect::<Option<_>>()?;
        Some(ViewMap { dims })
    }

    fn is_reshape(&self) -> bool {
        true
    }

    fn pullback(&self, b: &mut dyn OpBuilder, gradient: ValueId, from: &Shape) -> Result<ValueId> {
        reshaped(b, gradient, from)
    }
}

/// A dimension of size 1 added.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unsqueeze {
    /// Its position in the result.
    pub dim: usize,
}

question! {
    /// The new dimension that it is.
    as_unsqueeze: Unsqueeze(Unsqueeze)
}

impl Operator for Unsqueeze {
    text!("unsqueeze" { dim });
    view!();
}

impl View for Unsqueeze {
    fn shape(&self, of: &Shape) -> Result<Shape> {
        if self.dim > of.rank() {
            return Err(Error::new(ErrorKind::Dim {
                dim: self.dim as isize,
                rank: of.rank() + 1,
            }));
        }
        let mut to = of.clone();
        to.dims_mut().insert(self.dim, 1);
        Ok(to)
    }

    fn map(&self, from: &Shape, _: &Shape) -> Option<ViewMap> {
        let index = |d: usize| along(d + usize::from(d >= self.dim));
        let dims = (0..from.rank()).map(index).collect();
        Some(ViewMap { dims })
    }

    fn is_reshape(&self) -> bool {
        true
    }

    fn pullback(&self, b: &mut dyn OpBuilder, gradient: ValueId, from: &Shape) -> Result<ValueId> {
        reshaped(b, gradient, from)
    }
}

/// Dimensions `start..=end` merged into one; a 0-d tensor becomes one of size 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flatten {
    /// The first.
    pub start: usize,
    /// The last.
    pub end: usize,
}

impl Operator for Flatten {
    text!("flatten" { start, end });
    view!();
}

impl View for Flatten {
    fn shape(&self, of: &Shape) -> Result<Shape> {
        let Flatten { start, end } = *self;
        if of.rank() == 0 {
            return Ok(Shape::from(1));
        }
        check_dim(end, of)?;
        if start > end {
            return Err(Error::argument(format!(
                "flatten from dimension {start} to {end}"
            )));
        }
        let merged = Shape::new(&of[start..=end]).numel();
        let before = of[..start].iter().copied();
        Ok(before
            .chain([merged])
            .chain(of[end + 1..].iter().copied())
            .collect())
    }

    fn map(&self, _: &Shape, _: &Shape) -> Option<ViewMap> {
        None
    }

    fn is_reshape(&self) -> bool {
        true
    }

    fn pullback(&self, b: &mut dyn OpBuilder, gradient: ValueId, from: &Shape) -> Result<ValueId> {
        reshaped(b, gradient, from)
    }
}

/// The operand, which compiled code stores, by a kernel that computes nothing else (scheduler L-08).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Barrier;

impl Operator for Barrier {
    text!("barrier");
    view!();
}

impl View for Barrier {
    fn shape(&self, of: &Shape) -> Result<Shape> {
        Ok(of.clone())
    }

    fn map(&self, from: &Shape, _: &Shape) -> Option<ViewMap> {
        let dims = same(from.rank());
        Some(ViewMap { dims })
    }

    fn is_reshape(&self) -> bool {
        false
    }

    fn pullback(&self, _: &mut dyn OpBuilder, gradient: ValueId, _: &Shape) -> Result<ValueId> {
        Ok(gradient)
    }
}

impl Op {
    /// Whether it is a barrier.
    pub fn is_barrier(&self) -> bool {
        matches!(self, Op::Barrier)
    }
}

/// One position, whatever the index in the result.
fn fixed(at: isize) -> AffineIndex {
    (at, SmallVec::new())
}

/// Target sizes as they were given: −1 for what is inferred.
fn given(extents: &[Extent]) -> Vec<i128> {
    let size = |extent: &Extent| match extent {
        Extent::Size(n) => *n as i128,
        Extent::Auto => -1,
    };
    extents.iter().map(size).collect()
}

fn reshape(from: &Shape, extents: &[Extent]) -> Result<Shape> {
    let bad = |why: &str| {
        let to = given(extents);
        Error::shape(format!("{from} has no reshape to {to:?}: {why}"))
    };
    let mut known = 1usize;
    let mut auto = None;
    for (i, extent) in extents.iter().enumerate() {
        match extent {
            Extent::Size(n) => {
                known = known
                    .checked_mul(*n)
                    .ok_or_else(|| bad("too many elements"))?
            }
            Extent::Auto if auto.is_none() => auto = Some(i),
            Extent::Auto => return Err(bad("two sizes are -1")),
        }
    }
    let total = from.numel();
    let inferred = match auto {
        Some(_) if known == 0 => return Err(bad("-1 is ambiguous beside a size of 0")),
        Some(_) if !total.is_multiple_of(known) => {
            return Err(bad("the sizes do not divide the element count"));
        }
        Some(_) => total / known,
        None if known != total => return Err(bad("element counts differ")),
        None => 0,
    };
    Ok(extents
        .iter()
        .map(|e| {
            if let Extent::Size(n) = e {
                *n
            } else {
                inferred
            }
        })
        .collect())
}

fn expand(from: &Shape, extents: &[Extent]) -> Result<Shape> {
    let bad = || Error::shape(format!("{from} does not expand to {:?}", given(extents)));
    let lead = extents.len().checked_sub(from.rank()).ok_or_else(bad)?;
    let mut dims = Shape::scalar();
    for (i, extent) in extents.iter().enumerate() {
        let old = i.checked_sub(lead).map(|d| from[d]);
        dims.dims_mut().push(match (extent, old) {
            (Extent::Size(n), None | Some(1)) => *n,
            (Extent::Size(n), Some(o)) if *n == o => o,
            (Extent::Auto, Some(o)) => o,
            _ => return Err(bad()),
        });
    }
    Ok(dims)
}
