//! The operators, by family: each with its attributes, and what [`Operator`](crate::op::operator::Operator) asks of it.
//!
//! Gradients and definitions of operators are made of operators, so the list of them, what builds them and the operators
//! themselves are one module: [`op`] has what they have in common.

pub mod arrange;
pub mod composite;
pub mod conv;
pub mod correlation;
pub mod create;
mod decides;
pub mod fourier;
pub mod index;
pub mod linalg;
pub mod matmul;
pub mod op;
pub mod order;
pub mod pointwise;
pub mod pool;
pub mod program;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod sort;
pub mod unrounded;
pub mod view;

use crate::ArgMeta;
use ferrotrace_runtime::{DType, Error, Result, Shape};

/// The tensor operand at `i`.
///
/// # Errors
/// It is a number: the operator needs a tensor there.
pub(crate) fn tensor<'a>(args: &[ArgMeta<'a>], i: usize) -> Result<(&'a Shape, DType)> {
    args.get(i)
        .and_then(ArgMeta::tensor)
        .ok_or_else(|| Error::argument(format!("operand {i} must be a tensor")))
}
