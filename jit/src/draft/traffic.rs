//! The memory traffic of steps, and of operations one by one.

use super::{Draft, Step, accesses};
use crate::body::Source;
use crate::emit::Emitted;
use crate::graph::{Graph, NodeOp};
use crate::lower::CallArg;
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
    pub(crate) fn and(self, other: Traffic) -> Traffic {
        Traffic {
            read: self.read + other.read,
            written: self.written + other.written,
        }
    }
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
    let (reads, writes) = accesses(step);
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
pub(crate) fn one_by_one(graph: &Graph) -> Traffic {
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
