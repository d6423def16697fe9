//! A form's operations run one by one, without a plan.

use super::{Edge, Form, Line, told};
use crate::backend::{Operations, Read, Recorded, run_each};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Context, Device, Result, Scalar};

/// The leaves come first, then the nodes.
impl Operations for Form {
    fn count(&self) -> usize {
        self.leaves.len() + self.nodes.len()
    }

    fn values(&self) -> impl Iterator<Item = Recorded<'_>> {
        let leaves = self.leaves.len();
        let mut slots = 0..;
        let mut read = move |edge: &Edge| match *edge {
            Edge::Leaf(n) => Some(Read::Value(n as usize)),
            Edge::Node(n) => Some(Read::Value(leaves + n as usize)),
            Edge::Slot(_) => slots.next().map(Read::Slot),
        };
        let operations = self
            .operands()
            .map(move |(node, edges)| Recorded::Operation {
                op: node.kind.op(),
                operands: edges.iter().filter_map(&mut read).collect(),
                shape: &node.kind.shape,
                dtype: node.kind.dtype,
            });
        (0..leaves).map(Recorded::Input).chain(operations)
    }

    fn outputs(&self) -> impl Iterator<Item = usize> {
        let leaves = self.leaves.len();
        self.outputs.iter().map(move |&n| leaves + n as usize)
    }

    fn device(&self) -> Device {
        self.device.clone()
    }

    fn context(&self, value: usize) -> Context {
        let nodes = value - self.leaves.len();
        let (name, edges) = self
            .operands()
            .nth(nodes)
            .map_or(("input", &[][..]), |(node, edges)| {
                (node.kind.called(), edges)
            });
        let operand = |edge: &Edge| match *edge {
            Edge::Leaf(n) => {
                let leaf = &self.leaves[n as usize];
                Some((leaf.layout.shape().clone(), leaf.dtype))
            }
            Edge::Node(n) => {
                let kind = &self.nodes[n as usize].kind;
                Some((kind.shape.clone(), kind.dtype))
            }
            Edge::Slot(_) => None,
        };
        Context {
            op: name,
            operands: edges.iter().filter_map(operand).collect(),
            location: None,
        }
    }
}

impl Form {
    /// Computes the stored nodes, operation by operation, of data for the leaves. Errors are told of the operations that
    /// were recorded on these lines.
    pub fn run_each(
        &self,
        leaves: Vec<Result<Array>>,
        scalars: &[Scalar],
        lines: &[Line],
    ) -> Vec<Result<Array>> {
        let results = run_each(self, leaves, scalars).into_iter();
        let told = |error| told(error, self.leaves.len(), lines);
        results.map(|result| result.map_err(told)).collect()
    }
}
