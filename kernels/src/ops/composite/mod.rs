//! Operators defined by others.
//!
//! A composite is written once, as a [decomposition](decompose) through [`OpBuilder`]. Its shape and dtype rule is that
//! decomposition run on shapes alone, its ready-made form the same run operator by operator. Decompositions read the
//! shapes the builder has at that moment and never the value of a number operand, so one holds for every number, and is
//! run again for other sizes.
//!
//! Half-precision operands are taken to F32 first and the result rounded once, except where an operator is of one
//! rounding anyway. Functions of floats take integers and truth values as F32.

mod activation;
mod arrange;
mod attention;
mod build;
mod einsum;
mod loss;
mod norm;
mod product;
mod random;
mod reduction;
mod softmax;
mod ternary;
#[cfg(test)]
mod testing;

use super::Inferred;
use crate::eager::Arg;
use crate::{ArgMeta, Array, Composite, Loss, OpBuilder, Operand, ValueId};
use build::{Recorder, ShapeBuilder};
use ferrotrace_runtime::{DType, Error, ErrorKind, Result, Shape};
use smallvec::SmallVec;

/// Builds the operator from others.
///
/// The result may be an operand itself where the operator changes nothing (a roll by 0, dropout of nothing).
///
/// # Errors
/// The operands do not fit the operator: the error names what is wrong (shape, dtype, dimension, argument).
pub fn decompose(op: &Composite, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
    use Composite::*;
    match op {
        Gelu | GeluTanh | Silu | Mish | Softplus | Softsign | Hardtanh | Hardswish
        | Hardsigmoid | LogSigmoid | Relu6 | LeakyRelu | Elu | Selu | Celu | Frac => {
            activation::decompose(op, b, args)
        }
        Clamp => ternary::clamp(b, args),
        Lerp => ternary::lerp(b, args),
        Addcmul => ternary::addcmul(b, args),
        Addcdiv => ternary::addcdiv(b, args),
        NanToNum => ternary::nan_to_num(b, args),
        Dropout { p } => random::dropout(b, args, f64::from_bits(*p)),
        Softmax { dim } => softmax::softmax(b, args, *dim),
        LogSoftmax { dim } => softmax::log_softmax(b, args, *dim),
        LogSumExp { mask, keepdim } => softmax::logsumexp(b, args, *mask, *keepdim),
        Var {
            mask,
            keepdim,
            correction,
            root,
        } => reduction::var(b, args, *mask, *keepdim, *correction, *root),
        Norm { p, mask, keepdim } => reduction::norm(b, args, f64::from_bits(*p), *mask, *keepdim),
        CountNonzero { mask, keepdim } => reduction::count_nonzero(b, args, *mask, *keepdim),
        LayerNorm { n, weight, bias } => norm::layer_norm(b, args, *n, *weight, *bias),
        RmsNorm { n, weight } => norm::rms_norm(b, args, *n, *weight),
        GroupNorm {
            groups,
            weight,
            bias,
        } => norm::group_norm(b, args, *groups, *weight, *bias),
        BatchNorm { weight, bias } => norm::batch_norm(b, args, *weight, *bias),
        Linear { bias } => product::linear(b, args, *bias),
        ConvBias(spec) => product::conv_bias(b, args, spec),
        Einsum { equation } => einsum::einsum(b, args, equation),
        Attention {
            mask,
            causal,
            scale,
        } => attention::decompose(b, args, *mask, *causal, f64::from_bits(*scale)),
        Triangle { k, upper } => arrange::triangle(b, args, *k, *upper),
        Roll { shift, dim } => arrange::roll(b, args, *shift, *dim),
        OneHot { n } => arrange::one_hot(b, args, *n),
        Loss(loss, reduction) => loss::decompose(*loss, *reduction, b, args),
    }
}

/// The shape and dtype of the result: a direct rule for what is recorded most, else the decomposition run on shapes.
///
/// # Errors
/// Those of [`decompose`].
pub fn infer(op: &Composite, args: &[ArgMeta<'_>]) -> Inferred {
    let direct = match op {
        Composite::Softmax { dim } | Composite::LogSoftmax { dim } => {
            Some(softmax::infer(*dim, args))
        }
        Composite::LayerNorm { n, weight, bias } => Some(norm::infer(*n, *weight, *bias, args)),
        Composite::RmsNorm { n, weight } => Some(norm::infer(*n, *weight, false, args)),
        _ => activation::infer(op, args),
    };
    direct.unwrap_or_else(|| infer_by_decomposition(op, args))
}

fn infer_by_decomposition(op: &Composite, args: &[ArgMeta<'_>]) -> Inferred {
    let (mut b, operands) = ShapeBuilder::new(args);
    let result = decompose(op, &mut b, &operands)?;
    b.take(result)
}

/// The operator's name, as errors and text forms give it.
pub fn name(op: &Composite) -> &'static str {
    use Composite::*;
    match op {
        Gelu => "gelu",
        GeluTanh => "gelu_tanh",
        Silu => "silu",
        Mish => "mish",
        Softplus => "softplus",
        Softsign => "softsign",
        Hardtanh => "hardtanh",
        Hardswish => "hardswish",
        Hardsigmoid => "hardsigmoid",
        LogSigmoid => "logsigmoid",
        Relu6 => "relu6",
        LeakyRelu => "leaky_relu",
        Elu => "elu",
        Selu => "selu",
        Celu => "celu",
        Frac => "frac",
        Clamp => "clamp",
        Lerp => "lerp",
        Addcmul => "addcmul",
        Addcdiv => "addcdiv",
        NanToNum => "nan_to_num",
        Dropout { .. } => "dropout",
        Softmax { .. } => "softmax",
        LogSoftmax { .. } => "log_softmax",
        LogSumExp { .. } => "logsumexp",
        Var { root: false, .. } => "var",
        Var { root: true, .. } => "std",
        Norm { .. } => "norm",
        CountNonzero { .. } => "count_nonzero",
        LayerNorm { .. } => "layer_norm",
        RmsNorm { .. } => "rms_norm",
        GroupNorm { .. } => "group_norm",
        BatchNorm { .. } => "batch_norm",
        Linear { .. } => "linear",
        ConvBias(spec) => super::conv::name(spec),
        Einsum { .. } => "einsum",
        Attention { .. } => "scaled_dot_product_attention",
        Triangle { upper: false, .. } => "tril",
        Triangle { upper: true, .. } => "triu",
        Roll { .. } => "roll",
        OneHot { .. } => "one_hot",
        Loss(loss, _) => loss::name(*loss),
    }
}

/// The most bytes that [`run`] holds at once beyond those of its operands, its result included; what one ready-made
/// kernel needs for itself is not counted.
///
/// # Errors
/// Those of [`decompose`].
pub fn held(op: &Composite, args: &[ArgMeta<'_>]) -> Result<u64> {
    if let Composite::Attention { .. } = op {
        let (shape, dtype) = infer(op, args)?;
        return Ok((shape.numel() * dtype.size()) as u64);
    }
    let (mut b, operands) = Recorder::new(args);
    let result = decompose(op, &mut b, &operands)?;
    Ok(b.held(result))
}

/// An index out of range as the program gave it: that of a class below 0 was moved (by `arrange::classes`).
pub fn told(op: &Composite, index: i64, size: usize) -> i64 {
    match op {
        Composite::OneHot { .. } | Composite::Loss(Loss::Nll | Loss::CrossEntropy, _)
            if index < 0 =>
        {
            index.saturating_add(size as i64)
        }
        _ => index,
    }
}

/// The same of an error.
fn told_error(op: &Composite, error: Error) -> Error {
    match *error.kind() {
        ErrorKind::Index { index, dim, size } => Error::new(ErrorKind::Index {
            index: told(op, index, size),
            dim,
            size,
        }),
        _ => error,
    }
}

/// What the rules know of an argument.
fn meta(arg: &Arg) -> ArgMeta<'_> {
    match arg {
        Arg::Array(array) => ArgMeta::Tensor(array.shape(), array.dtype),
        Arg::Scalar(scalar) => ArgMeta::Scalar(*scalar),
    }
}

/// Runs the operator on ready-made kernels: its own, or one for each operator of the decomposition. `shape` and `dtype` are those
/// that [`infer`] gives.
///
/// # Errors
/// Those of [`decompose`], and those of the kernels: an index out of range, out of memory.
pub fn run(op: &Composite, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    if let Composite::Attention {
        mask,
        causal,
        scale,
    } = op
    {
        return attention::run(args, *mask, *causal, f64::from_bits(*scale), shape, dtype);
    }
    let metas: SmallVec<[ArgMeta<'_>; 6]> = args.iter().map(meta).collect();
    let (mut b, operands) = Recorder::new(&metas);
    let result = decompose(op, &mut b, &operands)?;
    let array = b.run(args, result).map_err(|error| told_error(op, error))?;
    if array.shape() != shape || array.dtype != dtype {
        let (got, ty) = (array.shape(), array.dtype);
        return Err(Error::internal(format!(
            "{} gave {ty}{got} for {dtype}{shape}",
            name(op)
        )));
    }
    Ok(array)
}
