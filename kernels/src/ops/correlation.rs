//! Convolutions and their gradients in the forms of a device's library, with the same on the CPU in terms of
//! convolutions: what a device does where its library fails.

mod library;

use super::{conv, tensor};
use crate::arg::{Arg, array};
use crate::copy::{Dense, cast};
use crate::op::gradient::{Adjoint, Gradients};
use crate::op::operator::{Inferred, OnDevice, Operator, attributes, facts, question};
use crate::text::{Line, words};
use crate::{ArgMeta, Array, Class, ConvSpec, Op, OpBuilder, OpBuilderExt};
use ferrotrace_runtime::{
    Activation, Convolution, ConvolutionPart, DType, Device, Error, Layout, Result, Shape,
};
pub use library::run_by_library;
use smallvec::SmallVec;

words! {
    ConvolutionPart: "a part of a convolution" {
        "result" = ConvolutionPart::Result,
        "input" = ConvolutionPart::Input,
        "weight" = ConvolutionPart::Weight,
    }
}

/// Attributes of a convolution as a library of devices has it: the result or a gradient, in one of two orders of
/// dimensions, over 2 or 3 spatial ones. Programs do not record it; plans for devices do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Correlation {
    /// Which of input, weight and result is computed of the two others, which are the operands in this order, but for
    /// the input's gradient, whose operands are the result's gradient and the weight.
    pub part: ConvolutionPart,
    /// Whether dimensions are `[n, .., channels]` and the weight's `[out, .., in / groups]`, instead of
    /// `[n, channels, ..]` and `[out, in / groups, ..]`.
    pub channels_last: bool,
    /// Step of the window over the input.
    pub stride: SmallVec<[usize; 3]>,
    /// Zeros added on both sides of the input.
    pub padding: SmallVec<[usize; 3]>,
    /// Spacing of the weight's taps.
    pub dilation: SmallVec<[usize; 3]>,
    /// Whether what is computed of half-precision operands is binary32, as its sums are.
    pub wide: bool,
    /// Of what is computed.
    pub shape: Shape,
}

question! {
    /// The convolution, or gradient of one, of a library of devices that it is.
    as_correlation: Correlate(Correlation)
}

impl Operator for Correlation {
    fn name(&self) -> &'static str {
        "correlate"
    }

    attributes!(
        part = part,
        channels_last = channels_last,
        stride = stride,
        padding = padding,
        dilation = dilation,
        wide = wide,
    );

    fn read(name: &str, line: &Line<'_>) -> Result<Option<Correlation>> {
        if name != "correlate" {
            return Ok(None);
        }
        Ok(Some(Correlation {
            part: line.value("part")?,
            channels_last: line.value("channels_last")?,
            stride: line.value("stride")?,
            padding: line.value("padding")?,
            dilation: line.value("dilation")?,
            wide: line.value("wide")?,
            shape: line.shape.clone(),
        }))
    }

    facts! {
        class: Class::Library,
        light: false,
        jumps: false,
        // Of each element of the result y, products with a row of the weight.
        work: |op, of| {
            let row = of.numel(1) / of.size(1, 0).max(1);
            let rows = of.result.first().map_or(1, |&n| n as u64);
            let (y, row) = match op.part {
                ConvolutionPart::Result => (of.result(), row),
                ConvolutionPart::Input => (of.numel(0), row),
                ConvolutionPart::Weight => (of.numel(1), of.result() / rows.max(1)),
            };
            2 * y * row
        }
    }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer(self, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        // Input, weight and result are what is computed, and the operands: each is linear in both others.
        let (known, mut gradients) = (self.operands(), of.none());
        let dtype = b.dtype(of.value(0)?);
        let g = b.cast(of.gradient, dtype)?;
        for i in (0..2).filter(|&i| of.wants(i)) {
            let other = (known[1 - i], of.value(1 - i)?);
            let op = Correlation {
                part: known[i],
                wide: false,
                shape: b.shape(of.value(i)?).clone(),
                ..self.clone()
            };
            let at = |part| if part == other.0 { other.1 } else { g };
            let operands = op.operands().map(|part| at(part).into());
            gradients[i] = Some(b.push(Op::from(op), &operands)?);
        }
        Ok(gradients)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run(self, args, shape, dtype)
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl Correlation {
    /// What the operands are.
    fn operands(&self) -> [ConvolutionPart; 2] {
        match self.part {
            ConvolutionPart::Result => [ConvolutionPart::Input, ConvolutionPart::Weight],
            ConvolutionPart::Input => [ConvolutionPart::Result, ConvolutionPart::Weight],
            ConvolutionPart::Weight => [ConvolutionPart::Input, ConvolutionPart::Result],
        }
    }
}

impl OnDevice for Correlation {
    fn run_on(
        &self,
        _: &Device,
        args: &[Arg],
        _: &Shape,
        _: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>> {
        run_by_library(self, args, &Default::default(), dense)
    }
}

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
