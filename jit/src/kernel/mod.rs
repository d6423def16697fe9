//! Kernels between fused nodes and source text.
//!
//! [`ir`] is what a kernel is before it is text: typed names, expressions, statements, functions. What builds it decides
//! the kernel's form; [`crate::print`] writes it in a language and decides nothing.

pub mod ir;
