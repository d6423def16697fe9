//! Parts of a trace, as traces of their own.

use crate::form::{Edge, Form, FormLeaf, FormNode};
use crate::jit_fn::replay::{Place, Recorded, Slot, Source};
use rustc_hash::FxHashSet;

/// The nodes of a trace with the positions of their operands.
#[derive(Debug)]
pub(super) struct Nodes<'a> {
    form: &'a Form,
    /// Where the operands of each node begin among the edges, and its numbers among the slots.
    begin: Vec<(usize, usize)>,
}

impl<'a> Nodes<'a> {
    pub fn of(form: &'a Form) -> Nodes<'a> {
        let mut begin = vec![(0, 0)];
        let (mut edge, mut slot) = (0, 0);
        for (_, edges) in form.operands() {
            edge += edges.len();
            slot += edges.iter().filter(|e| matches!(e, Edge::Slot(_))).count();
            begin.push((edge, slot));
        }
        Nodes { form, begin }
    }

    pub fn len(&self) -> usize {
        self.form.nodes.len()
    }

    pub fn operands(&self, node: usize) -> &'a [Edge] {
        &self.form.edges[self.begin[node].0..self.begin[node + 1].0]
    }

    pub fn slots(&self, node: usize) -> std::ops::Range<usize> {
        self.begin[node].1..self.begin[node + 1].1
    }

    pub fn operand_nodes(&self, node: usize) -> impl Iterator<Item = usize> + 'a {
        self.operands(node).iter().filter_map(|edge| match edge {
            Edge::Node(n) => Some(*n as usize),
            _ => None,
        })
    }

    /// The nodes that `wanted` depend on, themselves included, without those that are `given` and what only these need.
    pub fn needed(&self, wanted: impl Iterator<Item = usize>, given: &[bool]) -> Vec<bool> {
        let mut needed = vec![false; self.len()];
        wanted.for_each(|node| needed[node] = true);
        for node in (0..self.len()).rev() {
            needed[node] &= !given[node];
            if needed[node] {
                self.operand_nodes(node).for_each(|n| needed[n] = true);
            }
        }
        needed
    }

    /// Which leaves these nodes read.
    pub fn leaves(&self, nodes: &[bool]) -> Vec<bool> {
        let mut read = vec![false; self.form.leaves.len()];
        for node in (0..self.len()).filter(|&n| nodes[n]) {
            for edge in self.operands(node) {
                if let Edge::Leaf(n) = *edge {
                    read[n as usize] = true;
                }
            }
        }
        read
    }
}

/// The numbers of the nodes among some places.
pub(super) fn nodes_of<'a>(
    places: impl IntoIterator<Item = &'a Place> + 'a,
) -> impl Iterator<Item = usize> + 'a {
    places.into_iter().filter_map(|place| match place {
        Place::Node(n) => Some(*n as usize),
        _ => None,
    })
}

impl Recorded {
    /// Puts the nodes in the order of recording, which `places` tell; their new numbers. What was recorded late, such as what
    /// a checkpoint computes again, is then planned to be computed late. `None` where they tell no order.
    pub(in crate::jit_fn) fn sort(&mut self, places: &[u32]) -> Option<Vec<u32>> {
        let mut order: Vec<u32> = (0..places.len() as u32).collect();
        order.sort_by_key(|&n| places[n as usize]);
        let mut new = vec![0; order.len()];
        for (number, &old) in (0..).zip(&order) {
            new[old as usize] = number;
        }
        let nodes = Nodes::of(&self.form);
        let (mut made, mut edges) = (Vec::with_capacity(order.len()), Vec::new());
        let (mut lines, mut slots) = (Vec::with_capacity(order.len()), Vec::new());
        for (number, &old) in (0..).zip(&order) {
            let old = old as usize;
            for edge in nodes.operands(old) {
                edges.push(match *edge {
                    Edge::Node(n) if new[n as usize] < number => Edge::Node(new[n as usize]),
                    Edge::Node(_) => return None,
                    other => other,
                });
            }
            made.push(FormNode {
                kind: self.form.nodes[old].kind.clone(),
                edges_end: edges.len() as u32,
            });
            lines.push(self.lines[old]);
            slots.extend_from_slice(&self.slots[nodes.slots(old)]);
        }
        (self.lines, self.slots) = (lines, slots);
        (self.form.nodes, self.form.edges) = (made, edges);
        let outputs = self.form.outputs.iter_mut();
        outputs.for_each(|n| *n = new[*n as usize]);
        self.form.outputs.sort_unstable();
        for place in &mut self.outputs {
            if let Place::Node(n) = place {
                *n = new[*n as usize];
            }
        }
        Some(new)
    }

    /// The part that gives `wanted`, where the values of the nodes `given`, as they lie in memory, are arguments from
    /// number `first` on.
    pub(super) fn part(
        &self,
        wanted: Vec<Place>,
        given: &[(u32, FormLeaf)],
        first: usize,
    ) -> Recorded {
        let nodes = Nodes::of(&self.form);
        let mut leaf_of = vec![None; nodes.len()];
        let mut is_given = vec![false; nodes.len()];
        let nodes_given = given.iter().map(|(node, _)| *node as usize);
        nodes_given.for_each(|node| is_given[node] = true);
        let needed = nodes.needed(nodes_of(&wanted), &is_given);
        let mut part = Recorded {
            form: Form {
                nodes: Vec::new(),
                edges: Vec::new(),
                leaves: Vec::new(),
                outputs: Vec::new(),
                device: self.form.device.clone(),
            },
            lines: Vec::new(),
            sources: Vec::new(),
            slots: Vec::new(),
            outputs: Vec::new(),
            draws: self.draws.clone(),
            // Gradient rules ask for sizes.
            generic: false,
        };
        let read = nodes.leaves(&needed);
        let mut leaf_number = vec![0; read.len()];
        for old in (0..read.len()).filter(|&n| read[n]) {
            leaf_number[old] = part.sources.len() as u32;
            part.form.leaves.push(self.form.leaves[old].clone());
            part.sources.push(self.sources[old].clone());
        }
        let readers = (0..nodes.len()).filter(|&n| needed[n]);
        let is_read: FxHashSet<usize> = readers.flat_map(|n| nodes.operand_nodes(n)).collect();
        for (number, (old, leaf)) in given.iter().enumerate() {
            let old = *old as usize;
            if is_read.contains(&old) {
                leaf_of[old] = Some(part.sources.len() as u32);
                part.form.leaves.push(leaf.clone());
                part.sources.push(Source::Argument(first + number));
            }
        }
        let mut node_number = vec![0; nodes.len()];
        for old in (0..nodes.len()).filter(|&n| needed[n]) {
            node_number[old] = part.form.nodes.len() as u32;
            let edge = |edge: &Edge| match *edge {
                Edge::Node(n) => match leaf_of[n as usize] {
                    Some(leaf) => Edge::Leaf(leaf),
                    None => Edge::Node(node_number[n as usize]),
                },
                Edge::Leaf(n) => Edge::Leaf(leaf_number[n as usize]),
                slot => slot,
            };
            part.form.edges.extend(nodes.operands(old).iter().map(edge));
            part.form.nodes.push(FormNode {
                kind: self.form.nodes[old].kind.clone(),
                edges_end: part.form.edges.len() as u32,
            });
            part.lines.push(self.lines[old]);
            let slots: &[Slot] = &self.slots[nodes.slots(old)];
            part.slots.extend_from_slice(slots);
        }
        let place = |place: Place| match place {
            Place::Node(n) => match given.iter().position(|(node, _)| *node == n) {
                Some(number) => Place::Argument(first + number),
                None => Place::Node(node_number[n as usize]),
            },
            other => other,
        };
        part.outputs = wanted.into_iter().map(place).collect();
        let mut outputs: Vec<u32> = nodes_of(&part.outputs).map(|n| n as u32).collect();
        outputs.sort_unstable();
        outputs.dedup();
        part.form.outputs = outputs;
        part
    }
}
