//! What is noted of a `jit` function while it runs to be recorded.
//!
//! A trace belongs to the thread that runs the function, and to every other thread that computes with one of its
//! arguments: the trace is found through the operand ([`Facts::traced`](crate::node::Facts)), so scoped threads and
//! parallel iterators record as the function's own thread does.

use crate::backend::Precision;
use crate::generator::Generator;
use crate::mode::{self, Mode};
use crate::node::{Draw, Node, NodeArc, State};
use ferrotrace_runtime::{Context, Error};
use parking_lot::{Mutex, RwLock};
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

/// The number of the last trace.
static TRACES: AtomicU64 = AtomicU64::new(0);

/// The number of the next operation of any trace.
static PLACES: AtomicU32 = AtomicU32::new(0);

/// Traces being recorded, on all threads.
static ACTIVE: RwLock<Vec<Arc<Trace>>> = RwLock::new(Vec::new());

thread_local! {
    /// The trace that this thread records; 0 for none.
    static CURRENT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    /// The number of the next operation outside of traces.
    static OWN_PLACES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    /// The trace itself. It is never dropped here, so that threads can record while they end.
    static TRACE: ManuallyDrop<RefCell<Option<Arc<Trace>>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// [`Trace::values`]: nothing has read them yet; something has, so that the function is not replayed; the function
/// returned and will be replayed, so that nothing may read them any more.
const UNREAD: u8 = 0;
const READ: u8 = 1;
const CLOSED: u8 = 2;
/// [`Trace::values`] of a branch or the body of a loop: nothing may ever read them.
const BARRED: u8 = 3;
/// It is, and something tried.
const REFUSED: u8 = 4;

/// A function being recorded, and what it did so far that a replay does not do.
#[derive(Debug)]
pub(crate) struct Trace {
    id: u64,
    /// The mode and precision in force where the function was called, for threads that have none of their own.
    mode: Mode,
    precision: Precision,
    /// Whether the function asked for sizes that may depend on an argument's: the trace then holds for these sizes
    /// alone.
    sizes: AtomicBool,
    /// Whether data of an argument, or of what is computed from one, was read: the trace holds for this call alone.
    values: AtomicU8,
    /// What it drew, in order.
    draws: Mutex<Vec<Drawn>>,
}

/// A draw from a generator.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub generator: Generator,
    /// How many numbers were drawn.
    pub numel: usize,
    /// The key and the first offset that it gave.
    pub position: (u64, u64),
}

/// A trace being recorded; it ends when this goes.
pub(crate) struct Recording(Arc<Trace>);

impl Drop for Recording {
    fn drop(&mut self) {
        ACTIVE.write().retain(|trace| trace.id != self.0.id);
    }
}

/// Restores what the thread recorded before, also when the function unwinds.
#[must_use]
struct Restore(u64, Option<Arc<Trace>>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
        let before = self.1.take();
        drop(TRACE.with(|trace| trace.replace(before)));
    }
}

impl Recording {
    /// Starts a trace. This thread records none yet.
    pub fn start() -> Recording {
        Recording::with(UNREAD, Vec::new())
    }

    /// Starts the trace of a branch or of the body of a loop, which may lie within another. Reading values is an error. It
    /// goes on behind these draws.
    pub fn of_body(draws: Vec<Drawn>) -> Recording {
        Recording::with(BARRED, draws)
    }

    fn with(values: u8, draws: Vec<Drawn>) -> Recording {
        let trace = Arc::new(Trace {
            id: TRACES.fetch_add(1, Relaxed) + 1,
            mode: mode::current(),
            precision: mode::precision(),
            sizes: AtomicBool::new(false),
            values: AtomicU8::new(values),
            draws: Mutex::new(draws),
        });
        ACTIVE.write().push(trace.clone());
        Recording(trace)
    }

    /// The trace's number, not 0.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Runs `f` on this thread as a part of the trace.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        let _restore = self.0.clone().enter();
        f()
    }

    /// Whether sizes were asked for.
    pub fn asked_sizes(&self) -> bool {
        self.0.sizes.load(Acquire)
    }

    /// Whether values were read.
    pub fn read_values(&self) -> bool {
        self.0.values.load(Acquire) == READ
    }

    /// Whether a branch or the body of a loop tried to read values.
    pub fn was_refused(&self) -> bool {
        self.0.values.load(Acquire) == REFUSED
    }

    /// Notes that values were read.
    pub fn note_values(&self) {
        self.0.note_values();
    }

    /// What was drawn.
    pub fn draws(&self) -> Vec<Drawn> {
        self.0.draws.lock().clone()
    }

    /// Forbids reading values from now on. False if some were read before.
    pub fn close(&self) -> bool {
        let values = &self.0.values;
        let closed = values.compare_exchange(UNREAD, CLOSED, AcqRel, Acquire);
        closed.is_ok()
    }
}

impl Trace {
    /// Whether it is of a branch or of the body of a loop.
    fn is_barred(&self) -> bool {
        matches!(self.values.load(Acquire), BARRED | REFUSED)
    }

    /// Makes what this thread records a part of the trace, until the returned value is dropped.
    fn enter(self: Arc<Trace>) -> Restore {
        let id = CURRENT.replace(self.id);
        Restore(id, TRACE.with(|trace| trace.replace(Some(self))))
    }

    /// Notes that values are read; false if they no longer may be.
    fn note_values(&self) -> bool {
        let noted = |values| match values {
            UNREAD => Some(READ),
            BARRED => Some(REFUSED),
            _ => None,
        };
        let seen = self.values.fetch_update(AcqRel, Acquire, noted);
        !matches!(seen, Ok(BARRED) | Err(CLOSED | REFUSED))
    }
}

/// A number for the next operation of a trace.
#[inline]
pub(crate) fn next_place() -> u32 {
    PLACES.fetch_add(1, Relaxed)
}

/// A number for the next operation that this thread records outside of traces.
#[inline]
pub(crate) fn next_own_place() -> u32 {
    let place = OWN_PLACES.get();
    OWN_PLACES.set(place.wrapping_add(1));
    place
}

/// The trace that this thread records; 0 for none.
#[inline]
pub(crate) fn current() -> u64 {
    CURRENT.get()
}

/// The trace of this number, while it is recorded.
#[cold]
fn active(id: u64) -> Option<Arc<Trace>> {
    if id == 0 {
        return None;
    }
    let own = TRACE.with(|trace| trace.borrow().clone().filter(|trace| trace.id == id));
    own.or_else(|| {
        let traces = ACTIVE.read();
        traces.iter().find(|trace| trace.id == id).cloned()
    })
}

/// Whether the trace of this number is being recorded.
pub(crate) fn is_active(id: u64) -> bool {
    active(id).is_some()
}

/// The trace that an operation of this thread on an operand of trace `operand` belongs to, the mode that it runs in,
/// and its precision.
#[cold]
pub(crate) fn followed(operand: u64) -> (u64, Mode, Precision) {
    let own = (mode::current(), mode::precision());
    match active(operand).filter(|_| current() == 0) {
        Some(trace) => {
            let mode = mode::own().unwrap_or(trace.mode);
            let precision = mode::own_precision().unwrap_or(trace.precision);
            (trace.id, mode, precision)
        }
        None => (current(), own.0, own.1),
    }
}

/// While it lives, this thread records for the trace that it follows.
pub(crate) struct Following {
    _restore: Option<(Restore, mode::Scope)>,
}

/// This thread, if it records no trace, records for the one that a node belongs to, in its mode and precision.
pub(crate) fn follow(node: &Node) -> Following {
    let facts = &node.facts;
    let trace = match facts.traced && current() == 0 {
        true => active(facts.trace),
        false => None,
    };
    let enter = |trace: Arc<Trace>| {
        let mode = mode::own().unwrap_or(trace.mode);
        let precision = mode::own_precision().unwrap_or(trace.precision);
        (trace.enter(), mode::enter(mode, precision))
    };
    Following {
        _restore: trace.map(enter),
    }
}

/// Whether the node was computed from an argument of a function that is being recorded.
pub(crate) fn is_traced(node: &Node) -> bool {
    let facts = &node.facts;
    facts.traced && is_active(facts.trace)
}

/// Whether the node is a value of a branch or of the body of a loop, which has no data before that runs.
pub(crate) fn is_barred(node: &Node) -> bool {
    let facts = &node.facts;
    facts.traced && active(facts.trace).is_some_and(|trace| trace.is_barred())
}

/// Notes that the program asked for the sizes of a node.
#[inline]
pub(crate) fn observe_sizes(node: &Node) {
    if node.facts.traced {
        note_sizes(node.facts.trace);
    }
}

#[cold]
fn note_sizes(id: u64) {
    if let Some(trace) = active(id) {
        trace.sizes.store(true, Relaxed);
    }
}

/// Notes that what was recorded depends on sizes in a way that is not recorded: an operation on these was refused.
#[cold]
pub(crate) fn observe_refusal<'a>(operands: impl Iterator<Item = &'a Node>) {
    note_sizes(current());
    operands.for_each(observe_sizes);
}

/// Notes that data of an argument of trace `id` is read. False if it no longer may be: the function has returned, and
/// what it computes is replayed.
pub(crate) fn observe_value(id: u64) -> bool {
    active(id).is_none_or(|trace| trace.note_values())
}

/// Notes a draw, and returns its number in the trace of this thread: [`Draw::NONE`] where no trace is recorded,
/// [`Draw::ELSEWHERE`] where other threads record one.
pub(crate) fn record_draw(generator: &Generator, numel: usize, position: (u64, u64)) -> u32 {
    if current() == 0 {
        return match ACTIVE.read().is_empty() {
            true => Draw::NONE,
            false => Draw::ELSEWHERE,
        };
    }
    TRACE.with(|trace| {
        let trace = trace.borrow();
        let Some(trace) = &*trace else {
            return Draw::NONE;
        };
        let mut draws = trace.draws.lock();
        draws.push(Drawn {
            generator: generator.clone(),
            numel,
            position,
        });
        draws.len() as u32 - 1
    })
}

/// The error of reading the data of an argument of trace `id`: the function that it was given to has returned, or is a branch
/// or the body of a loop.
pub(crate) fn stale(id: u64, location: &'static Location<'static>) -> Error {
    let (op, why) = match active(id).is_some_and(|trace| trace.is_barred()) {
        true => (
            "control flow",
            "a branch or the body of a loop is recorded before it runs, so it cannot read values: decide by `cond`, or \
             by `where_cond`",
        ),
        false => (
            "jit",
            "an argument of a recorded function, or what was computed from it, was used after the function returned: a \
             replay has no such value, so return it from the function",
        ),
    };
    Error::argument(why).at(Context {
        op,
        operands: Vec::new(),
        location: Some(location),
    })
}

/// Takes the data from what stood for the arguments of a function that has returned: whoever still holds one, or what
/// was computed from one, gets an error.
pub(crate) fn expire<'a>(arguments: impl Iterator<Item = &'a NodeArc>) {
    for node in arguments {
        if NodeArc::strong_count(node) > 1 {
            drop(node.set_state(State::Failed(stale(0, node.facts.location))));
        }
    }
}
