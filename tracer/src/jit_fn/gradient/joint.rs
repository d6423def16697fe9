//! The trace of a function whose results have gradients by what is outside of it: forward and backward pass in one form.

use super::cut;
use super::part::{Nodes, nodes_of};
use super::steps::Steps;
use crate::Tensor;
use crate::form::Kind;
use crate::grad::{Inner, gradients_within};
use crate::history::{History, Value};
use crate::jit_fn::replay::{Place, Recorded, Replay, Source};
use crate::mode;
use crate::node::{Facts, Node};
use crate::trace::Recording;
use ferrotrace_kernels::Array;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use std::panic::Location;
use std::sync::Arc;

/// A tensor to which the gradient of a traced function goes.
#[derive(Debug)]
pub(super) enum Target {
    /// The tensor argument of this number.
    Argument(usize),
    /// A tensor that the function captured.
    Captured { history: Arc<History>, array: Array },
}

/// How gradients of a call's result are computed.
#[derive(Clone, Debug)]
enum Track {
    /// As it came: an argument or a captured tensor, with what it was computed from.
    Own,
    /// No history, or that of integers.
    Other(Option<Arc<History>>),
    /// One of the results that have gradients by what is outside.
    Part(usize),
}

/// Forward and backward pass of a traced function.
#[derive(Debug)]
pub(crate) struct Joint {
    pub(super) recorded: Recorded,
    tracks: Vec<Track>,
    /// What the results with gradients are.
    pub(super) parts: Vec<Arc<Kind>>,
    /// How many tensor arguments a call has; the gradients of the parts come after them.
    pub(super) arguments: usize,
    pub(super) targets: Vec<(Arc<Kind>, Target)>,
    /// The gradient of each target, from those of all parts.
    pub(super) gradients: Vec<Option<Place>>,
    /// The nodes whose values a forward pass saves.
    pub(super) saved: Vec<u32>,
    /// Which arguments' data the gradients are computed of.
    pub(super) held: Vec<bool>,
    /// Which targets the gradients themselves depend on.
    pub(super) again: Vec<bool>,
    pub(super) steps: Steps,
    pub(super) backward: Mutex<Vec<super::backward::Backward>>,
}

/// What each result is to gradients, and those that have some by what is outside.
fn tracks(inner: &Inner, results: &[Tensor], trace: u64) -> (Vec<Track>, Vec<Tensor>) {
    let own: FxHashSet<_> = inner.histories.iter().map(Arc::as_ptr).collect();
    let mut parts = Vec::new();
    let track = |result: &Tensor| match result.history() {
        Some(history) if own.contains(&Arc::as_ptr(history)) => {
            parts.push(result.clone());
            Track::Part(parts.len() - 1)
        }
        Some(history) if history.is_live() && history.trace != trace => Track::Own,
        Some(history) if !history.is_live() => Track::Other(Some(history.clone())),
        _ => Track::Other(None),
    };
    (results.iter().map(track).collect(), parts)
}

/// A tensor that stands for the gradient of a result: the argument of a trace of this number.
fn stand_in(of: &Tensor, trace: u64, number: usize) -> Option<Tensor> {
    let array = Array::empty(&of.device(), of.sizes().clone(), of.dtype()).ok()?;
    let mut facts = Facts::of_data(&array, Location::caller());
    facts.trace = trace;
    (facts.place, facts.is_argument) = (number as u32, true);
    facts.traced = true;
    Some(Tensor::of_fresh(Node::stored(facts, array)))
}

impl Joint {
    /// The forward pass of a function and what its gradient is, from what it recorded of its arguments; `None` where such
    /// a call cannot be replayed.
    pub fn trace(
        results: &[Tensor],
        arguments: &[Tensor],
        recording: &Recording,
    ) -> Option<(Replay, Joint)> {
        let trace = recording.id();
        let inner = Inner::of(results, trace)?;
        let (tracks, parts) = tracks(&inner, results, trace);
        let seed = |(i, part)| stand_in(part, trace, arguments.len() + i);
        let seeds: Option<Vec<Tensor>> = parts.iter().enumerate().map(seed).collect();
        let seeds = seeds?;
        let values = parts.iter().cloned().zip(seeds.iter().cloned()).collect();
        let outer: Vec<Tensor> = inner.outer.iter().cloned().map(Tensor::of_value).collect();
        let location = Location::caller();
        let pulled = recording.run(|| {
            mode::with_history(false, || {
                gradients_within(values, &inner.histories, &outer, location)
            })
        });
        let pulled = pulled.ok()?;
        let found = pulled.iter().flatten();
        let all: Vec<Tensor> = results.iter().chain(found).cloned().collect();
        let (mut recorded, numbers) = Recorded::new(&all, recording)?;
        let mut places = recorded.outputs.split_off(results.len()).into_iter();
        // What another thread recorded apart from the trace.
        let lost = |(place, track): (&Place, &Track)| {
            matches!((place, track), (Place::Node(_), Track::Own))
        };
        if recorded.outputs.iter().zip(&tracks).any(lost) {
            return None;
        }
        let gradients = pulled
            .iter()
            .map(|g| g.as_ref().and_then(|_| places.next()));
        let gradients: Vec<Option<Place>> = gradients.collect();
        let of_argument = |value: &Value| {
            let same = |tensor: &Tensor| match (tensor.history(), value.history.as_deref()) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                _ => false,
            };
            arguments.iter().position(same)
        };
        let mut targets = Vec::with_capacity(inner.outer.len());
        for value in &inner.outer {
            let node = value.handle.node();
            let target = match (of_argument(value), &value.history) {
                (Some(number), _) => Target::Argument(number),
                (None, Some(history)) if !node.facts.is_argument && !node.facts.traced => {
                    let (history, array) = (Arc::clone(history), node.array()?);
                    Target::Captured { history, array }
                }
                _ => return None,
            };
            targets.push((node.facts.kind.clone(), target));
        }
        let steps = Steps::of(&inner.histories, &parts, &inner.outer, &numbers)?;
        let (held, again) = depends(&recorded, &gradients, &targets, arguments.len());
        let saved = saved(&recorded, &gradients);
        let wanted = recorded.outputs.iter().cloned();
        let wanted = wanted
            .chain(saved.iter().map(|&n| Place::Node(n)))
            .collect();
        let forward = Replay::of(recorded.part(wanted, &[], 0));
        let joint = Joint {
            tracks,
            parts: parts.iter().map(|p| p.node().facts.kind.clone()).collect(),
            arguments: arguments.len(),
            targets,
            gradients,
            saved,
            held,
            again,
            steps,
            backward: Mutex::default(),
            recorded,
        };
        Some((forward, joint))
    }

    /// How many results a call has.
    pub fn results(&self) -> usize {
        self.tracks.len()
    }

    /// The results with what they are to gradients: `part` gives the history of one that has gradients.
    pub fn tracked(
        &self,
        results: impl Iterator<Item = Tensor>,
        part: impl Fn(usize) -> Option<Arc<History>>,
    ) -> Vec<Tensor> {
        let track = |(result, track): (Tensor, &Track)| match track {
            Track::Own => result,
            Track::Other(history) => result.with_history(history.clone()),
            Track::Part(number) if result.node().error().is_none() => {
                result.with_history(part(*number))
            }
            Track::Part(_) => result.with_history(None),
        };
        results.zip(&self.tracks).map(track).collect()
    }
}

/// Which arguments' data the gradients are computed of, and which targets.
fn depends(
    recorded: &Recorded,
    gradients: &[Option<Place>],
    targets: &[(Arc<Kind>, Target)],
    arguments: usize,
) -> (Vec<bool>, Vec<bool>) {
    let nodes = Nodes::of(&recorded.form);
    let nothing = vec![false; nodes.len()];
    let needed = nodes.needed(nodes_of(gradients.iter().flatten()), &nothing);
    let read = nodes.leaves(&needed);
    let mut held = vec![false; arguments];
    let mut constants = Vec::new();
    for (source, _) in recorded.sources.iter().zip(read).filter(|(_, read)| *read) {
        match source {
            Source::Argument(number) if *number < arguments => held[*number] = true,
            Source::Argument(_) => {}
            Source::Constant(array) => constants.push(array),
        }
    }
    let depends = |(_, target): &(Arc<Kind>, Target)| match target {
        Target::Argument(number) => held[*number],
        Target::Captured { array, .. } => constants.iter().any(|c| c.buffer.same(&array.buffer)),
    };
    let again = targets.iter().map(depends).collect();
    (held, again)
}

/// The nodes of the forward pass that the backward pass is given.
fn saved(recorded: &Recorded, gradients: &[Option<Place>]) -> Vec<u32> {
    let nodes = Nodes::of(&recorded.form);
    let nothing = vec![false; nodes.len()];
    let forward = nodes.needed(nodes_of(&recorded.outputs), &nothing);
    let wanted: Vec<usize> = nodes_of(gradients.iter().flatten()).collect();
    let backward = nodes.needed(wanted.iter().copied(), &forward);
    let readers = (0..nodes.len()).filter(|&n| backward[n]);
    let read = readers.flat_map(|n| nodes.operand_nodes(n)).chain(wanted);
    let mut read: Vec<usize> = read.filter(|&n| forward[n]).collect();
    read.sort_unstable();
    read.dedup();
    cut::saved(&recorded.form, &read)
}
