//! Eager mode: a graph run operator by operator, also while its plan is compiled.

use crate::graph::Graph;
use crate::native::run_operator;
use crate::ready_made::run_nodes;
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{FloatEnvironment, Result, Scalar};

/// Runs every node of the graph by itself, on the graph's device, and returns its outputs.
///
/// # Errors
/// The first operator's error, with its place in the user's program.
pub fn run_eagerly(graph: &Graph, inputs: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    run_releasing(graph, inputs.to_vec(), scalars)
}

/// Runs every node of the graph by itself, as [`run_eagerly`] does, and releases each input after its last use, as in eager mode
/// where nobody else holds it.
///
/// # Errors
/// The first operator's error, with its place in the user's program.
pub fn run_releasing(graph: &Graph, inputs: Vec<Array>, scalars: &[Scalar]) -> Result<Vec<Array>> {
    let inputs = inputs.into_iter().map(Ok).collect();
    run_each(graph, inputs, scalars).into_iter().collect()
}

/// As [`run_releasing`], of inputs some of which carry errors instead of data: an output carries the error of the first
/// operand or operator that has one.
pub fn run_each(
    graph: &Graph,
    inputs: Vec<Result<Array>>,
    scalars: &[Scalar],
) -> Vec<Result<Array>> {
    let _environment = FloatEnvironment::standard();
    run_nodes(graph, inputs, scalars, &graph.device(), run_operator)
}
