//! Which fusions are given up where a plan holds too much (scheduler B-19).
//!
//! Where more is held than allowed, the graph is cut in the order of recording: behind an operation of the step that runs
//! there. One by one, the operations would hold at that place what crosses the cut alone. What the plan holds beyond that
//! it holds because a kernel on both sides of the cut reads it late or makes it early, or because a value that crosses the
//! cut is computed behind it, of larger ones. Such kernels are parted and such values stored, those first that hold most,
//! until enough is given back.

use crate::body::Source;
use crate::draft::one_by_one::OneByOne;
use crate::draft::peak::Footprints;
use crate::draft::{Draft, Step};
use crate::graph::{Graph, NodeOp};
use crate::policy::GivenUp;
use ferrotrace_kernels::ValueId;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// What is to be done.
enum Way {
    /// The kernel of a step is parted.
    Part(usize),
    /// Values are stored.
    Store(Vec<ValueId>),
}

/// Adds to what is given up, for each place where the draft holds more than allowed where inputs are kept, or where they
/// are not. Whether anything was added.
pub(super) fn give_up(draft: &Draft, allowed: [u64; 2], given_up: &mut GivenUp) -> bool {
    let mut changed = false;
    for (donated, allowed) in [(false, allowed[0]), (true, allowed[1])] {
        let cuts = Cuts::of(draft, donated);
        let mut visits = draft.policy.thresholds.held_visits * draft.graph.nodes().len();
        // Buffers by the step that touches them first, those that no step has touched yet last; and those that are held.
        let mut coming = cuts.buffers();
        let mut alive: Vec<usize> = Vec::new();
        for (at, held) in cuts.places(allowed) {
            while let Some(buffer) = coming.pop_if(|buffer| cuts.spans[*buffer].0 <= at) {
                alive.push(buffer);
            }
            alive.retain(|buffer| cuts.spans[*buffer].1 >= at);
            visits = visits.saturating_sub(alive.len());
            if visits == 0 {
                break;
            }
            changed |= cuts.cut(at, held - allowed, &alive, &mut visits, given_up);
        }
        if changed {
            break;
        }
    }
    changed
}

/// A draft, and what its operations one by one would hold.
struct Cuts<'a> {
    draft: &'a Draft,
    graph: &'a Graph,
    donated: bool,
    footprints: Footprints,
    one_by_one: OneByOne<'a>,
    /// Bytes held after each node, one by one.
    held: Vec<i64>,
    /// The first and last step that touches each buffer; what is held to the end has none after it.
    spans: Vec<(usize, usize)>,
    /// The steps that touch each buffer.
    touching: Vec<Vec<usize>>,
    /// The nodes that each step computes and could store, ascending.
    nodes: Vec<Vec<ValueId>>,
    /// Whether a step has the node among those.
    placed: Vec<bool>,
    /// The node of each input.
    inputs: FxHashMap<u32, ValueId>,
    /// The nodes that read each node.
    readers: Vec<Vec<ValueId>>,
}

impl<'a> Cuts<'a> {
    fn of(draft: &'a Draft, donated: bool) -> Cuts<'a> {
        let graph = &draft.graph;
        let footprints = draft.footprints();
        let mut spans: Vec<(usize, usize)> = vec![(usize::MAX, 0); footprints.bytes.len()];
        let mut touching = vec![Vec::new(); footprints.bytes.len()];
        for (i, step) in footprints.steps.iter().enumerate() {
            for buffer in step.touched() {
                let span = &mut spans[buffer];
                *span = (span.0.min(i), i);
                touching[buffer].push(i);
            }
        }
        for (buffer, span) in spans.iter_mut().enumerate() {
            if !footprints.is_freed(buffer, &|_| donated) {
                span.1 = usize::MAX;
            }
            if footprints.input[buffer].is_some() {
                span.0 = 0;
            }
        }
        let nodes: Vec<Vec<ValueId>> = draft.steps.iter().map(computed).collect();
        let mut placed = vec![false; graph.nodes().len()];
        for node in nodes.iter().flatten() {
            placed[node.0 as usize] = true;
        }
        let mut readers = vec![Vec::new(); graph.nodes().len()];
        let mut inputs = FxHashMap::default();
        for (i, node) in graph.nodes().iter().enumerate() {
            let reader = ValueId(i as u32);
            if let NodeOp::Input(n) = node.op {
                inputs.insert(n, reader);
            }
            for operand in graph.operands(reader) {
                readers[operand.0 as usize].push(reader);
            }
        }
        let one_by_one = OneByOne::of(graph, draft.policy.target.tiles);
        Cuts {
            held: one_by_one.held(donated),
            draft,
            graph,
            donated,
            footprints,
            one_by_one,
            spans,
            touching,
            nodes,
            placed,
            inputs,
            readers,
        }
    }

    /// The buffers that the plan gives back, those that are touched first last.
    fn buffers(&self) -> Vec<usize> {
        let kept = |b: &usize| self.footprints.input[*b].is_some() && !self.donated;
        let mut all: Vec<usize> = (0..self.spans.len()).filter(|b| !kept(b)).collect();
        all.sort_by_key(|b| Reverse(self.spans[*b].0));
        all
    }

    /// Of each run of steps during which more is held than allowed, the step of most, and how much; of long runs, one of
    /// every `held_run` steps.
    fn places(&self, allowed: u64) -> Vec<(usize, u64)> {
        let donated = |_| self.donated;
        let held = self
            .footprints
            .held(0..self.draft.steps.len(), &donated, false);
        let mut places: Vec<(usize, u64)> = Vec::new();
        let (mut run, mut before) = (0, false);
        for (step, held) in held.enumerate() {
            let over = held > allowed;
            match places.last_mut() {
                Some(last)
                    if over && before && step < run + self.draft.policy.thresholds.held_run =>
                {
                    *last = if held > last.1 { (step, held) } else { *last };
                }
                _ if over => {
                    run = step;
                    places.push((step, held));
                }
                _ => {}
            }
            before = over;
        }
        places
    }

    /// Gives up what holds most at a step, until so many bytes are given back. Whether anything was.
    fn cut(
        &self,
        at: usize,
        excess: u64,
        alive: &[usize],
        visits: &mut usize,
        given_up: &mut GivenUp,
    ) -> bool {
        for behind in self.candidates(at, alive) {
            *visits = visits.saturating_sub(alive.len());
            let mut ways = self.ways(behind, alive, visits);
            ways.retain(|(way, _)| match way {
                Way::Part(step) => !given_up.parts(&self.nodes[*step], behind),
                Way::Store(values) => values.iter().any(|v| !given_up.stores(*v)),
            });
            if ways.is_empty() {
                continue;
            }
            ways.sort_by_key(|(_, bytes)| Reverse(*bytes));
            let mut left = excess as i64;
            for (way, bytes) in ways {
                match way {
                    Way::Part(step) => {
                        given_up.separate(self.nodes[step].iter().copied(), behind);
                    }
                    Way::Store(values) => values.iter().for_each(|v| given_up.store(*v, behind)),
                }
                left -= bytes;
                if left <= 0 {
                    break;
                }
            }
            return true;
        }
        false
    }

    /// Nodes behind which to cut for a step: within it, those first where the larger of both parts is smallest; then before
    /// and behind all that it computes.
    fn candidates(&self, at: usize, alive: &[usize]) -> Vec<ValueId> {
        let mut within: FxHashSet<ValueId> = self.nodes[at].iter().copied().collect();
        let mut pending = self.nodes[at].clone();
        while let Some(node) = pending.pop() {
            for operand in self.graph.operands(node) {
                let i = operand.0 as usize;
                let computed = matches!(self.graph.nodes()[i].op, NodeOp::Op(_)) && !self.placed[i];
                if computed && within.len() < 1024 && within.insert(operand) {
                    pending.push(operand);
                }
            }
        }
        let mut within: Vec<ValueId> = within.into_iter().collect();
        within.sort_unstable();
        let (Some(&first), Some(&last)) = (within.first(), within.last()) else {
            return Vec::new();
        };
        within.pop();
        // What is held was made before the cut, or crosses it, or is made behind it.
        let mut made: Vec<(ValueId, i64)> = Vec::new();
        for &buffer in alive {
            let node = self.node(buffer);
            made.extend(node.map(|node| (node, self.footprints.bytes[buffer] as i64)));
        }
        made.sort_unstable();
        let mut left = 0;
        let all: i64 = made.iter().map(|made| made.1).sum();
        let mut made = made.into_iter().peekable();
        let larger = |cut: &ValueId| {
            while let Some((_, bytes)) = made.next_if(|made| made.0 <= *cut) {
                left += bytes;
            }
            let crosses = self.held[cut.0 as usize];
            (left.max(crosses + all - left), crosses, *cut)
        };
        let mut parts: Vec<(i64, i64, ValueId)> = within.iter().map(larger).collect();
        parts.sort_unstable();
        parts.truncate(8);
        let mut within: Vec<ValueId> = parts.into_iter().map(|part| part.2).collect();
        let before = first.0.checked_sub(1).map(ValueId);
        within.extend(before.into_iter().chain([last]));
        within
    }

    /// What would give back memory at a cut, and how much.
    fn ways(&self, behind: ValueId, alive: &[usize], visits: &mut usize) -> Vec<(Way, i64)> {
        let cut = behind.0 as usize;
        let mut parted: FxHashMap<usize, i64> = FxHashMap::default();
        let mut ways = Vec::new();
        // Values to be stored, and the buffers that each keeps.
        let mut keeping: FxHashMap<ValueId, Vec<usize>> = FxHashMap::default();
        let mut kept: FxHashMap<usize, Vec<ValueId>> = FxHashMap::default();
        for &buffer in alive {
            let Some(node) = self.node(buffer) else {
                continue;
            };
            if self.one_by_one.is_held(node, cut) {
                continue;
            }
            let bytes = self.footprints.bytes[buffer] as i64;
            let early = node > behind;
            let (values, read) = match early {
                true => Default::default(),
                false => self.crossing(node, behind, visits),
            };
            for &step in &self.touching[buffer] {
                let makes = self.footprints.steps[step].writes.contains(&buffer);
                let nodes = &self.nodes[step];
                let crosses = nodes.first() <= Some(&behind) && nodes.last() > Some(&behind);
                let reads = || nodes.iter().any(|node| read.contains(node));
                if crosses && (early && makes || !early && reads()) {
                    *parted.entry(step).or_default() += bytes;
                }
            }
            if !early {
                for &value in &values {
                    keeping.entry(value).or_default().push(buffer);
                }
                kept.insert(buffer, values);
            }
        }
        // Values that keep one buffer alive are given up together.
        let mut buffers: Vec<usize> = kept.keys().copied().collect();
        buffers.sort_unstable();
        let mut seen: FxHashSet<usize> = FxHashSet::default();
        for buffer in buffers {
            let mut values: Vec<ValueId> = Vec::new();
            let (mut pending, mut gain) = (vec![buffer], 0i64);
            while let Some(buffer) = pending.pop() {
                if !seen.insert(buffer) {
                    continue;
                }
                gain += self.footprints.bytes[buffer] as i64;
                for value in &kept[&buffer] {
                    if !values.contains(value) {
                        values.push(*value);
                        let node = self.graph.node(*value);
                        gain -= (node.shape.numel() * node.dtype.size()) as i64;
                        pending.extend(&keeping[value]);
                    }
                }
            }
            if gain > 0 && !values.is_empty() {
                ways.push((Way::Store(values), gain));
            }
        }
        ways.extend(
            parted
                .into_iter()
                .map(|(step, gain)| (Way::Part(step), gain)),
        );
        // Equal ones in an order that does not depend on hashes.
        ways.sort_by_key(|(way, _)| match way {
            Way::Part(step) => (1, *step),
            Way::Store(values) => (0, values[0].0 as usize),
        });
        ways
    }

    /// The node that a buffer holds.
    fn node(&self, buffer: usize) -> Option<ValueId> {
        match self.footprints.sources[buffer] {
            Source::Node(node) => Some(node),
            Source::Input(n) => self.inputs.get(&n).copied(),
        }
    }

    /// Values computed of a node wherever they are used, that an operation behind the cut reads and one before it would
    /// have made; and the nodes before it that have steps and read it, or what is computed of it.
    fn crossing(
        &self,
        from: ValueId,
        behind: ValueId,
        visits: &mut usize,
    ) -> (Vec<ValueId>, Vec<ValueId>) {
        let (mut found, mut read) = (Vec::new(), Vec::new());
        let mut seen: FxHashSet<ValueId> = FxHashSet::default();
        let mut pending = vec![from];
        while let Some(value) = pending.pop() {
            for &reader in &self.readers[value.0 as usize] {
                if *visits == 0 {
                    return Default::default();
                }
                *visits -= 1;
                if reader > behind || !seen.insert(reader) {
                    continue;
                }
                if self.placed[reader.0 as usize] {
                    read.push(reader);
                    continue;
                }
                let readers = &self.readers[reader.0 as usize];
                if readers.iter().any(|r| *r > behind) {
                    found.push(reader);
                }
                pending.push(reader);
            }
        }
        (found, read)
    }
}

/// The nodes that a step computes and could store, ascending.
fn computed(step: &Step) -> Vec<ValueId> {
    let kernel = step
        .kernel()
        .into_iter()
        .chain(step.before().map(|b| &b.kernel));
    let mut nodes: Vec<ValueId> = kernel
        .flat_map(|k| k.node.stores.iter().map(|s| s.node))
        .collect();
    nodes.extend(step.call().map(|call| call.node));
    nodes.extend(step.kernel().and_then(|k| k.node.product).map(|p| p.node));
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
