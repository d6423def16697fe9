//! Products of a device that become one generated kernel with the kernel behind them, where the library computes no such
//! thing (scheduler T-01, T-08, T-10, codegen A10.1): any pointwise kernel that walks the product as it is.
//!
//! A generated product is slower than the library's by some percent. It is chosen where that costs less than reading the
//! product again in a kernel of its own.

use super::template::walking;
use super::{Fusion, Product, Refusal, Store};
use crate::bisect::may_fuse;
use crate::body::{BodyOp, Source, Value};
use crate::emit::cuda::product::Sides;
use crate::expr::Var;
use crate::graph::{Graph, Precision};
use crate::lower::{Limits, Lowered, Lowering};
use crate::nest::flat_index;
use petgraph::stable_graph::NodeIndex;

/// How a generated product is cut into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Columns of a tile, of 128 rows.
    pub columns: usize,
    /// Whether groups of warps multiply together, which Hopper has.
    pub groups: bool,
}

impl Tiles {
    /// The tiles with which a product takes least time, and that time in bytes moved; `None` where there are none.
    pub fn of(sides: &Sides, limits: &Limits) -> Option<(Tiles, u64)> {
        let widths: &[usize] = match limits.products {
            80..90 => &[128],
            90 => &[256, 128],
            // Newer devices have no such groups, and other matrix units.
            91.. => &[128],
            _ => &[],
        };
        let groups = limits.products == 90;
        let deficit = limits.product_deficit[usize::from(!groups)];
        let [m, n, k] = sides.sizes;
        let time = |columns: usize| {
            let tiles = sides.count() * m.div_ceil(128) * n.div_ceil(columns);
            let turns = tiles.div_ceil(limits.multiprocessors.max(1)) as u64;
            let multiply = turn(limits, columns, k) * (100 + deficit) / 100;
            // What follows a tile is done while the next is computed.
            turns * multiply.max(limits.product_follow * columns as u64)
        };
        let all = widths
            .iter()
            .map(|&columns| (Tiles { columns, groups }, time(columns)));
        all.min_by_key(|(_, time)| *time)
    }
}

impl Fusion<'_> {
    /// Joins products with the first kernel behind each that one generated kernel can compute with it.
    pub(super) fn take_up_generated(&mut self, graph: &Graph, lowering: &Lowering) {
        if self.limits.products < 80 {
            return;
        }
        for (call, product) in self.products(graph, lowering) {
            let Lowered::Call(of) = &lowering.steps[product.step] else {
                continue;
            };
            let Some(sides) = Sides::of(graph, of) else {
                continue;
            };
            let mut readers: Vec<NodeIndex> = self.graph.neighbors(call).collect();
            readers.sort_unstable();
            for reader in readers {
                let Some(kernel) = &self.graph[reader] else {
                    continue;
                };
                let first = kernel.stores[0].node;
                let apart = self.apart.contains(&product.node) || self.is_apart(reader);
                let fused = match () {
                    _ if apart || lowering.pieces.contains_key(&product.node) => {
                        Err(Refusal::Barrier)
                    }
                    _ if self.is_between(call, reader) => Err(Refusal::NodeBetween),
                    _ => tiles(&sides, self.limits)
                        .and_then(|tiles| self.after(graph, reader, product, tiles))
                        .and_then(|fused| may_fuse().then_some(fused).ok_or(Refusal::Limit)),
                };
                match fused {
                    Ok(fused) => {
                        self.join(call, reader, fused);
                        break;
                    }
                    Err(why) => {
                        self.refusals.insert((product.node, first), why);
                    }
                }
            }
        }
    }

    /// The kernel behind a product with that product.
    fn after(
        &self,
        graph: &Graph,
        reader: NodeIndex,
        product: Product,
        tiles: Tiles,
    ) -> Result<super::FusedNode, Refusal> {
        let kernel = self.graph[reader].as_ref().ok_or(Refusal::Opaque)?;
        let node = graph.node(product.node);
        let columns = node.shape.last().copied().unwrap_or(1);
        let product = Product {
            tiles: Some(tiles),
            ..product
        };
        // Indices are checked ahead, by the loops of a kernel that has its operands in memory.
        let checks = |op: &BodyOp| matches!(op, BodyOp::Check { .. });
        if kernel.scans() || kernel.body.values().iter().any(|v| checks(&v.op)) {
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
        // Where others need the product too, it is one of the results.
        fused.stores.push(Store {
            node: product.node,
            dtype: node.dtype,
            value: value as Value,
            index: flat_index(&fused.extents(), 0),
            update: None,
        });
        fused.exact |= node.precision == Precision::EagerExact;
        Ok(fused)
    }
}

/// The time in which every multiprocessor multiplies a tile of so many columns, in bytes moved.
fn turn(limits: &Limits, columns: usize, k: usize) -> u64 {
    let operations = 2 * (limits.multiprocessors * 128 * columns) as u64 * k as u64;
    operations / limits.product_work
}

/// The tiles of a product, if one kernel with what follows is faster than two.
fn tiles(sides: &Sides, limits: &Limits) -> Result<Tiles, Refusal> {
    let [m, n, k] = sides.sizes;
    let (tiles, time) = Tiles::of(sides, limits).ok_or(Refusal::NoPanels)?;
    if m.min(n).min(k) < limits.product_least {
        return Err(Refusal::NotWorthwhile);
    }
    let results = (sides.count() * m * n) as u64;
    let alone = (2 * results * k as u64 / limits.product_work).max(turn(limits, 128, k));
    // The kernel behind it is launched, and reads the product.
    let behind = limits.product_launch + 2 * results;
    match time < alone + behind {
        true => Ok(tiles),
        false => Err(Refusal::NotWorthwhile),
    }
}
