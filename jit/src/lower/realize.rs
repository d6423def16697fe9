//! Which values are stored and which are recomputed where they are used (ir B8-B12, codegen B2).

use super::attention::{self, Found};
use super::layout::{self, Order};
use super::lifetime::LastUse;
use super::pieces::{self, Piece, Pieces};
use super::update::{self, Write};
use super::{scan, scatter};
use crate::bisect::may_fuse;
use crate::body::Source;
use crate::graph::{Graph, Node, NodeOp};
use crate::schedule::{GivenUp, Refusal};
use crate::tune::Choice;
use ferrotrace_kernels::{Op, Operand, ReduceKind, ValueId, ops::view};
use ferrotrace_runtime::Layout;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Thresholds of storing and fusing.
#[derive(Clone, Debug)]
pub struct Limits {
    /// A value of several users that reads more buffers than this is stored (ir B9).
    pub reuse_reads: u32,
    /// A value of several users with more operations than this is stored (ir B9).
    pub reuse_ops: u32,
    /// A value that reads more buffers than this is stored (ir B11).
    pub reads: u32,
    /// A value with more operations than this is stored (codegen B2.7).
    pub ops: u32,
    /// Reductions of fewer elements become straight-line code (ir R8).
    pub unroll: usize,
    /// The same of reductions over windows, whose rows share what they read.
    pub window: usize,
    /// What windows that overlap are of is stored if it has more operations and reads than this.
    pub window_ops: u32,
    /// Concatenations of more operands are copied (ir `max_pointwise_cat_inputs`).
    pub cat: usize,
    /// The parts of a concatenation are written in place where that saves this many bytes a part, or leaves nothing else
    /// to do; `u64::MAX`: never.
    pub cat_bytes: u64,
    /// Whether slices are written over what they are assigned to.
    pub updates: bool,
    /// A value of at least so many bytes, which does not stay in the cache, is computed again by the kernel that reads it
    /// even if that takes a costly function: an `exp` takes 0.2 ns, writing and reading a float 0.8 ns.
    pub again_bytes: u64,
    /// Most nests of one fused node (scheduler L-14).
    pub fusion_nests: usize,
    /// Most operations of one fused node.
    pub fusion_ops: usize,
    /// Calls of one costly function in a kernel from which it is not inlined: compiling 30 inlined sines takes 0.4 s, 30
    /// calls 0.05 s.
    pub outlined_calls: usize,
    /// Bytes of a table whose gathered rows are asked for ahead, at least. Rows of a smaller one come from a cache, and asking
    /// takes longer than reading them: sums of 32 rows each of a table of 1.3 MB take 0.62 to 0.72 of the time without it, of
    /// one of 51 MB 1.05 to 1.07.
    pub prefetched_table: usize,
    /// Most buffers that a fused node may read and write (scheduler L-18): a device takes at most 32 KiB of arguments, 8
    /// bytes of which are a buffer's address and some more its strides.
    pub fusion_buffers: usize,
    /// Most other nodes each node is compared with through one buffer (scheduler F-11).
    pub pairs: usize,
    /// Most rounds of fusion (scheduler F-01).
    pub rounds: usize,
    /// Horizontal fusion must share at least this many bytes (scheduler L-17).
    pub shared_bytes: u64,
    /// Nodes further apart are not fused horizontally (scheduler L-16).
    pub distance: usize,
    /// Fusing may hold more memory at once by this many times the bytes that it saves (scheduler B-12).
    pub veto_factor: u64,
    /// And by this many bytes in any case: a launch costs as much time.
    pub veto_bytes: u64,
    /// Most steps that could run next of which the one that needs least memory is looked for (scheduler B-16).
    pub ready: usize,
    /// A reduction into fewer results than this over a large input is split into chunks.
    pub split_rows: usize,
    /// Elements from which such a reduction is split.
    pub split_elements: usize,
    /// Values of fewer elements are stored row-major, whatever they read (ir L12).
    pub order_elements: usize,
    /// A scan of at least this many elements a row is split into blocks by the ready-made kernel (ir C4), if there are
    /// fewer rows than `scan_rows`.
    pub scan_length: usize,
    /// Rows from which scans of any length are generated loops.
    pub scan_rows: usize,
    /// Elements from which a source that is written lane by lane on one thread is computed before, on all threads, for
    /// a ready-made kernel: 2^20 products into as many zeros take 2.7 ms so, and 4.1 ms in one loop.
    pub serial_scatter: usize,
    /// Whether running sums in eager mode's order, along rows that lie in memory as they are scanned, are generated loops.
    pub in_order_scans: bool,
    /// Whether scatters are.
    pub scatters: bool,
    /// Floats that may be added to one place of a scatter one after another: more are for the ready-made kernel, which
    /// keeps what is lost where many do meet.
    pub meeting: usize,
    /// Most kernels of one combined launch; 1 launches each alone (scheduler C-08).
    pub combined_members: usize,
    /// Kernels of less work than this each, on average, in bytes moved, are launched alone, where they are few: preparing a
    /// launch of several costs more than a second thread saves (scheduler C-09).
    pub combined_least: u64,
    /// So many kernels share a launch however small they are. On two processors with AVX-512 (x86-64), 2 updates of 8 to
    /// 5,000 elements took 1.2 times as long together as alone, 8 as long, 100 of them 0.8 (one thread) and 0.5 (two).
    pub combined_many: usize,
    /// A kernel of more work than this, in bytes moved, is launched alone (scheduler C-13).
    pub combined_work: u64,
    /// A launch or call of less work than this, in bytes moved, is done by one thread. On two processors (x86-64) a second
    /// one, awake, saved nothing below 64 KiB (2 to 10 µs alone), a third of a softmax at 128 KiB, where one asleep costs
    /// more, nothing of products up to 128 KiB; and a half above 256 KiB.
    pub solo_work: u64,
    /// Most bytes by which a combined launch may exceed what its members, launched one by one, would keep.
    pub combined_held: usize,
    /// Kernels that read a tensor of at least so many bytes go through it together, slice by slice (scheduler X2-04).
    pub abreast_bytes: usize,
    /// Bytes of a slice, where the kernels can be cut so finely: it stays in the second cache from one to the next.
    pub abreast_slice: usize,
    /// Fewest launches in a row on a device that become a graph (scheduler G-08): launching one takes the host less
    /// time than two launches.
    pub graph_least: usize,
    /// Runs of a plan before that: making a graph takes as long as some runs.
    pub graph_runs: u32,
    /// Most graphs for the same launches, for inputs whose memory is shared or given away differently.
    pub graph_forms: usize,
    /// A kernel before a product computes its operand panel by panel if the other side of the product has at most so many
    /// rows or columns (scheduler T-02).
    pub prologue_short: usize,
    /// And the side that panels cut at least so many: two panels of columns.
    pub prologue_long: usize,
    /// At its peak a plan holds at most one part in so many more than the recorded operations one by one: fusions are
    /// given up until it does. With 0 it may hold whatever it likes.
    pub held_share: u64,
    /// It may hold so many bytes more in any case, a page of memory: a launch costs more.
    pub held_least: u64,
    /// In at most so many rounds.
    pub held_rounds: usize,
    /// The fusions that were given up.
    pub given_up: Arc<GivenUp>,
    /// Whether sums about a mean may share the split pass that computes the mean: where the emitter merges moments.
    pub moments: bool,
    /// Indices of a device's plan of at least this much work, in bytes moved, are checked ahead of it.
    pub checked_ahead: u64,
    /// And by kernels that move at most one in so many bytes of what the plan moves.
    pub checked_share: u64,
    /// Most bytes that a block of attention may share; 0 where there is no such kernel.
    pub attention: usize,
    /// The compute capability of the device for which products of half precision with what follows them are generated,
    /// as 90 for 9.0; 0 where none are.
    pub products: u32,
    /// Its multiprocessors.
    pub multiprocessors: usize,
    /// Operations of a product that take as long as moving a byte: 700 TFLOP/s by 4.2 TB/s, and about the same since
    /// Ampere.
    pub product_work: u64,
    /// Bytes moved in the time that a launch of its own costs: 3 µs.
    pub product_launch: u64,
    /// Bytes moved in the time in which what follows is done to a column of a tile.
    pub product_follow: u64,
    /// By how many percent a generated product is slower than the library's: of groups of warps, of warps.
    pub product_deficit: [u64; 2],
    /// Fewest rows, columns and terms of a generated product.
    pub product_least: usize,
    /// Most rows of a generated product that reads its operands from memory into registers.
    pub stream_rows: usize,
    /// By how many percent it takes longer than moving its bytes.
    pub stream_deficit: u64,
    /// Bytes moved in the time in which an element of its right operand is computed and multiplied.
    pub stream_element: u64,
    /// How many times as fast as memory the second cache is: each block reads rows of the left matrix from it.
    pub stream_cached: u64,
    /// Decisions that measuring made otherwise.
    pub choice: Choice,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            reuse_reads: 4,
            reuse_ops: 30,
            reads: 8,
            ops: 100,
            unroll: 8,
            window: 10,
            window_ops: 2,
            cat: 8,
            cat_bytes: 1 << 14,
            updates: true,
            again_bytes: 8 << 20,
            fusion_nests: 64,
            fusion_ops: 160,
            outlined_calls: 8,
            prefetched_table: 32 << 20,
            fusion_buffers: 256,
            pairs: 64,
            rounds: 10,
            shared_bytes: 10,
            distance: 64,
            veto_factor: 32,
            veto_bytes: 1 << 16,
            ready: 64,
            split_rows: 4,
            split_elements: 1 << 16,
            order_elements: 1 << 12,
            scan_length: 1 << 16,
            scan_rows: 16,
            serial_scatter: 1 << 14,
            in_order_scans: false,
            scatters: true,
            meeting: 2048,
            combined_members: 64,
            combined_least: 16 << 10,
            combined_many: 8,
            combined_work: 64 << 20,
            solo_work: 128 << 10,
            combined_held: 0,
            abreast_bytes: 16 << 20,
            abreast_slice: 256 << 10,
            graph_least: 2,
            graph_runs: 2,
            graph_forms: 4,
            prologue_short: 256,
            prologue_long: 192,
            held_share: 16,
            held_least: 4096,
            held_rounds: 12,
            given_up: Arc::default(),
            moments: true,
            checked_ahead: 1 << 20,
            checked_share: 16,
            attention: 0,
            products: 0,
            multiprocessors: 132,
            product_work: 160,
            product_launch: 12 << 20,
            product_follow: 150_000,
            product_deficit: [20, 35],
            product_least: 64,
            stream_rows: 32,
            stream_deficit: 30,
            stream_element: 4,
            stream_cached: 2,
            choice: Choice::default(),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Cost {
    ops: u32,
    reads: u32,
    depth: u32,
    heavy: bool,
}

/// The decision for each node.
#[derive(Clone, Debug)]
pub struct Realized {
    pub(super) stored: Vec<bool>,
    pub(super) call: Vec<bool>,
    inline_reduction: Vec<bool>,
    /// Values that a kernel of its own computes.
    pub(super) apart: FxHashSet<ValueId>,
    /// Values not stored row-major.
    orders: FxHashMap<ValueId, Order>,
    pub(super) pieces: Pieces,
    /// Assignments written over what they are assigned to.
    writes: FxHashMap<ValueId, Write>,
    /// Attention, by its result, and the nodes that are computed within.
    attentions: FxHashMap<ValueId, Found>,
    inside: Vec<bool>,
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
            layout = match view::view_map(op, layout.shape(), &node.shape) {
                Some(map) => map.apply(&layout, &node.shape),
                None => layout.reshape(&node.shape)?,
            };
        }
        Some((source, layout))
    }
}

impl Realized {
    fn find_attention(&mut self, graph: &Graph, limits: &Limits) {
        let (found, refusals) = attention::find(graph, limits);
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
    fn place_attention(&mut self, graph: &Graph, costs: &mut [Cost], id: ValueId) -> bool {
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
            let product = matches!(graph.node(id).op, NodeOp::Op(Op::Matmul));
            if !product
                && !self.is_inside_attention(operand)
                && !attention::is_light(graph, self, operand)
            {
                need_memory(graph, self, costs, operand);
            }
        }
        true
    }
}

/// Whether only a ready-made kernel computes the operator.
fn is_library(graph: &Graph, op: &Op, limits: &Limits, node: &Node) -> bool {
    match op {
        Op::IndexPut { .. } | Op::Scatter { .. } => {
            scatter::is_library_scatter(graph, op, node, limits)
        }
        Op::Scan { kind, dim } => scan::is_library_scan(node, *kind, *dim, limits),
        Op::Sort { .. }
        | Op::ArgSort { .. }
        | Op::TopK { .. }
        | Op::ArgTopK { .. }
        | Op::Matmul
        | Op::Conv(_)
        | Op::Correlate(_)
        | Op::Pool(_)
        | Op::AdaptiveAvgPool { .. }
        | Op::Interpolate { .. }
        | Op::Composite(_) => true,
        Op::Cat { .. } => node.args.len() > limits.cat,
        _ => false,
    }
}

/// Decides for each node of a simplified graph whether it is stored.
pub fn realize(graph: &Graph, limits: &Limits) -> Realized {
    let n = graph.nodes().len();
    let mut realized = Realized {
        stored: vec![false; n],
        call: vec![false; n],
        inline_reduction: vec![false; n],
        apart: FxHashSet::default(),
        orders: FxHashMap::default(),
        pieces: Pieces::default(),
        writes: FxHashMap::default(),
        attentions: FxHashMap::default(),
        inside: vec![false; n],
        refusals: Vec::new(),
    };
    realized.find_attention(graph, limits);
    let mut users = vec![0u32; n];
    for i in 0..n {
        let mut seen: smallvec::SmallVec<[ValueId; 4]> =
            graph.operands(ValueId(i as u32)).collect();
        seen.sort_unstable();
        seen.dedup();
        for v in seen {
            users[v.0 as usize] += 1;
        }
    }
    let lasts = LastUse::of(graph);
    let assigns = |node: &Node| matches!(node.op, NodeOp::Op(Op::SliceAssign { .. }));
    let assigns = limits.updates && graph.nodes().iter().any(assigns);
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
        true => update::nested(graph, &users),
        false => Vec::new(),
    };
    let mut costs = vec![Cost::default(); n];
    for i in 0..n {
        let id = ValueId(i as u32);
        let node = graph.node(id);
        let NodeOp::Op(op) = &node.op else {
            store(&mut realized, &mut costs, id);
            continue;
        };
        if realized.place_attention(graph, &mut costs, id) {
            continue;
        }
        let scatters = matches!(op, Op::IndexPut { .. } | Op::Scatter { .. });
        let in_memory = |v: ValueId| realized.window(graph, v).is_some();
        let plain = scatters
            && (scatter::is_serial(graph, op, node, limits)
                || graph.operands(id).skip(1).all(in_memory)
                    && scatter::is_lane_by_lane(graph, op, node, 1));
        if plain || is_library(graph, op, limits, node) {
            realized.call[i] = true;
            for operand in graph.operands(id) {
                match matches!(op, Op::Correlate(_)) {
                    true => need_dense(graph, &mut realized, &mut costs, operand),
                    false => need_memory(graph, &mut realized, &mut costs, operand),
                }
            }
            store(&mut realized, &mut costs, id);
            continue;
        }
        let assigned =
            matches!(op, Op::SliceAssign { .. }) && assigns && !nested.get(i).is_some_and(|&n| n);
        if assigned
            && let Some(write) = update::written(graph, id)
            && !update::is_read_through(graph, &realized, &readers, id, &write)
        {
            need_memory(graph, &mut realized, &mut costs, write.base);
            let at = (id, write.base);
            for kept in update::kept_before(graph, &realized, &readers, &lasts, at) {
                store(&mut realized, &mut costs, kept);
            }
            realized.writes.insert(id, write);
            store(&mut realized, &mut costs, id);
            continue;
        }
        if matches!(op, Op::Barrier)
            && let Some(x) = graph.operands(id).next()
        {
            need_memory(graph, &mut realized, &mut costs, x);
            if let Some((Source::Node(stored), _)) = realized.window(graph, x) {
                realized.apart.insert(stored);
            }
        }
        let mut cost = Cost::default();
        let add = |cost: &mut Cost, from: Cost, times: u32| {
            cost.ops = cost.ops.saturating_add(from.ops.saturating_mul(times));
            cost.reads = cost.reads.saturating_add(from.reads.saturating_mul(times));
            cost.depth = cost.depth.max(from.depth);
            cost.heavy |= from.heavy;
        };
        let mut times = 1;
        if let Op::Reduce { kind, mask, .. } = op {
            let count = reduced_count(graph, id, *mask);
            // ir R7, R8, R9: one element, or a few into more than one result.
            let windowed = match count < limits.window {
                true => windowed(graph, id),
                false => None,
            };
            let least = match windowed {
                Some(_) => limits.window,
                None => limits.unroll,
            };
            // An element of windows that overlap is computed for each of them, one of others once.
            let mut once = false;
            if let Some(windows) = &windowed {
                let of = costs[windows.of.0 as usize];
                let overlap = graph.node(windows.of).shape.numel() < count * node.shape.numel();
                if overlap && (of.heavy || of.ops + of.reads > limits.window_ops) {
                    need_memory(graph, &mut realized, &mut costs, windows.of);
                    if windows.plain {
                        for operand in graph.operands(id) {
                            costs[operand.0 as usize] = costs[windows.of.0 as usize];
                        }
                    }
                }
                once = windows.plain && !overlap;
            }
            let short = count == 1 || (count < least && node.shape.numel() != 1);
            let empty = count == 0;
            let arg = matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin);
            // A value of several users, or a costly one, is better read once by a loop.
            let wide = graph.operands(id).any(|v| {
                let cost = costs[v.0 as usize];
                users[v.0 as usize] > 1 || !once && (cost.heavy || cost.ops > limits.reuse_ops)
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
        if matches!(op, Op::Scan { dim, .. } if scan::length(&node.shape, *dim) > 1) {
            store(&mut realized, &mut costs, id);
            continue;
        }
        if matches!(op, Op::IndexPut { .. } | Op::Scatter { .. }) {
            if let Some(Operand::Value(x)) = node.args.first().copied() {
                need_memory(graph, &mut realized, &mut costs, x);
            }
            // One thread walks what may meet at one place: it is not to wait for costly functions.
            let serial = scatter::rows(graph, op, node) < limits.split_rows;
            for operand in graph.operands(id).skip(1) {
                if serial && costs[operand.0 as usize].heavy {
                    need_memory(graph, &mut realized, &mut costs, operand);
                }
            }
            store(&mut realized, &mut costs, id);
            continue;
        }
        if matches!(op, Op::Gather { .. } | Op::Index { .. }) {
            // An indexed value is recomputed per index only where that is cheap.
            if let Some(Operand::Value(x)) = node.args.first().copied() {
                let of = costs[x.0 as usize];
                if of.ops > 4 || of.heavy {
                    need_memory(graph, &mut realized, &mut costs, x);
                }
            }
        }
        for operand in graph.operands(id) {
            add(&mut cost, costs[operand.0 as usize], times);
        }
        cost.depth += 1;
        if !op.is_view() {
            cost.ops = cost.ops.saturating_add(times);
        }
        cost.heavy |= match op {
            Op::Unary(op) => op.heavy(),
            Op::Binary(op) => op.heavy(),
            Op::Random { .. } => true,
            _ => false,
        };
        costs[i] = cost;
        let reused = users[i] > 1
            && (cost.reads > limits.reuse_reads || cost.ops > limits.reuse_ops || cost.heavy)
            && (cost.reads > 0 || cost.heavy);
        let frees = || lasts.frees_several(graph, &realized, id);
        let costly = reused
            || (users[i] > 1 && cost.reads > 1 && !op.is_view() && frees())
            || cost.reads > limits.reads
            || cost.ops >= limits.ops;
        if (costly && !limits.choice.computes_again(id))
            || (limits.choice.stores(id) && cost.ops > 0)
            || limits.given_up.stores(id)
            || cost.depth > 200
        {
            need_memory(graph, &mut realized, &mut costs, id);
        }
        let computed = !op.is_view() && graph.operands(id).next().is_some();
        if output[i] || (computed && !realized.is_stored(id) && !may_fuse()) {
            need_memory(graph, &mut realized, &mut costs, id);
        }
    }
    pieces::place(graph, &mut realized, &users, limits);
    realized
}

fn store(realized: &mut Realized, costs: &mut [Cost], id: ValueId) {
    realized.stored[id.0 as usize] = true;
    costs[id.0 as usize] = Cost {
        reads: 1,
        ..Cost::default()
    };
}

/// Makes the node a window on stored memory: through its views where they keep every element, else by storing it.
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
        if !op.is_view() || graph.node(*from).shape.numel() > node.shape.numel() {
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

/// What a reduction goes through window by window.
struct Windows {
    /// What they are windows of; of several, one.
    of: ValueId,
    /// Whether its elements themselves are reduced.
    plain: bool,
}

/// The windows that a reduction's operand is made of by pointwise operators and views, if it is.
fn windowed(graph: &Graph, id: ValueId) -> Option<Windows> {
    let mut next: Vec<ValueId> = graph.operands(id).collect();
    let (mut found, mut plain) = (None, true);
    for _ in 0..32 {
        let Some(v) = next.pop() else { break };
        match &graph.node(v).op {
            NodeOp::Op(Op::Unfold { .. }) => {
                found = graph.operands(v).next();
                next = found.into_iter().collect();
            }
            NodeOp::Op(Op::Pad(_)) if found == Some(v) => {
                found = graph.operands(v).next();
            }
            NodeOp::Op(op)
                if found.is_none()
                    && (op.is_view() || matches!(op, Op::Cast(_) | Op::Binary(_))) =>
            {
                plain &= !matches!(op, Op::Binary(_));
                next.extend(graph.operands(v));
            }
            _ => {}
        }
    }
    found.map(|of| Windows { of, plain })
}

/// Elements reduced into one result.
pub(super) fn reduced_count(graph: &Graph, id: ValueId, mask: u64) -> usize {
    let Some(x) = graph.operands(id).next() else {
        return 0;
    };
    let shape = &graph.node(x).shape;
    (0..shape.rank())
        .filter(|d| mask >> d & 1 == 1)
        .map(|d| shape[d])
        .product()
}
