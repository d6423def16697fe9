//! The canonical form of a trace: what two flushes must share to share a plan.

mod hash;
mod kind;
mod line;
mod one_by_one;

pub(crate) use hash::{Mix, operand_kinds};
pub(crate) use kind::Kind;
pub(crate) use line::{Line, Lines, told};

use crate::backend::Graph;
use crate::place;
use ferrotrace_kernels::{Array, OpBuilder, Operand, ValueId};
use ferrotrace_runtime::{Category, DType, Device, Layout, Result, Scalar};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// An operand in a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Edge {
    /// An earlier node.
    Node(u32),
    /// Stored data.
    Leaf(u32),
    /// The next number of the trace, of this category.
    Slot(Category),
}

impl Edge {
    /// An injective code, for hashing.
    #[inline]
    pub fn code(self) -> u64 {
        match self {
            Edge::Node(n) => (n as u64) << 2,
            Edge::Leaf(n) => (n as u64) << 2 | 1,
            Edge::Slot(category) => (category as u64) << 2 | 2,
        }
    }
}

/// A node of a form.
#[derive(Clone, Debug)]
pub(crate) struct FormNode {
    pub kind: Arc<Kind>,
    /// Where its operands end in [`Form::edges`]; they begin where the node before ends.
    pub edges_end: u32,
}

impl PartialEq for FormNode {
    #[inline]
    fn eq(&self, other: &FormNode) -> bool {
        self.edges_end == other.edges_end && Kind::same(&self.kind, &other.kind)
    }
}

/// Stored data that a trace reads: neither where in its buffer the window begins, nor which buffer it is, is part of
/// the form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FormLeaf {
    /// The window; the offset is zero.
    pub layout: Layout,
    pub dtype: DType,
    pub device: Device,
}

impl FormLeaf {
    /// The leaf that stands for an array.
    pub fn of(array: &Array) -> FormLeaf {
        let strides = SmallVec::from_slice(array.layout.strides());
        FormLeaf {
            layout: Layout::new(array.shape().clone(), strides, 0),
            dtype: array.dtype,
            device: array.buffer.device().clone(),
        }
    }

    /// Whether it stands for this array's layout, dtype and device.
    pub fn is_of(&self, array: &Array) -> bool {
        self.dtype == array.dtype
            && self.layout.shape() == array.shape()
            && self.layout.strides() == array.layout.strides()
            && self.device == *array.buffer.device()
    }
}

/// The hash of a form, taken in piece by piece.
#[derive(Debug, Default)]
pub(crate) struct FormHash(Mix);

impl FormHash {
    /// Adds the next node.
    #[inline]
    pub fn node(&mut self, hash: u64, edges: &[Edge]) {
        // Each node is folded by itself first, so that its multiplications do not wait for another node's.
        let take = |word: u64, edge: &Edge| {
            (word.rotate_left(25) ^ edge.code()).wrapping_mul(0xd6e8_feb8_6659_fd93)
        };
        self.0.word(edges.iter().fold(hash, take));
    }

    /// Adds the next leaf.
    pub fn leaf(&mut self, layout: &Layout, dtype: DType) {
        self.0
            .word((layout.shape().rank() as u64) << 8 | dtype as u64);
        for (&size, &stride) in layout.shape().iter().zip(layout.strides()) {
            self.0.word(size as u64);
            self.0.word(stride as u64);
        }
    }

    /// Adds the stored nodes, and gives the hash.
    pub fn finish(mut self, outputs: &[u32]) -> u64 {
        for &output in outputs {
            self.0.word(output as u64);
        }
        self.0.finish()
    }
}

/// The canonical form of a trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Form {
    /// The operations in topological order.
    pub nodes: Vec<FormNode>,
    /// The operands of all nodes, one node after the other.
    pub edges: Vec<Edge>,
    pub leaves: Vec<FormLeaf>,
    /// The nodes whose values are stored.
    pub outputs: Vec<u32>,
    /// The device that it runs on: in a trace without leaves no input tells.
    pub device: Device,
}

impl Form {
    /// A leaf with the value of a node, without gaps.
    pub fn dense_leaf(&self, node: usize) -> FormLeaf {
        let kind = &self.nodes[node].kind;
        FormLeaf {
            layout: Layout::contiguous(kind.shape.clone()),
            dtype: kind.dtype,
            device: self.device.clone(),
        }
    }

    /// Bytes that a node's value takes.
    pub fn bytes(&self, node: usize) -> usize {
        let kind = &self.nodes[node].kind;
        kind.shape.numel().saturating_mul(kind.dtype.size())
    }

    /// The hash that [`FormHash`] gives for the whole form.
    pub fn hash(&self) -> u64 {
        let mut hash = FormHash::default();
        for (node, edges) in self.operands() {
            hash.node(node.kind.hash, edges);
        }
        for leaf in &self.leaves {
            hash.leaf(&leaf.layout, leaf.dtype);
        }
        hash.finish(&self.outputs)
    }

    /// The operands of each node, in order.
    pub fn operands(&self) -> impl Iterator<Item = (&FormNode, &[Edge])> {
        let mut start = 0;
        self.nodes.iter().map(move |node| {
            let end = node.edges_end as usize;
            let edges = &self.edges[start..end];
            start = end;
            (node, edges)
        })
    }

    /// The graph of this form; `scalars` are examples of the trace's numbers, `lines` say how each node was recorded.
    ///
    /// # Errors
    /// An operator's rules refuse what they took when it was recorded: a defect.
    pub fn graph(&self, scalars: &[Scalar], lines: &[Line]) -> Result<Graph> {
        let mut graph = Graph::new();
        graph.set_device(&self.device);
        let mut leaves: Vec<ValueId> = Vec::with_capacity(self.leaves.len());
        for leaf in &self.leaves {
            leaves.push(graph.input(&leaf.layout, leaf.dtype, &leaf.device));
        }
        let mut values: Vec<ValueId> = Vec::with_capacity(self.nodes.len());
        let mut slot = 0;
        let mut operands: SmallVec<[Operand; 4]> = SmallVec::new();
        for (i, (node, edges)) in self.operands().enumerate() {
            operands.clear();
            for edge in edges {
                operands.push(match *edge {
                    Edge::Node(n) => Operand::Value(values[n as usize]),
                    Edge::Leaf(n) => Operand::Value(leaves[n as usize]),
                    Edge::Slot(_) => {
                        slot += 1;
                        Operand::Slot(slot - 1, scalars[slot as usize - 1])
                    }
                });
            }
            let (op, line) = (node.kind.op(), lines.get(i));
            let place = line.and_then(|line| place::name(line.location));
            let location = line.filter(|_| place.is_none()).map(|line| line.location);
            graph.set_origin(location, node.kind.precision);
            let called = place.or(line.map(|line| line.called));
            graph.set_name(called.filter(|&called| called != op.name()));
            values.push(graph.push(op.clone(), &operands)?);
        }
        graph.set_outputs(self.outputs.iter().map(|&n| values[n as usize]).collect());
        Ok(graph)
    }
}
