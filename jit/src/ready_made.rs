//! A graph on ready-made kernels alone: where compiling failed.

use crate::graph::{Graph, NodeOp};
use crate::operations::{Operations, Read, Recorded, run_one_by_one};
use crate::target::Target;
use ferrotrace_kernels::{Arg, Array, Op, Operand, ValueId};
use ferrotrace_runtime::{Context, Counter, DType, Device, Result, Scalar, Shape, count};

impl Operations for Graph {
    fn count(&self) -> usize {
        self.nodes().len()
    }

    fn values(&self) -> impl Iterator<Item = Recorded<'_>> {
        let read = |operand: &Operand| match *operand {
            Operand::Value(v) => Read::Value(v.0 as usize),
            Operand::Slot(slot, _) => Read::Slot(slot as usize),
            Operand::Const(number) => Read::Const(number),
        };
        self.nodes().iter().map(move |node| match &node.op {
            NodeOp::Input(n) => Recorded::Input(*n as usize),
            NodeOp::Op(op) => Recorded::Operation {
                op,
                operands: node.args.iter().map(read).collect(),
                shape: &node.shape,
                dtype: node.dtype,
            },
        })
    }

    fn outputs(&self) -> impl Iterator<Item = usize> {
        self.outputs().iter().map(|output| output.0 as usize)
    }

    fn device(&self) -> Device {
        self.device()
    }

    fn context(&self, value: usize) -> Context {
        self.context(ValueId(value as u32))
    }
}

/// Runs every node of the graph on ready-made kernels alone: where compiling failed.
///
/// # Errors
/// The first operator's error, with its place in the user's program.
pub(crate) fn run_ready_made(
    graph: &Graph,
    inputs: Vec<Result<Array>>,
    scalars: &[Scalar],
) -> Result<Vec<Result<Array>>> {
    let device = graph.device();
    if Target::of(&device).library.is_complete() {
        return Ok(run_one_by_one(graph, inputs, scalars, &device, ready_made));
    }
    // Ready-made kernels are the host's: one copy of what goes in, one of what comes out.
    count(Counter::HostRuns, 1);
    let host = Device::cpu();
    let moved = |x: Result<Array>, to: &Device| x.and_then(|x| x.to_device(to));
    let inputs = inputs.into_iter().map(|x| moved(x, &host)).collect();
    let outputs = run_one_by_one(graph, inputs, scalars, &host, ready_made).into_iter();
    Ok(outputs.map(|x| moved(x, &device)).collect())
}

/// Runs one operator by its ready-made kernel on the CPU.
fn ready_made(_: &Device, op: &Op, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    op.run(args, shape, dtype)
}
