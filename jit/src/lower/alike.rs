//! Nodes whose loops differ in names alone are lowered once: repeated layers of a network differ in nothing but the tensors
//! that they read and in the slots of their numbers. What a node is computed of, up to what lies in memory, is found by
//! hash and compared in full; the loops of the first get other names.

use super::Realized;
use super::layout::Order;
use crate::body::{Number, Source};
use crate::graph::{Graph, Node, NodeOp};
use crate::nest::LoopNest;
use ferrotrace_kernels::{Class, Operand, ValueId};
use ferrotrace_runtime::DType;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Whether a result may lie in any order, and in which it has to, being an output.
pub(super) type Turns = (bool, Option<Option<Order>>);

/// Loops, and the order in which their result lies.
pub(super) type Ordered = (LoopNest, Option<Order>);

/// Loops by what they compute.
#[derive(Default)]
pub(super) struct Nests {
    known: FxHashMap<u64, Vec<(Cone, Ordered)>>,
}

/// What a stored node is computed of.
pub(super) struct Cone {
    hash: u64,
    turns: Turns,
    /// The node, then others by their first uses.
    nodes: Vec<ValueId>,
    /// Whether each but the first lies in memory.
    stored: Vec<bool>,
    /// Slots by their first uses.
    slots: Vec<Operand>,
    /// The positions of operands among nodes and slots, in the order of nodes.
    uses: Vec<u32>,
}

impl Nests {
    /// The loops of a node, if those of a like one are known.
    pub fn find(&self, graph: &Graph, realized: &Realized, cone: &Cone) -> Option<Ordered> {
        let all = self.known.get(&cone.hash)?;
        let is_like = |known: &&(Cone, Ordered)| known.0.is_like(cone, graph, realized);
        let (first, (nest, order)) = all.iter().find(is_like)?;
        Some((renamed(nest, graph, first, cone), order.clone()))
    }

    pub fn insert(&mut self, cone: Cone, of: Ordered) {
        self.known.entry(cone.hash).or_default().push((cone, of));
    }
}

impl Cone {
    /// What a node is computed of; none where its loops have other names than those of what they load, or a place in
    /// another's memory.
    pub fn of(graph: &Graph, realized: &Realized, id: ValueId, turns: Turns) -> Option<Cone> {
        if realized.pieces.contains_key(&id) || realized.write(id).is_some() {
            return None;
        }
        let mut cone = Cone {
            hash: 0,
            turns,
            nodes: vec![id],
            stored: vec![false],
            slots: Vec::new(),
            uses: Vec::new(),
        };
        let mut positions: FxHashMap<ValueId, u32> = FxHashMap::default();
        let mut state = FxHasher::default();
        cone.turns.hash(&mut state);
        let mut at = 0;
        while let Some(&id) = cone.nodes.get(at) {
            let node = graph.node(id);
            (node.dtype, &node.shape, cone.stored[at]).hash(&mut state);
            if !cone.stored[at] {
                let op = node.operator().filter(|op| is_plain(op.class()))?;
                (op, node.rounding).hash(&mut state);
                for arg in &node.args {
                    let position = match arg {
                        Operand::Value(x) => *positions.entry(*x).or_insert_with(|| {
                            cone.nodes.push(*x);
                            cone.stored.push(realized.is_stored(*x));
                            cone.nodes.len() as u32 - 1
                        }),
                        Operand::Slot(slot, _) => cone.position_of(*slot, arg),
                        Operand::Const(_) => continue,
                    };
                    cone.uses.push(position);
                }
            }
            at += 1;
        }
        cone.uses.hash(&mut state);
        cone.hash = state.finish();
        Some(cone)
    }

    fn position_of(&mut self, slot: u32, arg: &Operand) -> u32 {
        let is_it = |known: &Operand| matches!(known, Operand::Slot(of, _) if *of == slot);
        let at = self.slots.iter().position(is_it).unwrap_or_else(|| {
            self.slots.push(*arg);
            self.slots.len() - 1
        });
        at as u32
    }

    /// Whether two nodes are computed alike of tensors that lie alike.
    fn is_like(&self, other: &Cone, graph: &Graph, realized: &Realized) -> bool {
        let lies_alike = |a: ValueId, b: ValueId| {
            let is_input = |v: ValueId| graph.node(v).operator().is_none();
            is_input(a) == is_input(b) && realized.layout(graph, a) == realized.layout(graph, b)
        };
        let is_like = |(i, (&a, &b)): (usize, (&ValueId, &ValueId))| {
            let (x, y) = (graph.node(a), graph.node(b));
            (x.dtype, &x.shape) == (y.dtype, &y.shape)
                && match self.stored[i] {
                    true => lies_alike(a, b),
                    false => {
                        is_computed_alike(x, y)
                            && realized.is_inline_reduction(a) == realized.is_inline_reduction(b)
                    }
                }
        };
        let mut nodes = self.nodes.iter().zip(&other.nodes).enumerate();
        self.turns == other.turns
            && self.stored == other.stored
            && self.uses == other.uses
            && self.slots.len() == other.slots.len()
            && nodes.all(is_like)
    }
}

/// Whether loops over operators of a class load and compute, with no index to check and no state.
fn is_plain(class: Class) -> bool {
    matches!(
        class,
        Class::View | Class::Create | Class::Pointwise | Class::Reduce
    )
}

/// Whether two nodes are one operator, of operands of one kind each.
fn is_computed_alike(x: &Node, y: &Node) -> bool {
    let same = |pair: (&Operand, &Operand)| match pair {
        (Operand::Value(_), Operand::Value(_)) => true,
        (Operand::Slot(_, a), Operand::Slot(_, b)) => a.category() == b.category(),
        (Operand::Const(a), Operand::Const(b)) => {
            a.category() == b.category() && a.to_bits(DType::F64) == b.to_bits(DType::F64)
        }
        _ => false,
    };
    (x.precision, x.rounding, &x.op) == (y.precision, y.rounding, &y.op)
        && x.args.len() == y.args.len()
        && x.args.iter().zip(&y.args).all(same)
}

/// Loops of one node with the names of a like one.
fn renamed(nest: &LoopNest, graph: &Graph, from: &Cone, to: &Cone) -> LoopNest {
    let source_of = |v: ValueId| match graph.node(v).op {
        NodeOp::Input(n) => Source::Input(n),
        NodeOp::Op(_) => Source::Node(v),
    };
    let pairs = from.nodes.iter().zip(&to.nodes).zip(&from.stored);
    let pairs = pairs.filter(|(_, stored)| **stored);
    let names: FxHashMap<Source, Source> = pairs
        .map(|((&a, &b), _)| (source_of(a), source_of(b)))
        .collect();
    let source = |of: Source| names.get(&of).copied().unwrap_or(of);
    let number = |of: &Number| {
        let slot = |known: &Operand| match (known, &of.operand) {
            (Operand::Slot(a, _), Operand::Slot(b, _)) => a == b,
            _ => false,
        };
        let at = from.slots.iter().position(slot);
        let operand = at.map_or(of.operand, |at| to.slots[at]);
        Number { operand, ..*of }
    };
    LoopNest {
        node: to.nodes[0],
        body: Arc::new(nest.body.renamed(&source, &number)),
        ..nest.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::{lower_node, realize};
    use crate::policy::Policy;

    /// Of the nodes with loops, how many are like one before; the loops of each are as if it were alone.
    fn known(text: &str) -> usize {
        let graph: Graph = text.parse().expect("a graph");
        let realized = realize(&graph, &Policy::default());
        let mut nests = Nests::default();
        let mut found = 0;
        for id in (0..graph.nodes().len() as u32).map(ValueId) {
            if graph.node(id).operator().is_none() || !realized.is_stored(id) {
                continue;
            }
            let alone = lower_node(&graph, &realized, id, None, &mut Vec::new()).expect("loops");
            let cone = Cone::of(&graph, &realized, id, (false, None)).expect("plain loops");
            match nests.find(&graph, &realized, &cone) {
                Some((nest, _)) => {
                    assert_eq!(nest.to_string(), alone.to_string());
                    found += 1;
                }
                None => nests.insert(cone, (alone, None)),
            }
        }
        found
    }

    /// A sum of products, and a second one of `input` that is `product` of it.
    fn beside(input: &str, product: &str) -> usize {
        known(&format!(
            "
            %0: f32[8, 64] = input 0 [64, 1]
            %1: {input}
            %2: f32[64] = input 2 [1]
            %3: f32[8, 64] = mul(%0, %2)
            %4: f32[8, 64] = mul(%3, $0=2.0)
            %5: f32[8] = sum(%4) {{dims: [1], keepdim: false}}
            %6: f32[8, 64] = mul(%1, %2)
            %7: f32[8, 64] = {product}
            %8: f32[8] = sum(%7) {{dims: [1], keepdim: false}}
            return %5 %8"
        ))
    }

    #[test]
    fn names_and_slots_are_no_difference() {
        let input = "f32[8, 64] = input 1 [64, 1]";
        assert_eq!(beside(input, "mul(%6, $1=3.0)"), 1);
        assert_eq!(beside(input, "mul(%6, 3.0)"), 0);
        assert_eq!(beside(input, "mul(%6, $1=3)"), 0);
        assert_eq!(beside(input, "add(%6, $1=3.0)"), 0);
        // A tensor that is read twice, and one that lies otherwise.
        assert_eq!(beside(input, "mul(%6, %1)"), 0);
        assert_eq!(beside("f32[8, 64] = input 1 [1, 8]", "mul(%6, $1=3.0)"), 0);
    }
}
