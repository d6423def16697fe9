//! The two flushes that nobody asks for: of a long trace, and of one that keeps too much memory alive.

use super::collect::Stores;
use super::flush_nodes;
use crate::node::{Node, NodeArc, NodeInput, State, Status, retained_bytes};
use crate::trace;
use ferrotrace_runtime::{Channel, host, log};
use once_cell::sync::Lazy;
use rustc_hash::FxHashSet;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Operations on the longest pending path at which a trace is flushed.
static LIMIT: AtomicU32 = AtomicU32::new(4096);

/// Sets the number of operations in a row (4096 at first) at which a pending trace is flushed by itself; at least 2.
pub fn set_trace_limit(operations: usize) {
    LIMIT.store(
        u32::try_from(operations).unwrap_or(u32::MAX).max(2),
        Relaxed,
    );
}

/// Bytes that are never too many, so that recording need not look further.
const FEW: u64 = 64 << 20;

/// Bytes that pending operations alone may keep alive, unless [`set_retained_limit`] said otherwise.
static DEFAULT: Lazy<u64> = Lazy::new(|| (host::memory_bytes() as u64 / 16).max(FEW));

/// What was set, or 0.
static RETAINED_LIMIT: AtomicU64 = AtomicU64::new(0);

/// The lesser of the limit set and [`FEW`].
static GLANCE: AtomicU64 = AtomicU64::new(FEW);

/// The bytes at which the next flush happens; 0 for the limit. It rises where a flush could not help, since what is kept
/// alive belongs to another trace.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A trace is flushed for the data that it keeps alive if that is at least this part of all that is kept so.
const SHARE: u64 = 16;

/// After so many operations of which none belongs to such a trace, the next flush waits for more data.
const MOST_TRIES: u32 = 256;

/// Operations since the limit was reached that belong to no such trace.
static TRIES: AtomicU32 = AtomicU32::new(0);

/// Sets how many bytes of data that no handle reaches pending operations may keep alive (at first the greater of 64 MiB
/// and a sixteenth of memory) before a trace is flushed by itself; at least 1.
///
/// ```
/// ferrotrace_tracer::set_retained_limit(256 << 20);
/// ```
pub fn set_retained_limit(bytes: u64) {
    RETAINED_LIMIT.store(bytes.max(1), Relaxed);
    GLANCE.store(bytes.clamp(1, FEW), Relaxed);
    NEXT.store(0, Relaxed);
}

fn retained_limit() -> u64 {
    match RETAINED_LIMIT.load(Relaxed) {
        0 => *DEFAULT,
        limit => limit,
    }
}

/// Whether an operation just recorded at this depth calls for a flush.
#[inline]
pub(crate) fn reached(level: u32) -> bool {
    level >= LIMIT.load(Relaxed) || retained_bytes() > GLANCE.load(Relaxed)
}

/// Flushes the trace of `last`, which was just recorded at `level`, if it is too long or keeps too much alive.
#[cold]
pub(crate) fn flush(last: &NodeArc, level: u32) {
    // A traced function is one trace, however long.
    if trace::current() != 0 || trace::is_traced(last) {
        return;
    }
    let limit = LIMIT.load(Relaxed);
    if level >= limit {
        correct_levels(last);
        if last.level() >= limit {
            log(Channel::Hints, || {
                format!(
                    "a trace of {limit} operations in a row is flushed: `eval` or `set_trace_limit`"
                )
            });
            cut(last);
        }
        return;
    }
    let retained = retained_bytes();
    let limit = retained_limit();
    if retained < limit {
        NEXT.store(0, Relaxed);
        return;
    }
    if retained > NEXT.load(Relaxed) {
        if kept_by(last) < retained / SHARE {
            // One of the next operations may belong to the trace that keeps it.
            if TRIES.fetch_add(1, Relaxed) >= MOST_TRIES {
                TRIES.store(0, Relaxed);
                NEXT.store(retained + limit / 2, Relaxed);
            }
            return;
        }
        TRIES.store(0, Relaxed);
        log(Channel::Hints, || {
            format!(
                "a trace that keeps {retained} bytes alive is flushed: `eval` or `set_retained_limit`"
            )
        });
        flush_nodes(vec![last.clone()], Stores::Rule);
        let left = retained_bytes();
        let next = if left < limit { 0 } else { left + limit / 2 };
        NEXT.store(next, Relaxed);
    }
}

/// The tensor operands of a node, if it is recorded.
fn operands(node: &Node) -> Vec<NodeArc> {
    match &*node.state() {
        State::Recorded(inputs) => inputs
            .iter()
            .filter_map(|input| match input {
                NodeInput::Tensor(node) => Some(node.clone()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Bytes that no handle reaches and a node's pending trace keeps alive, perhaps with others.
fn kept_by(node: &NodeArc) -> u64 {
    let mut seen: HashSet<*const Node> = HashSet::new();
    let mut stack = operands(node);
    let mut kept = 0;
    while let Some(node) = stack.pop() {
        if seen.insert(NodeArc::as_ptr(&node)) {
            kept += node.retained();
            stack.extend(operands(&node));
        }
    }
    kept
}

thread_local! {
    /// Nodes whose levels this thread corrected since its last flush. Each is met once between two flushes: an optimiser whose
    /// parameters all have old levels records thousands of operations over the same ones. A node in the place of one that is gone
    /// keeps its level until then, which may be too high.
    static CORRECTED: RefCell<FxHashSet<*const Node>> = RefCell::default();
}

/// Forgets corrected levels, since a flush lowers those of what it leaves pending.
pub(super) fn note_flush() {
    let _ = CORRECTED.try_with(|corrected| {
        let mut corrected = corrected.borrow_mut();
        if !corrected.is_empty() {
            corrected.clear();
        }
    });
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

/// Flushes the trace of `last` up to the last repeat of the line that opened it, so that a loop is cut at the same
/// phase each time and finds its plan again; all of it, if that line does not repeat.
fn cut(last: &NodeArc) {
    let path = deepest_path(last);
    let Some(opener) = path.last() else { return };
    let line = opener.facts.location;
    let repeat = path.iter().find(|node| node.facts.location == line);
    let wanted = match repeat {
        Some(repeat) if !NodeArc::ptr_eq(repeat, opener) => operands(repeat),
        _ => vec![last.clone()],
    };
    let pending = wanted
        .into_iter()
        .filter(|node| node.status() == Status::Pending)
        .collect();
    // What else holds a node keeps its operands from being given away.
    drop(path);
    flush_nodes(pending, Stores::Reachable);
    correct_levels(last);
}
