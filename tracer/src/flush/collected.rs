//! Pending operations in topological order, and what holds them.

use crate::form::{Edge, Form, FormLeaf, FormNode, Kind, Line, Lines};
use crate::node::{Inputs, NodeArc, NodeInput, State};
use ferrotrace_kernels::{Array, Op};
use ferrotrace_runtime::{Device, Scalar};
use std::ops::Range;

/// A collected operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Where its node stands in [`Collected::operands`].
    pub place: u32,
    /// Where its operands start there; as many as it has edges.
    pub first: u32,
    /// Where its kind lies, so that comparing it with a form's need not look at the node.
    pub kind: usize,
    /// Its operands in [`Collected::edges`].
    pub edges: (u32, u32),
    /// How many collected operations use it.
    pub uses: u32,
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
    /// Histories alone, for a gradient that is still to be taken.
    Saved,
    /// Histories alone, whose gradients have been taken: they may be asked for again, which is seldom.
    Spent,
}

/// A collected leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafEntry {
    /// Where its node stands in [`Collected::operands`].
    pub place: u32,
    /// How many collected operations use it.
    pub uses: u32,
    /// How many use other nodes whose data is a view like its own.
    pub alike: u32,
}

/// Pending operations in topological order.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// The requested nodes, then the operands of each operation met, one operation after another.
    pub operands: Vec<NodeInput>,
    pub entries: Vec<Entry>,
    pub edges: Vec<Edge>,
    pub leaves: Vec<LeafEntry>,
    /// Numbers, in the order of their slots.
    pub scalars: Vec<NodeInput>,
    /// Numbers of the stored nodes.
    pub outputs: Vec<u32>,
    pub hash: u64,
}

impl Collected {
    /// The node at a place.
    #[inline]
    pub fn node(&self, place: u32) -> &NodeArc {
        match &self.operands[place as usize] {
            NodeInput::Tensor(node) => node,
            _ => unreachable!("operations and leaves are entered at places that hold nodes"),
        }
    }

    /// The node of a collected operation.
    #[inline]
    pub fn entry_node(&self, number: u32) -> &NodeArc {
        self.node(self.entries[number as usize].place)
    }

    /// Where the operands of a collected operation stand in [`operands`](Self::operands).
    pub fn entry_operands(&self, number: usize) -> Range<usize> {
        let Entry { first, edges, .. } = self.entries[number];
        first as usize..(first + edges.1 - edges.0) as usize
    }

    /// What the operands of a collected operation are.
    #[inline]
    pub fn entry_edges(&self, number: usize) -> &[Edge] {
        let (start, end) = self.entries[number].edges;
        &self.edges[start as usize..end as usize]
    }

    /// Gives a node back the operands that were taken from it.
    pub fn give_back(&self, place: u32, operands: Range<usize>) {
        let inputs = Inputs::from(&self.operands[operands]);
        self.node(place).set_state(State::Recorded(inputs));
    }

    /// The numbers' values.
    pub fn scalar_values(&self) -> Vec<Scalar> {
        self.scalars.iter().filter_map(NodeInput::scalar).collect()
    }

    /// How each operation was recorded.
    pub fn lines(&self) -> Lines {
        let line = |entry: &Entry| {
            let facts = &self.node(entry.place).facts;
            Line {
                called: facts.kind.called(),
                location: facts.location,
            }
        };
        self.entries.iter().map(line).collect()
    }

    /// Whether it writes a slice.
    pub fn assigns(&self) -> bool {
        let assigns = |entry: &Entry| {
            let op = &self.node(entry.place).facts.op;
            op.as_ref().is_some_and(|op| op.as_slice_assign().is_some())
        };
        self.entries.iter().any(assigns)
    }

    /// Whether it does nothing but write slices of data into data, on the CPU: ready-made kernels do that in the memory of
    /// what dies, whatever the positions are.
    pub fn only_assigns(&self) -> bool {
        let assigns = |entry: &Entry| {
            let facts = &self.node(entry.place).facts;
            let op = facts.op.as_ref().and_then(Op::as_slice_assign);
            op.is_some() && facts.device.is_cpu()
        };
        !self.entries.is_empty() && self.entries.iter().all(assigns)
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

    /// The canonical form of the collection, for leaves with this data.
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
