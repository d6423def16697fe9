//! What would make a program faster, as values: advice, and no error (codegen B14.9).

use crate::body::Source;
use crate::draft::{Draft, accesses};
use crate::graph::{Graph, NodeOp};
use crate::schedule::Refusal;
use ferrotrace_kernels::{Op, ValueId};
use ferrotrace_runtime::DType;
use rustc_hash::{FxHashMap, FxHashSet};

/// Something that costs time, and that its author may be able to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Two kernels touch the same large buffers, and were not made one.
    Apart {
        /// A node that the first stores.
        first: ValueId,
        /// A node that the second stores.
        second: ValueId,
        /// Bytes of the buffers that both touch.
        bytes: u64,
        /// Why.
        why: Refusal,
    },
    /// A ready-made kernel runs on the host, between copies from a device and back.
    OnHost(ValueId),
    /// A matrix product of integers, which no fast kernel computes.
    IntegerProduct(ValueId, DType),
}

impl Hint {
    /// The hint as a sentence about the graph's nodes.
    pub fn text(&self, graph: &Graph) -> String {
        let name = |node: &ValueId| format!("{} %{}", graph.context(*node).op, node.0);
        match self {
            Hint::Apart {
                first,
                second,
                bytes,
                why,
            } => format!(
                "{} and {} both touch {}, apart: {why}",
                name(first),
                name(second),
                super::text::bytes(*bytes)
            ),
            Hint::OnHost(node) => format!("{} runs on the host, between copies", name(node)),
            Hint::IntegerProduct(node, dtype) => {
                format!(
                    "{} of {dtype}: products of floats are many times faster",
                    name(node)
                )
            }
        }
    }
}

/// Whether a call of a node runs on the host for another device, whose library does not have it.
pub(super) fn is_on_host(draft: &Draft, node: ValueId) -> bool {
    match &draft.graph.node(node).op {
        NodeOp::Op(op) => !draft.policy.target.library.has(op),
        NodeOp::Input(_) => false,
    }
}

/// The hints of a draft, by step and then by the most bytes.
pub(super) fn hints(draft: &Draft) -> Vec<Hint> {
    let mut found = Vec::new();
    let graph = &draft.graph;
    for call in draft.steps.iter().filter_map(|step| step.call()) {
        let node = graph.node(call.node);
        if is_on_host(draft, call.node) {
            found.push(Hint::OnHost(call.node));
        } else if node.is(Op::is_matmul) && node.dtype.is_int() {
            found.push(Hint::IntegerProduct(call.node, node.dtype));
        }
    }
    // The step that stores each node, and what each step touches.
    let mut of_node: FxHashMap<ValueId, usize> = FxHashMap::default();
    let mut touched: Vec<FxHashSet<Source>> = Vec::with_capacity(draft.steps.len());
    for (i, step) in draft.steps.iter().enumerate() {
        let (reads, writes) = accesses(step);
        of_node.extend(writes.iter().map(|node| (*node, i)));
        let writes = writes.into_iter().map(Source::Node);
        touched.push(reads.into_iter().chain(writes).collect());
    }
    let size = |source: &Source| match source {
        Source::Input(n) => {
            let input = &graph.inputs()[*n as usize];
            (input.layout.span().len() * input.dtype.size()) as u64
        }
        Source::Node(node) => {
            let node = graph.node(*node);
            (node.shape.numel() * node.dtype.size()) as u64
        }
    };
    let mut pairs: FxHashMap<(usize, usize), Hint> = FxHashMap::default();
    for &(first, second, why) in &draft.refusals {
        // No program can change that one is ready-made.
        if why == Refusal::Opaque {
            continue;
        }
        // Steps that became one for other reasons are apart no more.
        let (Some(&a), Some(&b)) = (of_node.get(&first), of_node.get(&second)) else {
            continue;
        };
        let bytes: u64 = touched[a].intersection(&touched[b]).map(size).sum();
        if a != b && bytes >= draft.policy.thresholds.hint_bytes {
            pairs.entry((a.min(b), a.max(b))).or_insert(Hint::Apart {
                first,
                second,
                bytes,
                why,
            });
        }
    }
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    let bytes = |hint: &Hint| match hint {
        Hint::Apart { bytes, .. } => *bytes,
        _ => 0,
    };
    pairs.sort_unstable_by_key(|(steps, hint)| (std::cmp::Reverse(bytes(hint)), *steps));
    found.extend(pairs.into_iter().map(|(_, hint)| hint));
    found
}
