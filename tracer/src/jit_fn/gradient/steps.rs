//! The operations of a traced function through which gradients go, to be recorded again with histories.

use super::call::Kept;
use super::constants::{Constants, drawn_as, recorded_as};
use crate::form::Edge;
use crate::history::{self, From, History, Of, Operand, Operation, Pullback, Rule, Step, Value};
use crate::jit_fn::replay::{Draws, Numbers, Recorded};
use crate::node::handle::Handle;
use crate::node::{NodeArc, NodeInput};
use crate::{Input, Tensor, trace};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Error, Result, Scalar};
use rustc_hash::FxHashMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Where an operand of an operation comes from.
#[derive(Clone, Debug)]
pub(super) enum Given {
    /// An earlier operation.
    Step(usize),
    /// What a gradient goes to.
    Target(usize),
    /// A value of the forward pass that is a constant to gradients.
    Value(Edge),
    /// A constant of the function.
    Constant(Array),
    Number(NodeInput),
}

/// What an operation does.
pub(super) enum Does {
    Operation(Step),
    /// It passes gradients on to its operand, by a rule that is no operator's.
    Rule(Rule, Given),
}

/// The operations of a function through which gradients go.
pub(super) struct Steps {
    pub steps: Vec<(Does, Vec<Given>)>,
    /// Which of them give the results with gradients.
    parts: Vec<usize>,
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps")
            .field("len", &self.steps.len())
            .finish_non_exhaustive()
    }
}

/// What operands of a trace are.
struct Finder<'a> {
    steps: FxHashMap<*const History, usize>,
    targets: FxHashMap<*const History, usize>,
    numbers: &'a Numbers,
}

impl Finder<'_> {
    fn operand(&self, operand: &Operand) -> Option<Given> {
        let Operand::Tensor { history, .. } = operand else {
            return match operand {
                Operand::Number(number) => Some(Given::Number(number.clone())),
                Operand::Tensor { .. } => None,
            };
        };
        let address = history.as_ref().map(Arc::as_ptr);
        if let Some(step) = address.and_then(|address| self.steps.get(&address)) {
            return Some(Given::Step(*step));
        }
        if let Some(target) = address.and_then(|address| self.targets.get(&address)) {
            return Some(Given::Target(*target));
        }
        self.value(&operand.value()?.handle)
    }

    fn value(&self, handle: &Handle) -> Option<Given> {
        let node = handle.node();
        match self.numbers.get(&NodeArc::as_ptr(node)) {
            Some(edge) => Some(Given::Value(*edge)),
            None if node.facts.traced => None,
            None => node.array().map(Given::Constant),
        }
    }
}

impl Steps {
    /// The operations of these histories, which stand in ascending order and lead to `outer` values; `None` where one
    /// cannot be recorded again.
    pub fn of(
        histories: &[Arc<History>],
        parts: &[Tensor],
        outer: &[Value],
        numbers: &Numbers,
    ) -> Option<Steps> {
        let targets = outer.iter().enumerate();
        let target =
            |(n, value): (usize, &Value)| Some((Arc::as_ptr(value.history.as_deref()?), n));
        let mut finder = Finder {
            steps: FxHashMap::default(),
            targets: targets.filter_map(target).collect(),
            numbers,
        };
        let mut steps = Vec::new();
        for history in histories {
            let operation = history.computed_by()?;
            let operands = operation.operands.iter().map(|o| finder.operand(o));
            let operands: Vec<Given> = operands.collect::<Option<_>>()?;
            push(&mut steps, &operation, operands, &finder)?;
            finder.steps.insert(Arc::as_ptr(history), steps.len() - 1);
        }
        let part = |part: &Tensor| Some(*finder.steps.get(&Arc::as_ptr(part.history()?))?);
        let parts = parts.iter().map(part).collect::<Option<_>>()?;
        Some(Steps { steps, parts })
    }

    /// Records the operations again on these targets: the results with gradients.
    pub fn record(
        &self,
        recorded: &Recorded,
        kept: &Kept,
        targets: &[Tensor],
    ) -> Result<Vec<Tensor>> {
        let constants = Constants::of(recorded, kept, self)?;
        let mut values: Vec<Tensor> = Vec::with_capacity(self.steps.len());
        for (does, operands) in &self.steps {
            let tensor = |given: &Given| match given {
                Given::Step(number) => Ok(values[*number].clone()),
                Given::Target(number) => Ok(targets[*number].clone()),
                Given::Value(edge) => constants.tensor(*edge),
                Given::Constant(array) => Ok(Tensor::from_array(array.clone())),
                Given::Number(_) => Err(Error::internal("a number for a tensor")),
            };
            let value = match does {
                Does::Operation(step) => {
                    let tensors = operands.iter().map(|given| match given {
                        Given::Number(_) => Ok(None),
                        given => tensor(given).map(Some),
                    });
                    let tensors: Vec<Option<Tensor>> = tensors.collect::<Result<_>>()?;
                    let input = |(given, tensor)| input(given, tensor, &kept.drawn);
                    let inputs: Vec<Input<'_>> = operands.iter().zip(&tensors).map(input).collect();
                    recorded_as(&step.kind, &inputs, step.location)
                }
                Does::Rule(rule, value) => {
                    let value = tensor(value)?.detach();
                    let operands: Result<Vec<Tensor>> = operands.iter().map(tensor).collect();
                    with_rule(&value, rule, &operands?)
                }
            };
            values.push(value);
        }
        Ok(self.parts.iter().map(|&n| values[n].clone()).collect())
    }
}

/// Adds the operations that an operation comes to: those of a checkpoint one by one.
fn push(
    steps: &mut Vec<(Does, Vec<Given>)>,
    operation: &Operation,
    operands: Vec<Given>,
    finder: &Finder<'_>,
) -> Option<()> {
    let rule = match &operation.rule {
        Rule::Operator => {
            let step = Step {
                kind: operation.kind.clone(),
                location: operation.location,
                operands: Vec::new(),
            };
            steps.push((Does::Operation(step), operands));
            return Some(());
        }
        Rule::Custom(rule) if rule.steps().is_some() => {
            push_all(steps, rule.as_ref(), &operands);
            return Some(());
        }
        rule @ (Rule::Same | Rule::Custom(_)) => rule.clone(),
        Rule::Part(_) | Rule::Several(_) => return None,
    };
    let value = finder.value(operation.result.as_ref()?.handle())?;
    steps.push((Does::Rule(rule, value), operands));
    Some(())
}

fn push_all(steps: &mut Vec<(Does, Vec<Given>)>, rule: &dyn Pullback, operands: &[Given]) {
    let first = steps.len();
    for step in rule.steps().unwrap_or_default() {
        let given = |from: &From| match from {
            From::Step(number) => Given::Step(first + number),
            From::Outer(number) => operands[*number].clone(),
            From::Number(number) => Given::Number(number.clone()),
        };
        let operands = step.operands.iter().map(given).collect();
        let step = Step {
            kind: step.kind.clone(),
            location: step.location,
            operands: Vec::new(),
        };
        steps.push((Does::Operation(step), operands));
    }
}

/// The operand of an operation: numbers that were drawn are those of the call.
fn input<'v>(given: &Given, tensor: &'v Option<Tensor>, drawn: &Draws) -> Input<'v> {
    match (given, tensor) {
        (_, Some(tensor)) => Input::Tensor(tensor),
        (Given::Number(NodeInput::Draw(draw)), None) => match drawn.get(draw.index as usize) {
            Some(position) => drawn_as(*position, draw.offset),
            None => Input::Draw(*draw),
        },
        (Given::Number(number), None) => number.input(),
        (_, None) => Input::Scalar(Scalar::Int(0)),
    }
}

/// A value whose gradient goes on to these operands.
pub(super) fn with_rule(value: &Tensor, rule: &Rule, operands: &[Tensor]) -> Tensor {
    let of: Vec<Of<'_>> = operands.iter().map(|x| Of::Value(x.value())).collect();
    let (handle, reads) = (&value.value().handle, matches!(rule, Rule::Custom(_)));
    let location = Location::caller();
    let rule = (rule.clone(), reads);
    let history = history::of_rule(rule, handle, &of, location, trace::current());
    value.with_history(history)
}
