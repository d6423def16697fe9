//! Gradients of gradients: a call's operations are recorded again, with histories, and differentiated as often as asked.

use super::call::{Kept, several};
use super::constants::zeros;
use super::joint::{Joint, Target};
use super::steps::with_rule;
use crate::form::Kind;
use crate::grad::gradients_of;
use crate::history::{History, Operand, Operation, Rule, Several, Value};
use crate::{Tensor, mode, trace};
use ferrotrace_runtime::{Error, Result};
use std::panic::Location;
use std::sync::Arc;

/// What a gradient of a call is computed of.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Target(usize),
    /// The gradient of a result with one.
    Part(usize),
}

/// The gradients of a call, to be differentiated again.
pub(super) struct Again {
    joint: Arc<Joint>,
    kept: Arc<Kept>,
    /// The gradients of the results.
    gradients: Vec<Option<Tensor>>,
    origins: Vec<Origin>,
    /// The histories of the targets, and of the gradients of the results.
    operands: Vec<(Arc<Kind>, Arc<History>)>,
}

impl Again {
    /// What the gradients of a call depend on; `None` where that is no tensor that requires a gradient.
    pub fn of(
        joint: &Arc<Joint>,
        kept: &Arc<Kept>,
        gradients: &[Option<Value>],
        operation: &Operation,
    ) -> Option<Again> {
        let (mut origins, mut operands) = (Vec::new(), Vec::new());
        for (number, operand) in operation.operands.iter().enumerate() {
            if let (true, Some(history)) = (joint.again[number], operand.live()) {
                origins.push(Origin::Target(number));
                operands.push((joint.targets[number].0.clone(), history.clone()));
            }
        }
        for (number, gradient) in gradients.iter().enumerate() {
            let history = gradient
                .as_ref()
                .and_then(|value| value.history.as_deref().cloned());
            if let Some(history) = history.filter(|history| history.is_live()) {
                origins.push(Origin::Part(number));
                operands.push((joint.parts[number].clone(), history));
            }
        }
        let tensor = |value: &Option<Value>| value.clone().map(Tensor::of_value);
        (!origins.is_empty()).then(|| Again {
            joint: joint.clone(),
            kept: kept.clone(),
            gradients: gradients.iter().map(tensor).collect(),
            origins,
            operands,
        })
    }

    /// The history of the operation that gives all gradients.
    pub fn history(mut self, location: &'static Location<'static>) -> Option<Arc<History>> {
        let operands = std::mem::take(&mut self.operands);
        for gradient in self.gradients.iter_mut().flatten() {
            *gradient = gradient.detach();
        }
        let operand = |(kind, history)| Operand::Tensor {
            kind,
            value: None,
            history: Some(history),
        };
        several(Arc::new(self), operands.into_iter().map(operand), location)
    }

    /// A tensor whose gradient goes on to a history.
    fn apart(tensor: Tensor, history: Option<&Arc<History>>) -> Tensor {
        let Some(history) = history else {
            return tensor.with_history(Some(History::leaf(trace::current())));
        };
        let of = tensor.with_history(Some(history.clone()));
        with_rule(&tensor, &Rule::Same, &[of])
    }
}

impl Several for Again {
    fn pull(
        &self,
        (_, operation): (&Arc<History>, &Operation),
        gradients: Vec<Option<Value>>,
        _: &[bool],
        _: bool,
    ) -> Result<Vec<Option<Value>>> {
        let location = operation.location;
        let (first, asked) = mode::with_history(true, || {
            let joint = &self.joint;
            let mut targets: Vec<Tensor> = Vec::with_capacity(joint.targets.len());
            let mut asked: Vec<Option<Tensor>> = vec![None; self.origins.len()];
            let history = |origin: usize| operation.operands[origin].live();
            for (number, (kind, target)) in joint.targets.iter().enumerate() {
                let array = match target {
                    Target::Argument(number) => self.kept.arguments[*number].clone(),
                    Target::Captured { array, .. } => Some(array.clone()),
                };
                let of = |origin: &Origin| matches!(origin, Origin::Target(n) if *n == number);
                let origin = self.origins.iter().position(of);
                let data = array.map(Tensor::from_array);
                let data = data.unwrap_or_else(|| zeros(&kind.shape, kind.dtype, &kind.device));
                let target = Again::apart(data, origin.and_then(history));
                if let Some(origin) = origin {
                    asked[origin] = Some(target.clone());
                }
                targets.push(target);
            }
            let results = joint.steps.record(&joint.recorded, &self.kept, &targets)?;
            let mut values = Vec::with_capacity(results.len());
            for (number, (result, gradient)) in results.into_iter().zip(&self.gradients).enumerate()
            {
                let Some(gradient) = gradient else { continue };
                let of = |origin: &Origin| matches!(origin, Origin::Part(n) if *n == number);
                let origin = self.origins.iter().position(of);
                let gradient = match origin {
                    Some(origin) => {
                        let gradient = Again::apart(gradient.clone(), history(origin));
                        asked[origin] = Some(gradient.clone());
                        gradient
                    }
                    None => gradient.clone(),
                };
                values.push((result, gradient));
            }
            let first = gradients_of(values, &targets, location)?;
            let asked: Vec<Tensor> = asked.into_iter().flatten().collect();
            Ok::<_, Error>((first, asked))
        })?;
        let pairs = first.into_iter().zip(gradients);
        let pairs = pairs.filter_map(|(of, by)| Some((of, Tensor::of_value(by?))));
        let second = gradients_of(pairs.collect(), &asked, location)?;
        Ok(second.iter().map(|g| Some(g.value().clone())).collect())
    }

    fn results(&self) -> usize {
        self.joint.targets.len()
    }
}
