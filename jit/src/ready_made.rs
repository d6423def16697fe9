//! A graph operator by operator: on ready-made kernels where compiling failed, or by whatever else runs one operator.

use crate::graph::{Graph, Node, NodeOp};
use crate::target::Target;
use ferrotrace_kernels::{Arg, copy, eager};
use ferrotrace_kernels::{Array, Op, Operand, ValueId};
use ferrotrace_runtime::{Config, Counter, DType, Device, Error, Result, Scalar, Shape, count};

/// Runs one operator on a device where its operands lie; shape and dtype are those of the result.
pub(crate) type RunOperator = fn(&Device, &Op, &[Arg], &Shape, DType) -> Result<Array>;

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
        return Ok(run_nodes(graph, inputs, scalars, &device, ready_made));
    }
    // Ready-made kernels are the host's: one copy of what goes in, one of what comes out.
    count(Counter::HostRuns, 1);
    let host = Device::cpu();
    let moved = |x: Result<Array>, to: &Device| x.and_then(|x| x.to_device(to));
    let inputs = inputs.into_iter().map(|x| moved(x, &host)).collect();
    let outputs = run_nodes(graph, inputs, scalars, &host, ready_made).into_iter();
    Ok(outputs.map(|x| moved(x, &device)).collect())
}

/// Runs one operator by its ready-made kernel on the CPU.
fn ready_made(_: &Device, op: &Op, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    op.run(args, shape, dtype)
}

/// Runs every node of the graph on a device by `run`, and releases each value after its last use.
pub(crate) fn run_nodes(
    graph: &Graph,
    inputs: Vec<Result<Array>>,
    scalars: &[Scalar],
    device: &Device,
    run: RunOperator,
) -> Vec<Result<Array>> {
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
    let mut inputs: Vec<Option<Result<Array>>> = inputs.into_iter().map(Some).collect();
    let mut values: Vec<Option<Result<Array>>> = vec![None; count];
    for (i, node) in graph.nodes().iter().enumerate() {
        let id = ValueId(i as u32);
        let value = match &node.op {
            NodeOp::Input(n) => inputs
                .get_mut(*n as usize)
                .and_then(Option::take)
                .unwrap_or_else(|| Err(Error::internal("an input is missing"))),
            NodeOp::Op(op) => {
                let arg = |operand: &Operand| match operand {
                    Operand::Value(v) => values[v.0 as usize]
                        .clone()
                        .unwrap_or_else(|| Err(Error::internal("an operand was freed too early")))
                        .map(Arg::Array),
                    Operand::Slot(s, _) => scalars
                        .get(*s as usize)
                        .map(|s| Arg::Scalar(*s))
                        .ok_or_else(|| Error::internal("a number is missing")),
                    Operand::Const(s) => Ok(Arg::Scalar(*s)),
                };
                let args: Result<Vec<Arg>> = node.args.iter().map(arg).collect();
                for operand in graph.operands(id) {
                    if last_use[operand.0 as usize] == i {
                        values[operand.0 as usize] = None;
                    }
                }
                let placed = |e: Error| e.of_node(id.0, graph.context(id));
                args.and_then(|args| run_node(node, op, args, device, run).map_err(placed))
            }
        };
        if last_use[i] > i {
            values[i] = Some(value);
        }
    }
    let freed = || Err(Error::internal("an output was freed"));
    let output = |v: &ValueId| values[v.0 as usize].clone().unwrap_or_else(freed);
    graph.outputs().iter().map(output).collect()
}

/// Runs one operator, over its first operand where it may; looks for NaN in the result where `FERROTRACE_NANS` asks for it
/// (scheduler K-17).
fn run_node(
    node: &Node,
    op: &Op,
    mut args: Vec<Arg>,
    device: &Device,
    run: RunOperator,
) -> Result<Array> {
    if let Some(x) = taken_over(op, &mut args, node.dtype)? {
        return eager::run_over(op, x, &args);
    }
    let value = run(device, op, &args, &node.shape, node.dtype)?;
    if Config::get().nans {
        eager::check(&args, &value)?;
    }
    Ok(value)
}

/// The first operand, if the operator may change it where it lies: nothing but the operands holds its buffer, and it is
/// all of that. A small source that lies in the same buffer is copied out of it first.
fn taken_over(op: &Op, args: &mut [Arg], dtype: DType) -> Result<Option<Array>> {
    let whole = |x: &Array| {
        let bytes = x.numel() * x.dtype.size();
        let starts = x.layout.is_contiguous() && x.layout.offset() == 0;
        starts
            && x.dtype == dtype
            && Target::of(x.buffer.device()).library.is_complete()
            && x.buffer.bytes() == bytes
    };
    let [Arg::Array(x), rest @ ..] = args else {
        return Ok(None);
    };
    if !whole(x) || !eager::writes_over(op, dtype) || Config::get().nans {
        return Ok(None);
    }
    if let (Some(_), [Arg::Array(source)]) = (op.as_slice_assign(), &mut *rest)
        && source.buffer.same(&x.buffer)
        && source.layout.span().len().saturating_mul(2) <= x.numel()
    {
        *source = copy::copied(source)?;
    }
    if !x.buffer.is_unique() {
        return Ok(None);
    }
    let nothing = Arg::Scalar(Scalar::Bool(false));
    count(Counter::InPlaceWrites, 1);
    Ok(match std::mem::replace(&mut args[0], nothing) {
        Arg::Array(x) => Some(x),
        Arg::Scalar(_) => None,
    })
}
