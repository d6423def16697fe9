//! The check of a draft's memory.

use super::{Draft, Step, accesses};
use crate::body::Source;
use ferrotrace_runtime::{Error, Result};
use std::collections::HashSet;

/// Checks a draft's memory, apart from the code that decided it: every buffer is written before it is read, none is
/// used after its release, outputs are never released, and shared memory is shared with a buffer released there.
pub(super) fn verify(draft: &Draft) -> Result<()> {
    let mut alive: HashSet<Source> = (0..draft.graph.inputs().len() as u32)
        .map(Source::Input)
        .collect();
    let empty =
        |s: &Source| matches!(s, Source::Node(v) if draft.graph.node(*v).shape.numel() == 0);
    for (i, step) in draft.steps.iter().enumerate() {
        let (reads, writes) = accesses(step);
        let writes: Vec<Source> = writes.into_iter().map(Source::Node).collect();
        if let Step::Call(call) = step
            && let Some(over) = draft.overwritten(call)
            && reads.iter().filter(|source| **source == over).count() != 1
        {
            return Err(Error::internal(format!(
                "step {i} reads {over:?} while it writes over it"
            )));
        }
        if let Some(bad) = reads.iter().find(|s| !alive.contains(s) && !empty(s)) {
            return Err(Error::internal(format!(
                "step {i} reads {bad:?}, which has no value"
            )));
        }
        if let Some(bad) = writes.iter().find(|s| alive.contains(s)) {
            return Err(Error::internal(format!("step {i} writes {bad:?} again")));
        }
        alive.extend(writes);
        for source in &draft.frees[i] {
            if !alive.remove(source) && !empty(source) {
                return Err(Error::internal(format!(
                    "step {i} releases {source:?}, which is not held"
                )));
            }
        }
    }
    match draft
        .outputs
        .iter()
        .find(|(s, _)| !alive.contains(s) && !empty(s))
    {
        Some((bad, _)) => Err(Error::internal(format!(
            "output {bad:?} is not held at the end"
        ))),
        None => Ok(()),
    }
}
