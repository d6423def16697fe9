//! Recording: from an operator and its operands to a node of the trace.

use crate::jit_fn::trace;
use crate::node::{Facts, Inputs, Node, Status};
use crate::signature::{node_hash, operand_kinds};
use crate::{Input, Mode, Tensor, flush, limit, mode};
use ferrotrace_kernels::eager::{self, Arg};
use ferrotrace_kernels::ops::view::view_map;
use ferrotrace_kernels::{ArgMeta, Array, Op};
use ferrotrace_runtime::{Context, Counter, DType, Device, Error, ErrorKind, Result, Shape, count};
use smallvec::SmallVec;
use std::panic::Location;

impl Tensor {
    /// The tensor that `op` makes of `inputs`, at least one of them a tensor. Infallible: if an operand carries an
    /// error, or the operands do not fit, so does the result. In eager mode the operation runs here.
    #[inline]
    #[track_caller]
    pub(crate) fn record(op: Op, inputs: &[Input<'_>]) -> Tensor {
        record(None, op, inputs, Location::caller())
    }

    /// The same for an operator without tensor operands (`Full`, `Arange`, `Iota`, `Random`), on `device`.
    #[inline]
    #[track_caller]
    pub(crate) fn record_on(device: &Device, op: Op, inputs: &[Input<'_>]) -> Tensor {
        record(Some(device), op, inputs, Location::caller())
    }
}

/// A failure to make a tensor of `op`: the first operand's error, else `error` tied to the operation.
#[cold]
fn fail(
    op: &Op,
    error: Error,
    inputs: &[Input<'_>],
    dtype: Option<DType>,
    device: &Device,
    location: &'static Location<'static>,
) -> Tensor {
    let error = tie(op, error, inputs, location);
    Tensor::of_error(error, dtype.unwrap_or(DType::F32), device, location)
}

fn tie(op: &Op, error: Error, inputs: &[Input<'_>], location: &'static Location<'static>) -> Error {
    let operands = inputs.iter().filter_map(|input| match input {
        Input::Tensor(tensor) => Some((tensor.sizes().clone(), tensor.dtype())),
        _ => None,
    });
    error.at(Context {
        op: op.name(),
        operands: operands.collect(),
        location: Some(location),
    })
}

pub(crate) fn record(
    device: Option<&Device>,
    op: Op,
    inputs: &[Input<'_>],
    location: &'static Location<'static>,
) -> Tensor {
    let mut args: SmallVec<[ArgMeta<'_>; 4]> = SmallVec::new();
    let mut device = device;
    let mut level = 0;
    for input in inputs {
        args.push(match input {
            Input::Tensor(tensor) => {
                let node = tensor.node();
                let facts = &node.facts;
                match node.status() {
                    Status::Failed => {
                        let error = node
                            .error()
                            .unwrap_or_else(|| Error::internal("lost error"));
                        return Tensor::of_error(error, facts.dtype, &facts.device, location);
                    }
                    Status::Pending => level = level.max(node.level()),
                    Status::Stored => {}
                }
                if **device.get_or_insert(&facts.device) != facts.device {
                    return across_devices(&op, inputs, location);
                }
                ArgMeta::Tensor(&facts.shape, facts.dtype)
            }
            Input::Scalar(scalar) => ArgMeta::Scalar(*scalar),
            Input::Draw(draw) => {
                ArgMeta::Scalar(ferrotrace_runtime::Scalar::Int(draw.value as i64))
            }
        });
    }
    let device = device.unwrap_or(const { &Device::cpu() });
    let (shape, dtype) = match op.infer(&args) {
        Ok(inferred) => inferred,
        Err(error) => return fail(&op, error, inputs, None, device, location),
    };
    let mode = mode::current();
    if let Some(array) = stored_view(&op, inputs, &shape, mode) {
        let mut facts = Facts::of_data(&array, location);
        facts.shape = shape;
        return Tensor::of_fresh(Node::stored(facts, array));
    }
    if mode == Mode::Eager {
        return match run_now(device, &op, inputs, &shape, dtype) {
            Ok(array) => {
                let facts = Facts::of_data(&array, location);
                Tensor::of_fresh(Node::stored(facts, array))
            }
            Err(error) => fail(&op, error, inputs, Some(dtype), device, location),
        };
    }
    count(Counter::OpsRecorded, 1);
    let precision = mode::precision();
    let operands: Inputs = inputs.iter().map(Input::to_node_input).collect();
    let kinds = operand_kinds(args.iter().map(|arg| match arg {
        ArgMeta::Tensor(..) => None,
        ArgMeta::Scalar(scalar) => Some(scalar.category()),
    }));
    let hash = node_hash(&op, precision, dtype, &shape, kinds);
    let facts = Facts {
        op: Some(op),
        shape,
        dtype,
        device: device.clone(),
        precision,
        location,
        hash,
        trace: trace::current(),
        argument: 0,
    };
    let level = level.saturating_add(1);
    let result = Tensor::of_fresh(Node::recorded(facts, operands, level));
    if limit::reached(level) {
        limit::flush(&result, level);
    }
    result
}

#[cold]
fn across_devices(op: &Op, inputs: &[Input<'_>], location: &'static Location<'static>) -> Tensor {
    let tensors = || {
        inputs.iter().filter_map(|input| match input {
            Input::Tensor(tensor) => Some(tensor),
            _ => None,
        })
    };
    if let Some(failed) = tensors().find_map(|tensor| tensor.error()) {
        return Tensor::of_error(failed, DType::F32, &Device::cpu(), location);
    }
    let devices: Vec<String> = tensors()
        .map(|tensor| tensor.device().to_string())
        .collect();
    let error = ErrorKind::Device(format!("operands lie on {}", devices.join(", ")));
    fail(
        op,
        Error::new(error),
        inputs,
        None,
        &Device::cpu(),
        location,
    )
}

/// The result of a view of stored data, without an operation. A value that stands for an argument of a `jit` function
/// is no data.
#[inline]
fn stored_view(op: &Op, inputs: &[Input<'_>], shape: &Shape, mode: Mode) -> Option<Array> {
    let [Input::Tensor(tensor), ..] = inputs else {
        return None;
    };
    let node = tensor.node();
    if inputs.len() != 1 || node.status() != Status::Stored || !is_view(op) {
        return None;
    }
    if node.facts.argument != 0 {
        // In eager mode the argument's data is looked at by the operation itself.
        return None;
    }
    let array = node.array()?;
    let layout = match op {
        Op::Reshape(_) | Op::Flatten { .. } => array.layout.reshape(shape)?,
        _ => view_map(op, array.shape(), shape)?.apply(&array.layout, shape),
    };
    if mode != Mode::Eager {
        count(Counter::OpsRecorded, 1);
    }
    Some(array.with_layout(layout))
}

fn is_view(op: &Op) -> bool {
    matches!(
        op,
        Op::Reshape(_)
            | Op::Flatten { .. }
            | Op::Expand(_)
            | Op::Permute(_)
            | Op::Squeeze { .. }
            | Op::Unsqueeze { .. }
            | Op::Slice { .. }
            | Op::Narrow { .. }
            | Op::Select { .. }
            | Op::Flip { .. }
            | Op::Diagonal { .. }
            | Op::Unfold { .. }
    )
}

/// Runs one operation on ready-made kernels; operands recorded in another mode are flushed first.
fn run_now(
    device: &Device,
    op: &Op,
    inputs: &[Input<'_>],
    shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    let pending = inputs.iter().filter_map(|input| match input {
        Input::Tensor(tensor) if tensor.is_pending() => Some(*tensor),
        _ => None,
    });
    flush::flush_tensors(pending);
    let mut operands: SmallVec<[Arg; 3]> = SmallVec::new();
    for input in inputs {
        operands.push(match input {
            Input::Tensor(tensor) => Arg::Array(flush::stored_array(tensor.node())?),
            Input::Scalar(scalar) => Arg::Scalar(*scalar),
            Input::Draw(draw) => Arg::Scalar(ferrotrace_runtime::Scalar::Int(draw.value as i64)),
        });
    }
    eager::run_on(device, op, &operands, shape, dtype)
}
