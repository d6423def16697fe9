//! Values that the kernels which read them compute again, so that the kernel which has them need not write them: its
//! operands are read in their place, and its rows' results, which are small (scheduler B-12, ir B9).
//!
//! A row softmax whose columns are summed needs the sum of each row first. The second kernel reads the numbers, the rows'
//! maxima and sums, and no exponentials.

use super::fused::{moved, operations, roots};
use super::{FusedNode, Fusion, Store, access, align};
use crate::body::{Body, BodyOp, Source, Value};
use crate::expr::{Expr, Term, Var};
use crate::lower::Lowering;
use ferrotrace_kernels::ValueId;
use petgraph::stable_graph::NodeIndex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// How to compute a stored value of a kernel in another one.
struct Recipe {
    /// The kernel's values, with loads in the place of what it stores once a row.
    body: Body,
    /// The value.
    value: Value,
}

impl Fusion<'_> {
    /// Computes values again where that moves fewer bytes than writing and reading them.
    pub(super) fn compute_again(&mut self, lowering: &Lowering) {
        let nodes: Vec<NodeIndex> = self.graph.node_indices().collect();
        for producer in nodes {
            let Some(kernel) = &self.graph[producer] else {
                continue;
            };
            let stored: Vec<ValueId> = kernel.stores.iter().map(|store| store.node).collect();
            for value in stored {
                for (reader, kernel) in self.again(lowering, producer, value).unwrap_or_default() {
                    self.replace(reader, kernel);
                }
            }
        }
    }

    /// The kernels that read a value, as they would be if they computed it; none where that is not worth it.
    fn again(
        &self,
        lowering: &Lowering,
        producer: NodeIndex,
        value: ValueId,
    ) -> Option<Vec<(NodeIndex, FusedNode)>> {
        let kernel = self.graph[producer].as_ref()?;
        let store = kernel.store(value)?;
        let readers = self.readers(producer, value)?;
        let apart =
            |node: &ValueId| self.apart.contains(node) || lowering.pieces.contains_key(node);
        let others = |s: &Store| s.node != value && self.is_needed(producer, s.node);
        if readers.is_empty()
            || self.policy.choice.stores(value)
            || self.policy.given_up.stores(value)
            || apart(&value)
            || lowering.biased.contains(&value)
            || kernel.updates()
            || !kernel.stores.iter().any(others)
        {
            return None;
        }
        let bytes = self.sizes.get(&Source::Node(value)).copied()?;
        let policy = self.policy;
        let pays = |ops: u32, heavy: bool| {
            ops <= policy.thresholds.reuse_ops
                && !(heavy && (bytes < policy.thresholds.again_bytes || readers.len() > 1))
        };
        let recipe = recipe(kernel, store, &pays)?;
        // What is written over is read before: a later reader would need a copy.
        let overwritten = |source: Source| self.bases.contains(&source);
        if recipe.loads().any(overwritten) {
            return None;
        }
        let mut found = Vec::with_capacity(readers.len());
        let (mut extra, mut held) = (0u64, 0u64);
        for reader in readers {
            let before = self.graph[reader].as_ref()?;
            let after = recomputed(before, kernel, store, &recipe)?;
            let large = operations(&after.body) > policy.thresholds.fusion_ops;
            let split = after.is_split(policy) && !after.merges_pieces(policy);
            if large || split {
                return None;
            }
            let known = access::accesses(before, &self.sizes);
            let reads = access::accesses(&after, &self.sizes);
            let new = reads.iter().filter(|access| !known.contains(access));
            extra += new.map(|access| access.bytes).sum::<u64>();
            let read = |source: Source| before.loads().any(|load| load.0 == source);
            let mut kept: Vec<Source> = after.loads().map(|load| load.0).collect();
            kept.retain(|&source| !read(source));
            kept.sort_unstable();
            kept.dedup();
            let size = |source: &Source| self.sizes.get(source).copied().unwrap_or(0);
            held = held.max(kept.iter().map(size).sum());
            found.push((reader, after));
        }
        // Each reader reads other bytes in their place, and half of what is not written is won. What is read in its place
        // is kept until then.
        let moved = extra <= bytes * found.len() as u64 + bytes / 2;
        (moved && held <= bytes + bytes / 4).then_some(found)
    }

    /// The kernels beside its producer that read a value, if it is no result and all that read it are generated kernels.
    fn readers(&self, producer: NodeIndex, value: ValueId) -> Option<Vec<NodeIndex>> {
        let steps = &self.temporaries.get(&value)?.read;
        let mut readers: Vec<NodeIndex> = steps.iter().map(|&step| self.owner[step]).collect();
        readers.sort_unstable();
        readers.dedup();
        readers.retain(|reader| *reader != producer);
        let plain = |reader: &NodeIndex| {
            self.graph[*reader]
                .as_ref()
                .is_some_and(|kernel| !kernel.updates())
        };
        readers.iter().all(plain).then_some(readers)
    }

    /// Whether anything but the kernel that computes it needs a value.
    pub(super) fn is_needed(&self, producer: NodeIndex, value: ValueId) -> bool {
        let within = |steps: &[usize]| steps.iter().all(|&step| self.owner[step] == producer);
        self.temporaries
            .get(&value)
            .is_none_or(|of| !within(&of.read))
    }

    /// Puts a kernel that computes what it read in the place of the one that read it.
    fn replace(&mut self, reader: NodeIndex, kernel: FusedNode) {
        let read = |kernel: &FusedNode| -> FxHashSet<Source> {
            kernel.loads().map(|load| load.0).collect()
        };
        let before = self.graph[reader].as_ref().map(&read).unwrap_or_default();
        let after = read(&kernel);
        let step = kernel.steps[0];
        for source in before.symmetric_difference(&after) {
            let Source::Node(value) = source else {
                continue;
            };
            if let Some(temporary) = self.temporaries.get_mut(value) {
                match after.contains(source) {
                    true => temporary.read.push(step),
                    false => temporary.read.retain(|&s| self.owner[s] != reader),
                }
            }
            if let Some(&made) = self.made.get(value) {
                let from = self.owner[made];
                if after.contains(source) && from != reader {
                    self.graph.update_edge(from, reader, ());
                }
            }
        }
        self.accesses[reader.index()] = None;
        self.graph[reader] = Some(kernel);
    }
}

impl Recipe {
    fn loads(&self) -> impl Iterator<Item = Source> {
        self.body
            .values()
            .iter()
            .filter_map(|value| match value.op {
                BodyOp::Load { source, .. } => Some(source),
                _ => None,
            })
    }
}

/// How to compute a stored value; none where it needs what is neither read nor stored, or so many operations, costly ones
/// among them or not, that it does not pay.
fn recipe(kernel: &FusedNode, store: &Store, pays: &dyn Fn(u32, bool) -> bool) -> Option<Recipe> {
    let body = &kernel.body;
    let dependence = kernel.dependence();
    let at_row = |v: Value| {
        let is = |s: &&Store| s.value == v && s.node != store.node;
        let found = kernel.stores.iter().find(is)?;
        // Values of half types may be used unrounded here.
        let as_loaded = body.value(v).dtype == found.dtype;
        (!dependence[v as usize].inner && as_loaded).then_some(found)
    };
    let mut cuts: FxHashMap<Value, &Store> = FxHashMap::default();
    let (mut ops, mut heavy) = (0, false);
    let (mut open, mut seen) = (vec![store.value], FxHashSet::default());
    while let Some(v) = open.pop() {
        if !seen.insert(v) {
            continue;
        }
        if let Some(found) = at_row(v) {
            cuts.insert(v, found);
            continue;
        }
        match &body.value(v).op {
            BodyOp::Random { .. }
            | BodyOp::Check { .. }
            | BodyOp::Reduce { .. }
            | BodyOp::Scan { .. } => return None,
            BodyOp::Unary(op, _) => heavy |= op.heavy(),
            BodyOp::Binary(op, ..) => heavy |= op.heavy(),
            _ => {}
        }
        ops += u32::from(!matches!(
            body.value(v).op,
            BodyOp::Load { .. } | BodyOp::Number(_) | BodyOp::Index(_)
        ));
        open.extend(body.operands(v));
    }
    if !pays(ops, heavy) {
        return None;
    }
    let extents = kernel.extents();
    let mut cut = Body::default();
    let replace = |_: &mut Body, v: Value, op: BodyOp| match cuts.get(&v) {
        Some(at) => BodyOp::Load {
            source: Source::Node(at.node),
            dtype: at.dtype,
            index: at.index.clone(),
            mask: None,
        },
        None => op,
    };
    let value = cut.rewrite(body, &[store.value], &replace, extents.as_slice());
    let mut needed = Body::default();
    let value = needed.rewrite(&cut, &value, &|_, _, op| op, extents.as_slice());
    Some(Recipe {
        body: needed,
        value: *value.first()?,
    })
}

/// A kernel that computes a value of another one where it read it.
fn recomputed(
    reader: &FusedNode,
    kernel: &FusedNode,
    store: &Store,
    recipe: &Recipe,
) -> Option<FusedNode> {
    let of = kernel.extents();
    let digits = align::digits(&store.index, &of)?;
    let extents = reader.extents();
    let same = |e: &Expr| e.substitute(&|_| None, extents.as_slice());
    let mut body = Body::default();
    let mut values: Vec<(Expr, Value)> = Vec::new();
    for load in reader.body.values() {
        let BodyOp::Load {
            source,
            index,
            mask,
            ..
        } = &load.op
        else {
            continue;
        };
        if *source != Source::Node(store.node) {
            continue;
        }
        let index = same(index);
        if values.iter().any(|(known, _)| *known == index) {
            continue;
        }
        // Read elsewhere too, where only some of its positions exist, or where a value of the reader says.
        let gathered = index.follows_from_values();
        if gathered || mask.is_some() || !values.is_empty() {
            return None;
        }
        let ranges = extents.as_slice();
        let mut at = vec![None; of.len()];
        for &(v, stride) in &digits {
            let digit = index.floor_div(stride, ranges).modulo(of[v] as i64, ranges);
            at[v] = Some(digit.recombine());
        }
        let known =
            |e: &Expr| !e.any(&mut |t| matches!(t, Term::Var(Var(v)) if at[*v as usize].is_none()));
        let mut all = 0..recipe.body.values().len() as Value;
        if !all.all(|v| recipe.body.exprs(v).into_iter().all(known)) {
            return None;
        }
        let position = |term: &Term| match term {
            Term::Var(Var(v)) => at[*v as usize].clone(),
            _ => None,
        };
        let none = |_: Source, _: &Expr| None;
        let copies = body.import(&recipe.body, &[recipe.value], &position, &none, ranges);
        values.push((index, copies[0]));
    }
    // Positions along the lanes, rows or columns, stay plain.
    let lanes = [reader.iter.len(), extents.len()].map(|n| Var((n as u32).wrapping_sub(1)));
    let plain = |e: &Expr| {
        let stays = |(term, _): &(Term, i64)| {
            matches!(term, Term::Var(_)) || !lanes.iter().any(|&v| Expr::from(term.clone()).uses(v))
        };
        e.terms().iter().all(stays)
    };
    let mut all = 0..body.values().len() as Value;
    if !all.all(|v| body.exprs(v).into_iter().all(plain)) {
        return None;
    }
    let forward = |source: Source, index: &Expr| {
        let (_, value) = (source == Source::Node(store.node))
            .then(|| values.iter().find(|(known, _)| known == index))??;
        Some((*value, store.dtype))
    };
    let wanted = roots(&reader.stores);
    let copies = body.import(
        &reader.body,
        &wanted,
        &|_| None,
        &forward,
        extents.as_slice(),
    );
    let left = |v: &crate::body::BodyValue| matches!(v.op, BodyOp::Load { source, .. } if source == Source::Node(store.node));
    if body.values().iter().any(left) {
        return None;
    }
    let stores = moved(&reader.stores, copies, &Expr::clone);
    Some(FusedNode {
        body: Arc::new(body),
        stores,
        ..reader.clone()
    })
}
