//! The operator vocabulary and the ready-made kernels.
//!
//! An operator is one place under [`ops`]: a type that holds its attributes, with the rules, the text form, the cost, the
//! class and the ready-made kernel that [`op::operator::Operator`] asks of it. [`Op`] is any of them, as the trace, the graph
//! and eager mode hold it.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod arg;
mod array;
mod builder;
mod class;
pub mod copy;
pub mod cpu;
pub mod cuda;
pub mod eager;
mod kind;
pub mod op;
pub mod ops;
pub mod support;
pub mod text;

pub use arg::{Arg, ArgMeta};
pub use array::Array;
pub use builder::{OpBuilder, OpBuilderExt, Operand, ValueId};
pub use class::{Class, Sizes, WEIGHTS, Weights};
pub use kind::{BinaryOp, PoolKind, ReduceKind, ScatterMode, UnaryOp};
pub use op::{
    Composite, ConvSpec, Correlation, Distribution, Extent, Loss, Op, PoolSpec, Reduction,
    ScanKind, Unrounded,
};
