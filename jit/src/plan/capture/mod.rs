//! Graphs of a device for runs of a plan: consecutive launches become one (scheduler G-01 to G-10, codegen B9.5).
//!
//! A plan's launches are cut into longest runs of what can be captured. A run is recorded by running its steps once more
//! with memory that is not there, and made into a graph: its inputs and results are given to each launch, what lives
//! within it is one block, and its numbers are patched. What a recording depends on besides, the inputs' layouts, which
//! of them share memory and which may be overwritten, and numbers that are no kernel's arguments, is compared before
//! each launch; a few graphs are kept for different answers.

mod form;
mod recording;

use super::Plan;
use super::run::Run;
use crate::body::Source;
use crate::draft::{Draft, Step, accesses};
use crate::explain::GraphDecision;
use ferrotrace_kernels::{Array, Op};
use ferrotrace_runtime::{
    Buffer, Channel, Config, Counter, Error, ErrorKind, Result, Uncaptured, count, is_profiling,
    is_recording, log,
};
use form::moved;
use parking_lot::Mutex;
use recording::{Recorded, Refused};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The graphs of a plan.
#[derive(Debug)]
pub(super) struct Captures {
    /// Runs of the plan so far, as far as they matter.
    runs: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By group of the plan's launches, why it is in no graph.
    barred: Vec<Option<Uncaptured>>,
    /// Groups that are loops, of which a graph has all launches.
    loops: Vec<usize>,
    parts: Vec<Part>,
}

/// Consecutive groups: a run of those that are captured, or of those that are not.
#[derive(Debug)]
struct Part {
    groups: Range<usize>,
    /// Why it is run launch by launch.
    refused: Option<Uncaptured>,
    /// Buffers made before it that it reads, writes over or releases.
    given: Vec<Source>,
    graphs: Vec<Recorded>,
}

impl Captures {
    /// Graphs for a plan, none made yet; `None` for a plan that has no use for them.
    pub(super) fn of(draft: &Draft) -> Option<Captures> {
        let wanted = draft.policy.target.records_launches && Config::get().graphs;
        wanted.then(|| {
            let barred = draft.launches.groups.iter().map(|group| {
                let reports = |step: &Step| step.kernel().is_some_and(|k| k.grid.reports);
                let steps = &draft.steps[group.clone()];
                if steps.iter().any(|step| decides(draft, step)) {
                    return Some(Uncaptured::HostCopy);
                }
                steps
                    .iter()
                    .any(reports)
                    .then_some(Uncaptured::ChecksIndices)
            });
            let barred: Vec<Option<Uncaptured>> = barred.collect();
            let runs_loop = |group: &Range<usize>| group.clone().any(|i| is_loop(draft, i));
            let groups = draft.launches.groups.iter().enumerate();
            let loops = groups.filter(|(_, group)| runs_loop(group));
            let loops: Vec<usize> = loops.map(|(at, _)| at).collect();
            Captures {
                runs: AtomicU32::new(0),
                state: Mutex::new(State {
                    parts: parts(draft, &barred, &loops),
                    barred,
                    loops,
                }),
            }
        })
    }

    /// What became of each run of launches.
    pub(super) fn decisions(&self) -> Vec<(Range<usize>, GraphDecision)> {
        let state = self.state.lock();
        let part = |part: &Part| {
            let decision = match (&part.refused, part.graphs.len()) {
                (Some(why), _) => GraphDecision::Skipped(why.clone()),
                (None, 0) => GraphDecision::Later,
                (None, graphs) => GraphDecision::Captured(graphs),
            };
            (part.groups.clone(), decision)
        };
        state.parts.iter().map(part).collect()
    }
}

/// Whether the step is a program whose launches depend on what the host reads.
fn decides(draft: &Draft, step: &Step) -> bool {
    let reads = |op: &Op| {
        op.as_program()
            .is_some_and(|program| !program.0.reads_nothing())
    };
    step.call()
        .is_some_and(|call| draft.graph.node(call.node).is(reads))
}

/// Whether the step is a program, such as a loop, which the host runs step by step.
fn is_loop(draft: &Draft, step: usize) -> bool {
    let call = draft.steps[step].call();
    call.is_some_and(|call| {
        draft
            .graph
            .node(call.node)
            .is(|op| op.as_program().is_some())
    })
}

/// Longest runs of groups that are captured, and of those that are not (scheduler G-02, G-08).
fn parts(draft: &Draft, barred: &[Option<Uncaptured>], loops: &[usize]) -> Vec<Part> {
    let groups = &draft.launches.groups;
    let mut parts: Vec<Part> = Vec::new();
    for (at, why) in barred.iter().enumerate() {
        match parts.last_mut() {
            Some(last) if last.refused.is_none() == why.is_none() => last.groups.end = at + 1,
            _ => parts.push(Part {
                groups: at..at + 1,
                refused: why.clone(),
                given: Vec::new(),
                graphs: Vec::new(),
            }),
        }
    }
    for part in &mut parts {
        let n = part.groups.len();
        let has_loop = loops.iter().any(|group| part.groups.contains(group));
        if part.refused.is_none() && !has_loop && n < draft.policy.thresholds.graph_least {
            part.refused = Some(Uncaptured::TooFew(n));
        }
        part.given = given(
            draft,
            groups[part.groups.start].start..groups[part.groups.end - 1].end,
        );
    }
    parts
}

/// The buffers that steps read, release or write parts of, and that none of them makes (scheduler G-03, G-09).
fn given(draft: &Draft, steps: Range<usize>) -> Vec<Source> {
    let (mut made, mut given) = (rustc_hash::FxHashSet::default(), Vec::new());
    let mut seen = rustc_hash::FxHashSet::default();
    for at in steps {
        let (reads, writes) = accesses(&draft.steps[at]);
        let wholes = writes.iter().filter_map(|node| draft.pieces.get(node));
        let wholes = wholes.map(|piece| Source::Node(piece.whole));
        let frees = draft.frees[at].iter().copied();
        for source in reads.into_iter().chain(wholes) {
            if !made.contains(&source) && seen.insert(source) {
                given.push(source);
            }
        }
        made.extend(writes.into_iter().map(Source::Node));
        for source in frees {
            if !made.contains(&source) && seen.insert(source) {
                given.push(source);
            }
        }
    }
    given
}

impl Plan {
    /// Runs all launches, in graphs where that is possible and the plan has run often enough; `false`, and nothing done,
    /// where it has not, or while somebody profiles, so that every kernel has its time.
    pub(super) fn run_captured(&self, run: &mut Run<'_>) -> Result<bool> {
        // Plans of a loop's body, recorded as a part of another's graph, are recorded launch by launch.
        let none = is_profiling() || is_recording();
        let Some(captures) = self.captures.as_ref().filter(|_| !none) else {
            return Ok(false);
        };
        let groups = &self.draft.launches.groups;
        if captures.runs.load(Relaxed) < self.draft.policy.thresholds.graph_runs {
            captures.runs.fetch_add(1, Relaxed);
            return Ok(false);
        }
        let mut group = 0;
        while group < groups.len() {
            let (end, done) = self.run_part(run, captures, group)?;
            // Others may run launches meanwhile.
            for at in group..if done { group } else { end } {
                self.run_group(run, at);
            }
            group = end;
        }
        Ok(true)
    }

    /// Replays the part that begins at a group, if it can be: its end, and whether it ran.
    fn run_part(
        &self,
        run: &mut Run<'_>,
        captures: &Captures,
        group: usize,
    ) -> Result<(usize, bool)> {
        let mut state = captures.state.lock();
        let state = &mut *state;
        loop {
            let part = state.parts.iter_mut().find(|p| p.groups.contains(&group));
            let part = part.ok_or_else(|| Error::internal("a launch is in no part"))?;
            let end = part.groups.end;
            // Another thread has cut the parts anew since this run began.
            if part.refused.is_some() || part.groups.start != group {
                return Ok((end, false));
            }
            let groups = part.groups.clone();
            let Err((at, why)) = self.replay(run, part)? else {
                return Ok((end, true));
            };
            // The launches around a loop may be graphs where those of the loop are none.
            let within = |at: &usize| groups.contains(at) && state.barred[*at].is_none();
            let at = at.or_else(|| state.loops.iter().copied().find(within));
            tell(&why, at, end);
            match at {
                // One launch alone cannot be captured: the others are, apart from it.
                Some(at) => {
                    state.barred[at] = Some(why);
                    state.parts = parts(&self.draft, &state.barred, &state.loops);
                }
                None => part.refused = Some(why),
            }
        }
    }

    /// Runs a part as a graph, or says why not and which of its groups is to blame; nothing has run then.
    fn replay(&self, run: &mut Run<'_>, part: &mut Part) -> Result<Result<(), Refused>> {
        let (form, blocks) = self.form(run, part)?;
        let found = part.graphs.iter().position(|graph| graph.form == form);
        let at = match found {
            Some(at) => at,
            None if part.graphs.len() >= self.draft.policy.thresholds.graph_forms => {
                return Ok(Err((None, Uncaptured::Changing)));
            }
            None => match self.record(run, part, form)? {
                Ok(recorded) => {
                    part.graphs.push(recorded);
                    part.graphs.len() - 1
                }
                Err(why) => return Ok(Err(why)),
            },
        };
        let recorded = &mut part.graphs[at];
        if found.is_some() {
            count(Counter::LibraryCalls, recorded.counts[0]);
            count(Counter::InPlaceWrites, recorded.counts[1]);
        }
        for (command, word, number) in &recorded.numbers {
            let bits = number.bits(run.number(&number.operand)?);
            recorded.graph.set_number(*command, *word, bits);
        }
        let device = self.draft.graph.device();
        let results: Vec<Buffer> = recorded
            .results
            .iter()
            .map(|&bytes| Buffer::allocate(&device, bytes))
            .collect::<Result<_>>()?;
        let given = blocks.iter().map(|(buffer, skipped)| (buffer, *skipped));
        let fresh = results.iter().map(|buffer| (buffer, 0));
        let launched = recorded.graph.launch(given.chain(fresh));
        if let Err(error) = launched {
            // A graph that never ran may be one that the driver does not take; the steps then run one by one.
            let memory = matches!(error.kind(), ErrorKind::OutOfMemory { .. });
            if found.is_none() && recorded.graph.is_new() && !memory {
                part.graphs.pop();
                return Ok(Err((None, Uncaptured::Refused(error.to_string()))));
            }
            return Err(error);
        }
        for source in &recorded.gone {
            run.forget(*source);
        }
        for (node, block, layout, dtype) in &recorded.stored {
            let (buffer, skipped) = match block.checked_sub(blocks.len()) {
                Some(result) => (&results[result], 0),
                None => (&blocks[*block].0, blocks[*block].1),
            };
            let array = Array {
                buffer: buffer.clone(),
                layout: moved(layout, layout.offset() + skipped / dtype.size()),
                dtype: *dtype,
            };
            run.store(*node, array);
        }
        Ok(Ok(()))
    }
}

/// Why launches are in no graph, for who looks at plans.
fn tell(why: &Uncaptured, at: Option<usize>, end: usize) {
    log(Channel::Plans, || match at {
        Some(at) => format!("launch {at} is in no graph: {why}"),
        None => format!("launches up to {end} are in no graph: {why}"),
    });
}
