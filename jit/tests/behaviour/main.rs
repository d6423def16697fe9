//! What compiled programs do, seen from outside: kernels, memory, caching, errors, values.
#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod abreast;
mod convolutions;
mod extremes;
mod fusion;
mod gathering;
mod indexing;
mod layouts;
mod length;
mod loops;
mod plans;
mod pooling;
mod precision;
mod prologues;
mod reductions;
mod refusals;
mod scans;
mod scatters;
mod slices;
mod steps;
mod storing;
mod templates;

use common::{difference, kept};
use ferrotrace_jit::{Graph, Plan, run_eagerly};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::Scalar;
use std::sync::Arc;

fn read(text: &str) -> Graph {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

fn plan(text: &str) -> Arc<Plan> {
    Plan::of(read(text)).unwrap_or_else(|e| panic!("{e}"))
}

/// How many kernels a graph becomes.
fn kernels(text: &str) -> usize {
    plan(text).explain().fused_nodes().len()
}

/// The slots' numbers as the text gives them.
fn scalars(graph: &Graph) -> Vec<Scalar> {
    let mut found = Vec::new();
    for arg in graph.nodes().iter().flat_map(|n| &n.args) {
        if let ferrotrace_kernels::Operand::Slot(s, number) = arg {
            found.resize(found.len().max(*s as usize + 1), Scalar::Int(0));
            found[*s as usize] = *number;
        }
    }
    found
}

/// Runs a graph compiled; its results must be within `error` of those of eager mode.
fn run(text: &str, arrays: &[Array], error: f64) -> Vec<Array> {
    let graph = read(text);
    let numbers = scalars(&graph);
    let want = run_eagerly(&graph, arrays, &numbers).unwrap_or_else(|e| panic!("eager: {e}"));
    let plan = Plan::of(graph).unwrap_or_else(|e| panic!("{e}"));
    let got = plan
        .run(&mut kept(arrays), &numbers)
        .unwrap_or_else(|e| panic!("{e}"));
    for (g, w) in got.iter().zip(&want) {
        if let Some(why) = difference(g, w, error, true) {
            panic!("{why}\n{}", plan.explain());
        }
    }
    got
}
