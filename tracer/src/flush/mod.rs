//! Flushing: computing what requested tensors need, and storing it.

mod carried;
pub(crate) mod collect;
pub(crate) mod collected;
mod cut;
pub(crate) mod limit;
pub(crate) mod planned;
mod store_rule;

use crate::Tensor;
use crate::args::{TensorLike, borrowed};
use crate::backend::{Plan, PlanInput};
use crate::form::{Line, Lines, told};
use crate::history;
use crate::node::flight::Flight;
use crate::node::pool::retire;
use crate::node::{Node, NodeArc, NodeInput, Origin, State, Status};
use crate::plans::{OwnEntry, Planned, RecordedBy};
use crate::trace;
use collect::{Outcome, Stores, collect};
use collected::Collected;
use ferrotrace_kernels::{Array, copy};
use ferrotrace_runtime::{Activity, Channel, Counter, Error, Result, Scalar, Timer, count, log};
use std::sync::{Arc, Weak};

/// Computes and stores tensors, all in one go: those of an array, a vector, or any iterator of tensors or references.
///
/// ```
/// use ferrotrace_tracer::{Tensor, eval};
/// # use ferrotrace_runtime::{DType, Device, Error};
/// let x = Tensor::ones(4, DType::F32, &Device::cpu());
/// let (a, b) = (&x + 1.0, &x * 3.0);
/// eval([&a, &b])?; // one flush for both
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// The first error that one of them carries, or that computing them met.
pub fn eval<I>(tensors: I) -> Result<()>
where
    I: IntoIterator,
    I::Item: TensorLike,
{
    let tensors: Vec<I::Item> = tensors.into_iter().collect();
    let tensors = borrowed(&tensors);
    flush_tensors(tensors.iter().copied());
    tensors.into_iter().try_for_each(Tensor::check)
}

/// Computes and stores tensors. Errors of the tensors themselves stay in them.
pub(crate) fn flush_tensors<'a>(tensors: impl Iterator<Item = &'a Tensor>) {
    if flush_pending(tensors, Stores::Rule) {
        carried::note_asked();
    }
}

/// Computes and stores the tensors that are pending. Whether any was.
fn flush_pending<'a>(tensors: impl Iterator<Item = &'a Tensor>, stores: Stores) -> bool {
    let nodes: Vec<NodeArc> = tensors
        .filter(|tensor| tensor.is_pending())
        .map(|tensor| tensor.node().clone())
        .collect();
    let any = !nodes.is_empty();
    if any {
        flush_nodes(nodes, stores);
    }
    any
}

/// The data of a node that was flushed.
///
/// # Errors
/// What the node carries.
pub(crate) fn stored_array(node: &NodeArc) -> Result<Array> {
    if node.facts.is_argument && !trace::observe_value(node.facts.trace) {
        return Err(trace::stale(node.facts.trace, node.facts.location));
    }
    loop {
        let flight = match &*node.state() {
            State::Stored(stored) => return Ok(stored.array.clone()),
            State::Failed(error) => return Err(error.clone()),
            State::Flight(flight) => Some(flight.clone()),
            State::Recorded(_) => None,
            State::Taken => return Err(Error::internal("data was read after it was given away")),
        };
        match flight {
            Some(flight) => flight.wait(),
            None => {
                carried::note_asked();
                flush_nodes(vec![node.clone()], Stores::Rule);
            }
        }
    }
}

/// Computes and stores nodes of any devices.
pub(crate) fn flush_nodes(mut nodes: Vec<NodeArc>, stores: Stores) {
    cut::note_flush();
    while let Some(first) = nodes.first() {
        let device = first.facts.device.clone();
        let here = |node: &NodeArc| node.facts.device == device;
        if nodes.iter().all(here) {
            flush_on_device(nodes, stores);
            break;
        }
        let (now, later) = nodes.into_iter().partition(here);
        flush_on_device(now, stores);
        nodes = later;
    }
    history::release_postponed();
}

fn flush_on_device(mut nodes: Vec<NodeArc>, stores: Stores) {
    loop {
        nodes.retain(|node| node.status() == Status::Pending);
        if nodes.is_empty() {
            return;
        }
        let roots = nodes.iter().cloned().map(NodeInput::Tensor).collect();
        match collect(roots, stores) {
            Outcome::Run(collected, leaves, flight) => {
                return run(*collected, leaves, flight, stores);
            }
            Outcome::Nothing => return,
            Outcome::Wait(flight) => flight.wait(),
        }
    }
}

/// The nodes of a flush until they are stored; if it unwinds, they fail.
struct Promise {
    nodes: Vec<NodeArc>,
    flight: Arc<Flight>,
}

impl Promise {
    /// Stores what was computed; the other nodes fail, each with its own error.
    fn keep(mut self, result: Computed, plan: &Weak<OwnEntry>) {
        let nodes = std::mem::take(&mut self.nodes);
        let result = result.and_then(|arrays| {
            let (have, want) = (arrays.len(), nodes.len());
            let mismatch = || Error::internal(format!("a plan stored {have} of {want} values"));
            if have == want {
                Ok(arrays)
            } else {
                Err(mismatch())
            }
        });
        match result {
            Ok(arrays) => {
                for (node, array) in nodes.iter().zip(arrays) {
                    let origin = || Origin {
                        plan: plan.clone(),
                        folded: None,
                    };
                    match array {
                        Ok(array) => Node::store(node, array, origin()),
                        Err(error) => drop(node.set_state(State::Failed(error))),
                    }
                }
            }
            Err(error) => fail(&nodes, &error),
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if !self.nodes.is_empty() {
            fail(
                &self.nodes,
                &Error::internal("the flush that should compute this panicked"),
            );
        }
        self.flight.land();
    }
}

fn fail(nodes: &[NodeArc], error: &Error) {
    for node in nodes {
        node.set_state(State::Failed(error.clone()));
    }
}

/// Most leaves among which those that share memory are looked for.
const LOOKED_AT: usize = 32;

/// Copies small windows of a tensor that dies out of its memory, where a slice is written: that can then be done there.
fn detach(collected: &Collected, leaves: &mut [(Array, bool)]) {
    let shared = |(x, donated): &(Array, bool)| *donated && x.buffer.handles() > 1;
    if !(2..=LOOKED_AT).contains(&leaves.len()) || !leaves.iter().any(shared) {
        return;
    }
    if !collected.assigns() {
        return;
    }
    for base in 0..leaves.len() {
        let (x, _) = &leaves[base];
        let all = x.layout.is_contiguous()
            && x.layout.offset() == 0
            && x.buffer.bytes() == x.numel() * x.dtype.size();
        if !all || !shared(&leaves[base]) || !x.buffer.device().is_cpu() {
            continue;
        }
        let windows: Vec<usize> = (0..leaves.len())
            .filter(|&i| i != base && leaves[i].0.buffer.same(&x.buffer))
            .collect();
        let elements: usize = windows.iter().map(|&i| leaves[i].0.numel()).sum();
        let alone = x.buffer.handles() == windows.len() + 1;
        if !alone || elements.saturating_mul(2) > x.numel() {
            continue;
        }
        for i in windows {
            // Without memory for the copy, the window stays where it is: the write then copies the whole tensor, or
            // fails.
            if let Ok(copy) = copy::copied(&leaves[i].0) {
                leaves[i].0 = copy;
            }
        }
    }
}

/// Runs a collection and stores its outputs.
fn run(collected: Collected, mut leaves: Vec<(Array, bool)>, flight: Arc<Flight>, stores: Stores) {
    count(Counter::Flushes, 1);
    let (timer, operations) = (Timer::start(), collected.entries.len());
    log(Channel::Flush, || {
        let (inputs, stored) = (leaves.len(), collected.outputs.len());
        format!("{operations} operations on {inputs} inputs, {stored} stored")
    });
    if collected.scalars.iter().any(NodeInput::is_traced_draw) {
        for number in 0..collected.entries.len() as u32 {
            trace::observe_value(collected.entry_node(number).facts.trace);
        }
    }
    let nodes = collected
        .outputs
        .iter()
        .map(|&n| collected.entry_node(n).clone())
        .collect();
    let promise = Promise { nodes, flight };
    detach(&collected, &mut leaves);
    let scalars = collected.scalar_values();
    let planned = match stores {
        Stores::AtOnce => Ok(planned::one_by_one(&collected, &leaves)),
        Stores::Steps => planned::plan(&collected, &leaves, &scalars, RecordedBy::Steps),
        _ => planned::plan(&collected, &leaves, &scalars, RecordedBy::Trace),
    };
    let lines = match &planned {
        Ok(Planned::Plan(entry)) if entry.plan().is_some_and(Plan::fails) => collected.lines(),
        _ => Lines::new(),
    };
    // What the trace alone kept alive goes before anything runs.
    retire(collected.operands);
    let inputs: Vec<PlanInput> = leaves
        .into_iter()
        .map(|(array, donated)| PlanInput { array, donated })
        .collect();
    let leaves = inputs.len();
    match planned {
        Ok(planned) => {
            let (result, plan) = execute(planned, inputs, &scalars);
            promise.keep(told_each(result, leaves, &lines), &plan);
        }
        Err(error) => promise.keep(Err(error), &Weak::new()),
    }
    timer.stop(Activity::Flush, || (format!("{operations} operations"), 0));
}

/// What was computed: each value, or why it was not; or why nothing was.
pub(crate) type Computed = Result<Vec<Result<Array>>>;

/// What was computed, with errors told of the operations that were recorded on these lines, behind so many leaves.
pub(crate) fn told_each(computed: Computed, leaves: usize, lines: &[Line]) -> Computed {
    let told = |error| told(error, leaves, lines);
    let mut arrays = computed.map_err(told)?;
    for array in arrays.iter_mut().filter(|array| array.is_err()) {
        let failed = std::mem::replace(array, Err(Error::internal("an error was taken")));
        *array = failed.map_err(told);
    }
    Ok(arrays)
}

/// Runs what was planned.
pub(crate) fn execute(
    planned: Planned,
    mut inputs: Vec<PlanInput>,
    scalars: &[Scalar],
) -> (Computed, Weak<OwnEntry>) {
    match planned {
        Planned::Plan(entry) => {
            let missing = || Error::internal("a plan was not compiled");
            let run = |plan: &Plan| plan.run_each(&mut inputs, scalars);
            let result = entry.plan().ok_or_else(missing).and_then(run);
            (result, Arc::downgrade(&entry))
        }
        Planned::Eagerly(unplanned) => (Ok(unplanned.run(inputs, scalars)), Weak::new()),
        Planned::OneByOne(form, lines) => {
            let arrays = inputs.into_iter().map(|input| Ok(input.array)).collect();
            (Ok(form.run_each(arrays, scalars, &lines)), Weak::new())
        }
        Planned::Staged(stages, lines) => (Ok(stages.run(inputs, scalars, &lines)), Weak::new()),
    }
}
