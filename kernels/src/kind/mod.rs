//! What operators compute, where both their rules and ready-made kernels ask: functions of elements, and the kinds of
//! reductions, scatters and pools.

mod binary;
mod unary;

pub use binary::BinaryOp;
pub use unary::UnaryOp;

use crate::text::words;
use ferrotrace_runtime::Result;

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceKind {
    /// Σ; integers and bools give `I64`.
    Sum,
    /// Π; integers and bools give `I64`.
    Prod,
    /// Σ / n, of floats.
    Mean,
    /// The greatest; NaN propagates.
    Max,
    /// The least; NaN propagates.
    Min,
    /// Whether any element is not zero (NaN counts).
    Any,
    /// Whether no element is zero.
    All,
    /// Row-major position, in the reduced dimensions, of the first greatest element (the first NaN if any): `I64`.
    ArgMax,
    /// Row-major position, in the reduced dimensions, of the first least element (the first NaN if any): `I64`.
    ArgMin,
}

/// How scattered values meet the value already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterMode {
    /// The last in row-major order of the source stays.
    Assign,
    /// Added.
    Sum,
    /// Multiplied.
    Prod,
    /// The greater stays.
    Amax,
    /// The lesser stays.
    Amin,
    /// The mean of all, of the old value too if included.
    Mean,
}

words! {
    ScatterMode: "a way in which scattered values meet" {
        "assign" = ScatterMode::Assign,
        "sum" = ScatterMode::Sum,
        "prod" = ScatterMode::Prod,
        "amax" = ScatterMode::Amax,
        "amin" = ScatterMode::Amin,
        "mean" = ScatterMode::Mean,
    }
}

/// What a pooling window computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// The greatest; padding never wins.
    Max,
    /// The mean, padding counted.
    Avg,
}
