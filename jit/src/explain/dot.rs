//! The graph in Graphviz's language.

use super::Explanation;
use ferrotrace_kernels::ValueId;
use std::fmt::Write as _;

/// A cluster for each step, with the nodes it is the first to compute; inputs stand outside.
pub(super) fn graph(explanation: &Explanation) -> String {
    let mut text =
        String::from("digraph ferrotrace {\n  node [shape=box, style=filled, fillcolor=white];\n");
    let line = |node: usize| {
        let again = match explanation.groups[node].len() {
            0 | 1 => String::new(),
            n => format!("\\nin {n} kernels"),
        };
        let label = escape(&explanation.label(node));
        format!("n{node} [label=\"%{node} {label}{again}\"];")
    };
    let nodes = 0..explanation.groups.len();
    for node in nodes.clone() {
        if explanation.groups[node].is_empty() {
            let _ = writeln!(text, "  {}", line(node));
        }
    }
    for (i, step) in explanation.steps.iter().enumerate() {
        let what = if step.kernel.is_some() {
            "kernel"
        } else {
            "call"
        };
        let _ = writeln!(
            text,
            "  subgraph cluster_{i} {{\n    label=\"{what} {i}: {}\"; style=filled; fillcolor=\"{:.3} 0.15 1.0\";",
            escape(&explanation.cost(step.traffic, step.operations, step.measured)),
            super::drawing::hue(i)
        );
        for node in nodes.clone() {
            if explanation.groups[node].first() == Some(&i) {
                let _ = writeln!(text, "    {}", line(node));
            }
        }
        text.push_str("  }\n");
    }
    for node in nodes {
        for operand in explanation.graph.operands(ValueId(node as u32)) {
            let _ = writeln!(text, "  n{} -> n{node};", operand.0);
        }
    }
    text.push_str("}\n");
    text
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
