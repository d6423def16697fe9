//! Kernels between fused nodes and source text.
//!
//! [`ir`] is what a kernel is before it is text: typed names, expressions, statements, functions. What builds it decides
//! the kernel's form; [`transform`] holds functions from a kernel to a kernel; [`crate::print`] writes it in a language and
//! decides nothing.

pub mod ir;
pub mod transform;
