//! Graphs of a device for runs of a plan: consecutive launches become one (scheduler G-01 to G-10, codegen B9.5).
//!
//! A plan's launches are cut into longest runs of what can be captured. A run is recorded by running its steps once more
//! with memory that is not there, and made into a graph: its inputs and results are given to each launch, what lives
//! within it is one block, and its numbers are patched. What a recording depends on besides, the inputs' layouts, which
//! of them share memory and which may be overwritten, and numbers that are no kernel's arguments, is compared before
//! each launch; a few graphs are kept for different answers.

use super::build::accesses;
use super::run::Run;
use super::{Draft, Plan, Step};
use crate::body::Source;
use crate::lower::CallArg;
use ferrotrace_kernels::{Array, Operand, ValueId};
use ferrotrace_runtime::{
    Buffer, Capture, Channel, Config, Counter, DType, Error, ErrorKind, Layout, Result, Uncaptured,
    count, is_profiling, log, record, recorded, stats_scope, take_refusal,
};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The graphs of a plan.
#[derive(Debug)]
pub(crate) struct Captures {
    /// Runs of the plan so far, as far as they matter.
    runs: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By group of the plan's launches, why it is in no graph.
    barred: Vec<Option<Uncaptured>>,
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

/// A graph, and when it stands for a run.
#[derive(Debug)]
struct Recorded {
    form: Form,
    graph: Capture,
    /// By block given to the graph after those of the form, the bytes of a result.
    results: Vec<usize>,
    /// What is stored afterwards: the block, and how it is looked at.
    stored: Vec<(ValueId, usize, Layout, DType)>,
    /// What is released by then.
    gone: Vec<Source>,
    /// Kernels' numbers that may change: command, word, number.
    numbers: Vec<(usize, usize, crate::body::Number)>,
    /// Ready-made steps, and stores over dying buffers.
    counts: [u64; 2],
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

/// The block of what has no bytes.
const EMPTY: usize = usize::MAX;

/// When launches are captured.
#[derive(Clone, Copy, Debug, Default)]
pub struct GraphLimits {
    /// Fewest launches in a row that become a graph.
    pub least: usize,
    /// Runs of a plan before its launches do.
    pub runs: u32,
    /// Most graphs of one run of launches, for inputs of different forms.
    pub forms: usize,
}

/// The buffers that a graph is given, and the bytes of each before the part that it works on.
type Blocks = SmallVec<[(Buffer, usize); 8]>;

/// Windows that differ in whole units of so many bytes are the same to a graph: no kernel asks for more alignment.
const UNIT: usize = 256;

/// A layout without most of its offset, and how many bytes that is: what lies before a window is nothing to its users.
fn window(layout: &Layout, size: usize) -> (Layout, usize) {
    let offset = layout.offset();
    let skipped = offset - offset % (UNIT / size);
    if skipped == 0 || layout.strides().iter().any(|&s| s < 0) {
        return (layout.clone(), 0);
    }
    (moved(layout, offset - skipped), skipped * size)
}

fn moved(layout: &Layout, offset: usize) -> Layout {
    let strides = SmallVec::from_slice(layout.strides());
    Layout::new(layout.shape().clone(), strides, offset)
}

/// What a recording depends on.
#[derive(Clone, Debug, PartialEq)]
struct Form {
    /// By given source: its block and layout, and whether it may be overwritten; `None` without memory.
    sources: SmallVec<[Option<(usize, Layout, bool)>; 8]>,
    /// By block: bytes, and whether somebody else holds it.
    blocks: SmallVec<[(usize, bool); 8]>,
    /// Numbers that are no kernel's arguments, by their bits.
    numbers: SmallVec<[u64; 4]>,
}

impl Captures {
    /// Graphs for a plan, none made yet; `None` for a plan that has no use for them.
    pub(super) fn of(draft: &Draft) -> Option<Captures> {
        let wanted = !draft.graph.device().is_cpu() && Config::get().graphs;
        wanted.then(|| {
            let barred = draft.launches.groups.iter().map(|group| {
                let reports = |step: &Step| step.kernel().is_some_and(|k| k.grid.reports);
                let checks = draft.steps[group.clone()].iter().any(reports);
                checks.then_some(Uncaptured::ChecksIndices)
            });
            let barred: Vec<Option<Uncaptured>> = barred.collect();
            Captures {
                runs: AtomicU32::new(0),
                state: Mutex::new(State {
                    parts: parts(draft, &barred),
                    barred,
                }),
            }
        })
    }

    /// What became of each run of launches.
    pub(crate) fn decisions(&self) -> Vec<(Range<usize>, GraphDecision)> {
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

/// Longest runs of groups that are captured, and of those that are not (scheduler G-02, G-08).
fn parts(draft: &Draft, barred: &[Option<Uncaptured>]) -> Vec<Part> {
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
        if part.refused.is_none() && n < draft.graphs.least {
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
        let Some(captures) = self.captures.as_ref().filter(|_| !is_profiling()) else {
            return Ok(false);
        };
        let groups = &self.draft.launches.groups;
        if captures.runs.load(Relaxed) < self.draft.graphs.runs {
            captures.runs.fetch_add(1, Relaxed);
            return Ok(false);
        }
        let mut group = 0;
        while group < groups.len() {
            let (end, done) = self.run_part(run, captures, group)?;
            // Others may run launches meanwhile.
            for at in group..if done { group } else { end } {
                self.run_group(run, at)?;
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
            let Err((at, why)) = self.replay(run, part)? else {
                return Ok((end, true));
            };
            tell(&why, at, end);
            match at {
                // One launch alone cannot be captured: the others are, apart from it.
                Some(at) => {
                    state.barred[at] = Some(why);
                    state.parts = parts(&self.draft, &state.barred);
                }
                None => part.refused = Some(why),
            }
        }
    }

    /// Runs a part as a graph, or says why not and which of its groups is to blame; nothing has run then.
    #[allow(clippy::type_complexity)]
    fn replay(
        &self,
        run: &mut Run<'_>,
        part: &mut Part,
    ) -> Result<Result<(), (Option<usize>, Uncaptured)>> {
        let (form, blocks) = self.form(run, part)?;
        let found = part.graphs.iter().position(|graph| graph.form == form);
        let at = match found {
            Some(at) => at,
            None if part.graphs.len() >= self.draft.graphs.forms => {
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
            let bits = run.number(&number.operand)?.to_bits(number.dtype);
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

    /// What a recording of the part would depend on now, and the blocks that it is given.
    fn form(&self, run: &Run<'_>, part: &Part) -> Result<(Form, Blocks)> {
        let mut blocks = Blocks::new();
        let mut found: SmallVec<[(usize, usize); 8]> = SmallVec::new();
        let mut sources = SmallVec::new();
        for &source in &part.given {
            let Ok(array) = run.array(source) else {
                sources.push(None);
                continue;
            };
            let owned = run.owns(source);
            if array.buffer.bytes() == 0 || array.numel() == 0 {
                sources.push(Some((EMPTY, moved(&array.layout, 0), owned)));
                continue;
            }
            let (layout, skipped) = window(&array.layout, array.dtype.size());
            let same = |b: &(Buffer, usize)| b.1 == skipped && b.0.same(&array.buffer);
            let block = match blocks.iter().position(same) {
                Some(block) => block,
                None => {
                    let bytes = match skipped {
                        0 => array.buffer.bytes(),
                        _ => layout.span().end * array.dtype.size(),
                    };
                    // One handle is the list's own.
                    found.push((bytes, 1));
                    blocks.push((array.buffer.clone(), skipped));
                    blocks.len() - 1
                }
            };
            if skipped != 0 {
                let bytes = layout.span().end * array.dtype.size();
                found[block].0 = found[block].0.max(bytes);
            }
            found[block].1 += 1;
            sources.push(Some((block, layout, owned)));
        }
        let shared = |(b, held): (&(Buffer, usize), usize)| b.1 != 0 || b.0.handles() > held;
        let each = blocks.iter().zip(&found);
        let form = Form {
            sources,
            blocks: each.map(|(b, &(n, held))| (n, shared((b, held)))).collect(),
            numbers: self.guarded(run, part)?,
        };
        Ok((form, blocks))
    }

    /// The numbers of calls and combined launches, by their bits: they are no arguments that are patched.
    fn guarded(&self, run: &Run<'_>, part: &Part) -> Result<SmallVec<[u64; 4]>> {
        let mut bits = SmallVec::new();
        let mut note = |operand: &Operand| {
            if let Operand::Slot(..) = operand {
                let number = run.number(operand)?;
                bits.push(number.to_f64().to_bits());
                bits.push(number.to_i64() as u64);
            }
            Ok::<(), Error>(())
        };
        for group in &self.draft.launches.groups[part.groups.clone()] {
            for step in &self.draft.steps[group.clone()] {
                if patched(step, group) {
                    continue;
                }
                for number in step.kernel().iter().flat_map(|k| &k.numbers) {
                    note(&number.operand)?;
                }
                for arg in step.call().iter().flat_map(|call| &call.args) {
                    if let CallArg::Number(operand) = arg {
                        note(operand)?;
                    }
                }
            }
        }
        Ok(bits)
    }

    /// Records a part for inputs of this form.
    #[allow(clippy::type_complexity)]
    fn record(
        &self,
        run: &Run<'_>,
        part: &Part,
        form: Form,
    ) -> Result<Result<Recorded, (Option<usize>, Uncaptured)>> {
        let device = self.draft.graph.device();
        let mut at = part.groups.start;
        let mut numbers = Vec::new();
        // What is stored afterwards: the symbol, and how it is looked at.
        type Stored = Vec<(ValueId, Option<u32>, Layout, DType)>;
        let mut steps = || -> Result<(Stored, Vec<Source>)> {
            let mut shadow = Run::shadow(run);
            let mut others = Vec::new();
            let mut blocks = Vec::new();
            for (bytes, shared) in &form.blocks {
                let block = Buffer::allocate(&device, *bytes)?;
                others.extend(shared.then(|| block.clone()));
                blocks.push(block);
            }
            for (source, given) in part.given.iter().zip(&form.sources) {
                if let Some((block, layout, owned)) = given {
                    let buffer = match *block {
                        EMPTY => Buffer::allocate(&device, 0)?,
                        block => blocks[block].clone(),
                    };
                    let array = Array {
                        buffer,
                        layout: layout.clone(),
                        dtype: run.array(*source)?.dtype,
                    };
                    shadow.put(*source, array, *owned);
                }
            }
            drop(blocks);
            for group in part.groups.clone() {
                at = group;
                let before = recorded();
                self.run_group(&mut shadow, group)?;
                let steps = &self.draft.launches.groups[group];
                let step = &self.draft.steps[steps.start];
                if let Some(kernel) = step.kernel().filter(|_| patched(step, steps)) {
                    let all = kernel.numbers.iter().enumerate();
                    let slots = all.filter(|(_, n)| matches!(n.operand, Operand::Slot(..)));
                    for (i, number) in slots {
                        numbers.extend((before..recorded()).map(|command| (command, i, *number)));
                    }
                }
            }
            let stored = self.left(&shadow, part);
            let gone = part.given.iter().copied();
            let gone =
                gone.filter(|source| run.array(*source).is_ok() && shadow.array(*source).is_err());
            Ok((stored, gone.collect()))
        };
        // Blocks are made first, so that their numbers are their symbols'.
        let ((done, counts), recording) = record(&device, || {
            let (done, stats) = stats_scope(&mut steps);
            let refused = take_refusal();
            (
                done.map_err(|error| refused.unwrap_or(Uncaptured::Refused(error.to_string()))),
                [stats.library_calls, stats.in_place_writes],
            )
        });
        let (left, gone) = match done {
            Ok(done) => done,
            Err(why) => return Ok(Err((Some(at), why))),
        };
        if recording.len() < self.draft.graphs.least {
            return Ok(Err((None, Uncaptured::TooFew(recording.len()))));
        }
        for number in &mut numbers {
            number.1 += recording.scalars(number.0).start;
        }
        let mut given: Vec<u32> = (0..form.blocks.len() as u32).collect();
        let (mut results, mut stored) = (Vec::new(), Vec::new());
        for (node, symbol, layout, dtype) in left {
            let Some(symbol) = symbol else {
                // Without elements: there is nothing to store, and readers know.
                continue;
            };
            let block = given.iter().position(|g| *g == symbol);
            let block = block.unwrap_or_else(|| {
                given.push(symbol);
                results.push(recording.bytes(symbol));
                given.len() - 1
            });
            stored.push((node, block, layout, dtype));
        }
        Ok(Ok(Recorded {
            form,
            graph: Capture::new(recording, &given)?,
            results,
            stored,
            gone,
            numbers,
            counts,
        }))
    }

    /// The nodes that a part wrote and that are alive after it.
    fn left(&self, shadow: &Run<'_>, part: &Part) -> Vec<(ValueId, Option<u32>, Layout, DType)> {
        let groups = &self.draft.launches.groups[part.groups.clone()];
        let mut left = Vec::new();
        for step in groups.iter().flat_map(|group| group.clone()) {
            let writes = accesses(&self.draft.steps[step]).1;
            let wholes = writes.iter().filter_map(|node| self.draft.pieces.get(node));
            let wholes: Vec<ValueId> = wholes.map(|piece| piece.whole).collect();
            for node in writes.into_iter().chain(wholes) {
                if left.iter().all(|l: &(ValueId, _, _, _)| l.0 != node)
                    && let Some(array) = shadow.node(node)
                {
                    let symbol = array.buffer.symbol();
                    left.push((node, symbol, array.layout.clone(), array.dtype));
                }
            }
        }
        left
    }
}

/// Whether a group is one kernel whose numbers are its arguments in order.
fn patched(step: &Step, group: &Range<usize>) -> bool {
    group.len() == 1 && matches!(step, Step::Launch(_))
}

/// Why launches are in no graph, for who looks at plans.
fn tell(why: &Uncaptured, at: Option<usize>, end: usize) {
    log(Channel::Plans, || match at {
        Some(at) => format!("launch {at} is in no graph: {why}"),
        None => format!("launches up to {end} are in no graph: {why}"),
    });
}
