//! The CUDA back end: driver, contexts, memory, copies, NVRTC, modules, launches, and libraries for products and
//! convolutions.
//!
//! All libraries are loaded at run time: nothing here is touched before the driver was found. A device has one context,
//! made when it is first asked for, and one stream of ours, on which every copy, allocation and launch of the device is
//! ordered, whatever thread it comes from. Memory can therefore be handed on as soon as the host lets go of it.

mod blas;
mod context;
mod copy;
mod dnn;
mod driver;
mod events;
mod graph;
mod launch;
mod libraries;
mod memory;
mod module;
mod nvrtc;
mod peer;
mod record;
mod verdict;

pub(crate) use blas::describe as describe_cublas;
pub use blas::{Activation, adds_bias};
pub(crate) use blas::{Request, is_present as multiplies, multiply};
pub(crate) use context::{Context, context};
pub(crate) use copy::{device_to_device, device_to_host, host_to_device};
pub(crate) use dnn::describe as describe_cudnn;
#[cfg(test)]
pub(crate) use dnn::tests::form as convolution_form;
pub use dnn::{Convolution, ConvolutionPart, convolves};
pub(crate) use dnn::{is_present as has_convolutions, run as run_convolution, workspace_bytes};
pub(crate) use driver::probe;
pub(crate) use events::Stopwatch;
pub use graph::Capture;
pub use launch::Grid;
pub(crate) use launch::{Call, launch, launch_table};
pub(crate) use module::{Function, Module};
pub(crate) use nvrtc::Nvrtc;
pub use nvrtc::compile_for;
pub(crate) use nvrtc::compile_ptx;
pub(crate) use peer::device_to_peer;
pub(crate) use record::{
    Numbers, allocate as record_allocation, copy as record_copy, refuse_copy,
    release as record_release, symbol_at,
};
pub use record::{
    Recording, Uncaptured, give_up_recording, hold_recorded, is_recording, record, recorded,
    take_refusal,
};
pub use verdict::Verdict;
