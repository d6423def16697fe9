//! The steps of a plan, and what each touches.

use crate::body::Source;
use crate::emit::{Emitted, Pointer};
use crate::graph::Graph;
use crate::lower::{Call, CallArg, Pieces};
use crate::policy::Policy;
use crate::schedule::Epilogue;
use ferrotrace_kernels::{ConvSpec, ValueId};

/// One step of a plan.
#[derive(Clone, Debug)]
pub enum Step {
    /// A generated kernel.
    Launch(Box<Emitted>),
    /// A ready-made kernel.
    Call(Call),
    /// A matrix product with generated kernels before or behind it, panel by panel.
    Template(Box<Template>),
}

/// A product, what computes an operand of every panel, and what follows it on every panel (scheduler T-08).
#[derive(Clone, Debug)]
pub struct Template {
    /// The product.
    pub call: Call,
    /// Whether others need the product, so that it is stored as a whole.
    pub stored: bool,
    /// What a device's library does instead of the kernel, where it takes the operands.
    pub epilogue: Option<Epilogue>,
    /// The kernel before it.
    pub before: Option<Before>,
    /// The kernel behind it.
    pub kernel: Option<Emitted>,
}

/// A kernel that computes an operand of a product, which is stored nowhere else.
#[derive(Clone, Debug)]
pub struct Before {
    /// The node computed.
    pub node: ValueId,
    /// The operand: 0 the left one, 1 the right one.
    pub operand: usize,
    /// Whether its rows are what panels of the product cut.
    pub by_rows: bool,
    /// The kernel.
    pub kernel: Emitted,
}

impl Step {
    /// The generated kernel, if there is one.
    pub fn kernel(&self) -> Option<&Emitted> {
        match self {
            Step::Launch(kernel) => Some(kernel),
            Step::Template(template) => template.kernel.as_ref(),
            Step::Call(_) => None,
        }
    }

    /// The generated kernel, if there is one, to be changed.
    pub(crate) fn kernel_mut(&mut self) -> Option<&mut Emitted> {
        match self {
            Step::Launch(kernel) => Some(kernel),
            Step::Template(template) => template.kernel.as_mut(),
            Step::Call(_) => None,
        }
    }

    /// The kernel that computes an operand of the step's product, if there is one.
    pub fn before(&self) -> Option<&Before> {
        match self {
            Step::Template(template) => template.before.as_ref(),
            _ => None,
        }
    }

    /// The call, if there is one.
    pub fn call(&self) -> Option<&Call> {
        match self {
            Step::Launch(_) => None,
            Step::Template(template) => Some(&template.call),
            Step::Call(call) => Some(call),
        }
    }
}

impl Template {
    /// Whether the product may pass through the memory of one of the kernel's results.
    pub(crate) fn may_lie_in(
        &self,
        node: ValueId,
        graph: &Graph,
        policy: &Policy,
        pieces: &Pieces,
    ) -> bool {
        let of = graph.node(node);
        let pair = (node, Source::Node(self.call.node));
        let shares = |kernel: &Emitted| kernel.in_place.contains(&pair);
        self.kernel.as_ref().is_some_and(shares)
            && (convolution(graph, self.call.node).is_some()
                || of.shape.numel() * of.dtype.size() < policy.thresholds.scratch_bytes)
            && !pieces.contains_key(&node)
    }
}

/// The attributes of a convolution, which takes no less memory in scratch than in a result.
pub(crate) fn convolution(graph: &Graph, node: ValueId) -> Option<&ConvSpec> {
    graph.node(node).operator()?.as_conv()
}

/// The buffers that a step reads, and the nodes that it stores.
pub(crate) fn accesses(step: &Step) -> (Vec<Source>, Vec<ValueId>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    if let Some(call) = step.call() {
        for arg in &call.args {
            if let CallArg::Window(source, _) = arg {
                reads.push(*source);
            }
        }
    }
    match step {
        Step::Call(call) => writes.push(call.node),
        Step::Template(template) if template.stored => writes.push(template.call.node),
        _ => {}
    }
    for pointer in step.kernel().iter().flat_map(|k| &k.pointers) {
        match *pointer {
            Pointer::Read(source) => reads.push(source),
            Pointer::Write(node) => writes.push(node),
        }
    }
    reads.extend(
        step.kernel()
            .iter()
            .flat_map(|k| k.updates.iter().map(|u| u.base.0)),
    );
    if let Step::Template(template) = step {
        // The product passes from panel to panel, and so does an operand that is computed.
        reads.retain(|s| *s != Source::Node(template.call.node));
        if let Some(before) = &template.before {
            reads.retain(|s| *s != Source::Node(before.node));
            let read = |pointer: &Pointer| match *pointer {
                Pointer::Read(source) => Some(source),
                Pointer::Write(_) => None,
            };
            reads.extend(before.kernel.pointers.iter().filter_map(read));
        }
    }
    (reads, writes)
}
