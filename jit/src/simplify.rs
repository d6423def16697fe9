//! From the recorded graph to one of primitive operators: composites decomposed, equal nodes merged, unused ones gone.
//! For a device, what only the CPU has ready-made kernels for is decomposed too.

mod accumulated;
mod aligned;
mod convolution;
mod correlation;
mod device;
mod hoisted;
mod nested;
mod ordering;
mod parts;
mod phases;
mod products;
mod rounding;
mod scattering;
mod shaping;
mod turned;
mod windows;

use crate::graph::{Graph, Node, NodeOp, Precision, Rounding};
use crate::policy::Policy;
use ferrotrace_kernels::op::{Cast, Gather, Unrounded};
use ferrotrace_kernels::ops::pool::definition as pooling;
use ferrotrace_kernels::{Composite, Op, OpBuilder, OpBuilderExt, Operand, ReduceKind, ValueId};
use ferrotrace_runtime::{DType, Error, Result, Scalar, Shape};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

pub use aligned::aligned;
pub(crate) use hoisted::hoisted;
pub(crate) use parts::are_better_apart;

/// Builds the simplified graph: an [`OpBuilder`] that decomposes and merges what is pushed.
struct Simplifier<'a> {
    graph: Graph,
    precision: Precision,
    /// Whether what is appended gives its sums as computed.
    unrounded: bool,
    /// By hash of operator, operands, precision and rounding. Of several with one hash the last is known.
    known: FxHashMap<u64, ValueId>,
    policy: &'a Policy,
    /// Whether what is pushed scatters by an index that other nodes scatter by too.
    shares_index: bool,
    /// Whether a reader of what is pushed stores in an order of its own.
    read_in_order: bool,
    /// Whether what is pushed defines an operator that the device computes by one kernel, which needs its products as products.
    one_kernel: bool,
}

impl OpBuilder for Simplifier<'_> {
    fn shape(&self, value: ValueId) -> &Shape {
        self.graph.shape(value)
    }

    fn dtype(&self, value: ValueId) -> DType {
        self.graph.dtype(value)
    }

    fn push(&mut self, op: Op, operands: &[Operand]) -> Result<ValueId> {
        if self.is_for_device()
            && let Some(defined) = device::define(&op, self, operands)
        {
            return defined;
        }
        if let Some(Unrounded(op)) = op.as_unrounded() {
            return self.unrounded((**op).clone(), operands);
        }
        if let Some(composite) = op.as_composite().map(Composite::entry)
            && !composite.has_kernel()
        {
            return composite.define(self, operands);
        }
        if let Some(of) = op.as_reduce().filter(|of| of.kind == ReduceKind::Mean) {
            return self.mean(of.mask, of.keepdim, operands);
        }
        let (sizes, taps) = (self.sizes(operands), self.taps());
        if let Some(spec) = op
            .as_pool()
            .filter(|spec| windows::are_loops(spec, &sizes, taps))
        {
            return pooling::define(spec, self, operands);
        }
        let adaptive = op.as_adaptive_avg_pool();
        if let Some(pool) = adaptive.filter(|of| windows::are_adaptive_loops(of.size, &sizes, taps))
        {
            return pooling::adaptive(pool.size, self, operands);
        }
        if let Some((source, dtype)) = self.written_whole(&op, operands) {
            // A copy lies row-major, as what is assigned to does; a conversion lies as its operand.
            let source = self.cast(source, dtype)?;
            return self.keep(Op::from(Cast(dtype)), &[source.into()]);
        }
        let read_once = |of: &Self| of.is_for_device() && of.is_read_once(operands);
        let is_sum = |of: &Self| !of.one_kernel && of.is_small(operands) || read_once(of);
        if op.is_matmul() && is_sum(self) {
            return self.sum_of_products(operands);
        }
        if op.is_matmul() && self.policy.target.tiles && self.is_by_tiles(operands)? {
            return self.product_by_tiles(op, operands);
        }
        if !self.is_for_device()
            && !self.read_in_order
            && let Some(scan) = op.as_scan()
            && let Some(scanned) = self.scan_in_order(scan, operands)?
        {
            return Ok(scanned);
        }
        if let Some(reduce) = op.as_reduce()
            && let Some(reduced) = self.reduction_in_order(reduce, operands)?
        {
            return Ok(reduced);
        }
        if op.is_matmul()
            && !self.is_for_device()
            && let Some(dtype) = self.copied_to(operands)?
        {
            return self.product_of_casts(operands, dtype);
        }
        self.keep(op, operands)
    }
}

impl Simplifier<'_> {
    fn is_for_device(&self) -> bool {
        !self.policy.target.library.is_complete()
    }

    /// Elements of a window up to which a pool is a loop.
    fn taps(&self) -> usize {
        self.policy.thresholds.pool_taps
    }

    /// The sizes of the first operand.
    fn sizes(&self, operands: &[Operand]) -> Shape {
        match operands.first() {
            Some(Operand::Value(x)) => self.shape(*x).clone(),
            _ => Shape::default(),
        }
    }

    /// What an assignment to a slice writes, and the dtype that it gets, where it leaves nothing of the tensor.
    fn written_whole(&self, op: &Op, operands: &[Operand]) -> Option<(ValueId, DType)> {
        let slice = op.as_slice_assign()?.slice();
        let [Operand::Value(x), Operand::Value(source), ..] = *operands else {
            return None;
        };
        let shape = self.shape(x);
        let whole = slice.span(shape) == (0, shape[slice.dim]) && slice.step == 1;
        (whole && self.shape(source) == shape).then(|| (source, self.dtype(x)))
    }

    /// Appends an operator as it is, or finds the equal one.
    fn keep(&mut self, op: Op, operands: &[Operand]) -> Result<ValueId> {
        let mut hasher = FxHasher::default();
        (&op, self.precision, self.unrounded).hash(&mut hasher);
        for operand in operands {
            operand_key(operand).hash(&mut hasher);
        }
        let hash = hasher.finish();
        if let Some(&value) = self.known.get(&hash)
            && self.is(value, &op, operands)
        {
            return Ok(value);
        }
        let value = self.graph.push(op, operands)?;
        if self.unrounded && self.dtype(value).is_half() {
            self.graph.set_rounding(value, Rounding::Never);
        }
        self.known.insert(hash, value);
        Ok(value)
    }

    /// Whether a node is that operator of those operands.
    fn is(&self, value: ValueId, op: &Op, operands: &[Operand]) -> bool {
        let node = self.graph.node(value);
        let keys = operands.iter().map(operand_key);
        matches!(&node.op, NodeOp::Op(known) if known == op)
            && node.precision == self.precision
            && (node.rounding == Rounding::Never) == (self.unrounded && node.dtype.is_half())
            && node.args.iter().map(operand_key).eq(keys)
    }

    /// A product or convolution as it was summed.
    fn unrounded(&mut self, op: Op, operands: &[Operand]) -> Result<ValueId> {
        let within = std::mem::replace(&mut self.unrounded, true);
        let sum = self.push(op, operands);
        self.unrounded = within;
        let sum = sum?;
        self.cast(sum, self.dtype(sum).compute())
    }

    /// Σ / n in the accumulator's type, rounded once.
    fn mean(&mut self, mask: u64, keepdim: bool, operands: &[Operand]) -> Result<ValueId> {
        let Some(Operand::Value(x)) = operands.first().copied() else {
            return Err(Error::argument("mean needs a tensor"));
        };
        let dtype = self.dtype(x);
        let shape = self.shape(x);
        let count: usize = (0..shape.rank())
            .filter(|d| mask >> d & 1 == 1)
            .map(|d| shape[d])
            .product();
        let wide = self.cast(x, dtype.compute())?;
        let sum = self.reduce(ReduceKind::Sum, wide, mask, keepdim)?;
        let mean = self.div(sum, count as f64)?;
        self.cast(mean, dtype)
    }
}

fn operand_key(operand: &Operand) -> (u8, u64) {
    match operand {
        Operand::Value(v) => (0, v.0 as u64),
        Operand::Slot(s, _) => (1, *s as u64),
        Operand::Const(Scalar::Bool(b)) => (2, *b as u64),
        Operand::Const(Scalar::Int(i)) => (3, *i as u64),
        Operand::Const(Scalar::Float(f)) => (4, f.to_bits()),
    }
}

/// Which nodes some output needs.
fn live_nodes(graph: &Graph) -> Vec<bool> {
    let mut live = vec![false; graph.nodes().len()];
    for output in graph.outputs() {
        live[output.0 as usize] = true;
    }
    for v in (0..live.len()).rev() {
        if live[v] {
            for operand in graph.operands(ValueId(v as u32)) {
                live[operand.0 as usize] = true;
            }
        }
    }
    live
}

/// Which nodes are results, or what results are views of: these lie in memory as they were recorded.
fn seen_nodes(graph: &Graph) -> Vec<bool> {
    let mut seen = vec![false; graph.nodes().len()];
    for output in graph.outputs() {
        seen[output.0 as usize] = true;
    }
    for v in (0..seen.len()).rev() {
        let is_view = graph.nodes()[v].is(Op::is_view);
        if let Some(x) = graph.operands(ValueId(v as u32)).next().filter(|_| is_view) {
            seen[x.0 as usize] |= seen[v];
        }
    }
    seen
}

/// A node's operands in the graph that `map` leads to.
fn mapped(node: &Node, map: &[ValueId]) -> SmallVec<[Operand; 3]> {
    let of = |arg: &Operand| match arg {
        Operand::Value(x) => Operand::Value(map[x.0 as usize]),
        number => *number,
    };
    node.args.iter().map(of).collect()
}

/// What a node copies as it is.
fn copied(graph: &Graph, node: &Node) -> Option<ValueId> {
    let to = node.operator()?.as_cast()?;
    let Operand::Value(x) = *node.args.first()? else {
        return None;
    };
    (graph.dtype(x) == to).then_some(x)
}

/// How often live nodes have each node for an operand and the graph for a result.
fn uses(graph: &Graph, live: &[bool]) -> Vec<usize> {
    let mut uses = vec![0usize; live.len()];
    let used = (0..live.len()).filter(|&v| live[v]);
    let operands = used.flat_map(|v| graph.operands(ValueId(v as u32)));
    for node in operands.chain(graph.outputs().iter().copied()) {
        uses[node.0 as usize] += 1;
    }
    uses
}

/// For each node that gathers a tensor by the positions that sort it, or those of its first elements in order, where
/// nothing else needs these, the operator that gives the same; the positions are not live any more.
fn sorts_of_values(graph: &Graph, live: &mut [bool]) -> Vec<Option<Op>> {
    let uses = uses(graph, live);
    let mut sorts = vec![None; live.len()];
    for (v, node) in graph.nodes().iter().enumerate() {
        let Some(Gather { dim }) = node.operator().and_then(Op::as_gather) else {
            continue;
        };
        let [Operand::Value(x), Operand::Value(order)] = node.args[..] else {
            continue;
        };
        let by = graph.node(order);
        let Some(by_op) = by.operator() else { continue };
        let (Some(values), Some(of)) = (by_op.of_values(), by_op.positions_in()) else {
            continue;
        };
        let same = matches!(by.args[..], [Operand::Value(y)] if y == x) && of == 1 << dim;
        if live[v] && same && uses[order.0 as usize] == 1 {
            live[order.0 as usize] = false;
            sorts[v] = Some(values);
        }
    }
    sorts
}

/// Decomposes composites and means, merges equal nodes (they have equal operators, operands and precision), and drops
/// nodes no output needs. Inputs keep their numbers.
///
/// # Errors
/// A decomposition's operators refuse their operands; the error names the composite.
pub fn simplify(graph: &Graph) -> Result<Graph> {
    simplify_for(graph, &Policy::of(&graph.device()))
}

/// Simplifies a graph as [`simplify`] does, by a policy: operators for which its target has no ready-made kernel are decomposed.
///
/// # Errors
/// The errors of [`simplify`].
pub fn simplify_for(graph: &Graph, policy: &Policy) -> Result<Graph> {
    let mut live = live_nodes(graph);
    let sorts = match policy.target.library.is_complete() {
        true => sorts_of_values(graph, &mut live),
        false => vec![None; live.len()],
    };
    let rounds = rounding::rounding(graph, &live);
    let seen = seen_nodes(graph);
    let nested = nested::nested(graph, &mut live, &rounds);
    let accumulated = accumulated::accumulated(graph, &mut live, &rounds, &policy.thresholds);
    let mut builder = Simplifier {
        graph: Graph::with_capacity(live.len()),
        precision: Precision::Fast,
        unrounded: false,
        known: FxHashMap::default(),
        policy,
        shares_index: false,
        read_in_order: false,
        one_kernel: false,
    };
    let shared = match builder.is_for_device() {
        true => scattering::share_indices(graph, &live),
        false => Vec::new(),
    };
    let read_in_order = turned::read_in_order(graph);
    builder.graph.set_device(&graph.device());
    let mut map = vec![ValueId(u32::MAX); live.len()];
    for (v, node) in graph.nodes().iter().enumerate() {
        if let NodeOp::Input(n) = node.op {
            // Every input stays, so that the plan's inputs are the trace's.
            let spec = &graph.inputs()[n as usize];
            map[v] = builder.graph.input(&spec.layout, spec.dtype, &spec.device);
        }
    }
    for (v, node) in graph.nodes().iter().enumerate() {
        let NodeOp::Op(op) = &node.op else { continue };
        if !live[v] {
            continue;
        }
        let args = mapped(node, &map);
        builder.precision = node.precision;
        builder.shares_index = shared.get(v).is_some_and(|shared| *shared);
        builder.read_in_order = read_in_order[v];
        builder.graph.set_origin(node.location, node.precision);
        builder.graph.set_recorded(ValueId(v as u32));
        let pushed = match (&sorts[v], &nested[v], &accumulated[v]) {
            // A copy makes a value dense, which nothing that computes with it sees.
            _ if !seen[v]
                && let Some(x) = copied(graph, node) =>
            {
                Ok(map[x.0 as usize])
            }
            (Some(sort), ..) => builder.push(sort.clone(), &args[..1]),
            (_, Some(both), _) => {
                let x = Operand::Value(map[both.operand.0 as usize]);
                nested::define(both, &mut builder, x)
            }
            (.., Some(what)) => {
                let ready =
                    !builder.is_for_device() && matches!(node.dtype, DType::F32 | DType::F64);
                accumulated::define(what, graph, &mut builder, ready, |x| map[x.0 as usize])
            }
            _ => builder.push(op.clone(), &args),
        };
        map[v] = pushed.map_err(|e| e.at(graph.context(ValueId(v as u32))))?;
        if rounds[v] {
            builder.graph.set_rounding(map[v], Rounding::Always);
        }
    }
    let outputs = graph.outputs().iter().map(|v| map[v.0 as usize]).collect();
    let for_device = builder.is_for_device();
    let mut simplified = builder.graph;
    simplified.set_outputs(outputs);
    match for_device {
        true => parts::parted(simplified, &policy.thresholds),
        false => Ok(simplified),
    }
}
