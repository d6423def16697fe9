//! The values that a forward pass saves for its backward pass: a minimum cut between what is computed and what is read.
//!
//! Jiang et al., Recompute Fused Operators with a Min-Cut Partitioner (AOTAutograd), 2022.

use super::part::Nodes;
use crate::form::Form;
use ferrotrace_kernels::Class;
use petgraph::Direction;
use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use rustc_hash::FxHashMap;

/// More than all values take, and far from overflow.
const INFINITE: u64 = 1 << 60;

/// The longest chain of costly elementwise functions that a backward pass computes again.
const LONGEST: u32 = 2;

/// Whether computing an operator again, in the kernel that reads it, costs about as much as reading its result.
fn is_cheap(class: Class) -> bool {
    matches!(
        class,
        Class::View | Class::Create | Class::Random | Class::Pointwise
    )
}

/// The nodes of the forward pass that are saved: from them and from leaves, cheap operators can compute the nodes `read`,
/// and no other choice takes fewer bytes.
pub(super) fn saved(form: &Form, read: &[usize]) -> Vec<u32> {
    let nodes = Nodes::of(form);
    let needed = nodes.needed(read.iter().copied(), &vec![false; nodes.len()]);
    let again = computed_again(form, &nodes, &needed);
    let mut network: DiGraph<(), u64> = DiGraph::new();
    let (source, sink) = (network.add_node(()), network.add_node(()));
    let mut ends: FxHashMap<usize, (NodeIndex, NodeIndex)> = FxHashMap::default();
    for node in (0..nodes.len()).filter(|&n| needed[n]) {
        let (enter, leave) = (network.add_node(()), network.add_node(()));
        let capacity = match form.nodes[node].kind.op().class() {
            // A view is not saved; its operand is.
            Class::View if again[node] => INFINITE,
            _ => (form.bytes(node) as u64).clamp(1, INFINITE >> 20),
        };
        network.add_edge(enter, leave, capacity);
        match again[node] {
            true => {
                for operand in nodes.operand_nodes(node) {
                    network.add_edge(ends[&operand].1, enter, INFINITE);
                }
            }
            false => {
                network.add_edge(source, enter, INFINITE);
            }
        }
        ends.insert(node, (enter, leave));
    }
    for node in read {
        network.add_edge(ends[node].1, sink, INFINITE);
    }
    let (_, flows) = dinics(&network, source, sink);
    let beyond = before_sink(&network, &flows, sink);
    let is_cut =
        |(enter, leave): &(NodeIndex, NodeIndex)| beyond[leave.index()] && !beyond[enter.index()];
    let cut = ends.iter().filter(|(_, ends)| is_cut(ends));
    let mut cut: Vec<u32> = cut.map(|(node, _)| *node as u32).collect();
    cut.sort_unstable();
    debug_assert!(is_enough(&nodes, read, &again, &cut));
    cut
}

/// Which nodes a backward pass may compute again.
fn computed_again(form: &Form, nodes: &Nodes<'_>, needed: &[bool]) -> Vec<bool> {
    let mut length = vec![0; nodes.len()];
    let mut again = vec![false; nodes.len()];
    for node in (0..nodes.len()).filter(|&n| needed[n]) {
        let op = form.nodes[node].kind.op();
        let before = nodes.operand_nodes(node).map(|n| length[n]).max();
        let costly = !op.is_view() && !op.entry().is_light();
        let total = before.unwrap_or(0) + u32::from(costly);
        again[node] = is_cheap(op.class()) && total <= LONGEST;
        length[node] = if again[node] { total } else { 0 };
    }
    again
}

/// The nodes with a residual path to the sink. Of all minimum cuts, the one before these is nearest to the sink, so that
/// least is computed again.
fn before_sink(network: &DiGraph<(), u64>, flows: &[u64], sink: NodeIndex) -> Vec<bool> {
    let mut found = vec![false; network.node_count()];
    found[sink.index()] = true;
    let mut stack = vec![sink];
    while let Some(node) = stack.pop() {
        let into = network.edges_directed(node, Direction::Incoming);
        let into = into.filter(|edge| flows[edge.id().index()] < *edge.weight());
        let back = network.edges_directed(node, Direction::Outgoing);
        let back = back.filter(|edge| flows[edge.id().index()] > 0);
        let next = into
            .map(|edge| edge.source())
            .chain(back.map(|edge| edge.target()));
        for next in next {
            if !std::mem::replace(&mut found[next.index()], true) {
                stack.push(next);
            }
        }
    }
    found
}

/// Whether all nodes that are read can be computed from those that are saved.
fn is_enough(nodes: &Nodes<'_>, read: &[usize], again: &[bool], saved: &[u32]) -> bool {
    let mut given = vec![false; nodes.len()];
    saved.iter().for_each(|&n| given[n as usize] = true);
    let computed = nodes.needed(read.iter().copied(), &given);
    computed
        .iter()
        .zip(again)
        .all(|(computed, again)| !computed || *again)
}
