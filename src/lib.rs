//! Ferrotrace: tensors with a just-in-time compiler inside.
//!
//! Operations are recorded, not run. When a value is needed, what was recorded is fused into few kernels, compiled
//! with the host's C compiler (or NVRTC), cached, and run; in [`Mode::Eager`] each operation runs at once instead,
//! with the same results.
//!
//! ```
//! use ferrotrace::prelude::*;
//!
//! let device = Device::best();
//! let x = Tensor::randn([64, 128], DType::F32, &device);
//! let y = ((&x * 2.0).exp() + 1.0).log().mean(-1); // recorded; nothing has run
//! assert_eq!(y.dims(), [64]);
//! println!("{y}"); // compiled and run
//!
//! let normalise = jit(|x: &Tensor| (x - x.mean_keepdim(-1)) / (x.std_keepdim(-1, 1) + 1e-5));
//! let a = normalise.call(&x); // recorded and compiled on this call, replayed on the next
//! let b = with_mode(Mode::Eager, || normalise.call(&x)); // the same function, operation by operation
//! assert!(a.allclose(&b, 1e-5, 1e-6)?);
//! # Ok::<(), Error>(())
//! ```
//!
//! Three rules say what to expect:
//!
//! - **Building an expression neither fails nor panics.** An invalid operation gives a tensor that carries the error,
//!   with the operation, shapes, dtypes and the line of the program; so does everything computed from it. Whatever
//!   reads ([`Tensor::to_vec`], [`Tensor::to_scalar`], [`Tensor::eval`], [`Tensor::dim`], ..) returns a [`Result`].
//! - **Tensors are values.** No write is seen through another handle; memory is reused in place where nobody looks.
//! - **Names and meanings are PyTorch's**, its dtype promotion among them.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

// Derived code within this crate names it as programs do.
extern crate self as ferrotrace;

pub use ferrotrace_runtime::{
    Activity, Category, Context, DType, Device, DlTensor, Element, Error, ErrorKind, Profile,
    Result, Scalar, Shape, Span, Stats, Uncaptured, cache, profile, reset_stats, stats,
    stats_scope,
};
pub use ferrotrace_tracer::{
    ArgKind, Bag, BagMode, Bound, Buffer, Choice, Conv, Dim, Dims, Explanation, Extents, Folded,
    Generator, GeneratorState, GraphDecision, GridPadding, Hint, Interpolation, Jit, JitArg, JitFn,
    JitResult, Leaf, Machine, MatrixNorm, Measured, Mode, Nanoseconds, Operand, Overlap, PadMode,
    Padding, Place, Pool, Precision, Quantiles, ReduceOp, Reduction, Rounding, Shifts, Sizes,
    Slice, SliceBy, Slices, Tensor, TensorLike, TensorStruct, Window, Work, associative_scan,
    bounded_while_loop, checkpoint, cond, custom_grad, derived, detect_anomaly, eval, explain,
    grad, hessian, jacobian, jit, jvp, manual_seed, map, no_grad, scan, scan_reversed, set_mode,
    set_retained_limit, set_thread_mode, set_trace_limit, set_tuning, value_and_grad, vjp,
    while_loop, with_mode, with_precision, with_tuning,
};

pub mod data;
pub mod io;
pub mod metrics;
pub mod nn;
pub mod optim;

/// The names that most programs use.
pub mod prelude {
    pub use crate::io;
    pub use crate::nn::Module;
    pub use crate::{
        Bag, BagMode, Conv, DType, Device, Element, Error, GridPadding, Mode, PadMode, Pool,
        Precision, Reduction, Result, Rounding, Scalar, Shape, Slice, SliceBy, Tensor,
        TensorStruct, eval, explain, grad, jit, nn, no_grad, optim, set_mode, stats,
        value_and_grad, with_mode,
    };
}

/// The examples of the front page, compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
