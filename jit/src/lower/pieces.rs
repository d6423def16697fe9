//! Concatenations and paddings without copies: what is only computed to be a part of a larger result is written
//! straight into its window of it (ir N1, N3).

use super::Realized;
use crate::graph::{Graph, NodeOp};
use crate::policy::Policy;
use crate::simplify::are_better_apart;
use ferrotrace_kernels::op::Pad;
use ferrotrace_kernels::{Class, Op, Operand, ValueId, eager};
use ferrotrace_runtime::{DType, Layout, Shape, Strides};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Where a stored value lies in another's memory.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The value whose memory it is.
    pub whole: ValueId,
    /// The window, in elements of that memory.
    pub window: Layout,
}

/// A part of a concatenation or padding.
struct Part {
    /// What it is a reshape of.
    base: ValueId,
    /// Where the base would lie; `None` where it cannot be redirected.
    window: Option<Layout>,
    bytes: u64,
}

/// Concatenations of which another one has more elements than there are, along another dimension: edges of an image that are
/// padded by what is next to them. Joined in one kernel of the CPU, each part would choose among all parts of the first.
pub(super) fn joined_again(graph: &Graph) -> FxHashSet<ValueId> {
    let mut found = FxHashSet::default();
    let cat = |v: ValueId| graph.node(v).operator().and_then(Op::as_cat);
    let nodes = (0..graph.nodes().len()).map(|i| ValueId(i as u32));
    for (node, dim) in nodes.filter_map(|v| Some((v, cat(v)?.dim))) {
        let mut met: SmallVec<[(ValueId, usize); 4]> = SmallVec::new();
        for operand in graph.operands(node) {
            let base = base(graph, operand);
            if cat(base).is_none_or(|inner| inner.dim == dim) {
                continue;
            }
            let elements = graph.node(operand).shape.numel();
            match met.iter_mut().find(|(of, _)| *of == base) {
                Some((_, read)) => *read += elements,
                None => met.push((base, elements)),
            }
        }
        let again = |(of, read): &&(ValueId, usize)| *read > graph.node(*of).shape.numel();
        found.extend(met.iter().filter(again).map(|(of, _)| *of));
    }
    found
}

/// What a value is a view of.
fn base(graph: &Graph, mut v: ValueId) -> ValueId {
    while graph.node(v).operator().is_some_and(Op::is_view)
        && let Some(of) = graph.operands(v).next()
    {
        v = of;
    }
    v
}

/// Decides for each stored concatenation whether its parts are written in place. Parts that cannot be are copied; all
/// parts are copied where that moves fewer bytes than reading stored parts in a kernel that writes the whole. What is padded
/// is written in place if it would be stored: then only what surrounds it is left to fill. On a device, whose library copies
/// nothing into a part of a result, all parts are written in place, or none.
pub(super) fn place(graph: &Graph, realized: &mut Realized, users: &[u32], policy: &Policy) {
    if !policy.target.pitched_results {
        return;
    }
    let copies = policy.target.library.is_complete();
    for i in 0..graph.nodes().len() {
        let (id, node) = (ValueId(i as u32), graph.node(ValueId(i as u32)));
        if !realized.stored[i] || realized.pieces.contains_key(&id) {
            continue;
        }
        let Some(op) = node.operator() else { continue };
        let parts = match (op.as_cat(), op.as_pad()) {
            (Some(cat), _) => parts(graph, (realized, copies), users, id, cat.dim),
            (_, Some(Pad(pads))) if copies => padded(graph, realized, users, id, pads),
            _ => continue,
        };
        // Parts that kernels store anyway and that can all be placed leave nothing for a kernel of the whole to do.
        let nothing_left = |part: &Part| {
            part.window.is_some()
                && (realized.is_stored(part.base) || ends_reduction(graph, realized, part.base))
        };
        let least = i128::from(policy.thresholds.cat_bytes) * parts.len() as i128;
        let placed = |part: &Part| part.window.is_some() || part.bytes == 0;
        let pays = match copies {
            // Lanes that select read rows one by one.
            true => gain(realized, &parts) >= least || gathers(graph, realized, id, &parts),
            false => parts.iter().all(placed) && are_better_apart(graph, id, &policy.thresholds),
        };
        if parts.is_empty() || !parts.iter().all(nothing_left) && !pays {
            continue;
        }
        realized.call[i] = true;
        for (operand, part) in graph.operands(id).zip(parts) {
            match part.window {
                Some(window) => {
                    realized.stored[part.base.0 as usize] = true;
                    let piece = Piece { whole: id, window };
                    realized.pieces.insert(part.base, piece);
                }
                None if realized.window(graph, operand).is_none() => {
                    realized.stored[operand.0 as usize] = true;
                }
                None => {}
            }
        }
    }
}

/// The parts of a concatenation, in order.
fn parts(
    graph: &Graph,
    (realized, copies): (&Realized, bool),
    users: &[u32],
    cat: ValueId,
    dim: usize,
) -> SmallVec<[Part; 8]> {
    let whole = graph.node(cat);
    let strides = whole.shape.strides();
    let mut found: SmallVec<[Part; 8]> = SmallVec::new();
    let mut start = 0;
    for operand in graph.operands(cat) {
        let shape = &graph.node(operand).shape;
        let offset = start * strides[dim] as usize;
        start += shape[dim];
        let window = Layout::new(shape.clone(), strides.clone(), offset);
        let known = |base: ValueId| found.iter().any(|part| part.base == base);
        let part = part(
            graph,
            (realized, copies),
            users,
            (operand, whole.dtype),
            window,
            known,
        );
        found.push(part);
    }
    found
}

/// What is padded by a number, if it would be stored; else nothing.
fn padded(
    graph: &Graph,
    realized: &Realized,
    users: &[u32],
    pad: ValueId,
    pads: &[(isize, isize)],
) -> SmallVec<[Part; 8]> {
    let mut found = SmallVec::new();
    let (node, strides) = (graph.node(pad), graph.node(pad).shape.strides());
    let Some(Operand::Value(x)) = node.args.first() else {
        return found;
    };
    let grows = pads
        .iter()
        .all(|&(before, after)| before >= 0 && after >= 0);
    if !grows || graph.operands(pad).count() != 1 {
        return found;
    }
    let before = pads.iter().zip(&strides);
    let offset: isize = before.map(|(pad, stride)| pad.0 * stride).sum();
    let window = Layout::new(graph.node(*x).shape.clone(), strides, offset as usize);
    let of = (realized, true);
    let part = part(graph, of, users, (*x, node.dtype), window, |_| false);
    if part.window.is_some() && realized.stored[part.base.0 as usize] {
        found.push(part);
    }
    found
}

/// Whether a value that is not stored is computed of results of reductions alone, element by element, so that their
/// kernel can store it.
fn ends_reduction(graph: &Graph, realized: &Realized, value: ValueId) -> bool {
    let mut open: SmallVec<[ValueId; 8]> = SmallVec::from_slice(&[value]);
    let (mut next, mut found) = (0, false);
    while let Some(&v) = open.get(next) {
        next += 1;
        let node = graph.node(v);
        if node.shape.numel() != graph.node(value).shape.numel() || next > 8 {
            return false;
        }
        let follows = |op: &Op| op.is_elementwise() && !op.is_where();
        match realized.is_stored(v) {
            true if node.is_of(Class::Reduce) => found = true,
            false if node.is(follows) => open.extend(graph.operands(v)),
            _ => return false,
        }
    }
    found
}

/// Whether a part that can be placed would read elements by indices, for enough elements to be worth a kernel of their own.
fn gathers(graph: &Graph, realized: &Realized, whole: ValueId, parts: &[Part]) -> bool {
    const ENOUGH: usize = 1 << 14;
    let by_indices = |part: &Part| {
        let mut open: SmallVec<[ValueId; 8]> = SmallVec::from_slice(&[part.base]);
        let mut next = 0;
        while let Some(&v) = open.get(next) {
            next += 1;
            let node = graph.node(v);
            if node.is_of(Class::Gather) {
                return true;
            }
            if next <= 8 && !realized.is_stored(v) {
                open.extend(graph.operands(v));
            }
        }
        false
    };
    graph.node(whole).shape.numel() >= ENOUGH
        && parts
            .iter()
            .any(|part| part.window.is_some() && by_indices(part))
}

/// One part with its window of the whole; `known` says which bases have one already, `copies` whether calls write into
/// windows.
fn part(
    graph: &Graph,
    (realized, copies): (&Realized, bool),
    users: &[u32],
    (operand, dtype): (ValueId, DType),
    window: Layout,
    known: impl Fn(ValueId) -> bool,
) -> Part {
    let (base, alone) = base_of(graph, users, operand);
    let of = graph.node(base);
    // A scatter's memory holds other data before.
    let computed = of.is(|op| !op.is_view() && op.class() != Class::Scatter);
    let free = computed
        && realized.write(base).is_none()
        && alone
        && of.dtype == dtype
        && of.shape.numel() > 0
        && !realized.pieces.contains_key(&base)
        && !known(base);
    let takes = |window: &Layout| match &of.op {
        NodeOp::Op(op) if realized.call[base.0 as usize] => {
            copies && eager::takes_window(op, of.dtype, window)
        }
        _ => true,
    };
    let window = free.then(|| unit_free(&window, &of.shape)).flatten();
    Part {
        base,
        window: window.filter(takes),
        bytes: (of.shape.numel() * of.dtype.size()) as u64,
    }
}

/// What a part is a reshape of, and whether nothing else uses any of it. Only views that keep the order of elements and
/// differ in dimensions of size 1 are looked through.
fn base_of(graph: &Graph, users: &[u32], part: ValueId) -> (ValueId, bool) {
    let (mut base, mut alone) = (part, users[part.0 as usize] == 1);
    loop {
        let node = graph.node(base);
        let (NodeOp::Op(op), Some(Operand::Value(from))) = (&node.op, node.args.first()) else {
            break;
        };
        let reshapes = op.as_view().is_some_and(|view| view.is_reshape());
        let sizes =
            |shape: &Shape| -> Vec<usize> { shape.iter().copied().filter(|&n| n != 1).collect() };
        if !reshapes || sizes(&graph.node(*from).shape) != sizes(&node.shape) {
            break;
        }
        base = *from;
        alone &= users[base.0 as usize] == 1;
    }
    (base, alone)
}

/// The window in a shape that differs from its own in dimensions of size 1 alone.
fn unit_free(window: &Layout, shape: &Shape) -> Option<Layout> {
    let sizes = window.shape().iter().zip(window.strides());
    let mut kept = sizes.filter(|(n, _)| **n != 1).map(|(_, &stride)| stride);
    let strides: Option<Strides> = shape
        .iter()
        .map(|&n| if n == 1 { Some(0) } else { kept.next() })
        .collect();
    Some(Layout::new(shape.clone(), strides?, window.offset()))
}

/// Bytes that are not moved when the parts are written in place: a part that would be stored is neither written apart
/// nor read again, one that would be computed in the kernel of the whole and cannot be placed is.
fn gain(realized: &Realized, parts: &[Part]) -> i128 {
    let of = |part: &Part| match (&part.window, realized.stored[part.base.0 as usize]) {
        (Some(_), true) => 2 * i128::from(part.bytes),
        (None, false) => -2 * i128::from(part.bytes),
        _ => 0,
    };
    parts.iter().map(of).sum()
}

/// Pieces by node.
pub type Pieces = FxHashMap<ValueId, Piece>;
