//! A call of a traced function, as its gradient sees it.

use super::again::Again;
use super::backward::Input;
use super::joint::{Joint, Target};
use crate::flush::{flush_tensors, stored_array};
use crate::history::{History, Operand, Operation, Rule, Several, Value, of_part};
use crate::jit_fn::replay::{Arrays, Draws, Tensors};
use crate::mode::{self, Mode};
use crate::node::{NodeInput, State};
use crate::record::record;
use crate::{Input as Number, Tensor, trace};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Error, Result};
use parking_lot::Mutex;
use std::panic::Location;
use std::sync::Arc;

/// What a call keeps for its gradient.
#[derive(Debug)]
pub(super) struct Kept {
    /// The arguments' data, of which gradients are computed.
    pub arguments: Vec<Option<Array>>,
    pub saved: Vec<Array>,
    pub drawn: Draws,
    mode: Mode,
}

/// A call that has not run its forward pass yet.
pub(crate) struct Call {
    joint: Arc<Joint>,
    arguments: Vec<Option<Array>>,
    /// What the gradients of the arguments go to.
    histories: Vec<Option<Arc<History>>>,
}

/// A call, for the gradients of its results.
struct Called {
    joint: Arc<Joint>,
    kept: Mutex<Option<Arc<Kept>>>,
}

impl Call {
    /// A call on arguments with this data and these histories.
    pub fn new(
        joint: &Arc<Joint>,
        arrays: &Arrays,
        history: impl Fn(usize) -> Option<Arc<History>>,
    ) -> Call {
        let held = arrays.iter().zip(&joint.held);
        let arguments = held.map(|(array, held)| held.then(|| array.clone()));
        let history = |(_, target): &(_, Target)| match target {
            Target::Argument(number) => history(*number),
            Target::Captured { history, .. } => Some(history.clone()),
        };
        Call {
            arguments: arguments.collect(),
            histories: joint.targets.iter().map(history).collect(),
            joint: joint.clone(),
        }
    }

    /// The results with their histories, from what the forward pass gave: results, and then what it saved.
    #[track_caller]
    pub fn results(self, given: Tensors, drawn: &Draws, mode: Mode) -> Vec<Tensor> {
        let location = Location::caller();
        let Call {
            joint,
            arguments,
            histories,
        } = self;
        let mut given = given.into_iter();
        let results: Vec<Tensor> = given.by_ref().take(joint.results()).collect();
        let saved = given.map(|value| value.node().array());
        let several = saved.collect::<Option<Vec<Array>>>().map(|saved| {
            let kept = Kept {
                arguments,
                saved,
                drawn: drawn.clone(),
                mode,
            };
            let rule = Called {
                joint: joint.clone(),
                kept: Mutex::new(Some(Arc::new(kept))),
            };
            let operand = |((kind, _), history): (&(_, Target), Option<Arc<History>>)| {
                let kind = Arc::clone(kind);
                Operand::Tensor {
                    kind,
                    value: None,
                    history,
                }
            };
            let operands = joint.targets.iter().zip(histories).map(operand);
            several(Arc::new(rule), operands, location)
        });
        let part = |number: usize| {
            let kind = joint.parts[number].clone();
            Some(of_part(
                several.clone()??,
                kind,
                number,
                location,
                trace::current(),
            ))
        };
        joint.tracked(results.into_iter(), part)
    }
}

/// The history of an operation of several results on these operands; none where there are none.
pub(super) fn several(
    rule: Arc<dyn Several>,
    operands: impl Iterator<Item = Operand>,
    location: &'static Location<'static>,
) -> Option<Arc<History>> {
    let operands: smallvec::SmallVec<[Operand; 2]> = operands.collect();
    let kind = match operands.first()? {
        Operand::Tensor { kind, .. } => kind.clone(),
        Operand::Number(_) => return None,
    };
    let operation = Operation {
        rule: Rule::Several(rule),
        kind,
        location,
        operands,
        result: None,
    };
    Some(History::operation(operation, trace::current()))
}

impl Several for Called {
    fn pull(
        &self,
        (_, operation): (&Arc<History>, &Operation),
        gradients: Vec<Option<Value>>,
        wanted: &[bool],
        last: bool,
    ) -> Result<Vec<Option<Value>>> {
        let kept = match last && !mode::keeps_history() {
            true => self.kept.lock().take(),
            false => self.kept.lock().clone(),
        };
        let kept = kept.ok_or_else(|| Error::internal("a call's values are gone"))?;
        let again = match mode::keeps_history() {
            true => Again::of(&self.joint, &kept, &gradients, operation),
            false => None,
        };
        let arrays = data(gradients)?;
        let backward = self.joint.backward(&arrays, &kept.saved, wanted)?;
        let (mode, drawn) = (kept.mode, kept.drawn.clone());
        let own = Arc::try_unwrap(kept);
        let of = |input: &Input, own: &std::result::Result<Kept, Arc<Kept>>| {
            let kept = match own {
                Ok(kept) => kept,
                Err(kept) => kept,
            };
            match *input {
                Input::Argument(number) => kept.arguments[number].clone(),
                Input::Gradient(number) => arrays[number].clone(),
                Input::Saved(number) => Some(kept.saved[number].clone()),
            }
        };
        let inputs: Option<Arrays> = backward.inputs.iter().map(|i| of(i, &own)).collect();
        let mut inputs = inputs.ok_or_else(|| Error::internal("a value was not kept"))?;
        // Nothing but `inputs` holds what is not needed again.
        drop((own, arrays));
        let passed = backward.replay.passed_through();
        let passed = passed.map(|number| Tensor::from_array(inputs[number].clone()));
        let passed: Tensors = passed.collect();
        let given = vec![true; inputs.len()];
        let replay = &backward.replay;
        let found = replay.run(&mut inputs, &given, passed, &drawn, mode);
        let mut results: Vec<Option<Value>> = vec![None; operation.operands.len()];
        let again = again.and_then(|again| again.history(operation.location));
        for (&target, found) in backward.targets.iter().zip(found) {
            found.check()?;
            let found = match &again {
                Some(again) => {
                    let kind = self.joint.targets[target].0.clone();
                    let part = of_part(
                        again.clone(),
                        kind,
                        target,
                        operation.location,
                        trace::current(),
                    );
                    found.with_history(Some(part))
                }
                None => found.detach(),
            };
            results[target] = Some(found.value().clone());
        }
        Ok(results)
    }

    fn results(&self) -> usize {
        self.joint.parts.len()
    }
}

/// The data of gradients, which are computed here.
fn data(gradients: Vec<Option<Value>>) -> Result<Vec<Option<Array>>> {
    let tensor = |value: Option<Value>| value.map(|value| ready(Tensor::of_value(value)));
    let tensors: Vec<Option<Tensor>> = gradients.into_iter().map(tensor).collect();
    flush_tensors(tensors.iter().flatten());
    let array = |tensor: &Option<Tensor>| {
        let array = tensor.as_ref().map(|tensor| stored_array(tensor.node()));
        array.transpose()
    };
    tensors.iter().map(array).collect()
}

/// A pending tensor of one number is computed by a ready-made kernel: it needs no plan of its own.
fn ready(tensor: Tensor) -> Tensor {
    let node = tensor.node();
    let number = match &*node.state() {
        State::Recorded(inputs) => match inputs[..] {
            [NodeInput::Scalar(number)] => Some(number),
            _ => None,
        },
        _ => None,
    };
    let Some(number) = number else {
        return tensor;
    };
    let (kind, location) = (node.facts.kind.clone(), node.facts.location);
    let run = || {
        let (op, number) = (kind.op().clone(), Number::Scalar(number));
        record(Some(&kind.device), op, kind.name, &[number], location)
    };
    mode::with_mode(Mode::Eager, run)
}
