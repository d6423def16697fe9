//! Pairs of fused nodes that differ in names alone are made one once: repeated layers of a network differ in nothing but the
//! buffers that they read and write and in the slots of their numbers, of which fusion asks only whether two are the
//! same. Equal pairs are found by hash and compared in full; what the first became is given other names.

use super::{FusedNode, Store};
use crate::body::{BodyOp, BodyValue, Number, Source};
use crate::policy::Policy;
use crate::refusal::Refusal;
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::Config;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What two nodes become, and whether one of them walks its loops in another order.
type Fused = Result<(FusedNode, bool), Refusal>;

/// What pairs became.
#[derive(Default)]
pub(crate) struct Pairs {
    known: FxHashMap<u64, Vec<(Pair, Fused)>>,
    /// Under verification: whether one was not what it would be by itself.
    pub are_wrong: bool,
}

/// Two nodes, and their names.
struct Pair {
    nodes: [FusedNode; 2],
    names: Names,
}

/// The names of two nodes by their first uses.
#[derive(Default)]
struct Names {
    sources: Vec<Source>,
    numbers: Vec<Number>,
    /// The number of the name at each use, buffers in the order of loads and stores, then numbers.
    uses: Vec<u32>,
}

impl Names {
    fn of(nodes: [&FusedNode; 2]) -> Names {
        let mut names = Names::default();
        let mut known: FxHashMap<Source, u32> = FxHashMap::default();
        for node in nodes {
            let stores = node.stores.iter().map(|store| Source::Node(store.node));
            for source in node.loads().map(|load| load.0).chain(stores) {
                let sources = &mut names.sources;
                let number = *known.entry(source).or_insert_with(|| {
                    sources.push(source);
                    sources.len() as u32 - 1
                });
                names.uses.push(number);
            }
        }
        let mut known = FxHashMap::default();
        for number in nodes.iter().flat_map(|node| node.body.numbers()) {
            let all = &mut names.numbers;
            let at = *known.entry(number.key()).or_insert_with(|| {
                all.push(*number);
                all.len() as u32 - 1
            });
            names.uses.push(at);
        }
        names
    }

    /// Whether names are used alike.
    fn are_like(&self, other: &Names) -> bool {
        let kinds = |names: &Names| names.sources.len() == other.sources.len();
        let numbers = || self.numbers.iter().zip(&other.numbers);
        kinds(self)
            && self.numbers.len() == other.numbers.len()
            && self.uses == other.uses
            && self
                .sources
                .iter()
                .zip(&other.sources)
                .all(|(a, b)| matches!(a, Source::Input(_)) == matches!(b, Source::Input(_)))
            && numbers().all(|(a, b)| a.is_like(b))
    }
}

impl Pairs {
    /// What [`FusedNode::fuse`] makes of two nodes.
    pub(crate) fn fuse(
        &mut self,
        earlier: &FusedNode,
        later: &FusedNode,
        policy: &Policy,
    ) -> Fused {
        let nodes = [earlier, later];
        if !nodes.iter().all(|node| is_plain(node)) {
            return FusedNode::fuse(earlier, later, policy);
        }
        let names = Names::of(nodes);
        let all = self.known.entry(hash(nodes, &names)).or_default();
        let same = |pair: &&(Pair, Fused)| pair.0.is_like(nodes, &names);
        if let Some((first, fused)) = all.iter().find(same) {
            let renamed = renamed(fused, &first.names, &names, nodes);
            if Config::get().verify {
                let made = FusedNode::fuse(earlier, later, policy);
                self.are_wrong |= !is_same(&renamed, &made);
            }
            return renamed;
        }
        let fused = FusedNode::fuse(earlier, later, policy);
        let nodes = nodes.map(FusedNode::clone);
        all.push((Pair { nodes, names }, fused.clone()));
        fused
    }
}

/// Whether a node has no names but those of its loads, stores and numbers.
fn is_plain(node: &FusedNode) -> bool {
    let values = node.body.values();
    node.product.is_none()
        && !node.feeds
        && !node.updates()
        && !values.iter().any(|v| matches!(v.op, BodyOp::Check { .. }))
}

fn hash(nodes: [&FusedNode; 2], names: &Names) -> u64 {
    let mut state = FxHasher::default();
    names.uses.hash(&mut state);
    for node in nodes {
        (&node.iter, &node.red, node.steps.len()).hash(&mut state);
        for value in node.body.values() {
            match &value.op {
                BodyOp::Load {
                    dtype, index, mask, ..
                } => (dtype, index, mask).hash(&mut state),
                op => op.hash(&mut state),
            }
        }
        for store in &node.stores {
            (store.value, &store.index).hash(&mut state);
        }
    }
    state.finish()
}

impl Pair {
    /// Whether two nodes differ from these in names alone.
    fn is_like(&self, nodes: [&FusedNode; 2], names: &Names) -> bool {
        let nodes = self.nodes.iter().zip(nodes);
        self.names.are_like(names) && { nodes }.all(|(a, b)| is_like(a, b))
    }
}

/// Whether two nodes are equal but for the names of what they load and store and of numbers.
fn is_like(a: &FusedNode, b: &FusedNode) -> bool {
    let same_store =
        |x: &Store, y: &Store| (x.dtype, x.value, &x.index) == (y.dtype, y.value, &y.index);
    let (values, others) = (a.body.values(), b.body.values());
    (&a.iter, &a.red, a.exact, a.steps.len()) == (&b.iter, &b.red, b.exact, b.steps.len())
        && a.stores.len() == b.stores.len()
        && a.stores
            .iter()
            .zip(&b.stores)
            .all(|(x, y)| same_store(x, y))
        && a.body.masks() == b.body.masks()
        && a.body.numbers().len() == b.body.numbers().len()
        && values.len() == others.len()
        && values.iter().zip(others).all(|(x, y)| same_value(x, y))
}

/// Whether two values are equal but for the buffers that they load.
fn same_value(x: &BodyValue, y: &BodyValue) -> bool {
    match (&x.op, &y.op) {
        (
            BodyOp::Load {
                dtype: memory_x,
                index: index_x,
                mask: mask_x,
                ..
            },
            BodyOp::Load {
                dtype: memory_y,
                index: index_y,
                mask: mask_y,
                ..
            },
        ) => (x.dtype, memory_x, index_x, mask_x) == (y.dtype, memory_y, index_y, mask_y),
        _ => x == y,
    }
}

/// What a pair became, with the names of a like one.
fn renamed(fused: &Fused, from: &Names, to: &Names, nodes: [&FusedNode; 2]) -> Fused {
    let (fused, reordered) = match fused {
        Ok((fused, reordered)) => (fused, *reordered),
        Err(why) => return Err(*why),
    };
    let pairs = from.sources.iter().copied().zip(to.sources.iter().copied());
    let sources: FxHashMap<Source, Source> = pairs.collect();
    let source = |source: Source| sources.get(&source).copied().unwrap_or(source);
    let id = |node: ValueId| match source(Source::Node(node)) {
        Source::Node(node) => node,
        Source::Input(_) => node,
    };
    let pairs = from.numbers.iter().map(Number::key).zip(&to.numbers);
    let numbers: FxHashMap<_, &Number> = pairs.collect();
    let number = |number: &Number| **numbers.get(&number.key()).unwrap_or(&number);
    let store = |store: &Store| Store {
        node: id(store.node),
        ..store.clone()
    };
    let mut steps: Vec<usize> = nodes.iter().flat_map(|node| &node.steps).copied().collect();
    steps.sort_unstable();
    let renamed = FusedNode {
        steps,
        iter: fused.iter.clone(),
        red: fused.red.clone(),
        body: Arc::new(fused.body.renamed(&source, &number)),
        stores: fused.stores.iter().map(store).collect(),
        exact: fused.exact,
        product: None,
        feeds: false,
    };
    Ok((renamed, reordered))
}

/// Whether two results are the same in all that they say.
fn is_same(a: &Fused, b: &Fused) -> bool {
    let text = |of: &Fused| match of {
        Ok((node, reordered)) => format!("{node} {:?} {:?} {reordered}", node.steps, node.stores),
        Err(why) => format!("{why:?}"),
    };
    text(a) == text(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::lower::{Lowered, lower};

    /// How many of two pairs are made, each the first two and the last two nests of a graph; each is as if it were alone.
    fn made(text: &str) -> usize {
        let graph: Graph = text.parse().expect("a graph");
        let policy = Policy::default();
        let lowering = lower(&graph, &policy).expect("nests");
        let nodes = lowering
            .steps
            .iter()
            .enumerate()
            .map(|(i, step)| match step {
                Lowered::Nest(nest) => FusedNode::of(i, nest),
                _ => panic!("not a nest"),
            });
        let nodes: Vec<FusedNode> = nodes.collect();
        let mut pairs = Pairs::default();
        for pair in nodes.chunks_exact(2) {
            let fused = pairs.fuse(&pair[0], &pair[1], &policy);
            let alone = FusedNode::fuse(&pair[0], &pair[1], &policy);
            assert!(alone.is_ok() && is_same(&fused, &alone), "{text}");
        }
        assert_eq!(nodes.len(), 4);
        pairs.known.values().map(Vec::len).sum()
    }

    /// Two layers: sums of rows, and the rows less the sums, times a number.
    fn layers(second: [&str; 3]) -> usize {
        let [sum, centred, scaled] = second;
        made(&format!(
            "
            %0: f32[8, 64] = input 0 [64, 1]
            %1: f32[8, 64] = input 1 [64, 1]
            %2: f32[8, 1] = sum(%0) {{dims: [1], keepdim: true}}
            %3: f32[8, 64] = sub(%0, %2)
            %4: f32[8, 64] = mul(%3, $0=2.0)
            %5: f32[8, 1] = {sum} {{dims: [1], keepdim: true}}
            %6: f32[8, 64] = {centred}
            %7: f32[8, 64] = {scaled}
            return %4 %7"
        ))
    }

    #[test]
    fn names_and_slots_are_no_difference() {
        let (sum, centred, scaled) = ("sum(%1)", "sub(%1, %5)", "mul(%6, $1=3.0)");
        assert_eq!(layers([sum, centred, scaled]), 1);
        // Of two buffers where the first pair has one.
        assert_eq!(layers([sum, "sub(%0, %5)", scaled]), 2);
        assert_eq!(layers(["max(%1)", centred, scaled]), 2);
        assert_eq!(layers([sum, centred, "mul(%6, 3.0)"]), 2);
    }
}
