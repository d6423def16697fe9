//! Pending operations in topological order, and what holds them.

use crate::kind::Kind;
use crate::node::{Inputs, Node, NodeInput, State};
use crate::signature::{Edge, Form, FormLeaf, FormNode};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Device, Scalar};
use std::panic::Location;
use std::sync::Arc;

/// A place in [`Collected::groups`]: a group and an operand of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub group: u32,
    pub slot: u32,
}

/// A collected operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Where its node stands.
    pub place: Place,
    /// Its operands in [`Collected::groups`].
    pub group: u32,
    /// Where its kind lies, so that comparing it with a form's need not look at the node.
    pub kind: usize,
    /// Its operands in [`Collected::edges`].
    pub edges: (u32, u32),
    /// How many collected operations use it.
    pub uses: u32,
    /// Whether one edge is all that holds its node.
    pub alone: bool,
    /// What holds its node outside of the collection, as it was once all operands were taken; nothing for a requested
    /// one.
    pub held: Held,
}

/// What holds a node outside of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Held {
    /// Nothing: it dies with the collection.
    #[default]
    Nothing,
    /// Operations that were not collected.
    Operations,
    /// Tensors, and perhaps operations.
    Handles,
}

/// A collected leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafEntry {
    /// Where its node stands.
    pub place: Place,
    /// How many collected operations use it.
    pub uses: u32,
}

/// Pending operations in topological order.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// The requested nodes, then the operands of each operation met.
    pub groups: Vec<Inputs>,
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

impl Collected {
    /// The node at a place.
    #[inline]
    pub fn node(&self, place: Place) -> &Arc<Node> {
        match &self.groups[place.group as usize][place.slot as usize] {
            NodeInput::Tensor(node) => node,
            _ => unreachable!("operations and leaves are entered at places that hold nodes"),
        }
    }

    /// The node of a collected operation.
    #[inline]
    pub fn entry_node(&self, number: u32) -> &Arc<Node> {
        self.node(self.entries[number as usize].place)
    }

    /// The operands of a collected operation.
    #[inline]
    pub fn entry_edges(&self, number: usize) -> &[Edge] {
        let (start, end) = self.entries[number].edges;
        &self.edges[start as usize..end as usize]
    }

    /// Gives a node back the operands that were taken from it.
    pub fn give_back(&self, place: Place, group: u32) {
        let inputs = self.groups[group as usize].clone();
        self.node(place).set_state(State::Recorded(inputs));
    }

    /// The numbers' values.
    pub fn scalar_values(&self) -> Vec<Scalar> {
        self.scalars.iter().filter_map(NodeInput::scalar).collect()
    }

    /// The user's line of each operation.
    pub fn locations(&self) -> Vec<&'static Location<'static>> {
        self.entries
            .iter()
            .map(|entry| self.node(entry.place).facts.location)
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
                entry.edges.1 == node.edges_end
                    && (entry.kind == Kind::address(&node.kind)
                        || Kind::same(&self.node(entry.place).facts.kind, &node.kind))
            })
    }

    /// Its form, for leaves with this data.
    pub fn form<'a>(&self, leaves: impl Iterator<Item = &'a Array>) -> Form {
        let node = |entry: &Entry| FormNode {
            kind: self.node(entry.place).facts.kind.clone(),
            edges_end: entry.edges.1,
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
        first.map_or(Device::cpu(), |e| self.node(e.place).facts.device.clone())
    }
}
