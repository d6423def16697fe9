//! The support text compiled by the C compilers of this machine against its Rust twin, bit for bit (any NaN equals any
//! other).
//!
//! By default a sample of arguments on two instruction sets; `FERROTRACE_TWINS=setups` takes every instruction set of
//! the machine and several numbers of lanes, `FERROTRACE_TWINS=all` besides, for functions of one binary32 argument, all
//! 2³² of them.

#![allow(missing_docs, clippy::unwrap_used, clippy::type_complexity)]

mod functions;
mod harness;
mod several;
mod values;
