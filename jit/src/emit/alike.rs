//! Kernels of one form are written once: repeated layers of a network differ in nothing but the buffers that they read
//! and write and in the slots of their numbers, of which the text holds neither. Equal forms are found by hash and
//! compared in full, as in hash-consing (Ershov, 1958); what was written for the first is given other names.

use super::{Emitted, Overwrite, Pointer};
use crate::body::{BodyOp, Number, Source};
use crate::schedule::{FusedNode, Store};
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::{Config, Error, Result};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A fused node with its buffers numbered in their order, by which renaming keeps what is sorted sorted.
#[derive(Debug)]
struct Form<'a> {
    node: &'a FusedNode,
    /// Every buffer that it names, ascending.
    sources: Vec<Source>,
    /// Which stores are written.
    written: Vec<bool>,
}

/// Writes the kernel of a fused node, of whose values some are stored.
type Write<'a> = &'a dyn Fn(&FusedNode, &FxHashSet<ValueId>) -> Emitted;

/// Kernels of a plan, of each form the first written.
pub(crate) struct Alike<'a> {
    write: Write<'a>,
    /// The form and its hash of each kernel, by the first node that it stores.
    forms: FxHashMap<ValueId, (u64, Form<'a>)>,
    /// How many kernels have a form of each hash.
    many: FxHashMap<u64, usize>,
    known: FxHashMap<u64, Vec<(Form<'a>, Emitted)>>,
}

impl<'a> Alike<'a> {
    /// For kernels of these fused nodes, each with the nodes whose values are written.
    pub(crate) fn of<'b>(
        kernels: impl Iterator<Item = (&'a FusedNode, &'b FxHashSet<ValueId>)>,
        write: Write<'a>,
    ) -> Alike<'a> {
        let mut many: FxHashMap<u64, usize> = FxHashMap::default();
        let mut forms = FxHashMap::default();
        for (node, stored) in kernels {
            let form = Form::of(node, stored);
            let hash = form.hash();
            *many.entry(hash).or_default() += 1;
            forms.insert(node.stores[0].node, (hash, form));
        }
        let known = FxHashMap::default();
        Alike {
            write,
            forms,
            many,
            known,
        }
    }

    /// The kernel of a node, of whose values those of `stored` are written.
    ///
    /// # Errors
    /// Under verification: the two differ.
    pub(crate) fn emit(
        &mut self,
        node: &'a FusedNode,
        stored: &FxHashSet<ValueId>,
    ) -> Result<Emitted> {
        let write = || (self.write)(node, stored);
        // Each is written once.
        let Some((hash, form)) = self.forms.remove(&node.stores[0].node) else {
            return Ok(write());
        };
        if self.many.get(&hash).is_none_or(|&n| n < 2) {
            return Ok(write());
        }
        let all = self.known.entry(hash).or_default();
        if let Some((first, emitted)) = all.iter().find(|(first, _)| first.is_like(&form)) {
            let renamed = first.renamed(&form, emitted);
            if Config::get().verify && differ(&renamed, &write()) {
                let names: Vec<u32> = node.stores.iter().map(|s| s.node.0).collect();
                return Err(Error::internal(format!(
                    "nodes {names:?} have a kernel of another form's"
                )));
            }
            return Ok(renamed);
        }
        let emitted = write();
        all.push((form, emitted.clone()));
        Ok(emitted)
    }
}

impl<'a> Form<'a> {
    fn of(node: &'a FusedNode, stored: &FxHashSet<ValueId>) -> Form<'a> {
        let values = node.body.values().iter();
        let loads = values.filter_map(|value| match value.op {
            BodyOp::Load { source, .. } => Some(source),
            _ => None,
        });
        let stores = node.stores.iter().map(|s| Source::Node(s.node));
        let bases = node.stores.iter().filter_map(|s| s.update.as_ref());
        let mut sources: Vec<Source> = loads
            .chain(stores)
            .chain(bases.map(|update| update.base.0))
            .chain(node.product.map(|product| Source::Node(product.node)))
            .collect();
        sources.sort_unstable();
        sources.dedup();
        let written = node.stores.iter().map(|s| stored.contains(&s.node));
        Form {
            node,
            sources,
            written: written.collect(),
        }
    }

    /// A buffer's position; that of an input is not that of a node.
    fn rank(&self, source: Source) -> (bool, usize) {
        let at = self.sources.binary_search(&source);
        (matches!(source, Source::Input(_)), at.unwrap_or(usize::MAX))
    }

    fn hash(&self) -> u64 {
        let mut state = FxHasher::default();
        let FusedNode {
            iter, red, body, ..
        } = self.node;
        (iter, red, &self.written).hash(&mut state);
        for value in body.values() {
            match &value.op {
                BodyOp::Load {
                    source,
                    dtype,
                    index,
                    mask,
                } => (self.rank(*source), dtype, index, mask).hash(&mut state),
                op => op.hash(&mut state),
            }
        }
        for store in &self.node.stores {
            let rank = self.rank(Source::Node(store.node));
            (rank, store.value, &store.index).hash(&mut state);
        }
        state.finish()
    }

    /// Whether the two differ in names alone.
    fn is_like(&self, other: &Form<'_>) -> bool {
        let (a, b) = (self.node, other.node);
        let same_store = |x: &Store, y: &Store| {
            let updates = match (&x.update, &y.update) {
                (None, None) => true,
                (Some(x), Some(y)) => {
                    (&x.target, x.combine, &x.base.1) == (&y.target, y.combine, &y.base.1)
                        && self.rank(x.base.0) == other.rank(y.base.0)
                }
                _ => false,
            };
            updates
                && (x.dtype, x.value, &x.index) == (y.dtype, y.value, &y.index)
                && self.rank(Source::Node(x.node)) == other.rank(Source::Node(y.node))
        };
        let same_product = match (&a.product, &b.product) {
            (None, None) => true,
            (Some(x), Some(y)) => {
                (x.epilogue, x.tiles) == (y.epilogue, y.tiles)
                    && self.rank(Source::Node(x.node)) == other.rank(Source::Node(y.node))
            }
            _ => false,
        };
        (&a.iter, &a.red, a.exact, a.feeds) == (&b.iter, &b.red, b.exact, b.feeds)
            && self.written == other.written
            && self.sources.len() == other.sources.len()
            && same_product
            && a.stores.len() == b.stores.len()
            && a.stores
                .iter()
                .zip(&b.stores)
                .all(|(x, y)| same_store(x, y))
            && self.same_body(other)
    }

    fn same_body(&self, other: &Form<'_>) -> bool {
        let (a, b) = (&self.node.body, &other.node.body);
        let (values, numbers) = (a.values().iter(), a.numbers().iter());
        a.values().len() == b.values().len()
            && a.numbers().len() == b.numbers().len()
            && a.masks() == b.masks()
            && numbers.zip(b.numbers()).all(|(x, y)| x.is_like(y))
            && values.zip(b.values()).all(|(x, y)| match (&x.op, &y.op) {
                (
                    BodyOp::Load {
                        source: of_x,
                        dtype: memory_x,
                        index: index_x,
                        mask: mask_x,
                    },
                    BodyOp::Load {
                        source: of_y,
                        dtype: memory_y,
                        index: index_y,
                        mask: mask_y,
                    },
                ) => {
                    (x.dtype, memory_x, index_x, mask_x) == (y.dtype, memory_y, index_y, mask_y)
                        && self.rank(*of_x) == other.rank(*of_y)
                }
                _ => x == y,
            })
    }

    /// What was written for this form, with another's names.
    fn renamed(&self, other: &Form<'_>, emitted: &Emitted) -> Emitted {
        let source = |from: Source| match self.sources.binary_search(&from) {
            Ok(at) => other.sources[at],
            Err(_) => from,
        };
        let id = |from: ValueId| match source(Source::Node(from)) {
            Source::Node(to) => to,
            Source::Input(_) => from,
        };
        let (mine, theirs) = (self.node.body.numbers(), other.node.body.numbers());
        // The kernel may be given the bits of a number with which the loops compute.
        let number = |from: &Number| match mine.iter().position(|n| n.is(from)) {
            Some(at) => Number {
                as_bits: from.as_bits,
                ..theirs[at]
            },
            None => *from,
        };
        let Emitted {
            source: text,
            pointers,
            params,
            streams,
            in_place,
            updates,
            numbers,
            chunks,
            scratch,
            local,
            grid,
            node,
            loops,
            products,
            panels,
            before,
            walks,
        } = emitted;
        let pointer = |of: &Pointer| match *of {
            Pointer::Read(from) => Pointer::Read(source(from)),
            Pointer::Write(from) => Pointer::Write(id(from)),
        };
        Emitted {
            source: text.clone(),
            pointers: pointers.iter().map(pointer).collect(),
            params: params.clone(),
            streams: streams
                .iter()
                .map(|&(at, of, on)| (at, id(of), on))
                .collect(),
            in_place: in_place.iter().map(|&(w, r)| (id(w), source(r))).collect(),
            updates: updates
                .iter()
                .map(|u| Overwrite {
                    node: id(u.node),
                    base: (source(u.base.0), u.base.1.clone()),
                    window: u.window.clone(),
                })
                .collect(),
            numbers: numbers.iter().map(number).collect(),
            chunks: *chunks,
            scratch: *scratch,
            local: *local,
            grid: *grid,
            node: renamed_node(node, other.node, &source, &id, &number),
            loops: *loops,
            products: *products,
            panels: *panels,
            // Generated products alone have any, and are not among these.
            before: before.clone(),
            walks: walks.iter().map(|&(of, n)| (source(of), n)).collect(),
        }
    }
}

/// The loops as they were written, with the names of `like`.
fn renamed_node(
    node: &FusedNode,
    like: &FusedNode,
    source: &dyn Fn(Source) -> Source,
    id: &dyn Fn(ValueId) -> ValueId,
    number: &dyn Fn(&Number) -> Number,
) -> FusedNode {
    let store = |from: &Store| {
        let mut to = from.clone();
        to.node = id(from.node);
        if let Some(update) = &mut to.update {
            update.base.0 = source(update.base.0);
        }
        to
    };
    FusedNode {
        steps: like.steps.clone(),
        iter: node.iter.clone(),
        red: node.red.clone(),
        body: Arc::new(node.body.renamed(source, number)),
        stores: node.stores.iter().map(store).collect(),
        exact: node.exact,
        product: like.product,
        feeds: node.feeds,
    }
}

/// Whether two kernels differ in anything.
fn differ(a: &Emitted, b: &Emitted) -> bool {
    let rest = |e: &Emitted| {
        let numbers = e.numbers.iter().map(|n| (n.operand, n.dtype, n.as_bits));
        format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {}",
            e.source,
            e.pointers,
            e.params,
            e.streams,
            e.in_place,
            e.updates,
            numbers.collect::<Vec<_>>(),
            e.chunks,
            e.scratch,
            e.local,
            e.grid,
            e.loops,
            e.products,
            e.panels,
            e.walks,
            e.node,
        )
    };
    rest(a) != rest(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Body;
    use crate::emit::emit;
    use crate::graph::Graph;
    use crate::lower::lower;
    use crate::policy::{Policy, Thresholds};
    use crate::schedule::{Scheduled, fuse};
    use crate::simplify::simplify;

    /// A graph's kernels, and how many were written for others too. Each is as if it were alone.
    fn kernels(text: &str) -> (usize, usize) {
        let graph: Graph = text.parse().expect("a graph");
        let graph = simplify(&graph).expect("primitive operators");
        // Kernels that share an input stay apart.
        let policy = Policy::from(Thresholds {
            shared_bytes: u64::MAX,
            ..Thresholds::default()
        });
        let schedule = fuse(&graph, &lower(&graph, &policy).expect("nests"), &policy);
        let nodes = schedule.steps.iter().filter_map(|step| match step {
            Scheduled::Fused(node) => Some(&**node),
            Scheduled::Call(_) => None,
        });
        let (nodes, stored): (Vec<&FusedNode>, _) = (nodes.collect(), &schedule.stored);
        let write = |node: &FusedNode, stored: &FxHashSet<ValueId>| emit(node, stored, &policy);
        let mut alike = Alike::of(nodes.iter().map(|n| (*n, stored)), &write);
        for node in &nodes {
            let emitted = alike.emit(node, stored).expect("a kernel");
            assert!(!differ(&emitted, &write(node, stored)), "{node}");
            assert_eq!(emitted.node.steps, node.steps);
            // A renamed body still finds the values that it has.
            let mut body = Body::clone(&emitted.node.body);
            for value in emitted.node.body.values() {
                body.push(value.op.clone(), value.dtype);
            }
            assert_eq!(body.values().len(), emitted.node.body.values().len());
        }
        (nodes.len(), alike.known.values().map(Vec::len).sum())
    }

    #[test]
    fn names_and_slots_are_no_difference() {
        let text = "
            %0: f32[8, 16] = input 0 [16, 1]
            %1: f32[8, 16] = input 1 [16, 1]
            %2: f32[8, 16] = mul(%0, $0=2.0)
            %3: f32[8] = sum(%2) {dims: [1], keepdim: false}
            %4: f32[8, 16] = mul(%1, $1=3.0)
            %5: f32[8] = sum(%4) {dims: [1], keepdim: false}
            return %3 %5";
        assert_eq!(kernels(text), (2, 1));
    }

    /// A kernel of `exp(x) * 2`, and one that differs in one thing.
    fn beside(input: &str, second: [&str; 2], outputs: &str) -> (usize, usize) {
        let [exp, mul] = second;
        kernels(&format!(
            "
            %0: f32[8, 16] = input 0 [16, 1]
            %1: {input}
            %2: f32[8, 16] = exp(%0)
            %3: f32[8, 16] = mul(%2, $0=2.0)
            %4: {exp}
            %5: {mul}
            return {outputs}"
        ))
    }

    #[test]
    fn every_other_thing_is() {
        let input = "f32[8, 16] = input 1 [16, 1]";
        let (exp, mul) = ("f32[8, 16] = exp(%1)", "f32[8, 16] = mul(%4, $1=3.0)");
        assert_eq!(beside(input, [exp, mul], "%3 %5"), (2, 1));
        let sqrt = "f32[8, 16] = sqrt(%1)";
        assert_eq!(beside(input, [sqrt, mul], "%3 %5"), (2, 0));
        // Written and not.
        assert_eq!(beside(input, [exp, mul], "%3 %4 %5"), (2, 0));
        // A buffer twice.
        let square = "f32[8, 16] = mul(%4, %1)";
        assert_eq!(beside(input, [exp, square], "%3 %5"), (2, 0));
        // Other strides, sizes and element types.
        let turned = "f32[8, 16] = input 1 [1, 8]";
        assert_eq!(beside(turned, [exp, mul], "%3 %5"), (2, 0));
        let (sizes, doubles) = (
            "f32[9, 16] = input 1 [16, 1]",
            "f64[8, 16] = input 1 [16, 1]",
        );
        let of = |ty: &str| [exp, mul].map(|line| line.replace("f32[8, 16]", ty));
        let ([a, b], [c, d]) = (of("f32[9, 16]"), of("f64[8, 16]"));
        assert_eq!(beside(sizes, [&a, &b], "%3 %5"), (2, 0));
        assert_eq!(beside(doubles, [&c, &d], "%3 %5"), (2, 0));
    }
}
