//! The flushes that nobody asks for: of a long trace, of a loop over little data, and of what keeps too much memory alive.

use super::collect::Stores;
use super::cut::{self, operands};
use super::flush_nodes;
use crate::node::{Node, NodeArc, retained_bytes, summaries};
use crate::trace;
use ferrotrace_runtime::{Channel, host, log};
use once_cell::sync::Lazy;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Operations on the longest pending path at which a trace is flushed.
static LIMIT: AtomicU32 = AtomicU32::new(4096);

/// Operations in a row from which a loop of little work is flushed; it is looked for at each power of two. Planning takes
/// some 40 us an operation, which few runs of small kernels repay: a plan that serves again after few steps gains.
static EARLY: AtomicU32 = AtomicU32::new(256);

/// Sets the number of operations in a row at which a pending trace is flushed by itself; at least 2. Unless it is set,
/// that is 4096, and 256 in a loop over tensors of up to some 32,000 elements.
pub fn set_trace_limit(operations: usize) {
    EARLY.store(u32::MAX, Relaxed);
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

/// Whether a loop is looked for at this depth.
#[inline]
fn is_early(level: u32) -> bool {
    level >= EARLY.load(Relaxed) && level.is_power_of_two()
}

/// Whether an operation just recorded at this depth may call for a flush.
#[inline]
pub(crate) fn reached(level: u32) -> bool {
    is_early(level) || level >= LIMIT.load(Relaxed) || retained_bytes() > GLANCE.load(Relaxed)
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
        cut::long(last, limit);
        return;
    }
    if is_early(level) {
        cut::small_loop(last, level);
    }
    let retained = retained_bytes();
    let limit = retained_limit();
    if retained < limit {
        NEXT.store(0, Relaxed);
        return;
    }
    if retained > NEXT.load(Relaxed) {
        // Where summaries keep nothing, looking again at each operation would find nothing again.
        if TRIES.load(Relaxed) == 0 && compute_summaries(last) {
            return;
        }
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
        note_left(limit);
    }
}

/// Sets what calls for the next flush, after one.
fn note_left(limit: u64) {
    let left = retained_bytes();
    let next = if left < limit { 0 } else { left + limit / 2 };
    NEXT.store(next, Relaxed);
}

/// Computes the summaries in the domain of `last` that keep data alive, each by itself: they are alike, and one plan then
/// serves them all. Whether there were any.
fn compute_summaries(last: &NodeArc) -> bool {
    let summaries = summaries::take(last.domain(), |node| kept_by(node) > 0);
    for summary in &summaries {
        flush_nodes(vec![summary.clone()], Stores::Rule);
    }
    if !summaries.is_empty() {
        note_left(retained_limit());
    }
    !summaries.is_empty()
}

/// Bytes that no handle reaches and a node's pending trace keeps alive, perhaps with others.
fn kept_by(node: &NodeArc) -> u64 {
    let mut seen: HashSet<*const Node> = HashSet::new();
    let mut stack = operands(node).into_vec();
    let mut kept = 0;
    while let Some(node) = stack.pop() {
        if seen.insert(NodeArc::as_ptr(&node)) {
            kept += node.retained();
            stack.extend(operands(&node));
        }
    }
    kept
}
