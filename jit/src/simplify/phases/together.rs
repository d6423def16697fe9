//! All phases as the channels of one convolution.

use super::super::Simplifier;
use super::super::shaping::{dims, pad, permute, reshape, slice};
use super::{Sizes, convolve, zero};
use ferrotrace_kernels::op::Flip;
use ferrotrace_kernels::{ConvSpec, Op, OpBuilder, ValueId};
use ferrotrace_runtime::Result;

/// All phases as the channels of one convolution: the result at `stride · t + r`, padding included, is channel `r` at `t`.
pub(super) fn together(
    spec: &ConvSpec,
    b: &mut Simplifier<'_>,
    (x, w): (ValueId, ValueId),
    of: &Sizes,
) -> Result<ValueId> {
    let (weights, spatial, groups) = (dims(b, w), spec.stride.len(), spec.groups);
    let zero = zero(b.dtype(x));
    let remainders: Vec<(usize, usize)> = (0..spatial).map(|i| of.remainders(spec, i)).collect();
    let phases: usize = remainders.iter().map(|r| r.0).product();
    // [groups, channels, out, (taps, remainders)..], with as many taps of each remainder.
    let mut filled = vec![(0, 0); 2];
    let mut split = vec![groups, weights[0] / groups, weights[1]];
    for (&(of_remainder, taps), kernel) in remainders.iter().zip(&of.taps) {
        filled.push((0, (of_remainder * taps - kernel) as isize));
        split.extend([taps, of_remainder]);
    }
    let w = pad(b, w, &filled, zero)?;
    let w = reshape(b, w, &split)?;
    let mask = (0..spatial).fold(0, |mask, i| mask | 1u64 << (3 + 2 * i));
    let w = b.push(Op::from(Flip { mask }), &[w.into()])?;
    let mut order = vec![0];
    order.extend((0..spatial).map(|i| 4 + 2 * i));
    order.extend([2, 1]);
    order.extend((0..spatial).map(|i| 3 + 2 * i));
    let w = permute(b, w, &order)?;
    let mut joined = vec![groups * phases * weights[1], weights[0] / groups];
    joined.extend(remainders.iter().map(|r| r.1));
    let w = reshape(b, w, &joined)?;
    let pads = (0..spatial).map(|i| {
        let after = of.positions(spec, i) as isize - of.input[i] as isize;
        (remainders[i].1 as isize - 1, after)
    });
    let y = convolve(
        b,
        (x, w),
        &pads.collect::<Vec<_>>(),
        (groups, &[1, 1, 1][..spatial]),
    )?;
    // [n, groups, remainders.., out, positions..]
    let found = dims(b, y);
    let mut split = vec![found[0], groups];
    split.extend(remainders.iter().map(|r| r.0));
    split.push(weights[1]);
    split.extend_from_slice(&found[2..]);
    let y = reshape(b, y, &split)?;
    let mut order = vec![0, 1, 2 + spatial];
    order.extend((0..spatial).flat_map(|i| [3 + spatial + i, 2 + i]));
    let y = permute(b, y, &order)?;
    // Remainders that no tap has are zeros.
    let mut filled = vec![(0, 0); 3];
    let mut joined = vec![found[0], groups * weights[1]];
    for i in 0..spatial {
        let none = spec.stride[i] - remainders[i].0;
        filled.extend([(0, 0), (0, none as isize)]);
        joined.push(found[2 + i] * spec.stride[i]);
    }
    let y = pad(b, y, &filled, zero)?;
    let mut y = reshape(b, y, &joined)?;
    for (i, (&first, n)) in spec.padding.iter().zip(&of.output).enumerate() {
        y = slice(b, y, 2 + i, (first, first + n), 1)?;
    }
    Ok(y)
}
