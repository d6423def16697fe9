//! Collection: the pending operations that requested tensors need, in topological order, and what becomes of each.
//!
//! The whole of it happens while the requested nodes' [`Domain`](crate::node::domain::Domain) is held, for about 40 ns an
//! operation, never while something compiles or runs. Meanwhile no recorded node of it changes state, so numbers are kept
//! in the nodes themselves; those of data that belongs to other domains, which other collections may read at the same
//! time, are kept apart.

mod leaves;

use super::collected::{Collected, Entry, Held, LeafEntry};
use super::store_rule;
use crate::form::{Edge, FormHash, Kind};
use crate::node::domain::Hold;
use crate::node::flight::Flight;
use crate::node::summaries;
use crate::node::{Inputs, Node, NodeArc, NodeInput, State, Status};
use crate::trace;
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Error, Scalar};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Node numbers: leaves have the top bit, and those that stand for another the next; the last two mark nodes that are
/// open or failed.
const LEAF: u32 = 1 << 31;
const ALIKE: u32 = 1 << 30;
const OPEN: u32 = u32::MAX - 1;
const FAILED: u32 = u32::MAX;

/// Which nodes a collection stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// The requested ones, and those that the rule of [`store_rule`] adds.
    Rule,
    /// The nodes that [`Rule`](Stores::Rule) stores, by ready-made kernels: for little work that nothing repeats.
    AtOnce,
    /// The requested ones, and every other that anything outside the collection can reach: so that nothing in it is
    /// ever computed again.
    Reachable,
    /// The nodes that [`Reachable`](Stores::Reachable) stores, of steps of a loop: by ready-made kernels until a plan pays.
    Steps,
    /// The requested ones alone, and nothing will run: no node is marked as being computed, and nothing is donated. For
    /// a `jit` trace.
    Trace,
    /// The nodes that [`Rule`](Stores::Rule) stores, but nothing will run. For an explanation.
    Shown,
}

impl Stores {
    /// Whether what is collected will run.
    fn runs(self) -> bool {
        !matches!(self, Stores::Trace | Stores::Shown)
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
    /// Where its node stands among the collection's operands.
    place: u32,
    /// Where its own operands start in that list, and where they end.
    first: u32,
    end: u32,
    /// The next operand to visit.
    next: u32,
    /// Whether the edge that led here is all that holds the node.
    alone: bool,
}

/// The numbers of the nodes that a collection met.
struct Numbers {
    hold: Hold,
    /// Numbers of data that belongs to other domains.
    others: FxHashMap<*const Node, u32>,
}

impl Numbers {
    /// A node's number, if it was met.
    #[inline(always)]
    fn of(&self, node: &NodeArc) -> Option<u32> {
        match self.hold.covers(node.domain()) {
            true => node.number(self.hold.epoch),
            false => self.others.get(&NodeArc::as_ptr(node)).copied(),
        }
    }

    #[inline(always)]
    fn set(&mut self, node: &NodeArc, number: u32) {
        match self.hold.covers(node.domain()) {
            true => node.set_number(self.hold.epoch, number),
            false => {
                self.others.insert(NodeArc::as_ptr(node), number);
            }
        }
    }
}

/// A visit of the pending graph.
struct Visit {
    collected: Collected,
    numbers: Numbers,
    /// Whether operands are taken out of the nodes met, which die with the collection or get them back; else copied.
    takes: bool,
    /// The operations that lead to the one being visited.
    stack: Vec<Frame>,
    /// Numbers of the operations that more than one edge holds, in ascending order.
    shared: Vec<u32>,
    /// States that failed operations held, dropped once the domain is released.
    garbage: Vec<State>,
    /// Whether an earlier flush computed one of the operations.
    again: bool,
    /// Whether a view of data becomes data.
    resolves: bool,
    /// Whether there may be leaves that views alone read.
    unused: bool,
    /// Leaves that are views, by their memory and layout, and for each view met again the leaf that it is like.
    views: FxHashMap<(usize, u64), u32>,
    alike: Vec<u32>,
    hash: FormHash,
}

/// What becomes of a place that is visited.
enum Met {
    /// The node has a number.
    Numbered,
    /// The node is an operation, whose operands are visited next.
    Opened,
    /// Another flush computes the node.
    Flying(Arc<Flight>),
}

// Fields written a moment ago are read one by one: a load that spans several stores waits for all of them.
impl Visit {
    /// The operands from `first` on are those of the node at a place: they are visited next.
    #[inline(always)]
    fn open(&mut self, place: u32, first: u32, alone: bool) -> Met {
        self.stack.push(Frame {
            place,
            first,
            end: self.collected.operands.len() as u32,
            next: first,
            alone,
        });
        Met::Opened
    }

    /// Numbers the node at a place, or opens it.
    #[inline(always)]
    fn enter(&mut self, place: u32) -> Met {
        let operands = &mut self.collected.operands;
        let NodeInput::Tensor(node) = &operands[place as usize] else {
            return Met::Numbered;
        };
        if self.numbers.of(node).is_some() {
            return Met::Numbered;
        }
        if !self.takes || NodeArc::strong_count(node) > 1 {
            return self.enter_shared(place);
        }
        // Its operands go to the end of the list that it stands in.
        let first = operands.len() as u32;
        let nothing = NodeInput::Scalar(Scalar::Int(0));
        let mut taken = std::mem::replace(&mut operands[place as usize], nothing);
        let opened = match &mut taken {
            NodeInput::Tensor(node) => {
                NodeArc::get_mut(node).is_some_and(|node| node.collect_alone(operands))
            }
            _ => false,
        };
        operands[place as usize] = taken;
        match opened {
            // No other edge leads to the node: it is numbered when it is left.
            true => self.open(place, first, true),
            false => self.enter_shared(place),
        }
    }

    /// Numbers or opens a node that more than this edge holds, or that is no operation.
    #[inline(never)]
    fn enter_shared(&mut self, place: u32) -> Met {
        let Visit {
            collected, numbers, ..
        } = self;
        let NodeInput::Tensor(node) = &collected.operands[place as usize] else {
            return Met::Numbered;
        };
        // Most are data, which stays data: no other thread is kept from reading it.
        if node.status() == Status::Stored {
            let argument = self.takes && node.facts.is_argument;
            if argument && !trace::observe_value(node.facts.trace) {
                numbers.set(node, FAILED);
                return Met::Numbered;
            }
            self.enter_leaf(place);
            return Met::Numbered;
        }
        let guard = node.state();
        match &*guard {
            State::Recorded(_) if node.is_collected() => numbers.set(node, FAILED),
            State::Recorded(inputs) => {
                let first = collected.operands.len() as u32;
                let copy = (!self.takes).then(|| inputs.clone());
                drop(guard);
                // While its domain is held no recorded node becomes anything else.
                let inputs = copy.unwrap_or_else(|| node.collect());
                numbers.set(node, OPEN);
                collected.operands.extend(inputs);
                return self.open(place, first, false);
            }
            State::Failed(_) | State::Taken => numbers.set(node, FAILED),
            State::Flight(flight) => return Met::Flying(flight.clone()),
            // Stored since its status was read.
            State::Stored(_) => {
                drop(guard);
                return self.enter_shared(place);
            }
        }
        Met::Numbered
    }

    /// Numbers the last operation opened, all of whose operands are numbered.
    #[inline(always)]
    fn leave(&mut self) {
        let Some(&Frame {
            place,
            first,
            end,
            alone,
            ..
        }) = self.stack.last()
        else {
            return;
        };
        let Collected {
            operands,
            entries,
            edges,
            leaves,
            scalars,
            ..
        } = &mut self.collected;
        let first_edge = edges.len();
        let first_scalar = scalars.len();
        let (mut failed, mut by_alike) = (false, false);
        for operand in &operands[first as usize..end as usize] {
            edges.push(match operand {
                NodeInput::Tensor(node) => match self.numbers.of(node) {
                    Some(FAILED | OPEN) | None => {
                        failed = true;
                        Edge::Node(FAILED)
                    }
                    Some(leaf) if leaf & (LEAF | ALIKE) == LEAF | ALIKE => {
                        let leaf = self.alike[(leaf & !(LEAF | ALIKE)) as usize];
                        leaves[leaf as usize].alike += 1;
                        by_alike = true;
                        Edge::Leaf(leaf)
                    }
                    Some(leaf) if leaf & LEAF != 0 => {
                        leaves[(leaf & !LEAF) as usize].uses += 1;
                        Edge::Leaf(leaf & !LEAF)
                    }
                    Some(number) => {
                        entries[number as usize].uses += 1;
                        Edge::Node(number)
                    }
                },
                number => {
                    let category = number.scalar().map(Scalar::category);
                    scalars.push(number.clone());
                    Edge::Slot(category.unwrap_or(ferrotrace_runtime::Category::Int))
                }
            });
        }
        if failed {
            edges.truncate(first_edge);
            scalars.truncate(first_scalar);
            self.fail();
            self.stack.pop();
            return;
        }
        self.stack.truncate(self.stack.len() - 1);
        if let [Edge::Leaf(leaf)] = edges[first_edge..]
            && self.resolves
            && self.resolve(place, leaf, by_alike)
        {
            return;
        }
        let Collected {
            operands,
            entries,
            edges,
            ..
        } = &mut self.collected;
        let NodeInput::Tensor(node) = &operands[place as usize] else {
            return;
        };
        let number = entries.len() as u32;
        self.numbers.set(node, number);
        if !alone {
            self.shared.push(number);
        }
        self.again |= node.was_computed();
        self.hash.node(node.facts.hash, &edges[first_edge..]);
        entries.push(Entry {
            place,
            first,
            kind: Kind::address(&node.facts.kind),
            edges: (first_edge as u32, edges.len() as u32),
            uses: 0,
            held: Held::Nothing,
        });
    }

    /// Fails the last operation opened, one of whose operands failed.
    #[cold]
    fn fail(&mut self) {
        let Some(frame) = self.stack.last() else {
            return;
        };
        let collected = &self.collected;
        let inputs = &collected.operands[frame.first as usize..frame.end as usize];
        let error = inputs.iter().find_map(|input| match input {
            NodeInput::Tensor(input) if self.numbers.of(input) == Some(FAILED) => {
                let stale = || trace::stale(input.facts.trace, input.facts.location);
                input
                    .error()
                    .or_else(|| input.facts.is_argument.then(stale))
            }
            _ => None,
        });
        let error = error.unwrap_or_else(|| Error::internal("an operand has no data"));
        let node = collected.node(frame.place);
        self.numbers.set(node, FAILED);
        self.garbage.push(node.set_state(State::Failed(error)));
    }

    fn run(&mut self) -> Result<(), Arc<Flight>> {
        for root in 0..self.collected.operands.len() as u32 {
            let mut next = root;
            loop {
                if let Met::Flying(flight) = self.enter(next) {
                    return Err(flight);
                }
                while self.stack.last().is_some_and(|last| last.next == last.end) {
                    self.leave();
                }
                let Some(last) = self.stack.last_mut() else {
                    break;
                };
                next = last.next;
                last.next += 1;
            }
        }
        if self.unused {
            self.forget_unused();
        }
        Ok(())
    }

    /// Gives back every operand taken.
    fn undo(&self) {
        if !self.takes {
            return;
        }
        for number in 0..self.collected.entries.len() {
            let operands = self.collected.entry_operands(number);
            self.collected
                .give_back(self.collected.entries[number].place, operands);
        }
        for frame in &self.stack {
            let operands = frame.first as usize..frame.end as usize;
            self.collected.give_back(frame.place, operands);
        }
    }
}

/// What holds a node that is not requested and that `uses` edges of the collection hold.
fn held(node: &NodeArc, uses: u32) -> Held {
    if let Some(expected) = node.is_kept_alone() {
        let references = match node.is_listed() {
            true => summaries::references(node),
            false => NodeArc::strong_count(node),
        };
        let beyond = references > uses as usize + node.handles() as usize;
        return match (expected, beyond) {
            (true, _) => Held::Saved,
            (false, true) => Held::Operations,
            (false, false) => Held::Spent,
        };
    }
    if node.handles() > 0 {
        Held::Handles
    } else if NodeArc::strong_count(node) > uses as usize {
        Held::Operations
    } else {
        Held::Nothing
    }
}

/// Gives the operands back to the operations that stay recorded, notes that they are computed, and corrects their levels.
/// Which leaves' data nothing needs once the outputs are stored.
fn settle(collected: &Collected, shared: &[u32], is_output: &[bool]) -> Vec<bool> {
    let holds = |&&n: &&u32| collected.entries[n as usize].held != Held::Nothing;
    // Operands come first: what stays recorded ends with the last that something holds.
    let end = shared
        .iter()
        .rev()
        .find(holds)
        .map_or(0, |&n| n as usize + 1);
    let mut needed = vec![false; end];
    let mut leaf_needed = vec![false; collected.leaves.len()];
    let mut stays: Vec<usize> = Vec::new();
    for number in (0..end).rev() {
        if is_output[number] {
            continue;
        }
        let entry = collected.entries[number];
        if !needed[number] && entry.held == Held::Nothing {
            continue;
        }
        collected.give_back(entry.place, collected.entry_operands(number));
        collected.node(entry.place).set_computed();
        stays.push(number);
        for edge in collected.entry_edges(number) {
            match *edge {
                Edge::Node(n) => needed[n as usize] = true,
                Edge::Leaf(n) => leaf_needed[n as usize] = true,
                Edge::Slot(_) => {}
            }
        }
    }
    for number in stays.into_iter().rev() {
        let level = |edge: &Edge| match *edge {
            Edge::Node(n) if !is_output[n as usize] => collected.entry_node(n).level(),
            _ => 0,
        };
        let deepest = collected.entry_edges(number).iter().map(level).max();
        let node = collected.entry_node(number as u32);
        node.set_level(deepest.unwrap_or(0) + 1);
    }
    let free = |(leaf, needed): (&LeafEntry, &bool)| {
        let node = collected.node(leaf.place);
        !needed
            && (!node.facts.is_argument || !trace::is_active(node.facts.trace))
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
    let domains = roots.iter().filter_map(|root| match root {
        NodeInput::Tensor(node) => Some(node.domain()),
        _ => None,
    });
    let Some(domain) = domains.reduce(|domain, other| domain.with(other)) else {
        return Outcome::Nothing;
    };
    let hold = domain.hold();
    let depth = roots.iter().map(NodeInput::level).max().unwrap_or(0) as usize;
    let requested = roots.len();
    let mut operands = Vec::with_capacity(requested + 2 * depth);
    operands.extend(roots);
    let mut visit = Visit {
        collected: Collected {
            operands,
            entries: Vec::with_capacity(depth),
            edges: Vec::with_capacity(2 * depth),
            ..Collected::default()
        },
        numbers: Numbers {
            hold,
            others: FxHashMap::default(),
        },
        takes: stores.runs(),
        stack: Vec::with_capacity(depth),
        shared: Vec::new(),
        garbage: Vec::new(),
        again: false,
        resolves: stores != Stores::Trace,
        unused: false,
        views: FxHashMap::default(),
        alike: Vec::new(),
        hash: FormHash::default(),
    };
    if let Err(flight) = visit.run() {
        visit.undo();
        drop(visit.numbers);
        return Outcome::Wait(flight);
    }
    let Visit {
        mut collected,
        numbers,
        mut shared,
        mut garbage,
        again,
        mut hash,
        ..
    } = visit;
    if collected.entries.is_empty() {
        drop(numbers);
        return Outcome::Nothing;
    }
    let mut is_output = vec![false; collected.entries.len()];
    for root in &collected.operands[..requested] {
        if let NodeInput::Tensor(node) = root
            && let Some(number) = numbers.of(node)
            && let Some(output) = is_output.get_mut(number as usize)
        {
            *output = true;
        }
    }
    // What is not shared is neither requested nor held by anything but its one user.
    if stores != Stores::Trace {
        // Operands that were copied hold their nodes twice.
        let holds = if stores.runs() { 1 } else { 2 };
        for &number in shared.iter().filter(|&&n| !is_output[n as usize]) {
            let Entry { place, uses, .. } = collected.entries[number as usize];
            collected.entries[number as usize].held = held(collected.node(place), holds * uses);
        }
        let all = matches!(stores, Stores::Reachable | Stores::Steps);
        let shown = store_rule::add(&collected, &shared, all, &mut is_output);
        if again && !all {
            store_rule::add_computed(&collected, &mut is_output);
        }
        if shown || again && !all {
            // An operation that another alone holds is among the outputs only as one that was computed before, or that a view shows.
            shared = (0..is_output.len() as u32).collect();
        }
    }
    let flight = Arc::new(Flight::default());
    let gives = match stores.runs() {
        true => settle(&collected, &shared, &is_output),
        false => vec![false; collected.leaves.len()],
    };
    shared.retain(|&n| is_output[n as usize]);
    collected.outputs = shared;
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
    drop(numbers);
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
            let lazy = v(&[4.0]).expand([2]) * 2.0;
            let y = &lazy + v(&[5.0, 0.0]);
            assert_eq!(given(&[&y]), [5.0]);
            // A node that would keep as much data as it has is stored, in the data's place.
            let stored = v(&[8.0, 0.0]) * 2.0;
            let y = &stored + v(&[9.0, 0.0]);
            assert_eq!(given(&[&y]), [8.0, 9.0]);
            // A node that only an operation outside of the flush uses needs its data too, or is stored in its place.
            let used_outside = |inner: Tensor| {
                let (y, outside) = (&inner + v(&[7.0, 0.0]), &inner - 1.0);
                drop(inner);
                let given = given(&[&y]);
                drop(outside);
                given
            };
            assert_eq!(used_outside(v(&[6.0]).expand([2]) * 2.0), [7.0]);
            assert_eq!(used_outside(v(&[6.0, 0.0]) * 2.0), [6.0, 7.0]);
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
            let collected = trace::Recording::start().run(|| {
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
