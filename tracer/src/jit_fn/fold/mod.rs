//! Values that a `jit` function computes of its constants alone: computed once, and kept (codegen B3.8, B3.9: values of
//! constants are computed once, as memory allows).
//!
//! Tensors are values: a constant never changes, and neither does what is computed of it, so nothing that is kept is ever
//! out of date. What is kept takes memory between calls; how much of it may be is said by [`Bound`].

mod choose;
mod copies;
mod memory;

use super::replay::{Replay, Slot, Source};
use crate::backend::{Draft, Folded, PlanInput};
use crate::form::{Edge, Form, FormLeaf, FormNode, Line, told};
use crate::{plans, tuning};
use choose::{Candidate, Trace};
use copies::{Held, Packing};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{BufferId, Channel, Config, Error, Result, Scalar, log};
use parking_lot::Mutex;
use std::sync::Arc;

/// How much memory kept values may take. In both cases no value is kept that is larger than the constants that it is
/// computed of, and all of a function together are no larger than the constants that a trace's are computed of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// As much as lets a call need no more memory, with all that is kept, than in eager mode, which holds these values
    /// for a part of the call only.
    Eager,
    /// As much as the constants.
    Constants,
}

/// A kept value, with what it was computed of: so that traces for other sizes share it.
#[derive(Debug)]
struct Kept {
    form: Form,
    scalars: Vec<Scalar>,
    leaves: Vec<(BufferId, usize)>,
    value: Array,
}

/// What a function keeps, for all of its traces.
#[derive(Debug, Default)]
pub(super) struct Folds {
    kept: Mutex<Vec<Kept>>,
    packing: Packing,
}

/// What one value is computed of.
struct Cone {
    form: Form,
    scalars: Vec<Scalar>,
    leaves: Vec<Array>,
    lines: Vec<Line>,
}

impl Cone {
    fn of(trace: &Trace<'_>, candidate: &Candidate, lines: &[Line]) -> Cone {
        let part = part(trace.form, trace, &candidate.cone, &candidate.leaves, &[]);
        let numbers = candidate.cone.iter().flat_map(|&n| trace.numbers_of(n));
        let leaves = candidate.leaves.iter();
        Cone {
            form: Form {
                outputs: vec![candidate.cone.len() as u32 - 1],
                ..part
            },
            scalars: numbers.filter_map(|n| trace.numbers[n]).collect(),
            leaves: leaves
                .filter_map(|&n| trace.constants[n].cloned())
                .collect(),
            lines: candidate.cone.iter().map(|&n| lines[n]).collect(),
        }
    }

    fn is_of(&self, kept: &Kept) -> bool {
        let bits = |s: &Scalar| (s.category(), s.to_i64(), s.to_f64().to_bits());
        self.form == kept.form
            && self.leaves.len() == kept.leaves.len()
            && self
                .leaves
                .iter()
                .zip(&kept.leaves)
                .all(|(array, (id, offset))| {
                    id.is_of(&array.buffer) && array.layout.offset() == *offset
                })
            && self
                .scalars
                .iter()
                .map(bits)
                .eq(kept.scalars.iter().map(bits))
    }

    /// Computes the value: on the CPU on ready-made kernels, since it happens once and compiling takes longer.
    fn compute(&self) -> Result<Array> {
        let graph = || self.form.graph(&self.scalars, &self.lines);
        let leaves = self.leaves.clone();
        let mut values = if self.form.device.is_cpu() {
            let leaves = leaves.into_iter().map(Ok).collect();
            let values = self.form.run_each(leaves, &self.scalars, &self.lines);
            values.into_iter().collect::<Result<Vec<_>>>()?
        } else {
            let entry = plans::entry(self.form.hash(), |f| *f == self.form, || self.form.clone());
            let plan = entry.make_plan(None, graph)?;
            let input = |array| PlanInput {
                array,
                donated: false,
            };
            let mut inputs: Vec<_> = leaves.into_iter().map(input).collect();
            let leaves = inputs.len();
            let run = plan.run(&mut inputs, &self.scalars);
            run.map_err(|error| told(error, leaves, &self.lines))?
        };
        let missing = || Error::internal("a folded value was not computed");
        values.pop().ok_or_else(missing)
    }
}

/// The form of some of a trace's nodes, which read some of its leaves and then the values of `kept`; without outputs.
fn part(
    form: &Form,
    trace: &Trace<'_>,
    nodes: &[usize],
    leaves: &[usize],
    kept: &[(usize, FormLeaf)],
) -> Form {
    let mut node_number = vec![0; trace.len()];
    let mut leaf_number = vec![0; form.leaves.len()];
    let mut kept_number = vec![None; trace.len()];
    for (new, &old) in leaves.iter().enumerate() {
        leaf_number[old] = new as u32;
    }
    for (new, (old, _)) in kept.iter().enumerate() {
        kept_number[*old] = Some((leaves.len() + new) as u32);
    }
    let (mut made, mut edges) = (Vec::with_capacity(nodes.len()), Vec::new());
    for (new, &old) in nodes.iter().enumerate() {
        node_number[old] = new as u32;
        edges.extend(trace.operands(old).iter().map(|edge| match *edge {
            Edge::Node(n) => match kept_number[n as usize] {
                Some(leaf) => Edge::Leaf(leaf),
                None => Edge::Node(node_number[n as usize]),
            },
            Edge::Leaf(n) => Edge::Leaf(leaf_number[n as usize]),
            slot => slot,
        }));
        made.push(FormNode {
            kind: form.nodes[old].kind.clone(),
            edges_end: edges.len() as u32,
        });
    }
    let of_leaves = leaves.iter().map(|&n| form.leaves[n].clone());
    let of_kept = kept.iter().map(|(_, leaf)| leaf.clone());
    Form {
        nodes: made,
        edges,
        leaves: of_leaves.chain(of_kept).collect(),
        outputs: Vec::new(),
        device: form.device.clone(),
    }
}

impl Folds {
    /// The trace without the operations whose values are kept from now on. `numbers` says whether the call has numbers
    /// among its arguments: what is computed with a number may then differ from call to call. Kernels may copy what constants are
    /// left to the order that they read, as far as memory allows.
    pub fn fold(&self, replay: Replay, bound: Bound, numbers: bool) -> Replay {
        let number = |slot: &Slot| match slot {
            Slot::Fixed(scalar) if !numbers => Some(*scalar),
            _ => None,
        };
        let example = |slot: &Slot| match slot {
            Slot::Fixed(scalar) => *scalar,
            Slot::Draw { .. } => Scalar::Int(0),
        };
        let plan = replay.plan.clone();
        let sources = replay.sources.clone();
        let trace = Trace::new(
            &plan.form,
            sources.iter().map(Source::constant).collect(),
            replay.slots.iter().map(number).collect(),
            replay.slots.iter().map(example).collect(),
        );
        let held = Held::by(&trace);
        let candidates = trace.candidates();
        if candidates.is_empty() {
            return self.let_copy(replay, &held, bound);
        }
        let lines = replay.lines.clone();
        let cones = candidates.iter().map(|c| Cone::of(&trace, c, &lines));
        let cones: Vec<Cone> = cones.collect();
        let chosen = self.choose(&trace, &candidates, &cones, &lines, bound);
        let mut kept = Vec::new();
        let mut folded = Vec::new();
        for ((candidate, cone), chosen) in candidates.iter().zip(&cones).zip(chosen) {
            // A value that cannot be computed is left to the calls, which say why.
            let value = chosen.then(|| self.value(cone)).and_then(Result::ok);
            let kind = &plan.form.nodes[candidate.node].kind;
            folded.push(Folded {
                op: trace.name(candidate.node),
                location: lines[candidate.node].location,
                shape: kind.shape.clone(),
                dtype: kind.dtype,
                bytes: candidate.bytes,
                kept: value.is_some(),
            });
            kept.extend(value.map(|value| (candidate.node, value)));
        }
        report(&folded);
        let rest = replay.without(&trace, &kept, folded.into());
        self.let_copy(rest, &held, bound)
    }

    /// Which values to keep: those that are kept already, and others as far as memory goes, small ones first.
    fn choose(
        &self,
        trace: &Trace<'_>,
        candidates: &[Candidate],
        cones: &[Cone],
        lines: &[Line],
        bound: Bound,
    ) -> Vec<bool> {
        /// How often the memory of a call is estimated: it takes a walk over the trace.
        const TRIES: usize = 32;
        let kept = self.kept.lock();
        let known = |cone: &Cone| kept.iter().any(|kept| cone.is_of(kept));
        let mut chosen: Vec<bool> = cones.iter().map(known).collect();
        let mut total: usize = kept.iter().map(|kept| kept.value.buffer.bytes()).sum();
        drop(kept);
        let mut leaves: Vec<usize> = candidates.iter().flat_map(|c| c.leaves.clone()).collect();
        leaves.sort_unstable();
        leaves.dedup();
        let most = trace.constant_bytes(&leaves);
        let eager = memory::peak(trace, &vec![true; trace.len()], false);
        let fits = |chosen: &[bool], total: usize| {
            if total > most {
                return false;
            }
            let mut kept = vec![false; trace.len()];
            let numbers = candidates.iter().zip(chosen).filter(|(_, chosen)| **chosen);
            numbers.for_each(|(candidate, _)| kept[candidate.node] = true);
            bound == Bound::Constants
                || total + memory::peak(trace, &trace.needed(&kept), true) <= eager
        };
        let new: Vec<usize> = (0..chosen.len()).filter(|&i| !chosen[i]).collect();
        let bytes = |i: &usize| candidates[*i].bytes;
        let (all, every) = (
            vec![true; chosen.len()],
            total + new.iter().map(bytes).sum::<usize>(),
        );
        // The estimate knows nothing of fusion: before anything is left out the plan itself is asked.
        let planned = || {
            let leaf = |c: &Candidate| (c.node, trace.form.dense_leaf(c.node));
            let rest = Rest::of(trace, &candidates.iter().map(leaf).collect::<Vec<_>>());
            let peak = rest.peak(trace, lines);
            peak.is_some_and(|peak| every + peak <= eager)
        };
        if fits(&all, every) || every <= most && planned() {
            return all;
        }
        let mut by_size = new;
        by_size.sort_by_key(bytes);
        for i in by_size.into_iter().take(TRIES) {
            chosen[i] = true;
            if fits(&chosen, total + candidates[i].bytes) {
                total += candidates[i].bytes;
            } else {
                chosen[i] = false;
            }
        }
        chosen
    }

    /// A value, computed if it is not kept yet.
    fn value(&self, cone: &Cone) -> Result<Array> {
        let known = |all: &[Kept]| {
            let found = all.iter().find(|kept| cone.is_of(kept));
            found.map(|kept| kept.value.clone())
        };
        if let Some(value) = known(&self.kept.lock()) {
            return Ok(value);
        }
        let value = cone.compute()?;
        let mut all = self.kept.lock();
        // Another thread may have kept this value meanwhile.
        if let Some(value) = known(&all) {
            return Ok(value);
        }
        let leaves = cone.leaves.iter();
        all.push(Kept {
            form: cone.form.clone(),
            scalars: cone.scalars.clone(),
            leaves: leaves.map(|a| (a.buffer.id(), a.layout.offset())).collect(),
            value: value.clone(),
        });
        Ok(value)
    }
}

/// Says what is computed again at each call for want of memory.
fn report(folded: &[Folded]) {
    let left = || folded.iter().filter(|value| !value.kept);
    let bytes: usize = left().map(|value| value.bytes).sum();
    if bytes > 0 {
        log(Channel::Hints, || {
            let count = left().count();
            format!(
                "{count} values of {bytes} bytes are computed of captured tensors alone, at each call: `freeze` keeps them"
            )
        });
    }
}

/// What is left of a trace whose kept values are there.
struct Rest {
    form: Form,
    nodes: Vec<usize>,
    /// The leaves of the trace that stay; the kept values come after them.
    leaves: Vec<usize>,
}

impl Rest {
    fn of(trace: &Trace<'_>, kept: &[(usize, FormLeaf)]) -> Rest {
        let mut is_kept = vec![false; trace.len()];
        kept.iter().for_each(|(node, _)| is_kept[*node] = true);
        let needed = trace.needed(&is_kept);
        let nodes: Vec<usize> = (0..trace.len()).filter(|&n| needed[n]).collect();
        let mut used = vec![false; trace.form.leaves.len()];
        for edge in nodes.iter().flat_map(|&n| trace.operands(n)) {
            if let Edge::Leaf(n) = *edge {
                used[n as usize] = true;
            }
        }
        let leaves: Vec<usize> = (0..used.len()).filter(|&n| used[n]).collect();
        let place = |&output: &u32| nodes.partition_point(|&n| n < output as usize) as u32;
        let form = Form {
            outputs: trace.form.outputs.iter().map(place).collect(),
            ..part(trace.form, trace, &nodes, &leaves, kept)
        };
        Rest {
            form,
            nodes,
            leaves,
        }
    }

    /// The most bytes that its plan holds at once. Numbers are examples: plans do not depend on them.
    fn peak(&self, trace: &Trace<'_>, lines: &[Line]) -> Option<usize> {
        let numbers = self.nodes.iter().flat_map(|&n| trace.numbers_of(n));
        let numbers: Vec<Scalar> = numbers.map(|n| trace.examples[n]).collect();
        let lines: Vec<_> = self.nodes.iter().map(|&n| lines[n]).collect();
        let graph = self.form.graph(&numbers, &lines).ok()?;
        let policy = tuning::policy(&graph);
        let peak = Draft::of(graph, &policy).ok()?.peak(&|_| false);
        usize::try_from(peak).ok()
    }
}

impl Replay {
    /// The trace that reads the values of `kept` nodes instead of computing them.
    fn without(
        mut self,
        trace: &Trace<'_>,
        kept: &[(usize, Array)],
        folded: Arc<[Folded]>,
    ) -> Replay {
        if Config::get().check {
            self.unfolded = Some(Arc::new(self.clone()));
        }
        self.folded = Some(folded);
        if kept.is_empty() {
            return self;
        }
        let of_kept = kept
            .iter()
            .map(|(node, array)| (*node, FormLeaf::of(array)));
        let Rest {
            form,
            nodes,
            leaves,
        } = Rest::of(trace, &of_kept.collect::<Vec<_>>());
        let of_leaves = leaves.iter().map(|&n| self.sources[n].clone());
        let of_kept = kept
            .iter()
            .map(|(_, value)| Source::Constant(value.clone()));
        self.sources = of_leaves.chain(of_kept).collect();
        let slots = nodes.iter().flat_map(|&n| trace.numbers_of(n));
        self.slots = slots.map(|n| self.slots[n]).collect();
        self.lines = nodes.iter().map(|&n| self.lines[n]).collect();
        self.plan = plans::entry(form.hash(), |other| *other == form, || form.clone());
        self
    }
}
