//! Summaries: pending results much smaller than what they are computed from, such as the norm of a state, that a handle holds.
//!
//! No edge leads from a node to those that read it. A flush that the program did not ask for finds here what it should
//! compute, where it would otherwise store all that a summary reads. A node is listed only while a handle holds it: the
//! list keeps nothing alive by itself.

use super::domain::Domain;
use super::{Node, NodeArc, Status};
use ferrotrace_runtime::{Apart, STRIPES};
use parking_lot::Mutex;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::HashMap;

/// A summary has at most this part of an operand's elements.
const PART: usize = 4;

/// From this level on, and for operands of so many elements, summaries are listed: there is little to gain below.
const FROM_LEVEL: u32 = 4;
const FROM_ELEMENTS: usize = 1 << 14;

/// Entries from which a list is searched for what is pending no more.
const FIRST_SWEEP: usize = 64;

/// The summaries of a domain, by address, each with its place in the order of recording.
struct List {
    next: u64,
    sweep: usize,
    nodes: FxHashMap<usize, (u64, NodeArc)>,
}

static LISTS: [Apart<Mutex<List>>; STRIPES + 1] = [const {
    Apart(Mutex::new(List {
        next: 0,
        sweep: FIRST_SWEEP,
        nodes: HashMap::with_hasher(FxBuildHasher),
    }))
}; STRIPES + 1];

fn address(node: &NodeArc) -> usize {
    NodeArc::as_ptr(node).addr()
}

/// Whether a node recorded at a level from these operands is a summary to be listed.
#[inline]
pub(crate) fn is_summary<'a>(
    elements: usize,
    level: u32,
    mut operands: impl Iterator<Item = &'a Node>,
) -> bool {
    operands.any(|operand| {
        let whole = operand.facts.shape.numel();
        match operand.is_listed() {
            true => elements <= whole,
            false => {
                (level >= FROM_LEVEL || whole >= FROM_ELEMENTS) && whole / PART >= elements.max(1)
            }
        }
    })
}

/// Lists a node that was just recorded and that no other thread knows yet.
#[cold]
pub(crate) fn list(node: &NodeArc) {
    let mut gone = Vec::new();
    let mut list = LISTS[node.domain().index()].lock();
    if list.nodes.len() >= list.sweep {
        gone = list.swept();
        list.sweep = (2 * list.nodes.len()).max(FIRST_SWEEP);
    }
    list.next += 1;
    let place = list.next;
    list.nodes.insert(address(node), (place, node.clone()));
    node.set_listed(true);
    drop(list);
    drop(gone);
}

impl List {
    /// Takes out what is pending no more.
    fn swept(&mut self) -> Vec<NodeArc> {
        let over = |entry: &mut (u64, NodeArc)| entry.1.status() != Status::Pending;
        let gone = self.nodes.extract_if(|_, entry| over(entry));
        let gone: Vec<NodeArc> = gone.map(|(_, (_, node))| node).collect();
        gone.iter().for_each(|node| node.set_listed(false));
        gone
    }
}

/// Takes a node whose last handle goes out of its list.
#[cold]
pub(super) fn unlist(node: &NodeArc) {
    let mut list = LISTS[node.domain().index()].lock();
    let gone = list.nodes.remove(&address(node));
    // Before the list's reference goes: what counts references must not miss one that is not the list's.
    node.set_listed(false);
    drop(list);
    drop(gone);
}

/// The references to a listed node, without the list's.
#[cold]
pub(crate) fn references(node: &NodeArc) -> usize {
    let list = LISTS[node.domain().index()].lock();
    let own = list.nodes.contains_key(&address(node));
    NodeArc::strong_count(node) - usize::from(own)
}

/// Takes the pending summaries of a domain that `wanted` tells from the list, in the order of recording.
pub(crate) fn take(domain: Domain, wanted: impl Fn(&NodeArc) -> bool) -> Vec<NodeArc> {
    let mut list = LISTS[domain.index()].lock();
    let gone = list.swept();
    let is_wanted = |node: &NodeArc| node.is_kept_alone().is_none() && wanted(node);
    let taken = list.nodes.extract_if(|_, entry| is_wanted(&entry.1));
    let mut taken: Vec<(u64, NodeArc)> = taken.map(|(_, entry)| entry).collect();
    taken.iter().for_each(|(_, node)| node.set_listed(false));
    drop(list);
    drop(gone);
    taken.sort_unstable_by_key(|(place, _)| *place);
    taken.into_iter().map(|(_, node)| node).collect()
}

/// The pending summaries of a domain.
pub(crate) fn listed(domain: Domain) -> Vec<NodeArc> {
    let list = LISTS[domain.index()].lock();
    let pending = |entry: &&(u64, NodeArc)| entry.1.status() == Status::Pending;
    list.nodes
        .values()
        .filter(pending)
        .map(|entry| entry.1.clone())
        .collect()
}
