//! Explanations of what a flush will do, or did.

mod nearest;

use crate::args::{TensorLike, borrowed};
use crate::backend::{Draft, Explanation, Graph, Launches, Policy};
use crate::flush::collect::{Outcome, Stores, collect};
use crate::flush::collected::Collected;
use crate::flush::planned;
use crate::node::{NodeArc, NodeInput, State};
use crate::tuning;
use ferrotrace_kernels::Array;

/// How tensors are (or were) computed together: fused nodes, refusals to fuse, sources. Of pending tensors, what their
/// flush will do, without compiling or running anything; of stored ones, the plan that stored the first of them, as
/// long as it is kept, and for results of a `jit` function what of the function was computed once. Empty for data that no plan computed.
///
/// Of a struct of tensors: `explain(&model.tensors())`.
pub fn explain<T: TensorLike>(tensors: impl AsRef<[T]>) -> Explanation {
    let tensors = borrowed(tensors.as_ref());
    let pending: Vec<NodeArc> = tensors
        .iter()
        .filter(|tensor| tensor.is_pending())
        .map(|tensor| tensor.node().clone())
        .collect();
    if let Some(explanation) = explain_pending(&pending) {
        return explanation;
    }
    let plan = tensors
        .iter()
        .find_map(|tensor| match &*tensor.node().state() {
            State::Stored(stored) => {
                Some((stored.origin.plan.upgrade()?, stored.origin.folded.clone()))
            }
            _ => None,
        });
    let explanation = plan.and_then(|(entry, folded)| {
        let explanation = entry.plan()?.explain();
        Some(explanation.with_folded(folded))
    });
    explanation.unwrap_or_else(|| Explanation::of(&nothing()))
}

fn explain_pending(pending: &[NodeArc]) -> Option<Explanation> {
    while !pending.is_empty() {
        let roots = pending.iter().cloned().map(NodeInput::Tensor).collect();
        match collect(roots, Stores::Shown) {
            Outcome::Run(collected, leaves, _) => {
                let arrays: Vec<Array> = leaves.into_iter().map(|(array, _)| array).collect();
                return explain_collected(&collected, &arrays);
            }
            Outcome::Nothing => return None,
            Outcome::Wait(flight) => flight.wait(),
        }
    }
    None
}

fn explain_collected(collected: &Collected, arrays: &[Array]) -> Option<Explanation> {
    let form = collected.form(arrays.iter());
    let key = nearest::describe(&form, collected.hash);
    let known = planned::known(collected, arrays);
    if let Some(plan) = known.as_ref().and_then(|entry| entry.plan()) {
        return Some(plan.explain().with_key(key));
    }
    let graph = form
        .graph(&collected.scalar_values(), &collected.lines())
        .ok()?;
    let policy = tuning::policy(&graph);
    let draft = Draft::of(graph, &policy).ok()?;
    Some(Explanation::of(&draft).with_key(key))
}

/// The draft of an empty graph.
fn nothing() -> Draft {
    Draft {
        recorded: Graph::new(),
        graph: Graph::new(),
        steps: Vec::new(),
        checks: Vec::new(),
        alike: Vec::new(),
        launches: Launches::default(),
        policy: Policy::default(),
        frees: Vec::new(),
        outputs: Vec::new(),
        sites: Vec::new(),
        refusals: Vec::new(),
        rounds: Vec::new(),
        number: 0,
        pieces: Default::default(),
    }
}
