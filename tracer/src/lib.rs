//! What the user writes: tensors whose operations are recorded, flushed when a value is needed, and replayed.
//!
//! A [`Tensor`] is a handle of a node of the trace. [`Tensor`] methods record nodes; reading data, [`eval`] and the two
//! limits of a pending trace ([`set_trace_limit`], [`set_retained_limit`]) flush them: the pending operations are
//! collected, their form is looked up among the plans met before (or compiled), the plan runs, and what it computed is
//! stored in the nodes.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![forbid(unsafe_code)]

// The modules in the order of their dependencies: none imports one below it (`tests/architecture.rs`).

// What is used of the compiler.
mod backend;

// What is set by scope, thread and process.
mod mode;
mod place;
mod tuning;

// The canonical form of a trace: what two flushes share to share a plan.
mod form;

// Plans of forms met before.
mod plans;

// Keys and counters of random numbers.
mod generator;

// The trace: recorded operations and stored data.
mod node;

// What is noted of a `jit` function while it is traced.
mod trace;

// What values remember of how they were computed, for gradients.
mod history;

// Handles of nodes.
mod tensor;

// What callers write, as operators take it.
mod args;

// Computing what is pending: collected, looked up, run, stored.
mod flush;

// Recording operations. It may flush: in eager mode, and at a trace's limits.
mod record;

// Branches and loops: programs that one operation runs.
mod program;

// Structs of tensors: what functions over many tensors take and give.
mod structs;

// Gradients: the trace gone through backwards.
mod grad;

// What is built on these.
mod control;
mod display;
mod explain;
mod jit_fn;
mod methods;
mod operators;
mod read;

// What reads, by bytes.
mod bytes;

pub use args::{
    Conv, Dim, Dims, Extents, Operand, Padding, Pool, Quantiles, Shifts, Sizes, Slice, SliceBy,
    Slices, TensorLike, Window,
};
pub use backend::{
    Bound, Choice, Explanation, Folded, GraphDecision, Hint, Machine, Measured, Nanoseconds,
    Precision, Work,
};
#[doc(hidden)]
pub use backend::{Graph, kernels_for, noting};
pub use control::{
    associative_scan, bounded_while_loop, cond, map, scan, scan_reversed, while_loop,
};
pub use explain::explain;
pub use ferrotrace_derive::TensorStruct;
pub use flush::eval;
pub use flush::limit::{set_retained_limit, set_trace_limit};
pub use generator::{Generator, GeneratorState, manual_seed};
pub use grad::{
    checkpoint, custom_grad, grad, hessian, jacobian, jvp, no_grad, value_and_grad, vjp,
};
#[doc(hidden)]
pub use jit_fn::FunctionTrace;
pub use jit_fn::{Jit, JitFn, jit};
pub use methods::{
    Bag, BagMode, GridPadding, Interpolation, MatrixNorm, Overlap, PadMode, ReduceOp, Reduction,
    Rounding,
};
#[doc(hidden)]
pub use mode::current as current_mode;
pub use mode::{Mode, detect_anomaly, set_mode, set_thread_mode, with_mode, with_precision};
pub use place::Place;
pub use plans::clear_plans;
pub use structs::{ArgKind, Buffer, JitArg, JitResult, Leaf, TensorStruct, derived};
pub use tensor::Tensor;
pub use tuning::{set_tuning, with_tuning};

pub(crate) use tensor::Input;

/// The names that most programs use.
pub mod prelude {
    pub use crate::{
        Bag, BagMode, Conv, Generator, GridPadding, Interpolation, Mode, PadMode, Pool, Precision,
        ReduceOp, Reduction, Rounding, Slice, SliceBy, Tensor, TensorStruct, checkpoint,
        custom_grad, detect_anomaly, eval, explain, grad, jit, manual_seed, no_grad, set_mode,
        with_mode, with_precision,
    };
    pub use ferrotrace_runtime::{DType, Device, Element, Error, Result, Scalar, Shape};
}
