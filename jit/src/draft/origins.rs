//! Which step computes which operation, and the operators and lines of the program by which a step is named.

use super::traffic::of_step;
use super::{Draft, Step};
use crate::graph::NodeOp;
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::Label;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

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
pub(crate) fn nodes_of_steps(groups: &[BTreeSet<usize>], steps: usize) -> Vec<Vec<ValueId>> {
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
fn by_line(draft: &Draft, nodes: &[ValueId]) -> Vec<(Option<Line>, Vec<ValueId>)> {
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

/// A line of the program, and what it recorded of a step, for each.
pub(crate) fn lines(draft: &Draft, nodes: &[ValueId]) -> String {
    let mut text = String::new();
    for (line, nodes) in by_line(draft, nodes) {
        let names = nodes.iter().map(|&node| {
            let op = draft.graph.context(node).op;
            format!("%{} {op}", node.0)
        });
        let names: Vec<String> = names.collect();
        let line = line.map_or(String::new(), |(file, line)| format!(" at {file}:{line}"));
        let _ = writeln!(text, "{}{line}", names.join(", "));
    }
    text
}

/// Lines as comments of C.
pub(crate) fn commented(lines: &str) -> String {
    lines.lines().map(|line| format!("// {line}\n")).collect()
}

/// At most so many operators are named.
const NAMED: usize = 8;

/// The operators of nodes, at most [`NAMED`].
pub(crate) fn name(draft: &Draft, nodes: &[ValueId]) -> String {
    let ops: Vec<&str> = nodes
        .iter()
        .map(|&node| draft.graph.context(node).op)
        .collect();
    match ops.len() {
        0..=NAMED => ops.join(" "),
        n => format!("{} .. ({n} operations)", ops[..NAMED].join(" ")),
    }
}

/// The operators that a step computes.
pub(crate) fn name_of_step(draft: &Draft, step: usize) -> String {
    let groups = steps_of_nodes(draft);
    let nodes = nodes_of_steps(&groups, draft.steps.len());
    name(draft, &nodes[step])
}

/// For each launch or call the operators that it computes, in order, the bytes it moves, and the lines that recorded it:
/// for a profile.
pub(crate) fn labels(draft: &Draft) -> Vec<Label> {
    let groups = steps_of_nodes(draft);
    let nodes = nodes_of_steps(&groups, draft.steps.len());
    let launch = |steps: &Range<usize>| {
        let bytes = |i: usize| of_step(draft, &draft.steps[i]).total();
        let name = match steps.len() {
            1 => name(draft, &nodes[steps.start]),
            n => {
                let mut names: Vec<String> =
                    steps.clone().map(|i| name(draft, &nodes[i])).collect();
                names.dedup();
                names.truncate(NAMED);
                format!("{n} kernels at once: {}", names.join(" | "))
            }
        };
        let origins = steps.clone().flat_map(|i| by_line(draft, &nodes[i]));
        let lines: BTreeSet<(&str, u32)> = origins.filter_map(|(line, _)| line).collect();
        let lines: Vec<String> = lines
            .iter()
            .map(|(file, line)| format!("{file}:{line}"))
            .collect();
        Label {
            name,
            bytes: steps.clone().map(bytes).sum(),
            lines: lines.join(", "),
        }
    };
    draft.launches.groups.iter().map(launch).collect()
}
