//! How much memory a trace needs at the most.

use super::choose::Trace;
use crate::form::Edge;
use ferrotrace_kernels::Op;

/// The most bytes held at once when those of `computed` run in order and each value goes after its last use. This is what
/// eager mode needs at the least beyond constants and arguments; with `over`, where functions of an element are written
/// over an operand that dies, what a plan needs at the most, which does the same or stores no operand.
pub(super) fn peak(trace: &Trace<'_>, computed: &[bool], over: bool) -> usize {
    let nodes = || (0..trace.len()).filter(|&n| computed[n]);
    // Whose memory each value lies in.
    let mut owner: Vec<Option<usize>> = vec![None; trace.len()];
    let mut last_use = vec![0; trace.len()];
    for node in nodes() {
        owner[node] = match (trace.is_view(node), trace.operands(node)) {
            (false, _) => Some(node),
            (true, [Edge::Node(of), ..]) => owner[*of as usize],
            (true, _) => None,
        };
        for of in trace.operand_nodes(node).chain([node]) {
            if let Some(of) = owner[of] {
                last_use[of] = node;
            }
        }
    }
    for &output in &trace.form.outputs {
        if let Some(of) = owner[output as usize] {
            last_use[of] = usize::MAX;
        }
    }
    let (mut live, mut peak) = (0usize, 0usize);
    let mut goes: Vec<Vec<usize>> = vec![Vec::new(); trace.len()];
    for node in nodes() {
        let dies = |&of: &usize| {
            let bytes = trace.form.bytes(of) == trace.form.bytes(node);
            owner[of] == Some(of) && last_use[of] == node && bytes
        };
        let in_place = over && is_pointwise(trace.op(node));
        if let Some(of) = trace.operand_nodes(node).find(dies).filter(|_| in_place) {
            goes[node].retain(|&gone| gone != of);
            live -= trace.form.bytes(of);
        }
        if owner[node] == Some(node) {
            live = live.saturating_add(trace.form.bytes(node));
            if let Some(goes) = goes.get_mut(last_use[node]) {
                goes.push(node);
            }
        }
        peak = peak.max(live);
        for gone in &goes[node] {
            live -= trace.form.bytes(*gone);
        }
    }
    peak
}

fn is_pointwise(op: &Op) -> bool {
    op.is_elementwise()
}
