//! A plan holds hardly more memory at once than the recorded operations one by one would: at most one part in
//! `Thresholds::held_share` more, or `Thresholds::held_least` bytes (scheduler B-19). Inputs that a run may overwrite belong
//! to what it holds.

mod cuts;

use super::Draft;
use super::one_by_one::OneByOne;
use crate::graph::Graph;
use crate::policy::Policy;
use cuts::give_up;
use ferrotrace_runtime::Result;
use std::sync::Arc;

/// A pass from a recorded and a simplified graph to a draft.
type Pass = fn(Graph, Graph, &Policy) -> Result<Draft>;

/// What the operations one by one allow a plan to hold beyond its inputs: first where inputs are kept, then where they are
/// released after their last use; with what composites hold while they run or without.
pub(super) fn allowed(recorded: &Graph, policy: &Policy, within: bool) -> [u64; 2] {
    let bounds = &policy.thresholds;
    let one_by_one = OneByOne::of(recorded, policy.target.tiles);
    let [kept, released] = one_by_one.peaks(within);
    let allowed = |beyond: u64, held: u64| {
        let more = held.checked_div(bounds.held_share).unwrap_or(u64::MAX);
        beyond.saturating_add(more.max(bounds.held_least))
    };
    [
        allowed(kept, kept),
        allowed(released, released.saturating_add(one_by_one.inputs())),
    ]
}

/// By how much a draft holds more than that.
fn over(draft: &Draft, allowed: [u64; 2]) -> Option<u64> {
    let beyond = draft.peaks().into_iter().zip(allowed);
    beyond.map(|(held, most)| held.saturating_sub(most)).max()
}

/// Whether a draft may hold more than the operations one by one allow: what composites hold is not counted for them.
pub(super) fn exceeds(draft: &Draft, policy: &Policy) -> bool {
    over(draft, allowed(&draft.recorded, policy, false)) != Some(0)
}

/// A draft that [exceeds] what is allowed, made again with fusions given up, those that have to do with what is held where
/// it is too much, in at most `Thresholds::held_rounds` rounds; the one
/// of least memory is kept. Each round takes time linear in the operations.
pub(super) fn bounded(draft: Draft, policy: &Policy, pass: Pass) -> Result<Draft> {
    let within = policy.target.library.is_complete();
    let allowed = allowed(&draft.recorded, policy, within);
    let mut best = (over(&draft, allowed), draft);
    let mut policy = policy.clone();
    let mut last: Option<Draft> = None;
    for _ in 0..policy.thresholds.held_rounds {
        let draft = last.as_ref().unwrap_or(&best.1);
        if best.0 == Some(0) || !give_up(draft, allowed, Arc::make_mut(&mut policy.given_up)) {
            break;
        }
        let next = pass(draft.recorded.clone(), draft.graph.clone(), &policy)?;
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
