//! The backward pass of a traced function: a replay for the gradients that come to it and those that are asked for.

use super::absent;
use super::joint::Joint;
use crate::form::FormLeaf;
use crate::jit_fn::replay::{Place, Recorded, Replay, Source};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::Result;
use std::sync::Arc;

/// Backward passes that one trace keeps; beyond, all are forgotten.
const MOST: usize = 64;

/// What a backward pass reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input {
    /// The data of the argument of this number.
    Argument(usize),
    /// The gradient of the part of this number.
    Gradient(usize),
    /// The saved value of this number.
    Saved(usize),
}

/// A backward pass.
#[derive(Clone, Debug)]
pub(crate) struct Backward {
    /// How the gradient of each part lies in memory, if there is one.
    gradients: Vec<Option<FormLeaf>>,
    /// How each saved value lies in memory.
    saved: Vec<FormLeaf>,
    wanted: Vec<bool>,
    pub(super) replay: Arc<Replay>,
    pub(super) inputs: Arc<[Input]>,
    /// The targets whose gradients it gives.
    pub(super) targets: Arc<[usize]>,
}

impl Joint {
    /// The backward pass from these gradients of the parts and saved values to the wanted targets.
    ///
    /// # Errors
    /// Out of memory.
    pub(super) fn backward(
        &self,
        gradients: &[Option<Array>],
        saved: &[Array],
        wanted: &[bool],
    ) -> Result<Backward> {
        let of = |gradient: &Option<Array>| gradient.as_ref().map(FormLeaf::of);
        let gradients: Vec<Option<FormLeaf>> = gradients.iter().map(of).collect();
        let mut known = self.backward.lock();
        let same = |b: &&Backward| {
            let mut pairs = b.saved.iter().zip(saved);
            b.gradients == gradients && b.wanted == wanted && pairs.all(|(leaf, s)| leaf.is_of(s))
        };
        if let Some(found) = known.iter().find(same) {
            return Ok(found.clone());
        }
        let made = self.make(gradients, saved, wanted)?;
        if known.len() == MOST {
            known.clear();
        }
        known.push(made.clone());
        Ok(made)
    }

    fn make(
        &self,
        gradients: Vec<Option<FormLeaf>>,
        saved: &[Array],
        wanted: &[bool],
    ) -> Result<Backward> {
        let part = |number: usize| number.checked_sub(self.arguments);
        let absent = |number: usize| Some(gradients.get(part(number)?)?.is_none());
        let (mut recorded, places) = match gradients.iter().all(Option::is_some) {
            true => (self.recorded.clone(), self.gradients.clone()),
            false => absent::without(&self.recorded, &self.gradients, &absent)?,
        };
        for (leaf, source) in recorded.form.leaves.iter_mut().zip(&recorded.sources) {
            if let Source::Argument(number) = source
                && let Some(Some(gradient)) = part(*number).and_then(|n| gradients.get(n))
            {
                *leaf = gradient.clone();
            }
        }
        let (mut targets, mut outputs) = (Vec::new(), Vec::new());
        for (target, place) in places.into_iter().enumerate() {
            if let Some(place) = place.filter(|_| wanted[target]) {
                targets.push(target);
                outputs.push(place);
            }
        }
        let first = self.arguments + self.parts.len();
        let saved: Vec<FormLeaf> = saved.iter().map(FormLeaf::of).collect();
        let nodes = self.saved.iter().copied();
        let given: Vec<(u32, FormLeaf)> = nodes.zip(saved.iter().cloned()).collect();
        let (recorded, inputs) = self.compact(recorded.part(outputs, &given, first));
        Ok(Backward {
            gradients,
            saved,
            wanted: wanted.to_vec(),
            replay: Arc::new(Replay::of(recorded)),
            inputs: inputs.into(),
            targets: targets.into(),
        })
    }

    /// A trace whose arguments are those that it reads alone, and what they are.
    fn compact(&self, mut recorded: Recorded) -> (Recorded, Vec<Input>) {
        let mut used: Vec<usize> = Vec::new();
        let mut number = |old: &mut usize| {
            let place = used.iter().position(|n| n == old);
            *old = place.unwrap_or_else(|| {
                used.push(*old);
                used.len() - 1
            });
        };
        for source in &mut recorded.sources {
            if let Source::Argument(old) = source {
                number(old);
            }
        }
        for output in &mut recorded.outputs {
            if let Place::Argument(old) = output {
                number(old);
            }
        }
        let parts = self.parts.len();
        let input = |number: usize| match number.checked_sub(self.arguments) {
            None => Input::Argument(number),
            Some(number) if number < parts => Input::Gradient(number),
            Some(number) => Input::Saved(number - parts),
        };
        let inputs = used.into_iter().map(input).collect();
        (recorded, inputs)
    }
}
