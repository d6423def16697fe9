//! Operands: what operators are given, and what their rules know of it.

use crate::Array;
use ferrotrace_runtime::{Category, DType, Device, Error, Result, Scalar, Shape};

/// What an operator's rules know of an operand.
#[derive(Clone, Copy, Debug)]
pub enum ArgMeta<'a> {
    /// A tensor of this shape and dtype.
    Tensor(&'a Shape, DType),
    /// A number.
    Scalar(Scalar),
}

impl<'a> ArgMeta<'a> {
    /// The shape: that of a 0-d tensor for a number.
    pub fn shape(&self) -> Shape {
        match self {
            ArgMeta::Tensor(shape, _) => (*shape).clone(),
            ArgMeta::Scalar(_) => Shape::scalar(),
        }
    }

    /// The dtype: a number's default dtype.
    pub fn dtype(&self) -> DType {
        match self {
            ArgMeta::Tensor(_, dtype) => *dtype,
            ArgMeta::Scalar(scalar) => scalar.default_dtype(),
        }
    }

    /// The tensor's shape and dtype.
    pub fn tensor(&self) -> Option<(&'a Shape, DType)> {
        match self {
            ArgMeta::Tensor(shape, dtype) => Some((shape, *dtype)),
            ArgMeta::Scalar(_) => None,
        }
    }

    /// The promotion category.
    pub fn category(&self) -> Category {
        self.dtype().category()
    }
}

/// An operand: an array, or a number.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A tensor's elements.
    Array(Array),
    /// A number.
    Scalar(Scalar),
}

impl Arg {
    /// What the operators' rules know of the operand.
    pub fn meta(&self) -> ArgMeta<'_> {
        match self {
            Arg::Array(x) => ArgMeta::Tensor(x.shape(), x.dtype),
            Arg::Scalar(number) => ArgMeta::Scalar(*number),
        }
    }
}

/// The tensor operand at `i`.
///
/// # Errors
/// It is missing, or a number.
pub(crate) fn array(args: &[Arg], i: usize) -> Result<&Array> {
    match args.get(i) {
        Some(Arg::Array(x)) => Ok(x),
        _ => Err(Error::argument(format!("operand {i} must be a tensor"))),
    }
}

/// The number operand at `i`.
///
/// # Errors
/// It is missing, or a tensor.
pub(crate) fn scalar(args: &[Arg], i: usize) -> Result<Scalar> {
    match args.get(i) {
        Some(Arg::Scalar(number)) => Ok(*number),
        _ => Err(Error::argument(format!("operand {i} must be a number"))),
    }
}

/// The device of the first array; the CPU where there are numbers alone.
pub(crate) fn device(args: &[Arg]) -> Device {
    let first = args.iter().find_map(|arg| {
        if let Arg::Array(x) = arg {
            Some(x.buffer.device())
        } else {
            None
        }
    });
    first.cloned().unwrap_or(Device::cpu())
}
