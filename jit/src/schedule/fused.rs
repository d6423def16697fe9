//! Fused nodes: several loop nests over one domain, as one body with several stores.

mod alike;

pub(crate) use alike::Pairs;

use super::access::{difference, mismatch};
use super::align::{self, Alignment};
use super::tiles::Tiles;
use super::{Epilogue, Mismatch, Refusal};
use crate::body::{Body, BodyOp, BodyValue, Source, Value};
use crate::expr::{Expr, Term, Var};
use crate::nest::{Destination, LoopNest, Update, flat_index, update_text};
use crate::policy::Policy;
use ferrotrace_kernels::{ReduceKind, ValueId};
use ferrotrace_runtime::DType;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// Most threads of a device's block that reduces strided columns.
const COLUMN_THREADS: usize = 512;
/// Most warps of a block.
const WARPS: usize = 32;

/// A matrix product that a fused node takes up panel by panel (scheduler T-08).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Position of its call among the lowered steps.
    pub step: usize,
    /// The node.
    pub node: ValueId,
    /// What a device's library does with each element, if it computes all of the kernel.
    pub epilogue: Option<Epilogue>,
    /// The tiles by which a generated kernel of a device computes it with all that follows.
    pub tiles: Option<Tiles>,
}

/// The value of a node, and where it would be stored.
#[derive(Clone, Debug)]
pub struct Store {
    /// The node.
    pub node: ValueId,
    /// Its element type in memory.
    pub dtype: DType,
    /// The value.
    pub value: Value,
    /// Where, over the fused node's variables.
    pub index: Expr,
    /// For what is written over other data, how; a scatter's takes the place of `index`.
    pub update: Option<Update>,
}

/// What a body must keep for these stores: the value of each, and the place of a scatter's.
pub(crate) fn roots(stores: &[Store]) -> Vec<Value> {
    let of = |s: &Store| std::iter::once(s.value).chain(s.update.as_ref().and_then(Update::at));
    stores.iter().flat_map(of).collect()
}

/// The stores with the copies of their [`roots`] and their indices as `index` gives them.
pub(crate) fn moved(
    stores: &[Store],
    copies: Vec<Value>,
    index: &dyn Fn(&Expr) -> Expr,
) -> Vec<Store> {
    let mut copies = copies.into_iter();
    let mut next = |old: Value| copies.next().unwrap_or(old);
    let mut all = Vec::with_capacity(stores.len());
    for store in stores {
        let value = next(store.value);
        let update = store.update.clone().map(|u| match u.target {
            Destination::At(at) => Update {
                target: Destination::At(next(at)),
                ..u
            },
            Destination::Window(_) => u,
        });
        all.push(Store {
            value,
            index: index(&store.index),
            update,
            ..store.clone()
        });
    }
    all
}

/// Loop nests that become one kernel. Variables `0..iter.len()` are rows, run in parallel; the following ones are the
/// columns of each row, over which reductions run and results of the row's reductions may be used again.
#[derive(Clone, Debug)]
pub struct FusedNode {
    /// Positions of the nests, and of the product, among the lowered steps, ascending.
    pub steps: Vec<usize>,
    /// Row extents, outermost first.
    pub iter: Vec<usize>,
    /// Column extents, outermost first.
    pub red: Vec<usize>,
    /// All values.
    pub body: Arc<Body>,
    /// The value of every nest.
    pub stores: Vec<Store>,
    /// Whether any was recorded under [`Precision::EagerExact`](crate::Precision).
    pub exact: bool,
    /// The product whose rows and columns are this node's, and which runs before it on every panel.
    pub product: Option<Product>,
    /// Whether it computes an operand of a product panel by panel.
    pub feeds: bool,
}

impl FusedNode {
    /// A fused node of one nest.
    pub fn of(step: usize, nest: &LoopNest) -> FusedNode {
        let store = Store {
            node: nest.node,
            dtype: nest.dtype,
            value: nest.result,
            index: nest.place.clone(),
            update: nest.update.clone(),
        };
        FusedNode {
            steps: vec![step],
            iter: nest.iter.clone(),
            red: nest.red.clone(),
            body: Arc::clone(&nest.body),
            stores: vec![store],
            exact: nest.exact,
            product: None,
            feeds: false,
        }
    }

    /// Extents of all variables.
    pub fn extents(&self) -> Vec<usize> {
        self.iter.iter().chain(&self.red).copied().collect()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.iter.iter().product()
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.red.iter().product()
    }

    /// The node with each operation that its stores need as `replace` gives it for its number, its operands already replaced.
    pub(crate) fn rewritten(
        &self,
        replace: &dyn Fn(&mut Body, Value, BodyOp) -> BodyOp,
    ) -> FusedNode {
        let mut body = Body::default();
        let (wanted, extents) = (roots(&self.stores), self.extents());
        let copies = body.rewrite(&self.body, &wanted, replace, extents.as_slice());
        FusedNode {
            body: Arc::new(body),
            stores: moved(&self.stores, copies, &|e| e.clone()),
            ..self.clone()
        }
    }

    /// The store of a node, if it is one of this fused node's.
    pub fn store(&self, node: ValueId) -> Option<&Store> {
        self.stores.iter().find(|s| s.node == node)
    }

    /// Whether this node and a later one read and write more than so many buffers, what passes between them included.
    fn exceeds_with(&self, later: &FusedNode, most: usize) -> bool {
        let size = |node: &FusedNode| node.body.values().len() + node.stores.len();
        if size(self) + size(later) <= most {
            return false;
        }
        let reads = self.loads().chain(later.loads()).map(|load| load.0);
        let stores = self.stores.iter().chain(&later.stores);
        let writes = stores.map(|store| Source::Node(store.node));
        let all: FxHashSet<Source> = reads.chain(writes).collect();
        all.len() > most
    }

    /// Every load: its buffer, element type and index.
    pub fn loads(&self) -> impl Iterator<Item = (Source, DType, &Expr)> {
        self.body.values().iter().filter_map(|v| match &v.op {
            BodyOp::Load {
                source,
                dtype,
                index,
                ..
            } => Some((*source, *dtype, index)),
            _ => None,
        })
    }

    /// Whether a reduction is among the values.
    pub fn reduces(&self) -> bool {
        self.body
            .values()
            .iter()
            .any(|v| matches!(v.op, BodyOp::Reduce { .. }))
    }

    /// Whether a scan is among the values.
    pub fn scans(&self) -> bool {
        self.body
            .values()
            .iter()
            .any(|v| matches!(v.op, BodyOp::Scan { .. }))
    }

    /// Where a store writes, as an expression of the loops and of values.
    pub fn place<'a>(&'a self, store: &'a Store) -> &'a Expr {
        let at = store.update.as_ref().and_then(Update::at);
        match at.map(|at| &self.body.value(at).op) {
            Some(BodyOp::Index(e)) => e,
            _ => &store.index,
        }
    }

    /// Whether a store's position varies within a row.
    pub fn varies(&self, store: &Store) -> bool {
        let rows = self.iter.len() as u32;
        let column = |t: &Term| matches!(t, Term::Var(v) if v.0 >= rows);
        store.index.any(&mut |t| column(t))
    }

    /// Whether each element is stored in one iteration alone: what a loop stores again, the next iteration would read as
    /// an operand in the same memory.
    pub fn stores_once(&self, store: &Store) -> bool {
        let extents = self.iter.iter().chain(&self.red).enumerate();
        extents
            .filter(|&(_, &n)| n != 1)
            .all(|(v, _)| store.index.uses(Var(v as u32)))
    }

    /// Whether the position of an extreme is wanted of floating-point values that depend on a scan.
    fn searches_scans(&self) -> bool {
        let body = &self.body;
        let mut scanned = vec![false; body.values().len()];
        for (i, value) in body.values().iter().enumerate() {
            let operands = body.operands(i as Value);
            scanned[i] = matches!(value.op, BodyOp::Scan { .. })
                || operands.iter().any(|&v| scanned[v as usize]);
        }
        body.values().iter().any(|value| match value.op {
            BodyOp::Reduce {
                kind: ReduceKind::ArgMax | ReduceKind::ArgMin,
                value,
                ..
            } => scanned[value as usize] && body.value(value).dtype.is_float(),
            _ => false,
        })
    }

    /// Whether results depend on the order of columns: those of a scan, or the first position of an extreme.
    fn needs_order(&self) -> bool {
        let searches = |value: &BodyValue| {
            let position = match &value.op {
                BodyOp::Reduce { position, .. } => position.as_ref(),
                _ => None,
            };
            position.is_some()
        };
        self.scans() || self.body.values().iter().any(searches)
    }

    /// Whether a scatter is among the stores.
    pub fn scatters(&self) -> bool {
        let at = |s: &Store| s.update.as_ref().and_then(Update::at);
        self.stores.iter().any(|s| at(s).is_some())
    }

    /// Whether any store is written over other data.
    pub fn updates(&self) -> bool {
        self.stores.iter().any(|s| s.update.is_some())
    }

    /// Whether the columns of a row must be walked in order, on one thread.
    pub fn is_ordered(&self) -> bool {
        self.scans() || (self.scatters() && !self.red.is_empty())
    }

    /// Whether the reductions are split into chunks of columns, by sizes alone.
    pub fn is_split(&self, policy: &Policy) -> bool {
        let elements = self.rows().saturating_mul(self.cols());
        let few = self.rows() < policy.thresholds.split_rows
            && elements >= policy.thresholds.split_elements;
        self.reduces() && (few || self.leaves_threads_idle(policy))
    }

    /// Whether the rows of a kernel of a device have so few threads that cutting them gains more than the launches of the
    /// pieces' kernels take.
    fn leaves_threads_idle(&self, policy: &Policy) -> bool {
        if policy.target.splits_reductions || self.product.is_some() || self.scans() {
            return false;
        }
        let (rows, cols) = (self.rows(), self.cols());
        let of_row = match self.has_strided_columns() {
            true => 4,
            false => (cols / 8).min(1024),
        };
        let (threads, wanted) = (rows.saturating_mul(of_row), policy.thresholds.full_threads);
        if threads == 0 || threads >= wanted {
            return false;
        }
        let lost = (rows * cols / threads).saturating_mul(wanted - threads);
        lost >= policy.thresholds.split_gain
    }

    /// Whether a kernel of pieces of the rows can compute all that waits for the reductions.
    pub fn merges_pieces(&self, policy: &Policy) -> bool {
        let target = &policy.target;
        // A device reads 16 bytes of strided columns at a time for plain sums alone.
        let merges =
            || target.merges_moments && (target.splits_reductions || !self.has_strided_columns());
        let moments = self.moments();
        moments.is_some_and(|moments| moments.is_empty() || merges())
    }

    /// Whether the columns are strided and the last row variable contiguous for most loads of those that differ by row:
    /// what all rows share is read from a cache.
    pub fn has_strided_columns(&self) -> bool {
        let Some(row) = self.iter.len().checked_sub(1) else {
            return false;
        };
        let (row, column) = (Var(row as u32), Var(self.extents().len() as u32 - 1));
        let (mut inner, mut outer) = (0usize, 0usize);
        for (_, _, index) in self.loads() {
            let strided = index.coefficient(column);
            let varies = index.any(&mut |t| *t == Term::Var(row) || matches!(t, Term::Value(_)));
            inner += usize::from(strided.abs() == 1 && varies);
            outer += usize::from(index.coefficient(row).abs() == 1 && strided != 0);
        }
        outer > inner
    }

    /// For each value: whether it varies within a row, and whether it depends on a reduction of the row.
    pub fn dependence(&self) -> Vec<Dependence> {
        let first = self.iter.len() as u32;
        let mut all: Vec<Dependence> = Vec::with_capacity(self.body.values().len());
        for (i, value) in self.body.values().iter().enumerate() {
            let mut of = Dependence {
                inner: false,
                reduced: false,
            };
            for operand in self.body.operands(i as Value) {
                of.inner |= all[operand as usize].inner;
                of.reduced |= all[operand as usize].reduced;
            }
            for expr in self.body.exprs(i as Value) {
                of.inner |= expr.any(&mut |t| matches!(t, Term::Var(v) if v.0 >= first));
            }
            if matches!(value.op, BodyOp::Reduce { .. }) {
                of = Dependence {
                    inner: false,
                    reduced: true,
                };
            }
            // codegen A5.6: a scan has a result at every column, in the loop of its operand.
            of.inner |= matches!(value.op, BodyOp::Scan { .. });
            all.push(of);
        }
        all
    }

    /// One fused node of two, `earlier` producing for `later` if either does, and whether one of them walks its loops
    /// in another order, split or merged (scheduler R-15).
    ///
    /// # Errors
    /// Why they cannot be one.
    pub fn fuse(
        earlier: &FusedNode,
        later: &FusedNode,
        policy: &Policy,
    ) -> Result<(FusedNode, bool), Refusal> {
        earlier.may_join(later, policy)?;
        let alignment = align::align(earlier, later)?;
        let Alignment {
            iter,
            red,
            first,
            second,
        } = &alignment;
        let extents: Vec<usize> = iter.iter().chain(red).copied().collect();
        // Short columns are written out, and lanes run along the rows.
        let columns = red.iter().product::<usize>();
        let elements = extents.iter().product::<usize>();
        let long = columns > policy.thresholds.unrolled;
        if long && elements > policy.thresholds.across_elements {
            let pointwise = earlier.red.is_empty() && later.red.is_empty();
            let crosses = pointwise && later.crosses_memory(second, iter.len(), &extents);
            let walks = [(earlier, first), (later, second)]
                .map(|(node, map)| node.walks_along(map, iter.len(), &extents));
            // Lanes run along columns or rows, and one reduction would read across memory.
            let reduce = earlier.reduces() && later.reduces();
            let apart = reduce && matches!(walks, [Some(a), Some(b)] if a != b);
            // What is stored reads across through tiles.
            let tiled = policy.target.library.is_complete()
                && !earlier.reduces()
                && later.reduces()
                && walks[0] == Some(Walk::Both);
            if crosses || apart || tiled {
                return Err(Refusal::Extents(Mismatch::Order));
            }
        }
        if earlier.is_better_alone(elements / earlier.rows().max(1), policy) {
            return Err(Refusal::ScalarRows);
        }
        if policy.target.byte_lanes && earlier.is_of_bytes(policy) && !later.computes_bytes() {
            return Err(Refusal::ByteLanes);
        }
        let in_order = |node: &FusedNode, map: &[Expr]| {
            let of = |term: &Term| match term {
                Term::Var(v) => map.get(v.0 as usize).cloned(),
                _ => None,
            };
            let column = flat_index(&node.red, node.iter.len());
            let column = column.substitute(&of, extents.as_slice()).recombine();
            column == flat_index(red, iter.len()).recombine()
        };
        if (earlier.needs_order() && !in_order(earlier, first))
            || (later.needs_order() && !in_order(later, second))
        {
            return Err(Refusal::ScanOrder);
        }
        let reordered = !is_identity(first) || !is_identity(second);
        let fused = FusedNode::joined(earlier, later, alignment)?;
        fused.is_one_kernel(policy)?;
        Ok((fused, reordered))
    }

    /// Whether its elements take costly functions, and have no lanes, or are computed again, in a kernel that has `times` as many.
    fn is_better_alone(&self, times: usize, policy: &Policy) -> bool {
        let thresholds = &policy.thresholds;
        let pointwise = self.red.is_empty() && !self.reduces();
        let many = self.rows() >= thresholds.scalar_rows && times >= thresholds.scalar_columns;
        policy.target.scalar_rows && pointwise && many && self.is_costly(thresholds.scalar_reads)
    }

    /// Whether it computes bytes and truth values alone, by many operations.
    fn is_of_bytes(&self, policy: &Policy) -> bool {
        let thresholds = &policy.thresholds;
        let elements = self.rows().saturating_mul(self.cols());
        elements >= thresholds.byte_elements
            && operations(&self.body) >= thresholds.byte_ops
            && self.computes_bytes()
    }

    fn computes_bytes(&self) -> bool {
        self.body
            .values()
            .iter()
            .all(|value| value.dtype.size() == 1)
    }

    /// Whether it has a function that costs more than reading its result, or at least `reads` reads at places that are looked up.
    fn is_costly(&self, reads: usize) -> bool {
        let values = || self.body.values().iter().map(|value| &value.op);
        let function = |op: &BodyOp| op.is_heavy() && !matches!(op, BodyOp::Load { .. });
        let looked_up = |op: &&BodyOp| matches!(op, BodyOp::Load { .. }) && op.is_heavy();
        values().any(function) || values().filter(looked_up).count() >= reads
    }

    /// Whether its results, with variables that `map` gives of which the first `rows` are rows, would be written across the order
    /// in which they lie: neighbours in memory are rows.
    fn crosses_memory(&self, map: &[Expr], rows: usize, extents: &[usize]) -> bool {
        let of = |term: &Term| match term {
            Term::Var(v) => map.get(v.0 as usize).cloned(),
            _ => None,
        };
        let nearest = |store: &Store| {
            let index = store.index.substitute(&of, extents);
            let stride = |v: usize| index.coefficient(Var(v as u32)).unsigned_abs();
            let moves = (0..extents.len()).filter(|&v| extents[v] > 1 && stride(v) > 0);
            moves.min_by_key(|&v| stride(v))
        };
        self.stores
            .iter()
            .any(|store| nearest(store).is_some_and(|v| v < rows))
    }

    /// What its loads that vary with rows and columns walk memory along, with variables that `map` gives of which the first
    /// `rows` are rows.
    fn walks_along(&self, map: &[Expr], rows: usize, extents: &[usize]) -> Option<Walk> {
        let of = |term: &Term| match term {
            Term::Var(v) => map.get(v.0 as usize).cloned(),
            _ => None,
        };
        let mut walk = None;
        for value in self.body.values() {
            let BodyOp::Load { index, .. } = &value.op else {
                continue;
            };
            let index = index.substitute(&of, extents);
            let stride = |v: usize| index.coefficient(Var(v as u32)).unsigned_abs();
            let moves = (0..extents.len()).filter(|&v| extents[v] > 1 && stride(v) > 0);
            let (columns, rows): (Vec<usize>, Vec<usize>) = moves.partition(|&v| v >= rows);
            let nearest = |of: &[usize]| of.iter().map(|&v| stride(v)).min();
            let (Some(column), Some(row)) = (nearest(&columns), nearest(&rows)) else {
                continue;
            };
            let this = match column < row {
                true => Walk::Columns,
                false => Walk::Rows,
            };
            walk = Some(walk.map_or(this, |before: Walk| match before == this {
                true => this,
                false => Walk::Both,
            }));
        }
        walk
    }

    /// Whether a node and a later one are small enough together, and their loops alike, to be tried as one.
    fn may_join(&self, later: &FusedNode, policy: &Policy) -> Result<(), Refusal> {
        // L-26, L-27: what is written over other data is complete after the kernel, and not to be read in it.
        if self.updates() || later.updates() {
            return Err(Refusal::Scatter);
        }
        if self.steps.len() + later.steps.len() > policy.thresholds.fusion_nests {
            return Err(Refusal::TooManyNests);
        }
        if operations(&self.body) + operations(&later.body) > policy.thresholds.fusion_ops {
            return Err(Refusal::TooManyOps);
        }
        if self.exceeds_with(later, policy.thresholds.fusion_buffers) {
            return Err(Refusal::TooManyBuffers);
        }
        // M-15: the loops of one are those of the other, perhaps with more around them.
        let elements = |node: &FusedNode| node.rows().saturating_mul(node.cols());
        let (a, b) = (elements(self).max(1), elements(later).max(1));
        if a % b != 0 && b % a != 0 {
            return Err(Refusal::Extents(mismatch(self, later)));
        }
        Ok(())
    }

    /// The values and stores of both over one domain: what one stores and the other loads there is passed on.
    fn joined(
        earlier: &FusedNode,
        later: &FusedNode,
        alignment: Alignment,
    ) -> Result<FusedNode, Refusal> {
        let Alignment {
            iter,
            red,
            first,
            second,
        } = alignment;
        let extents: Vec<usize> = iter.iter().chain(&red).copied().collect();
        let mut body = Body::default();
        let mut stores: Vec<Store> = Vec::new();
        let mut forwarded: FxHashMap<ValueId, usize> = FxHashMap::default();
        let mismatch = Cell::new(None);
        let stays = iter == earlier.iter && red == earlier.red && is_identity(&first);
        if stays {
            body = Body::clone(&earlier.body);
            stores = earlier.stores.clone();
            let nodes = stores.iter().enumerate().map(|(i, s)| (s.node, i));
            forwarded = nodes.collect();
        }
        let both = [(earlier, &first), (later, &second)];
        for (node, map) in both.into_iter().skip(usize::from(stays)) {
            let of = |term: &Term| match term {
                Term::Var(v) => map.get(v.0 as usize).cloned(),
                _ => None,
            };
            let forward = |source: Source, index: &Expr| {
                let Source::Node(producer) = source else {
                    return None;
                };
                let store = &stores[*forwarded.get(&producer)?];
                if store.index != *index {
                    let how = difference((&store.index, &extents), (index, &extents));
                    mismatch.set(Some(how.unwrap_or(Mismatch::Unknown)));
                }
                Some((store.value, store.dtype))
            };
            let wanted = roots(&node.stores);
            let copies = body.import(&node.body, &wanted, &of, &forward, extents.as_slice());
            let index = |e: &Expr| e.substitute(&of, extents.as_slice());
            for store in moved(&node.stores, copies, &index) {
                forwarded.insert(store.node, stores.len());
                stores.push(store);
            }
        }
        if let Some(how) = mismatch.get() {
            return Err(Refusal::IndexMismatch(how));
        }
        let mut steps: Vec<usize> = earlier.steps.iter().chain(&later.steps).copied().collect();
        steps.sort_unstable();
        Ok(FusedNode {
            steps,
            iter,
            red,
            body: Arc::new(body),
            stores,
            exact: earlier.exact || later.exact,
            product: None,
            feeds: false,
        })
    }

    /// Most bytes that the threads of a block share where groups of them take a row's strided columns by turns: a place for
    /// each thread and reduction, another for its position. Else a warp has one place.
    fn shared_bytes(&self) -> usize {
        let bytes = |value: &BodyValue| match value.op {
            BodyOp::Reduce { ref position, .. } => {
                value.dtype.size() + if position.is_some() { 8 } else { 0 }
            }
            BodyOp::Scan { .. } => value.dtype.size(),
            _ => 0,
        };
        let each: usize = self.body.values().iter().map(bytes).sum();
        let places = match self.has_strided_columns() {
            true => COLUMN_THREADS,
            false => WARPS,
        };
        each * places
    }

    /// Whether one kernel can do all of this, with threads enough.
    fn is_one_kernel(&self, policy: &Policy) -> Result<(), Refusal> {
        if self.searches_scans() {
            return Err(Refusal::ScannedSearch);
        }
        if self.shared_bytes() > policy.target.static_shared {
            return Err(Refusal::SharedMemory);
        }
        if self.is_split(policy) && self.scans() {
            return Err(Refusal::SplitScan);
        }
        if self.is_split(policy) && !self.merges_pieces(policy) {
            return Err(Refusal::SplitReduction);
        }
        let fewest = if self.scans() {
            policy.thresholds.split_rows
        } else {
            32
        };
        if !self.red.is_empty() && !self.reduces() && self.rows() < fewest && self.cols() > 1024 {
            return Err(Refusal::TooFewRows);
        }
        if self.stores_in_parts_of_vectors(policy) {
            return Err(Refusal::NarrowRows);
        }
        Ok(())
    }

    /// Whether lanes that run along fewer rows than a vector has would store, column by column, what depends on reductions of
    /// columns that no cache holds. A kernel of its own stores whole vectors.
    fn stores_in_parts_of_vectors(&self, policy: &Policy) -> bool {
        let thresholds = &policy.thresholds;
        let (Some(&last), true) = (self.iter.last(), policy.target.splits_reductions) else {
            return false;
        };
        let narrow = last < thresholds.narrow_rows
            && last.saturating_mul(self.cols()) >= thresholds.split_elements;
        let columns = self.iter.len()..self.extents().len();
        let stores = |s: &Store| columns.clone().any(|v| s.index.uses(Var(v as u32)));
        narrow && self.reduces() && self.stores.iter().any(stores) && self.has_strided_columns()
    }
}

/// Whether variables stand for themselves.
fn is_identity(map: &[Expr]) -> bool {
    let own = |(i, e): (usize, &Expr)| *e == Expr::from(Term::Var(Var(i as u32)));
    map.iter().enumerate().all(own)
}

/// How a value varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependence {
    /// It differs between the columns of a row.
    pub inner: bool,
    /// It needs a finished reduction of its row.
    pub reduced: bool,
}

/// Operations of a body, loads and numbers not counted.
pub(super) fn operations(body: &Body) -> usize {
    let counts = |op: &BodyOp| {
        !matches!(
            op,
            BodyOp::Load { .. } | BodyOp::Number(_) | BodyOp::Index(_)
        )
    };
    body.values().iter().filter(|v| counts(&v.op)).count()
}

/// What loads walk memory along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    Columns,
    Rows,
    /// Some along columns and others along rows.
    Both,
}

/// `fused %3 %5: [16, 8 | 32]`, `after %2` if it takes up that product, then the body.
impl fmt::Display for FusedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |list: &[usize]| {
            list.iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        };
        write!(f, "fused")?;
        for store in &self.stores {
            let update = update_text(store.update.as_ref());
            write!(f, " %{}=v{}{update}", store.node.0, store.value)?;
        }
        if let Some(product) = self.product {
            write!(f, " after %{}", product.node.0)?;
        }
        writeln!(f, ": [{} | {}]", join(&self.iter), join(&self.red))?;
        write!(f, "{}", self.body)
    }
}
