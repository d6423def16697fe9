//! A node of the trace: a recorded operation, or data that exists.

use crate::backend::{Plan, Precision};
use crate::flight::Flight;
use ferrotrace_kernels::{Array, Op};
use ferrotrace_runtime::{DType, Device, Error, Scalar, Shape};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, Weak};

/// An operand of a recorded operation.
#[derive(Clone, Debug)]
pub(crate) enum NodeInput {
    /// A tensor.
    Tensor(Arc<Node>),
    /// A number.
    Scalar(Scalar),
    /// The key or the offset of a draw from a generator.
    Draw(Draw),
}

/// A number that a random operation took from a generator. Replays of a `jit` function take another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    /// The value taken when recorded.
    pub value: u64,
    /// Which draw of the `jit` trace it belongs to; `u32::MAX` outside of one.
    pub index: u32,
    /// Whether it is the offset, not the key.
    pub offset: bool,
}

impl NodeInput {
    /// The number, of an operand that is none of the tensors.
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            NodeInput::Tensor(_) => None,
            NodeInput::Scalar(scalar) => Some(*scalar),
            NodeInput::Draw(draw) => Some(Scalar::Int(draw.value as i64)),
        }
    }
}

impl NodeInput {
    /// Whether it was drawn while a `jit` function was traced: each replay draws anew.
    pub fn is_traced_draw(&self) -> bool {
        matches!(self, NodeInput::Draw(draw) if draw.index != u32::MAX)
    }
}

/// Operands in the operator's order.
pub(crate) type Inputs = SmallVec<[NodeInput; 2]>;

/// Data of a node.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The elements.
    pub array: Array,
    /// The plan that computed them, for explanations.
    pub plan: Weak<Plan>,
}

/// What there is of a node.
#[derive(Debug)]
pub(crate) enum State {
    /// An operation that has not run.
    Recorded(Inputs),
    /// A flush is computing it.
    Flight(Arc<Flight>),
    /// Data.
    Stored(Box<Stored>),
    /// The data was given to a plan: no handle can reach the node any more.
    Taken,
    /// An error instead of data.
    Failed(Error),
}

impl State {
    /// Data that a plan computed.
    pub fn stored(array: Array, plan: Weak<Plan>) -> State {
        State::Stored(Box::new(Stored { array, plan }))
    }
}

/// [`State`] in a byte, readable without the lock. Written under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    /// Recorded or in flight.
    Pending,
    /// Stored (or taken).
    Stored,
    /// Failed.
    Failed,
}

/// What is known of a node when it is made, and never changes.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The operation; none for data that came from outside.
    pub op: Option<Op>,
    /// Shape of the result; `[0]` for an operation that failed when recorded.
    pub shape: Shape,
    /// Element type of the result.
    pub dtype: DType,
    /// Where the result lies.
    pub device: Device,
    /// The precision in force when recorded.
    pub precision: Precision,
    /// The user's line.
    pub location: &'static Location<'static>,
    /// Hash of the operation, its precision and result type, and the kinds of its operands, not of what they are.
    pub hash: u64,
    /// The `jit` trace it was recorded in; 0 outside of one.
    pub trace: u64,
    /// 1 + the number of the argument of that trace that it stands for; 0 for every other node.
    pub argument: u32,
}

/// A node of the trace. Edges are `Arc`s in [`State::Recorded`]; handles are counted apart from them.
#[derive(Debug)]
pub(crate) struct Node {
    /// What never changes.
    pub facts: Facts,
    /// Operations on the longest pending path to this node, itself included, as an upper bound: exact when recorded,
    /// too high once an inner node was stored.
    level: AtomicU32,
    /// `Tensor` handles. Falls before the handle's `Arc` does.
    handles: AtomicU32,
    status: AtomicU8,
    /// The collection that met this node last, and the number it gave it. Used under the collection lock alone.
    epoch: AtomicU64,
    number: AtomicU32,
    /// Bytes counted in [`RETAINED`].
    retained: AtomicU64,
    state: Mutex<State>,
}

/// Bytes of data that no handle reaches and pending operations alone keep alive.
static RETAINED: AtomicU64 = AtomicU64::new(0);

/// Bytes that pending operations alone keep alive, in the whole process.
pub(crate) fn retained_bytes() -> u64 {
    RETAINED.load(Relaxed)
}

impl Node {
    #[inline(always)]
    fn new(facts: Facts, level: u32, status: Status, state: State) -> Node {
        Node {
            facts,
            level: AtomicU32::new(level),
            handles: AtomicU32::new(1),
            status: AtomicU8::new(status as u8),
            epoch: AtomicU64::new(0),
            number: AtomicU32::new(0),
            retained: AtomicU64::new(0),
            state: Mutex::new(state),
        }
    }

    /// A recorded operation with one handle.
    #[inline(always)]
    pub fn recorded(facts: Facts, inputs: Inputs, level: u32) -> Node {
        Node::new(facts, level, Status::Pending, State::Recorded(inputs))
    }

    /// Data with one handle.
    pub fn stored(facts: Facts, array: Array) -> Node {
        Node::new(facts, 0, Status::Stored, State::stored(array, Weak::new()))
    }

    /// An error with one handle.
    pub fn failed(facts: Facts, error: Error) -> Node {
        Node::new(facts, 0, Status::Failed, State::Failed(error))
    }

    /// The state, for those who hold no other node's.
    pub fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Replaces the state and returns the old one, to be dropped without a lock held.
    pub fn set_state(&self, state: State) -> State {
        let status = match &state {
            State::Recorded(_) | State::Flight(_) => Status::Pending,
            State::Stored(_) | State::Taken => Status::Stored,
            State::Failed(_) => Status::Failed,
        };
        let mut guard = self.state.lock();
        self.status.store(status as u8, Release);
        std::mem::replace(&mut *guard, state)
    }

    /// The state as a byte.
    #[inline]
    pub fn status(&self) -> Status {
        match self.status.load(Acquire) {
            0 => Status::Pending,
            1 => Status::Stored,
            _ => Status::Failed,
        }
    }

    /// The error it carries.
    pub fn error(&self) -> Option<Error> {
        if self.status() != Status::Failed {
            return None;
        }
        match &*self.state() {
            State::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// Its data.
    pub fn array(&self) -> Option<Array> {
        if self.status() != Status::Stored {
            return None;
        }
        match &*self.state() {
            State::Stored(stored) => Some(stored.array.clone()),
            _ => None,
        }
    }

    /// The upper bound of its depth; 0 once it is not pending.
    #[inline]
    pub fn level(&self) -> u32 {
        if self.status() == Status::Pending {
            self.level.load(Relaxed)
        } else {
            0
        }
    }

    /// Corrects the level.
    pub fn set_level(&self, level: u32) {
        self.level.store(level, Relaxed);
    }

    /// The number of handles. What edges there are is read after it: an edge is made through a handle.
    pub fn handles(&self) -> u32 {
        self.handles.load(Acquire)
    }

    /// Counts one more handle, which its maker holds an `Arc` for.
    #[inline]
    pub fn add_handle(&self) {
        self.handles.fetch_add(1, Relaxed);
    }

    /// Counts one handle less, before its `Arc` goes.
    #[inline]
    pub fn remove_handle(self: &Arc<Node>) {
        let last = self.handles.fetch_sub(1, Release) == 1;
        if last && self.status() == Status::Stored && Arc::strong_count(self) > 1 {
            self.retain();
        }
    }

    /// Notes that edges alone keep the data alive.
    #[cold]
    fn retain(&self) {
        let bytes = self.buffer_bytes() as u64;
        self.retained.store(bytes, Relaxed);
        RETAINED.fetch_add(bytes, Relaxed);
    }

    fn release(&self) {
        let bytes = self.retained.swap(0, Relaxed);
        if bytes > 0 {
            RETAINED.fetch_sub(bytes, Relaxed);
        }
    }

    /// Bytes of the buffer that its data lies in, if nothing else does.
    pub fn buffer_bytes(&self) -> usize {
        match &*self.state() {
            State::Stored(stored) if stored.array.buffer.is_unique() => stored.array.buffer.bytes(),
            _ => 0,
        }
    }

    /// Takes the data out of a node that nothing but the collection reaches.
    pub fn take_array(&self) -> Option<Array> {
        let mut guard = self.state.lock();
        let State::Stored(_) = &*guard else {
            return None;
        };
        let State::Stored(stored) = std::mem::replace(&mut *guard, State::Taken) else {
            return None;
        };
        drop(guard);
        self.release();
        Some(stored.array)
    }

    /// The number that the collection `epoch` gave it, if it met it.
    #[inline]
    pub fn number(&self, epoch: u64) -> Option<u32> {
        (self.epoch.load(Relaxed) == epoch).then(|| self.number.load(Relaxed))
    }

    /// Numbers it for the collection `epoch`.
    #[inline]
    pub fn set_number(&self, epoch: u64, number: u32) {
        self.epoch.store(epoch, Relaxed);
        self.number.store(number, Relaxed);
    }
}

/// Releases operands without recursion: whatever goes with them goes here, one after the other.
pub(crate) fn release_inputs(inputs: Inputs) {
    let mut stack = inputs;
    while let Some(input) = stack.pop() {
        let NodeInput::Tensor(node) = input else {
            continue;
        };
        // Of several threads that drop the last references at once, exactly one gets the node.
        let Some(mut node) = Arc::into_inner(node) else {
            continue;
        };
        if let State::Recorded(inputs) = node.state.get_mut() {
            stack.extend(std::mem::take(inputs));
        }
    }
}

impl Drop for Node {
    #[inline]
    fn drop(&mut self) {
        match self.state.get_mut() {
            State::Recorded(inputs) if !inputs.is_empty() => release_inputs(std::mem::take(inputs)),
            _ if *self.retained.get_mut() > 0 => self.release(),
            _ => {}
        }
    }
}
