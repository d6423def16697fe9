//! From results that a closure recorded to a body: its operations, and what it captured.

use super::body::{Body, Output, Slot};
use crate::Tensor;
use crate::form::{Edge, Form, FormLeaf, FormNode, Kind, Line};
use crate::node::handle::Handle;
use crate::node::{Draw, Inputs, NodeArc, NodeInput, State, Status};
use ferrotrace_runtime::{Device, Error, Layout, Result};
use rustc_hash::FxHashMap;
use std::sync::Arc;

type Address = *const crate::node::Node;

/// What the bodies that one trace recorded read from outside of it.
pub(crate) struct Gather {
    /// The trace.
    trace: u64,
    /// How many operands have stand-ins; captured tensors come behind them.
    stand_ins: usize,
    /// The tensors captured, each once.
    pub captured: Vec<Tensor>,
    numbers_of: FxHashMap<Address, u32>,
    /// The numbers that the bodies hold.
    pub numbers: Vec<NodeInput>,
}

/// A pending operation of the trace.
struct Met {
    node: NodeArc,
    inputs: Inputs,
}

impl Gather {
    pub fn new(trace: u64, stand_ins: usize) -> Gather {
        Gather {
            trace,
            stand_ins,
            captured: Vec::new(),
            numbers_of: FxHashMap::default(),
            numbers: Vec::new(),
        }
    }

    /// A collection that begins with the tensors captured by another.
    pub fn after(trace: u64, stand_ins: usize, captured: Vec<Tensor>) -> Gather {
        let mut gather = Gather::new(trace, stand_ins);
        for (tensor, number) in captured.iter().zip(stand_ins as u32..) {
            gather
                .numbers_of
                .entry(NodeArc::as_ptr(tensor.node()))
                .or_insert(number);
        }
        gather.captured = captured;
        gather
    }

    /// The operations of the trace that some results need, in the order of recording.
    fn operations(&self, results: &[Tensor]) -> Result<Vec<Met>> {
        let mut met: FxHashMap<Address, Option<Met>> = FxHashMap::default();
        let mut stack: Vec<NodeArc> = results.iter().map(|result| result.node().clone()).collect();
        while let Some(node) = stack.pop() {
            let facts = &node.facts;
            let own = facts.trace == self.trace && !facts.is_argument;
            if !own || node.status() != Status::Pending || met.contains_key(&NodeArc::as_ptr(&node))
            {
                continue;
            }
            let inputs = match &*node.state() {
                State::Recorded(inputs) => inputs.clone(),
                _ => {
                    return Err(Error::internal(
                        "another thread computes what a body recorded",
                    ));
                }
            };
            for input in &inputs {
                if let NodeInput::Tensor(of) = input {
                    stack.push(of.clone());
                }
            }
            met.insert(NodeArc::as_ptr(&node), Some(Met { node, inputs }));
        }
        let mut found: Vec<Met> = met.into_values().flatten().collect();
        // Places are counted modulo 2³².
        let first = found.first().map_or(0, |met| met.node.facts.place);
        found.sort_unstable_by_key(|met| met.node.facts.place.wrapping_sub(first) as i32);
        Ok(found)
    }

    /// The number of the operand for a captured tensor or a stand-in.
    pub fn operand(&mut self, node: &NodeArc) -> u32 {
        let facts = &node.facts;
        if facts.is_argument && facts.trace == self.trace {
            return facts.place;
        }
        let next = (self.stand_ins + self.captured.len()) as u32;
        let captured = &mut self.captured;
        *self
            .numbers_of
            .entry(NodeArc::as_ptr(node))
            .or_insert_with(|| {
                captured.push(Tensor::of_handle(Handle::again(node)));
                next
            })
    }

    /// The number of the operand for a value with a history. The same value with another history is another operand.
    pub fn operand_of(&mut self, tensor: &Tensor) -> u32 {
        let operand = self.operand(tensor.node());
        let Some(place) = (operand as usize).checked_sub(self.stand_ins) else {
            return operand;
        };
        let Some(captured) = self.captured.get_mut(place) else {
            // The stand-in of a gradient.
            return operand;
        };
        match (captured.history(), tensor.history()) {
            (None, _) => *captured = tensor.clone(),
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) => {}
            _ => {
                self.captured.push(tensor.clone());
                return (self.stand_ins + self.captured.len() - 1) as u32;
            }
        }
        operand
    }

    /// The body that gives these results.
    ///
    /// # Errors
    /// A result carries an error.
    pub fn body(&mut self, results: &[Tensor]) -> Result<Body> {
        results.iter().try_for_each(Tensor::check)?;
        let operations = self.operations(results)?;
        let of = operations.iter().zip(0u32..);
        let nodes: FxHashMap<Address, u32> =
            of.map(|(met, n)| (NodeArc::as_ptr(&met.node), n)).collect();
        let mut made = Made::new(results, self);
        for met in &operations {
            for input in &met.inputs {
                let edge = match input {
                    NodeInput::Tensor(node) => match nodes.get(&NodeArc::as_ptr(node)) {
                        Some(&n) => Edge::Node(n),
                        None => Edge::Leaf(made.leaf(node, self)),
                    },
                    number => made.number(number, self)?,
                };
                made.form.edges.push(edge);
            }
            let facts = &met.node.facts;
            made.form.nodes.push(FormNode {
                kind: facts.kind.clone(),
                edges_end: made.form.edges.len() as u32,
            });
            made.lines.push(Line {
                called: facts.kind.called(),
                location: facts.location,
            });
        }
        let mut outputs = Vec::with_capacity(results.len());
        for result in results {
            outputs.push(match nodes.get(&NodeArc::as_ptr(result.node())) {
                Some(&n) => Output::Node(n),
                None => Output::Operand(self.operand(result.node())),
            });
        }
        let stored = outputs.iter().filter_map(|output| match output {
            Output::Node(n) => Some(*n),
            Output::Operand(_) => None,
        });
        made.form.outputs = stored.collect();
        made.form.outputs.sort_unstable();
        made.form.outputs.dedup();
        Ok(Body::new(
            made.form,
            made.lines,
            made.leaves,
            made.slots,
            outputs,
        ))
    }
}

/// A body that is being made.
struct Made {
    form: Form,
    lines: Vec<Line>,
    leaves: Vec<u32>,
    leaf_of: FxHashMap<u32, u32>,
    slots: Vec<Slot>,
}

impl Made {
    fn new(results: &[Tensor], _: &Gather) -> Made {
        let device = results.first().map_or(Device::cpu(), Tensor::device);
        let form = Form {
            nodes: Vec::new(),
            edges: Vec::new(),
            leaves: Vec::new(),
            outputs: Vec::new(),
            device,
        };
        Made {
            form,
            lines: Vec::new(),
            leaves: Vec::new(),
            leaf_of: FxHashMap::default(),
            slots: Vec::new(),
        }
    }

    fn leaf(&mut self, node: &NodeArc, gather: &mut Gather) -> u32 {
        let operand = gather.operand(node);
        let next = self.leaves.len() as u32;
        let leaf = *self.leaf_of.entry(operand).or_insert(next);
        if leaf == next {
            let Kind {
                shape,
                dtype,
                device,
                ..
            } = &*node.facts.kind;
            self.leaves.push(operand);
            self.form.leaves.push(FormLeaf {
                layout: Layout::contiguous(shape.clone()),
                dtype: *dtype,
                device: device.clone(),
            });
        }
        leaf
    }

    fn number(&mut self, number: &NodeInput, gather: &mut Gather) -> Result<Edge> {
        let scalar = number.scalar();
        let scalar = scalar.ok_or_else(|| Error::internal("a tensor stands for a number"))?;
        self.slots.push(match number {
            NodeInput::Draw(draw) if draw.index < Draw::ELSEWHERE => Slot::Draw {
                draw: draw.index,
                offset: draw.offset,
            },
            other => {
                gather.numbers.push(other.clone());
                Slot::Number(gather.numbers.len() as u32 - 1)
            }
        });
        Ok(Edge::Slot(scalar.category()))
    }
}
