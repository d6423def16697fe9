//! Products of a device that become one generated kernel with the kernel behind them, where the library computes no such
//! thing (scheduler T-01, T-08, T-10, codegen A10.1): any pointwise kernel that walks the product as it is.
//!
//! A generated product is slower than the library's by some percent. It is chosen where that costs less than reading the
//! product again in a kernel of its own.

use super::template::walking;
use super::tiles::{Units, few_alone, worthwhile};
use super::{FusedNode, Fusion, Product, Refusal, Sides, Store, Tiles, moved, roots};
use crate::bisect::may_fuse;
use crate::body::{Body, BodyOp, Source, Value};
use crate::expr::{Expr, Var};
use crate::graph::{Graph, Precision, Rounding};
use crate::lower::{Lowered, Lowering};
use crate::nest::flat_index;
use ferrotrace_runtime::DType;
use petgraph::stable_graph::NodeIndex;
use std::sync::Arc;

impl Fusion<'_> {
    /// Joins products with the first kernel behind each that one generated kernel can compute with it.
    pub(super) fn take_up_generated(&mut self, graph: &Graph, lowering: &Lowering) {
        if self.policy.target.capability < 80 {
            return;
        }
        for (call, product) in self.products(graph, lowering) {
            let Lowered::Call(of) = &lowering.steps[product.step] else {
                continue;
            };
            let Some(sides) = Sides::of(graph, of) else {
                continue;
            };
            let tiles = worthwhile(&sides, self.policy);
            self.take_behind(graph, lowering, call, product, tiles);
            if self.graph[call].is_none()
                && let Some(tiles) = few_alone(&sides, self.policy)
                && may_fuse()
            {
                self.graph[call] = Some(alone(graph, product, tiles));
                self.accesses[call.index()] = None;
            }
        }
    }

    /// Joins a product with the first kernel behind it that walks it.
    pub(super) fn take_behind(
        &mut self,
        graph: &Graph,
        lowering: &Lowering,
        at: NodeIndex,
        product: Product,
        tiles: Result<Tiles, Refusal>,
    ) {
        let mut readers: Vec<NodeIndex> = self.graph.neighbors(at).collect();
        readers.sort_unstable();
        for reader in readers {
            let Some(kernel) = &self.graph[reader] else {
                continue;
            };
            let first = kernel.stores[0].node;
            let fused = match self.may_join(product, reader, kernel) {
                _ if lowering.pieces.contains_key(&product.node) => Err(Refusal::Barrier),
                Err(why) => Err(why),
                Ok(()) if self.is_between(at, reader) => Err(Refusal::NodeBetween),
                Ok(()) => tiles
                    .and_then(|tiles| behind(graph, kernel, product, tiles))
                    .and_then(|fused| may_fuse().then_some(fused).ok_or(Refusal::Limit)),
            };
            match fused {
                Ok(fused) => {
                    self.join(at, reader, fused);
                    break;
                }
                Err(why) => {
                    self.refusals.insert((product.node, first), why);
                }
            }
        }
    }
}

/// The kernel of a product that nothing follows.
pub(super) fn alone(graph: &Graph, product: Product, tiles: Tiles) -> FusedNode {
    let node = graph.node(product.node);
    let columns = node.shape.last().copied().unwrap_or(1);
    let extents = [node.shape.numel() / columns.max(1), columns];
    let index = flat_index(&extents, 0);
    let mut body = Body::default();
    let load = BodyOp::Load {
        source: Source::Node(product.node),
        dtype: node.dtype,
        index: index.clone(),
        mask: None,
    };
    let value = body.push(load, node.dtype.compute());
    FusedNode {
        steps: vec![product.step],
        iter: extents[..1].to_vec(),
        red: extents[1..].to_vec(),
        body: body.into(),
        stores: vec![Store {
            node: product.node,
            dtype: node.dtype,
            value,
            index,
            update: None,
        }],
        exact: node.precision == Precision::EagerExact,
        product: Some(Product {
            tiles: Some(tiles),
            ..product
        }),
        feeds: false,
    }
}

/// A kernel with the product that it alone walks.
pub(super) fn behind(
    graph: &Graph,
    kernel: &FusedNode,
    product: Product,
    tiles: Tiles,
) -> Result<FusedNode, Refusal> {
    let node = graph.node(product.node);
    // Groups of warps hand finished tiles on in the product's type.
    if node.rounding == Rounding::Never && tiles.by == Units::Groups {
        return Err(Refusal::RoundedTiles);
    }
    let columns = node.shape.last().copied().unwrap_or(1);
    let product = Product {
        tiles: Some(tiles),
        ..product
    };
    // Indices are checked ahead, by the loops of a kernel that has its operands in memory.
    let checks = |op: &BodyOp| matches!(op, BodyOp::Check { .. });
    if kernel.body.values().iter().any(|v| checks(&v.op)) {
        return Err(Refusal::AcrossPanels);
    }
    let sizes = [node.shape.numel() / columns.max(1), columns];
    let mut fused = walking(kernel, product, sizes)?;
    let column = Var(fused.iter.len() as u32);
    if fused
        .stores
        .iter()
        .any(|s| s.index.coefficient(column) != 1)
    {
        return Err(Refusal::AcrossPanels);
    }
    let source = Source::Node(product.node);
    let own = |op: &BodyOp| match op {
        BodyOp::Load {
            source: from, mask, ..
        } => (*from == source).then_some(mask.is_none()),
        _ => None,
    };
    let values = fused.body.values().iter();
    let mut loads = values
        .enumerate()
        .filter_map(|(v, x)| Some((v, own(&x.op)?)));
    let (Some((value, true)), None) = (loads.next(), loads.next()) else {
        return Err(Refusal::AcrossPanels);
    };
    let value = if node.rounds() {
        round_product(&mut fused, value as Value, node.dtype)
    } else {
        value as Value
    };
    // Where others need the product too, it is one of the results.
    fused.stores.push(Store {
        node: product.node,
        dtype: node.dtype,
        value,
        index: flat_index(&fused.extents(), 0),
        update: None,
    });
    fused.exact |= node.precision == Precision::EagerExact;
    Ok(fused)
}

/// Makes all that reads the product, the one load `product`, read it rounded to its type: accumulators take the load's place.
/// Returns the rounded value.
fn round_product(fused: &mut FusedNode, product: Value, dtype: DType) -> Value {
    let mut body = Body::default();
    let round = |body: &mut Body, old: Value, op: BodyOp| match old == product {
        true => BodyOp::Round(body.push(op, dtype.compute()), dtype),
        false => op,
    };
    let mut wanted = roots(&fused.stores);
    wanted.push(product);
    let extents = fused.extents();
    let mut copies = body.rewrite(&fused.body, &wanted, &round, extents.as_slice());
    let rounded = copies.pop().unwrap_or(product);
    fused.stores = moved(&fused.stores, copies, &Expr::clone);
    fused.body = Arc::new(body);
    rounded
}
