//! The backward pass for a loss that does not depend on some of the results.
//!
//! Gradients are linear: what depends on the gradients of such results alone is 0, and never computed where operations are
//! differentiated one by one, so that 0 is not multiplied by an infinity.

use super::part::Nodes;
use crate::Tensor;
use crate::form::{Edge, FormLeaf, FormNode, Kind};
use crate::jit_fn::replay::{Place, Recorded, Slot, Source};
use crate::mode::{self, Mode};
use ferrotrace_kernels::op::Full;
use ferrotrace_kernels::{ArgMeta, Array, BinaryOp, Op};
use ferrotrace_runtime::{Error, Layout, Result, Scalar};
use smallvec::smallvec;
use std::sync::Arc;

/// Which gradients of results a value depends on.
#[derive(Clone, Copy, Debug, Default)]
struct Of {
    absent: bool,
    present: bool,
}

impl Of {
    fn is_zero(self) -> bool {
        self.absent && !self.present
    }
}

/// A trace whose arguments are in part gradients that are absent.
struct Rest<'a> {
    recorded: &'a Recorded,
    nodes: Nodes<'a>,
    leaves: Vec<Of>,
    /// What the nodes met so far depend on.
    of: Vec<Of>,
    /// What stands in the place of each: the other operand of an addition of zeros.
    instead: Vec<Edge>,
}

/// The trace of a backward pass whose arguments of these numbers are gradients that are absent, and its gradients. Nodes
/// keep their numbers.
pub(super) fn without(
    recorded: &Recorded,
    gradients: &[Option<Place>],
    absent: &dyn Fn(usize) -> Option<bool>,
) -> Result<(Recorded, Vec<Option<Place>>)> {
    let argument = |source: &Source| match source {
        Source::Argument(number) => absent(*number),
        Source::Constant(_) => None,
    };
    let of_leaf = |source: &Source| Of {
        absent: argument(source) == Some(true),
        present: argument(source) == Some(false),
    };
    let mut rest = Rest {
        recorded,
        nodes: Nodes::of(&recorded.form),
        leaves: recorded.sources.iter().map(of_leaf).collect(),
        of: Vec::with_capacity(recorded.form.nodes.len()),
        instead: Vec::with_capacity(recorded.form.nodes.len()),
    };
    let mut made = recorded.clone();
    for (leaf, _) in rest
        .leaves
        .iter()
        .enumerate()
        .filter(|(_, of)| of.is_zero())
    {
        let zeros = zeros(&recorded.form.leaves[leaf])?;
        made.form.leaves[leaf] = FormLeaf::of(&zeros);
        made.sources[leaf] = Source::Constant(zeros);
    }
    (made.form.nodes, made.form.edges, made.slots) = Default::default();
    for number in 0..recorded.form.nodes.len() {
        rest.add(number, &mut made)?;
    }
    let place = |place: &Place| match *place {
        Place::Node(n) if rest.of[n as usize].is_zero() => None,
        Place::Node(n) => match rest.instead[n as usize] {
            Edge::Node(n) => Some(Place::Node(n)),
            Edge::Leaf(n) => made.sources[n as usize].place(),
            Edge::Slot(_) => None,
        },
        Place::Argument(number) if absent(number) == Some(true) => None,
        ref other => Some(other.clone()),
    };
    let gradients = gradients.iter();
    let gradients = gradients.map(|g| g.as_ref().and_then(place)).collect();
    Ok((made, gradients))
}

impl Rest<'_> {
    fn depends(&self, edge: &Edge) -> Of {
        match *edge {
            Edge::Node(n) => self.of[n as usize],
            Edge::Leaf(n) => self.leaves[n as usize],
            Edge::Slot(_) => Of::default(),
        }
    }

    fn replaced(&self, edge: &Edge) -> Edge {
        match *edge {
            Edge::Node(n) => self.instead[n as usize],
            other => other,
        }
    }

    /// Adds a node to the trace that is made.
    fn add(&mut self, number: usize, made: &mut Recorded) -> Result<()> {
        let operands = self.nodes.operands(number);
        let all = operands.iter().map(|edge| self.depends(edge));
        let all = all.fold(Of::default(), |a, b| Of {
            absent: a.absent | b.absent,
            present: a.present | b.present,
        });
        let kind = &self.recorded.form.nodes[number].kind;
        let mut instead = Edge::Node(number as u32);
        if all.is_zero() {
            let zero = Scalar::Float(0.0);
            made.form.edges.push(Edge::Slot(zero.category()));
            made.slots.push(Slot::Fixed(zero));
            push(made, zeros_of(self.recorded, number)?);
        } else {
            let parts = operands.iter().filter(|edge| !self.depends(edge).is_zero());
            let parts: Vec<Edge> = parts.map(|edge| self.replaced(edge)).collect();
            let is_sum = *kind.op() == Op::from(BinaryOp::Add) && operands.len() == 2;
            if let ([part], true) = (&parts[..], is_sum) {
                instead = *part;
            }
            let operands = operands.iter().map(|edge| self.replaced(edge));
            made.form.edges.extend(operands);
            let slots = self.nodes.slots(number);
            made.slots.extend_from_slice(&self.recorded.slots[slots]);
            push(made, kind.clone());
        }
        self.of.push(all);
        self.instead.push(instead);
        Ok(())
    }
}

fn push(made: &mut Recorded, kind: Arc<Kind>) {
    let edges_end = made.form.edges.len() as u32;
    made.form.nodes.push(FormNode { kind, edges_end });
}

/// Zeros in the place of a node.
fn zeros_of(recorded: &Recorded, number: usize) -> Result<Arc<Kind>> {
    let kind = &recorded.form.nodes[number].kind;
    let full = Op::from(Full {
        shape: kind.shape.clone(),
        dtype: kind.dtype,
    });
    let (number, line) = (ArgMeta::Scalar(Scalar::Float(0.0)), recorded.lines[number]);
    let made = Kind::of(
        (full, None),
        &[number],
        &kind.device,
        kind.precision,
        line.location,
    );
    made.map_err(|(_, error)| error)
}

/// Zeros in the place of a leaf, one in memory.
fn zeros(leaf: &FormLeaf) -> Result<Array> {
    let zero = || Tensor::zeros(1, leaf.dtype, &leaf.device);
    let zero = mode::with_mode(Mode::Eager, zero).node().array();
    let zero = zero.ok_or_else(|| Error::internal("a zero was not stored"))?;
    let shape = leaf.layout.shape().clone();
    let strides = smallvec![0; shape.rank()];
    Ok(zero.with_layout(Layout::new(shape, strides, 0)))
}
