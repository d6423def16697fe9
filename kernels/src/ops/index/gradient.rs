//! Gradients of reads and writes at positions.

use super::{Gather, Index, IndexPut, Scatter};
use crate::op::gradient::{Adjoint, Gradients, full, reshaped, wide};
use crate::op::{Iota, Pad, Slice};
use crate::{BinaryOp, Op, OpBuilder, OpBuilderExt, Operand, ScatterMode, ValueId};
use ferrotrace_runtime::{DType, Result, Shape};
use smallvec::SmallVec;

/// Zeros of `shape` to which `x` is added at the positions of `index` along `dim`.
///
/// # Errors
/// An operator that the builder cannot record.
pub(in crate::ops) fn added_along(
    b: &mut dyn OpBuilder,
    x: ValueId,
    index: ValueId,
    shape: &Shape,
    dim: usize,
) -> Result<ValueId> {
    let dtype = b.dtype(x);
    let zeros = full(b, shape, 0.0, dtype)?;
    scattered(b, dim, ScatterMode::Sum, [zeros, index, x])
}

/// Zeros of `shape` with `x` at the positions of `index` along `dim`, no two of which are one place.
///
/// # Errors
/// An operator that the builder cannot record.
pub(in crate::ops) fn placed_along(
    b: &mut dyn OpBuilder,
    x: ValueId,
    index: ValueId,
    shape: &Shape,
    dim: usize,
) -> Result<ValueId> {
    let dtype = b.dtype(x);
    let zeros = full(b, shape, 0.0, dtype)?;
    scattered(b, dim, ScatterMode::Assign, [zeros, index, x])
}

fn scattered(
    b: &mut dyn OpBuilder,
    dim: usize,
    mode: ScatterMode,
    operands: [ValueId; 3],
) -> Result<ValueId> {
    let include_self = true;
    let scatter = Scatter {
        dim,
        mode,
        include_self,
    };
    b.push(Op::Scatter(scatter), &operands.map(Operand::Value))
}

fn gathered(b: &mut dyn OpBuilder, dim: usize, x: ValueId, index: ValueId) -> Result<ValueId> {
    b.push(Op::Gather(Gather { dim }), &[x.into(), index.into()])
}

/// The row-major position of each element of a shape.
fn positions(b: &mut dyn OpBuilder, shape: &Shape) -> Result<ValueId> {
    let iota = Iota {
        shape: Shape::from(shape.numel()),
        dim: 0,
    };
    let iota = b.push(Op::Iota(iota), &[])?;
    reshaped(b, iota, shape)
}

impl Gather {
    pub(super) fn pull(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let shape = b.shape(of.value(0)?).clone();
        let g = wide(b, of.gradient)?;
        let sum = added_along(b, g, of.value(1)?, &shape, self.dim)?;
        Ok(of.first(sum))
    }
}

impl Index {
    pub(super) fn pull(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let shape = b.shape(of.value(0)?).clone();
        let g = wide(b, of.gradient)?;
        let dtype = b.dtype(g);
        let zeros = full(b, &shape, 0.0, dtype)?;
        let put = IndexPut {
            axes: self.axes.clone(),
            at: self.at,
            accumulate: true,
        };
        let mut operands: SmallVec<[Operand; 6]> = SmallVec::new();
        operands.extend([zeros.into(), g.into()]);
        operands.extend_from_slice(&of.args[1..]);
        let sum = b.push(Op::IndexPut(put), &operands)?;
        Ok(of.first(sum))
    }
}

impl IndexPut {
    /// Where values are written and not added, the last one of a place has its gradient.
    pub(super) fn pull(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let mut gradients = of.none();
        let indices = &of.args[2..];
        let written = |x: ValueId, src: ValueId| {
            let mut operands: SmallVec<[Operand; 6]> = SmallVec::new();
            operands.extend([x.into(), src.into()]);
            operands.extend_from_slice(indices);
            let put = IndexPut {
                accumulate: false,
                ..self.clone()
            };
            (Op::IndexPut(put), operands)
        };
        let read = |b: &mut dyn OpBuilder, x: ValueId| {
            let (axes, at) = (self.axes.clone(), self.at);
            let mut operands: SmallVec<[Operand; 6]> = SmallVec::new();
            operands.push(x.into());
            operands.extend_from_slice(indices);
            b.push(Op::Index(Index { axes, at }), &operands)
        };
        if of.wants(0) {
            gradients[0] = Some(match self.accumulate {
                true => of.gradient,
                false => {
                    let dtype = b.dtype(of.gradient);
                    let zero = full(b, &Shape::scalar(), 0.0, dtype)?;
                    let (op, operands) = written(of.gradient, zero);
                    b.push(op, &operands)?
                }
            });
        }
        if of.wants(1) {
            let part = read(b, of.gradient)?;
            gradients[1] = Some(match self.accumulate {
                true => part,
                false => {
                    let (shape, region) = (b.shape(of.gradient).clone(), b.shape(part).clone());
                    let own = positions(b, &region)?;
                    let last = nowhere(b, &shape)?;
                    let (op, operands) = written(last, own);
                    let last = b.push(op, &operands)?;
                    let last = read(b, last)?;
                    let stays = b.binary(BinaryOp::Eq, last, own)?;
                    b.select(stays, part, 0.0)?
                }
            });
        }
        Ok(gradients)
    }
}

/// A tensor of positions of which none is any element's.
fn nowhere(b: &mut dyn OpBuilder, shape: &Shape) -> Result<ValueId> {
    full(b, shape, -1.0, DType::I64)
}

/// A scatter whose gradients are asked for.
struct Scattering {
    dim: usize,
    x: ValueId,
    index: ValueId,
    /// The part of the source that the index covers.
    src: ValueId,
    /// The gradient, in the dtype of its arithmetic.
    g: ValueId,
    /// The shape of the destination.
    shape: Shape,
    /// The shape of the index.
    covered: Shape,
    include_self: bool,
    /// Whether the gradients of the destination and of the source are asked for.
    wanted: (bool, bool),
}

/// The gradients of the destination and of the covered part of the source, those that are asked for.
type Pair = (Option<ValueId>, Option<ValueId>);

impl Scatter {
    /// As PyTorch's: greatest and least values share the gradient evenly with all that are equal, the old value among them
    /// if it takes part; of assigned values the last one of a place has it.
    pub(super) fn pull(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let (x, index) = (of.value(0)?, of.value(1)?);
        let (shape, covered) = (b.shape(x).clone(), b.shape(index).clone());
        let g = wide(b, of.gradient)?;
        let src = match of.args[2] {
            Operand::Value(src) => cut(b, src, &covered)?,
            number => {
                let full = crate::op::Full {
                    shape: covered.clone(),
                    dtype: b.dtype(g),
                };
                b.push(Op::Full(full), &[number])?
            }
        };
        let of_scatter = Scattering {
            dim: self.dim,
            x,
            index,
            src,
            g,
            shape,
            covered,
            include_self: self.include_self,
            wanted: (of.wants(0), of.wants(2)),
        };
        let s = &of_scatter;
        let (to_x, to_src) = match self.mode {
            ScatterMode::Assign => s.assigned(b)?,
            ScatterMode::Sum => s.shared(b, g)?,
            ScatterMode::Prod => s.multiplied(b)?,
            ScatterMode::Amax | ScatterMode::Amin => s.extreme(b, of.result)?,
            ScatterMode::Mean => s.averaged(b)?,
        };
        let mut gradients = of.none();
        gradients[0] = to_x;
        if let Some(to_src) = to_src {
            let whole = b.shape(of.value(2)?).clone();
            let pads = s.covered.iter().zip(whole.iter());
            let pads: SmallVec<[(isize, isize); 4]> = pads
                .map(|(&part, &whole)| (0, whole as isize - part as isize))
                .collect();
            gradients[2] = Some(match s.covered == whole {
                true => to_src,
                false => b.push(Op::Pad(Pad(pads)), &[to_src.into(), 0.0.into()])?,
            });
        }
        Ok(gradients)
    }
}

/// The first elements of each dimension of `x`, as many as `shape` has.
fn cut(b: &mut dyn OpBuilder, x: ValueId, shape: &Shape) -> Result<ValueId> {
    let mut part = x;
    for (dim, &len) in shape.iter().enumerate() {
        if b.shape(part)[dim] != len {
            let slice = Slice::between(dim, 0, len);
            part = b.push(Op::Slice(slice), &[part.into()])?;
        }
    }
    Ok(part)
}

impl Scattering {
    /// The elements of `x` at the index.
    fn at(&self, b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
        gathered(b, self.dim, x, self.index)
    }

    /// How many source elements, of those that `which` is 1 of, meet at each place.
    fn count(&self, b: &mut dyn OpBuilder, which: ValueId) -> Result<ValueId> {
        added_along(b, which, self.index, &self.shape, self.dim)
    }

    /// One for each source element.
    fn ones(&self, b: &mut dyn OpBuilder) -> Result<ValueId> {
        let dtype = b.dtype(self.g);
        full(b, &self.covered, 1.0, dtype)
    }

    /// `x` with 0 at the index.
    fn cleared(&self, b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
        let dtype = b.dtype(x);
        let zeros = full(b, &self.covered, 0.0, dtype)?;
        scattered(b, self.dim, ScatterMode::Assign, [x, self.index, zeros])
    }

    /// `part` to the old values that take part, and to each source element.
    fn shared(&self, b: &mut dyn OpBuilder, part: ValueId) -> Result<Pair> {
        let to_x = match (self.wanted.0, self.include_self) {
            (false, _) => None,
            (true, true) => Some(part),
            (true, false) => Some(self.cleared(b, part)?),
        };
        let to_src = match self.wanted.1 {
            true => Some(self.at(b, part)?),
            false => None,
        };
        Ok((to_x, to_src))
    }

    fn assigned(&self, b: &mut dyn OpBuilder) -> Result<Pair> {
        let to_x = match self.wanted.0 {
            true => Some(self.cleared(b, self.g)?),
            false => None,
        };
        if !self.wanted.1 {
            return Ok((to_x, None));
        }
        let own = positions(b, &self.covered)?;
        let last = nowhere(b, &self.shape)?;
        let last = scattered(b, self.dim, ScatterMode::Assign, [last, self.index, own])?;
        let last = self.at(b, last)?;
        let stays = b.binary(BinaryOp::Eq, last, own)?;
        let part = self.at(b, self.g)?;
        Ok((to_x, Some(b.select(stays, part, 0.0)?)))
    }

    /// The product of all others: that of the source elements that are not zero, over the element, where no other is zero.
    fn multiplied(&self, b: &mut dyn OpBuilder) -> Result<Pair> {
        let dtype = b.dtype(self.g);
        let (x, src) = (b.cast(self.x, dtype)?, b.cast(self.src, dtype)?);
        let ones = full(b, &self.shape, 1.0, dtype)?;
        let to_x = match (self.wanted.0, self.include_self) {
            (false, _) => None,
            (true, true) => {
                let all = scattered(b, self.dim, ScatterMode::Prod, [ones, self.index, src])?;
                Some(b.mul(self.g, all)?)
            }
            (true, false) => Some(self.cleared(b, self.g)?),
        };
        if !self.wanted.1 {
            return Ok((to_x, None));
        }
        let zero = b.binary(BinaryOp::Eq, src, 0.0)?;
        let present = b.select(zero, 1.0, src)?;
        let rest = scattered(b, self.dim, ScatterMode::Prod, [ones, self.index, present])?;
        let is_zero = b.cast(zero, dtype)?;
        let zeros = self.count(b, is_zero)?;
        let zeros = self.at(b, zeros)?;
        // Zeros among the others.
        let zeros = b.sub(zeros, is_zero)?;
        let alone = b.binary(BinaryOp::Eq, zeros, 0.0)?;
        let scaled = match self.include_self {
            true => b.mul(self.g, x)?,
            false => self.g,
        };
        let product = b.mul(scaled, rest)?;
        let product = self.at(b, product)?;
        let others = b.div(product, present)?;
        Ok((to_x, Some(b.select(alone, others, 0.0)?)))
    }

    fn averaged(&self, b: &mut dyn OpBuilder) -> Result<Pair> {
        let ones = self.ones(b)?;
        let count = self.count(b, ones)?;
        let count = match self.include_self {
            true => b.add(count, 1.0)?,
            false => b.binary(BinaryOp::Maximum, count, 1.0)?,
        };
        let part = b.div(self.g, count)?;
        self.shared(b, part)
    }

    fn extreme(&self, b: &mut dyn OpBuilder, result: ValueId) -> Result<Pair> {
        let dtype = b.dtype(self.g);
        let mut own = b.binary(BinaryOp::Eq, self.x, result)?;
        if !self.include_self {
            let ones = self.ones(b)?;
            let count = self.count(b, ones)?;
            let free = b.binary(BinaryOp::Eq, count, 0.0)?;
            own = b.binary(BinaryOp::LogicalAnd, own, free)?;
        }
        let met = self.at(b, result)?;
        let equal = b.binary(BinaryOp::Eq, self.src, met)?;
        let (of_x, of_src) = (b.cast(own, dtype)?, b.cast(equal, dtype)?);
        let count = scattered(b, self.dim, ScatterMode::Sum, [of_x, self.index, of_src])?;
        // Of NaN nothing is equal: it has no gradient.
        let divisor = b.binary(BinaryOp::Maximum, count, 1.0)?;
        let part = b.div(self.g, divisor)?;
        let to_x = match self.wanted.0 {
            true => Some(b.select(own, part, 0.0)?),
            false => None,
        };
        if !self.wanted.1 {
            return Ok((to_x, None));
        }
        let part = self.at(b, part)?;
        Ok((to_x, Some(b.select(equal, part, 0.0)?)))
    }
}
