//! Where programs run: dtypes, shapes, layouts, memory, threads, compilers, the artifact store and launches.
//!
//! Everything unsafe of the library that is not a ready-made kernel is in this crate, behind safe functions.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod buffer;
pub mod cache;
mod compiler;
mod config;
mod counters;
mod cuda;
mod device;
mod digest;
mod dtype;
mod element;
mod elf;
mod environment;
mod error;
mod float_environment;
mod folder;
pub mod host;
#[doc(hidden)]
pub mod inject;
mod isa;
mod kernel;
mod launch;
mod layout;
mod library;
mod locks;
mod log;
pub mod notes;
mod pool;
mod profile;
mod scalar;
mod shape;
mod store;
mod stripe;
mod workdir;

pub use buffer::{Buffer, BufferId};
pub use compiler::CCompiler;
pub use config::Config;
pub use counters::{Counter, Stats, count, live_bytes, reset_stats, stats, stats_scope, uncounted};
pub use cuda::{
    Activation, Capture, Convolution, ConvolutionPart, Matrix, Product, Recording, Uncaptured,
    Verdict, compile_for, convolve, convolves, product, record, recorded, take_refusal,
};
pub use device::Device;
pub use dtype::{Category, DType};
pub use element::Element;
pub use error::{Context, Error, ErrorKind, Result};
pub use float_environment::{Control, FloatEnvironment, with_control};
pub use isa::Isa;
pub use kernel::{
    Kernel, KernelSource, Part, compile_kernels, compile_kernels_on, compile_kernels_with,
    compile_unkept, identity,
};
pub use launch::{
    Binding, Fault, Grid, Launch, Member, Prepared, launch, launch_noting, launch_together, prepare,
};
pub use layout::{Layout, Offsets, Strides};
pub use log::{Channel, Channels, is_logged, log, next_plan, of_plan};
pub use pool::{MAX_THREADS, Pool, with_threads};
pub use profile::{Activity, Label, Profile, Span, Timer, is_profiling, profile};
pub use scalar::Scalar;
pub use shape::Shape;
pub use stripe::{Apart, STRIPES, Striped, stripe};
