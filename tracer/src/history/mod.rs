//! What a tensor remembers of how it was computed, for its gradient.
//!
//! A history is recorded beside the trace, by operations on tensors that require a gradient: it outlives flushes, which the
//! trace does not. It keeps the operands and results that the operator's gradient rule reads, and of the others their shapes
//! alone.

mod held;

pub(crate) use held::{Held, release_postponed};

use crate::form::Kind;
use crate::mode;
use crate::node::handle::{Handle, Kept};
use crate::node::{NodeInput, Status};
use ferrotrace_kernels::op::gradient::{Reads, reads};
use ferrotrace_kernels::{ArgMeta, Op};
use ferrotrace_runtime::{Result, Scalar};
use held::Links;
use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A value, and how it was computed from those that require a gradient: what a tensor is.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// The value.
    pub handle: Handle,
    /// Nothing for what no gradient is asked of.
    pub history: Option<Held>,
}

/// How a value was computed.
#[derive(Debug)]
pub(crate) struct History {
    /// Greater than the order of all that it was computed from.
    pub order: u64,
    /// The `jit` trace it was recorded in; 0 outside of one.
    pub trace: u64,
    pub source: Source,
    links: Links,
}

/// Where a gradient goes to.
#[derive(Debug)]
pub(crate) enum Source {
    /// A tensor that a gradient was required of, with what backward passes summed up.
    Leaf(Mutex<Option<Handle>>),
    /// On to the operands of an operation.
    Operation(Mutex<Past>),
    /// Nowhere: of integers, and of what was computed of them alone, no gradient can be asked.
    Integers {
        /// The first operation that gave integers.
        op: &'static str,
        location: &'static Location<'static>,
    },
}

/// What is left of how a result was computed.
#[derive(Debug)]
pub(crate) enum Past {
    /// The operation.
    Known(Arc<Operation>),
    /// Nothing: a backward pass has ended the history.
    Ended,
    /// Nothing: no tensor is held that a gradient could reach through it.
    Released,
}

/// An operation with what its gradient needs.
#[derive(Debug)]
pub(crate) struct Operation {
    pub rule: Rule,
    pub kind: Arc<Kind>,
    pub location: &'static Location<'static>,
    pub operands: SmallVec<[Operand; 2]>,
    /// The result, if the rule reads it.
    pub result: Option<Kept>,
}

/// How the gradients of the operands are found.
#[derive(Clone)]
pub(crate) enum Rule {
    /// By the operator.
    Operator,
    /// The gradient is that of the operand, on its device.
    Same,
    /// By a function of the program's.
    Custom(Arc<dyn Pullback>),
    /// The gradient is that of this result of the operand, an operation of several results.
    Part(usize),
    /// All at once, from the gradients of several results.
    Several(Arc<dyn Several>),
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Operator => "Operator",
            Rule::Same => "Same",
            Rule::Custom(_) => "Custom",
            Rule::Part(_) => "Part",
            Rule::Several(_) => "Several",
        })
    }
}

/// A gradient rule that is no operator's. It holds no tensors: of its operands, all are kept.
pub(crate) trait Pullback: Send + Sync {
    /// The gradients of the operands from these, the result, if it was kept, and its gradient.
    ///
    /// # Errors
    /// What they give does not fit the operands.
    fn pull(
        &self,
        operands: &[Value],
        result: Option<&Value>,
        gradient: &Value,
    ) -> Result<Vec<Option<Value>>>;

    /// The operations that give the result from the operands, where the rule differentiates these.
    fn steps(&self) -> Option<&[Step]> {
        None
    }
}

/// A gradient rule of an operation of several results.
pub(crate) trait Several: Send + Sync {
    /// The gradients of the wanted operands from those of the results that have one, where `of` is the
    /// operation with its history. After the last pull there is no other.
    ///
    /// # Errors
    /// What computing them meets.
    fn pull(
        &self,
        of: (&Arc<History>, &Operation),
        gradients: Vec<Option<Value>>,
        wanted: &[bool],
        last: bool,
    ) -> Result<Vec<Option<Value>>>;

    /// How many results there are.
    fn results(&self) -> usize;
}

/// An operation to be recorded again.
#[derive(Debug)]
pub(crate) struct Step {
    pub kind: Arc<Kind>,
    pub location: &'static Location<'static>,
    pub operands: Vec<From>,
}

/// Where an operand of a step comes from.
#[derive(Clone, Debug)]
pub(crate) enum From {
    /// An earlier step.
    Step(usize),
    /// A value of outside.
    Outer(usize),
    /// A number.
    Number(NodeInput),
}

/// An operand of an operation with a history.
#[derive(Debug)]
pub(crate) enum Operand {
    /// A tensor.
    Tensor {
        /// Its shape, dtype and device.
        kind: Arc<Kind>,
        /// Its elements, if the rule reads them.
        value: Option<Kept>,
        /// Where its gradient goes.
        history: Option<Arc<History>>,
    },
    /// A number.
    Number(NodeInput),
}

impl Operation {
    /// What is kept for its gradient.
    fn kept(&self) -> impl Iterator<Item = &Kept> {
        let values = self.operands.iter().filter_map(|operand| match operand {
            Operand::Tensor { value, .. } => value.as_ref(),
            Operand::Number(_) => None,
        });
        values.chain(&self.result)
    }

    /// Notes that the gradient has been taken of what is kept for it.
    pub fn take(&self) {
        self.kept().for_each(Kept::take);
    }

    /// Whether a value that is kept is not computed yet.
    fn is_pending(&self) -> bool {
        let pending = |kept: &Kept| kept.handle().node().status() == Status::Pending;
        self.kept().any(pending)
    }
}

impl Operand {
    /// Its value, if it is a tensor that was kept.
    pub fn value(&self) -> Option<Value> {
        let Operand::Tensor { value, history, .. } = self else {
            return None;
        };
        let handle = value.as_ref()?.handle().clone();
        let history = history.clone().map(Held::new);
        Some(Value { handle, history })
    }

    /// Where its gradient goes, if it has one.
    pub fn live(&self) -> Option<&Arc<History>> {
        match self {
            Operand::Tensor { history, kind, .. } if kind.has_gradient() => {
                history.as_ref().filter(|history| history.is_live())
            }
            _ => None,
        }
    }
}

static ORDER: AtomicU64 = AtomicU64::new(0);

/// The order of the latest history.
pub(crate) fn latest() -> u64 {
    ORDER.load(Relaxed)
}

impl History {
    fn new(source: Source, operands: usize, trace: u64) -> Arc<History> {
        Arc::new(History {
            order: ORDER.fetch_add(1, Relaxed) + 1,
            trace,
            source,
            links: Links::new(operands),
        })
    }

    /// Of a tensor that a gradient is required of.
    pub fn leaf(trace: u64) -> Arc<History> {
        History::new(Source::Leaf(Mutex::new(None)), 0, trace)
    }

    /// Of the result of an operation.
    pub fn operation(operation: Operation, trace: u64) -> Arc<History> {
        // What keeps all operands is a recording that is read as a whole later: none of it is released before.
        if mode::keeps_all() {
            let past = Past::Known(Arc::new(operation));
            return History::new(Source::Operation(Mutex::new(past)), 1, trace);
        }
        let operation = Arc::new(operation);
        let live = || operation.operands.iter().filter_map(Operand::live);
        let past = Past::Known(operation.clone());
        let history = History::new(Source::Operation(Mutex::new(past)), live().count(), trace);
        for operand in live() {
            if !operand.links.link(&history) && history.links.lose_operand() {
                history.release();
            }
        }
        release(operation);
        history
    }

    /// Of the result of an operation that gives integers.
    fn integers(op: &'static str, location: &'static Location<'static>) -> Arc<History> {
        History::new(Source::Integers { op, location }, 0, 0)
    }

    /// Whether gradients go anywhere from here.
    pub fn is_live(&self) -> bool {
        !matches!(self.source, Source::Integers { .. })
    }

    /// Whether gradients go to this history and no further: to a leaf, or to a result of which nothing is left.
    pub fn is_first(&self) -> bool {
        match &self.source {
            Source::Leaf(_) => true,
            Source::Operation(past) => matches!(*past.lock(), Past::Released),
            Source::Integers { .. } => false,
        }
    }

    /// The operation that gave the result, unless it has ended or was released.
    pub fn computed_by(&self) -> Option<Arc<Operation>> {
        match &self.source {
            Source::Operation(past) => match &*past.lock() {
                Past::Known(operation) => Some(operation.clone()),
                Past::Ended | Past::Released => None,
            },
            Source::Leaf(_) | Source::Integers { .. } => None,
        }
    }

    /// Whether a backward pass has ended it.
    pub fn has_ended(&self) -> bool {
        match &self.source {
            Source::Operation(past) => matches!(*past.lock(), Past::Ended),
            Source::Leaf(_) | Source::Integers { .. } => false,
        }
    }

    /// Ends the history of an operation: what it kept goes.
    pub fn end(&self) {
        if let Some(operation) = self.replace_operation(Past::Ended) {
            release(operation);
        }
    }

    /// The operation, of which `left` is left.
    fn replace_operation(&self, left: Past) -> Option<Arc<Operation>> {
        let Source::Operation(past) = &self.source else {
            return None;
        };
        let mut past = past.lock();
        match &*past {
            Past::Known(_) => match std::mem::replace(&mut *past, left) {
                Past::Known(operation) => Some(operation),
                Past::Ended | Past::Released => None,
            },
            Past::Ended | Past::Released => None,
        }
    }
}

/// Drops an operation without recursion: whatever histories go with it go here, one after the other.
fn release(operation: Arc<Operation>) {
    let mut stack: SmallVec<[Arc<Operation>; 4]> = SmallVec::new();
    stack.push(operation);
    while let Some(operation) = stack.pop() {
        // Where several threads drop the last references at once, exactly one gets what they hold.
        let Some(operation) = Arc::into_inner(operation) else {
            continue;
        };
        for operand in operation.operands {
            if let Operand::Tensor {
                history: Some(history),
                ..
            } = operand
                && let Some(history) = Arc::into_inner(history)
            {
                stack.extend(history.replace_operation(Past::Ended));
            }
        }
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.end();
    }
}

/// An operand, as [`of_result`] takes it.
pub(crate) enum Of<'a> {
    Value(&'a Value),
    Number(NodeInput),
}

impl Of<'_> {
    fn history(&self) -> Option<Arc<History>> {
        match self {
            Of::Value(value) => value.history.as_deref().cloned(),
            Of::Number(_) => None,
        }
    }

    /// Where its gradient goes, if it has one.
    fn live(&self) -> Option<Arc<History>> {
        match self {
            Of::Value(value) if value.handle.node().facts.kind.has_gradient() => {
                self.history().filter(|history| history.is_live())
            }
            _ => None,
        }
    }

    /// What an operation keeps of it, with its elements or without.
    fn kept(&self, elements: bool) -> Operand {
        match self {
            Of::Value(value) => Operand::Tensor {
                kind: value.handle.node().facts.kind.clone(),
                value: elements.then(|| Kept::new(value.handle.clone())),
                history: value.history.as_deref().cloned(),
            },
            Of::Number(number) => Operand::Number(number.clone()),
        }
    }

    fn meta(&self) -> ArgMeta<'_> {
        match self {
            Of::Value(value) => {
                let kind = &value.handle.node().facts.kind;
                ArgMeta::Tensor(&kind.shape, kind.dtype)
            }
            Of::Number(number) => ArgMeta::Scalar(number.scalar().unwrap_or(Scalar::Int(0))),
        }
    }
}

/// The history of the result of what is no operator; whether the rule reads the result.
pub(crate) fn of_rule(
    (rule, reads): (Rule, bool),
    result: &Handle,
    operands: &[Of<'_>],
    location: &'static Location<'static>,
    trace: u64,
) -> Option<Arc<History>> {
    let is_live = |operand: &Of<'_>| operand.live().is_some();
    if !operands.iter().any(is_live) {
        return operands.iter().find_map(Of::history);
    }
    let kind = result.node().facts.kind.clone();
    if !kind.dtype.is_float() {
        return Some(History::integers("custom_grad", location));
    }
    let all = mode::keeps_all();
    let read = all || matches!(rule, Rule::Custom(_));
    let operation = Operation {
        rule,
        kind,
        location,
        operands: operands.iter().map(|operand| operand.kept(read)).collect(),
        result: (reads || all).then(|| Kept::new(result.clone())),
    };
    Some(History::operation(operation, trace))
}

/// The history of the result of an operator on operands of which one has a history.
pub(crate) fn of_result(
    result: &Handle,
    operands: &[Of<'_>],
    location: &'static Location<'static>,
    trace: u64,
) -> Option<Arc<History>> {
    let kind = &result.node().facts.kind;
    let op = kind.op.as_ref()?;
    let wanted: SmallVec<[bool; 4]> = operands.iter().map(|x| x.live().is_some()).collect();
    if !wanted.contains(&true) {
        return operands.iter().find_map(Of::history);
    }
    if !kind.has_gradient() {
        return Some(History::integers(kind.called(), location));
    }
    let reads = match op.as_program() {
        _ if mode::keeps_all() => Arc::new(everything(operands.len())),
        Some(_) => Arc::new(Reads {
            result: false,
            ..everything(operands.len())
        }),
        None => reads_of(kind, op, operands, &wanted),
    };
    let keep = |(i, operand): (usize, &Of<'_>)| operand.kept(reads.operands[i]);
    let operation = Operation {
        rule: Rule::Operator,
        kind: kind.clone(),
        location,
        operands: operands.iter().enumerate().map(keep).collect(),
        result: reads.result.then(|| Kept::new(result.clone())),
    };
    Some(History::operation(operation, trace))
}

/// The history of one of the results of an operation of several.
pub(crate) fn of_part(
    several: Arc<History>,
    kind: Arc<Kind>,
    number: usize,
    location: &'static Location<'static>,
    trace: u64,
) -> Arc<History> {
    let operand = Operand::Tensor {
        kind: kind.clone(),
        value: None,
        history: Some(several),
    };
    let operation = Operation {
        rule: Rule::Part(number),
        kind,
        location,
        operands: smallvec![operand],
        result: None,
    };
    History::operation(operation, trace)
}

/// The history of the results of a program on operands of which one has a history, by a rule of its own.
pub(crate) fn of_program(
    rule: Arc<dyn Several>,
    result: &Handle,
    operands: &[Of<'_>],
    location: &'static Location<'static>,
    trace: u64,
) -> Arc<History> {
    let operation = Operation {
        rule: Rule::Several(rule),
        kind: result.node().facts.kind.clone(),
        location,
        operands: operands.iter().map(|operand| operand.kept(true)).collect(),
        result: None,
    };
    History::operation(operation, trace)
}

fn everything(operands: usize) -> Reads {
    Reads {
        operands: smallvec![true; operands],
        result: true,
    }
}

/// What the operator's rule reads, found once for a kind. A rule that fails is given everything, and fails again where its
/// error is seen.
fn reads_of(kind: &Kind, op: &Op, operands: &[Of<'_>], wanted: &[bool]) -> Arc<Reads> {
    let bits = wanted
        .iter()
        .rev()
        .fold(0u64, |bits, &w| bits << 1 | u64::from(w));
    let known = kind.reads.lock().clone();
    if let Some((_, reads)) = known.filter(|(of, _)| *of == bits) {
        return reads;
    }
    let metas: SmallVec<[ArgMeta<'_>; 4]> = operands.iter().map(Of::meta).collect();
    let found = reads(op, &metas, (&kind.shape, kind.dtype), wanted);
    let found = found.unwrap_or_else(|_| everything(operands.len()));
    let found = Arc::new(found);
    *kind.reads.lock() = Some((bits, found.clone()));
    found
}
