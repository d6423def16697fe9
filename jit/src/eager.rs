//! Eager mode: operations run one by one, also while their plan is compiled.

use crate::graph::Graph;
use crate::native::run_operator;
use crate::operations::{Operations, run_one_by_one};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{FloatEnvironment, Result, Scalar};

/// Runs every node of the graph by itself, on the graph's device, and returns its outputs.
///
/// # Errors
/// The first operator's error, with its place in the user's program.
pub fn run_eagerly(graph: &Graph, inputs: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    let inputs = inputs.iter().cloned().map(Ok).collect();
    run_each(graph, inputs, scalars).into_iter().collect()
}

/// Runs every operation by itself, on the device of all, and releases each input after its last use, as in eager mode where
/// nobody else holds it. An output carries the error of the first operand or operation that has one.
pub fn run_each(
    operations: &impl Operations,
    inputs: Vec<Result<Array>>,
    scalars: &[Scalar],
) -> Vec<Result<Array>> {
    let _environment = FloatEnvironment::standard();
    let device = operations.device();
    run_one_by_one(operations, inputs, scalars, &device, run_operator)
}
