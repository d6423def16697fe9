//! The operator vocabulary and the ready-made kernels.
//!
//! An operator is one place under [`ops`]: a type that holds its attributes, with the rules, the text form, the cost, the
//! class and the ready-made kernel that [`op::operator::Operator`] asks of it. [`Op`] is any of them, as the trace, the graph
//! and eager mode hold it.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

// The modules in the order of their dependencies: none imports one below it (`tests/architecture/main.rs`).

// Arrays, and what is said of operators: their classes, their attributes as text.
mod array;
mod class;
pub mod text;

// Operands.
mod arg;

// Functions that generated and ready-made kernels share, in both languages.
pub mod support;

// What operators compute, where rules and kernels both ask.
mod kind;

// The CPU's kernels.
pub mod cpu;

// Copies of arrays, wherever they lie.
pub mod copy;

// Devices' kernels.
pub mod cuda;

// The operators: rules, and which kernels they run.
pub mod ops;

// Operators run one by one.
pub mod eager;

pub use arg::{Arg, ArgMeta};
pub use array::Array;
pub use class::{Class, Sizes, WEIGHTS, Weights};
pub use kind::{BinaryOp, PoolKind, ReduceKind, ScatterMode, UnaryOp};
pub use ops::op;
pub use ops::op::{
    Composite, ConvSpec, Correlation, Distribution, Extent, Loss, Op, OpBuilder, OpBuilderExt,
    Operand, PoolSpec, Reduction, ScanKind, Unrounded, ValueId,
};
