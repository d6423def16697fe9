//! Which values are stored and which are recomputed where they are used (ir B8-B12, codegen B2).

use super::attention::{self, Found};
use super::cost::Cost;
use super::expanded;
use super::layout::{self, Order};
use super::lifetime::LastUse;
use super::pieces::{self, Piece, Pieces};
use super::update::{self, Write};
use super::windowed::{self, reduced_count, windowed};
use super::{MOST_READ, biased, narrow, realigned, scan, scatter};
use crate::bisect::may_fuse;
use crate::body::Source;
use crate::graph::{Graph, Node, NodeOp};
use crate::policy::Policy;
use crate::refusal::Refusal;
use ferrotrace_kernels::op::{Reduce, Scan};
use ferrotrace_kernels::{Class, Op, Operand, ReduceKind, ValueId};
use ferrotrace_runtime::Layout;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Reshapes one after another that a kernel undoes: the text of an index grows with each several times.
const MOST_RESHAPES: u32 = 8;

/// The decision for each node.
#[derive(Clone, Debug)]
pub struct Realized {
    pub(super) stored: Vec<bool>,
    pub(super) call: Vec<bool>,
    inline_reduction: Vec<bool>,
    /// Values that a kernel of its own computes.
    pub(super) apart: FxHashSet<ValueId>,
    /// Products with their biases that a device's library computes.
    pub(super) biased: FxHashSet<ValueId>,
    /// Values not stored row-major.
    orders: FxHashMap<ValueId, Order>,
    pub(super) pieces: Pieces,
    /// Assignments written over what they are assigned to.
    writes: FxHashMap<ValueId, Write>,
    /// Attention, by its result, and the nodes that are computed within.
    attentions: FxHashMap<ValueId, Found>,
    inside: Vec<bool>,
    /// Values that library calls and attention read in parts.
    in_parts: Vec<bool>,
    pub(super) refusals: Vec<(ValueId, ValueId, Refusal)>,
}

impl Realized {
    /// How a stored node lies in its memory (ir L8): a part of another from its own first element on.
    pub fn layout(&self, graph: &Graph, id: ValueId) -> Layout {
        if let Some(Piece { window, .. }) = self.pieces.get(&id) {
            return Layout::new(window.shape().clone(), window.strides().into(), 0);
        }
        match graph.node(id).op {
            NodeOp::Input(n) => graph.inputs()[n as usize].layout.clone(),
            NodeOp::Op(_) => layout::layout_of(&graph.node(id).shape, self.orders.get(&id)),
        }
    }

    /// Fixes the order of a node's elements in memory, before anything reads it (ir L14).
    pub(super) fn set_order(&mut self, id: ValueId, order: Order) {
        self.orders.insert(id, order);
    }

    /// What an assignment writes over what it is assigned to, if it does.
    pub(super) fn write(&self, id: ValueId) -> Option<&Write> {
        self.writes.get(&id)
    }

    /// Gives a value memory that had none, before anything reads it there.
    pub(super) fn set_stored(&mut self, id: ValueId) {
        self.stored[id.0 as usize] = true;
    }

    /// Whether the node has memory: inputs do.
    pub fn is_stored(&self, id: ValueId) -> bool {
        self.stored[id.0 as usize]
    }

    /// Whether a ready-made kernel computes the node.
    pub fn is_call(&self, id: ValueId) -> bool {
        self.call[id.0 as usize]
    }

    /// The attention whose result the node is.
    pub(super) fn attention(&self, id: ValueId) -> Option<&Found> {
        self.attentions.get(&id)
    }

    /// Whether the node is computed within attention alone.
    pub(super) fn is_inside_attention(&self, id: ValueId) -> bool {
        self.inside[id.0 as usize]
    }

    /// Whether the node is a reduction written out as straight-line code.
    pub fn is_inline_reduction(&self, id: ValueId) -> bool {
        self.inline_reduction[id.0 as usize]
    }

    /// The node as a window on stored memory, if views alone lead to it (ir B16, V12).
    pub fn window(&self, graph: &Graph, id: ValueId) -> Option<(Source, Layout)> {
        let mut chain = Vec::new();
        let mut base = id;
        while !self.is_stored(base) {
            let node = graph.node(base);
            let (NodeOp::Op(op), Some(Operand::Value(from))) = (&node.op, node.args.first()) else {
                return None;
            };
            if !op.is_view() {
                return None;
            }
            chain.push(base);
            base = *from;
        }
        let source = match graph.node(base).op {
            NodeOp::Input(n) => Source::Input(n),
            NodeOp::Op(_) => Source::Node(base),
        };
        let mut layout = self.layout(graph, base);
        for &v in chain.iter().rev() {
            let node = graph.node(v);
            let NodeOp::Op(op) = &node.op else {
                return None;
            };
            layout = op.as_view()?.layout(&layout, &node.shape)?;
        }
        Some((source, layout))
    }
}

impl Realized {
    fn find_attention(&mut self, graph: &Graph, policy: &Policy) {
        let (found, refusals) = attention::find(graph, policy);
        self.refusals = refusals;
        for attention in found {
            let inside = attention::inside(graph, attention.product, attention.result);
            for (node, inside) in self.inside.iter_mut().zip(inside) {
                *node |= inside;
            }
            self.attentions.insert(attention.result, attention);
        }
    }

    /// A node of attention: it has no memory but the result, whose operands have; and what changes scores, if it is not
    /// computed with each of them. Other nodes: `false`, and nothing done.
    fn place_attention(
        &mut self,
        graph: &Graph,
        policy: &Policy,
        costs: &mut [Cost],
        id: ValueId,
    ) -> bool {
        if let Some(found) = self.attention(id).copied() {
            self.call[id.0 as usize] = true;
            for operand in found.operands {
                need_memory(graph, self, costs, operand);
            }
            // The scores are at hand as if they lay in memory.
            self.stored[found.product.0 as usize] = true;
            store(self, costs, id);
            return true;
        }
        if !self.is_inside_attention(id) {
            return false;
        }
        for operand in graph.operands(id) {
            let product = graph.node(id).is(Op::is_matmul);
            if !product
                && !self.is_inside_attention(operand)
                && !attention::is_light(graph, self, operand, policy.thresholds.score_ops)
            {
                need_memory(graph, self, costs, operand);
            }
        }
        true
    }
}

/// Whether only a ready-made kernel computes the operator.
fn is_library(graph: &Graph, op: &Op, policy: &Policy, node: &Node) -> bool {
    match op.class() {
        Class::Library | Class::Window => true,
        Class::Scatter => scatter::is_library_scatter(graph, op, node, policy),
        Class::Scan => op
            .as_scan()
            .is_some_and(|scan| scan::is_library_scan(node, scan.kind, scan.dim, policy)),
        Class::Arrange => {
            let copies = policy.target.library.is_complete();
            copies && op.as_cat().is_some() && node.args.len() > policy.thresholds.cat
        }
        Class::View
        | Class::Create
        | Class::Random
        | Class::Pointwise
        | Class::Gather
        | Class::Reduce => op.as_composite().is_some(),
    }
}

/// Whether an operand that lies in memory has its rows where the result has its columns, and at least so many elements. Generated
/// kernels read such an operand through tiles where it has each element of the result, but not where other elements are
/// between.
fn is_read_across(graph: &Graph, realized: &Realized, id: ValueId, policy: &Policy) -> bool {
    // Short columns are written out, and lanes run along the rows.
    let (least, short) = (policy.thresholds.tiled_elements, policy.thresholds.unrolled);
    let across = |v: ValueId| {
        let Some((_, layout)) = realized.window(graph, v) else {
            return false;
        };
        let dims = layout.shape().iter().zip(layout.strides());
        let lies = |&(&n, &stride): &(&usize, &isize)| n > 1 && stride == 1;
        let last = dims.clone().next_back();
        let columns = last.is_some_and(|(&n, &stride)| n > short && stride.unsigned_abs() > 1);
        columns && layout.shape().numel() >= least && dims.filter(lies).count() > 0
    };
    graph.operands(id).any(across)
}

/// Whether what a reduction goes through is computed from tensors of which it would read some along memory and others across
/// it. Kernels that store such values read them through tiles.
fn is_reduced_both_ways(graph: &Graph, realized: &Realized, id: ValueId, policy: &Policy) -> bool {
    let node = graph.node(id);
    let Some(reduce) = node.operator().and_then(Op::as_reduce) else {
        return false;
    };
    let Some(operand) = graph.operands(id).next() else {
        return false;
    };
    let of = &graph.node(operand).shape;
    let reduced = reduced_count(graph, id, reduce.mask);
    let short = policy.thresholds.unrolled;
    if realized.is_stored(operand) || reduced <= short || node.shape.numel() <= short {
        return false;
    }
    let (mut along, mut across) = (false, false);
    let mut met: SmallVec<[ValueId; 16]> = SmallVec::from_slice(&[operand]);
    let mut next = 0;
    while let Some(&v) = met.get(next) {
        next += 1;
        if met.len() > MOST_READ {
            return false;
        }
        if let Some((_, layout)) = realized.window(graph, v) {
            let nearest = (layout
                .strides()
                .iter()
                .zip(layout.shape().iter())
                .enumerate())
            .filter(|&(_, (&stride, &n))| n > 1 && stride != 0)
            .min_by_key(|&(_, (&stride, _))| stride.unsigned_abs());
            if let Some((dim, _)) = nearest.filter(|_| layout.shape() == of) {
                let is_reduced = reduce.mask >> dim & 1 == 1;
                along |= is_reduced;
                across |= !is_reduced;
            }
            continue;
        }
        if graph.node(v).is_of(Class::Pointwise) {
            met.extend(graph.operands(v));
        }
    }
    along && across && of.numel() >= policy.thresholds.tiled_elements
}

/// How many nodes that some output needs have each node for an operand.
fn users(graph: &Graph) -> Vec<u32> {
    let n = graph.nodes().len();
    let (mut users, mut live) = (vec![0u32; n], vec![false; n]);
    for v in graph.outputs() {
        live[v.0 as usize] = true;
    }
    for i in (0..n).rev() {
        if !live[i] {
            continue;
        }
        let mut operands: SmallVec<[ValueId; 4]> = graph.operands(ValueId(i as u32)).collect();
        operands.sort_unstable();
        operands.dedup();
        for v in operands {
            live[v.0 as usize] = true;
            users[v.0 as usize] += 1;
        }
    }
    users
}

/// Decides for each node of a simplified graph whether it is stored.
pub fn realize(graph: &Graph, policy: &Policy) -> Realized {
    let n = graph.nodes().len();
    let mut realized = Realized {
        stored: vec![false; n],
        call: vec![false; n],
        inline_reduction: vec![false; n],
        apart: FxHashSet::default(),
        biased: FxHashSet::default(),
        orders: FxHashMap::default(),
        pieces: Pieces::default(),
        writes: FxHashMap::default(),
        attentions: FxHashMap::default(),
        inside: vec![false; n],
        in_parts: Vec::new(),
        refusals: Vec::new(),
    };
    realized.find_attention(graph, policy);
    let attended = realized.attentions.values().flat_map(|of| of.operands);
    realized.in_parts = read_in_parts(graph, attended);
    let mut users = users(graph);
    let lasts = LastUse::of(graph);
    let assigns = |node: &Node| node.is(|op| op.as_slice_assign().is_some());
    let assigns = graph.nodes().iter().any(assigns);
    let readers = match assigns {
        true => update::readers(graph),
        false => Vec::new(),
    };
    let mut output = vec![false; n];
    for v in graph.outputs() {
        users[v.0 as usize] += 1;
        output[v.0 as usize] = true;
    }
    let nested = match assigns {
        true => update::nested(graph, &users, policy.thresholds.update_values),
        false => Vec::new(),
    };
    let summed = expanded::reduced_shortly(graph, &users, policy);
    let read_again = match policy.target.library.is_complete() {
        true => {
            let mut all = pieces::joined_again(graph);
            all.extend(expanded::gathered_often(graph, policy));
            all
        }
        false => FxHashSet::default(),
    };
    let mut costs = vec![Cost::default(); n];
    for i in 0..n {
        let id = ValueId(i as u32);
        let node = graph.node(id);
        let NodeOp::Op(op) = &node.op else {
            store(&mut realized, &mut costs, id);
            continue;
        };
        if realized.place_attention(graph, policy, &mut costs, id) {
            continue;
        }
        let scatters = op.class() == Class::Scatter;
        let in_memory = |v: ValueId| realized.window(graph, v).is_some();
        let plain = scatters
            && policy.target.scatters
            && (scatter::is_serial(graph, op, node, policy)
                || graph.operands(id).skip(1).all(in_memory)
                    && scatter::is_lane_by_lane(graph, op, node, 1));
        let across = policy.target.library.is_complete()
            && (op.as_cat().is_some() || op.as_pad().is_some())
            && is_read_across(graph, &realized, id, policy);
        if plain || across || is_library(graph, op, policy, node) {
            realized.call[i] = true;
            for operand in graph.operands(id) {
                match op.as_correlation().is_some() {
                    true => need_dense(graph, &mut realized, &mut costs, operand),
                    false => need_memory(graph, &mut realized, &mut costs, operand),
                }
            }
            store(&mut realized, &mut costs, id);
            continue;
        }
        let assigned =
            op.as_slice_assign().is_some() && assigns && !nested.get(i).is_some_and(|&n| n);
        if assigned
            && let Some(write) = update::written(graph, id, policy.thresholds.update_values)
            && write
                .window
                .numel()
                .saturating_mul(policy.target.window_part)
                <= node.shape.numel()
            && !update::is_read_through(graph, &realized, &readers, id, &write)
        {
            need_memory(graph, &mut realized, &mut costs, write.base);
            let at = (id, write.base);
            for kept in update::kept_before(
                graph,
                &realized,
                &readers,
                &lasts,
                at,
                policy.thresholds.update_values,
            ) {
                store(&mut realized, &mut costs, kept);
            }
            realized.writes.insert(id, write);
            store(&mut realized, &mut costs, id);
            continue;
        }
        // What is arranged otherwise is stored on the CPU, where there is enough of it.
        let arranges = policy.target.library.is_complete()
            && node.shape.numel() >= policy.thresholds.tiled_elements;
        let apart = match op.is_barrier() {
            true => graph.operands(id).next(),
            false if arranges => scan::reads_parts(graph, &realized, id, policy),
            false => None,
        };
        if let Some(x) = apart {
            need_memory(graph, &mut realized, &mut costs, x);
            if let Some((Source::Node(stored), _)) = realized.window(graph, x) {
                realized.apart.insert(stored);
            }
        }
        for operand in graph.operands(id) {
            if narrow::is_narrow_operand(graph, &realized.stored, policy, (operand, id)) {
                need_memory(graph, &mut realized, &mut costs, operand);
            }
        }
        if policy.target.library.is_complete()
            && is_reduced_both_ways(graph, &realized, id, policy)
            && let Some(operand) = graph.operands(id).next()
        {
            need_memory(graph, &mut realized, &mut costs, operand);
        }
        if arranges
            && let Some((base, views)) = realigned::read_as_other_rows(graph, &realized, id, policy)
        {
            need_memory(graph, &mut realized, &mut costs, base);
            for v in views {
                costs[v.0 as usize] = Cost::STORED;
            }
        }
        if arranges && let Some(operand) = realigned::joined_rows(graph, &realized, id) {
            need_memory(graph, &mut realized, &mut costs, operand);
        }
        let mut times = 1;
        if let Some(Reduce { kind, mask, .. }) = op.as_reduce() {
            let count = reduced_count(graph, id, *mask);
            // ir R7, R8, R9: one element, or a few into more than one result.
            let (taps, window_ops) = windowed::bounds(policy);
            let windowed = match count < taps {
                true => windowed(graph, id),
                false => None,
            };
            let least = match windowed {
                Some(_) => taps,
                None => policy.thresholds.unroll,
            };
            // An element of windows that overlap is computed for each of them, one of others once.
            let mut once = false;
            if let Some(windows) = &windowed {
                let of = costs[windows.of.0 as usize];
                let overlap = graph.node(windows.of).shape.numel() < count * node.shape.numel();
                if overlap && (of.heavy || of.ops + of.reads > window_ops) {
                    need_memory(graph, &mut realized, &mut costs, windows.of);
                    windows.update(graph, &realized.stored, &mut costs);
                }
                once = windows.plain && !overlap;
            }
            let short = count == 1 || (count < least && node.shape.numel() != 1);
            let empty = count == 0;
            let arg = matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin);
            // A value of several users, or a costly one, is better read once by a loop.
            let wide = graph.operands(id).any(|v| {
                let cost = costs[v.0 as usize];
                users[v.0 as usize] > 1
                    || !once && (cost.heavy || cost.ops > policy.thresholds.reuse_ops)
            });
            if empty || count == 1 || (short && !arg && !wide) {
                realized.inline_reduction[i] = true;
                times = count.max(1) as u32;
            } else {
                store(&mut realized, &mut costs, id);
                continue;
            }
        }
        // ir C5: what follows a scan cannot compute an element of it alone.
        let runs = |scan: &Scan| scan::length(&node.shape, scan.dim) > 1;
        if op.as_scan().is_some_and(runs) {
            store(&mut realized, &mut costs, id);
            continue;
        }
        if scatters {
            if let Some(Operand::Value(x)) = node.args.first().copied() {
                need_memory(graph, &mut realized, &mut costs, x);
            }
            // One thread walks what may meet at one place: it is not to wait for costly functions.
            let serial = scatter::rows(graph, op, node) < policy.thresholds.split_rows;
            for operand in graph.operands(id).skip(1) {
                if serial && costs[operand.0 as usize].heavy {
                    need_memory(graph, &mut realized, &mut costs, operand);
                }
            }
            store(&mut realized, &mut costs, id);
            continue;
        }
        if op.class() == Class::Gather {
            // An indexed value is recomputed per index only where that is cheap. Its reads are random ones, too.
            if let Some(Operand::Value(x)) = node.args.first().copied() {
                let of = costs[x.0 as usize];
                let again = node.shape.numel() > graph.node(x).shape.numel();
                if of.ops > 4 || of.heavy || again && of.ops > 0 && of.reads > 1 {
                    need_memory(graph, &mut realized, &mut costs, x);
                }
            }
        }
        for operand in graph.operands(id) {
            if expanded::is_expanded(graph, policy, (operand, costs[operand.0 as usize]), id) {
                need_memory(graph, &mut realized, &mut costs, operand);
            }
        }
        let cost = Cost::of(graph, &costs, id, times);
        costs[i] = cost;
        let shared = users[i] > 1;
        let frees = shared
            && cost.reads > 1
            && !op.is_view()
            && lasts.frees_several(graph, &realized, id, policy.thresholds.freed_values);
        let is_costly = |cost: Cost| {
            let thresholds = &policy.thresholds;
            let reused = (cost.reads > thresholds.reuse_reads
                || cost.ops > thresholds.reuse_ops
                || cost.heavy)
                && (cost.reads > 0 || cost.heavy);
            shared && (reused || cost.reads > 1 && frees)
                || cost.reads > thresholds.reads
                || cost.ops >= thresholds.ops
        };
        let mut costly = is_costly(cost);
        if costly && summed.contains(&id) {
            let operands = expanded::smaller_operands(graph, &costs, id);
            let without = expanded::cost_of_reading(graph, &mut costs, &operands, (id, times));
            if !operands.is_empty() && !is_costly(without) {
                for v in operands {
                    need_memory(graph, &mut realized, &mut costs, v);
                    // Views of what is stored now are read where it lies.
                    costs[v.0 as usize] = Cost::STORED;
                }
                costs[i] = without;
                costly = false;
            }
        }
        let cost = costs[i];
        let carried = shared && carries_a_number(graph, &users, &costs, id);
        let again = read_again.contains(&id);
        if ((costly || carried || again) && !policy.choice.computes_again(id))
            || (policy.choice.stores(id) && cost.ops > 0)
            || policy.given_up.stores(id)
            || cost.depth > 200
            || cost.reshapes > MOST_RESHAPES
        {
            need_memory(graph, &mut realized, &mut costs, id);
            // A view of what is stored now is read where it lies.
            costs[i] = Cost::STORED;
        }
        if !policy.target.library.is_complete()
            && let Some(bias) = biased::bias_of(graph, &users, id)
        {
            need_memory(graph, &mut realized, &mut costs, bias);
            store(&mut realized, &mut costs, id);
            realized.biased.insert(id);
        }
        let computed = !op.is_view() && graph.operands(id).next().is_some();
        if output[i] || (computed && !realized.is_stored(id) && !may_fuse()) {
            need_memory(graph, &mut realized, &mut costs, id);
        }
    }
    pieces::place(graph, &mut realized, &users, policy);
    realized
}

/// Whether the node is a number that follows from another number that others read too, as the counter of an optimiser's
/// steps does. Kernels that computed such a chain from its beginning would differ in its length alone, and all be compiled.
fn carries_a_number(graph: &Graph, users: &[u32], costs: &[Cost], id: ValueId) -> bool {
    let is_number = |id: ValueId| graph.node(id).shape.numel() == 1;
    let is_carried =
        |v: ValueId| is_number(v) && users[v.0 as usize] > 1 && costs[v.0 as usize].ops > 0;
    let computed = graph.node(id).operator().is_some_and(|op| !op.is_view());
    computed && is_number(id) && graph.operands(id).any(is_carried)
}

fn store(realized: &mut Realized, costs: &mut [Cost], id: ValueId) {
    realized.stored[id.0 as usize] = true;
    costs[id.0 as usize] = Cost::STORED;
}

/// By value, whether library calls and attention, which read `operands`, read it in parts alone: views that together have as
/// many elements.
fn read_in_parts(graph: &Graph, operands: impl Iterator<Item = ValueId>) -> Vec<bool> {
    let n = graph.nodes().len();
    // Elements of the views that are a value's only users, and whether calls read views of it.
    let (mut elements, mut called) = (vec![Some(0usize); n], vec![false; n]);
    for operand in operands {
        called[operand.0 as usize] = true;
    }
    for (i, node) in graph.nodes().iter().enumerate().rev() {
        let view = node.is(Op::is_view);
        let reads = match view {
            true => called[i],
            false => node.is_of(Class::Library),
        };
        for operand in graph.operands(ValueId(i as u32)) {
            let at = operand.0 as usize;
            called[at] |= reads;
            let size = (view && reads).then_some(node.shape.numel());
            elements[at] = elements[at].zip(size).map(|(all, size)| all + size);
        }
    }
    let all = graph.nodes().iter().zip(&elements);
    all.map(|(node, elements)| elements.is_some_and(|n| n >= node.shape.numel()))
        .collect()
}

/// Makes the node a window on stored memory: through its views where they keep every element, or others that are read so
/// keep the rest; else by storing it.
fn need_memory(graph: &Graph, realized: &mut Realized, costs: &mut [Cost], id: ValueId) {
    if realized.window(graph, id).is_some() {
        return;
    }
    let mut base = id;
    loop {
        let node = graph.node(base);
        let (NodeOp::Op(op), Some(Operand::Value(from))) = (&node.op, node.args.first()) else {
            break;
        };
        let part = graph.node(*from).shape.numel() > node.shape.numel();
        if !op.is_view() || part && !realized.in_parts[from.0 as usize] {
            break;
        }
        base = *from;
    }
    // Storing the base helps only if the views between can be expressed by strides.
    let was = std::mem::replace(&mut realized.stored[base.0 as usize], true);
    if realized.window(graph, id).is_some() {
        store(realized, costs, base);
    } else {
        realized.stored[base.0 as usize] = was;
        store(realized, costs, id);
    }
}

/// Makes the node lie in memory as its dimensions do, for a library that takes it so alone: what is not stored is stored
/// by itself, whatever views it is, and so is what an input lies otherwise as. What is stored already may come to lie so
/// yet, and is copied otherwise when the plan runs.
fn need_dense(graph: &Graph, realized: &mut Realized, costs: &mut [Cost], id: ValueId) {
    let is_right = match realized.window(graph, id) {
        Some((Source::Input(_), layout)) => layout.is_contiguous(),
        Some((Source::Node(_), _)) => true,
        None => false,
    };
    if !is_right {
        store(realized, costs, id);
    }
}
