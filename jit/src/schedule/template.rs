//! Kernels that take up a matrix product panel by panel (scheduler T-01, T-08, T-09, codegen A10.1, A10.2); those before
//! it stand in `prologue.rs`.
//!
//! A template's loops are its own: the rows and columns of the product. What follows must walk them as they are, so it
//! is tried when pointwise nodes have been fused with each other.

use super::access::difference;
use super::{FusedNode, Fusion, Mismatch, Product, Refusal, merge_loops};
use crate::bisect::may_fuse;
use crate::body::{BodyOp, Source};
use crate::expr::Var;
use crate::graph::{Graph, NodeOp};
use crate::lower::{Lowered, Lowering};
use crate::nest::flat_index;
use ferrotrace_kernels::{Op, ValueId};
use ferrotrace_runtime::{ConvolutionPart, DType};
use petgraph::stable_graph::NodeIndex;

impl Fusion<'_> {
    /// The steps that are matrix products, as they are before fusion.
    pub(super) fn products(&self, graph: &Graph, lowering: &Lowering) -> Vec<(NodeIndex, Product)> {
        self.calls_of(graph, lowering, |op, _| op.is_matmul())
    }

    /// The steps whose results kernels take up panel by panel: matrix products, and convolutions, whose planes are completed
    /// piece by piece (ir X3 to X6: convolutions have epilogues).
    fn taken_up(&self, graph: &Graph, lowering: &Lowering) -> Vec<(NodeIndex, Product)> {
        let mut found = self.calls_of(graph, lowering, |op, _| {
            op.is_matmul() || op.as_conv().is_some()
        });
        // A part of a larger result does not lie in one piece.
        found.retain(|(_, product)| {
            is_product(graph, product.node) || !lowering.pieces.contains_key(&product.node)
        });
        found
    }

    /// The steps that are convolutions of half precision whose result has channels innermost.
    pub(super) fn correlations(
        &self,
        graph: &Graph,
        lowering: &Lowering,
    ) -> Vec<(NodeIndex, Product)> {
        self.calls_of(graph, lowering, |op, dtype| {
            op.as_correlation().is_some_and(|op| {
                dtype.is_half() && op.channels_last && op.part == ConvolutionPart::Result
            })
        })
    }

    fn calls_of(
        &self,
        graph: &Graph,
        lowering: &Lowering,
        is_it: impl Fn(&Op, DType) -> bool,
    ) -> Vec<(NodeIndex, Product)> {
        let product = |call: NodeIndex| {
            let (None, Lowered::Call(product)) = (&self.graph[call], &lowering.steps[call.index()])
            else {
                return None;
            };
            let product = Product {
                step: call.index(),
                node: product.node,
                epilogue: None,
                tiles: None,
            };
            let node = graph.node(product.node);
            matches!(&node.op, NodeOp::Op(op) if is_it(op, node.dtype)).then_some((call, product))
        };
        self.graph.node_indices().filter_map(product).collect()
    }

    /// Joins every product with the first kernel that can take it up.
    pub(super) fn take_up_products(&mut self, graph: &Graph, lowering: &Lowering) {
        for (call, product) in self.taken_up(graph, lowering) {
            if is_product(graph, product.node) {
                self.feed_product(graph, lowering, product);
            }
            let mut readers: Vec<NodeIndex> = self.graph.neighbors(call).collect();
            readers.sort_unstable();
            let mut taken = false;
            for reader in readers {
                let Some(kernel) = &self.graph[reader] else {
                    continue;
                };
                let first = kernel.stores[0].node;
                let fused = match self.may_join(product, reader, kernel) {
                    _ if taken => Err(Refusal::TakenUp),
                    Err(why) => Err(why),
                    Ok(()) if self.is_between(call, reader) => Err(Refusal::NodeBetween),
                    Ok(()) => after_product(graph, kernel, product)
                        .and_then(|fused| may_fuse().then_some(fused).ok_or(Refusal::Limit)),
                };
                match fused {
                    Ok(fused) => {
                        self.join(call, reader, fused);
                        taken = true;
                    }
                    Err(why) => {
                        self.refusals.insert((product.node, first), why);
                    }
                }
            }
        }
    }
}

fn is_product(graph: &Graph, node: ValueId) -> bool {
    graph.node(node).is(Op::is_matmul)
}

/// The kernel with the rows and columns of the product as its own; those of a convolution are the planes of images and
/// channels, and positions.
fn after_product(
    graph: &Graph,
    kernel: &FusedNode,
    product: Product,
) -> Result<FusedNode, Refusal> {
    let node = graph.node(product.node);
    let convolution = node.operator().and_then(Op::as_conv);
    let inner = convolution.map_or(1, |spec| spec.stride.len());
    // A product by a vector has one column, whatever the last dimension of a batch of them is.
    let right = graph.operands(product.node).nth(1);
    let by_vector = convolution.is_none() && right.is_some_and(|v| graph.node(v).shape.rank() == 1);
    let columns: usize = match by_vector {
        true => 1,
        false => node.shape.iter().rev().take(inner).product(),
    };
    let rows = node.shape.numel() / columns.max(1);
    if !matches!(node.dtype, DType::F32 | DType::F64)
        || node.shape.rank() < 2
        || columns.min(rows) < 2
    {
        return Err(Refusal::NoPanels);
    }
    walking(kernel, product, [rows, columns])
}

/// The kernel with the loops of a product of so many rows and columns, of which it is to be.
pub(super) fn walking(
    kernel: &FusedNode,
    product: Product,
    [rows, columns]: [usize; 2],
) -> Result<FusedNode, Refusal> {
    if kernel.product.is_some() {
        return Err(Refusal::TakenUp);
    }
    if kernel.updates() {
        return Err(Refusal::Scatter);
    }
    if kernel.reduces() || kernel.scans() {
        return Err(Refusal::AcrossPanels);
    }
    let mut fused = kernel.clone();
    let extents = fused.extents();
    let mut first = extents.len();
    let mut inner = 1;
    while inner < columns && first > 0 {
        first -= 1;
        inner *= extents[first];
    }
    if inner != columns {
        return Err(Refusal::Extents(Mismatch::Elements));
    }
    (fused.iter, fused.red) = (extents[..first].to_vec(), extents[first..].to_vec());
    let mut fused = merge_loops(fused);
    let extents = fused.extents();
    if fused.red.len() != 1 || fused.rows() != rows {
        return Err(Refusal::Extents(Mismatch::Elements));
    }
    // The product is read where it lies, and everything is stored in every column.
    let place = flat_index(&extents, 0);
    let source = Source::Node(product.node);
    let elsewhere = fused.loads().find(|l| l.0 == source && *l.2 != place);
    if let Some((_, _, index)) = elsewhere {
        let how = difference((&place, &extents), (index, &extents));
        return Err(Refusal::IndexMismatch(how.unwrap_or(Mismatch::Unknown)));
    }
    let column = Var(extents.len() as u32 - 1);
    let transposed = |op: &BodyOp| match op {
        BodyOp::Load {
            index, mask: None, ..
        } => {
            let along_row = (0..column.0).any(|v| index.coefficient(Var(v)) == 1);
            along_row && index.is_affine() && index.coefficient(column) > 1
        }
        _ => false,
    };
    if fused.body.values().iter().any(|v| transposed(&v.op))
        || fused.stores.iter().any(|s| !s.index.uses(column))
    {
        return Err(Refusal::AcrossPanels);
    }
    fused.steps.push(product.step);
    fused.steps.sort_unstable();
    fused.product = Some(product);
    Ok(fused)
}
