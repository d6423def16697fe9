//! A graph run operator by operator on ready-made kernels: what a flush falls back to.

use crate::graph::{Graph, NodeOp};
use ferrotrace_kernels::{Array, Operand, ValueId, eager};
use ferrotrace_runtime::{Config, Counter, Device, Error, Result, Scalar, count};

/// Runs every node of the graph on ready-made kernels and returns its outputs, on the graph's device.
///
/// # Errors
/// The first operator's error, with its place in the user's program.
pub fn run_eagerly(graph: &Graph, inputs: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    let device = graph.device();
    if device.is_cpu() {
        return run_on_host(graph, inputs, scalars);
    }
    // Ready-made kernels are the host's: one copy of what goes in, one of what comes out.
    count(Counter::HostRuns, 1);
    let host = Device::cpu();
    let inputs: Vec<Array> = inputs
        .iter()
        .map(|x| x.to_device(&host))
        .collect::<Result<_>>()?;
    let outputs = run_on_host(graph, &inputs, scalars)?;
    outputs.iter().map(|x| x.to_device(&device)).collect()
}

fn run_on_host(graph: &Graph, inputs: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    let count = graph.nodes().len();
    let mut last_use = vec![0usize; count];
    for i in 0..count {
        for operand in graph.operands(ValueId(i as u32)) {
            last_use[operand.0 as usize] = i;
        }
    }
    for output in graph.outputs() {
        last_use[output.0 as usize] = usize::MAX;
    }
    let mut values: Vec<Option<Array>> = vec![None; count];
    for (i, node) in graph.nodes().iter().enumerate() {
        let id = ValueId(i as u32);
        let value = match &node.op {
            NodeOp::Input(n) => inputs
                .get(*n as usize)
                .cloned()
                .ok_or_else(|| Error::internal("an input is missing"))?,
            NodeOp::Op(op) => {
                let arg = |operand: &Operand| match operand {
                    Operand::Value(v) => values[v.0 as usize]
                        .clone()
                        .map(eager::Arg::Array)
                        .ok_or_else(|| Error::internal("an operand was freed too early")),
                    Operand::Slot(s, _) => scalars
                        .get(*s as usize)
                        .map(|s| eager::Arg::Scalar(*s))
                        .ok_or_else(|| Error::internal("a number is missing")),
                    Operand::Const(s) => Ok(eager::Arg::Scalar(*s)),
                };
                let args: Vec<eager::Arg> = node.args.iter().map(arg).collect::<Result<_>>()?;
                let run = eager::run(op, &args, &node.shape, node.dtype).and_then(|value| {
                    if Config::get().nans {
                        eager::check(&args, &value)?;
                    }
                    Ok(value)
                });
                run.map_err(|e| e.at(graph.context(id)))?
            }
        };
        if last_use[i] > i {
            values[i] = Some(value);
        }
        for operand in graph.operands(id) {
            if last_use[operand.0 as usize] == i {
                values[operand.0 as usize] = None;
            }
        }
    }
    let output = |v: &ValueId| {
        values[v.0 as usize]
            .clone()
            .ok_or_else(|| Error::internal("an output was freed"))
    };
    graph.outputs().iter().map(output).collect()
}
