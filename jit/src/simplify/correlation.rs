//! Convolutions that a device's library computes, in the form that it has.
//!
//! Half-precision tensors are given to it with channels innermost, as tensor cores want them, others as they lie. What turns
//! them fuses with what is around: between two convolutions nothing is turned. A weight of more taps than there are
//! results is a gradient, as programs write that of a weight; a transposed convolution is that of an input, or phases
//! (`phases/`).

use super::Simplifier;
use super::shaping::{dims, inverse, permute, reshape};
use crate::graph::NodeOp;
use ferrotrace_kernels::op::operator::Operator;
use ferrotrace_kernels::op::{Permute, Squeeze, Unsqueeze};
use ferrotrace_kernels::{
    ArgMeta, ConvSpec, Correlation, Op, OpBuilder, OpBuilderExt, Operand, ValueId,
    ops::correlation::form,
};
use ferrotrace_runtime::{Convolution, ConvolutionPart, Device, Result, Shape};
use smallvec::SmallVec;

/// The convolution of `[n, channels, ..]`; `None` where the library has no such form, or where other kernels are better:
/// windows of one element, which are products, and groups of one channel.
pub(super) fn define(
    spec: &ConvSpec,
    b: &mut Simplifier<'_>,
    (x, w): (ValueId, ValueId),
    has: fn(&Device, &Convolution) -> Result<bool>,
) -> Result<Option<ValueId>> {
    let dtype = b.dtype(x);
    let weights = dims(b, w);
    let depthwise = !spec.transposed && spec.groups > 1 && weights[1] == 1;
    let spread = !dtype.is_half() && is_spread(spec, &weights);
    if !dtype.is_float() || depthwise || spread || is_product(spec, &weights) {
        return Ok(None);
    }
    if spec.stride.len() == 1 {
        return define_flat(spec, b, (x, w), has);
    }
    let metas = [x, w].map(|v| ArgMeta::Tensor(b.shape(v), dtype));
    let (shape, _) = spec.infer(&metas)?;
    let area = |dims: &[usize]| dims[2..].iter().product::<usize>();
    let part = match spec.transposed {
        true => ConvolutionPart::Input,
        false if spec.groups == 1 && area(&weights) > area(&shape) => ConvolutionPart::Weight,
        false => ConvolutionPart::Result,
    };
    // Of a weight's gradient the programs' batch is the input's channels.
    let rank = shape.rank();
    let mut swap: Vec<usize> = (0..rank).collect();
    if part == ConvolutionPart::Weight {
        swap.swap(0, 1);
    }
    // Sums that a bias joins before they are rounded: the library adds one to a result alone.
    let never = b.unrounded && dtype.is_half();
    let part = match part {
        ConvolutionPart::Weight if never => ConvolutionPart::Result,
        part => part,
    };
    let (stride, dilation) = match part {
        ConvolutionPart::Weight => (&spec.dilation, &spec.stride),
        _ => (&spec.stride, &spec.dilation),
    };
    let rows: Vec<usize> = (0..rank).collect();
    let last: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let channels_last = match dtype.is_half() {
        true => [true, false],
        false if innermost(b, x) == Some(swap[1]) => [true, false],
        false => [false, true],
    };
    for channels_last in channels_last {
        let order = if channels_last { &last } else { &rows };
        let order: Vec<usize> = order.iter().map(|&d| swap[d]).collect();
        let lies = |shape: &Shape| -> Shape { order.iter().map(|&d| shape[d]).collect() };
        let op = Correlation {
            part,
            channels_last,
            stride: stride.clone(),
            padding: spec.padding.clone(),
            dilation: dilation.clone(),
            wide: never && part == ConvolutionPart::Input,
            shape: lies(&shape),
        };
        let form = form(&op, [&lies(b.shape(x)), &lies(b.shape(w))], dtype);
        let device = b.graph.device();
        if !form.map_or(Ok(false), |form| has(&device, &form))? {
            continue;
        }
        let operands = [permute(b, x, &order)?.into(), permute(b, w, &order)?.into()];
        let y = b.keep(Op::from(op), &operands)?;
        return permute(b, y, &inverse(&order)).map(Some);
    }
    Ok(None)
}

/// A convolution over one dimension as one over two, of which the first has size 1: the library has no other.
fn define_flat(
    spec: &ConvSpec,
    b: &mut Simplifier<'_>,
    (x, w): (ValueId, ValueId),
    has: fn(&Device, &Convolution) -> Result<bool>,
) -> Result<Option<ValueId>> {
    let mut wide = spec.clone();
    wide.stride.insert(0, 1);
    wide.padding.insert(0, 0);
    wide.dilation.insert(0, 1);
    wide.output_padding.insert(0, 0);
    let x = b.push(Op::from(Unsqueeze { dim: 2 }), &[x.into()])?;
    let w = b.push(Op::from(Unsqueeze { dim: 2 }), &[w.into()])?;
    let Some(y) = define(&wide, b, (x, w), has)? else {
        return Ok(None);
    };
    let squeeze = Op::from(Squeeze { mask: 1 << 2 });
    b.push(squeeze, &[y.into()]).map(Some)
}

/// Whether a convolution is transposed with a stride and phases are faster. In binary32, with the same bits in every run, the
/// library takes up to 100 times as long as phases do (`layers` in benches/RESULTS.md), but for 4 by 4 taps with a stride of
/// 2 in two dimensions it takes 0.66 to 0.93 of their time.
fn is_spread(spec: &ConvSpec, weights: &[usize]) -> bool {
    let all = |list: &[usize], n| list.iter().all(|&m| m == n);
    let quick = weights[2..] == [4, 4] && all(&spec.stride, 2) && all(&spec.dilation, 1);
    let grouped = spec.groups > 1;
    spec.transposed && spec.stride.iter().any(|&s| s > 1) && (grouped || !quick)
}

/// Whether a convolution is a matrix product of its weight and its input as it is.
fn is_product(spec: &ConvSpec, weights: &[usize]) -> bool {
    let all = |list: &SmallVec<[usize; 3]>, n| list.iter().all(|&m| m == n);
    let one = weights[2..].iter().all(|&taps| taps == 1);
    one && !spec.transposed && spec.groups == 1 && all(&spec.stride, 1) && all(&spec.padding, 0)
}

/// A product of an input whose channels lie innermost, with a result that lies so, too: columns are channels. `None` for
/// other convolutions.
pub(super) fn product(
    spec: &ConvSpec,
    b: &mut Simplifier<'_>,
    (x, w): (ValueId, ValueId),
) -> Result<Option<ValueId>> {
    let weights = dims(b, w);
    if !is_product(spec, &weights) || innermost(b, x) != Some(1) {
        return Ok(None);
    }
    let rank = b.shape(x).rank();
    let last: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let x = permute(b, x, &last)?;
    let mut sizes = dims(b, x);
    let rows = sizes[..rank - 1].iter().product();
    let x = reshape(b, x, &[rows, weights[1]])?;
    let w = reshape(b, w, &weights[..2])?;
    let w = permute(b, w, &[1, 0])?;
    let y = b.matmul(x, w)?;
    sizes[rank - 1] = weights[0];
    let y = reshape(b, y, &sizes)?;
    permute(b, y, &inverse(&last)).map(Some)
}

/// The dimension along which a value's elements are neighbours in memory, as far as can be told: through permutations
/// and pointwise operators, whose results lie as what they read does.
fn innermost(b: &Simplifier<'_>, x: ValueId) -> Option<usize> {
    let rank = b.shape(x).rank();
    let mut order: Vec<usize> = (0..rank).collect();
    let mut at = x;
    loop {
        let node = b.graph.node(at);
        let op = match &node.op {
            NodeOp::Input(n) => {
                let strides = b.graph.inputs()[*n as usize].layout.strides();
                return order
                    .iter()
                    .position(|&d| strides[d] == 1 && node.shape[d] > 1);
            }
            NodeOp::Op(op) => op,
        };
        let same = |arg: &&Operand| matches!(arg, Operand::Value(v) if b.shape(*v) == b.shape(at));
        match op.as_permute() {
            Some(Permute(by)) => order = order.iter().map(|&d| by[d] as usize).collect(),
            None if op.is_elementwise() => {}
            None => return order.iter().position(|&d| d + 1 == node.shape.rank()),
        }
        at = match (op.as_permute(), node.args.iter().find(same)) {
            (Some(_), _) => match node.args.first() {
                Some(Operand::Value(from)) => *from,
                _ => return None,
            },
            (_, Some(Operand::Value(from))) => *from,
            _ => return order.iter().position(|&d| d + 1 == node.shape.rank()),
        };
    }
}
