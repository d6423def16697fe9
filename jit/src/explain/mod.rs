//! What was decided for a graph, and why, as values, text, a Graphviz graph, a picture and a page.

mod dot;
mod drawing;
mod groups;
mod hints;
mod html;
mod svg;

use crate::estimate::{self, Bound, Machine, Nanoseconds, Work};
use crate::graph::{Graph, NodeOp};
use crate::plan::{Draft, GraphDecision, Meter, Step};
use crate::policy::Measured;
use crate::schedule::{Refusal, Tiles};
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::{DType, Label, Shape};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

pub use groups::Traffic;
pub(crate) use groups::{of_step as traffic_of, steps_of_nodes};
pub use hints::Hint;

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
    /// What it must at least read and write.
    pub traffic: Traffic,
    /// Additions and multiplications that it must at least do, the product's included; costlier operations count as
    /// several (scheduler N-02).
    pub operations: u64,
    /// Runs while somebody profiled, and their mean time; none for a member of a combined launch.
    pub measured: Option<(u64, Duration)>,
    /// The combined launch it is a member of, by its position in [`Explanation::combined`].
    pub combined: Option<usize>,
    /// The product that it takes up panel by panel.
    pub product: Option<ValueId>,
    /// The tiles of that product, where the kernel computes it too.
    pub tiles: Option<Tiles>,
    /// The product an operand of which it computes panel by panel, as part of that one's step.
    pub feeds: Option<ValueId>,
    /// Its text.
    pub text: String,
    /// The recorded operations that it holds: a line for each line of the program (scheduler K-12, codegen A12.3). The
    /// kernel's own text does not say, so that equal kernels are one.
    pub origins: String,
}

/// Independent kernels that are launched at once.
#[derive(Clone, Debug)]
pub struct CombinedInfo {
    /// Positions of its members among the kernels.
    pub kernels: Range<usize>,
    /// What they move, together.
    pub traffic: Traffic,
    /// Their operations.
    pub operations: u64,
    /// Runs of the launch while somebody profiled, and their mean time.
    pub measured: Option<(u64, Duration)>,
}

/// One step of a plan: a kernel or a call.
#[derive(Clone, Debug)]
struct StepInfo {
    /// Operators it computes, those that are not stored included.
    name: String,
    /// The step's position among the kernels; none for a call.
    kernel: Option<usize>,
    /// The position among the kernels of the one that computes an operand of this step's product.
    before: Option<usize>,
    traffic: Traffic,
    operations: u64,
    measured: Option<(u64, Duration)>,
    /// The combined launch it is a member of.
    combined: Option<usize>,
    /// Whether it is a call that runs on the host for another device.
    on_host: bool,
}

/// A value that a compiled function computes of the tensors it captured alone (codegen B3.8).
#[derive(Clone, Debug)]
pub struct Folded {
    /// The operator.
    pub op: &'static str,
    /// The user's line.
    pub location: &'static Location<'static>,
    /// Its shape.
    pub shape: Shape,
    /// Its element type.
    pub dtype: DType,
    /// Its bytes.
    pub bytes: usize,
    /// Whether it was computed once and is kept; else each call computes it, since it would take more memory.
    pub kept: bool,
}

/// What was decided for a graph: nodes, fused nodes, refusals, calls, sources.
#[derive(Clone, Debug)]
pub struct Explanation {
    graph: Graph,
    steps: Vec<StepInfo>,
    /// The steps that compute each node.
    groups: Vec<BTreeSet<usize>>,
    fused: Vec<FusedInfo>,
    combined: Vec<CombinedInfo>,
    refusals: Vec<(ValueId, ValueId, Refusal)>,
    rounds: Vec<usize>,
    hints: Vec<Hint>,
    calls: Vec<&'static str>,
    /// Whether calls are a device's library's.
    by_library: bool,
    sources: Vec<String>,
    /// What the operations would move one by one.
    unfused: Traffic,
    /// The most bytes held at once beyond those of the inputs, none of which is overwritten.
    peak: u64,
    graphs: Vec<(Range<usize>, GraphDecision)>,
    measured: Option<Arc<Measured>>,
    folded: Option<Arc<[Folded]>>,
    key: String,
}

/// For each launch or call the operators that it computes, in order, the bytes it moves, and the lines that recorded it:
/// for a profile.
pub(crate) fn labels(draft: &Draft) -> Vec<Label> {
    let groups = groups::steps_of_nodes(draft);
    let nodes = groups::nodes_of_steps(&groups, draft.steps.len());
    let launch = |steps: &Range<usize>| {
        let bytes = |i: usize| groups::of_step(draft, &draft.steps[i]).total();
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
        let origins = steps
            .clone()
            .flat_map(|i| groups::origins(draft, &nodes[i]));
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

/// The operators that a step computes.
pub(crate) fn name_of_step(draft: &Draft, step: usize) -> String {
    let groups = groups::steps_of_nodes(draft);
    let nodes = groups::nodes_of_steps(&groups, draft.steps.len());
    name(draft, &nodes[step])
}

/// A line of the program, and what it recorded of a step, for each.
fn origins(draft: &Draft, nodes: &[ValueId]) -> String {
    let mut text = String::new();
    for (line, nodes) in groups::origins(draft, nodes) {
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

/// For every step, the operators it computes and their lines in the program, as comments of C.
pub(crate) fn comments(draft: &Draft) -> Vec<String> {
    let groups = groups::steps_of_nodes(draft);
    let nodes = groups::nodes_of_steps(&groups, draft.steps.len());
    let of = |nodes: &Vec<ValueId>| commented(&origins(draft, nodes));
    nodes.iter().map(of).collect()
}

fn commented(lines: &str) -> String {
    lines.lines().map(|line| format!("// {line}\n")).collect()
}

/// Operations of a step.
fn operations(draft: &Draft, step: &Step) -> u64 {
    let call = step
        .call()
        .map_or(0, |call| estimate::of_call(&draft.graph, call));
    let kernel = step.kernel().map_or(0, |kernel| {
        let before = kernel.before.iter().map(estimate::of_kernel).sum::<u64>();
        estimate::of_kernel(&kernel.node)
            .saturating_add(kernel.products)
            .saturating_add(before)
    });
    let before = step
        .before()
        .map_or(0, |b| estimate::of_kernel(&b.kernel.node));
    call.saturating_add(kernel).saturating_add(before)
}

/// At most so many operators are named.
const NAMED: usize = 8;

fn name(draft: &Draft, nodes: &[ValueId]) -> String {
    let ops: Vec<&str> = nodes
        .iter()
        .map(|&node| draft.graph.context(node).op)
        .collect();
    match ops.len() {
        0..=NAMED => ops.join(" "),
        n => format!("{} .. ({n} operations)", ops[..NAMED].join(" ")),
    }
}

impl Explanation {
    /// The explanation of a draft.
    pub fn of(draft: &Draft) -> Explanation {
        Explanation::measured(draft, None)
    }

    /// The explanation of a draft that ran.
    pub(crate) fn measured(draft: &Draft, meter: Option<&Meter>) -> Explanation {
        let groups = groups::steps_of_nodes(draft);
        let of_step = groups::nodes_of_steps(&groups, draft.steps.len());
        let (mut fused, mut sources, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        let (mut steps, mut combined) = (Vec::new(), Vec::<CombinedInfo>::new());
        let launches = draft.launches.groups.iter().enumerate();
        let placed = launches.flat_map(|(at, group)| group.clone().map(move |i| (at, group, i)));
        for (at, group, i) in placed {
            let step = &draft.steps[i];
            let traffic = groups::of_step(draft, step);
            let operations = operations(draft, step);
            let mut measured = meter.and_then(|meter| meter.mean(at));
            let mut member = None;
            if group.len() > 1 {
                if i == group.start {
                    combined.push(CombinedInfo {
                        kernels: fused.len()..fused.len() + group.len(),
                        traffic: Traffic::default(),
                        operations: 0,
                        measured,
                    });
                }
                if let Some(all) = combined.last_mut() {
                    all.traffic = all.traffic.and(traffic);
                    all.operations = all.operations.saturating_add(operations);
                }
                (member, measured) = (Some(combined.len() - 1), None);
            }
            let mut before = None;
            if let Some(of) = step.before() {
                before = Some(fused.len());
                fused.push(FusedInfo {
                    ops: vec![draft.graph.context(of.node).op],
                    nodes: vec![of.node],
                    rows: of.kernel.node.iter.clone(),
                    cols: of.kernel.node.red.clone(),
                    loops: of.kernel.loops,
                    traffic: Traffic::default(),
                    operations: estimate::of_kernel(&of.kernel.node),
                    measured: None,
                    combined: None,
                    product: None,
                    tiles: None,
                    feeds: step.call().map(|call| call.node),
                    text: of.kernel.node.to_string(),
                    origins: origins(draft, &of_step[i]),
                });
                sources.push(of.kernel.source.text());
            }
            let mut kernel = None;
            match (step.kernel(), step.call()) {
                (Some(e), call) => {
                    let nodes: Vec<ValueId> = e.node.stores.iter().map(|s| s.node).collect();
                    kernel = Some(fused.len());
                    fused.push(FusedInfo {
                        ops: nodes.iter().map(|v| draft.graph.context(*v).op).collect(),
                        nodes,
                        rows: e.node.iter.clone(),
                        cols: e.node.red.clone(),
                        loops: e.loops,
                        traffic,
                        operations,
                        measured,
                        combined: member,
                        product: call
                            .map(|call| call.node)
                            .or(e.node.product.map(|p| p.node)),
                        tiles: e.node.product.and_then(|p| p.tiles),
                        feeds: None,
                        text: [&e.node]
                            .into_iter()
                            .chain(&e.before)
                            .map(ToString::to_string)
                            .collect(),
                        origins: origins(draft, &of_step[i]),
                    });
                    sources.push(e.source.text());
                }
                // A concatenation whose parts are all in place is no call.
                (None, Some(call)) if draft.joined(call).is_some_and(|(_, c)| c.is_empty()) => {}
                (None, Some(call)) => calls.push(draft.graph.context(call.node).op),
                (None, None) => {}
            }
            steps.push(StepInfo {
                name: name(draft, &of_step[i]),
                kernel,
                before,
                traffic,
                operations,
                measured,
                combined: member,
                on_host: step
                    .call()
                    .is_some_and(|call| hints::is_on_host(draft, call.node)),
            });
        }
        Explanation {
            graph: draft.graph.clone(),
            steps,
            groups,
            fused,
            combined,
            refusals: draft.refusals.clone(),
            rounds: draft.rounds.clone(),
            hints: hints::hints(draft),
            calls,
            by_library: !draft.policy.target.panels,
            sources,
            unfused: groups::one_by_one(&draft.graph),
            peak: draft.peak(&|_| false),
            graphs: Vec::new(),
            measured: None,
            folded: None,
            key: String::new(),
        }
    }

    /// This explanation, with what is said of the plan's place in the cache.
    pub fn with_key(mut self, key: String) -> Explanation {
        self.key = key;
        self
    }

    /// This explanation, with what became of the plan's launches on a device.
    pub(crate) fn with_graphs(mut self, graphs: Vec<(Range<usize>, GraphDecision)>) -> Explanation {
        self.graphs = graphs;
        self
    }

    /// This explanation, with what was measured for the plan.
    pub(crate) fn with_measured(mut self, measured: Option<Arc<Measured>>) -> Explanation {
        self.measured = measured;
        self
    }

    /// This explanation, with what of a compiled function was computed once.
    pub fn with_folded(mut self, folded: Option<Arc<[Folded]>>) -> Explanation {
        self.folded = folded;
        self
    }

    /// Of a compiled function, the values that it computes of the tensors it captured alone and that are dearer to
    /// compute than to read; the graph has those that are kept as inputs (codegen B3.8).
    pub fn folded(&self) -> &[Folded] {
        self.folded.as_deref().unwrap_or_default()
    }

    /// What was measured for the plan, where that is switched on: candidates, times, and what was chosen
    /// (scheduler Q-09).
    pub fn tuning(&self) -> Option<&Measured> {
        self.measured.as_deref()
    }

    /// Consecutive launches on a device, by number, and whether they are one graph of it (codegen B9.5); empty on the
    /// CPU, and where graphs are switched off.
    pub fn graphs(&self) -> &[(Range<usize>, GraphDecision)] {
        &self.graphs
    }

    /// The kernels, in the order they run.
    pub fn fused_nodes(&self) -> &[FusedInfo] {
        &self.fused
    }

    /// Kernels that are launched at once.
    pub fn combined(&self) -> &[CombinedInfo] {
        &self.combined
    }

    /// How many launches and calls the steps are: kernels launched at once are one.
    pub fn launches(&self) -> usize {
        let members: usize = self.combined.iter().map(|all| all.kernels.len()).sum();
        self.steps.len() + self.combined.len() - members
    }

    /// Pairs of nodes that are not one kernel, with the reason.
    pub fn refusals(&self) -> &[(ValueId, ValueId, Refusal)] {
        &self.refusals
    }

    /// How many nodes there were before the first round of fusion, and after each (scheduler V-05).
    pub fn rounds(&self) -> &[usize] {
        &self.rounds
    }

    /// What would make the program faster (codegen B14.9).
    pub fn hints(&self) -> &[Hint] {
        &self.hints
    }

    /// Names of the ready-made kernels called, but for products that a kernel takes up.
    pub fn calls(&self) -> &[&'static str] {
        &self.calls
    }

    /// The generated source of each kernel.
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// The key of the plan in the cache, and what differs in the nearest other entry; empty if it was not looked up.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What all steps together must at least read and write.
    pub fn traffic(&self) -> Traffic {
        let of_steps = self.steps.iter().map(|step| step.traffic);
        of_steps.fold(Traffic::default(), Traffic::and)
    }

    /// Bytes and operations of all steps together (scheduler N-14).
    pub fn work(&self) -> Work {
        self.steps.iter().fold(Work::default(), |all, step| {
            all.and(work(step.traffic, step.operations))
        })
    }

    /// The least time that the steps take one after another on a machine: of each the greater of what its bytes and its
    /// operations take (scheduler N-01).
    pub fn estimate(&self, machine: &Machine) -> Nanoseconds {
        let of_step = |step: &StepInfo| work(step.traffic, step.operations).time(machine).0.0;
        Nanoseconds(self.steps.iter().map(of_step).sum())
    }

    /// Bytes that the operations would move one by one and the steps do not.
    pub fn bytes_saved(&self) -> u64 {
        let moved = self.traffic().total();
        self.unfused.total().saturating_sub(moved)
    }

    /// The most bytes that a run holds at once beyond those of its inputs, if it may overwrite none of them
    /// (scheduler B-19).
    pub fn peak_bytes(&self) -> u64 {
        self.peak
    }

    /// The graph in Graphviz's language: a cluster for each kernel and call.
    pub fn to_dot(&self) -> String {
        dot::graph(self)
    }

    /// One self-contained page: the graph with its kernels in colour, each kernel's text and source at a click,
    /// refusals by reason.
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    /// One picture, an SVG without scripts: the graph with its kernels in colour, and what each step computes and costs.
    pub fn to_svg(&self) -> String {
        svg::picture(self)
    }

    /// How many kernels, calls and operations there are.
    fn counts(&self) -> String {
        let nodes = 0..self.groups.len();
        let operations = nodes.filter(|&node| self.is_operation(node)).count();
        let of = |count: usize, what: &str| {
            let s = if count == 1 { "" } else { "s" };
            format!("{count} {what}{s}")
        };
        let (kernels, calls) = (self.fused.len(), self.calls.len());
        let (kernels, calls) = (of(kernels, "kernel"), of(calls, "call"));
        format!("{kernels}, {calls}, {}", of(operations, "operation"))
    }

    /// What is moved, and what is saved by that.
    fn moved(&self) -> String {
        let (moved, saved) = (bytes(self.traffic().total()), bytes(self.bytes_saved()));
        format!("moved {moved}, saved against one by one {saved}")
    }

    /// Whether a step is a kernel, a member of a combined launch, or a call.
    fn kind(&self, step: &StepInfo) -> String {
        match (step.kernel, step.combined) {
            (Some(_), Some(launch)) => format!("kernel of combined launch {launch}"),
            (Some(_), None) => "kernel".to_owned(),
            (None, _) => "call".to_owned(),
        }
    }

    /// Refusals by reason, with how many pairs each kept apart, most first.
    fn reasons(&self) -> Vec<(&'static str, usize)> {
        let mut reasons: Vec<(&'static str, usize)> = Vec::new();
        for (_, _, why) in &self.refusals {
            let why = why.describe();
            match reasons.iter_mut().find(|(reason, _)| *reason == why) {
                Some((_, count)) => *count += 1,
                None => reasons.push((why, 1)),
            }
        }
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        reasons
    }

    /// The text without sources.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let _ = write!(text, "graph:\n{}", self.graph);
        if !self.key.is_empty() {
            let _ = writeln!(text, "key: {}", self.key);
        }
        for value in self.folded() {
            let how = match value.kept {
                true => "computed once",
                false => "of captured tensors alone, computed at each call",
            };
            let (size, at) = (bytes(value.bytes as u64), value.location);
            let _ = writeln!(
                text,
                "{how}: {} {}{} {size} at {}:{}",
                value.op,
                value.dtype,
                value.shape,
                at.file(),
                at.line()
            );
        }
        for step in &self.steps {
            if let Some(info) = step.before.map(|at| &self.fused[at]) {
                let product = info.feeds.unwrap_or(info.nodes[0]);
                let _ = writeln!(
                    text,
                    "kernel [{}] before {} %{}, panel by panel, rows {:?} columns {:?}",
                    info.ops.join(" "),
                    self.graph.context(product).op,
                    product.0,
                    info.rows,
                    info.cols
                );
                text.push_str(&info.text);
            }
            match step.kernel {
                Some(at) => {
                    let info = &self.fused[at];
                    let first = |c: &&CombinedInfo| c.kernels.start == at;
                    if let Some(all) = step.combined.map(|c| &self.combined[c]).filter(first) {
                        let (n, cost) = (
                            all.kernels.len(),
                            self.cost(all.traffic, all.operations, all.measured),
                        );
                        let _ = writeln!(text, "the next {n} kernels at once: {cost}");
                    }
                    let after = info.product.map_or(String::new(), |product| {
                        let op = self.graph.context(product).op;
                        let how = match (info.tiles, self.by_library) {
                            (Some(Tiles { rows, columns, .. }), _) => {
                                format!("computed in tiles of {rows}x{columns}")
                            }
                            (None, false) => "panel by panel".to_owned(),
                            (None, true) => "by the library with it".to_owned(),
                        };
                        format!(" after {op} %{}, {how},", product.0)
                    });
                    let _ = writeln!(
                        text,
                        "kernel [{}]{after} rows {:?} columns {:?} loops {} {}",
                        info.ops.join(" "),
                        info.rows,
                        info.cols,
                        info.loops,
                        self.cost(step.traffic, step.operations, step.measured)
                    );
                    text.push_str(&info.text);
                }
                None => {
                    let host = if step.on_host { " on the host" } else { "" };
                    let _ = writeln!(
                        text,
                        "call {}{host} {}",
                        step.name,
                        self.cost(step.traffic, step.operations, step.measured)
                    );
                }
            }
        }
        if !self.steps.is_empty() {
            let (moved, saved) = (bytes(self.traffic().total()), bytes(self.bytes_saved()));
            let peak = bytes(self.peak);
            let _ = writeln!(
                text,
                "moved: {moved}; saved against one by one: {saved}; held at most: {peak}"
            );
            let operations = self.work().operations;
            let _ = match self.machine() {
                Some(machine) => {
                    let least = self.estimate(&machine).0 / 1e3;
                    writeln!(text, "operations: {operations}; at least {least:.1} µs")
                }
                None => writeln!(text, "operations: {operations}"),
            };
        }
        if let [first, left @ ..] = &self.rounds[..] {
            let left: Vec<String> = left.iter().map(usize::to_string).collect();
            let _ = writeln!(
                text,
                "nodes: {first}; after each round of fusion: {}",
                left.join(", ")
            );
        }
        for (launches, decision) in &self.graphs {
            let _ = match decision {
                GraphDecision::Captured(_) => writeln!(text, "launches {launches:?}: one graph"),
                GraphDecision::Later => writeln!(text, "launches {launches:?}: a graph later"),
                GraphDecision::Skipped(why) => {
                    writeln!(text, "launches {launches:?} in no graph: {why}")
                }
            };
        }
        if let Some(measured) = &self.measured {
            let _ = write!(text, "{measured}");
        }
        for (a, b, why) in &self.refusals {
            let _ = writeln!(text, "not fused: %{} %{}: {why}", a.0, b.0);
        }
        for hint in &self.hints {
            let _ = writeln!(text, "hint: {}", hint.text(&self.graph));
        }
        text
    }

    /// Whether a node is an operation, and no input.
    fn is_operation(&self, node: usize) -> bool {
        !matches!(self.graph.nodes()[node].op, NodeOp::Input(_))
    }

    /// Operator, dtype and shape of a node.
    fn label(&self, node: usize) -> String {
        let id = ValueId(node as u32);
        let of = &self.graph.nodes()[node];
        format!("{} {}{}", self.graph.context(id).op, of.dtype, of.shape)
    }
}

fn work(traffic: Traffic, operations: u64) -> Work {
    let bytes = traffic.total();
    Work { bytes, operations }
}

impl Explanation {
    /// What is known of the graph's device.
    fn machine(&self) -> Option<Machine> {
        Machine::of(&self.graph.device())
    }

    /// What a step moves and computes, the time that takes at least and what bounds it, where the device is known, and
    /// the time measured, if it was.
    fn cost(&self, traffic: Traffic, operations: u64, measured: Option<(u64, Duration)>) -> String {
        let Traffic { read, written } = traffic;
        let mut text = format!(
            "reads {}, writes {}, {operations} operations",
            bytes(read),
            bytes(written)
        );
        let known = self.machine();
        let least = known.map(|machine| work(traffic, operations).time(&machine));
        if let Some((Nanoseconds(time), bound)) = least {
            let bound = match bound {
                Bound::Memory => "memory",
                Bound::Arithmetic => "arithmetic",
            };
            let _ = write!(text, "; at least {:.1} µs ({bound})", time / 1e3);
        }
        if let Some((runs, mean)) = measured {
            let time = mean.as_secs_f64().max(1e-12);
            let _ = write!(text, "; measured {:.1} µs ({runs} runs)", 1e6 * time);
            if let Some((Nanoseconds(least), _)) = least {
                let _ = write!(text, ", {:.0} % of the bound", least / time / 1e7);
            }
        }
        text
    }
}

fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        let mut sharing: FxHashMap<&str, Vec<&FusedInfo>> = FxHashMap::default();
        for (source, kernel) in self.sources.iter().zip(&self.fused) {
            sharing.entry(source).or_default().push(kernel);
        }
        // Each source once, below the kernels that share it.
        for source in &self.sources {
            let Some(kernels) = sharing.remove(source.as_str()) else {
                continue;
            };
            writeln!(f, "source:")?;
            for kernel in kernels {
                f.write_str(&commented(&kernel.origins))?;
            }
            writeln!(f, "{source}")?;
        }
        Ok(())
    }
}
