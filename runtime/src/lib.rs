//! Where programs run: dtypes, shapes, layouts, memory, threads, compilers, the artifact store and launches.
//!
//! Everything unsafe of the library that is not a ready-made kernel is in this crate, behind safe functions.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

// The modules in the order of their dependencies: none imports one below it (`tests/architecture.rs`).

// What describes a tensor's data.
mod types;

mod error;

// What the environment asks for.
mod config;

// The thread pool, and copies of shared things for each thread.
mod threads;

// Counters and logs.
mod observe;

// The CPU's side: instruction set, caches, memory.
pub mod host;

// Files shared by processes: compiled kernels and what was measured.
mod store;

// The C compiler, and loading what it made.
mod compiler;

// A CUDA device's side: driver, memory, NVRTC, launches, graphs, vendors' libraries.
mod cuda;

// Buffers, and what is asked of a device of either kind.
mod device;

// Kernels: source, compiled, cached, loaded.
mod kernel;

// Runs of kernels.
mod launch;

mod profile;

pub mod cache;

pub use compiler::CCompiler;
pub use config::{Channel, Channels, Config, MAX_THREADS};
pub use cuda::{
    Activation, Capture, Convolution, ConvolutionPart, Grid, Recording, Uncaptured, Verdict,
    adds_bias, compile_for, convolves, give_up_recording, hold_recorded, is_recording, record,
    recorded, take_refusal,
};
pub use device::{
    Buffer, BufferId, Copies, DlTensor, Matrix, Order, Product, Room, convolve, product,
};
pub use error::{Context, Error, ErrorKind, FAULT_SLOTS, Fault, Faults, Result};
pub use host::{FileMap, Isa, has_amx, has_bf16_dots};
pub use kernel::{
    Architecture, Kernel, KernelSource, Missing, Pack, Part, compile_kernels, compile_kernels_on,
    compile_kernels_with, compile_pack, compile_unkept, identity, planned_for,
};
pub use launch::{
    Binding, Launch, Member, Prepared, launch, launch_noting, launch_together, prepare,
};
pub use observe::counters::{
    Counter, Stats, count, live_bytes, reset_stats, stats, stats_scope, uncounted,
};
#[doc(hidden)]
pub use observe::inject;
pub use observe::log::{is_logged, log, next_plan, of_plan};
pub use profile::{Activity, Label, Profile, Span, Timer, is_profiling, profile};
pub use store::{Checksum, notes};
pub use threads::float_environment::{Control, FloatEnvironment, with_control};
pub use threads::pool::{Pool, with_threads};
pub use threads::stripe::{Apart, STRIPES, Striped, stripe};
pub use types::{Category, DType, Device, Element, Layout, Offsets, Scalar, Shape, Strides};
