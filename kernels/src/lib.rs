//! The operator vocabulary and the ready-made kernels.
//!
//! An operator is one place under [`ops`]: its arity, shape rule, dtype rule, C text or decomposition, and ready-made
//! kernel. [`Op`] is the attribute-carrying name by which the trace, the graph and eager mode refer to it.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod array;
mod builder;
pub mod cpu;
pub mod cuda;
pub mod eager;
mod op;
pub mod ops;
pub mod support;

pub use array::Array;
pub use builder::{OpBuilder, OpBuilderExt, Operand, ValueId};
pub use op::{
    ArgMeta, Composite, ConvSpec, Correlation, Distribution, Extent, Loss, Op, PoolKind, PoolSpec,
    ReduceKind, Reduction, ScanKind, ScatterMode,
};
pub use ops::binary::BinaryOp;
pub use ops::unary::UnaryOp;
