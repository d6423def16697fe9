//! The gradients of convolutions, which are convolutions.

use crate::op::gradient::{Adjoint, Gradients, full, reshaped};
use crate::op::{Narrow, Permute};
use crate::{ConvSpec, Op, OpBuilder, ValueId};
use ferrotrace_runtime::{Result, Shape};
use smallvec::{SmallVec, smallvec};

/// The gradient of the input is a convolution of the result's gradient, transposed if the convolution is not; that of the
/// weight is one of the channels of the input by those of the result, whose sums run over images and positions.
pub(super) fn vjp(spec: &ConvSpec, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
    let (x, w, mut gradients) = (of.value(0)?, of.value(1)?, of.none());
    let (from, weights) = (b.shape(x).clone(), b.shape(w).clone());
    let spatial = spec.stride.len();
    // A single image is a batch of one.
    let batch = |shape: &Shape| -> Shape {
        let lead = (shape.rank() == spatial + 1).then_some(1);
        lead.into_iter().chain(shape.iter().copied()).collect()
    };
    let (input, output) = (batch(&from), batch(b.shape(of.gradient)));
    let dtype = b.dtype(of.gradient);
    if input.numel() == 0 || output.numel() == 0 || weights.numel() == 0 {
        for (i, shape) in [(0, &from), (1, &weights)] {
            if of.wants(i) {
                gradients[i] = Some(full(b, shape, 0.0, dtype)?);
            }
        }
        return Ok(gradients);
    }
    let g = reshaped(b, of.gradient, &output)?;
    if of.wants(0) {
        let dx = of_input(spec, b, (g, w), &input)?;
        gradients[0] = Some(reshaped(b, dx, &from)?);
    }
    if of.wants(1) {
        let x = reshaped(b, x, &input)?;
        let (wide, narrow) = if spec.transposed { (g, x) } else { (x, g) };
        gradients[1] = Some(of_weight(spec, b, (wide, narrow), &weights)?);
    }
    Ok(gradients)
}

/// The gradient of an input of shape `input` from that of the result.
fn of_input(
    spec: &ConvSpec,
    b: &mut dyn OpBuilder,
    (g, w): (ValueId, ValueId),
    input: &Shape,
) -> Result<ValueId> {
    let spatial = spec.stride.len();
    let mut adjoint = ConvSpec {
        transposed: !spec.transposed,
        output_padding: smallvec![0; spatial],
        ..spec.clone()
    };
    if adjoint.transposed {
        // What windows do not reach behind the last one.
        for i in 0..spatial {
            let reach = (b.shape(w)[2 + i] - 1) * spec.dilation[i] + 1;
            let full = (b.shape(g)[2 + i] - 1) * spec.stride[i] + reach;
            adjoint.output_padding[i] = input[2 + i] + 2 * spec.padding[i] - full;
        }
    }
    let dx = b.push(Op::from(adjoint), &[g.into(), w.into()])?;
    first(b, dx, input)
}

/// The gradient of a weight of shape `weights`: of the two tensors of the plain convolution that has it, `x` is the one with
/// the windows, `g` has an element for each. Channels are images, images are channels, steps and spacings change places.
fn of_weight(
    spec: &ConvSpec,
    b: &mut dyn OpBuilder,
    (x, g): (ValueId, ValueId),
    weights: &Shape,
) -> Result<ValueId> {
    let (groups, spatial) = (spec.groups, spec.stride.len());
    let sizes = b.shape(x).clone();
    let (images, channels) = (sizes[0], sizes[1] / groups);
    // [channels, groups · images, ..]
    let mut split: Shape = [images, groups, channels].into_iter().collect();
    split.dims_mut().extend_from_slice(&sizes[2..]);
    let mut turned: Shape = [channels, groups * images].into_iter().collect();
    turned.dims_mut().extend_from_slice(&sizes[2..]);
    let order: SmallVec<[u8; 6]> = [2, 1, 0].into_iter().chain(3..3 + spatial as u8).collect();
    let x = match groups {
        1 => swapped(b, x)?,
        _ => {
            let x = reshaped(b, x, &split)?;
            let x = b.push(Op::Permute(Permute(order)), &[x.into()])?;
            reshaped(b, x, &turned)?
        }
    };
    let g = swapped(b, g)?;
    let plain = ConvSpec {
        stride: spec.dilation.clone(),
        dilation: spec.stride.clone(),
        output_padding: smallvec![0; spatial],
        transposed: false,
        ..spec.clone()
    };
    let dw = b.push(Op::from(plain), &[x.into(), g.into()])?;
    let dw = swapped(b, dw)?;
    // Positions that no window reached give taps too many.
    first(b, dw, weights)
}

/// The first two dimensions exchanged.
fn swapped(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let rest = 2..b.shape(x).rank() as u8;
    let order = [1, 0].into_iter().chain(rest).collect();
    b.push(Op::Permute(Permute(order)), &[x.into()])
}

/// The first elements of each dimension, as many as `shape` has.
fn first(b: &mut dyn OpBuilder, mut x: ValueId, shape: &Shape) -> Result<ValueId> {
    for (dim, &len) in shape.iter().enumerate() {
        if b.shape(x)[dim] != len {
            let start = 0;
            x = b.push(Op::Narrow(Narrow { dim, start, len }), &[x.into()])?;
        }
    }
    Ok(x)
}
