//! How programs are compiled: a typed operator graph, symbolic indices, loop nests, fusion, C, plans.
//!
//! Passes are functions from whole values to whole values: [`Graph`] → [`simplify`](simplify::simplify) →
//! [`lower`](lower::lower) → [`fuse`](schedule::fuse) → [`emit`](emit::emit()) → [`Draft`] → [`Plan`].
#![doc = include_str!("tutorial.md")]
#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![forbid(unsafe_code)]

// The modules in the order of their dependencies: none imports one below it (`tests/architecture/main.rs`).

// What the passes share: symbolic indices, devices, reasons.
mod bisect;
pub mod expr;
mod refusal;
pub mod target;
mod template;

// The limits of what passes decide.
pub mod policy;

// The graph of operators, and its text.
mod graph;
pub mod text;

// Operators replaced by others.
pub mod simplify;

// Loop nests and what they compute.
pub mod body;
pub mod nest;

// From operators to loop nests.
pub mod lower;

// From loop nests to fused nodes.
pub mod schedule;

// What calls and fused nodes cost at least.
mod estimate;

// Kernels, and how they are printed.
pub mod kernel;
pub mod print;

// From fused nodes to kernels.
pub mod emit;

// From all passes to steps: their order, their memory, how they are launched.
mod draft;

// What was decided, for those who ask.
mod explain;

// Operations one by one, where there is no kernel or no plan.
mod operations;
mod ready_made;

// Compiled drafts, and runs of them.
mod plan;

// Plans of single operators.
mod native;

// What is built on these: plans of graphs, eager mode, an interpreter of drafts, measured choices.
mod compile;
mod eager;
pub mod interp;
pub mod tune;

pub use draft::{Draft, Launches, Step, kernels_for};
pub use eager::{run_each, run_eagerly};
pub use estimate::{Bound, Machine, Nanoseconds, WEIGHTS, Weights, Work};
pub use explain::{CombinedInfo, Explanation, Folded, FusedInfo, GraphDecision, Hint};
pub use graph::{Graph, InputSpec, Node, NodeOp, Precision};
pub use native::run_operator;
pub use operations::{Operations, Read, Recorded};
pub use plan::{Plan, PlanInput, is_noting, noting};
