//! Which decisions of a draft are doubtful enough to be measured.

use crate::draft::origins::steps_of_nodes;
use crate::draft::traffic;
use crate::draft::{Draft, Step};
use crate::emit::Emitted;
use crate::graph::{Graph, NodeOp, Precision};
use crate::policy::{Change, Policy, Threshold};
use crate::schedule::Refusal;
use ferrotrace_kernels::{Class, Op, ValueId};

/// A kernel of more values is not computed again elsewhere.
const LIGHT: usize = 60;

/// Whether another schedule could change a number that [`Precision::EagerExact`] promises: the order in which a sum runs
/// depends on the kernel that it is in.
pub(super) fn may_change_numbers(graph: &Graph) -> bool {
    let exact = |node: &crate::graph::Node| node.precision == Precision::EagerExact;
    graph.nodes().iter().any(exact)
        && graph.nodes().iter().any(|node| match &node.op {
            NodeOp::Input(_) => false,
            NodeOp::Op(op) => !(op.is_view() || is_elementwise(op)),
        })
}

fn is_elementwise(op: &Op) -> bool {
    match op.class() {
        Class::Pointwise | Class::Random => true,
        Class::Create => op.as_full().is_some(),
        _ => false,
    }
}

/// Changes worth a try, those first that concern most bytes moved; at most so many.
pub(super) fn changes(draft: &Draft, policy: &Policy, most: usize) -> Vec<Change> {
    let mut found: Vec<(u64, Change)> = Vec::new();
    for step in &draft.steps {
        let bytes = traffic::of_step(draft, step).total();
        let undone = undone(step).into_iter();
        found.extend(undone.map(|change| (bytes, change)));
    }
    found.extend(stored(draft));
    found.extend(again(draft));
    found.extend(thresholds(draft, policy));
    // Stable: of equal weight in the order of the steps.
    found.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let mut changes: Vec<Change> = Vec::new();
    for (_, change) in found {
        if changes.len() < most && !changes.contains(&change) {
            changes.push(change);
        }
    }
    changes
}

/// The nodes of a kernel, those first that others may need.
fn nests(kernel: &Emitted) -> Vec<ValueId> {
    let mut nodes: Vec<ValueId> = kernel.node.stores.iter().map(|store| store.node).collect();
    nodes.sort_unstable();
    nodes
}

/// Ways to cut a step: a kernel before or behind a product from it; a kernel of several nests at a few places, and
/// between all of them.
fn undone(step: &Step) -> Vec<Change> {
    let mut changes = Vec::new();
    let kernel = step.kernel().map(nests).unwrap_or_default();
    if let Step::Template(template) = step {
        let product = vec![template.call.node];
        if let Some(before) = &template.before {
            let parts = vec![nests(&before.kernel), product.clone()];
            changes.push(Change::Apart(parts));
        }
        if !kernel.is_empty() {
            changes.push(Change::Apart(vec![product, kernel.clone()]));
        }
    }
    let n = kernel.len();
    // Operands come before their users: what is cut off at the end depends on the rest, never the other way.
    let mut cuts = match n {
        0..=4 => (1..n).collect(),
        _ => vec![1, n / 2, n - 1],
    };
    cuts.dedup();
    for at in cuts {
        let (first, second) = kernel.split_at(at);
        changes.push(Change::Apart(vec![first.to_vec(), second.to_vec()]));
    }
    if n > 2 {
        changes.push(Change::Apart(kernel.iter().map(|v| vec![*v]).collect()));
    }
    changes
}

/// Values that several kernels compute, each for itself.
fn stored(draft: &Draft) -> Vec<(u64, Change)> {
    let mut found = Vec::new();
    for (i, steps) in steps_of_nodes(draft).into_iter().enumerate() {
        let (id, node) = (ValueId(i as u32), &draft.graph.nodes()[i]);
        let computed = match &node.op {
            NodeOp::Op(op) => is_elementwise(op) && draft.graph.operands(id).next().is_some(),
            NodeOp::Input(_) => false,
        };
        // What its only user computes as often is better stored there.
        let users = |v: ValueId| draft.graph.operands(v).any(|operand| operand == id);
        let several = |n: usize| (i + 1..n).filter(|&v| users(ValueId(v as u32))).count() > 1;
        if computed && steps.len() > 1 && several(draft.graph.nodes().len()) {
            let bytes = (node.shape.numel() * node.dtype.size()) as u64;
            found.push((bytes * (steps.len() as u64 + 1), Change::Stored(id)));
        }
    }
    found
}

/// Values that are written to memory although their readers could compute them.
fn again(draft: &Draft) -> Vec<(u64, Change)> {
    let is_output = |id: ValueId| {
        draft
            .outputs
            .iter()
            .any(|o| o.0 == crate::body::Source::Node(id))
    };
    let mut found = Vec::new();
    for kernel in draft.steps.iter().filter_map(Step::kernel) {
        for pointer in &kernel.pointers {
            let crate::emit::Pointer::Write(id) = *pointer else {
                continue;
            };
            let node = draft.graph.node(id);
            let pointwise = matches!(&node.op, NodeOp::Op(op) if is_elementwise(op));
            let light = kernel.node.body.values().len() <= LIGHT;
            if pointwise && light && !is_output(id) && !draft.pieces.contains_key(&id) {
                let bytes = (node.shape.numel() * node.dtype.size()) as u64;
                found.push((2 * bytes, Change::Again(id)));
            }
        }
    }
    found
}

/// Thresholds that have a part in the draft.
fn thresholds(draft: &Draft, policy: &Policy) -> Vec<(u64, Change)> {
    let bytes = |at: usize| traffic::of_step(draft, &draft.steps[at]).total();
    let mut found = Vec::new();
    let mut add = |bytes: u64, threshold| {
        if bytes > 0 {
            found.push((bytes, Change::Threshold(threshold)));
        }
    };
    let together = draft.launches.groups.iter().filter(|g| g.len() > 1);
    add(
        together.flat_map(|g| g.clone().map(bytes)).sum(),
        Threshold::Alone,
    );
    let held_back = |(a, _, why): &(ValueId, ValueId, Refusal)| {
        let node = draft.graph.node(*a);
        let size = (node.shape.numel() * node.dtype.size()) as u64;
        (*why == Refusal::NotWorthwhile).then_some(size)
    };
    add(
        draft.refusals.iter().filter_map(held_back).sum(),
        Threshold::LargeProducts,
    );
    if draft.policy.target.splits_reductions {
        let of = |split: bool| -> u64 {
            let mut more = policy.clone();
            more.thresholds.split_rows *= 8;
            let here = |step: &Step| match step {
                Step::Launch(kernel) if split => kernel.node.is_split(policy),
                Step::Launch(kernel) => {
                    kernel.node.is_split(&more) && !kernel.node.is_split(policy)
                }
                _ => false,
            };
            let steps = draft.steps.iter().filter(|step| here(step));
            steps
                .map(|step| traffic::of_step(draft, step).total())
                .sum()
        };
        add(of(false), Threshold::SplitMore);
        add(of(true), Threshold::SplitNone);
    }
    found
}
