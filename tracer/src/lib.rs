//! What the user writes: tensors whose operations are recorded, flushed when a value is needed, and replayed.
//!
//! A [`Tensor`] is a handle of a node of the trace. [`Tensor`] methods record nodes; reading data, [`eval`] and the two
//! limits of a pending trace ([`set_trace_limit`], [`set_retained_limit`]) flush them: the pending operations are
//! collected, their form is looked up among the plans met before (or compiled), the plan runs, and what it computed is
//! stored in the nodes.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![forbid(unsafe_code)]

mod args;
mod backend;
mod collect;
mod collected;
mod display;
mod domain;
mod explain;
mod flight;
mod flush;
mod generator;
mod jit_fn;
mod kind;
mod limit;
mod methods;
mod mode;
mod nearest;
mod node;
mod operators;
mod plans;
mod positions;
mod read;
mod record;
mod recycle;
mod signature;
mod stages;
mod store_rule;
mod tensor;
mod tiered;
mod tuning;

pub use args::{
    Conv, Dim, Dims, Extents, Operand, Padding, Pool, Sizes, Slice, SliceBy, Slices, TensorLike,
    Window,
};
pub use backend::{
    Bound, Choice, Explanation, Folded, GraphDecision, Hint, Machine, Measured, Nanoseconds,
    Precision, Work,
};
pub use explain::explain;
pub use flush::eval;
pub use generator::{Generator, manual_seed};
pub use jit_fn::arg::{ArgKind, JitArg};
pub use jit_fn::result::JitResult;
pub use jit_fn::{Jit, JitFn, jit};
pub use limit::{set_retained_limit, set_trace_limit};
pub use methods::{Interpolation, PadMode, ReduceOp, Reduction, Rounding};
pub use mode::{Mode, set_mode, set_thread_mode, with_mode, with_precision};
pub use plans::clear_plans;
pub use tensor::Tensor;
pub use tuning::{set_tuning, with_tuning};

pub(crate) use tensor::Input;

/// What most programs use.
pub mod prelude {
    pub use crate::{
        Conv, Generator, Interpolation, Mode, PadMode, Pool, Precision, ReduceOp, Reduction,
        Rounding, Slice, SliceBy, Tensor, eval, explain, jit, manual_seed, set_mode, with_mode,
        with_precision,
    };
    pub use ferrotrace_runtime::{DType, Device, Element, Error, Result, Scalar, Shape};
}
