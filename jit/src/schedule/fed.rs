//! Kernels that compute an operand of a generated product of a device, as it is read (scheduler T-02 to T-04, T-15, T-19,
//! codegen A10.3): what follows a product is joined first, and then what comes before is tried on the result.
//!
//! A product of few rows reads its right operand once, so that computing it there saves writing and reading it, whatever
//! it is computed of: the time of all bytes decides. Other templates take operands as they lie in memory.

use super::generated::{alone, behind};
use super::prologue::matrix_of;
use super::tiles::{few_time, library_time, stream_time};
use super::{FusedNode, Fusion, Product, Prologue, Refusal, Sides, Store, Tiles};
use crate::bisect::may_fuse;
use crate::body::BodyOp;
use crate::graph::Graph;
use crate::lower::{Call, Lowered, Lowering};
use ferrotrace_kernels::Op;
use petgraph::Direction::Incoming;
use petgraph::stable_graph::NodeIndex;

/// Elements that a template asks for at once.
const CHUNK: usize = 8;

/// A kernel that could compute an operand.
struct Candidate {
    producer: NodeIndex,
    prologue: Prologue,
    /// Bytes that it reads, and that it would store.
    read: u64,
    written: u64,
}

impl Fusion<'_> {
    /// Makes kernels that compute operands of half-precision products part of these.
    pub(super) fn feed_generated(&mut self, graph: &Graph, lowering: &Lowering) {
        if self.policy.target.capability < 80 {
            return;
        }
        for (step, lowered) in lowering.steps.iter().enumerate() {
            let Lowered::Call(call) = lowered else {
                continue;
            };
            let of = graph.node(call.node);
            if !of.is(Op::is_matmul) || !of.dtype.is_half() {
                continue;
            }
            let alone = Product {
                step,
                node: call.node,
                epilogue: None,
                tiles: None,
            };
            let at = self.owner[step];
            let product = self.graph[at].as_ref().map_or(Some(alone), |f| f.product);
            if let Some(product) = product {
                self.feed(graph, lowering, at, product);
            }
        }
    }

    fn feed(&mut self, graph: &Graph, lowering: &Lowering, at: NodeIndex, product: Product) {
        let Lowered::Call(call) = &lowering.steps[product.step] else {
            return;
        };
        let candidates = self.found_before(graph, lowering, at, product, call);
        let Some(sides) = Sides::of(graph, call).filter(|_| !candidates.is_empty()) else {
            return;
        };
        let chosen = self
            .chosen(&sides, product, &candidates)
            .and_then(|(tiles, chosen)| {
                let fused = self.with_tiles(graph, at, product, tiles)?;
                may_fuse().then_some((fused, chosen)).ok_or(Refusal::Limit)
            });
        let (fused, chosen) = match chosen {
            Ok((fused, chosen)) => (Some(fused), chosen),
            Err(why) => {
                for candidate in &candidates {
                    let pair = (candidate.prologue.node(), product.node);
                    self.refusals.insert(pair, why);
                }
                return;
            }
        };
        self.graph[at] = fused;
        self.accesses[at.index()] = None;
        let mut prologues = Vec::new();
        for (candidate, chosen) in candidates.into_iter().zip(chosen) {
            if chosen {
                self.join_call(candidate.producer, at);
                prologues.push(candidate.prologue);
            } else {
                let pair = (candidate.prologue.node(), product.node);
                self.refusals.insert(pair, Refusal::NotWorthwhile);
            }
        }
        self.prologues.insert(product.step, prologues);
        // The library had no reason to be left before.
        let fused = self.graph[at]
            .as_ref()
            .and_then(|f| f.product.zip(f.stores.first()));
        if let Some((product, store)) = fused
            && store.node == product.node
        {
            let tiles = product.tiles.ok_or(Refusal::NoTemplate);
            self.take_behind(graph, lowering, at, product, tiles);
        }
    }

    /// The kernels before a product that a generated kernel of it could compute operands by; why others cannot be is noted.
    fn found_before(
        &mut self,
        graph: &Graph,
        lowering: &Lowering,
        at: NodeIndex,
        product: Product,
        call: &Call,
    ) -> Vec<Candidate> {
        let mut producers: Vec<NodeIndex> = self.graph.neighbors_directed(at, Incoming).collect();
        producers.sort_unstable();
        let mut candidates = Vec::new();
        for producer in producers {
            let Some(kernel) = self.alone(producer) else {
                continue;
            };
            let first = kernel.stores[0].node;
            let read = |of: &super::Temporary| of.read.contains(&product.step);
            let mut stored = kernel.stores.iter().map(|store| &store.node);
            // What follows the product reads others.
            if !stored.any(|node| self.temporaries.get(node).is_some_and(read)) {
                continue;
            }
            let operand = self.operand(lowering, &kernel, product);
            let joins = self.may_join(product, producer, &kernel);
            let found = match (joins, Sides::of(graph, call)) {
                (Err(why), _) => Err(why),
                (Ok(()), None) => Err(Refusal::NoTemplate),
                (Ok(()), Some(sides)) => {
                    operand.and_then(|at| self.before_generated(&kernel, &sides, at))
                }
            };
            match found {
                Ok(prologue) => {
                    let (read, written) = self.moves(&kernel, first);
                    candidates.push(Candidate {
                        producer,
                        prologue,
                        read,
                        written,
                    });
                }
                Err(why) => {
                    self.refusals.insert((first, product.node), why);
                }
            }
        }
        candidates
    }

    /// A kernel with the stores that others need (scheduler T-03).
    fn alone(&self, producer: NodeIndex) -> Option<FusedNode> {
        let mut kernel = self.graph[producer].clone()?;
        let steps = kernel.steps.clone();
        let within = |of: &super::Temporary| of.read.iter().all(|step| steps.contains(step));
        let needed = |store: &Store| !self.temporaries.get(&store.node).is_some_and(within);
        if kernel.stores.iter().any(needed) {
            kernel.stores.retain(needed);
        }
        Some(kernel)
    }

    /// The kernel with the lines of the operand as its rows: T-15, one that templates can call.
    fn before_generated(
        &self,
        kernel: &FusedNode,
        sides: &Sides,
        operand: usize,
    ) -> Result<Prologue, Refusal> {
        let [m, n, k] = sides.sizes;
        let side = &sides.sides[operand];
        let lines = if operand == 0 { m } else { n };
        let (lines, length) = if side.inner { (lines, k) } else { (k, lines) };
        // Indices are checked ahead, by the loops of a kernel that stores.
        let checks = |op: &BodyOp| matches!(op, BodyOp::Check { .. });
        let dense = side.offset == 0 && side.line == length as i64 && sides.batch.is_empty();
        if !dense || kernel.body.values().iter().any(|v| checks(&v.op)) {
            return Err(Refusal::AcrossPanels);
        }
        Tiles::streams(sides, self.policy).ok_or(Refusal::NoTemplate)?;
        Ok(Prologue {
            kernel: matrix_of(kernel, lines, length, Some(CHUNK))?,
            operand,
            by_rows: side.inner,
        })
    }

    /// The tiles and, for each candidate, whether it becomes a prologue: the choice of least time, if that is less than the
    /// time of separate kernels (T-04). Times are those of all bytes moved.
    fn chosen(
        &self,
        sides: &Sides,
        product: Product,
        candidates: &[Candidate],
    ) -> Result<(Tiles, Vec<bool>), Refusal> {
        let policy = self.policy;
        let [m, n, k] = sides.sizes;
        let stored = [m * k, k * n].map(|n| 2 * n as u64);
        let tiles = Tiles::streams(sides, policy).ok_or(Refusal::NoTemplate)?;
        // With a set of candidates as prologues: the bytes read for each operand, and the time of the kernels that stay.
        let parted = |set: usize| {
            let (mut read, mut time) = (stored, 0);
            for (i, candidate) in candidates.iter().enumerate() {
                match set >> i & 1 {
                    1 => read[candidate.prologue.operand] = candidate.read,
                    _ => {
                        time +=
                            policy.thresholds.product_launch + candidate.read + candidate.written
                    }
                }
            }
            (read, time)
        };
        let time_with = |set: usize| {
            let (read, time) = parted(set);
            let mut chosen = candidates
                .iter()
                .enumerate()
                .filter(|(i, _)| set >> i & 1 == 1);
            // Each tile of columns computes the left operand again.
            let again = match chosen.any(|(_, candidate)| candidate.prologue.operand == 0) {
                true => policy.thresholds.stream_left * (m * k * n.div_ceil(64)) as u64,
                false => 0,
            };
            time + stream_time(sides, read, policy) + again
        };
        let now = match product.tiles {
            Some(tiles) => parted(0).1 + few_time(sides, tiles, policy),
            None => parted(0).1 + library_time(sides, policy),
        };
        let sets = 1..1usize << candidates.len();
        let best = sets.min_by_key(|&set| time_with(set));
        let best = best.filter(|&set| time_with(set) < now);
        let set = best.ok_or(Refusal::NotWorthwhile)?;
        let chosen = (0..candidates.len()).map(|i| set >> i & 1 == 1);
        Ok((tiles, chosen.collect()))
    }

    /// The product and what follows it as a generated kernel.
    fn with_tiles(
        &self,
        graph: &Graph,
        at: NodeIndex,
        product: Product,
        tiles: Tiles,
    ) -> Result<FusedNode, Refusal> {
        let product = Product {
            epilogue: None,
            tiles: None,
            ..product
        };
        match &self.graph[at] {
            // The epilogue that the library computed becomes part of the generated kernel.
            Some(fused) => {
                let mut kernel = fused.clone();
                kernel.product = None;
                kernel.steps.retain(|&step| step != product.step);
                kernel.stores.retain(|store| store.node != product.node);
                behind(graph, &kernel, product, tiles)
            }
            None => Ok(alone(graph, product, tiles)),
        }
    }
}
