//! How programs are compiled: a typed operator graph, symbolic indices, loop nests, fusion, C, plans.
//!
//! Passes are functions from whole values to whole values: [`Graph`] → [`simplify`](simplify::simplify) →
//! [`lower`](lower::lower) → [`fuse`](schedule::fuse) → [`emit`](emit::emit()) → [`Plan`].
#![doc = include_str!("tutorial.md")]
#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![forbid(unsafe_code)]

mod bisect;
pub mod body;
mod draft;
mod eager;
pub mod emit;
mod estimate;
mod explain;
pub mod expr;
mod graph;
pub mod interp;
pub mod kernel;
pub mod lower;
mod native;
pub mod nest;
mod plan;
pub mod policy;
pub mod print;
mod refusal;
pub mod schedule;
pub mod simplify;
pub mod target;
mod template;
pub mod text;
pub mod tune;

pub use draft::{Draft, Launches, Step, kernels_for};
pub use eager::{run_each, run_eagerly, run_releasing};
pub use estimate::{Bound, Machine, Nanoseconds, WEIGHTS, Weights, Work};
pub use explain::{CombinedInfo, Explanation, Folded, FusedInfo, GraphDecision, Hint};
pub use graph::{Graph, InputSpec, Node, NodeOp, Precision};
pub use native::run_operator;
pub use plan::{Plan, PlanInput, is_noting, noting};
