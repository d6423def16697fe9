//! Where a long trace is flushed: at the same phase of the loop that records it each time, so that its plan is found again.

use super::collect::Stores;
use super::flush_nodes;
use crate::node::{Node, NodeArc, NodeInput, State, Status, summaries};
use crate::plans::LITTLE;
use ferrotrace_runtime::{Channel, log};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};

/// Steps that a path shows at least.
const LEAST_STEPS: usize = 8;

/// Searches without a loop after which no other is made at the level before the next flush: many nodes may have it.
const MOST_SEARCHES: u32 = 4;

/// The tensor operands of a node, if it is recorded.
pub(super) fn operands(node: &Node) -> SmallVec<[NodeArc; 3]> {
    match &*node.state() {
        State::Recorded(inputs) => inputs
            .iter()
            .filter_map(|input| match input {
                NodeInput::Tensor(node) => Some(node.clone()),
                _ => None,
            })
            .collect(),
        _ => SmallVec::new(),
    }
}

thread_local! {
    /// Nodes whose levels this thread corrected since its last flush. Each is met once between two flushes: an optimiser whose
    /// parameters all have old levels records thousands of operations over the same ones. A node in the place of one that is gone
    /// keeps its level until then, which may be too high.
    static CORRECTED: RefCell<FxHashSet<*const Node>> = RefCell::default();

    /// A level, and the searches for a loop at it since the last flush.
    static SEARCHED: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// Forgets corrected levels, since a flush lowers those of what it leaves pending.
pub(super) fn note_flush() {
    let _ = CORRECTED.try_with(|corrected| {
        let mut corrected = corrected.borrow_mut();
        if !corrected.is_empty() {
            corrected.clear();
        }
    });
    SEARCHED.set((0, 0));
}

/// Sets the level of `root` and of every pending node under it to what it is.
fn correct_levels(root: &NodeArc) {
    // A thread that ends remembers nothing.
    let mut met = CORRECTED.try_with(RefCell::take).unwrap_or_default();
    let mut stack = vec![(root.clone(), operands(root), 0usize)];
    met.insert(NodeArc::as_ptr(root));
    while let Some((node, inputs, next)) = stack.last_mut() {
        if let Some(input) = inputs.get(*next) {
            *next += 1;
            let fresh = input.status() == Status::Pending && met.insert(NodeArc::as_ptr(input));
            if fresh {
                let input = input.clone();
                let below = operands(&input);
                stack.push((input, below, 0));
            }
            continue;
        }
        let deepest = inputs.iter().map(|input| input.level()).max().unwrap_or(0);
        node.set_level(deepest + 1);
        stack.pop();
    }
    let _ = CORRECTED.try_with(|corrected| corrected.replace(met));
}

/// The deepest path from a node to the first operation of its trace, that operation last.
fn deepest_path(node: &NodeArc) -> Vec<NodeArc> {
    let mut path = vec![node.clone()];
    while let Some(last) = path.last() {
        let deepest = operands(last).into_iter().max_by_key(|input| input.level());
        match deepest {
            Some(input) if input.level() > 0 => path.push(input),
            _ => break,
        }
    }
    path
}

/// Flushes the trace of `last`, which is longer than the limit: up to the step that is being recorded, if a loop records it;
/// else up to the last repeat of the line that opened it; all of it, if that line does not repeat.
pub(super) fn long(last: &NodeArc, limit: u32) {
    correct_levels(last);
    if last.level() < limit {
        return;
    }
    log(Channel::Hints, || {
        format!("a trace of {limit} operations in a row is flushed: `eval` or `set_trace_limit`")
    });
    let path = deepest_path(last);
    let line = path.last().map(|opener| opener.facts.location);
    let repeat = || {
        path.iter()
            .position(|node| Some(node.facts.location) == line)
    };
    let repeat = step_begin(&path).map(|(begin, _)| begin).or_else(repeat);
    let wanted = match repeat {
        Some(repeat) if repeat + 1 < path.len() => carried(last, &path[repeat]),
        _ => vec![last.clone()],
    };
    // What else holds a node keeps its operands from being given away.
    drop(path);
    flush_steps(last, wanted, Stores::Reachable);
}

/// Flushes the trace of `last`, which was recorded at `level`, up to the step that is being recorded, if a loop of little
/// work records it. A loop whose steps keep values for gradients waits: what is kept is chosen when they are taken.
pub(super) fn small_loop(last: &NodeArc, level: u32) {
    let (searched, times) = SEARCHED.get();
    if searched == level && times >= MOST_SEARCHES {
        return;
    }
    let mut path = deepest_path(last);
    // A path as long as the level says shows that the level is right.
    if path.len() < level as usize {
        correct_levels(last);
        if last.level() < level {
            return;
        }
        path = deepest_path(last);
    }
    SEARCHED.set((level, if searched == level { times + 1 } else { 1 }));
    let Some((begin, step)) = step_begin(&path) else {
        return;
    };
    // A loop within the steps of another: what the outer one holds of its last step is older than the inner one's states.
    let is_held = |at: &usize| path[*at + 1].handles() > 0;
    let begin = (begin + step..path.len() - 1)
        .find(is_held)
        .unwrap_or(begin);
    let elements: usize = path.iter().map(|node| node.facts.shape.numel()).sum();
    let is_kept = |node: &NodeArc| node.is_expected();
    if elements / path.len() > LITTLE || path[begin..].iter().any(is_kept) {
        return;
    }
    let wanted = carried(last, &path[begin]);
    drop(path);
    flush_steps(last, wanted, Stores::Steps);
}

/// Where the step of a loop that is being recorded begins on a path, which ends with its first operation, and the operations of
/// a step: the steps before it recorded the same operations on the same lines. What the first steps begin with may differ, and
/// what the last one ends with.
fn step_begin(path: &[NodeArc]) -> Option<(usize, usize)> {
    let of = |node: &NodeArc| {
        let line = std::ptr::from_ref(node.facts.location).addr();
        (line, node.facts.hash)
    };
    let recorded: Vec<(usize, u64)> = path.iter().map(of).collect();
    let len = recorded.len();
    let repeats = |at: usize, step: usize| recorded[at] == recorded[at + step];
    let is_step = |&step: &usize| (2 * step..len / 2).all(|at| repeats(at, step));
    let step = (1..=len / LEAST_STEPS).find(is_step)?;
    let mut first = len / 2 + step;
    while first + 1 < len && repeats(first + 1 - step, step) {
        first += 1;
    }
    let begins = |at: &usize| recorded[*at] == recorded[first];
    let begin = (first % step..first).step_by(step).take(3).find(begins)?;
    Some((begin, step))
}

/// What operations under `last`, from `begin` on, read of those recorded before it: all states that a loop whose step begins there
/// carries into the step, though one chain of operations leads to `begin`.
fn carried(last: &NodeArc, begin: &NodeArc) -> Vec<NodeArc> {
    let first = begin.facts.place;
    let is_before = |node: &NodeArc| (node.facts.place.wrapping_sub(first) as i32) < 0;
    let mut met: FxHashSet<*const Node> = FxHashSet::default();
    let (mut stack, mut found) = (vec![last.clone(), begin.clone()], Vec::new());
    while let Some(node) = stack.pop() {
        for operand in operands(&node) {
            let fresh =
                operand.status() == Status::Pending && met.insert(NodeArc::as_ptr(&operand));
            match (fresh, is_before(&operand)) {
                (true, true) => found.push(operand),
                (true, false) => stack.push(operand),
                (false, _) => {}
            }
        }
    }
    found
}

/// Flushes `wanted` and the summaries of what was recorded before it.
fn flush_steps(last: &NodeArc, mut wanted: Vec<NodeArc>, stores: Stores) {
    wanted.retain(|node| node.status() == Status::Pending);
    add_summaries(&mut wanted, usize::MAX);
    flush_nodes(wanted, stores);
    correct_levels(last);
    summaries::listed(last.domain())
        .iter()
        .for_each(correct_levels);
}

/// Adds to nodes that are to be flushed the summaries of so many elements at most that were recorded before the last of
/// them.
pub(super) fn add_summaries(wanted: &mut Vec<NodeArc>, elements: usize) {
    if let Some(last) = wanted.iter().max_by_key(|node| node.level()) {
        let (domain, level) = (last.domain(), last.level());
        wanted.extend(summaries::take(domain, |node| {
            node.level() <= level && node.facts.shape.numel() <= elements
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    /// One chain of operations leads from a step to the one before; another state is read beside it.
    #[test]
    fn all_states_are_carried_into_a_step() {
        with_mode(Mode::Compiled, || {
            let ones = Tensor::ones(4, DType::F32, &Device::cpu());
            ones.eval().expect("ones");
            let (mut x, mut y) = (ones.clone(), ones);
            for _ in 0..5 {
                x = &x * 0.99 + &y * 0.01;
                y = &y * 0.5 + 0.01;
            }
            let begin = &y * 0.5;
            let next = &x * 0.99 + (&begin + 0.01) * 0.01;
            let found = carried(next.node(), begin.node());
            let is_found = |x: &Tensor| found.iter().any(|node| NodeArc::ptr_eq(node, x.node()));
            assert_eq!((found.len(), is_found(&x), is_found(&y)), (2, true, true));
        });
    }

    /// A step of forty steps of an inner loop: flushes leave the same operations pending at the end of each.
    #[test]
    fn a_loop_within_a_step_is_flushed_with_the_step() {
        with_mode(Mode::Compiled, || {
            let ones = Tensor::ones(4, DType::F32, &Device::cpu());
            ones.eval().expect("ones");
            let (mut x, mut v) = (ones.clone(), ones);
            let mut levels = Vec::new();
            for _ in 0..12 {
                let (mut inner, mut speed) = (x.clone(), v.clone());
                for _ in 0..40 {
                    speed = &speed - inner.sin() * 0.01;
                    inner = &inner + &speed * 0.01;
                }
                (x, v) = (inner, speed);
                levels.push(x.node().level());
            }
            assert!(
                levels[2..].iter().all(|&level| level == levels[2]),
                "{levels:?}"
            );
        });
    }
}
