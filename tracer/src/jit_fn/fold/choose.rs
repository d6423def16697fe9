//! Which values of a traced function are computed of constants alone, and which of them are worth keeping.

use crate::form::{Edge, Form, FormLeaf};
use ferrotrace_kernels::{Array, Class, Op};
use ferrotrace_runtime::Scalar;
use std::ops::Range;

/// A trace, with what in it is the same at every call.
#[derive(Debug)]
pub(super) struct Trace<'a> {
    pub form: &'a Form,
    /// For each leaf its data, if it is a constant.
    pub constants: Vec<Option<&'a Array>>,
    /// For each number its value, if it is the same at every call.
    pub numbers: Vec<Option<Scalar>>,
    /// For each number a value to estimate with.
    pub examples: Vec<Scalar>,
    /// Where each node's operands stand among the edges.
    pub edges: Vec<Range<usize>>,
    /// The first number of each node.
    pub first_number: Vec<usize>,
}

/// What a node is computed of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    /// Something that may differ from call to call: an argument, or what is drawn.
    Arguments,
    /// Numbers alone: code generates it where it is used (codegen B3.9: values of constants are kept).
    Nothing,
    /// Constants.
    Constants,
}

/// A value that may be computed once.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub node: usize,
    pub bytes: usize,
    /// The operations that it is computed by, itself the last.
    pub cone: Vec<usize>,
    /// The leaves that they read.
    pub leaves: Vec<usize>,
}

impl<'a> Trace<'a> {
    /// The trace of this form.
    pub fn new(
        form: &'a Form,
        constants: Vec<Option<&'a Array>>,
        numbers: Vec<Option<Scalar>>,
        examples: Vec<Scalar>,
    ) -> Trace<'a> {
        let (mut edges, mut first_number) = (Vec::new(), Vec::new());
        let (mut start, mut number) = (0, 0);
        for (node, of) in form.operands() {
            first_number.push(number);
            number += of.iter().filter(|e| matches!(e, Edge::Slot(_))).count();
            edges.push(start..node.edges_end as usize);
            start = node.edges_end as usize;
        }
        Trace {
            form,
            constants,
            numbers,
            examples,
            edges,
            first_number,
        }
    }

    pub fn len(&self) -> usize {
        self.form.nodes.len()
    }

    pub fn op(&self, node: usize) -> &'a Op {
        self.form.nodes[node].kind.op()
    }

    /// What the user calls the operator of a node: a cast to the type that its operand has makes that dense.
    pub fn name(&self, node: usize) -> &'static str {
        let (op, of) = (self.op(node), self.operands(node).first());
        let from = of.and_then(|of| match *of {
            Edge::Node(n) => Some(self.form.nodes[n as usize].kind.dtype),
            Edge::Leaf(n) => Some(self.form.leaves[n as usize].dtype),
            Edge::Slot(_) => None,
        });
        match op.as_cast() {
            Some(to) if from == Some(to) => "contiguous",
            _ => op.name(),
        }
    }

    pub fn operands(&self, node: usize) -> &'a [Edge] {
        &self.form.edges[self.edges[node].clone()]
    }

    /// The numbers of a node, by position among the trace's.
    pub fn numbers_of(&self, node: usize) -> Range<usize> {
        let first = self.first_number[node];
        let next = self.first_number.get(node + 1);
        first..next.copied().unwrap_or(self.numbers.len())
    }

    /// Whether the node only looks at its operand. A reshape that was recorded of data is a copy: where it is none, its
    /// layout was computed at once.
    pub fn is_view(&self, node: usize) -> bool {
        let op = self.op(node);
        let copies = |layout: &FormLeaf| {
            let shape = &self.form.nodes[node].kind.shape;
            layout.layout.reshape(shape).is_none()
        };
        let view = op.as_view();
        match (view.filter(|view| view.is_reshape()), self.operands(node)) {
            (Some(_), [Edge::Leaf(leaf)]) => !copies(&self.form.leaves[*leaf as usize]),
            _ => view.is_some(),
        }
    }

    /// Which nodes a run computes if the values of `kept` are there.
    pub fn needed(&self, kept: &[bool]) -> Vec<bool> {
        let mut needed = vec![false; self.len()];
        for &output in &self.form.outputs {
            needed[output as usize] = true;
        }
        for node in (0..self.len()).rev().filter(|&n| !kept[n]) {
            if needed[node] {
                self.operand_nodes(node).for_each(|n| needed[n] = true);
            }
        }
        for (needed, kept) in needed.iter_mut().zip(kept) {
            *needed &= !kept;
        }
        needed
    }

    pub fn operand_nodes(&self, node: usize) -> impl Iterator<Item = usize> {
        self.operands(node).iter().filter_map(|edge| match edge {
            Edge::Node(n) => Some(*n as usize),
            _ => None,
        })
    }

    fn sources(&self) -> Vec<Of> {
        let mut of: Vec<Of> = Vec::with_capacity(self.len());
        for node in 0..self.len() {
            let mut number = self.first_number[node];
            let mut operand = |edge: &Edge| match *edge {
                Edge::Node(n) => of[n as usize],
                Edge::Leaf(n) if self.constants[n as usize].is_some() => Of::Constants,
                Edge::Leaf(_) => Of::Arguments,
                Edge::Slot(_) => {
                    number += 1;
                    match self.numbers[number - 1] {
                        Some(_) => Of::Nothing,
                        None => Of::Arguments,
                    }
                }
            };
            let mut all = Of::Nothing;
            for edge in self.operands(node) {
                all = match operand(edge) {
                    Of::Arguments => Of::Arguments,
                    source if all != Of::Arguments => all.max(source),
                    _ => all,
                };
            }
            if self.op(node).class() == Class::Random {
                all = Of::Arguments;
            }
            of.push(all);
        }
        of
    }

    /// The values that a run would use, are computed of constants alone, are no larger than the constants that they are
    /// computed of (codegen B3.9: values of constants are kept), and cost more than reading them. In order of computation.
    ///
    /// The results of the function are not among them: their memory is the caller's. Nor are views, which cost nothing.
    pub fn candidates(&self) -> Vec<Candidate> {
        let of = self.sources();
        if !of.contains(&Of::Constants) {
            return Vec::new();
        }
        let mut dear: Vec<bool> = Vec::with_capacity(self.len());
        for node in 0..self.len() {
            let operands = self.operand_nodes(node).any(|n| dear[n]);
            dear.push(
                operands || !self.is_view(node) && is_dear(self.op(node), self.keeps_dtype(node)),
            );
        }
        let mut needed = vec![false; self.len()];
        let mut result = vec![false; self.len()];
        // Whether something that uses the value needs it in memory.
        let mut stored = vec![false; self.len()];
        for &output in &self.form.outputs {
            (needed[output as usize], result[output as usize]) = (true, true);
        }
        let mut found = Vec::new();
        let mut cones = Cones::new(self);
        for node in (0..self.len()).rev().filter(|&n| of[n] != Of::Nothing) {
            if !needed[node] {
                continue;
            }
            let view = self.is_view(node);
            if of[node] == Of::Constants && !view && !result[node] {
                let bytes = self.form.bytes(node);
                let worth = |read: usize| dear[node] || stored[node] || read > bytes;
                let cone = cones.of(node);
                if let Some((cone, leaves)) = cone.filter(|_| bytes > 0) {
                    let read = self.constant_bytes(&leaves);
                    if bytes <= read && worth(read) {
                        found.push(Candidate {
                            node,
                            bytes,
                            cone,
                            leaves,
                        });
                        continue;
                    }
                }
            }
            let memory = if view {
                stored[node]
            } else {
                self.op(node).class().reads_memory()
            };
            for operand in self.operand_nodes(node) {
                needed[operand] = true;
                stored[operand] |= memory;
            }
        }
        found.reverse();
        found
    }

    /// Whether the result has its first operand's dtype: of a cast, whether it is a copy.
    fn keeps_dtype(&self, node: usize) -> bool {
        let of = match self.operands(node) {
            [Edge::Node(n), ..] => self.form.nodes[*n as usize].kind.dtype,
            [Edge::Leaf(n), ..] => self.form.leaves[*n as usize].dtype,
            _ => return false,
        };
        of == self.form.nodes[node].kind.dtype
    }

    /// Bytes of constants: of each buffer at most what it has.
    pub fn constant_bytes(&self, leaves: &[usize]) -> usize {
        let mut seen: Vec<(&Array, usize)> = Vec::new();
        for array in leaves.iter().filter_map(|&leaf| self.constants[leaf]) {
            let window = array.layout.span().len() * array.dtype.size();
            match seen.iter_mut().find(|(a, _)| a.buffer.same(&array.buffer)) {
                Some((_, bytes)) => *bytes += window,
                None => seen.push((array, window)),
            }
        }
        let of = |(array, bytes): &(&Array, usize)| (*bytes).min(array.buffer.bytes());
        seen.iter().map(of).sum()
    }
}

/// Finds what values are computed by, for as long as that is linear in the trace.
struct Cones<'a, 'b> {
    trace: &'b Trace<'a>,
    /// The value that met each node last.
    met: Vec<usize>,
    met_leaf: Vec<usize>,
    budget: usize,
}

impl<'a, 'b> Cones<'a, 'b> {
    fn new(trace: &'b Trace<'a>) -> Cones<'a, 'b> {
        Cones {
            trace,
            met: vec![usize::MAX; trace.len()],
            met_leaf: vec![usize::MAX; trace.constants.len()],
            budget: 8 * trace.len() + 64,
        }
    }

    /// The operations and the leaves of a node, both in order.
    fn of(&mut self, node: usize) -> Option<(Vec<usize>, Vec<usize>)> {
        let (mut cone, mut leaves) = (vec![node], Vec::new());
        self.met[node] = node;
        let mut next = 0;
        while let Some(&at) = cone.get(next) {
            next += 1;
            for edge in self.trace.operands(at) {
                match *edge {
                    Edge::Node(n) if self.met[n as usize] != node => {
                        self.met[n as usize] = node;
                        cone.push(n as usize);
                    }
                    Edge::Leaf(n) if self.met_leaf[n as usize] != node => {
                        self.met_leaf[n as usize] = node;
                        leaves.push(n as usize);
                    }
                    _ => {}
                }
            }
            self.budget = self.budget.checked_sub(1)?;
        }
        cone.sort_unstable();
        leaves.sort_unstable();
        Some((cone, leaves))
    }
}

/// Whether computing the operator at each use costs more than reading a kept result: cheap functions of an element are
/// computed by the kernel that reads the element anyway. `same` says that the dtype is the operand's: a cast is a copy then.
fn is_dear(op: &Op, same: bool) -> bool {
    !op.entry().is_light() || same && op.as_cast().is_some()
}
