//! Which nodes a flush stores beside the requested ones.

use super::collected::{Collected, Held};
use crate::form::Edge;
use crate::node::NodeArc;
use ferrotrace_kernels::Class;
use ferrotrace_runtime::DType;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::{Cell, RefCell};

/// Marks the nodes that are stored as well. With `all`, those that anything outside the collection reaches; else, of
/// those with a live handle, the costly ones and those that would keep as many bytes alive as they have if they stayed
/// recorded; of what pending operations alone hold, or a gradient still to be taken, what would repeat a library call with
/// a result as large as its own; of all, what earlier flushes had to compute twice ([`is_state`]).
///
/// What a node would keep alive is the data that no handle reaches and no earlier such node keeps alive already. The
/// search is linear in the collection: beyond a budget, nodes are stored.
///
/// `shared` are the operations that more than one edge holds, in ascending order: the others are out of reach, but for what a view
/// shows. Whether any of those is marked.
pub(crate) fn add(
    collected: &Collected,
    shared: &[u32],
    all: bool,
    is_output: &mut [bool],
) -> bool {
    let holds = |&number: &usize| collected.entries[number].held != Held::Nothing;
    let held: Vec<usize> = shared.iter().map(|&n| n as usize).filter(holds).collect();
    if held.is_empty() {
        return false;
    }
    let mut shown_alone = false;
    let mut search = Search {
        collected,
        seen: vec![false; if all { 0 } else { collected.entries.len() }],
        charged: vec![false; if all { 0 } else { collected.leaves.len() }],
        budget: 4 * collected.entries.len() + 64,
    };
    let mut repeated = Repeated::default();
    for number in held {
        let entry = collected.entries[number];
        if is_output[number] {
            continue;
        }
        if all {
            is_output[number] = true;
            continue;
        }
        let facts = &collected.node(entry.place).facts;
        let elements = facts.shape.numel();
        if let Some(shown) = costly_base(collected, number) {
            is_output[shown] = true;
            shown_alone |= shared.binary_search(&(shown as u32)).is_err();
            continue;
        }
        let node = collected.node(entry.place);
        if entry.held != Held::Spent
            && node.is_carried()
            && is_carried_whole(collected, number, is_output)
        {
            is_output[number] = true;
            continue;
        }
        if entry.held == Held::Operations {
            // They will need it; a handle may be one of a chain of calls.
            let kept = repeated.of(number, collected, is_output);
            let again = elements > 0 && kept >= elements;
            if again && node.was_computed() {
                remember(node);
            }
            let bytes = elements.saturating_mul(facts.dtype.size());
            is_output[number] = again
                || is_state(collected, number, is_output)
                || is_worth_storing(collected, number, is_output)
                    && search.keeps_as_much_as(number, bytes, is_output);
            continue;
        }
        if entry.held == Held::Spent {
            continue;
        }
        let again = entry.held == Held::Saved && {
            let kept = repeated.of(number, collected, is_output);
            elements > 0 && kept >= elements
        };
        let costly = again
            || facts.op.as_ref().is_some_and(|op| op.class().is_costly())
            || is_state(collected, number, is_output);
        let bytes = elements.saturating_mul(facts.dtype.size());
        is_output[number] = costly || search.keeps_as_much_as(number, bytes, is_output);
    }
    shown_alone
}

/// Whether a value that a loop carries is no view, or shows what is stored nowhere.
fn is_carried_whole(collected: &Collected, number: usize, is_output: &[bool]) -> bool {
    if !collected.entry_node(number as u32).facts.op().is_view() {
        return true;
    }
    collected
        .entry_edges(number)
        .iter()
        .all(|edge| match *edge {
            Edge::Node(n) => !is_output[n as usize],
            Edge::Leaf(_) => false,
            Edge::Slot(_) => true,
        })
}

/// What a view that a handle reaches shows, if that is costly to compute and little larger: a later flush would compute it again.
fn costly_base(collected: &Collected, number: usize) -> Option<usize> {
    let facts = |n: usize| &collected.entry_node(n as u32).facts;
    let is_view = |n: usize| facts(n).op.as_ref().is_some_and(|op| op.is_view());
    if collected.entries[number].held != Held::Handles || !is_view(number) {
        return None;
    }
    let mut base = number;
    while is_view(base) {
        let mut edges = collected.entry_edges(base).iter();
        base = edges.find_map(|edge| match *edge {
            Edge::Node(n) => Some(n as usize),
            _ => None,
        })?;
    }
    let costly = facts(base)
        .op
        .as_ref()
        .is_some_and(|op| op.class().is_costly());
    let little = facts(base).shape.numel() / 2 <= facts(number).shape.numel();
    (costly && little).then_some(base)
}

/// A place of the program, and what it recorded: a line may record several operations.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Place {
    /// The address of its source location, which identifies the line.
    location: usize,
    kind: u64,
}

/// A place with what it records of any size.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sizeless {
    location: usize,
    operator: &'static str,
    rank: usize,
    dtype: DType,
}

/// Places whose values were computed a second time, since the flush that computed them first did not store them.
#[derive(Default)]
struct Remembered {
    places: FxHashSet<Place>,
    /// At how many sizes: what a loop carries may have another one at each step.
    sizes: FxHashMap<Sizeless, u32>,
}

impl Remembered {
    fn insert(&mut self, node: &NodeArc) -> bool {
        if self.places.len() >= MOST_REPEATED {
            *self = Remembered::default();
        }
        let fresh = self.places.insert(Place::of(node));
        if fresh {
            *self.sizes.entry(Sizeless::of(node)).or_default() += 1;
        }
        fresh
    }

    fn contains(&self, node: &NodeArc) -> bool {
        let many = |sizes: &u32| *sizes >= MOST_SIZES;
        self.places.contains(&Place::of(node))
            || self.sizes.get(&Sizeless::of(node)).is_some_and(many)
    }
}

fn location(node: &NodeArc) -> usize {
    std::ptr::from_ref(node.facts.location) as usize
}

impl Place {
    fn of(node: &NodeArc) -> Place {
        Place {
            location: location(node),
            kind: node.facts.kind.hash,
        }
    }
}

impl Sizeless {
    fn of(node: &NodeArc) -> Sizeless {
        Sizeless {
            location: location(node),
            operator: node.facts.op().name(),
            rank: node.facts.shape.rank(),
            dtype: node.facts.dtype,
        }
    }
}

thread_local! {
    /// What a thread computed a second time.
    static REPEATED: RefCell<Remembered> = RefCell::default();

    /// Searches of [`remember_costly`] since the last that found a place.
    static QUIET: Cell<u32> = const { Cell::new(0) };
}

/// Searches without a new place after which one in as many is made: each passes over the whole collection.
const SEARCHES: u32 = 16;

/// Places remembered at most; the next one forgets all.
const MOST_REPEATED: usize = 4096;

/// Sizes of one place that count apart: after so many, every size of it is known.
const MOST_SIZES: u32 = 6;

/// Operations for each element, on the longest path of those that a flush repeats, from which the element is stored instead.
const COSTLY: usize = 32;

/// Operations that take longer than a result of a kernel, which its memory and its place in the plan cost.
const LEAST_WORK: usize = 1 << 14;

/// Remembers the place of a node; whether it was not known.
fn remember(node: &NodeArc) -> bool {
    let fresh = REPEATED.try_with(|repeated| repeated.borrow_mut().insert(node));
    fresh.unwrap_or(false)
}

/// Marks what an earlier flush computed and something outside of the collection needs: what a loop reads of its state at
/// each step is computed from the step before, however long it runs. The places that recorded it are noted, and what they
/// recorded last is stored instead where something holds it: the next step then begins from there.
pub(crate) fn add_computed(collected: &Collected, is_output: &mut [bool]) {
    // What a loop carries is stored for its own sake: where much is computed again, what it is computed from is looked for too.
    let entries = 0..is_output.len();
    let node = |n: usize| collected.entry_node(n as u32);
    let again = entries.clone().filter(|&n| node(n).was_computed()).count();
    let much = 4 * again > is_output.len();
    let mut found: Vec<bool> = entries
        .map(|n| is_output[n] && !(much && node(n).is_carried()))
        .collect();
    mark_computed(collected, &mut found);
    for number in (0..found.len()).filter(|&n| found[n] && !is_output[n]) {
        remember(collected.entry_node(number as u32));
    }
    remember_costly(collected, is_output);
    for number in 0..is_output.len() {
        is_output[number] = is_output[number] || is_state(collected, number, is_output);
    }
    mark_computed(collected, is_output);
}

/// Remembers what an earlier flush computed, what this one computes anew reads, and what takes much to compute again: the next
/// flush that computes values of these places stores them.
fn remember_costly(collected: &Collected, is_output: &[bool]) {
    let quiet = QUIET.get();
    QUIET.set(quiet.wrapping_add(1));
    if quiet >= SEARCHES && !quiet.is_multiple_of(SEARCHES) {
        return;
    }
    let node = |n: usize| collected.entry_node(n as u32);
    // The second step of a loop that says what it carries computes what all later steps do.
    if (0..is_output.len()).any(|n| node(n).is_carried()) {
        return;
    }
    let mut work: Vec<usize> = Vec::with_capacity(is_output.len());
    for number in 0..is_output.len() {
        let edges = collected.entry_edges(number).iter();
        let operands = edges.filter_map(|edge| match *edge {
            Edge::Node(n) => Some(n as usize),
            _ => None,
        });
        if !node(number).was_computed() {
            for n in operands {
                let elements = node(n).facts.shape.numel();
                let costly = work[n] >= LEAST_WORK.max(COSTLY * elements);
                let worth = costly && !is_output[n] && is_worth_keeping(collected, n, is_output);
                if worth && remember(node(n)) {
                    QUIET.set(0);
                }
            }
            work.push(0);
            continue;
        }
        let (mut size, mut before) = (node(number).facts.shape.numel(), 0);
        for n in operands {
            size = size.max(node(n).facts.shape.numel());
            before = before.max(if is_output[n] { 0 } else { work[n] });
        }
        let each = match node(number).facts.op().class() {
            Class::View => 0,
            Class::Random => COSTLY,
            _ => 1,
        };
        work.push(before.saturating_add(size.saturating_mul(each)));
    }
}

/// Whether a tensor or a pending operation holds a value, and earlier values of its place had to be computed twice.
fn is_state(collected: &Collected, number: usize, is_output: &[bool]) -> bool {
    let entry = collected.entries[number];
    if matches!(entry.held, Held::Nothing | Held::Spent) {
        return false;
    }
    let node = collected.node(entry.place);
    // A thread that ends remembers nothing.
    let known = REPEATED.try_with(|repeated| repeated.borrow().contains(node));
    known.unwrap_or(false) && is_worth_keeping(collected, number, is_output)
}

/// Whether storing a value saves more than it costs, or it is random numbers, which take long to draw.
fn is_worth_keeping(collected: &Collected, number: usize, is_output: &[bool]) -> bool {
    let class = collected.entry_node(number as u32).facts.op().class();
    class == Class::Random || is_worth_storing(collected, number, is_output)
}

/// Marks the values that an earlier flush computed and that something outside of the collection needs. Of several in a row
/// the last is stored.
fn mark_computed(collected: &Collected, is_output: &mut [bool]) {
    let mut needed = vec![false; collected.entries.len()];
    for number in (0..collected.entries.len()).rev() {
        let entry = collected.entries[number];
        if is_output[number] || !needed[number] && entry.held == Held::Nothing {
            continue;
        }
        if collected.node(entry.place).was_computed()
            && is_worth_storing(collected, number, is_output)
        {
            is_output[number] = true;
            continue;
        }
        for edge in collected.entry_edges(number) {
            if let Edge::Node(n) = *edge {
                needed[n as usize] = true;
            }
        }
    }
}

/// Whether storing a value saves more than it costs: not of what reads no tensor, nor of a view, if what it shows is stored
/// or is not larger.
fn is_worth_storing(collected: &Collected, number: usize, is_output: &[bool]) -> bool {
    let facts = &collected.entry_node(number as u32).facts;
    let shown = collected
        .entry_edges(number)
        .iter()
        .find(|edge| !matches!(edge, Edge::Slot(_)));
    match shown {
        None => false,
        Some(_) if !facts.op().is_view() => true,
        Some(Edge::Node(n)) => {
            let of = collected.entries[*n as usize];
            let whole = collected.node(of.place).facts.shape.numel();
            let held = matches!(of.held, Held::Handles | Held::Saved);
            !is_output[*n as usize] && !held && whole > facts.shape.numel()
        }
        Some(_) => false,
    }
}

/// For each operation looked at, the elements of the largest library call that computing it again repeats.
#[derive(Default)]
struct Repeated(Vec<usize>);

impl Repeated {
    /// The elements for an operation. Which operations before it are stored must be settled.
    fn of(&mut self, number: usize, collected: &Collected, is_output: &[bool]) -> usize {
        for next in self.0.len()..=number {
            let facts = &collected.entry_node(next as u32).facts;
            let own = match facts.op().class() {
                Class::Library => facts.shape.numel(),
                _ => 0,
            };
            let elements = |edge: &Edge| match *edge {
                Edge::Node(n) if !is_output[n as usize] => self.0[n as usize],
                _ => 0,
            };
            let operands = collected.entry_edges(next).iter().map(elements);
            let most = operands.fold(own, usize::max);
            self.0.push(most);
        }
        self.0[number]
    }
}

struct Search<'a> {
    collected: &'a Collected,
    /// Operations that a node which stays recorded needs.
    seen: Vec<bool>,
    /// Leaves that such a node keeps alive.
    charged: Vec<bool>,
    budget: usize,
}

impl Search<'_> {
    /// Whether the node would keep `bytes` or more alive, so that storing it costs no memory; if not, what it keeps is marked.
    fn keeps_as_much_as(&mut self, number: usize, bytes: usize, is_output: &[bool]) -> bool {
        let mut stack = vec![number];
        let (mut nodes, mut leaves) = (vec![number], Vec::new());
        let mut kept = 0usize;
        self.seen[number] = true;
        while let Some(next) = stack.pop() {
            for edge in self.collected.entry_edges(next) {
                match *edge {
                    Edge::Node(n) => {
                        let n = n as usize;
                        if !self.seen[n] && !is_output[n] {
                            self.seen[n] = true;
                            nodes.push(n);
                            stack.push(n);
                        }
                    }
                    Edge::Leaf(n) if !self.charged[n as usize] => {
                        self.charged[n as usize] = true;
                        leaves.push(n as usize);
                        kept = kept.saturating_add(self.unreachable_bytes(n as usize));
                    }
                    _ => {}
                }
            }
            self.budget = self.budget.saturating_sub(1);
            if kept > 0 && kept >= bytes || self.budget == 0 {
                nodes.iter().for_each(|&n| self.seen[n] = false);
                leaves.iter().for_each(|&n| self.charged[n] = false);
                return true;
            }
        }
        false
    }

    /// Bytes of a leaf that no handle reaches.
    fn unreachable_bytes(&self, leaf: usize) -> usize {
        let node = self.collected.node(self.collected.leaves[leaf].place);
        if node.handles() > 0 {
            0
        } else {
            node.buffer_bytes()
        }
    }
}
