//! Collection: the pending operations that requested tensors need, in topological order, and what becomes of each.
//!
//! The whole of it happens under one process-wide lock, held for about 40 ns an operation, never while something
//! compiles or runs. Under the lock no recorded node changes state, so numbers can be kept in the nodes themselves.

use crate::collected::{Collected, Entry, Held, LeafEntry, Place};
use crate::flight::Flight;
use crate::jit_fn::trace;
use crate::kind::Kind;
use crate::node::{Inputs, Node, NodeInput, State};
use crate::signature::{Edge, FormHash};
use crate::store_rule;
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Error, Scalar};
use parking_lot::Mutex;
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

/// An operation whose operands are being visited.
struct Frame {
    place: Place,
    group: u32,
    next: u32,
    /// Whether the edge that led here is all that holds the node.
    alone: bool,
}

/// A visit of the pending graph.
struct Visit {
    collected: Collected,
    epoch: u64,
    /// Whether operands are taken out of the nodes met, which die with the collection or get them back; else copied.
    takes: bool,
    stack: Vec<Frame>,
    /// What failed operations held.
    garbage: Vec<State>,
    hash: FormHash,
}

impl Visit {
    /// Visits the operands of the node at a place next.
    #[inline]
    fn open(&mut self, place: Place, inputs: Inputs, alone: bool) {
        let group = self.collected.groups.len() as u32;
        self.collected.groups.push(inputs);
        let next = 0;
        self.stack.push(Frame {
            place,
            group,
            next,
            alone,
        });
    }

    /// Numbers the node at a place, or opens it.
    fn enter(&mut self, place: Place) -> Result<(), Arc<Flight>> {
        let collected = &mut self.collected;
        let NodeInput::Tensor(node) =
            &mut collected.groups[place.group as usize][place.slot as usize]
        else {
            return Ok(());
        };
        if node.number(self.epoch).is_some() {
            return Ok(());
        }
        if self.takes
            && Arc::strong_count(node) == 1
            && let Some(node) = Arc::get_mut(node)
            && let Some(inputs) = node.collect_alone()
        {
            node.set_number(self.epoch, OPEN);
            self.open(place, inputs, true);
            return Ok(());
        }
        let guard = node.state();
        match &*guard {
            State::Recorded(inputs) => {
                let copy = (!self.takes).then(|| inputs.clone());
                drop(guard);
                // Under the collections' lock no recorded node becomes anything else.
                let inputs = copy.or_else(|| node.collect()).unwrap_or_default();
                node.set_number(self.epoch, OPEN);
                self.open(place, inputs, false);
            }
            State::Stored(_) => {
                if node.facts.argument != 0 {
                    collected.reads_trace = Some(node.facts.trace);
                }
                node.set_number(self.epoch, LEAF | collected.leaves.len() as u32);
                collected.leaves.push(LeafEntry { place, uses: 0 });
            }
            State::Failed(_) | State::Taken | State::Collected => {
                node.set_number(self.epoch, FAILED);
            }
            State::Flight(flight) => return Err(flight.clone()),
        }
        Ok(())
    }

    /// Numbers an operation all of whose operands are numbered.
    fn leave(&mut self, frame: &Frame) {
        let collected = &mut self.collected;
        let first_edge = collected.edges.len() as u32;
        let first_scalar = collected.scalars.len();
        let operands = &collected.groups[frame.group as usize];
        let mut failed = false;
        for operand in operands {
            let edge = match operand {
                NodeInput::Tensor(node) => match node.number(self.epoch) {
                    Some(FAILED | OPEN) | None => {
                        failed = true;
                        break;
                    }
                    Some(leaf) if leaf & LEAF != 0 => {
                        collected.leaves[(leaf & !LEAF) as usize].uses += 1;
                        Edge::Leaf(leaf & !LEAF)
                    }
                    Some(number) => {
                        collected.entries[number as usize].uses += 1;
                        Edge::Node(number)
                    }
                },
                number => {
                    let category = number.scalar().map(Scalar::category);
                    collected.scalars.push(number.clone());
                    Edge::Slot(category.unwrap_or(ferrotrace_runtime::Category::Int))
                }
            };
            collected.edges.push(edge);
        }
        let node = collected.node(frame.place);
        if failed {
            node.set_number(self.epoch, FAILED);
            let error = operands.iter().find_map(|input| match input {
                NodeInput::Tensor(input) => input.error(),
                _ => None,
            });
            let error = error.unwrap_or_else(|| Error::internal("an operand has no data"));
            self.garbage.push(node.set_state(State::Failed(error)));
            collected.edges.truncate(first_edge as usize);
            collected.scalars.truncate(first_scalar);
            return;
        }
        node.set_number(self.epoch, collected.entries.len() as u32);
        let edges = (first_edge, collected.edges.len() as u32);
        self.hash
            .node(node.facts.hash, &collected.edges[first_edge as usize..]);
        collected.entries.push(Entry {
            place: frame.place,
            group: frame.group,
            kind: Kind::address(&node.facts.kind),
            edges,
            uses: 0,
            alone: frame.alone,
            held: Held::Nothing,
        });
    }

    fn run(&mut self) -> Result<(), Arc<Flight>> {
        for slot in 0..self.collected.groups[0].len() as u32 {
            self.enter(Place { group: 0, slot })?;
            while let Some(frame) = self.stack.last_mut() {
                let (group, slot) = (frame.group, frame.next);
                if (slot as usize) < self.collected.groups[group as usize].len() {
                    frame.next += 1;
                    self.enter(Place { group, slot })?;
                } else if let Some(frame) = self.stack.pop() {
                    self.leave(&frame);
                }
            }
        }
        Ok(())
    }

    /// Gives back every operand taken.
    fn undo(&self) {
        if !self.takes {
            return;
        }
        for entry in &self.collected.entries {
            self.collected.give_back(entry.place, entry.group);
        }
        for frame in &self.stack {
            self.collected.give_back(frame.place, frame.group);
        }
    }
}

/// What holds a node that is not requested and that `uses` collected operations use. In a collection that took the
/// operands each use is one edge; one that copied them learns of handles alone.
fn held(node: &Arc<Node>, uses: u32) -> Held {
    let handles = node.handles();
    if handles > 0 {
        Held::Handles
    } else if Arc::strong_count(node) > uses as usize {
        Held::Operations
    } else {
        Held::Nothing
    }
}

/// Gives the operands back to the operations that stay recorded. Which leaves' data nothing needs once the outputs are
/// stored.
fn settle(collected: &Collected, is_output: &[bool]) -> Vec<bool> {
    let mut needed = vec![false; collected.entries.len()];
    let mut leaf_needed = vec![false; collected.leaves.len()];
    for number in (0..collected.entries.len()).rev() {
        if is_output[number] {
            continue;
        }
        let entry = collected.entries[number];
        if !needed[number] && entry.held == Held::Nothing {
            continue;
        }
        collected.give_back(entry.place, entry.group);
        for edge in collected.entry_edges(number) {
            match *edge {
                Edge::Node(n) => needed[n as usize] = true,
                Edge::Leaf(n) => leaf_needed[n as usize] = true,
                Edge::Slot(_) => {}
            }
        }
    }
    let free = |(leaf, needed): (&LeafEntry, &bool)| {
        let node = collected.node(leaf.place);
        !needed
            && (node.facts.argument == 0 || node.facts.trace != trace::current())
            && held(node, leaf.uses) == Held::Nothing
    };
    collected
        .leaves
        .iter()
        .zip(&leaf_needed)
        .map(free)
        .collect()
}

/// Collects what the nodes in `roots` need.
pub(crate) fn collect(roots: Inputs, stores: Stores) -> Outcome {
    let mut lock = EPOCH.lock();
    *lock += 1;
    let epoch = *lock;
    let depth = roots.iter().map(NodeInput::level).max().unwrap_or(0) as usize;
    let mut groups = Vec::with_capacity(depth + 1);
    groups.push(roots);
    let mut visit = Visit {
        collected: Collected {
            groups,
            entries: Vec::with_capacity(depth),
            edges: Vec::with_capacity(2 * depth),
            ..Collected::default()
        },
        epoch,
        takes: stores.runs(),
        stack: Vec::with_capacity(depth),
        garbage: Vec::new(),
        hash: FormHash::default(),
    };
    if let Err(flight) = visit.run() {
        visit.undo();
        drop(lock);
        return Outcome::Wait(flight);
    }
    let Visit {
        mut collected,
        mut garbage,
        mut hash,
        ..
    } = visit;
    if collected.entries.is_empty() {
        drop(lock);
        return Outcome::Nothing;
    }
    let mut is_output = vec![false; collected.entries.len()];
    for root in &collected.groups[0] {
        if let NodeInput::Tensor(node) = root
            && let Some(number) = node.number(epoch)
            && let Some(output) = is_output.get_mut(number as usize)
        {
            *output = true;
        }
    }
    if stores != Stores::Trace {
        for (number, is_output) in is_output.iter().enumerate() {
            let entry = collected.entries[number];
            if !is_output && !entry.alone {
                collected.entries[number].held = held(collected.node(entry.place), entry.uses);
            }
        }
        store_rule::add(&collected, stores == Stores::Reachable, &mut is_output);
    }
    let numbers = 0..collected.entries.len() as u32;
    collected.outputs = numbers.filter(|&n| is_output[n as usize]).collect();
    let flight = Arc::new(Flight::default());
    let gives = match stores.runs() {
        true => settle(&collected, &is_output),
        false => vec![false; collected.leaves.len()],
    };
    let mut leaves = Vec::with_capacity(collected.leaves.len());
    for (leaf, donated) in collected.leaves.iter().zip(gives) {
        let node = collected.node(leaf.place);
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
    use ferrotrace_runtime::Device;

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
                    .filter_map(|l| collected.node(l.place).array())
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
                    let roots = smallvec::smallvec![NodeInput::Tensor(x.node().clone())];
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
