//! An explanation as text.

use super::{CombinedInfo, Explanation, FusedInfo, GraphDecision, StepInfo, work};
use crate::draft::Traffic;
use crate::draft::origins::commented;
use crate::estimate::{Bound, Machine, Nanoseconds};
use crate::schedule::Tiles;
use rustc_hash::FxHashMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

impl Explanation {
    /// How many kernels, calls and operations there are.
    pub(super) fn counts(&self) -> String {
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
    pub(super) fn moved(&self) -> String {
        let (moved, saved) = (bytes(self.traffic().total()), bytes(self.bytes_saved()));
        format!("moved {moved}, saved against one by one {saved}")
    }

    /// Whether a step is a kernel, a member of a combined launch, or a call.
    pub(super) fn kind(&self, step: &StepInfo) -> String {
        match (step.kernel, step.combined) {
            (Some(_), Some(launch)) => format!("kernel of combined launch {launch}"),
            (Some(_), None) => "kernel".to_owned(),
            (None, _) => "call".to_owned(),
        }
    }

    /// Refusals by reason, with how many pairs each kept apart, most first.
    pub(super) fn reasons(&self) -> Vec<(&'static str, usize)> {
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
}

impl Explanation {
    /// What is known of the graph's device.
    fn machine(&self) -> Option<Machine> {
        Machine::of(&self.graph.device())
    }

    /// What a step moves and computes, the time that takes at least and what bounds it, where the device is known, and
    /// the time measured, if it was.
    pub(super) fn cost(
        &self,
        traffic: Traffic,
        operations: u64,
        measured: Option<(u64, Duration)>,
    ) -> String {
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

/// A number of bytes in the unit that suits it.
pub(super) fn bytes(n: u64) -> String {
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
