//! Values that are expanded to many elements: whether to store them, or what they are computed from.

use super::cost::Cost;
use super::windowed::reduced_count;
use crate::graph::{Graph, Node};
use crate::policy::Policy;
use ferrotrace_kernels::{Class, ValueId};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// Whether an operand would be computed again for each of many elements that it is expanded to, where that is more than
/// reading it. On the CPU that is a costly function, of a value that lanes run along, or whose windows overlap: others are computed
/// once a row.
pub(super) fn is_expanded(
    graph: &Graph,
    policy: &Policy,
    of: (ValueId, Cost),
    id: ValueId,
) -> bool {
    let (operand, cost) = of;
    let thresholds = &policy.thresholds;
    let (from, to) = (&graph.node(operand).shape, &graph.node(id).shape);
    let (few, many) = (from.numel(), to.numel());
    let shared = few <= many / thresholds.expanded_times;
    match policy.target.splits_reductions {
        true => {
            let same = |n: &usize| *n > 1 && to.dims().last() == Some(n);
            let along = from.dims().last().is_some_and(same);
            let overlapping = graph.node(id).is(|op| op.as_unfold().is_some());
            let row = shared && along && many >= thresholds.expanded_lanes;
            let taps = thresholds.window_times * few <= many;
            let windows = overlapping && taps && many >= thresholds.window_elements;
            let columns = policy.target.scalar_rows
                && few >= thresholds.scalar_rows
                && few * thresholds.scalar_columns <= many;
            cost.heavy && (row || windows || columns)
        }
        false => {
            let enough =
                cost.ops >= thresholds.expanded_ops && many >= thresholds.expanded_elements;
            shared && enough && cost.reads > 0
        }
    }
}

/// Pointwise values whose only user is a reduction of so few elements that it has no loop: as its kernel has other loops than
/// they have, they would be written to memory where they are stored.
pub(super) fn reduced_shortly(graph: &Graph, users: &[u32], policy: &Policy) -> FxHashSet<ValueId> {
    let operand = |(i, node): (usize, &Node)| {
        let of = node.operator()?.as_reduce()?;
        let x = graph.operands(ValueId(i as u32)).next()?;
        let short = reduced_count(graph, ValueId(i as u32), of.mask) < policy.thresholds.unroll;
        let alone = users[x.0 as usize] == 1 && graph.node(x).is_of(Class::Pointwise);
        (short && alone).then_some(x)
    };
    graph
        .nodes()
        .iter()
        .enumerate()
        .filter_map(operand)
        .collect()
}

/// The operands that are computed, and of whose elements the node reads each for several of its own: to store them takes less memory
/// than to store it.
pub(super) fn smaller_operands(
    graph: &Graph,
    costs: &[Cost],
    id: ValueId,
) -> SmallVec<[ValueId; 4]> {
    let many = graph.node(id).shape.numel();
    let operands = graph.operands(id);
    operands
        .filter(|v| costs[v.0 as usize].ops > 0 && graph.node(*v).shape.numel() <= many / 2)
        .collect()
}

/// The cost of a node whose elements take `times` elements of its operands, if these operands were stored.
pub(super) fn cost_of_reading(
    graph: &Graph,
    costs: &mut [Cost],
    operands: &[ValueId],
    (id, times): (ValueId, u32),
) -> Cost {
    let set =
        |costs: &mut [Cost], v: ValueId, cost| std::mem::replace(&mut costs[v.0 as usize], cost);
    let before: SmallVec<[Cost; 4]> = operands
        .iter()
        .map(|&v| set(costs, v, Cost::STORED))
        .collect();
    let cost = Cost::of(graph, costs, id, times);
    // Backwards, as an operand may be there twice.
    for (&v, before) in operands.iter().zip(before).rev() {
        set(costs, v, before);
    }
    cost
}
