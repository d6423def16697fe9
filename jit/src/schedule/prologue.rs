//! Kernels that compute an operand of a matrix product panel by panel, as the product reads it, instead of storing it
//! (scheduler T-02 to T-04, T-08).
//!
//! A panel of columns of the product needs the same columns of the right operand, one of rows the same rows of the left.
//! It pays where each is computed once and the operand's traffic weighs: where the product's other side is short.

use super::{FusedNode, Fusion, Product, Refusal, access, merge_loops};
use crate::bisect::may_fuse;
use crate::body::{BodyOp, Source};
use crate::expr::Var;
use crate::graph::Graph;
use crate::lower::{CallArg, Lowered, Lowering};
use crate::nest::flat_index;
use ferrotrace_kernels::ops::matmul::is_by_tiles;
use ferrotrace_kernels::{ArgMeta, ValueId};
use ferrotrace_runtime::{DType, Layout};
use petgraph::Direction::Incoming;
use petgraph::stable_graph::NodeIndex;

/// A kernel before a product.
#[derive(Clone, Debug)]
pub struct Prologue {
    /// The kernel: rows and one column variable, those of the operand's matrix as it would lie in memory.
    pub kernel: FusedNode,
    /// The operand: 0 the left one, 1 the right one.
    pub operand: usize,
    /// Whether the kernel's rows are what panels of the product cut: rows of the left operand, columns of the right.
    pub by_rows: bool,
}

impl Prologue {
    /// The node that it computes.
    pub fn node(&self) -> ValueId {
        self.kernel.stores[0].node
    }
}

impl Fusion<'_> {
    /// Makes the producer of an operand part of a product, where it can be.
    pub(super) fn feed_product(&mut self, graph: &Graph, lowering: &Lowering, product: Product) {
        let call = self.owner[product.step];
        let mut producers: Vec<NodeIndex> = self.graph.neighbors_directed(call, Incoming).collect();
        producers.sort_unstable();
        let mut fed = false;
        for producer in producers {
            let Some(kernel) = &self.graph[producer] else {
                continue;
            };
            let first = kernel.stores[0].node;
            let found = match self.may_join(product, producer, kernel) {
                _ if fed => Err(Refusal::TakenUp),
                Err(why) => Err(why),
                Ok(()) => self.before_product(graph, lowering, kernel, product),
            };
            match found.and_then(|p| may_fuse().then_some(p).ok_or(Refusal::Limit)) {
                Ok(prologue) => {
                    self.join_call(producer, call);
                    self.prologues.insert(product.step, vec![prologue]);
                    fed = true;
                }
                Err(why) => {
                    self.refusals.insert((first, product.node), why);
                }
            }
        }
    }

    /// The kernel with the rows and columns of the operand's matrix as its own.
    fn before_product(
        &self,
        graph: &Graph,
        lowering: &Lowering,
        kernel: &FusedNode,
        product: Product,
    ) -> Result<Prologue, Refusal> {
        let operand = self.operand(lowering, kernel, product)?;
        let (store, node) = (&kernel.stores[0], graph.node(kernel.stores[0].node));
        let Lowered::Call(call) = &lowering.steps[product.step] else {
            return Err(Refusal::Opaque);
        };
        let [CallArg::Window(_, a), CallArg::Window(_, b)] = &call.args[..] else {
            return Err(Refusal::Opaque);
        };
        let of_product = graph.node(product.node);
        if !matches!(of_product.dtype, DType::F32 | DType::F64) || node.dtype != of_product.dtype {
            return Err(Refusal::NoPanels);
        }
        // Sizes of the product: the batch is part of the rows.
        let of = if operand == 0 { a } else { b };
        if a.shape().rank() < 2 || b.shape().rank() != 2 || of.shape().rank() != 2 {
            return Err(Refusal::NoPanels);
        }
        let n = b.shape()[1];
        let m = of_product.shape.numel() / n.max(1);
        let (cut, short) = if operand == 0 { (m, n) } else { (n, m) };
        // The matrix as it lies in memory: as the product reads it, or with rows and columns exchanged.
        let rows_first = is_dense(of);
        let by_rows = rows_first == (operand == 0);
        let dims = of.shape();
        let (rows, columns) = if rows_first {
            (dims[0], dims[1])
        } else {
            (dims[1], dims[0])
        };
        if !rows_first && !is_dense(&of.permute(&[1, 0])) || (operand == 0 && !by_rows) {
            return Err(Refusal::AcrossPanels);
        }
        if short < 2
            || short > self.policy.thresholds.prologue_short
            || cut < self.policy.thresholds.prologue_long
        {
            return Err(Refusal::NotWorthwhile);
        }
        let metas = [a, b].map(|layout| ArgMeta::Tensor(layout.shape(), of_product.dtype));
        if self.policy.target.tiles && is_by_tiles(&metas).unwrap_or(false) {
            return Err(Refusal::Tiles);
        }
        let (read, written) = self.moves(kernel, store.node);
        // T-04
        if read * 100 > written * self.policy.thresholds.prologue_reads {
            return Err(Refusal::ReadsMore);
        }
        let kernel = matrix_of(kernel, rows, columns, None)?;
        Ok(Prologue {
            kernel,
            operand,
            by_rows,
        })
    }

    /// Which operand of a product alone a pointwise kernel stores (scheduler T-03).
    pub(super) fn operand(
        &self,
        lowering: &Lowering,
        kernel: &FusedNode,
        product: Product,
    ) -> Result<usize, Refusal> {
        let [store] = &kernel.stores[..] else {
            return Err(Refusal::SeveralUses);
        };
        // It follows another product panel by panel.
        if kernel.product.is_some() {
            return Err(Refusal::TakenUp);
        }
        let Lowered::Call(call) = &lowering.steps[product.step] else {
            return Err(Refusal::Opaque);
        };
        let windows = &call.args[..];
        let is_operand =
            |arg: &&CallArg| matches!(arg, CallArg::Window(Source::Node(v), _) if *v == store.node);
        let alone = self.temporaries.get(&store.node);
        if alone.is_none_or(|of| of.read != [product.step])
            || windows.iter().filter(is_operand).count() != 1
        {
            return Err(Refusal::SeveralUses);
        }
        let [CallArg::Window(left, _), CallArg::Window(..)] = windows else {
            return Err(Refusal::Opaque);
        };
        if kernel.updates() {
            return Err(Refusal::Scatter);
        }
        let placed = |node: ValueId| lowering.pieces.contains_key(&node);
        if kernel.reduces() || kernel.scans() || placed(store.node) || placed(product.node) {
            return Err(Refusal::AcrossPanels);
        }
        Ok(usize::from(*left != Source::Node(store.node)))
    }

    /// Bytes that a kernel reads, and those that it stores for a node.
    pub(super) fn moves(&self, kernel: &FusedNode, node: ValueId) -> (u64, u64) {
        let all = access::accesses(kernel, &self.sizes);
        let (own, read): (Vec<_>, Vec<_>) =
            all.iter().partition(|a| a.source == Source::Node(node));
        let sum = |of: Vec<&access::Access>| of.iter().map(|a| a.bytes).sum();
        (sum(read), sum(own))
    }
}

/// Whether a matrix lies row by row without gaps.
fn is_dense(layout: &Layout) -> bool {
    layout.is_contiguous() && layout.offset() == 0
}

/// A kernel with these rows and one column variable, or several of which the last goes through `chunk` elements at once,
/// all of which its one store covers in order.
pub(super) fn matrix_of(
    kernel: &FusedNode,
    rows: usize,
    columns: usize,
    chunk: Option<usize>,
) -> Result<FusedNode, Refusal> {
    let mut fused = kernel.clone();
    let extents = fused.extents();
    let (mut first, mut inner) = (extents.len(), 1);
    while inner < columns && first > 0 {
        first -= 1;
        inner *= extents[first];
    }
    if inner != columns {
        return Err(Refusal::AcrossPanels);
    }
    (fused.iter, fused.red) = (extents[..first].to_vec(), extents[first..].to_vec());
    let mut fused = merge_loops(fused);
    let extents = fused.extents();
    let whole = |n: usize| fused.red.last().is_some_and(|last| last.is_multiple_of(n));
    if fused.red.len() != 1 && !chunk.is_some_and(whole) || fused.rows() != rows {
        return Err(Refusal::AcrossPanels);
    }
    let column = Var(extents.len() as u32 - 1);
    let transposed = |op: &BodyOp| matches!(op, BodyOp::Load { index, .. } if index.is_affine() && index.coefficient(column) > 1);
    if fused.stores[0].index != flat_index(&extents, 0)
        || fused.body.values().iter().any(|v| transposed(&v.op))
    {
        return Err(Refusal::AcrossPanels);
    }
    fused.feeds = true;
    Ok(fused)
}
