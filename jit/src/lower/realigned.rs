//! Values that a reshape, or a part of what one gives, reads as rows of another length, in the middle of which their own rows
//! end.

use super::{MOST_READ, Realized};
use crate::graph::{Graph, Node};
use crate::policy::Policy;
use ferrotrace_kernels::op::Slice;
use ferrotrace_kernels::{Class, Op, ValueId};
use ferrotrace_runtime::{Layout, Shape};
use smallvec::SmallVec;

/// How many times the elements that are read a value may have that is stored for them.
const MOST_STORED: usize = 4;

/// The value that a reshape reads as rows of another length, and the views in front of it, if the value has no memory and depends on
/// where its rows end: what is padded, joined or scaled row by row does. A kernel that computed it where it is read would find
/// row and column of each element by a division. Scores of relative positions, which a padding and a reshape skew, are such
/// values. So is what a reshape joins, of which a part begins or ends within the rows that were joined.
pub(super) fn read_as_other_rows(
    graph: &Graph,
    realized: &Realized,
    id: ValueId,
    policy: &Policy,
) -> Option<(ValueId, SmallVec<[ValueId; 4]>)> {
    let node = graph.node(id);
    let of = graph.operands(id).next()?;
    if !reshapes(node) && part(node, &graph.node(of).shape).is_none() {
        return None;
    }
    let mut between: SmallVec<[ValueId; 4]> = SmallVec::new();
    let mut base = of;
    while realized.window(graph, base).is_none() && keeps_order(graph, base) {
        between.push(base);
        base = graph.operands(base).next()?;
    }
    let window = realized.window(graph, base);
    // What is repeated is stored as the first reshape reads it.
    let stored = match &window {
        Some((_, layout)) if repeats(layout) => *between.last()?,
        _ => base,
    };
    let views = [id].into_iter().chain(between.iter().copied());
    if !views.clone().any(|view| reshapes(graph.node(view))) {
        return None;
    }
    let mut rows = Rows::of(&graph.node(base).shape, stored);
    for view in views.rev() {
        let from = graph.operands(view).next()?;
        rows.pass(view, graph.node(view), &graph.node(from).shape);
    }
    let owner = rows.end_within(&node.shape, policy.thresholds.unrolled)?;
    let depends = match owner == base {
        true => window.is_none() && depends_on_rows(graph, realized, base),
        false => owner != id,
    };
    let elements = graph.node(owner).shape.numel();
    let few = elements > MOST_STORED.saturating_mul(node.shape.numel());
    // Views behind what is stored are computed with it.
    let front = between.iter().position(|&v| v == owner);
    between.truncate(front.unwrap_or(between.len()));
    (depends && !few).then_some((owner, between))
}

/// Whether an element of memory is more than one of a layout.
fn repeats(layout: &Layout) -> bool {
    let mut dims = layout.shape().iter().zip(layout.strides());
    dims.any(|(&n, &stride)| n > 1 && stride == 0)
}

/// An operand of a padding or a join along which rows lie that a reshape joins, and that are computed: interleaved values that are
/// padded, say. Behind elements that are put before it a row of the result begins at another place than theirs, and each element
/// would find its own by a division.
pub(super) fn joined_rows(graph: &Graph, realized: &Realized, id: ValueId) -> Option<ValueId> {
    let node = graph.node(id);
    if !node.is_of(Class::Arrange) {
        return None;
    }
    graph.operands(id).find(|&operand| {
        let shape = &graph.node(operand).shape;
        let (row, other) = (shape.last(), node.shape.last());
        let moved = shape.rank() == node.shape.rank() && row != other;
        moved && row.is_some_and(|&row| joins_rows(graph, realized, operand, row))
    })
}

/// Whether rows of `row` elements of a value are computed of several that a reshape joins.
fn joins_rows(graph: &Graph, realized: &Realized, id: ValueId, row: usize) -> bool {
    let shape = &graph.node(id).shape;
    let mut met: SmallVec<[ValueId; 16]> = SmallVec::from_slice(&[id]);
    let mut next = 0;
    while let Some(&v) = met.get(next) {
        next += 1;
        let node = graph.node(v);
        if met.len() > MOST_READ || node.shape != *shape || realized.window(graph, v).is_some() {
            continue;
        }
        let of = graph.operands(v).next();
        if let Some(of) = of.filter(|_| reshapes(node)) {
            let inner = graph.node(of).shape.last().copied().unwrap_or(1);
            if realized.window(graph, of).is_none() && 1 < inner && inner < row {
                return true;
            }
        } else if node.is_of(Class::Pointwise) {
            met.extend(graph.operands(v));
        }
    }
    false
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

/// Rows of a value in what views make of its elements, which are in their order.
struct Rows {
    /// How many elements a row has, a matrix, and so on, and the value that would be stored for their sake: one that moves
    /// elements has rows of its own.
    lengths: SmallVec<[(usize, ValueId); 4]>,
    /// The value of rows within which a part begins or ends.
    cut: Option<ValueId>,
}

impl Rows {
    fn of(shape: &Shape, value: ValueId) -> Rows {
        let lengths = lengths(shape).into_iter().map(|length| (length, value));
        Rows {
            lengths: lengths.collect(),
            cut: None,
        }
    }

    /// The rows behind a view. Those within the dimension of which it takes a part stay, unless the part lies within one of them;
    /// those of whole ones shrink with it.
    fn pass(&mut self, id: ValueId, view: &Node, from: &Shape) {
        if let Some(part) = part(view, from) {
            let whole: usize = from[part.dim..].iter().product();
            let left: usize = view.shape[part.dim..].iter().product();
            let inner = whole / from[part.dim].max(1);
            let first = part.span(from).0 * inner;
            let last = (first + left).saturating_sub(1);
            for (length, value) in &mut self.lengths {
                let row = (*length).max(1);
                let fits = first.is_multiple_of(row) && left.is_multiple_of(row);
                if row >= whole {
                    *length = row / whole.max(1) * left;
                } else if first / row == last / row {
                    *length = left;
                } else if inner == 1 && !fits {
                    self.cut = Some(*value);
                }
            }
        } else if !reshapes(view) {
            self.lengths.push((from.numel(), id));
        }
    }

    /// The value whose rows end in the middle of rows of a shape: the last that moves elements, if one does. Where rows are short,
    /// several are one loop.
    fn end_within(&self, shape: &Shape, short: usize) -> Option<ValueId> {
        let mut other = lengths(shape);
        if other.first().is_some_and(|&row| row >= short) {
            other.truncate(1);
        }
        let fits = |a: usize, b: usize| a.max(b).is_multiple_of(a.min(b).max(1));
        let ends = |length: usize| other.iter().any(|&b| !fits(length, b));
        let ending = self.lengths.iter().rev().find(|(length, _)| ends(*length));
        self.cut.or(ending.map(|&(_, value)| value))
    }
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
