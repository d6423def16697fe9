//! Recordings of parts of a plan, made into graphs.

use super::Part;
use super::form::{EMPTY, Form, patched};
use crate::body::{Number, Source};
use crate::draft::{Step, accesses};
use crate::plan::Plan;
use crate::plan::run::Run;
use ferrotrace_kernels::{Array, Operand, ValueId};
use ferrotrace_runtime::{
    Buffer, Capture, DType, Layout, Recording, Result, Uncaptured, record, recorded, stats_scope,
    take_refusal,
};
use std::ops::Range;

/// A graph, and when it stands for a run.
#[derive(Debug)]
pub(super) struct Recorded {
    pub form: Form,
    pub graph: Capture,
    /// By block given to the graph after those of the form, the bytes of a result.
    pub results: Vec<usize>,
    /// What is stored afterwards: the block, and how it is looked at.
    pub stored: Vec<(ValueId, usize, Layout, DType)>,
    /// What is released by then.
    pub gone: Vec<Source>,
    /// Kernels' numbers that may change: command, word, number.
    pub numbers: Vec<(usize, usize, Number)>,
    /// Ready-made steps, and stores over dying buffers.
    pub counts: [u64; 2],
}

/// Why a part is in no graph, and which of its groups is to blame, if one is.
pub(super) type Refused = (Option<usize>, Uncaptured);

impl Plan {
    /// Records a part for inputs of this form.
    pub(super) fn record(
        &self,
        run: &Run<'_>,
        part: &Part,
        form: Form,
    ) -> Result<Result<Recorded, Refused>> {
        let device = self.draft.graph.device();
        let mut at = part.groups.start;
        let mut commands = Vec::new();
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
                self.launch_group(&mut shadow, group)?;
                commands.push((group, before..recorded()));
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
        if recording.len() < self.draft.policy.thresholds.graph_least {
            return Ok(Err((None, Uncaptured::TooFew(recording.len()))));
        }
        let numbers = self.patched_numbers(&recording, commands);
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

    /// Where the numbers of kernels that may change stand in a recording, given the commands of each group.
    fn patched_numbers(
        &self,
        recording: &Recording,
        commands: Vec<(usize, Range<usize>)>,
    ) -> Vec<(usize, usize, Number)> {
        let mut numbers = Vec::new();
        for (group, commands) in commands {
            let steps = &self.draft.steps[self.draft.launches.groups[group].clone()];
            for command in commands {
                for (member, words) in recording.scalars(command) {
                    let kernel = steps.get(*member).filter(|step| patched(step));
                    let all = kernel.and_then(Step::kernel).map(|kernel| &kernel.numbers);
                    for (number, word) in all.into_iter().flatten().zip(words.clone()) {
                        if matches!(number.operand, Operand::Slot(..)) {
                            numbers.push((command, word, *number));
                        }
                    }
                }
            }
        }
        numbers
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
