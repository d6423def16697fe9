//! Products of a device that become one generated kernel with the kernel behind them, where the library computes no such
//! thing (scheduler T-01, T-08, T-10, codegen A10.1): any pointwise kernel that walks the product as it is.
//!
//! A generated product is slower than the library's by some percent. It is chosen where that costs less than reading the
//! product again in a kernel of its own.

use super::template::walking;
use super::{FusedNode, Fusion, Product, Refusal, Store, moved, roots};
use crate::bisect::may_fuse;
use crate::body::{Body, BodyOp, Source, Value};
use crate::emit::cuda::product::{Sides, shared_bytes};
use crate::expr::{Expr, Var};
use crate::graph::{Graph, Precision};
use crate::lower::{Lowered, Lowering};
use crate::nest::flat_index;
use crate::policy::Policy;
use ferrotrace_runtime::DType;
use petgraph::stable_graph::NodeIndex;

/// How a generated product is cut into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Rows of a tile.
    pub rows: usize,
    /// Columns of a tile.
    pub columns: usize,
    /// What multiplies.
    pub by: Units,
}

/// What multiplies the tiles of a generated product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// Warps, from panels in shared memory.
    Warps,
    /// Groups of warps together, which Hopper has.
    Groups,
    /// Warps, of few rows, from memory: so many blocks share what is summed over.
    Streams {
        /// Blocks of a cluster.
        blocks: usize,
    },
}

impl Tiles {
    /// The tiles with which a product takes least time, and that time in bytes moved; `None` where there are none.
    pub fn of(sides: &Sides, policy: &Policy) -> Option<(Tiles, u64)> {
        let widths: &[usize] = match policy.target.capability {
            80..90 => &[128],
            90 => &[256, 128],
            // Newer devices have no such groups, and other matrix units.
            91.. => &[128],
            _ => &[],
        };
        let groups = policy.target.capability == 90;
        let by = if groups { Units::Groups } else { Units::Warps };
        let deficit = policy.thresholds.product_deficit[usize::from(!groups)];
        let [m, n, k] = sides.sizes;
        let time = |columns: usize| {
            let tiles = sides.count() * m.div_ceil(128) * n.div_ceil(columns);
            let turns = tiles.div_ceil(policy.target.multiprocessors.max(1)) as u64;
            let multiply = turn(policy, columns, k) * (100 + deficit) / 100;
            // What follows a tile is done while the next is computed.
            turns * multiply.max(policy.thresholds.product_follow * columns as u64)
        };
        let all = widths.iter().map(|&columns| {
            let rows = 128;
            (Tiles { rows, columns, by }, time(columns))
        });
        all.min_by_key(|(_, time)| *time)
    }

    /// The tiles of a product of few rows, which is as fast as its right matrix is read.
    pub fn streams(sides: &Sides, policy: &Policy) -> Option<Tiles> {
        let [m, n, k] = sides.sizes;
        let few = policy.target.capability >= 80
            && m <= policy.thresholds.stream_rows
            && sides.batch.is_empty();
        let rows = if m > 16 { 32 } else { 16 };
        let (columns, all) = (n.div_ceil(64), m.div_ceil(rows) * n.div_ceil(64));
        // Blocks of a cluster have each other's sums: as many as run at once, two on every multiprocessor, and have 64 terms
        // for every warp.
        let mut blocks = 1;
        let most = if policy.target.capability >= 90 { 8 } else { 1 };
        while blocks < most
            && all * blocks <= policy.target.multiprocessors
            && k >= 2 * blocks * 8 * 32
        {
            blocks *= 2;
        }
        let tiles = Tiles {
            rows,
            columns: 64,
            by: Units::Streams { blocks },
        };
        let fits = shared_bytes(tiles) <= policy.target.shared_memory && columns < 1 << 24;
        // Rows of the left matrix are dense, as chunks are terms.
        (few && fits && sides.sides[0].inner).then_some(tiles)
    }
}

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
            let tiles = tiles(&sides, self.policy);
            self.take_behind(graph, lowering, call, product, tiles);
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
            let apart = self.apart.contains(&product.node) || self.is_apart(reader);
            let fused = match self.product_kept_apart(product, kernel) {
                _ if apart || lowering.pieces.contains_key(&product.node) => Err(Refusal::Barrier),
                Some(why) => Err(why),
                _ if self.is_between(at, reader) => Err(Refusal::NodeBetween),
                None => tiles
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

/// A kernel with the product that it alone walks.
pub(super) fn behind(
    graph: &Graph,
    kernel: &FusedNode,
    product: Product,
    tiles: Tiles,
) -> Result<FusedNode, Refusal> {
    let node = graph.node(product.node);
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
    fused.body = body;
    rounded
}

/// The time in which every multiprocessor multiplies a tile of so many columns, in bytes moved.
fn turn(policy: &Policy, columns: usize, k: usize) -> u64 {
    let operations = 2 * (policy.target.multiprocessors * 128 * columns) as u64 * k as u64;
    operations / policy.thresholds.product_work
}

/// The time of a product of few rows, in bytes moved, of operands of which so many bytes are read: each block reads its
/// part of the left one again, of the second cache.
pub(super) fn stream_time(sides: &Sides, read: [u64; 2], policy: &Policy) -> u64 {
    let [m, n, k] = sides.sizes;
    let again = (n.div_ceil(64) as u64).div_ceil(policy.thresholds.stream_cached);
    let bytes = read[1] + read[0] * again + 2 * (m * n) as u64;
    let compute = policy.thresholds.stream_element * (k * n) as u64;
    policy.thresholds.product_launch
        + compute.max(bytes * (100 + policy.thresholds.stream_deficit) / 100)
}

/// The time of the library for the same: as long as it takes to read the operands, or to multiply.
pub(super) fn library_time(sides: &Sides, policy: &Policy) -> u64 {
    let [m, n, k] = sides.sizes;
    let multiply = 2 * (m * n) as u64 * k as u64 / policy.thresholds.product_work;
    let bytes = 2 * (m * k + k * n + m * n) as u64;
    policy.thresholds.product_launch + bytes.max(multiply)
}

/// The tiles of a product, if one kernel with what follows is faster than two.
fn tiles(sides: &Sides, policy: &Policy) -> Result<Tiles, Refusal> {
    let [m, n, k] = sides.sizes;
    if let Some(tiles) = Tiles::streams(sides, policy) {
        let behind = policy.thresholds.product_launch + 2 * (m * n) as u64;
        let time = stream_time(sides, [m * k, k * n].map(|n| 2 * n as u64), policy);
        if time < library_time(sides, policy) + behind {
            return Ok(tiles);
        }
    }
    let (tiles, time) = Tiles::of(sides, policy).ok_or(Refusal::NoPanels)?;
    if m.min(n).min(k) < policy.thresholds.product_least {
        return Err(Refusal::NotWorthwhile);
    }
    let results = (sides.count() * m * n) as u64;
    let alone = (2 * results * k as u64 / policy.thresholds.product_work).max(turn(policy, 128, k));
    // The kernel behind it is launched, and reads the product.
    let behind = policy.thresholds.product_launch + 2 * results;
    match time < alone + behind {
        true => Ok(tiles),
        false => Err(Refusal::NotWorthwhile),
    }
}
