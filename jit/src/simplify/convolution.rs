//! Convolutions as matrix products of weights and unfolded inputs (Chellapilla, Puri and Simard, High Performance
//! Convolutional Neural Networks for Document Processing, 2006), where the device's library does not have them.
//!
//! The unfolded input is written by one kernel, padding included; a window of one element is the input itself. Where
//! every group has one input channel nothing would be shared by a product: the taps are summed directly.

use super::shaping::{dims, pad, permute, reshape, slice, sum_as, value};
use super::{Simplifier, correlation, phases};
use crate::target::Library;
use ferrotrace_kernels::op::{Squeeze, Unfold, Unsqueeze};
use ferrotrace_kernels::{ConvSpec, Op, OpBuilder, OpBuilderExt, Operand, ValueId};
use ferrotrace_runtime::{Result, Scalar};

/// The convolution by other operators, or by the device's library.
pub(super) fn define(spec: &ConvSpec, b: &mut Simplifier<'_>, args: &[Operand]) -> Result<ValueId> {
    let (x, w) = (value(args, 0)?, value(args, 1)?);
    let dtype = b.dtype(x).promote(b.dtype(w));
    let (x, w) = (b.cast(x, dtype)?, b.cast(w, dtype)?);
    let spatial = spec.stride.len();
    let batched = b.shape(x).rank() == spatial + 2;
    let x = match batched {
        true => x,
        false => b.push(Op::from(Unsqueeze { dim: 0 }), &[x.into()])?,
    };
    let mut known = None;
    if let Library::Partial(has) = b.policy.target.library {
        known = correlation::define(spec, b, (x, w), has)?;
    }
    if known.is_none() {
        known = correlation::product(spec, b, (x, w))?;
    }
    let y = match (known, spec.transposed) {
        (Some(y), _) => y,
        (None, true) => phases::define(spec, b, (x, w))?,
        (None, false) => {
            let pads: Vec<isize> = spec.padding.iter().map(|&p| p as isize).collect();
            let pads: Vec<(isize, isize)> = pads.into_iter().map(|p| (p, p)).collect();
            let windows = Windows {
                pads: &pads,
                stride: &spec.stride,
                dilation: &spec.dilation,
                groups: spec.groups,
            };
            plain(&windows, b, x, w)?
        }
    };
    match batched {
        true => Ok(y),
        false => b.push(Op::from(Squeeze { mask: 1 }), &[y.into()]),
    }
}

/// How a window moves over its input.
struct Windows<'a> {
    pads: &'a [(isize, isize)],
    stride: &'a [usize],
    dilation: &'a [usize],
    groups: usize,
}

/// `[n, channels, ..]` by `[out, channels / groups, ..]`.
fn plain(windows: &Windows<'_>, b: &mut dyn OpBuilder, x: ValueId, w: ValueId) -> Result<ValueId> {
    let dtype = b.dtype(x);
    let spatial = windows.stride.len();
    let (weights, groups) = (dims(b, w), windows.groups);
    let (out, taken) = (weights[0], weights[1]);
    let mut pads = vec![(0, 0); 2];
    pads.extend_from_slice(windows.pads);
    let zero = match dtype.is_float() {
        true => Scalar::Float(0.0),
        false => Scalar::Int(0),
    };
    let mut x = pad(b, x, &pads, zero)?;
    for i in 0..spatial {
        let (kernel, step) = (weights[2 + i], windows.dilation[i]);
        let size = (kernel - 1) * step + 1;
        let unfold = Op::from(Unfold {
            dim: 2 + i,
            size,
            step: windows.stride[i],
        });
        x = b.push(unfold, &[x.into()])?;
        x = slice(b, x, 2 + spatial + i, (0, size), step)?;
    }
    // [n, channels, positions.., taps..]
    let sizes = dims(b, x);
    let (n, positions) = (sizes[0], &sizes[2..2 + spatial]);
    let (taps, area) = (
        weights[2..].iter().product::<usize>(),
        positions.iter().product::<usize>(),
    );
    if taken == 1 && groups > 1 {
        return direct(b, x, w, (groups, spatial), &sizes);
    }
    if groups == 1 {
        let mut order = vec![0, 1];
        order.extend(2 + spatial..2 + 2 * spatial);
        order.extend(2..2 + spatial);
        let x = permute(b, x, &order)?;
        let x = reshape(b, x, &[n, taken * taps, area])?;
        let w = reshape(b, w, &[out, taken * taps])?;
        let y = b.matmul(w, x)?;
        let mut shape = vec![n, out];
        shape.extend_from_slice(positions);
        return reshape(b, y, &shape);
    }
    // Groups are the batch of one product each over all images.
    let mut split = vec![n, groups, taken];
    split.extend_from_slice(&sizes[2..]);
    let x = reshape(b, x, &split)?;
    let mut order = vec![1, 2];
    order.extend(3 + spatial..3 + 2 * spatial);
    order.push(0);
    order.extend(3..3 + spatial);
    let x = permute(b, x, &order)?;
    let x = reshape(b, x, &[groups, taken * taps, n * area])?;
    let w = reshape(b, w, &[groups, out / groups, taken * taps])?;
    let y = b.matmul(w, x)?;
    let y = reshape(b, y, &[groups, out / groups, n, area])?;
    let y = permute(b, y, &[2, 0, 1, 3])?;
    let mut shape = vec![n, out];
    shape.extend_from_slice(positions);
    reshape(b, y, &shape)
}

/// One input channel a group: sums of taps, `x` as `[n, groups, positions.., taps..]`.
fn direct(
    b: &mut dyn OpBuilder,
    x: ValueId,
    w: ValueId,
    (groups, spatial): (usize, usize),
    sizes: &[usize],
) -> Result<ValueId> {
    let dtype = b.dtype(x);
    let weights = dims(b, w);
    let each = weights[0] / groups;
    // The innermost tap is not the last dimension summed over: neighbouring threads read neighbouring elements.
    let order: Vec<usize> = (0..spatial).rev().collect();
    let mut of_x: Vec<usize> = (0..2 + spatial).collect();
    of_x.extend(order.iter().map(|i| 2 + spatial + i));
    let mut of_w = vec![0, 1];
    of_w.extend(order.iter().map(|i| 2 + i));
    let (x, w) = (permute(b, x, &of_x)?, permute(b, w, &of_w)?);
    let mut shape = dims(b, x);
    shape.insert(2, 1);
    let x = reshape(b, x, &shape)?;
    let mut shape = vec![groups, each];
    shape.extend(std::iter::repeat_n(1, spatial));
    shape.extend(order.iter().map(|i| weights[2 + i]));
    let w = reshape(b, w, &shape)?;
    let wide = dtype.compute();
    let (x, w) = (b.cast(x, wide)?, b.cast(w, wide)?);
    let products = b.mul(x, w)?;
    let mask = (0..spatial).fold(0, |mask, i| mask | 1u64 << (3 + spatial + i));
    let sums = sum_as(b, products, mask, dtype)?;
    let mut shape = vec![sizes[0], weights[0]];
    shape.extend_from_slice(&sizes[2..2 + spatial]);
    reshape(b, sums, &shape)
}
