//! Values whose elements are read for many others: whether to store them, or what they are computed from.

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

/// Gathers each of whose elements kernels would compute for several places, as stencils do: that takes longer than storing
/// them and reading them there.
pub(super) fn gathered_often(graph: &Graph, policy: &Policy) -> FxHashSet<ValueId> {
    let is_gather = |node: &Node| node.is_of(Class::Gather);
    if !graph.nodes().iter().any(is_gather) {
        return FxHashSet::default();
    }
    let least = policy.thresholds.gathered_places as f64 / 100.0;
    let n = graph.nodes().len();
    // How often an element is read: at the place where it is, and at others.
    let (mut here, mut elsewhere) = (vec![0f64; n], vec![0f64; n]);
    for v in graph.outputs() {
        here[v.0 as usize] = 1.0;
    }
    let mut found = FxHashSet::default();
    for (i, node) in graph.nodes().iter().enumerate().rev() {
        let times = here[i] + elsewhere[i];
        let Some(op) = node.operator().filter(|_| times > 0.0) else {
            continue;
        };
        if is_gather(node) && times >= least {
            found.insert(ValueId(i as u32));
        }
        let moves = match op.as_view() {
            Some(view) => !view.is_reshape() && op.as_expand().is_none(),
            None => op.class() == Class::Arrange,
        };
        // Costly functions of several users are stored.
        let own = match op.class() {
            Class::Pointwise if op.entry().is_light() => times,
            Class::View => times,
            _ => 1.0,
        };
        for v in graph.operands(ValueId(i as u32)) {
            let (at, of) = (v.0 as usize, graph.node(v).shape.numel().max(1));
            let part = match op.class() {
                Class::View => node.shape.numel() as f64 / of as f64,
                _ => 1.0,
            };
            match moves {
                true => elsewhere[at] += times * part,
                false => here[at] = here[at].max(own),
            }
        }
    }
    found
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

#[cfg(test)]
mod tests {
    use crate::graph::Graph;
    use crate::lower::lower;
    use crate::policy::Policy;
    use crate::simplify::simplify;

    /// Loop nests of a gather and what reads it.
    fn nests(reads: &str) -> usize {
        let text = format!(
            "%0: f32[18] = input 0 [1]
             %1: i64[400] = input 1 [1]
             %2: f32[400] = index(%0, %1) {{axes: [0], at: 0}}
             {reads}"
        );
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let graph = simplify(&graph).unwrap_or_else(|e| panic!("{e}"));
        let lowering = lower(&graph, &Policy::default());
        lowering.unwrap_or_else(|e| panic!("{e}")).steps.len()
    }

    #[test]
    fn gathers_that_several_places_read_are_stored() {
        let stencil = "%3: f32[399] = narrow(%2) {dim: 0, start: 0, len: 399}
             %4: f32[399] = narrow(%2) {dim: 0, start: 1, len: 399}
             %5: f32[399] = add(%3, %4)
             return %5";
        assert_eq!(nests(stencil), 2);
        // A function between, and a reversed reader of all.
        let function = "%3: f32[400] = mul(%2, 2.0)
             %4: f32[400] = flip(%3) {dims: [0]}
             %5: f32[400] = add(%3, %4)
             return %5";
        assert_eq!(nests(function), 2);
        // One place, read twice, and disjoint parts.
        let once = "%3: f32[400] = mul(%2, 2.0)
             %4: f32[400] = add(%3, %2)
             return %4";
        assert_eq!(nests(once), 1);
        let parts = "%3: f32[200] = narrow(%2) {dim: 0, start: 0, len: 200}
             %4: f32[200] = narrow(%2) {dim: 0, start: 200, len: 200}
             %5: f32[200] = add(%3, %4)
             return %5";
        assert_eq!(nests(parts), 1);
    }
}
