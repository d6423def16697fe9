//! A node of the trace: a recorded operation, or data that exists.

pub(crate) mod domain;
pub(crate) mod flight;
pub(crate) mod handle;
pub(crate) mod pool;
pub(crate) mod summaries;

use crate::backend::Folded;
use crate::form::Kind;
use crate::plans::OwnEntry;
use domain::Domain;
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Apart, Error, STRIPES, Scalar, stripe};
use flight::Flight;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::ops::Deref;
use std::panic::Location;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, Weak};

/// An operand of a recorded operation.
#[derive(Clone, Debug)]
pub(crate) enum NodeInput {
    /// A tensor.
    Tensor(NodeArc),
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
    /// Which draw of the `jit` trace it belongs to, or [`Draw::NONE`] or [`Draw::ELSEWHERE`].
    pub index: u32,
    /// Whether it is the offset, not the key.
    pub offset: bool,
}

impl Draw {
    /// The index of a draw that no trace has.
    pub const NONE: u32 = u32::MAX;
    /// The index of a draw made on a thread that traces nothing while a function was being traced on another: it may
    /// belong there.
    pub const ELSEWHERE: u32 = u32::MAX - 1;
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
    /// The upper bound of a pending tensor's depth; 0 for anything else.
    pub fn level(&self) -> u32 {
        match self {
            NodeInput::Tensor(node) => node.level(),
            _ => 0,
        }
    }

    /// Whether it was drawn while a `jit` function was traced: each replay draws anew.
    pub fn is_traced_draw(&self) -> bool {
        matches!(self, NodeInput::Draw(drawn) if drawn.index < Draw::ELSEWHERE)
    }

    /// Whether it was drawn while a `jit` function was traced on another thread.
    pub fn is_drawn_elsewhere(&self) -> bool {
        matches!(self, NodeInput::Draw(drawn) if drawn.index == Draw::ELSEWHERE)
    }
}

/// A shared node. It has no weak references: whether anything else holds it is a load, where `std`'s locks their count.
pub(crate) type NodeArc = triomphe::Arc<Node>;

/// Operands in the operator's order.
pub(crate) type Inputs = SmallVec<[NodeInput; 2]>;

/// Data of a node.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The elements.
    pub array: Array,
    /// How they were computed, for explanations.
    pub origin: Origin,
}

/// How data were computed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// The plan that computed them.
    pub plan: Weak<OwnEntry>,
    /// For a result of a `jit` function: which of the function's values were computed once and kept.
    pub folded: Option<Arc<[Folded]>>,
}

/// What there is of a node.
#[derive(Debug)]
pub(crate) enum State {
    /// An operation that has not run. While a collection holds its operands, there are none here: see
    /// [`Node::is_collected`].
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
    /// Data that was computed so.
    pub fn stored(array: Array, origin: Origin) -> State {
        State::Stored(Box::new(Stored { array, origin }))
    }
}

/// [`State`] in a byte, readable without the lock. Written under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    /// Recorded or in flight.
    Pending,
    /// Stored.
    Stored,
    /// Failed (or taken).
    Failed,
}

/// The byte of [`Status::Pending`] while a collection holds the operands.
const COLLECTED: u8 = 3;

/// What is known of a node when it is made, and never changes.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The operation and what its result is.
    pub kind: Arc<Kind>,
    /// The user's line.
    pub location: &'static Location<'static>,
    /// The `jit` trace it was recorded in; 0 outside of one.
    pub trace: u64,
    /// The number of the argument of that trace that it stands for; of an operation, a number greater than those of the
    /// operations that the trace, or the thread outside of traces, recorded before it, modulo 2³².
    pub place: u32,
    /// Whether it stands for an argument.
    pub is_argument: bool,
    /// Whether it is an argument of that trace, or computed from one.
    pub traced: bool,
}

impl Facts {
    /// The facts of data from outside.
    pub(crate) fn of_data(array: &Array, location: &'static Location<'static>) -> Facts {
        let device = array.buffer.device();
        Facts::of_kind(
            Arc::new(Kind::of_data(array.shape(), array.dtype, device)),
            location,
        )
    }

    /// The facts of data of this kind.
    pub(crate) fn of_kind(kind: Arc<Kind>, location: &'static Location<'static>) -> Facts {
        Facts {
            kind,
            location,
            trace: 0,
            place: 0,
            is_argument: false,
            traced: false,
        }
    }
}

impl Deref for Facts {
    type Target = Kind;
    #[inline]
    fn deref(&self) -> &Kind {
        &self.kind
    }
}

/// A node of the trace. Edges are `Arc`s in [`State::Recorded`]; handles are counted apart from them.
///
/// In this order, so that what a collection looks at lies together with the `Arc`'s counts.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Node {
    /// The last collection that met this node and held its domain, and the number that it gave it. Used while the domain
    /// is held alone.
    epoch: AtomicU64,
    number: AtomicU32,
    /// `Tensor` handles. Falls before the handle's `Arc` does.
    handles: AtomicU32,
    /// Operations on the longest pending path to this node, itself included, as an upper bound: exact when recorded,
    /// too high once an inner node was stored.
    level: AtomicU32,
    status: AtomicU8,
    /// Whether a flush computed it and stored it nowhere.
    computed: AtomicBool,
    /// Whether a loop carries it from step to step, as it does parameters and an optimiser's state.
    carried: AtomicBool,
    /// Whether it is listed among the summaries.
    listed: AtomicBool,
    /// The domain whose collections number it; for data the domain of the thread that made it.
    domain: Domain,
    /// Handles that keep it for a gradient, and how many of these gradients are still to be taken.
    kept: AtomicU32,
    expected: AtomicU32,
    state: Mutex<State>,
    /// Bytes counted in [`RETAINED`].
    retained: AtomicU64,
    /// What never changes.
    pub facts: Facts,
}

/// Bytes of data that no handle reaches and pending operations alone keep alive, modulo 2⁶⁴, but for what each stripe of
/// threads has not told yet: who records looks at this line, so it is written seldom.
static RETAINED: Apart<AtomicU64> = Apart(AtomicU64::new(0));
static UNTOLD: [Apart<AtomicU64>; STRIPES] = [const { Apart(AtomicU64::new(0)) }; STRIPES];
/// Most bytes that a stripe does not tell.
const MOST_UNTOLD: u64 = 64 << 10;

/// Bytes that pending operations alone keep alive, in the whole process, to 64 KiB for each thread.
pub(crate) fn retained_bytes() -> u64 {
    (RETAINED.load(Relaxed) as i64).max(0) as u64
}

/// Counts bytes more, modulo 2⁶⁴, as atomic sums are.
fn count_retained(bytes: u64) {
    let own = &UNTOLD[stripe()];
    let untold = own.fetch_add(bytes, Relaxed).wrapping_add(bytes);
    if (untold as i64).unsigned_abs() > MOST_UNTOLD {
        RETAINED.fetch_add(own.swap(0, Relaxed), Relaxed);
    }
}

impl Node {
    #[inline(always)]
    fn new(facts: Facts, domain: Domain, level: u32, status: Status, state: State) -> Node {
        Node {
            domain,
            facts,
            level: AtomicU32::new(level),
            handles: AtomicU32::new(1),
            status: AtomicU8::new(status as u8),
            computed: AtomicBool::new(false),
            carried: AtomicBool::new(false),
            listed: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            number: AtomicU32::new(0),
            retained: AtomicU64::new(0),
            kept: AtomicU32::new(0),
            expected: AtomicU32::new(0),
            state: Mutex::new(state),
        }
    }

    /// A recorded operation with one handle.
    #[inline(always)]
    pub fn recorded(facts: Facts, inputs: Inputs, domain: Domain, level: u32) -> Node {
        Node::new(
            facts,
            domain,
            level,
            Status::Pending,
            State::Recorded(inputs),
        )
    }

    /// Data with one handle.
    pub fn stored(facts: Facts, array: Array) -> Node {
        Node::computed(facts, array, Origin::default())
    }

    /// Data that a plan computed, with one handle.
    pub fn computed(facts: Facts, array: Array, origin: Origin) -> Node {
        Node::new(
            facts,
            Domain::own(),
            0,
            Status::Stored,
            State::stored(array, origin),
        )
    }

    /// An error with one handle.
    pub fn failed(facts: Facts, error: Error) -> Node {
        Node::new(
            facts,
            Domain::own(),
            0,
            Status::Failed,
            State::Failed(error),
        )
    }

    /// The state, for those who hold no other node's.
    pub fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Replaces the state and returns the old one, to be dropped without a lock held.
    pub fn set_state(&self, state: State) -> State {
        let status = match &state {
            State::Recorded(_) | State::Flight(_) => Status::Pending,
            State::Stored(_) => Status::Stored,
            State::Failed(_) | State::Taken => Status::Failed,
        };
        let mut guard = self.state.lock();
        self.status.store(status as u8, Release);
        std::mem::replace(&mut *guard, state)
    }

    /// The domain whose collections may number it.
    #[inline]
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// The state as a byte.
    #[inline]
    pub fn status(&self) -> Status {
        match self.status.load(Acquire) {
            0 | COLLECTED => Status::Pending,
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

    /// Whether a flush computed it and stored it nowhere.
    #[inline]
    pub fn was_computed(&self) -> bool {
        self.computed.load(Relaxed)
    }

    /// Notes that a flush computes it and does not store it.
    pub fn set_computed(&self) {
        self.computed.store(true, Relaxed);
    }

    /// Whether a loop carries it from step to step.
    #[inline]
    pub fn is_carried(&self) -> bool {
        self.carried.load(Relaxed)
    }

    /// Notes that a loop carries it from step to step: the first flush that computes it stores it.
    pub fn set_carried(&self) {
        self.carried.store(true, Relaxed);
    }

    /// Whether it is listed among the summaries.
    #[inline]
    pub fn is_listed(&self) -> bool {
        self.listed.load(Relaxed)
    }

    /// Notes whether it is listed among the summaries.
    fn set_listed(&self, listed: bool) {
        self.listed.store(listed, Relaxed);
    }

    /// The first operand that a loop carries from step to step, else the first operand, if the operation has not run.
    pub fn carried_operand(&self) -> Option<NodeArc> {
        let state = self.state();
        let State::Recorded(inputs) = &*state else {
            return None;
        };
        let nodes = inputs.iter().filter_map(|input| match input {
            NodeInput::Tensor(node) => Some(node),
            _ => None,
        });
        let carried = nodes.clone().find(|node| node.is_carried());
        carried.or(nodes.clone().next()).cloned()
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

    /// Notes that one of its handles keeps it for a gradient that is still to be taken.
    pub fn keep(&self) {
        self.kept.fetch_add(1, Relaxed);
        self.expected.fetch_add(1, Relaxed);
    }

    /// Notes that such a handle goes.
    pub fn keep_less(&self) {
        self.kept.fetch_sub(1, Relaxed);
    }

    /// Notes that such a gradient has been taken.
    pub fn expect_less(&self) {
        self.expected.fetch_sub(1, Relaxed);
    }

    /// Whether a handle keeps it for a gradient that is still to be taken.
    pub fn is_expected(&self) -> bool {
        self.expected.load(Relaxed) > 0
    }

    /// Whether handles that keep it for gradients are all that it has; and if so, whether one is still to be taken.
    pub fn is_kept_alone(&self) -> Option<bool> {
        let (handles, kept) = (self.handles(), self.kept.load(Relaxed));
        (handles > 0 && handles == kept).then(|| self.expected.load(Relaxed) > 0)
    }

    /// Counts one handle less, before its `Arc` goes.
    #[inline]
    pub fn remove_handle(this: &NodeArc) {
        if NodeArc::strong_count(this) == 1 {
            // The node goes with this handle; nobody is left to ask for the count.
            return;
        }
        let last = this.handles.fetch_sub(1, Release) == 1;
        if last && this.is_listed() {
            summaries::unlist(this);
        }
        if last && this.status() == Status::Stored && NodeArc::strong_count(this) > 1 {
            this.retain();
        }
    }

    /// Notes that edges alone keep the data alive. Said twice, it counts once.
    #[cold]
    fn retain(&self) {
        let bytes = self.buffer_bytes() as u64;
        let before = self.retained.swap(bytes, Relaxed);
        count_retained(bytes.wrapping_sub(before));
    }

    /// Stores data; if no handle is left that reaches it, edges keep it alive.
    pub fn store(this: &NodeArc, array: Array, origin: Origin) {
        drop(this.set_state(State::stored(array, origin)));
        if this.handles() == 0 && NodeArc::strong_count(this) > 1 {
            this.retain();
        }
    }

    /// Bytes of its data, if edges alone keep it alive.
    pub fn retained(&self) -> u64 {
        self.retained.load(Relaxed)
    }

    fn release(&self) {
        let bytes = self.retained.swap(0, Relaxed);
        if bytes > 0 {
            count_retained(bytes.wrapping_neg());
        }
    }

    /// Bytes of the buffer that its data lies in, if nothing else does.
    pub fn buffer_bytes(&self) -> usize {
        match &*self.state() {
            State::Stored(stored) if stored.array.buffer.is_unique() => stored.array.buffer.bytes(),
            _ => 0,
        }
    }

    /// Moves the operands of a recorded node that nothing else holds to the end of a list, for a collection, without its
    /// lock; false if it is not recorded.
    #[inline(always)]
    pub fn collect_alone(&mut self, to: &mut Vec<NodeInput>) -> bool {
        let State::Recorded(inputs) = self.state.get_mut() else {
            return false;
        };
        for input in inputs.drain(..) {
            to.push(input);
        }
        self.status.store(COLLECTED, Relaxed);
        true
    }

    /// Takes the operands out of a recorded node, for a collection; of others nothing.
    pub fn collect(&self) -> Inputs {
        let State::Recorded(inputs) = &mut *self.state.lock() else {
            return Inputs::new();
        };
        self.status.store(COLLECTED, Relaxed);
        std::mem::take(inputs)
    }

    /// Whether a collection took its operands, and did not give them back. Others see that for as long as its domain is
    /// held.
    #[inline]
    pub fn is_collected(&self) -> bool {
        self.status.load(Relaxed) == COLLECTED
    }

    /// Takes the data out of a node that nothing but the collection reaches.
    pub fn take_array(&self) -> Option<Array> {
        let mut guard = self.state.lock();
        let State::Stored(_) = &*guard else {
            return None;
        };
        self.status.store(Status::Failed as u8, Release);
        let State::Stored(stored) = std::mem::replace(&mut *guard, State::Taken) else {
            return None;
        };
        drop(guard);
        self.release();
        Some(stored.array)
    }

    /// The number that the collection `epoch`, which holds its domain, gave it, if it met it.
    #[inline]
    pub fn number(&self, epoch: u64) -> Option<u32> {
        (self.epoch.load(Relaxed) == epoch).then(|| self.number.load(Relaxed))
    }

    /// Numbers it for the collection `epoch`, which holds its domain.
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
        // Where several threads drop the last references at once, exactly one gets the node.
        let Some(mut node) = NodeArc::into_unique(node) else {
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
