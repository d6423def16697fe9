//! A plan holds hardly more memory at once than the recorded operations one by one would: at most one part in
//! [`Limits::held_share`] more, or [`Limits::held_least`] bytes (scheduler B-19).

use super::cuts::give_up;
use super::one_by_one::OneByOne;
use super::{Draft, Limits};
use crate::graph::Graph;
use ferrotrace_runtime::Result;
use std::sync::Arc;

/// A pass from a recorded and a simplified graph to a draft.
type Pass = fn(Graph, Graph, &Limits) -> Result<Draft>;

/// The draft itself if it holds no more than the operations one by one allow. Else fusions are given up, those that have
/// to do with what is held where it is too much, and it is made again, in at most [`Limits::held_rounds`] rounds; the one
/// of least memory is kept. Each round takes time linear in the operations.
pub(super) fn bounded(draft: Draft, limits: &Limits, pass: Pass) -> Result<Draft> {
    let one_by_one = OneByOne::of(&draft.recorded);
    let allowed = |within: bool| {
        let peaks = one_by_one.peaks(within);
        peaks.map(|held| {
            let more = held.checked_div(limits.held_share).unwrap_or(u64::MAX);
            held.saturating_add(more.max(limits.held_least))
        })
    };
    let over = |draft: &Draft, allowed: [u64; 2]| {
        let beyond = draft.peaks().into_iter().zip(allowed);
        beyond.map(|(held, most)| held.saturating_sub(most)).max()
    };
    // What composites hold while they run is asked only where that decides.
    if over(&draft, allowed(false)) == Some(0) {
        return Ok(draft);
    }
    let allowed = allowed(draft.graph.device().is_cpu());
    let mut best = (over(&draft, allowed), draft);
    let mut limits = limits.clone();
    let mut last: Option<Draft> = None;
    for _ in 0..limits.held_rounds {
        let draft = last.as_ref().unwrap_or(&best.1);
        if best.0 == Some(0) || !give_up(draft, allowed, Arc::make_mut(&mut limits.given_up)) {
            break;
        }
        let next = pass(draft.recorded.clone(), draft.graph.clone(), &limits)?;
        let held = over(&next, allowed);
        last = None;
        if held < best.0 {
            best = (held, next);
        } else {
            last = Some(next);
        }
    }
    Ok(best.1)
}
