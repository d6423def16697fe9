//! Checkpoints: parts of a computation that are computed again for their gradient instead of kept.
//!
//! Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.

use super::sweep;
use crate::history::{self, From, History, Of, Operand, Operation, Pullback, Rule, Step, Value};
use crate::record::record;
use crate::{Input, Tensor, mode, trace};
use ferrotrace_runtime::{Error, Result};
use rustc_hash::FxHashMap;
use std::panic::Location;
use std::sync::Arc;

/// Computes a tensor, and keeps for its gradient only what `f` read from outside: the gradient computes the rest again.
///
/// Memory falls from all that `f` computes to what it reads, for one more forward pass of `f`. Random operations draw the
/// same numbers again. Checkpoints may stand within `f`, and are then kept as they are.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu()).requires_grad();
/// let y = checkpoint(|| x.exp().sin().exp());
/// let gradient = grad(&y.sum(..), &[&x]).remove(0);
/// let kept = grad(&x.exp().sin().exp().sum(..), &[&x]).remove(0);
/// assert!(gradient.allclose(&kept, 1e-12, 0.0)?);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn checkpoint(f: impl FnOnce() -> Tensor) -> Tensor {
    let location = Location::caller();
    let start = history::latest();
    let result = mode::keeping_all(f);
    let live = result.history().filter(|history| history.is_live());
    let (Some(history), true) = (live, mode::keeps_history()) else {
        return result;
    };
    let Some((segment, outer)) = Segment::of(history, start) else {
        return result;
    };
    let operands: Vec<Of<'_>> = outer.iter().map(Of::Value).collect();
    let handle = &result.value().handle;
    let rule = Rule::Custom(Arc::new(segment));
    let history = history::of_rule((rule, false), handle, &operands, location, trace::current());
    result.with_history(history)
}

/// A part of a computation: the operations that give its result from what they read.
struct Segment(Vec<Step>);

impl Segment {
    /// What `last` was computed by after `start`, and the values that it read.
    fn of(last: &Arc<History>, start: u64) -> Option<(Segment, Vec<Value>)> {
        let mut numbers: FxHashMap<*const History, usize> = FxHashMap::default();
        let mut outer: Vec<Value> = Vec::new();
        let mut steps = Vec::new();
        for history in sweep::reachable([last], start + 1) {
            let Some(operation) = history.computed_by() else {
                match history.has_ended() {
                    true => return None,
                    false => continue,
                }
            };
            if !matches!(operation.rule, Rule::Operator) {
                continue;
            }
            // A program with a rule of its own is not computed again: its results are values that the segment reads.
            let is_known = |operand: &Operand| {
                let history = operand.live().map(Arc::as_ptr);
                history.is_some_and(|history| numbers.contains_key(&history))
            };
            if operation.kind.op().as_part().is_some() && !operation.operands.iter().any(is_known) {
                continue;
            }
            let step = step(&operation, &numbers, &mut outer)?;
            numbers.insert(Arc::as_ptr(&history), steps.len());
            steps.push(step);
        }
        // The last step is the result's.
        if numbers.get(&Arc::as_ptr(last)) != Some(&steps.len().checked_sub(1)?) {
            return None;
        }
        Some((Segment(steps), outer))
    }
}

fn step(
    operation: &Operation,
    numbers: &FxHashMap<*const History, usize>,
    outer: &mut Vec<Value>,
) -> Option<Step> {
    let mut operands = Vec::with_capacity(operation.operands.len());
    for operand in &operation.operands {
        operands.push(match operand {
            Operand::Number(number) => From::Number(number.clone()),
            Operand::Tensor { history, .. } => {
                let address = history.as_ref().map(Arc::as_ptr);
                match address.and_then(|address| numbers.get(&address)) {
                    Some(&number) => From::Step(number),
                    None => {
                        outer.push(operand.value()?);
                        From::Outer(outer.len() - 1)
                    }
                }
            }
        });
    }
    Some(Step {
        kind: operation.kind.clone(),
        location: operation.location,
        operands,
    })
}

impl Pullback for Segment {
    fn pull(
        &self,
        operands: &[Value],
        _: Option<&Value>,
        gradient: &Value,
    ) -> Result<Vec<Option<Value>>> {
        let (outer, last) = mode::with_history(true, || {
            let outer: Vec<Tensor> = operands.iter().map(again).collect();
            let mut values: Vec<Tensor> = Vec::with_capacity(self.0.len());
            for step in &self.0 {
                let value = step.record(|from| match from {
                    From::Step(number) => Input::Tensor(&values[*number]),
                    From::Outer(number) => Input::Tensor(&outer[*number]),
                    From::Number(number) => number.input(),
                });
                values.push(value);
            }
            (outer, values.pop())
        });
        // Gradients have histories where those of the rest have: they would keep all that was computed again.
        let last = last.ok_or_else(|| Error::internal("a checkpoint without operations"))?;
        let asked: Vec<&Tensor> = outer.iter().filter(|x| x.has_grad()).collect();
        let seed = Tensor::of_value(gradient.clone());
        let found = sweep::gradients(vec![(last, seed)], &asked, Location::caller())?;
        let mut found = found.into_iter();
        let mut next = |x: &Tensor| x.has_grad().then(|| found.next()).flatten();
        let gradients = outer.iter().map(|x| next(x).map(|g| g.value().clone()));
        Ok(gradients.collect())
    }

    fn steps(&self) -> Option<&[Step]> {
        Some(&self.0)
    }
}

impl Step {
    /// Records the operation on these operands.
    pub fn record<'v>(&self, input: impl FnMut(&From) -> Input<'v>) -> Tensor {
        let inputs: Vec<Input<'_>> = self.operands.iter().map(input).collect();
        let (op, name) = (self.kind.op().clone(), self.kind.name);
        let device = Some(&self.kind.device);
        record(device, op, name, &inputs, self.location)
    }
}

/// A value of outside, apart from the forward pass, so that what is computed again is not taken for what was computed.
fn again(value: &Value) -> Tensor {
    let tensor = Tensor::of_value(value.clone());
    let apart = tensor.detach().barrier();
    let of = [Of::Value(value)];
    let handle = &apart.value().handle;
    let rule = (Rule::Same, false);
    let history = history::of_rule(rule, handle, &of, Location::caller(), trace::current());
    apart.with_history(history)
}
