//! Operations run one by one, in the order of recording: where there is no plan.

use crate::target::Target;
use ferrotrace_kernels::eager::quick;
use ferrotrace_kernels::{Arg, Array, Op, copy, eager};
use ferrotrace_runtime::{
    Config, Context, Counter, DType, Device, Error, Result, Scalar, Shape, count,
};
use smallvec::SmallVec;

/// Runs one operator on a device where its operands lie; shape and dtype are those of the result.
pub(crate) type RunOperator = fn(&Device, &Op, &[Arg], &Shape, DType) -> Result<Array>;

/// Values in the order of recording: each is an input, or the result of an operation on values before it.
pub trait Operations {
    /// How many values there are.
    fn count(&self) -> usize;

    /// The values, in order.
    fn values(&self) -> impl Iterator<Item = Recorded<'_>>;

    /// The numbers of the values that are results.
    fn outputs(&self) -> impl Iterator<Item = usize>;

    /// The device that runs the operations.
    fn device(&self) -> Device;

    /// What an error tells of the operation that computes a value.
    fn context(&self, value: usize) -> Context;
}

/// A value of [`Operations`].
#[derive(Debug)]
pub enum Recorded<'a> {
    /// The input of this number.
    Input(usize),
    /// The result of an operation.
    Operation {
        /// The operator.
        op: &'a Op,
        /// Its operands.
        operands: SmallVec<[Read; 4]>,
        /// The shape of the result.
        shape: &'a Shape,
        /// The dtype of the result.
        dtype: DType,
    },
}

/// An operand of an operation.
#[derive(Clone, Copy, Debug)]
pub enum Read {
    /// An earlier value.
    Value(usize),
    /// A number that is known when the operations run.
    Slot(usize),
    /// A number.
    Const(Scalar),
}

/// The number of the last operation that reads each value; `usize::MAX` of results.
fn last_uses(operations: &impl Operations) -> Vec<usize> {
    let mut last = vec![0; operations.count()];
    for (i, value) in operations.values().enumerate() {
        let Recorded::Operation { operands, .. } = value else {
            continue;
        };
        for operand in operands {
            if let Read::Value(v) = operand {
                last[v] = i;
            }
        }
    }
    for output in operations.outputs() {
        last[output] = usize::MAX;
    }
    last
}

/// Runs every operation by itself on a device by `run`, and releases each value after its last use.
pub(crate) fn run_one_by_one(
    operations: &impl Operations,
    inputs: Vec<Result<Array>>,
    scalars: &[Scalar],
    device: &Device,
    run: RunOperator,
) -> Vec<Result<Array>> {
    let last = last_uses(operations);
    let mut inputs: Vec<Option<Result<Array>>> = inputs.into_iter().map(Some).collect();
    let mut values = Values(vec![None; last.len()]);
    for (i, value) in operations.values().enumerate() {
        let value = match value {
            Recorded::Input(n) => {
                let input = inputs.get_mut(n).and_then(Option::take);
                input.unwrap_or_else(|| Err(Error::internal("an input is missing")))
            }
            Recorded::Operation {
                op,
                operands,
                shape,
                dtype,
            } => {
                let args = values.operands(&operands, scalars, |v| last[v] == i);
                let placed = |e: Error| e.of_node(i as u32, operations.context(i));
                let result = |args| run_operation(op, args, shape, dtype, device, run);
                args.and_then(|args| result(args).map_err(placed))
            }
        };
        if last[i] > i {
            values.0[i] = Some(value);
        }
    }
    let freed = || Err(Error::internal("an output was freed"));
    let output = |v: usize| values.0[v].clone().unwrap_or_else(freed);
    operations.outputs().map(output).collect()
}

/// The values that are still read.
struct Values(Vec<Option<Result<Array>>>);

impl Values {
    /// The operands of an operation. Those that `dies` says are read for the last time are released.
    fn operands(
        &mut self,
        operands: &[Read],
        scalars: &[Scalar],
        dies: impl Fn(usize) -> bool,
    ) -> Result<SmallVec<[Arg; 3]>> {
        let mut args = SmallVec::new();
        for (position, operand) in operands.iter().enumerate() {
            args.push(match *operand {
                Read::Value(v) => {
                    let same = |other: &Read| matches!(other, Read::Value(other) if *other == v);
                    let again = operands[position + 1..].iter().any(same);
                    let value = match dies(v) && !again {
                        true => self.0[v].take(),
                        false => self.0[v].clone(),
                    };
                    let freed = || Err(Error::internal("an operand was freed too early"));
                    Arg::Array(value.unwrap_or_else(freed)?)
                }
                Read::Slot(n) => {
                    let missing = || Error::internal("a number is missing");
                    Arg::Scalar(*scalars.get(n).ok_or_else(missing)?)
                }
                Read::Const(number) => Arg::Scalar(number),
            });
        }
        Ok(args)
    }
}

/// Runs one operation, over its first operand where it may; looks for NaN in the result where `FERROTRACE_NANS` asks for it
/// (scheduler K-17).
fn run_operation(
    op: &Op,
    mut args: SmallVec<[Arg; 3]>,
    shape: &Shape,
    dtype: DType,
    device: &Device,
    run: RunOperator,
) -> Result<Array> {
    if let Some(result) = run_quickly(op, &args, shape, dtype) {
        return result;
    }
    if let Some(x) = taken_over(op, &mut args, dtype)? {
        return eager::run_over(op, x, &args);
    }
    let value = run(device, op, &args, shape, dtype)?;
    if Config::get().nans {
        eager::check(&args, &value)?;
    }
    Ok(value)
}

/// The result by [`quick`], for the operators and operands that it knows.
fn run_quickly(op: &Op, args: &[Arg], shape: &Shape, dtype: DType) -> Option<Result<Array>> {
    let is_small = |arg: &Arg| match arg {
        Arg::Array(x) => x.numel() <= quick::LIMIT && x.layout.is_contiguous(),
        Arg::Scalar(_) => true,
    };
    if !quick::knows(op) || !args.iter().all(is_small) || Config::get().nans {
        return None;
    }
    let operand = |arg| match arg {
        &Arg::Scalar(number) => quick::Operand::Number(number),
        Arg::Array(x) => quick::Operand::Run {
            buffer: x.buffer.clone(),
            offset: x.layout.offset(),
            shape: x.shape(),
            dtype: x.dtype,
        },
    };
    let operands: SmallVec<[quick::Operand<'_>; 3]> = args.iter().map(operand).collect();
    quick::run(op, &operands, shape, dtype)
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
