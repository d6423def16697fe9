//! Recording: from an operator and its operands to a node of the trace.

use crate::backend::run_operator;
use crate::flush::limit;
use crate::form::Kind;
use crate::history::{self, Of};
use crate::node::domain::Domain;
use crate::node::{Draw, Facts, Inputs, Node, State, Status, summaries};
use crate::trace;
use crate::{Input, Mode, Tensor, flush, mode, place};
use ferrotrace_kernels::eager::{self, quick};
use ferrotrace_kernels::{Arg, ArgMeta, Array, Op};
use ferrotrace_runtime::{Counter, DType, Device, Error, ErrorKind, Result, count};
use smallvec::SmallVec;
use std::panic::Location;

impl Tensor {
    /// The tensor that `op` makes of `inputs`, at least one of them a tensor. Infallible: if an operand carries an
    /// error, or the operands do not fit, so does the result. In eager mode the operation runs here.
    #[inline]
    #[track_caller]
    pub(crate) fn record(op: Op, inputs: &[Input<'_>]) -> Tensor {
        record(None, op, None, inputs, Location::caller())
    }

    /// Records `op` for a method of another name, which errors tell instead of the operator's.
    #[inline]
    #[track_caller]
    pub(crate) fn record_as(name: &'static str, op: Op, inputs: &[Input<'_>]) -> Tensor {
        record(None, op, Some(name), inputs, Location::caller())
    }

    /// Records an operator without tensor operands (`Full`, `Arange`, `Iota`, `Random`), on `device`.
    #[inline]
    #[track_caller]
    pub(crate) fn record_on(device: &Device, op: Op, inputs: &[Input<'_>]) -> Tensor {
        record(Some(device), op, None, inputs, Location::caller())
    }
}

/// A failure to make a tensor of `op`: the first operand's error, else `error` tied to the operation.
#[cold]
fn fail(
    op: &'static str,
    error: Error,
    inputs: &[Input<'_>],
    dtype: Option<DType>,
    device: &Device,
    location: &'static Location<'static>,
) -> Tensor {
    let error = tie(op, error, inputs, location);
    Tensor::of_error(error, dtype.unwrap_or(DType::F32), device, location)
}

fn tie(
    op: &'static str,
    error: Error,
    inputs: &[Input<'_>],
    location: &'static Location<'static>,
) -> Error {
    let operands = inputs.iter().filter_map(|input| match input {
        Input::Tensor(tensor) => Some((tensor.sizes().clone(), tensor.dtype())),
        _ => None,
    });
    trace::observe_refusal(inputs.iter().filter_map(|input| match input {
        Input::Tensor(tensor) => Some(&**tensor.node()),
        _ => None,
    }));
    error.at(place::context(op, operands.collect(), location))
}

/// Records `op`, on `device` if it has no tensor operands; where an operand has a history, the result has one too.
pub(crate) fn record(
    device: Option<&Device>,
    op: Op,
    name: Option<&'static str>,
    inputs: &[Input<'_>],
    location: &'static Location<'static>,
) -> Tensor {
    let called = location;
    let location = place::here(location);
    let result = record_value(device, op, name, inputs, [called, location]);
    let has_history = |input: &Input<'_>| match input {
        Input::Tensor(tensor) => tensor.history().is_some(),
        _ => false,
    };
    match inputs.iter().any(has_history) && mode::keeps_history() {
        true => with_history(result, inputs, location),
        false => result,
    }
}

#[cold]
fn with_history(
    result: Tensor,
    inputs: &[Input<'_>],
    location: &'static Location<'static>,
) -> Tensor {
    let of = |input| match input {
        &Input::Tensor(tensor) => Of::Value(tensor.value()),
        number => Of::Number(number.to_node_input()),
    };
    let operands: SmallVec<[Of<'_>; 4]> = inputs.iter().map(of).collect();
    let handle = &result.value().handle;
    // A thread that a traced function started records for its trace.
    let trace = match trace::current() {
        0 => handle.node().facts.trace,
        current => current,
    };
    let history = history::of_result(handle, &operands, location, trace);
    result.with_history(history)
}

/// `called` is the line that calls the operator, `location` the one under which it is recorded.
fn record_value(
    device: Option<&Device>,
    op: Op,
    name: Option<&'static str>,
    inputs: &[Input<'_>],
    [called, location]: [&'static Location<'static>; 2],
) -> Tensor {
    let mut args: SmallVec<[ArgMeta<'_>; 4]> = SmallVec::new();
    let mut device = device;
    let mut level = 0;
    let mut domain: Option<Domain> = None;
    let current = trace::current();
    // Whether an operand depends on an argument of a trace, and the trace, if it is not this thread's.
    let (mut traced, mut other) = (false, 0);
    let mut drawn = false;
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
                    Status::Pending => {
                        level = level.max(node.level());
                        let own = node.domain();
                        domain = Some(domain.map_or(own, |domain| domain.with(own)));
                    }
                    Status::Stored => {}
                }
                if facts.traced {
                    traced = true;
                    if facts.trace != current {
                        other = facts.trace;
                    }
                }
                if **device.get_or_insert(&facts.device) != facts.device {
                    let called = name.unwrap_or_else(|| op.name());
                    return across_devices(called, inputs, location);
                }
                ArgMeta::Tensor(&facts.shape, facts.dtype)
            }
            Input::Scalar(scalar) => ArgMeta::Scalar(*scalar),
            Input::Draw(draw) => {
                drawn |= draw.index < Draw::ELSEWHERE;
                ArgMeta::Scalar(ferrotrace_runtime::Scalar::Int(draw.value as i64))
            }
        });
    }
    let device = device.unwrap_or(const { &Device::cpu() });
    let (trace, mode, precision) = match other {
        0 => (current, mode::current(), mode::precision()),
        other => trace::followed(other),
    };
    let kind = match Kind::of((op, name), &args, device, precision, called) {
        Ok(kind) => kind,
        Err((op, error)) => {
            let called = name.unwrap_or_else(|| op.name());
            return fail(called, error, inputs, None, device, location);
        }
    };
    let data = |kind| Facts {
        kind,
        location,
        trace: 0,
        place: 0,
        is_argument: false,
        traced: false,
    };
    if let Some(array) = stored_view(&kind, inputs, mode) {
        return Tensor::of_fresh(Node::stored(data(kind), array));
    }
    let later = mode == Mode::Eager && is_done_later(&kind, device, inputs);
    if later {
        // At most one assignment is pending in eager mode: earlier ones run now.
        flush_pending(inputs);
    } else if mode == Mode::Eager {
        if drawn {
            // A replay cannot draw it anew.
            trace::observe_value(trace);
        }
        let result = run_quickly(&kind, inputs).unwrap_or_else(|| run_now(device, &kind, inputs));
        return match result {
            Ok(array) => Tensor::of_fresh(Node::stored(data(kind), array)),
            Err(error) => fail(
                kind.called(),
                error,
                inputs,
                Some(kind.dtype),
                device,
                location,
            ),
        };
    }
    count(Counter::OpsRecorded, 1);
    let operands: Inputs = match inputs {
        [a, b] => Inputs::from_buf([a.to_node_input(), b.to_node_input()]),
        _ => {
            let mut operands = Inputs::new();
            for input in inputs {
                operands.push(input.to_node_input());
            }
            operands
        }
    };
    let facts = Facts {
        kind,
        location,
        trace,
        place: match trace {
            0 => trace::next_own_place(),
            _ => trace::next_place(),
        },
        is_argument: false,
        traced: traced && trace != 0,
    };
    let level = level.saturating_add(1);
    let domain = domain.unwrap_or_else(Domain::own);
    let result = Tensor::of_fresh(Node::recorded(facts, operands, domain, level));
    let node = result.node();
    if node.facts.trace == 0 && !traced && is_summary(node, level, inputs) {
        summaries::list(node);
    }
    if limit::reached(level) {
        limit::flush(result.node(), level);
    }
    result
}

/// Whether a node recorded at a level is much smaller than an operand.
#[inline]
fn is_summary(node: &Node, level: u32, inputs: &[Input<'_>]) -> bool {
    let operands = inputs.iter().filter_map(|input| match input {
        Input::Tensor(tensor) => Some(&**tensor.node()),
        _ => None,
    });
    summaries::is_summary(node.facts.shape.numel(), level, operands)
}

/// Bytes from which an assignment waits in eager mode.
const WORTH_WAITING: usize = 1 << 14;

/// Whether the operation runs in eager mode too only once its result is used: an assignment of a slice to a tensor that
/// is not small. Where the program has dropped the tensor by then, as `x = x.slice_assign(..)` has, it is done in its memory.
fn is_done_later(kind: &Kind, device: &Device, inputs: &[Input<'_>]) -> bool {
    let given = |input: &Input<'_>| match input {
        Input::Tensor(tensor) => !tensor.node().facts.traced,
        _ => true,
    };
    kind.op().as_slice_assign().is_some()
        && kind.shape.numel().saturating_mul(kind.dtype.size()) >= WORTH_WAITING
        && device.is_cpu()
        && trace::current() == 0
        && inputs.iter().all(given)
        && !mode::checks_nans()
}

fn flush_pending(inputs: &[Input<'_>]) {
    let pending = inputs.iter().filter_map(|input| match input {
        Input::Tensor(tensor) if tensor.is_pending() => Some(*tensor),
        _ => None,
    });
    flush::flush_tensors(pending);
}

#[cold]
fn across_devices(
    op: &'static str,
    inputs: &[Input<'_>],
    location: &'static Location<'static>,
) -> Tensor {
    let tensors = || {
        inputs.iter().filter_map(|input| match input {
            Input::Tensor(tensor) => Some(tensor),
            _ => None,
        })
    };
    if let Some(failed) = tensors().find_map(|tensor| tensor.node().error()) {
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
fn stored_view(kind: &Kind, inputs: &[Input<'_>], mode: Mode) -> Option<Array> {
    let [Input::Tensor(tensor), ..] = inputs else {
        return None;
    };
    let node = tensor.node();
    if inputs.len() != 1 || node.status() != Status::Stored || !kind.op().is_view() {
        return None;
    }
    if node.facts.is_argument {
        // A stand-in for an argument has no data to view; in eager mode the operation itself reads the argument.
        return None;
    }
    let view = kind.view(&node.array()?)?;
    if mode != Mode::Eager {
        count(Counter::OpsRecorded, 1);
    }
    Some(view)
}

/// The result of an operation without a detour, for the operators and operands that [`quick`] knows.
#[inline]
fn run_quickly(kind: &Kind, inputs: &[Input<'_>]) -> Option<Result<Array>> {
    let (op, shape, dtype) = (kind.op(), &kind.shape, kind.dtype);
    if !quick::knows(op) || mode::checks_nans() {
        return None;
    }
    match inputs {
        [x] => quick::run(op, &[quick_operand(x)?], shape, dtype),
        [a, b] => quick::run(op, &[quick_operand(a)?, quick_operand(b)?], shape, dtype),
        [a, b, c] => {
            let operands = [quick_operand(a)?, quick_operand(b)?, quick_operand(c)?];
            quick::run(op, &operands, shape, dtype)
        }
        _ => None,
    }
}

/// The operand, if it is a number or small stored data without gaps. Stand-ins for arguments of a `jit` function are
/// read where that is noted.
#[inline]
fn quick_operand<'a>(input: &'a Input<'_>) -> Option<quick::Operand<'a>> {
    let tensor = match input {
        Input::Tensor(tensor) => tensor,
        Input::Scalar(scalar) => return Some(quick::Operand::Number(*scalar)),
        Input::Draw(_) => return None,
    };
    let node = tensor.node();
    let Kind { shape, dtype, .. } = &*node.facts.kind;
    if node.facts.is_argument || shape.numel() > quick::LIMIT {
        return None;
    }
    match &*node.state() {
        State::Stored(stored) if stored.array.layout.is_contiguous() => Some(quick::Operand::Run {
            buffer: stored.array.buffer.clone(),
            offset: stored.array.layout.offset(),
            shape,
            dtype: *dtype,
        }),
        _ => None,
    }
}

/// Runs one operation on ready-made kernels; operands recorded in another mode are flushed first.
fn run_now(device: &Device, kind: &Kind, inputs: &[Input<'_>]) -> Result<Array> {
    flush_pending(inputs);
    let mut operands: SmallVec<[Arg; 3]> = SmallVec::new();
    for input in inputs {
        operands.push(match input {
            Input::Tensor(tensor) => Arg::Array(flush::stored_array(tensor.node())?),
            Input::Scalar(scalar) => Arg::Scalar(*scalar),
            Input::Draw(draw) => Arg::Scalar(ferrotrace_runtime::Scalar::Int(draw.value as i64)),
        });
    }
    let array = run_operator(device, kind.op(), &operands, &kind.shape, kind.dtype)?;
    if mode::checks_nans() {
        eager::check(&operands, &array)?;
    }
    Ok(array)
}
