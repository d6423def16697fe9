//! What was decided for a graph, and why, as values and as text.

use crate::plan::{Draft, Step};
use crate::schedule::Refusal;
use ferrotrace_kernels::ValueId;
use std::fmt::{self, Write as _};

/// One kernel of a plan.
#[derive(Clone, Debug)]
pub struct FusedInfo {
    /// The stored nodes it computes.
    pub nodes: Vec<ValueId>,
    /// Names of the operators behind them.
    pub ops: Vec<&'static str>,
    /// Extents of its rows.
    pub rows: Vec<usize>,
    /// Extents of its columns.
    pub cols: Vec<usize>,
    /// Loops over the columns of a row.
    pub loops: usize,
    /// Its text.
    pub text: String,
}

/// What was decided for a graph: nodes, fused nodes, refusals, calls, sources.
#[derive(Clone, Debug)]
pub struct Explanation {
    graph: String,
    dot: String,
    fused: Vec<FusedInfo>,
    refusals: Vec<(ValueId, ValueId, Refusal)>,
    calls: Vec<&'static str>,
    /// Whether calls run on the host for another device.
    calls_on_host: bool,
    sources: Vec<String>,
}

impl Explanation {
    /// The explanation of a draft.
    pub fn of(draft: &Draft) -> Explanation {
        let (mut fused, mut sources, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        let mut dot = String::from("digraph ferrotrace {\n  node [shape=box];\n");
        for (i, step) in draft.steps.iter().enumerate() {
            let label = match step {
                Step::Launch(e) => {
                    let nodes: Vec<ValueId> = e.node.stores.iter().map(|s| s.node).collect();
                    let ops: Vec<&'static str> =
                        nodes.iter().map(|v| draft.graph.context(*v).op).collect();
                    let label = ops.join(" ");
                    fused.push(FusedInfo {
                        nodes,
                        ops,
                        rows: e.node.iter.clone(),
                        cols: e.node.red.clone(),
                        loops: e.loops,
                        text: e.node.to_string(),
                    });
                    sources.push(e.source.text());
                    format!("kernel: {label}")
                }
                Step::Call(call) => {
                    let name = draft.graph.context(call.node).op;
                    calls.push(name);
                    format!("call: {name}")
                }
            };
            let _ = writeln!(dot, "  s{i} [label=\"{label}\"];");
        }
        dot.push_str(&edges(draft));
        dot.push_str("}\n");
        Explanation {
            graph: draft.graph.to_string(),
            dot,
            fused,
            refusals: draft.refusals.clone(),
            calls,
            calls_on_host: !draft.graph.device().is_cpu(),
            sources,
        }
    }

    /// The kernels, in the order they run.
    pub fn fused_nodes(&self) -> &[FusedInfo] {
        &self.fused
    }

    /// Pairs of nodes that are not one kernel, with the reason.
    pub fn refusals(&self) -> &[(ValueId, ValueId, Refusal)] {
        &self.refusals
    }

    /// Names of the ready-made kernels called.
    pub fn calls(&self) -> &[&'static str] {
        &self.calls
    }

    /// The generated source of each kernel.
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// The steps as a Graphviz graph.
    pub fn to_dot(&self) -> String {
        self.dot.clone()
    }

    /// One self-contained page: graph, kernels, refusals, and each source behind a disclosure.
    pub fn to_html(&self) -> String {
        let escape = |s: &str| {
            s.replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;")
        };
        let mut page = String::from(
            "<!doctype html><meta charset=\"utf-8\"><title>ferrotrace</title>\
             <style>body{font-family:sans-serif;margin:2em}pre{background:#f4f4f4;padding:1em;overflow:auto}</style>\n",
        );
        let _ = writeln!(
            page,
            "<h1>{} kernels, {} calls</h1>\n<h2>Graph</h2><pre>{}</pre>",
            self.fused.len(),
            self.calls.len(),
            escape(&self.graph)
        );
        for (info, source) in self.fused.iter().zip(&self.sources) {
            let _ = writeln!(
                page,
                "<h2>{}</h2><pre>{}</pre><details><summary>source</summary><pre>{}</pre></details>",
                escape(&info.ops.join(" ")),
                escape(&info.text),
                escape(source)
            );
        }
        for (a, b, why) in &self.refusals {
            let _ = writeln!(
                page,
                "<p>%{} and %{}: {}</p>",
                a.0,
                b.0,
                escape(&why.to_string())
            );
        }
        page
    }

    /// The text without sources.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let _ = write!(text, "graph:\n{}", self.graph);
        for info in &self.fused {
            let _ = writeln!(
                text,
                "kernel [{}] rows {:?} columns {:?} loops {}",
                info.ops.join(" "),
                info.rows,
                info.cols,
                info.loops
            );
            text.push_str(&info.text);
        }
        for call in &self.calls {
            let host = if self.calls_on_host {
                ", on the host"
            } else {
                ""
            };
            let _ = writeln!(text, "call {call}{host}");
        }
        for (a, b, why) in &self.refusals {
            let _ = writeln!(text, "not fused: %{} %{}: {why}", a.0, b.0);
        }
        text
    }
}

/// Edges from the step that writes a node to those that read it.
fn edges(draft: &Draft) -> String {
    use crate::body::Source;
    use crate::emit::Pointer;
    use crate::lower::CallArg;
    let mut text = String::new();
    let writes = |step: &Step, v: ValueId| match step {
        Step::Launch(e) => e.pointers.contains(&Pointer::Write(v)),
        Step::Call(c) => c.node == v,
    };
    for (j, step) in draft.steps.iter().enumerate() {
        let reads: Vec<Source> = match step {
            Step::Launch(e) => e
                .pointers
                .iter()
                .filter_map(|p| {
                    if let Pointer::Read(s) = p {
                        Some(*s)
                    } else {
                        None
                    }
                })
                .collect(),
            Step::Call(c) => c
                .args
                .iter()
                .filter_map(|a| {
                    if let CallArg::Window(s, _) = a {
                        Some(*s)
                    } else {
                        None
                    }
                })
                .collect(),
        };
        for source in reads {
            let Source::Node(v) = source else { continue };
            if let Some(i) = draft.steps[..j].iter().position(|s| writes(s, v)) {
                let _ = writeln!(text, "  s{i} -> s{j};");
            }
        }
    }
    text
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        for source in &self.sources {
            writeln!(f, "source:\n{source}")?;
        }
        Ok(())
    }
}
