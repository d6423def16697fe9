//! Values that a reshape reads as rows of another length, in the middle of which their own rows end.

use super::Realized;
use crate::graph::{Graph, Node};
use crate::policy::Policy;
use ferrotrace_kernels::op::Slice;
use ferrotrace_kernels::{Class, Op, ValueId};
use ferrotrace_runtime::Shape;
use smallvec::SmallVec;

/// Values that are looked at most for whether one depends on where its rows end.
const MOST_READ: usize = 32;

/// The value that a reshape reads as rows of another length, and the views between, if the value has no memory and depends on
/// where its rows end: what is padded, joined or scaled row by row does. A kernel that computed it where it is read would find
/// row and column of each element by a division. Scores of relative positions, which a padding and a reshape skew, are such
/// values.
pub(super) fn read_as_other_rows(
    graph: &Graph,
    realized: &Realized,
    id: ValueId,
    policy: &Policy,
) -> Option<(ValueId, SmallVec<[ValueId; 4]>)> {
    let node = graph.node(id);
    let enough = node.shape.numel() >= policy.thresholds.tiled_elements;
    if !policy.target.library.is_complete() || !enough || !reshapes(node) {
        return None;
    }
    let mut between: SmallVec<[ValueId; 4]> = SmallVec::new();
    let mut base = graph.operands(id).next()?;
    while realized.window(graph, base).is_none() && keeps_order(graph, base) {
        between.push(base);
        base = graph.operands(base).next()?;
    }
    if realized.window(graph, base).is_some() {
        return None;
    }
    let mut lengths = lengths(&graph.node(base).shape);
    for &view in between.iter().rev() {
        let from = graph.operands(view).next()?;
        pass(graph.node(view), &graph.node(from).shape, &mut lengths);
    }
    let depends = ends_within(&lengths, &node.shape) && depends_on_rows(graph, realized, base);
    depends.then_some((base, between))
}

fn reshapes(node: &Node) -> bool {
    let view = node.operator().and_then(Op::as_view);
    view.is_some_and(|view| view.is_reshape())
}

/// The part of one dimension that a view takes, of an operand of a shape.
fn part(node: &Node, from: &Shape) -> Option<Slice> {
    let view = node.operator().and_then(Op::as_view)?;
    view.window(from).filter(|part| part.step == 1)
}

/// Whether a value has the elements of its operand in their order, of which some may be left out, or moves those of one
/// dimension.
fn keeps_order(graph: &Graph, id: ValueId) -> bool {
    let node = graph.node(id);
    let mut operands = graph.operands(id);
    let (Some(x), None) = (operands.next(), operands.next()) else {
        return false;
    };
    let from = &graph.node(x).shape;
    let flat = node.shape.rank() == 1 && from.rank() == 1;
    let moves = node.is(Op::is_view) || node.is_of(Class::Arrange);
    reshapes(node) || part(node, from).is_some() || flat && moves
}

/// How many elements a row has, a matrix, and so on, of a dense tensor.
fn lengths(shape: &Shape) -> SmallVec<[usize; 4]> {
    let inner = shape.iter().skip(1).rev();
    let lengths = inner.scan(1usize, |length, &n| {
        *length = length.saturating_mul(n);
        Some(*length)
    });
    lengths.collect()
}

/// The lengths of a value's rows in what a view makes of its elements, which are in their order: those within the dimension
/// of which the view takes a part stay, those of whole ones shrink with it.
fn pass(view: &Node, from: &Shape, lengths: &mut SmallVec<[usize; 4]>) {
    if let Some(part) = part(view, from) {
        let whole: usize = from[part.dim..].iter().product();
        let left: usize = view.shape[part.dim..].iter().product();
        for length in lengths.iter_mut().filter(|length| **length >= whole) {
            *length = *length / whole.max(1) * left;
        }
    } else if !reshapes(view) {
        lengths.push(from.numel());
    }
}

/// Whether rows of these lengths end in the middle of rows of a shape.
fn ends_within(lengths: &[usize], shape: &Shape) -> bool {
    let other = self::lengths(shape);
    let fits = |a: usize, b: usize| a.max(b).is_multiple_of(a.min(b).max(1));
    lengths.iter().any(|&a| other.iter().any(|&b| !fits(a, b)))
}

/// Whether a value is computed of more than the elements at its own place of dense tensors, and numbers.
fn depends_on_rows(graph: &Graph, realized: &Realized, base: ValueId) -> bool {
    let shape = &graph.node(base).shape;
    let mut met: SmallVec<[ValueId; 16]> = SmallVec::from_slice(&[base]);
    let mut next = 0;
    while let Some(&v) = met.get(next) {
        next += 1;
        let node = graph.node(v);
        if met.len() > MOST_READ {
            return false;
        }
        if node.shape.numel() <= 1 {
            continue;
        }
        match realized.window(graph, v) {
            Some((_, layout)) if node.shape == *shape && layout.is_contiguous() => {}
            None if node.shape == *shape && node.is_of(Class::Pointwise) => {
                for operand in graph.operands(v) {
                    if !met.contains(&operand) {
                        met.push(operand);
                    }
                }
            }
            _ => return true,
        }
    }
    false
}
