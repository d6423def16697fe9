//! The gradient rule of one operation, applied.

use super::builder::Recorder;
use super::{at, flow};
use crate::history::{History, Operand as Kept, Operation, Rule, Several, Value};
use crate::record::record;
use crate::{Input, Tensor};
use ferrotrace_kernels::op::gradient::{Adjoint, fit};
use ferrotrace_kernels::{BinaryOp, Op};
use ferrotrace_runtime::{Error, Result};
use std::panic::Location;
use std::sync::Arc;

/// The sum of two gradients of one value.
pub(super) fn added(a: &Tensor, b: &Tensor, location: &'static Location<'static>) -> Tensor {
    let add = Op::from(BinaryOp::Add);
    record(
        None,
        add,
        None,
        &[Input::Tensor(a), Input::Tensor(b)],
        location,
    )
}

/// The gradients of the wanted operands of an operation of several results.
pub(super) fn pull_several(
    (history, operation): (&Arc<History>, &Operation),
    mut parts: Vec<Option<Value>>,
    wanted: &[bool],
    last: bool,
) -> Result<Vec<Option<Tensor>>> {
    let derived;
    let rule: &dyn Several = match &operation.rule {
        Rule::Several(rule) => rule.as_ref(),
        _ => {
            derived = flow::Derived::of(operation)?;
            &derived
        }
    };
    parts.resize_with(rule.results(), || None);
    let found = rule.pull((history, operation), parts, wanted, last)?;
    let tensor = |value: Option<Value>| value.map(Tensor::of_value);
    Ok(found.into_iter().map(tensor).collect())
}

/// The gradient of the only operand of an operation.
pub(super) fn pulled(
    history: &Arc<History>,
    operation: &Operation,
    gradient: &Tensor,
) -> Result<Option<Tensor>> {
    let found = pull(history, operation, gradient, &[true])?;
    Ok(found.into_iter().next().flatten())
}

/// The gradients of the wanted operands of an operation, each of its operand's shape and dtype.
pub(super) fn pull(
    history: &Arc<History>,
    operation: &Operation,
    gradient: &Tensor,
    wanted: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    match &operation.rule {
        Rule::Operator => by_operator(history, operation, gradient, wanted),
        Rule::Same => {
            let same = |operand: &Kept| match operand {
                Kept::Tensor { kind, .. } => Some(gradient.to_device(&kind.device)),
                Kept::Number(_) => None,
            };
            Ok(operation.operands.iter().map(same).collect())
        }
        Rule::Custom(rule) => {
            let result = of_result(history, operation);
            let value = |operand: &Kept| operand.value();
            let operands: Option<Vec<Value>> = operation.operands.iter().map(value).collect();
            let missing = || Error::internal("an operand was not kept");
            let operands = operands.ok_or_else(missing)?;
            let result = result.as_ref().map(Tensor::value);
            let found = rule.pull(&operands, result, gradient.value())?;
            let tensor = |value: Option<Value>| value.map(Tensor::of_value);
            Ok(found.into_iter().map(tensor).collect())
        }
        Rule::Part(_) | Rule::Several(_) => Err(Error::internal(
            "a part of a gradient was pulled as a whole",
        )),
    }
}

/// The result of an operation, if it was kept, with its history.
fn of_result(history: &Arc<History>, operation: &Operation) -> Option<Tensor> {
    let handle = operation.result.as_ref()?.handle().clone();
    Some(Tensor::of_handle(handle).with_history(Some(history.clone())))
}

fn by_operator(
    history: &Arc<History>,
    operation: &Operation,
    gradient: &Tensor,
    wanted: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let result = of_result(history, operation);
    let (mut recorder, args, result, gradient) = Recorder::new(operation, result, gradient);
    let adjoint = Adjoint {
        args: &args,
        result,
        gradient,
        wanted,
    };
    let op = operation.kind.op();
    let mut pulled = || {
        let found = op.entry().vjp(&mut recorder, &adjoint)?;
        let mut fitted = Vec::with_capacity(found.len());
        for ((found, wanted), operand) in found.into_iter().zip(wanted).zip(&operation.operands) {
            fitted.push(match (found, operand) {
                (Some(found), Kept::Tensor { kind, .. }) if *wanted => {
                    let found = fit(&mut recorder, found, &kind.shape, kind.dtype)?;
                    Some(recorder.tensor(found)?.clone())
                }
                _ => None,
            });
        }
        Ok(fitted)
    };
    pulled().map_err(|error: Error| {
        let called = operation.kind.called();
        match error.context().is_some() {
            true => error,
            false => at(error, called, &[], operation.location),
        }
    })
}
