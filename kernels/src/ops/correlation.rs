//! Convolutions and their gradients in the forms of a device's library, with the same on the CPU in terms of
//! convolutions: what a device does where its library fails.

use super::{Inferred, conv, tensor};
use crate::eager::{Arg, array, cast};
use crate::{ArgMeta, Array, ConvSpec, Correlation};
use ferrotrace_runtime::{
    Activation, Convolution, ConvolutionPart, DType, Error, Layout, Result, Shape,
};
use smallvec::SmallVec;

/// What a library is asked for, with operands of these shapes; `None` for those of no convolution.
pub fn form(op: &Correlation, operands: [&Shape; 2], dtype: DType) -> Option<Convolution> {
    let tensors = match op.part {
        ConvolutionPart::Result => [operands[0], operands[1], &op.shape],
        ConvolutionPart::Input => [&op.shape, operands[1], operands[0]],
        ConvolutionPart::Weight => [operands[0], &op.shape, operands[1]],
    };
    let numbers = |list: &[usize]| list.iter().map(|&n| n as i64).collect();
    let sizes = tensors.map(|shape| {
        let mut sizes: SmallVec<[i64; 5]> = shape.iter().map(|&n| n as i64).collect();
        if op.channels_last && sizes.len() > 1 {
            sizes[1..].rotate_right(1);
        }
        sizes
    });
    let form = Convolution {
        dtype,
        wide: op.wide,
        part: op.part,
        channels_last: op.channels_last,
        sizes,
        stride: numbers(&op.stride),
        padding: numbers(&op.padding),
        dilation: numbers(&op.dilation),
        bias: false,
        activation: Activation::None,
    };
    form.is_sound().then_some(form)
}

pub(super) fn infer(op: &Correlation, args: &[ArgMeta<'_>]) -> Inferred {
    let ((a, dtype), (b, other)) = (tensor(args, 0)?, tensor(args, 1)?);
    match form(op, [a, b], dtype).filter(|_| dtype == other) {
        Some(_) if op.wide => Ok((op.shape.clone(), dtype.compute())),
        Some(_) => Ok((op.shape.clone(), dtype)),
        None => Err(Error::shape(format!(
            "{a} and {b} give no {:?} of shape {} of a convolution",
            op.part, op.shape
        ))),
    }
}

/// A view with dimensions in this order.
fn turned(x: &Array, order: &[usize]) -> Array {
    let shape: Shape = order.iter().map(|&d| x.shape()[d]).collect();
    let strides = order.iter().map(|&d| x.layout.strides()[d]).collect();
    x.with_layout(Layout::new(shape, strides, x.layout.offset()))
}

/// The orders of dimensions that put channels second, and last again.
fn orders(rank: usize) -> [Vec<usize>; 2] {
    let first = [0, rank - 1].into_iter().chain(1..rank - 1);
    let last = [0].into_iter().chain(2..rank).chain([1]);
    [first.collect(), last.collect()]
}

/// What the library computes, on the CPU; a view of fresh memory.
///
/// # Errors
/// Out of memory; the gradient of a weight of several groups.
pub fn run(op: &Correlation, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let [channels_second, channels_last] = orders(shape.rank());
    let operand = |i| -> Result<Array> {
        let x = &match op.wide {
            true => cast(array(args, i)?, dtype)?,
            false => array(args, i)?.clone(),
        };
        Ok(match op.channels_last {
            true => turned(x, &channels_second),
            false => x.clone(),
        })
    };
    let (a, b) = (operand(0)?, operand(1)?);
    let wanted: Shape = match op.channels_last {
        true => channels_second.iter().map(|&d| shape[d]).collect(),
        false => shape.clone(),
    };
    let mut spec = ConvSpec {
        stride: op.stride.clone(),
        padding: op.padding.clone(),
        dilation: op.dilation.clone(),
        output_padding: SmallVec::from_elem(0, op.stride.len()),
        groups: 1,
        transposed: false,
    };
    let convolved = |spec: &ConvSpec, a: &Array, b: &Array| {
        let metas = [a, b].map(|x| ArgMeta::Tensor(x.shape(), x.dtype));
        let (shape, dtype) = conv::infer(spec, &metas)?;
        let args = [Arg::Array(a.clone()), Arg::Array(b.clone())];
        conv::run(spec, &args, &shape, dtype)
    };
    let y = match op.part {
        ConvolutionPart::Result => {
            spec.groups = a.shape()[1] / b.shape()[1].max(1);
            convolved(&spec, &a, &b)?
        }
        ConvolutionPart::Input => {
            spec.groups = wanted[1] / b.shape()[1].max(1);
            spec.transposed = true;
            for i in 0..op.stride.len() {
                let reach = (b.shape()[2 + i] - 1) * op.dilation[i] + 1;
                let full = (a.shape()[2 + i] - 1) * op.stride[i] + reach;
                spec.output_padding[i] = wanted[2 + i] + 2 * op.padding[i] - full;
            }
            convolved(&spec, &a, &b)?
        }
        ConvolutionPart::Weight if wanted[1] == a.shape()[1] => {
            // Channels are the batch; steps and spacings change places.
            std::mem::swap(&mut spec.stride, &mut spec.dilation);
            let mut order: Vec<usize> = (0..shape.rank()).collect();
            order.swap(0, 1);
            let y = convolved(&spec, &turned(&a, &order), &turned(&b, &order))?;
            // Positions that the window never reached give taps too many.
            let y = turned(&y, &order);
            let strides = SmallVec::from_slice(y.layout.strides());
            y.with_layout(Layout::new(wanted.clone(), strides, y.layout.offset()))
        }
        ConvolutionPart::Weight => {
            return Err(Error::unsupported("gradients of weights of several groups"));
        }
    };
    if (y.shape(), y.dtype) != (&wanted, dtype) {
        return Err(Error::internal("a convolution of another shape"));
    }
    Ok(match op.channels_last {
        true => turned(&y, &channels_last),
        false => y,
    })
}
