//! What a choice is remembered under (codegen B11.6).

use crate::graph::Graph;
use crate::policy::Policy;
use ferrotrace_kernels::Operand;
use ferrotrace_runtime::{Config, Pool, identity};
use std::fmt::Write as _;

/// Raised where planning or measuring changes so that choices made before mean something else.
const REVISION: u32 = 1;

/// The graph without its numbers, the device and its compiler, the number of threads, every threshold, the version of
/// this crate; `None` where there is no compiler.
pub(super) fn of(graph: &Graph, policy: &Policy) -> Option<String> {
    let (device, config) = (graph.device(), Config::get());
    let machine = identity(&device).ok()?;
    let mut key = format!(
        "tune {REVISION} {} {device} {machine} threads {} combine {} graphs {} tf32 {}\n{:?}\n",
        env!("CARGO_PKG_VERSION"),
        Pool::global().threads(),
        config.combine,
        config.graphs,
        config.tf32,
        policy.thresholds,
    );
    for input in graph.inputs() {
        let _ = writeln!(key, "{input:?}");
    }
    for node in graph.nodes() {
        let _ = write!(
            key,
            "{:?} {}{} {:?}",
            node.op, node.dtype, node.shape, node.precision
        );
        for arg in &node.args {
            let _ = match arg {
                Operand::Value(v) => write!(key, " %{}", v.0),
                // Another number is no other plan.
                Operand::Slot(slot, number) => write!(key, " ${slot} {:?}", number.category()),
                Operand::Const(number) => write!(key, " {number:?}"),
            };
        }
        key.push('\n');
    }
    let _ = write!(key, "{:?}", graph.outputs());
    Some(key)
}
