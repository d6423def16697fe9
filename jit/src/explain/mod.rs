//! What was decided for a graph, and why, as values, text, a Graphviz graph, a picture and a page.

mod alone;
mod dot;
mod drawing;
mod gather;
mod hints;
mod html;
mod svg;
mod text;

use crate::draft::Traffic;
use crate::estimate::{Machine, Nanoseconds, Work};
use crate::graph::{Graph, NodeOp};
use crate::policy::Measured;
use crate::schedule::{Refusal, Tiles};
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::{DType, Shape, Uncaptured};
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use alone::programs;
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

/// What became of consecutive launches of a plan (codegen B9.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphDecision {
    /// They are this many graphs, for different forms of inputs, of which a run launches one.
    Captured(usize),
    /// The plan has not run often enough yet.
    Later,
    /// They are launched one by one, and why.
    Skipped(Uncaptured),
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

impl Explanation {
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
