//! The gradients of pooling: sums over the windows that cover an element.
//!
//! With a step of s, element i of the padded input is element r of step q, i = q·s + r. Window q − j covers it where
//! r + j·s is below the window's size, for a few j. So the windows that cover an element are a view of the padded result,
//! and nothing is scattered. Adaptive windows cover as they are covered: with both sizes exchanged.

use crate::op::gradient::{expanded, full, reshaped};
use crate::op::{Iota, Pad, Permute, Scatter, Unfold};
use crate::ops::pool::definition::{least, windows};
use crate::ops::pool::{AdaptiveAvgPool, PoolSpec};
use crate::{BinaryOp, Op, OpBuilder, OpBuilderExt, Operand, ReduceKind, ScatterMode, ValueId};
use ferrotrace_runtime::{Result, Scalar, Shape};
use smallvec::SmallVec;

/// Windows that cover one element, above which maxima scatter their gradients instead: a scatter is one pass in memory of
/// the input's size, but a device sorts its places.
const COVERING: usize = 4;

/// How the windows of one dimension cover its elements.
#[derive(Clone, Copy, Debug)]
struct Cover {
    input: usize,
    output: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    /// Windows that cover an element, at most.
    most: usize,
}

impl Cover {
    /// Steps that reach past the last window.
    fn steps(&self) -> usize {
        self.output + self.most - 1
    }
}

fn covers(spec: &PoolSpec, input: &[usize], output: &[usize]) -> SmallVec<[Cover; 3]> {
    let cover = |i: usize| Cover {
        input: input[i],
        output: output[i],
        kernel: spec.kernel[i],
        stride: spec.stride[i],
        padding: spec.padding[i],
        most: spec.kernel[i].div_ceil(spec.stride[i]),
    };
    (0..spec.kernel.len()).map(cover).collect()
}

/// The gradient of a mean in equal parts to all of its window, from the result's.
pub(super) fn of_means(
    spec: &PoolSpec,
    b: &mut dyn OpBuilder,
    g: ValueId,
    from: &Shape,
) -> Result<ValueId> {
    let lead = from.rank() - spec.kernel.len();
    let axes = covers(spec, &from[lead..], &b.shape(g)[lead..]);
    let taps: usize = spec.kernel.iter().product();
    let part = b.div(g, taps as f64)?;
    let parts = covering(b, part, &axes, Scalar::Float(0.0))?;
    let seen = match Taps::new(b, &axes)?.inside {
        Some(inside) => b.select(inside, parts, 0.0)?,
        None => parts,
    };
    summed(b, seen, &axes, from)
}

/// The gradient of a maximum, from the result's: it goes to the first element that has it.
pub(super) fn of_maxima(
    spec: &PoolSpec,
    b: &mut dyn OpBuilder,
    g: ValueId,
    x: ValueId,
) -> Result<ValueId> {
    let from = b.shape(x).clone();
    let lead = from.rank() - spec.kernel.len();
    let axes = covers(spec, &from[lead..], &b.shape(g)[lead..]);
    let first = first_greatest(spec, b, x, &axes)?;
    if axes.iter().map(|axis| axis.most).product::<usize>() > COVERING {
        return scattered(b, (g, first), &axes, &from);
    }
    let parts = covering(b, g, &axes, Scalar::Float(0.0))?;
    let first = covering(b, first, &axes, Scalar::Int(-1))?;
    let taps = Taps::new(b, &axes)?;
    let tap = match taps.inside {
        Some(inside) => b.select(inside, taps.at, Operand::Const(Scalar::Int(-2)))?,
        None => taps.at,
    };
    let hit = b.binary(BinaryOp::Eq, first, tap)?;
    let seen = b.select(hit, parts, 0.0)?;
    summed(b, seen, &axes, &from)
}

/// The first greatest element of each window, in row-major order of its elements; none of the padding, which is as great
/// as −∞.
fn first_greatest(
    spec: &PoolSpec,
    b: &mut dyn OpBuilder,
    x: ValueId,
    axes: &[Cover],
) -> Result<ValueId> {
    let (rank, spatial) = (b.shape(x).rank(), spec.kernel.len());
    let least = least(b.dtype(x));
    let windows = windows(spec, b, x, least)?;
    let mask = (rank..rank + spatial).fold(0, |mask, d| mask | 1u64 << d);
    let greatest = b.reduce(ReduceKind::ArgMax, windows, mask, false)?;
    // No element of a window is before the first one that is not padding.
    let mut first = None;
    for (i, axis) in axes.iter().enumerate() {
        if axis.padding > 0 {
            let mut shape = Shape::new(&[1; 3][..axes.len()]);
            shape.dims_mut()[i] = axis.output;
            let window = b.push(Op::Iota(Iota { shape, dim: i }), &[])?;
            let start = b.mul(window, axis.stride as i64)?;
            let padded = b.binary(BinaryOp::Sub, axis.padding as i64, start)?;
            let padded = b.binary(BinaryOp::Maximum, padded, 0i64)?;
            let below: usize = axes[i + 1..].iter().map(|axis| axis.kernel).product();
            let taps = b.mul(padded, below as i64)?;
            first = Some(match first {
                Some(first) => b.add(first, taps)?,
                None => taps,
            });
        }
    }
    match first {
        Some(first) => b.binary(BinaryOp::Maximum, greatest, first),
        None => Ok(greatest),
    }
}

/// The windows that cover each element: `[.., steps, 1, windows]` for each dimension of `[.., outputs]`, with `fill` where
/// there is no window.
fn covering(b: &mut dyn OpBuilder, x: ValueId, axes: &[Cover], fill: Scalar) -> Result<ValueId> {
    let rank = b.shape(x).rank();
    let lead = rank - axes.len();
    let mut pads: SmallVec<[(isize, isize); 4]> = SmallVec::from_elem((0, 0), lead);
    pads.extend(axes.iter().map(|axis| {
        let beyond = axis.most as isize - 1;
        (beyond, beyond)
    }));
    let mut view = match pads.iter().all(|&pad| pad == (0, 0)) {
        true => x,
        false => b.push(Op::Pad(Pad(pads)), &[x.into(), Operand::Const(fill)])?,
    };
    for (i, axis) in axes.iter().enumerate() {
        let unfold = Unfold {
            dim: lead + i,
            size: axis.most,
            step: 1,
        };
        view = b.push(Op::from(unfold), &[view.into()])?;
    }
    let mut order: SmallVec<[u8; 6]> = (0..lead as u8).collect();
    order.extend((0..axes.len()).flat_map(|i| [(lead + i) as u8, (rank + i) as u8]));
    let view = b.push(Op::Permute(Permute(order)), &[view.into()])?;
    let mut shape = Shape::new(&b.shape(x)[..lead]);
    for axis in axes {
        shape.dims_mut().extend([axis.steps(), 1, axis.most]);
    }
    reshaped(b, view, &shape)
}

/// Elements of windows, for each element of a step and each window that may cover it: `[1, stride, windows]` for each
/// dimension.
struct Taps {
    /// The row-major position in the window.
    at: ValueId,
    /// Whether the window has it; nothing where all do.
    inside: Option<ValueId>,
}

impl Taps {
    fn new(b: &mut dyn OpBuilder, axes: &[Cover]) -> Result<Taps> {
        let (mut joint, mut inside) = (None, None);
        for (i, axis) in axes.iter().enumerate() {
            let iota = |b: &mut dyn OpBuilder, dim: usize, size: usize| {
                let mut shape = Shape::new(&[1; 9][..3 * axes.len()]);
                shape.dims_mut()[dim] = size;
                b.push(Op::Iota(Iota { shape, dim }), &[])
            };
            let element = iota(b, 3 * i + 1, axis.stride)?;
            let mut tap = element;
            if axis.most > 1 {
                // The view has the windows in ascending order: the last is window q.
                let window = iota(b, 3 * i + 2, axis.most)?;
                let back = b.binary(BinaryOp::Sub, axis.most as i64 - 1, window)?;
                let shift = b.mul(back, axis.stride as i64)?;
                tap = b.add(element, shift)?;
            }
            if axis.most * axis.stride > axis.kernel {
                let within = b.binary(BinaryOp::Lt, tap, axis.kernel as i64)?;
                inside = Some(match inside {
                    Some(inside) => b.binary(BinaryOp::LogicalAnd, inside, within)?,
                    None => within,
                });
            }
            joint = Some(match joint {
                Some(joint) => {
                    let row = b.mul(joint, axis.kernel as i64)?;
                    b.add(row, tap)?
                }
                None => tap,
            });
        }
        let at = match joint {
            Some(at) => at,
            None => b.push(
                Op::Iota(Iota {
                    shape: Shape::from([1]),
                    dim: 0,
                }),
                &[],
            )?,
        };
        Ok(Taps { at, inside })
    }
}

/// The sums over windows of `[.., steps, stride, windows]` for each dimension, as elements of the input, of shape `to`.
fn summed(b: &mut dyn OpBuilder, x: ValueId, axes: &[Cover], to: &Shape) -> Result<ValueId> {
    let lead = to.rank() - axes.len();
    let mut whole = Shape::new(&to[..lead]);
    for axis in axes {
        whole
            .dims_mut()
            .extend([axis.steps(), axis.stride, axis.most]);
    }
    let mut sum = expanded(b, x, &whole)?;
    if axes.iter().any(|axis| axis.most > 1) {
        let mask = (0..axes.len()).fold(0, |mask, i| mask | 1u64 << (lead + 3 * i + 2));
        sum = b.reduce(ReduceKind::Sum, sum, mask, false)?;
    }
    let (mut joined, mut pads) = (Shape::new(&to[..lead]), SmallVec::from_elem((0, 0), lead));
    for axis in axes {
        let size = axis.steps() * axis.stride;
        joined.dims_mut().push(size);
        let (before, end) = (axis.padding as isize, (axis.padding + axis.input) as isize);
        pads.push((-before, end - size as isize));
    }
    let sum = reshaped(b, sum, &joined)?;
    match pads.iter().all(|&pad| pad == (0, 0)) {
        true => Ok(sum),
        false => b.push(Op::Pad(Pad(pads)), &[sum.into(), 0.0.into()]),
    }
}

/// The gradient added at the first greatest element of each window.
fn scattered(
    b: &mut dyn OpBuilder,
    (g, first): (ValueId, ValueId),
    axes: &[Cover],
    to: &Shape,
) -> Result<ValueId> {
    let lead = to.rank() - axes.len();
    let (mut rest, mut at) = (first, None);
    // From the last dimension: its element is what the division by its size leaves.
    let mut plane = 1i64;
    for (i, axis) in axes.iter().enumerate().rev() {
        let mut shape = Shape::new(&[1; 3][..axes.len()]);
        shape.dims_mut()[i] = axis.output;
        let start = b.push(Op::Iota(Iota { shape, dim: i }), &[])?;
        let start = b.mul(start, axis.stride as i64)?;
        let tap = b.binary(BinaryOp::Mod, rest, axis.kernel as i64)?;
        rest = b.binary(BinaryOp::FloorDiv, rest, axis.kernel as i64)?;
        let place = b.add(start, tap)?;
        let place = b.sub(place, axis.padding as i64)?;
        let place = b.binary(BinaryOp::Maximum, place, 0i64)?;
        let place = b.mul(place, plane)?;
        plane *= axis.input as i64;
        at = Some(match at {
            Some(at) => b.add(at, place)?,
            None => place,
        });
    }
    let at = at.unwrap_or(rest);
    let planes: usize = to[..lead].iter().product();
    let outputs: usize = axes.iter().map(|axis| axis.output).product();
    let at = reshaped(b, at, &[planes, outputs].into())?;
    let g = reshaped(b, g, &[planes, outputs].into())?;
    let dtype = b.dtype(g);
    let zeros = full(b, &[planes, plane as usize].into(), 0.0, dtype)?;
    let scatter = Scatter {
        dim: 1,
        mode: ScatterMode::Sum,
        include_self: true,
    };
    let dx = b.push(Op::from(scatter), &[zeros.into(), at.into(), g.into()])?;
    reshaped(b, dx, to)
}

/// How many of `input` elements each of `output` adaptive windows has, shaped by `dim` of two.
fn lengths(
    b: &mut dyn OpBuilder,
    (input, output): (usize, usize),
    dim: usize,
) -> Result<Option<ValueId>> {
    if output.is_multiple_of(input) {
        return Ok(None);
    }
    let mut shape = Shape::from([1, 1]);
    shape.dims_mut()[dim] = output;
    let i = b.push(Op::Iota(Iota { shape, dim }), &[])?;
    let (input, output) = (input as i64, output as i64);
    let scaled = b.mul(i, input)?;
    let start = b.binary(BinaryOp::FloorDiv, scaled, output)?;
    // ⌈(i + 1) · in / out⌉
    let end = b.add(scaled, input + output - 1)?;
    let end = b.binary(BinaryOp::FloorDiv, end, output)?;
    b.sub(end, start).map(Some)
}

/// The gradient of means over adaptive windows: the sum of the parts of the means that cover an element is the mean over
/// adaptive windows of the result, times how many there are.
pub(super) fn of_adaptive_means(
    sizes: [usize; 2],
    b: &mut dyn OpBuilder,
    g: ValueId,
) -> Result<ValueId> {
    let to = b.shape(g).clone();
    let lead = to.rank() - 2;
    let from: Shape = to[..lead].iter().chain(&sizes).copied().collect();
    let dtype = b.dtype(g);
    if from.numel() == 0 || to.numel() == 0 {
        return full(b, &from, 0.0, dtype);
    }
    let mut part = g;
    for d in 0..2 {
        if let Some(count) = lengths(b, (sizes[d], to[lead + d]), d)? {
            let count = b.cast(count, dtype)?;
            part = b.div(part, count)?;
        }
    }
    let mut dx = b.push(Op::from(AdaptiveAvgPool { size: sizes }), &[part.into()])?;
    for d in 0..2 {
        if let Some(count) = lengths(b, (to[lead + d], sizes[d]), d)? {
            let count = b.cast(count, dtype)?;
            dx = b.mul(dx, count)?;
        }
    }
    Ok(dx)
}
