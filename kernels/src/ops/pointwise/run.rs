//! Ready-made kernels of pointwise operators.

use crate::arg::{Arg, array, device};
use crate::copy::cast;
use crate::cpu::operand::Input;
use crate::cpu::pointwise::{Kernel, Pointwise, map};
use crate::cpu::{binary, create, unary};
use crate::{Array, BinaryOp, UnaryOp};
use ferrotrace_runtime::{DType, Error, Result, Shape};
use smallvec::SmallVec;

type Inputs<'a> = SmallVec<[Input<'a>; 3]>;

/// The operands, to be converted to the compute type of `dtype`.
fn inputs<'a>(args: &'a [Arg], shape: &Shape, dtype: DType) -> Inputs<'a> {
    args.iter()
        .map(|arg| match arg {
            Arg::Scalar(number) => Input::scalar(*number, shape, dtype),
            Arg::Array(x) => Input::array(x, shape, dtype.compute()),
        })
        .collect()
}

/// The operands with those not of a half type `dtype` rounded to it.
fn rounded(args: &[Arg], dtype: DType) -> Result<SmallVec<[Arg; 3]>> {
    args.iter()
        .map(|arg| match arg {
            Arg::Array(x) => Ok(Arg::Array(cast(x, dtype)?)),
            Arg::Scalar(number) => Ok(Arg::Scalar(*number)),
        })
        .collect()
}

fn is_mixed_half(args: &[Arg], dtype: DType) -> bool {
    dtype.is_half()
        && args
            .iter()
            .any(|arg| matches!(arg, Arg::Array(x) if x.dtype != dtype))
}

pub(super) fn run_unary(op: UnaryOp, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let compute = super::unary_compute(op, &[args[0].meta()])?;
    let produced = op.result_dtype(compute.compute());
    let kernel = unary::kernel(op, compute.compute());
    run_pointwise(kernel, op.name(), compute, produced, args, shape, dtype)
}

pub(super) fn run_binary(op: BinaryOp, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let [a, b] = args else {
        return Err(Error::argument(format!("{} takes two operands", op.name())));
    };
    let compute = super::binary_compute(op, &[a.meta(), b.meta()])?;
    let produced = op.result_dtype(compute.compute());
    let kernel = binary::kernel(op, compute.compute());
    run_pointwise(kernel, op.name(), compute, produced, args, shape, dtype)
}

fn run_pointwise(
    kernel: Option<Kernel>,
    name: &str,
    compute: DType,
    produced: DType,
    args: &[Arg],
    shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    if kernel.is_none() {
        return Err(Error::dtype(format!("{name} does not take {compute}")));
    }
    let op = Pointwise { kernel, produced };
    if is_mixed_half(args, compute) {
        let args = rounded(args, compute)?;
        return map(
            op,
            &inputs(&args, shape, compute),
            &device(&args),
            shape,
            dtype,
        );
    }
    map(
        op,
        &inputs(args, shape, compute),
        &device(args),
        shape,
        dtype,
    )
}

/// The chosen values keep their bits: they are cast to the result's dtype, and computed on in no other.
pub(super) fn run_where(args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let [_, a, b] = args else {
        return Err(Error::argument("where_cond takes three operands"));
    };
    let device = device(args);
    // Numbers of a half type reach kernels in binary32: here they become tensors instead.
    let one = |arg: &Arg| match arg {
        Arg::Scalar(number) if dtype.is_half() => {
            create::full(&device, &Shape::scalar(), *number, dtype).map(Arg::Array)
        }
        arg => Ok(arg.clone()),
    };
    let values = [one(a)?, one(b)?];
    let mut inputs = Inputs::new();
    inputs.push(Input::array(array(args, 0)?, shape, DType::Bool));
    inputs.extend(values.iter().map(|arg| match arg {
        Arg::Array(x) => Input::array(x, shape, dtype),
        Arg::Scalar(number) => Input::scalar(*number, shape, dtype),
    }));
    let op = Pointwise {
        kernel: Some(binary::select(dtype.size())),
        produced: dtype,
    };
    map(op, &inputs, &device, shape, dtype)
}
