//! How much memory an order of steps needs (scheduler B-19).

use super::calls::overwritten;
use super::{Step, accesses, convolution};
use crate::body::Source;
use crate::emit::Pointer;
use crate::graph::Graph;
use crate::lower::{Call, CallArg, Pieces};
use crate::policy::Policy;
use ferrotrace_kernels::ops::{conv, matmul};
use ferrotrace_kernels::{Op, ValueId};
use ferrotrace_runtime::{Layout, Pool, with_threads};
use rustc_hash::FxHashMap;

/// The buffers of a plan and what its steps do to them. Buffers have numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Footprints {
    /// Bytes of each buffer.
    pub bytes: Vec<u64>,
    /// What each is.
    pub sources: Vec<Source>,
    /// Whether the buffer is one of the outputs, which are held to the end.
    pub output: Vec<bool>,
    /// The input that the buffer is, if it is one.
    pub input: Vec<Option<u32>>,
    /// For each step, in the order of recording.
    pub steps: Vec<Footprint>,
}

/// The buffers of one step.
#[derive(Clone, Debug, Default)]
pub(super) struct Footprint {
    /// The steps before it whose results it reads, each once: of a value that lies in another's memory those that write that
    /// value, not what lies beside it.
    pub needs: Vec<usize>,
    /// The buffers that the step reads, each once.
    pub reads: Vec<usize>,
    /// The buffers that the step writes, also in part, each once, in the order in which they get their memory.
    pub writes: Vec<usize>,
    /// Pairs (written, read) that may share memory, the first that fits first.
    pub in_place: Vec<(usize, usize)>,
    /// Bytes that a product which passes from panel to panel needs meanwhile, unless one of `hosts` gets memory of its
    /// own, which then holds it (scheduler T-08).
    pub passing: u64,
    /// Bytes of the panels of an operand that is computed (scheduler T-02).
    pub operand: u64,
    /// Buffers of `writes` that may hold such a product.
    pub hosts: Vec<usize>,
}

impl Footprint {
    /// Bytes that the step needs for itself wherever its results lie.
    pub fn own(&self) -> u64 {
        let passes = self.hosts.is_empty();
        self.operand + if passes { self.passing } else { 0 }
    }

    /// Every buffer that the step needs, each once.
    pub fn touched(&self) -> impl Iterator<Item = usize> {
        let read = self.reads.iter().filter(|b| !self.writes.contains(b));
        read.chain(&self.writes).copied()
    }
}

/// For each step, the others whose results it reads.
fn needs(steps: &[Step], pieces: &Pieces) -> Vec<Vec<usize>> {
    // What a value's memory holds is written with it, or as the values that lie there.
    let mut writers: FxHashMap<ValueId, Vec<usize>> = FxHashMap::default();
    for (at, step) in steps.iter().enumerate() {
        for node in accesses(step).1 {
            writers.entry(node).or_default().push(at);
            if let Some(piece) = pieces.get(&node) {
                writers.entry(piece.whole).or_default().push(at);
            }
        }
    }
    let of = |(at, step): (usize, &Step)| {
        let mut all = Vec::new();
        for source in accesses(step).0 {
            let Source::Node(node) = source else { continue };
            let found = writers.get(&node).into_iter().flatten();
            all.extend(found.copied().filter(|&from| from != at));
        }
        all.sort_unstable();
        all.dedup();
        all
    };
    steps.iter().enumerate().map(of).collect()
}

impl Footprints {
    /// The buffers of a plan's steps. A value that lies in another's memory is part of the other's buffer.
    /// `solo` says which steps one thread does.
    pub fn of(
        graph: &Graph,
        policy: &Policy,
        steps: &[Step],
        outputs: &[(Source, Layout)],
        pieces: &Pieces,
        solo: &dyn Fn(usize) -> bool,
    ) -> Footprints {
        let tiles = policy.target.tiles;
        let mut all = Footprints::default();
        let mut numbers: FxHashMap<Source, usize> = FxHashMap::default();
        let mut number = |all: &mut Footprints, source: Source| {
            let source = match source {
                Source::Node(node) => pieces.get(&node).map_or(source, |p| Source::Node(p.whole)),
                Source::Input(_) => source,
            };
            *numbers.entry(source).or_insert_with(|| {
                let (bytes, input) = match source {
                    Source::Input(n) => {
                        let input = &graph.inputs()[n as usize];
                        (input.layout.span().len() * input.dtype.size(), Some(n))
                    }
                    Source::Node(node) => {
                        let node = graph.node(node);
                        (node.shape.numel() * node.dtype.size(), None)
                    }
                };
                all.bytes.push(bytes as u64);
                all.sources.push(source);
                all.input.push(input);
                all.output.push(false);
                all.bytes.len() - 1
            })
        };
        for (i, step) in steps.iter().enumerate() {
            // Each thread has a part of a scratch memory of its own.
            let threads = if solo(i) { 1 } else { Pool::global().threads() };
            let scratch = |call: &Call, computed: Option<usize>, passing: bool| {
                with_threads(threads, || scratch(graph, call, computed, (passing, tiles)))
            };
            let mut footprint = Footprint::default();
            let (reads, writes) = accesses(step);
            let writes = writes.into_iter().map(Source::Node).collect();
            for (sources, list) in [
                (reads, &mut footprint.reads),
                (writes, &mut footprint.writes),
            ] {
                for source in sources {
                    let buffer = number(&mut all, source);
                    if !list.contains(&buffer) {
                        list.push(buffer);
                    }
                }
            }
            if let Step::Call(call) = step
                && let Some(over) = overwritten(graph, &policy.target, pieces, call)
            {
                let node = number(&mut all, Source::Node(call.node));
                footprint.in_place.push((node, number(&mut all, over)));
            }
            let computed = match step {
                Step::Template(t) => t.before.as_ref().map(|before| before.operand),
                _ => None,
            };
            if let Step::Template(t) = step {
                footprint.operand = scratch(&t.call, computed, false);
            }
            if let Step::Call(call) = step
                && graph.node(call.node).is(Op::is_matmul)
            {
                footprint.operand = scratch(call, None, false);
            }
            if let Step::Template(t) = step
                && !t.stored
                && t.epilogue.is_none()
            {
                let may_hold = |node: &ValueId| t.may_lie_in(*node, graph, policy, pieces);
                footprint.passing = scratch(&t.call, computed, true);
                let pointers = t.kernel.iter().flat_map(|kernel| &kernel.pointers);
                let written = pointers.filter_map(|p| match p {
                    Pointer::Write(node) => Some(*node),
                    Pointer::Read(_) => None,
                });
                footprint.hosts = written
                    .filter(may_hold)
                    .map(|node| number(&mut all, Source::Node(node)))
                    .collect();
            }
            // A product that passes from panel to panel has no memory to share.
            let passes = |source: &Source| match step {
                Step::Template(t) => *source == Source::Node(t.call.node),
                _ => false,
            };
            if let Some(e) = step.kernel() {
                let shares =
                    |pair: &&(ValueId, Source)| !pieces.contains_key(&pair.0) && !passes(&pair.1);
                for &(node, source) in e.in_place.iter().filter(shares) {
                    let pair = (
                        number(&mut all, Source::Node(node)),
                        number(&mut all, source),
                    );
                    if all.bytes[pair.0] == all.bytes[pair.1] {
                        footprint.in_place.push(pair);
                    }
                }
            }
            all.steps.push(footprint);
        }
        for (source, _) in outputs {
            let buffer = number(&mut all, *source);
            all.output[buffer] = true;
        }
        for (footprint, needs) in all.steps.iter_mut().zip(needs(steps, pieces)) {
            footprint.needs = needs;
        }
        all
    }

    /// For each buffer, how many steps touch it.
    pub fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.bytes.len()];
        for buffer in self.steps.iter().flat_map(Footprint::touched) {
            uses[buffer] += 1;
        }
        uses
    }

    /// Whether the buffer's memory is given back, or on to another, after its last use.
    pub fn is_freed(&self, buffer: usize, donated: &dyn Fn(u32) -> bool) -> bool {
        !self.output[buffer] && self.input[buffer].is_none_or(donated)
    }

    /// The most bytes held at once beyond those of the inputs when the steps run in an order: a buffer gets memory at
    /// its first step and gives it back after its last; outputs are held to the end, and inputs too unless they are
    /// donated. Memory that a step needs for itself alone is not counted, but for the panels of a product.
    pub fn peak(&self, order: impl Iterator<Item = usize>, donated: &dyn Fn(u32) -> bool) -> u64 {
        self.held(order, donated, true).max().unwrap_or(0)
    }

    /// The bytes held at each step beyond those of the inputs, as [`peak`](Footprints::peak) counts them; without `panels` the panels
    /// of products are not counted.
    pub fn held<'a>(
        &'a self,
        order: impl Iterator<Item = usize> + 'a,
        donated: &'a dyn Fn(u32) -> bool,
        panels: bool,
    ) -> impl Iterator<Item = u64> + 'a {
        let mut left = self.uses();
        let mut held: Vec<bool> = self.input.iter().map(Option::is_some).collect();
        let mut live = 0i64;
        let mut taken: Vec<usize> = Vec::new();
        order.map(move |step| {
            let step = &self.steps[step];
            taken.clear();
            let mut hosted = false;
            for &buffer in &step.writes {
                if std::mem::replace(&mut held[buffer], true) {
                    continue;
                }
                let fits = |&(node, from): &(usize, usize)| {
                    node == buffer
                        && left[from] == 1
                        && !taken.contains(&from)
                        && self.is_freed(from, donated)
                };
                match step.in_place.iter().find(|pair| fits(pair)) {
                    Some(&(_, from)) => taken.push(from),
                    None => {
                        live += self.bytes[buffer] as i64;
                        hosted |= step.hosts.contains(&buffer);
                    }
                }
            }
            let passing = if hosted { 0 } else { step.passing as i64 } + step.operand as i64;
            let most = live + if panels { passing } else { 0 };
            for buffer in step.touched() {
                left[buffer] -= 1;
                if left[buffer] == 0 && self.is_freed(buffer, donated) && !taken.contains(&buffer) {
                    live -= self.bytes[buffer] as i64;
                }
            }
            most.max(0) as u64
        })
    }
}

/// Bytes of the panels of a product without memory of its own, where it is `passing`, or of operands that are `computed` or packed, by
/// the processor's tiles if there are such.
fn scratch(
    graph: &Graph,
    call: &Call,
    computed: Option<usize>,
    (passing, tiles): (bool, bool),
) -> u64 {
    let of = |source: &Source| match source {
        Source::Input(n) => graph.inputs()[*n as usize].dtype,
        Source::Node(node) => graph.node(*node).dtype,
    };
    let [CallArg::Window(a, left), CallArg::Window(b, right)] = &call.args[..] else {
        return 0;
    };
    let dtype = graph.node(call.node).dtype;
    if let Some(spec) = convolution(graph, call.node) {
        let bytes = || conv::scratch(spec, left.shape(), right.shape(), dtype).unwrap_or_default();
        return if passing { bytes() as u64 } else { 0 };
    }
    // Operands that do not fit are an error of the run.
    let operands = [(left, of(a)), (right, of(b))];
    let all = |passes| {
        matmul::scratch(operands, dtype, passes, computed, tiles).unwrap_or_default() as u64
    };
    // Of the two kinds together, what the operand takes is what there is without the other.
    match passing {
        true => all(true) - all(false),
        false => all(false),
    }
}
