//! What a thread notes while it runs a `jit` function to record it.

use crate::generator::Generator;
use crate::node::{Node, Status};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static TRACES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The trace that this thread records; 0 for none.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
    static SIZES: Cell<bool> = const { Cell::new(false) };
    static VALUES: Cell<bool> = const { Cell::new(false) };
    static DRAWS: RefCell<Vec<Drawn>> = const { RefCell::new(Vec::new()) };
}

/// What a function did that a replay does not do.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    /// It asked for sizes that may depend on an argument's: the trace holds for these sizes alone.
    pub sizes: bool,
    /// It read data of an argument, or of what is computed from one: the trace holds for this call alone.
    pub values: bool,
    /// What it drew, in order.
    pub draws: Vec<Drawn>,
}

/// A draw from a generator.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub generator: Generator,
    /// How many numbers.
    pub numel: usize,
    /// What came of it: key, and first offset.
    pub position: (u64, u64),
}

/// The trace that this thread records; 0 for none.
#[inline]
pub(crate) fn current() -> u64 {
    CURRENT.get()
}

/// Notes that the program asked for the sizes of a node.
#[inline]
pub(crate) fn observe_sizes(node: &Node) {
    if CURRENT.get() != 0 && (node.facts.argument != 0 || node.status() == Status::Pending) {
        SIZES.set(true);
    }
}

/// Notes that what was recorded depends on sizes in a way that is not recorded: an operation was refused.
#[cold]
pub(crate) fn observe_refusal() {
    SIZES.set(true);
}

/// Notes that data of an argument of trace `id` was read.
pub(crate) fn observe_value(id: u64) {
    if CURRENT.get() == id && id != 0 {
        VALUES.set(true);
    }
}

/// Notes a draw, and returns its number in the trace; `u32::MAX` outside of one.
pub(crate) fn record_draw(generator: &Generator, numel: usize, position: (u64, u64)) -> u32 {
    if CURRENT.get() == 0 {
        return u32::MAX;
    }
    DRAWS.with_borrow_mut(|draws| {
        draws.push(Drawn {
            generator: generator.clone(),
            numel,
            position,
        });
        draws.len() as u32 - 1
    })
}

/// Ends the trace, also when the function unwinds.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        CURRENT.set(0);
        DRAWS.take();
    }
}

/// Runs `f` as a new trace, whose number it is given. This thread records none yet.
pub(crate) fn record<R>(f: impl FnOnce(u64) -> R) -> (R, Observations) {
    let id = TRACES.fetch_add(1, Relaxed) + 1;
    let _end = End;
    SIZES.set(false);
    VALUES.set(false);
    DRAWS.take();
    CURRENT.set(id);
    let result = f(id);
    let seen = Observations {
        sizes: SIZES.get(),
        values: VALUES.get(),
        draws: DRAWS.take(),
    };
    (result, seen)
}
