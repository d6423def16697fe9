//! Collection: the pending operations that requested tensors need, in topological order, and what becomes of each.
//!
//! The whole of it happens under one process-wide lock, held for about 40 ns an operation, never while something
//! compiles or runs. Under the lock no recorded node changes state, so numbers can be kept in the nodes themselves.

use crate::flight::Flight;
use crate::jit_fn::trace;
use crate::node::{Node, NodeInput, State};
use crate::signature::{Edge, Form, FormHash, FormLeaf, FormNode};
use crate::store_rule;
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Device, Error, Scalar};
use parking_lot::Mutex;
use std::panic::Location;
use std::sync::Arc;

/// The number of the last collection.
static EPOCH: Mutex<u64> = Mutex::new(0);

/// Node numbers: leaves have the top bit; the last two mark nodes that are open or failed.
const LEAF: u32 = 1 << 31;
const OPEN: u32 = u32::MAX - 1;
const FAILED: u32 = u32::MAX;

/// Which nodes a collection stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// The requested ones, and those that the rule of [`store_rule`] adds.
    Rule,
    /// The requested ones, and every other that anything outside the collection can reach: so that nothing in it is
    /// ever computed again.
    Reachable,
    /// The requested ones alone, and nothing will run: no node is marked as being computed, and nothing is donated. For
    /// a `jit` trace.
    Trace,
    /// As [`Rule`](Stores::Rule), but nothing will run. For an explanation.
    Shown,
}

impl Stores {
    /// Whether what is collected will run.
    fn runs(self) -> bool {
        matches!(self, Stores::Rule | Stores::Reachable)
    }
}

/// A collected operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Where its node stands in [`Collected::arcs`].
    pub arc: u32,
    /// Its operands in [`Collected::edges`].
    pub edges: (u32, u32),
    /// How many collected operations use it.
    pub uses: u32,
}

/// A collected leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafEntry {
    /// Where its node stands in [`Collected::arcs`].
    pub arc: u32,
    /// How many collected operations use it.
    pub uses: u32,
}

/// Pending operations in topological order.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// The requested nodes, then the operands of every operation met.
    pub arcs: Vec<NodeInput>,
    pub requested: usize,
    pub entries: Vec<Entry>,
    pub edges: Vec<Edge>,
    pub leaves: Vec<LeafEntry>,
    /// Numbers, in the order of their slots.
    pub scalars: Vec<NodeInput>,
    /// Numbers of the stored nodes.
    pub outputs: Vec<u32>,
    pub hash: u64,
    /// Whether an argument of the trace of this number is among the leaves.
    pub reads_trace: Option<u64>,
}

/// What a collection came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Operations to run: the collection, the data of its leaves with whether it is donated, and who waits for it.
    Run(Box<Collected>, Vec<(Array, bool)>, Arc<Flight>),
    /// Nothing is pending, but requested tensors may carry errors.
    Nothing,
    /// Another flush computes what is needed.
    Wait(Arc<Flight>),
}

impl Collected {
    /// The node at a place of `arcs`.
    #[inline]
    pub fn node(&self, arc: u32) -> &Arc<Node> {
        match &self.arcs[arc as usize] {
            NodeInput::Tensor(node) => node,
            _ => unreachable!("operations and leaves are entered at places that hold nodes"),
        }
    }

    /// The node of a collected operation.
    #[inline]
    pub fn entry_node(&self, number: u32) -> &Arc<Node> {
        self.node(self.entries[number as usize].arc)
    }

    /// The operands of a collected operation.
    #[inline]
    pub fn entry_edges(&self, number: usize) -> &[Edge] {
        let (start, end) = self.entries[number].edges;
        &self.edges[start as usize..end as usize]
    }

    /// The numbers' values.
    pub fn scalar_values(&self) -> Vec<Scalar> {
        self.scalars.iter().filter_map(NodeInput::scalar).collect()
    }

    /// The user's line of each operation.
    pub fn locations(&self) -> Vec<&'static Location<'static>> {
        self.entries
            .iter()
            .map(|entry| self.node(entry.arc).facts.location)
            .collect()
    }

    /// Whether `form` is its form, for leaves with this data.
    pub fn has_form<'a>(&self, form: &Form, leaves: impl Iterator<Item = &'a Array>) -> bool {
        self.entries.len() == form.nodes.len()
            && self.outputs == form.outputs
            && self.leaves.len() == form.leaves.len()
            && self.edges == form.edges
            && self.device() == form.device
            && form
                .leaves
                .iter()
                .zip(leaves)
                .all(|(leaf, array)| leaf.is_of(array))
            && self.entries.iter().zip(&form.nodes).all(|(entry, node)| {
                let facts = &self.node(entry.arc).facts;
                entry.edges.1 == node.edges_end
                    && facts.dtype == node.dtype
                    && facts.precision == node.precision
                    && facts.shape == node.shape
                    && facts.op.as_ref() == Some(&node.op)
            })
    }

    /// Its form, for leaves with this data.
    pub fn form<'a>(&self, leaves: impl Iterator<Item = &'a Array>) -> Form {
        let node = |entry: &Entry| {
            let facts = &self.node(entry.arc).facts;
            FormNode {
                op: facts.op.clone().expect("only operations are pending"),
                precision: facts.precision,
                dtype: facts.dtype,
                shape: facts.shape.clone(),
                edges_end: entry.edges.1,
            }
        };
        Form {
            nodes: self.entries.iter().map(node).collect(),
            edges: self.edges.clone(),
            leaves: leaves.map(FormLeaf::of).collect(),
            outputs: self.outputs.clone(),
            device: self.device(),
        }
    }

    /// The device of its operations.
    fn device(&self) -> Device {
        let first = self.entries.first();
        first.map_or(Device::cpu(), |e| self.node(e.arc).facts.device.clone())
    }
}

/// An operation whose operands are being visited.
struct Frame {
    arc: u32,
    next: u32,
    start: u32,
    end: u32,
}

/// A visit of the pending graph.
struct Visit {
    collected: Collected,
    epoch: u64,
    stack: Vec<Frame>,
    /// What failed operations held.
    garbage: Vec<State>,
    hash: FormHash,
}

impl Visit {
    /// Numbers the node at a place of `arcs`, or opens it.
    fn enter(&mut self, arc: u32) -> Result<(), Arc<Flight>> {
        let NodeInput::Tensor(node) = &self.collected.arcs[arc as usize] else {
            return Ok(());
        };
        if node.number(self.epoch).is_some() {
            return Ok(());
        }
        let guard = node.state();
        match &*guard {
            State::Recorded(inputs) => {
                let inputs = inputs.clone();
                drop(guard);
                node.set_number(self.epoch, OPEN);
                let start = self.collected.arcs.len() as u32;
                self.collected.arcs.extend(inputs);
                let end = self.collected.arcs.len() as u32;
                self.stack.push(Frame {
                    arc,
                    next: start,
                    start,
                    end,
                });
            }
            State::Stored(_) => {
                if node.facts.argument != 0 {
                    self.collected.reads_trace = Some(node.facts.trace);
                }
                node.set_number(self.epoch, LEAF | self.collected.leaves.len() as u32);
                self.collected.leaves.push(LeafEntry { arc, uses: 0 });
            }
            State::Failed(_) | State::Taken => node.set_number(self.epoch, FAILED),
            State::Flight(flight) => return Err(flight.clone()),
        }
        Ok(())
    }

    /// Numbers an operation all of whose operands are numbered.
    fn leave(&mut self, frame: &Frame) {
        let collected = &mut self.collected;
        let first_edge = collected.edges.len() as u32;
        let first_scalar = collected.scalars.len();
        let mut failed = false;
        for place in frame.start..frame.end {
            let edge = match &collected.arcs[place as usize] {
                NodeInput::Tensor(node) => match node.number(self.epoch) {
                    Some(FAILED | OPEN) | None => {
                        failed = true;
                        break;
                    }
                    Some(leaf) if leaf & LEAF != 0 => Edge::Leaf(leaf & !LEAF),
                    Some(number) => Edge::Node(number),
                },
                number => {
                    let category = number.scalar().map(Scalar::category);
                    collected.scalars.push(number.clone());
                    Edge::Slot(category.unwrap_or(ferrotrace_runtime::Category::Int))
                }
            };
            collected.edges.push(edge);
        }
        let NodeInput::Tensor(node) = &collected.arcs[frame.arc as usize] else {
            return;
        };
        if failed {
            collected.edges.truncate(first_edge as usize);
            collected.scalars.truncate(first_scalar);
            node.set_number(self.epoch, FAILED);
            let error = collected.arcs[frame.start as usize..frame.end as usize]
                .iter()
                .find_map(|input| match input {
                    NodeInput::Tensor(input) => input.error(),
                    _ => None,
                });
            let error = error.unwrap_or_else(|| Error::internal("an operand has no data"));
            self.garbage.push(node.set_state(State::Failed(error)));
            return;
        }
        node.set_number(self.epoch, collected.entries.len() as u32);
        let edges = (first_edge, collected.edges.len() as u32);
        for edge in &collected.edges[first_edge as usize..] {
            match *edge {
                Edge::Node(n) => collected.entries[n as usize].uses += 1,
                Edge::Leaf(n) => collected.leaves[n as usize].uses += 1,
                Edge::Slot(_) => {}
            }
        }
        self.hash
            .node(node.facts.hash, &collected.edges[first_edge as usize..]);
        collected.entries.push(Entry {
            arc: frame.arc,
            edges,
            uses: 0,
        });
    }

    fn run(&mut self) -> Result<(), Arc<Flight>> {
        for root in 0..self.collected.requested as u32 {
            self.enter(root)?;
            while let Some(frame) = self.stack.last_mut() {
                if frame.next < frame.end {
                    frame.next += 1;
                    let next = frame.next - 1;
                    self.enter(next)?;
                } else if let Some(frame) = self.stack.pop() {
                    self.leave(&frame);
                }
            }
        }
        Ok(())
    }
}

/// Whether something outside the collection, no handle, holds a node that `uses` collected operations use.
pub(crate) fn held_outside(node: &Arc<Node>, handles: u32, uses: u32, requested: usize) -> bool {
    // Each use is an edge in the using node and one in `arcs`.
    Arc::strong_count(node) > handles as usize + 2 * uses as usize + requested
}

/// Which leaves' data nothing needs once the outputs are stored.
fn donated(collected: &Collected, is_output: &[bool], epoch: u64) -> Vec<bool> {
    let mut roots = vec![0usize; collected.entries.len()];
    for arc in 0..collected.requested as u32 {
        if let Some(number) = collected.node(arc).number(epoch)
            && let Some(count) = roots.get_mut(number as usize)
        {
            *count += 1;
        }
    }
    let mut needed = vec![false; collected.entries.len()];
    let mut leaf_needed = vec![false; collected.leaves.len()];
    for number in (0..collected.entries.len()).rev() {
        if is_output[number] {
            continue;
        }
        let entry = collected.entries[number];
        let node = collected.node(entry.arc);
        let handles = node.handles();
        let stays =
            needed[number] || handles > 0 || held_outside(node, handles, entry.uses, roots[number]);
        if !stays {
            continue;
        }
        for edge in collected.entry_edges(number) {
            match *edge {
                Edge::Node(n) => needed[n as usize] = true,
                Edge::Leaf(n) => leaf_needed[n as usize] = true,
                Edge::Slot(_) => {}
            }
        }
    }
    let free = |(leaf, needed): (&LeafEntry, &bool)| {
        let node = collected.node(leaf.arc);
        !needed
            && (node.facts.argument == 0 || node.facts.trace != trace::current())
            && node.handles() == 0
            && !held_outside(node, 0, leaf.uses, 0)
    };
    collected
        .leaves
        .iter()
        .zip(&leaf_needed)
        .map(free)
        .collect()
}

/// Collects what the nodes in `roots` need.
pub(crate) fn collect(roots: Vec<NodeInput>, stores: Stores) -> Outcome {
    let mut lock = EPOCH.lock();
    *lock += 1;
    let epoch = *lock;
    let requested = roots.len();
    let mut visit = Visit {
        collected: Collected {
            arcs: roots,
            requested,
            ..Collected::default()
        },
        epoch,
        stack: Vec::new(),
        garbage: Vec::new(),
        hash: FormHash::default(),
    };
    let outcome = visit.run();
    let Visit {
        mut collected,
        mut garbage,
        mut hash,
        ..
    } = visit;
    if let Err(flight) = outcome {
        drop(lock);
        return Outcome::Wait(flight);
    }
    if collected.entries.is_empty() {
        drop(lock);
        return Outcome::Nothing;
    }
    let mut is_output = vec![false; collected.entries.len()];
    for arc in 0..requested as u32 {
        if let Some(number) = collected.node(arc).number(epoch)
            && let Some(output) = is_output.get_mut(number as usize)
        {
            *output = true;
        }
    }
    if stores != Stores::Trace {
        store_rule::add(&collected, stores == Stores::Reachable, &mut is_output);
    }
    let numbers = 0..collected.entries.len() as u32;
    collected.outputs = numbers.filter(|&n| is_output[n as usize]).collect();
    let flight = Arc::new(Flight::default());
    let gives = match stores.runs() {
        true => donated(&collected, &is_output, epoch),
        false => vec![false; collected.leaves.len()],
    };
    let mut leaves = Vec::with_capacity(collected.leaves.len());
    for (leaf, donated) in collected.leaves.iter().zip(gives) {
        let node = collected.node(leaf.arc);
        let array = if donated {
            node.take_array()
        } else {
            node.array()
        };
        let Some(array) = array else { continue };
        hash.leaf(&array.layout, array.dtype);
        leaves.push((array, donated));
    }
    collected.hash = hash.finish(&collected.outputs);
    if stores.runs() {
        for &number in &collected.outputs {
            let node = collected.entry_node(number);
            garbage.push(node.set_state(State::Flight(flight.clone())));
        }
    }
    drop(lock);
    drop(garbage);
    Outcome::Run(Box::new(collected), leaves, flight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Tensor, with_mode};

    fn v(data: &[f32]) -> Tensor {
        Tensor::from_slice(data, data.len(), &Device::cpu())
    }

    /// What collecting tensors comes to, without anything running.
    fn shown(tensors: &[&Tensor]) -> Collected {
        let roots = tensors
            .iter()
            .map(|t| NodeInput::Tensor(t.node().clone()))
            .collect();
        match collect(roots, Stores::Shown) {
            Outcome::Run(collected, ..) => *collected,
            other => panic!("{other:?}"),
        }
    }

    fn compiled(f: impl FnOnce()) {
        with_mode(Mode::Compiled, f);
    }

    #[test]
    fn operands_come_first_and_leaves_once() {
        compiled(|| {
            let x = v(&[1.0, 2.0]);
            let y = &x * 2.0;
            let z = &(&y + &x) * &y;
            let collected = shown(&[&z, &y]);
            use Edge::*;
            let number = Slot(ferrotrace_runtime::Category::Float);
            assert_eq!(
                collected.edges,
                [Leaf(0), number, Node(0), Leaf(0), Node(1), Node(0)]
            );
            assert_eq!((collected.outputs, collected.leaves.len()), (vec![0, 2], 1));
            assert_eq!(
                collected.entries.iter().map(|e| e.uses).collect::<Vec<_>>(),
                [2, 1, 0]
            );
        });
    }

    #[test]
    fn equal_programs_have_equal_forms_and_others_do_not() {
        compiled(|| {
            let form = |tensor: &Tensor| {
                let collected = shown(&[tensor]);
                let arrays: Vec<Array> = collected
                    .leaves
                    .iter()
                    .filter_map(|l| collected.node(l.arc).array())
                    .collect();
                let form = collected.form(arrays.iter());
                assert_eq!(form.hash(), collected.hash);
                assert!(collected.has_form(&form, arrays.iter()));
                form
            };
            let (x, y) = (v(&[1.0, 2.0]), v(&[3.0, 4.0]));
            let first = form(&(&x * 2.0 + &y));
            assert_eq!(first, form(&(&y * 3.0 + &x)));
            let others = [
                &x * 2 + &y,
                &x * 2.0 - &y,
                2.0 * &x + &y,
                &x * 2.0 + &x,
                &x.flip([0]) * 2.0 + &y,
                v(&[1.0; 3]) * 2.0 + v(&[2.0; 3]),
            ];
            for other in others {
                let other = form(&other);
                assert_ne!(first, other);
                assert_ne!(first.hash(), other.hash());
            }
        });
    }

    #[test]
    fn only_what_nothing_needs_is_donated() {
        // What a collection of `roots` gives away, by the first element of each leaf.
        let given = |roots: &[&Tensor]| {
            let roots = roots
                .iter()
                .map(|t| NodeInput::Tensor(t.node().clone()))
                .collect();
            let Outcome::Run(collected, leaves, flight) = collect(roots, Stores::Rule) else {
                panic!("nothing is pending");
            };
            for &number in &collected.outputs {
                let error = Error::internal("not run in this test");
                collected.entry_node(number).set_state(State::Failed(error));
            }
            flight.land();
            let donated = leaves.into_iter().filter(|(_, donated)| *donated);
            donated
                .map(|(array, _)| array.buffer.as_slice::<f32>()[0])
                .collect::<Vec<_>>()
        };
        compiled(|| {
            let held = v(&[1.0, 0.0]);
            let y = (&held + v(&[2.0, 0.0])) * v(&[3.0, 0.0]);
            assert_eq!(given(&[&y]), [2.0, 3.0]);
            // A node that stays recorded needs its data.
            let lazy = v(&[4.0, 0.0]) * 2.0;
            let y = &lazy + v(&[5.0, 0.0]);
            assert_eq!(given(&[&y]), [5.0]);
            // So does one that only an operation outside of the flush uses.
            let inner = v(&[6.0, 0.0]) * 2.0;
            let (y, outside) = (&inner + v(&[7.0, 0.0]), &inner - 1.0);
            drop(inner);
            assert_eq!(given(&[&y]), [7.0]);
            drop(outside);
        });
    }

    #[test]
    fn a_failed_operand_fails_what_needs_it_alone() {
        compiled(|| {
            let x = v(&[1.0]) * 2.0;
            let (bad, good) = (&x + 1.0, v(&[3.0]) + 1.0);
            let worse = bad.exp();
            x.node()
                .set_state(State::Failed(Error::argument("made to fail")));
            assert!(crate::eval([&worse, &good]).is_err());
            assert!(
                bad.error()
                    .is_some_and(|e| e.to_string().contains("made to fail"))
            );
            assert!(good.error().is_none());
        });
    }

    #[test]
    fn a_hundred_thousand_operations_on_a_small_stack() {
        let run = || {
            // A traced function is not cut.
            let (collected, _) = trace::record(|_| {
                with_mode(Mode::Compiled, || {
                    let mut x = v(&[0.0]);
                    for _ in 0..100_000 {
                        x = &x + 1.0;
                    }
                    let roots = vec![NodeInput::Tensor(x.node().clone())];
                    match collect(roots, Stores::Trace) {
                        Outcome::Run(collected, ..) => collected.entries.len(),
                        _ => 0,
                    }
                })
            });
            assert_eq!(collected, 100_000);
        };
        let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(run);
        thread.expect("a thread").join().expect("passes");
    }
}
