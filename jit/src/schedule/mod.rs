//! Which loop nests become one kernel, and in what order kernels and library calls run (scheduler §5 to §8).

mod access;
mod again;
mod align;
mod biases;
mod epilogue;
mod fed;
mod fused;
mod generated;
mod given_up;
mod merge;
mod moments;
mod opaque;
mod prologue;
mod sides;
mod template;
mod tiles;
mod verify;
mod veto;
mod widen;

use crate::bisect::may_fuse;
use crate::body::Source;
use crate::graph::Graph;
use crate::lower::{Lowered, Lowering};
use crate::policy::Policy;
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::{Channel, Counter, DType, count, log};
use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

pub use crate::refusal::{Mismatch, Refusal};
use access::Access;
pub(crate) use access::bytes_read;
pub use epilogue::Epilogue;
use fused::Pairs;
pub use fused::{Dependence, FusedNode, Product, Store};
pub(crate) use fused::{moved, roots};
pub(crate) use merge::{exchanged, merge_loops, merge_under_conditions, rows_along_memory};
pub use moments::Moment;
pub use prologue::Prologue;
pub use sides::{Side, Sides};
pub use tiles::{Tiles, Units};
pub(crate) use widen::widen;

/// One step of a schedule.
#[derive(Clone, Debug)]
pub enum Scheduled {
    /// A generated kernel.
    Fused(Box<FusedNode>),
    /// A ready-made kernel, or attention: its position among the lowered steps.
    Call(usize),
}

/// Fused nodes and calls in the order they run, and every pair that was not fused, with the reason.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The steps.
    pub steps: Vec<Scheduled>,
    /// Pairs of nodes (the first of each fused node) and why they are not one kernel.
    pub refusals: Vec<(ValueId, ValueId, Refusal)>,
    /// How many nodes there were before the first round of fusion, and after each (scheduler V-05).
    pub rounds: Vec<usize>,
    /// Kernels that compute an operand of a product, by the product's step.
    pub prologues: FxHashMap<usize, Vec<Prologue>>,
    /// Nodes whose value must lie in memory: read by another kernel or call, or an output.
    pub stored: FxHashSet<ValueId>,
}

/// The graph of fused nodes while it shrinks.
pub(crate) struct Fusion<'a> {
    graph: StableDiGraph<Option<FusedNode>, ()>,
    policy: &'a Policy,
    sizes: FxHashMap<Source, u64>,
    /// Values that a kernel of its own computes.
    apart: &'a FxHashSet<ValueId>,
    /// The last barrier that each node depends on.
    behind: Vec<u32>,
    /// Stored values that are no outputs.
    temporaries: FxHashMap<ValueId, Temporary>,
    /// The lowered step that makes each value.
    made: FxHashMap<ValueId, usize>,
    /// What is written over.
    bases: FxHashSet<Source>,
    /// The node of each lowered step.
    owner: Vec<NodeIndex>,
    /// For each lowered step, the last step of any node that begins there or before.
    reach: Vec<usize>,
    refusals: BTreeMap<(ValueId, ValueId), Refusal>,
    /// What each node touches, by its index; none where it changed.
    accesses: Vec<Option<Rc<[Access]>>>,
    /// How often each node took up another.
    changes: Vec<u32>,
    /// Pairs that others lie between, and how often each of the two had changed: it stays so until one changes again, since
    /// what others join shortens paths and cuts none.
    between: FxHashMap<(NodeIndex, NodeIndex), (u32, u32)>,
    search: Cell<Search>,
    /// What pairs of nodes became, so that those of repeated layers are made one once.
    pairs: Pairs,
    prologues: FxHashMap<usize, Vec<Prologue>>,
    /// Nodes left before the first round and after each.
    rounds: Vec<usize>,
}

/// A node, what it touches, and which of that is in one buffer.
type Touch = (NodeIndex, Rc<[Access]>, Range<usize>);

/// A walk over nodes, whose memory serves the next.
#[derive(Debug, Default)]
struct Search {
    /// The walk that met each node last.
    met: Vec<u32>,
    number: u32,
    pending: Vec<NodeIndex>,
}

impl Search {
    /// Forgets what was met, of at most so many nodes.
    fn begin(&mut self, nodes: usize) {
        self.pending.clear();
        self.number = self.number.wrapping_add(1);
        if self.number == 0 || self.met.len() != nodes {
            self.met = vec![0; nodes];
            self.number = 1;
        }
    }

    /// Whether a node is met for the first time.
    fn meets(&mut self, n: NodeIndex) -> bool {
        std::mem::replace(&mut self.met[n.index()], self.number) != self.number
    }
}

/// How much is won by making a pair one kernel (scheduler P-04).
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    /// Bytes that both touch at the same positions.
    same: u64,
    /// Bytes of buffers that they touch at different ones, at most (scheduler P-07).
    near: u64,
}

impl Score {
    fn bytes(self) -> u64 {
        self.same + self.near
    }
}

/// A stored value that is no output: the lowered steps that make and read it.
#[derive(Debug)]
struct Temporary {
    made: usize,
    read: Vec<usize>,
}

/// Fuses a lowered graph: pairs that share data, most bytes first, until nothing changes (scheduler F-01 to F-09), then
/// products with what is around them.
pub fn fuse(graph: &Graph, lowering: &Lowering, policy: &Policy) -> Schedule {
    Fusion::of(graph, lowering, policy).with_products(graph, lowering)
}

impl<'a> Fusion<'a> {
    /// Pairs made one in rounds, and values computed again where that saves more.
    pub(crate) fn of(graph: &Graph, lowering: &'a Lowering, policy: &'a Policy) -> Fusion<'a> {
        let nests = lowering.steps.iter();
        let nests = nests.filter(|step| matches!(step, Lowered::Nest(_)));
        count(Counter::Nests, nests.count() as u64);
        let mut fusion = Fusion::new(graph, lowering, policy);
        fusion.rounds.push(fusion.graph.node_count());
        let most = policy.thresholds.rounds;
        for round in 1..=most {
            let changed = fusion.round();
            let (before, after) = (fusion.rounds[round - 1], fusion.graph.node_count());
            fusion.rounds.push(after);
            log(Channel::Rounds, || {
                format!("round {round} of at most {most}: {before} nodes, {after} left")
            });
            // scheduler F-01: until nothing changes.
            if !changed || after == 1 {
                break;
            }
        }
        fusion.compute_again(lowering);
        fusion
    }

    /// The schedule, after products have taken up the kernels around them as far as a template or the library accepts.
    pub(crate) fn with_products(mut self, graph: &Graph, lowering: &Lowering) -> Schedule {
        if self.policy.target.panels {
            self.take_up_products(graph, lowering);
        } else {
            self.take_up_epilogues(graph, lowering);
            self.take_up_generated(graph, lowering);
            self.feed_generated(graph, lowering);
            self.take_up_biases(graph, lowering);
        }
        self.list_ready_made(lowering);
        self.finish(lowering)
    }

    fn new(graph: &Graph, lowering: &'a Lowering, policy: &'a Policy) -> Fusion<'a> {
        let mut fused: StableDiGraph<Option<FusedNode>, ()> = StableDiGraph::new();
        let mut producer: FxHashMap<ValueId, NodeIndex> = FxHashMap::default();
        let mut sizes = FxHashMap::default();
        let mut temporaries: FxHashMap<ValueId, Temporary> = FxHashMap::default();
        let mut owner = Vec::with_capacity(lowering.steps.len());
        let mut readers: FxHashMap<Source, Vec<NodeIndex>> = FxHashMap::default();
        let mut bases = FxHashSet::default();
        for (i, step) in lowering.steps.iter().enumerate() {
            let weight = match step {
                Lowered::Nest(nest) => Some(FusedNode::of(i, nest)),
                Lowered::Call(_) | Lowered::Attention(_) => None,
            };
            let index = fused.add_node(weight);
            owner.push(index);
            if let Lowered::Nest(nest) = step
                && let Some(update) = &nest.update
            {
                bases.insert(update.base.0);
                // What is written over is read before: else it would have to be copied.
                let before = readers.get(&update.base.0).into_iter().flatten();
                for &reader in before.rev().take(policy.thresholds.pairs) {
                    fused.update_edge(reader, index, ());
                }
            }
            for source in step.reads() {
                readers.entry(source).or_default().push(index);
                if let Source::Node(node) = source
                    && let Some(&from) = producer.get(&node)
                {
                    fused.update_edge(from, index, ());
                    let made = from.index();
                    let read = Vec::new();
                    let of = temporaries.entry(node).or_insert(Temporary { made, read });
                    of.read.push(i);
                }
                let bytes = |d: DType, n: usize| (d.size() * n) as u64;
                let size = match source {
                    Source::Input(n) => {
                        let spec = &graph.inputs()[n as usize];
                        bytes(spec.dtype, spec.layout.span().len())
                    }
                    Source::Node(v) => bytes(graph.node(v).dtype, graph.node(v).shape.numel()),
                };
                sizes.insert(source, size);
            }
            producer.insert(step.node(), index);
        }
        for (source, _) in &lowering.outputs {
            if let Source::Node(node) = source {
                temporaries.remove(node);
            }
        }
        Fusion {
            graph: fused,
            policy,
            sizes,
            apart: &lowering.apart,
            behind: veto::barriers(graph),
            temporaries,
            made: producer.iter().map(|(v, at)| (*v, at.index())).collect(),
            bases,
            owner,
            reach: (0..lowering.steps.len()).collect(),
            refusals: BTreeMap::new(),
            accesses: vec![None; lowering.steps.len()],
            changes: vec![0; lowering.steps.len()],
            between: FxHashMap::default(),
            search: Cell::default(),
            pairs: Pairs::default(),
            rounds: Vec::new(),
            prologues: FxHashMap::default(),
        }
    }

    /// What a node touches.
    fn accesses(&mut self, n: NodeIndex) -> Rc<[Access]> {
        let (node, known) = (&self.graph[n], &mut self.accesses[n.index()]);
        let of = |node: &FusedNode| access::accesses(node, &self.sizes).into();
        let found = known.get_or_insert_with(|| node.as_ref().map_or(Rc::new([]), of));
        Rc::clone(found)
    }

    /// Pairs that share a buffer, with what they share, the best first (scheduler F-02, F-07, P-01, P-04, P-05).
    fn candidates(&mut self) -> Vec<(Score, NodeIndex, NodeIndex)> {
        let mut touching: BTreeMap<Source, Vec<Touch>> = BTreeMap::new();
        let nodes: Vec<NodeIndex> = self.graph.node_indices().collect();
        for index in nodes {
            let all = self.accesses(index);
            let mut start = 0;
            for group in all.chunk_by(|x, y| x.source == y.source) {
                let range = start..start + group.len();
                start = range.end;
                let entry = touching.entry(group[0].source).or_default();
                entry.push((index, Rc::clone(&all), range));
            }
        }
        let mut scores: FxHashMap<(NodeIndex, NodeIndex), Score> = FxHashMap::default();
        for nodes in touching.values() {
            for (i, (a, of_a, at_a)) in nodes.iter().enumerate() {
                for (b, of_b, at_b) in nodes.iter().skip(i + 1).take(self.policy.thresholds.pairs) {
                    let (same, near) = access::shared(&of_a[at_a.clone()], &of_b[at_b.clone()]);
                    let pair = match self.span(*a).0 <= self.span(*b).0 {
                        true => (*a, *b),
                        false => (*b, *a),
                    };
                    let score = scores.entry(pair).or_default();
                    score.same += same;
                    score.near += near;
                }
            }
        }
        let mut all: Vec<(Score, NodeIndex, NodeIndex)> = scores
            .into_iter()
            .map(|((a, b), score)| (score, a, b))
            .collect();
        all.sort_unstable_by_key(|&(score, a, b)| (Reverse((score.same, score.near)), a, b));
        all
    }

    /// One round: whether anything was fused.
    fn round(&mut self) -> bool {
        let mut moved: FxHashMap<NodeIndex, NodeIndex> = FxHashMap::default();
        let mut changed = false;
        for (score, a, b) in self.candidates() {
            let at = |mut n: NodeIndex| {
                while let Some(&next) = moved.get(&n) {
                    n = next;
                }
                n
            };
            let (a, b) = (at(a), at(b));
            if a == b {
                continue;
            }
            let names = self.names(a, b);
            let result = self.try_fuse(a, b, score.bytes());
            log(Channel::Fusion, || {
                let pair = names.map_or_else(String::new, |(x, y)| format!("%{} %{}", x.0, y.0));
                let Score { same, near } = score;
                match &result {
                    Ok(_) => format!("{pair}: fused, for {same} B in common, {near} B near"),
                    Err(why) => format!("{pair}: {why}; {same} B in common, {near} B near"),
                }
            });
            match result {
                Ok(fused) => {
                    moved.insert(if fused == a { b } else { a }, fused);
                    changed = true;
                }
                Err(refusal) => {
                    if let Some(pair) = names {
                        self.refusals.insert(pair, refusal);
                    }
                }
            }
        }
        changed
    }

    /// The first node of each of a pair.
    fn names(&self, a: NodeIndex, b: NodeIndex) -> Option<(ValueId, ValueId)> {
        let first = |n: NodeIndex| Some(self.graph[n].as_ref()?.stores[0].node);
        Some((first(a)?, first(b)?))
    }

    /// The first and last lowered step of a node; a call is its own, in the order of insertion.
    fn span(&self, n: NodeIndex) -> (usize, usize) {
        self.graph[n].as_ref().map_or((n.index(), n.index()), |f| {
            (f.steps[0], f.steps[f.steps.len() - 1])
        })
    }

    /// A step such that no node that begins after it leads to `to`. Steps depend on earlier ones alone, but a path may
    /// enter a fused node at a late step and leave it at an early one: nodes that begin before the end must end before.
    fn horizon(&self, to: NodeIndex) -> usize {
        let mut end = self.span(to).1;
        while self.reach[end] > end {
            end = self.reach[end];
        }
        end
    }

    /// Whether a path of two or more edges, or any path backwards, joins them (scheduler L-21, L-28).
    fn is_between(&self, a: NodeIndex, b: NodeIndex) -> bool {
        let mut search = self.search.take();
        let found = self.leads(a, b, false, &mut search) || self.leads(b, a, true, &mut search);
        self.search.set(search);
        found
    }

    /// Whether a path leads from a node to another; one of a single edge counts if it is `direct`.
    fn leads(&self, from: NodeIndex, to: NodeIndex, direct: bool, search: &mut Search) -> bool {
        let end = self.horizon(to);
        search.begin(self.accesses.len());
        for next in self.graph.neighbors(from) {
            if (direct || next != to) && self.span(next).0 <= end && search.meets(next) {
                search.pending.push(next);
            }
        }
        while let Some(n) = search.pending.pop() {
            if n == to {
                return true;
            }
            for next in self.graph.neighbors(n) {
                if self.span(next).0 <= end && search.meets(next) {
                    search.pending.push(next);
                }
            }
        }
        false
    }

    fn try_fuse(&mut self, a: NodeIndex, b: NodeIndex, bytes: u64) -> Result<NodeIndex, Refusal> {
        let (a, b) = if self.graph.contains_edge(b, a) {
            (b, a)
        } else {
            (a, b)
        };
        let vertical = self.graph.contains_edge(a, b);
        let (Some(first), Some(second)) = (&self.graph[a], &self.graph[b]) else {
            return Err(Refusal::Opaque);
        };
        // Before anything that looks at other nodes: a tensor that is written slice by slice has many such pairs.
        if first.updates() || second.updates() {
            return Err(Refusal::Scatter);
        }
        if !self.apart.is_empty() && (self.is_apart(a) || self.is_apart(b)) {
            return Err(Refusal::Barrier);
        }
        if self.kept_apart(first, second) {
            return Err(Refusal::Measured);
        }
        if self.is_given_up(first, second) {
            return Err(Refusal::HoldsMore);
        }
        if !vertical {
            if self.is_between_barriers(first, second) {
                return Err(Refusal::Barrier);
            }
            if bytes < self.policy.thresholds.shared_bytes {
                return Err(Refusal::NoSharedData);
            }
            let ((a0, a1), (b0, b1)) = (self.span(a), self.span(b));
            if a0.abs_diff(b1).max(a1.abs_diff(b0)) > self.policy.thresholds.distance {
                return Err(Refusal::Distance);
            }
        }
        // Before what costs more to find out.
        let changes = (self.changes[a.index()], self.changes[b.index()]);
        if self.between.get(&(a, b)) == Some(&changes) || self.is_between(a, b) {
            self.between.insert((a, b), changes);
            return Err(Refusal::NodeBetween);
        }
        let (fused, reordered) = self.pairs.fuse(first, second, self.policy)?;
        self.holds_more(a, b, bytes)?;
        if !may_fuse() {
            return Err(Refusal::Limit);
        }
        count(Counter::LoopReorders, u64::from(reordered));
        self.join(a, b, fused);
        Ok(a)
    }

    /// Whether measuring undid the fusion of two nodes.
    fn kept_apart(&self, a: &FusedNode, b: &FusedNode) -> bool {
        let holds = |fused: &FusedNode, node| fused.store(node).is_some();
        let choice = &self.policy.choice;
        choice.keeps_apart(|node| holds(a, node), |node| holds(b, node))
    }

    /// Why a product and a kernel before or behind it stay apart, if they do.
    fn product_kept_apart(&self, product: Product, kernel: &FusedNode) -> Option<Refusal> {
        let (of_product, of_kernel) = (|v| v == product.node, |v| kernel.store(v).is_some());
        if self.policy.choice.keeps_apart(of_product, of_kernel) {
            return Some(Refusal::Measured);
        }
        let given_up = self
            .policy
            .given_up
            .separates(&[product.node], &given_up::nodes(kernel));
        given_up.then_some(Refusal::HoldsMore)
    }

    /// Whether a product and the kernel of a node before or behind it may be one step, as far as barriers, measuring and
    /// what is given up for memory say.
    fn may_join(
        &self,
        product: Product,
        node: NodeIndex,
        kernel: &FusedNode,
    ) -> Result<(), Refusal> {
        if self.apart.contains(&product.node) || self.is_apart(node) {
            return Err(Refusal::Barrier);
        }
        self.product_kept_apart(product, kernel).map_or(Ok(()), Err)
    }

    /// Whether a barrier follows what a node stores (scheduler L-08).
    fn is_apart(&self, n: NodeIndex) -> bool {
        let stores = self.graph[n].iter().flat_map(|fused| &fused.stores);
        stores
            .into_iter()
            .any(|store| self.apart.contains(&store.node))
    }

    /// Puts a fused node in the place of `a` and `b`.
    fn join(&mut self, a: NodeIndex, b: NodeIndex, fused: FusedNode) {
        for &step in &fused.steps {
            self.owner[step] = a;
        }
        self.accesses[a.index()] = None;
        self.changes[a.index()] += 1;
        // The fused node takes the earlier one's place; no index is used twice.
        self.graph[a] = Some(fused);
        let (first, last) = self.span(a);
        for reach in &mut self.reach[first..last] {
            *reach = last.max(*reach);
        }
        let from: Vec<NodeIndex> = self
            .graph
            .neighbors_directed(b, petgraph::Direction::Incoming)
            .collect();
        let to: Vec<NodeIndex> = self.graph.neighbors(b).collect();
        for n in from.into_iter().filter(|n| *n != a) {
            self.graph.update_edge(n, a, ());
        }
        for n in to.into_iter().filter(|n| *n != a) {
            self.graph.update_edge(a, n, ());
        }
        self.graph.remove_node(b);
    }

    /// Makes a kernel part of the call that alone reads it: nothing else can lie between.
    fn join_call(&mut self, producer: NodeIndex, call: NodeIndex) {
        for &step in self.graph[producer].iter().flat_map(|fused| &fused.steps) {
            self.owner[step] = call;
        }
        let incoming = self
            .graph
            .neighbors_directed(producer, petgraph::Direction::Incoming);
        let from: Vec<NodeIndex> = incoming.collect();
        for n in from {
            self.graph.update_edge(n, call, ());
        }
        self.graph.remove_node(producer);
    }

    /// Orders what is left: topological, the earliest recorded first (scheduler O-01).
    fn finish(mut self, lowering: &Lowering) -> Schedule {
        let mut waiting: FxHashMap<NodeIndex, usize> = FxHashMap::default();
        let mut ready = std::collections::BTreeSet::new();
        for n in self.graph.node_indices() {
            let count = self
                .graph
                .neighbors_directed(n, petgraph::Direction::Incoming)
                .count();
            waiting.insert(n, count);
            if count == 0 {
                ready.insert((self.span(n).0, n));
            }
        }
        let mut steps = Vec::new();
        while let Some((_, n)) = ready.pop_first() {
            for next in self.graph.neighbors(n) {
                let left = waiting.entry(next).or_default();
                *left -= 1;
                if *left == 0 {
                    ready.insert((self.span(next).0, next));
                }
            }
            // What follows has its weight still: each comes once, after what leads to it.
            steps.push(match self.graph[n].take() {
                Some(fused) => Scheduled::Fused(Box::new(fused)),
                None => Scheduled::Call(n.index()),
            });
        }
        // What a product reads: what computes an operand stores nothing.
        let reads = |at: usize| {
            let mut all = lowering.steps[at].reads();
            for prologue in self.prologues.get(&at).into_iter().flatten() {
                all.retain(|source| *source != Source::Node(prologue.node()));
                all.extend(prologue.kernel.loads().map(|load| load.0));
            }
            all
        };
        let mut stored = FxHashSet::default();
        for (source, _) in &lowering.outputs {
            if let Source::Node(v) = source {
                stored.insert(*v);
            }
        }
        for step in &steps {
            let sources: Vec<Source> = match step {
                Scheduled::Fused(fused) => {
                    let bases = fused.stores.iter().filter_map(|s| s.update.as_ref());
                    let loads = fused.loads().map(|(s, _, _)| s);
                    let mut all: Vec<Source> = loads.chain(bases.map(|u| u.base.0)).collect();
                    if let Some(product) = fused.product {
                        // It passes from panel to panel.
                        all.retain(|s| *s != Source::Node(product.node));
                        all.extend(reads(product.step));
                    }
                    all
                }
                Scheduled::Call(i) => reads(*i),
            };
            stored.extend(sources.into_iter().filter_map(|s| {
                if let Source::Node(v) = s {
                    Some(v)
                } else {
                    None
                }
            }));
        }
        let pairs = self.refusals.into_iter();
        let pairs = pairs.map(|((a, b), why)| (a, b, why));
        let refusals = lowering.refusals.iter().copied().chain(pairs).collect();
        Schedule {
            steps,
            refusals,
            rounds: self.rounds,
            prologues: self.prologues,
            stored,
        }
    }
}
