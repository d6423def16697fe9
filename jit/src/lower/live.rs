//! Which loop nests anybody reads.

use super::{CallArg, Lowered};
use crate::body::{BodyOp, Source};
use crate::nest::LoopNest;
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::Layout;
use rustc_hash::FxHashSet;

impl Lowered {
    /// The node that it computes.
    pub(crate) fn node(&self) -> ValueId {
        match self {
            Lowered::Nest(nest) => nest.node,
            Lowered::Call(call) => call.node,
            Lowered::Attention(attention) => attention.nest.node,
        }
    }

    /// What it reads, each once.
    pub(crate) fn reads(&self) -> Vec<Source> {
        let mut all: Vec<Source> = match self {
            Lowered::Nest(nest) => {
                let base = nest.update.as_ref().map(|update| update.base.0);
                loads(nest).chain(base).collect()
            }
            Lowered::Attention(attention) => {
                let own = Source::Node(attention.product);
                let operands = attention.operands.iter().map(|m| m.source);
                let others = loads(&attention.nest).filter(|source| *source != own);
                operands.chain(others).collect()
            }
            Lowered::Call(call) => {
                let windows = call.args.iter().filter_map(|arg| match arg {
                    CallArg::Window(source, _) => Some(*source),
                    CallArg::Number(_) => None,
                });
                windows.collect()
            }
        };
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn loads(nest: &LoopNest) -> impl Iterator<Item = Source> {
    nest.body
        .values()
        .iter()
        .filter_map(|value| match &value.op {
            BodyOp::Load { source, .. } => Some(*source),
            _ => None,
        })
}

/// The steps without loop nests that nothing reads: nodes without elements are not computed, so what they alone read
/// would be a kernel that stores nothing. Calls stay, for the errors that they may report.
pub(super) fn live(steps: Vec<Lowered>, outputs: &[(Source, Layout)]) -> Vec<Lowered> {
    let mut read: FxHashSet<Source> = outputs.iter().map(|(source, _)| *source).collect();
    let mut kept = Vec::with_capacity(steps.len());
    for step in steps.into_iter().rev() {
        if let Lowered::Nest(nest) = &step
            && !read.contains(&Source::Node(nest.node))
        {
            continue;
        }
        read.extend(step.reads());
        kept.push(step);
    }
    kept.reverse();
    kept
}
