//! Which kernel computes which operation, and the memory traffic of both.

use crate::body::Source;
use crate::emit::Emitted;
use crate::graph::{Graph, NodeOp};
use crate::lower::CallArg;
use crate::plan::{Draft, Step};
use crate::schedule::bytes_read;
use ferrotrace_kernels::ValueId;
use std::collections::BTreeSet;

/// Bytes read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of the buffers read, each once.
    pub read: u64,
    /// Bytes of the buffers written.
    pub written: u64,
}

impl Traffic {
    /// Both together.
    pub fn total(self) -> u64 {
        self.read + self.written
    }

    /// Of two steps.
    pub(super) fn and(self, other: Traffic) -> Traffic {
        Traffic {
            read: self.read + other.read,
            written: self.written + other.written,
        }
    }
}

/// The steps that compute each node of the simplified graph, by node: several where it is computed again in each.
/// Inputs, and views that cost nothing, have none of their own.
pub(crate) fn steps_of_nodes(draft: &Draft) -> Vec<BTreeSet<usize>> {
    let mut steps = vec![BTreeSet::new(); draft.graph.nodes().len()];
    for (i, step) in draft.steps.iter().enumerate() {
        for node in stored(step) {
            steps[node.0 as usize].insert(i);
        }
    }
    let is_stored: Vec<bool> = steps.iter().map(|of| !of.is_empty()).collect();
    for i in (0..steps.len()).rev() {
        let node = &draft.graph.nodes()[i];
        if matches!(node.op, NodeOp::Input(_)) {
            continue;
        }
        for operand in draft.graph.operands(ValueId(i as u32)) {
            let at = operand.0 as usize;
            let kept = is_stored[at] || matches!(draft.graph.nodes()[at].op, NodeOp::Input(_));
            if !kept {
                let (below, above) = steps.split_at_mut(i);
                below[at].extend(&above[0]);
            }
        }
    }
    steps
}

/// The nodes that each step computes, in the order of recording, of the steps of each node.
pub(super) fn nodes_of_steps(groups: &[BTreeSet<usize>], steps: usize) -> Vec<Vec<ValueId>> {
    let mut nodes = vec![Vec::new(); steps];
    for (node, of) in groups.iter().enumerate() {
        for &step in of {
            nodes[step].push(ValueId(node as u32));
        }
    }
    nodes
}

/// A file and a line of it.
type Line = (&'static str, u32);

/// The operations `nodes` of a step by the line that recorded them, in the order of recording (scheduler K-12, codegen
/// A12.3); of a plan that several places share, the lines of the first.
pub(super) fn origins(draft: &Draft, nodes: &[ValueId]) -> Vec<(Option<Line>, Vec<ValueId>)> {
    let mut origins: Vec<(Option<Line>, Vec<ValueId>)> = Vec::new();
    for &node in nodes {
        let location = draft.graph.node(node).location;
        let line = location.map(|at| (at.file(), at.line()));
        match origins.iter_mut().find(|(of, _)| *of == line) {
            Some((_, nodes)) => nodes.push(node),
            None => origins.push((line, vec![node])),
        }
    }
    origins
}

fn stored(step: &Step) -> Vec<ValueId> {
    let calls = step.call().map(|call| call.node);
    let kernels = step.kernel().into_iter();
    let before = step.before().map(|before| before.node);
    calls
        .into_iter()
        .chain(before)
        .chain(kernels.flat_map(|k| {
            let nodes = k.before.iter().chain([&k.node]);
            nodes.flat_map(|node| node.stores.iter().map(|store| store.node))
        }))
        .collect()
}

/// What a step must at least read and write.
pub(crate) fn of_step(draft: &Draft, step: &Step) -> Traffic {
    let bytes = |source: &Source| match source {
        Source::Input(n) => {
            let input = &draft.graph.inputs()[*n as usize];
            (span(&input.layout) * input.dtype.size()) as u64
        }
        Source::Node(node) => node_bytes(&draft.graph, *node),
    };
    let mut traffic = Traffic::default();
    if let Step::Call(call) = step
        && let Some((_, copied)) = draft.joined(call)
    {
        let size = draft.graph.node(call.node).dtype.size();
        for (_, _, layout) in copied {
            traffic.read += (span(layout) * size) as u64;
            traffic.written += (layout.numel() * size) as u64;
        }
        return traffic;
    }
    if let Step::Call(call) = step
        && let Some(CallArg::Window(source, _)) = call.args.first()
        && draft.padded(call).is_some()
    {
        // What is padded lies there.
        traffic.written = node_bytes(&draft.graph, call.node) - bytes(source);
        return traffic;
    }
    let (reads, writes) = crate::plan::accesses(step);
    let mut seen = BTreeSet::new();
    for source in reads.iter().filter(|s| seen.insert(**s)) {
        let whole = bytes(source);
        let updates = |kernel: &Emitted| kernel.updates.iter().any(|u| u.base.0 == *source);
        traffic.read += match step {
            Step::Launch(kernel) if !updates(kernel) => {
                let nodes = kernel.before.iter().chain([&kernel.node]);
                let of = |node| bytes_read(node, *source);
                match nodes.map(of).fold(0, u64::saturating_add) {
                    // An operand of the product.
                    0 => whole,
                    bytes => bytes.min(whole),
                }
            }
            _ => whole,
        };
    }
    for node in writes {
        traffic.written += node_bytes(&draft.graph, node);
    }
    traffic
}

/// Distinct elements of a window: broadcast dimensions count once.
fn span(layout: &ferrotrace_runtime::Layout) -> usize {
    let sizes = layout.shape().iter().zip(layout.strides());
    sizes
        .map(|(&size, &stride)| if stride == 0 { size.min(1) } else { size })
        .product()
}

fn node_bytes(graph: &Graph, node: ValueId) -> u64 {
    let node = graph.node(node);
    (node.shape.numel() * node.dtype.size()) as u64
}

/// What the operations of a graph would read and write one by one.
pub(super) fn one_by_one(graph: &Graph) -> Traffic {
    let mut traffic = Traffic::default();
    for (i, node) in graph.nodes().iter().enumerate() {
        let NodeOp::Op(op) = &node.op else { continue };
        if op.is_view() {
            continue;
        }
        let id = ValueId(i as u32);
        traffic.written += node_bytes(graph, id);
        traffic.read += graph
            .operands(id)
            .map(|operand| node_bytes(graph, operand))
            .sum::<u64>();
    }
    traffic
}
