//! Slices written over other data: loops over what is written alone, in the memory of the tensor that is written to
//! where that dies, and else in memory of their own, to which what lies around the slice is copied (ir B13).

use super::expand::Expansion;
use super::lifetime::LastUse;
use super::{Realized, Site, loops};
use crate::body::BodyOp;
use crate::expr::Expr;
use crate::graph::{Graph, NodeOp, Precision};
use crate::nest::{Destination, LoopNest, Update};
use ferrotrace_kernels::op::SliceAssign;
use ferrotrace_kernels::ops::view;
use ferrotrace_kernels::{Class, Op, Operand, ValueId};
use ferrotrace_runtime::{Error, Layout, Result, Shape, Strides};
use smallvec::SmallVec;
use std::sync::Arc;

/// What an assignment writes, and where.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// The tensor that is written to.
    pub base: ValueId,
    /// The node whose operand is written: the assignment, or the innermost of those nested in it.
    pub holder: ValueId,
    /// The window of the base's elements, laid out row-major.
    pub window: Layout,
}

/// The window of an assignment in a layout of its base.
fn window_of(op: &SliceAssign, layout: &Layout) -> Layout {
    let mut shape = layout.shape().clone();
    let mut strides = Strides::from_slice(layout.strides());
    let (first, len) = op.slice().span(&shape);
    let offset = layout.offset() as isize + first as isize * strides[op.dim];
    shape.dims_mut()[op.dim] = len;
    strides[op.dim] *= op.step as isize;
    Layout::new(shape, strides, offset as usize)
}

fn assignment(graph: &Graph, id: ValueId) -> Option<(&SliceAssign, ValueId, ValueId)> {
    let node = graph.node(id);
    let op = node.operator()?.as_slice_assign()?;
    match node.args[..] {
        [Operand::Value(x), Operand::Value(source), ..] => Some((op, x, source)),
        _ => None,
    }
}

/// The elements of `x` that a chain of at most so many views of it shows, in a layout of `x`.
fn shown(
    graph: &Graph,
    (x, mut part): (ValueId, ValueId),
    layout: &Layout,
    most: usize,
) -> Option<Layout> {
    let mut chain: SmallVec<[ValueId; 4]> = SmallVec::new();
    while part != x {
        let node = graph.node(part);
        let (NodeOp::Op(op), Some(Operand::Value(from))) = (&node.op, node.args.first()) else {
            return None;
        };
        if !op.is_view() || chain.len() == most {
            return None;
        }
        chain.push(part);
        part = *from;
    }
    let mut layout = layout.clone();
    for &v in chain.iter().rev() {
        let node = graph.node(v);
        let NodeOp::Op(op) = &node.op else {
            return None;
        };
        let map = view::view_map(op, layout.shape(), &node.shape)?;
        layout = map.apply(&layout, &node.shape);
    }
    Some(layout)
}

/// What the assignment writes, if it has any elements. A slice of several dimensions is an assignment to a slice of the
/// tensor that the result is assigned to: of such, only what the innermost writes is written. Chains of
/// more than so many views are not looked through.
pub(super) fn written(graph: &Graph, id: ValueId, most: usize) -> Option<Write> {
    let (op, base, mut source) = assignment(graph, id)?;
    let node = graph.node(id);
    let whole = Layout::contiguous(node.shape.clone());
    let mut write = Write {
        base,
        holder: id,
        window: window_of(op, &whole),
    };
    while let Some((op, part, inner)) = assignment(graph, source) {
        let same = graph.node(source).dtype == node.dtype
            && graph.node(source).shape == *write.window.shape()
            && shown(graph, (base, part), &whole, most).as_ref() == Some(&write.window);
        if !same {
            break;
        }
        write = Write {
            holder: source,
            window: window_of(op, &write.window),
            ..write
        };
        source = inner;
    }
    (write.window.numel() > 0).then_some(write)
}

/// Assignments, by their numbers, that are nowhere used but as the source of the one around them, through at most so many
/// views.
pub(super) fn nested(graph: &Graph, users: &[u32], most: usize) -> Vec<bool> {
    let mut nested = Vec::new();
    for i in 0..graph.nodes().len() {
        let outer = ValueId(i as u32);
        let Some((_, _, source)) = assignment(graph, outer) else {
            continue;
        };
        if users[source.0 as usize] == 1
            && written(graph, outer, most).is_some_and(|write| write.holder != outer)
        {
            nested.resize(graph.nodes().len(), false);
            nested[source.0 as usize] = true;
        }
    }
    nested
}

/// For each node those that read it, without what reads it twice being named twice.
pub(super) fn readers(graph: &Graph) -> Vec<SmallVec<[u32; 2]>> {
    let mut all: Vec<SmallVec<[u32; 2]>> = vec![SmallVec::new(); graph.nodes().len()];
    for i in 0..graph.nodes().len() as u32 {
        for operand in graph.operands(ValueId(i)) {
            let of = &mut all[operand.0 as usize];
            if of.last() != Some(&i) {
                of.push(i);
            }
        }
    }
    all
}

/// Whether an assignment is computed where its result is read: by one pointwise operator, reduction or assignment, which
/// goes through all of it anyway; or if it replaces most of what would be computed for it alone.
pub(super) fn is_read_through(
    graph: &Graph,
    realized: &Realized,
    readers: &[SmallVec<[u32; 2]>],
    id: ValueId,
    write: &Write,
) -> bool {
    let once = match readers[id.0 as usize][..] {
        [user] => {
            let walks = |op: &Op| op.is_elementwise() || op.class() == Class::Reduce;
            graph.node(ValueId(user)).is(walks)
                || assignment(graph, ValueId(user))
                    .is_some_and(|(_, base, source)| source == id && base != id)
        }
        _ => false,
    };
    let most = write.window.numel().saturating_mul(2) > graph.node(id).shape.numel();
    let computed = realized.window(graph, write.base).is_none();
    (once && !graph.outputs().contains(&id)) || (most && computed)
}

/// Values computed where they are used, of what a tensor is before it is written to, that are used afterwards too: a
/// tensor that they keep alive would have to be copied. None if they are not much smaller than it, or
/// more than so many values are to be looked at.
pub(super) fn kept_before(
    graph: &Graph,
    realized: &Realized,
    readers: &[SmallVec<[u32; 2]>],
    lasts: &LastUse,
    (id, base): (ValueId, ValueId),
    most: usize,
) -> SmallVec<[ValueId; 4]> {
    let mut kept: SmallVec<[ValueId; 4]> = SmallVec::new();
    let mut root = base;
    while !realized.is_stored(root) {
        match graph.operands(root).next() {
            Some(from) => root = from,
            None => return kept,
        }
    }
    let (mut seen, mut next): (SmallVec<[u32; 16]>, usize) = (SmallVec::new(), 0);
    let mut elements = 0usize;
    let mut at = root;
    loop {
        for &user in &readers[at.0 as usize] {
            let v = ValueId(user);
            if user >= id.0 || realized.is_stored(v) || seen.contains(&user) {
                continue;
            }
            if lasts.after(v) > id.0 && !on_the_way(graph, realized, v, base) {
                elements = elements.saturating_add(graph.node(v).shape.numel());
                kept.push(v);
            }
            if seen.len() == most {
                return SmallVec::new();
            }
            seen.push(user);
        }
        let Some(&v) = seen.get(next) else { break };
        next += 1;
        at = ValueId(v);
    }
    if elements.saturating_mul(2) > graph.node(id).shape.numel() {
        kept.clear();
    }
    kept
}

/// Whether a value is one of the views between a stored tensor and what is written to.
fn on_the_way(graph: &Graph, realized: &Realized, v: ValueId, mut base: ValueId) -> bool {
    while !realized.is_stored(base) {
        if base == v {
            return true;
        }
        match graph.operands(base).next() {
            Some(from) => base = from,
            None => return false,
        }
    }
    base == v
}

/// The loop nest of an assignment: over what is written.
pub(super) fn lower_write(
    graph: &Graph,
    realized: &Realized,
    (id, write): (ValueId, &Write),
    sites: &mut Vec<Site>,
) -> Result<LoopNest> {
    let node = graph.node(id);
    let sizes: &Shape = write.window.shape();
    let (iter, index) = loops(sizes.iter().copied(), None);
    let mut expansion = Expansion::new(graph, realized, iter.clone(), sites);
    let holder = graph.node(write.holder);
    let result = expansion.operand(holder, 1, node.dtype, &index, None)?;
    let mut place = Expr::from(write.window.offset() as i64);
    for (at, &stride) in index.iter().zip(write.window.strides()) {
        place = place.add(&at.scale(stride as i64));
    }
    let missing = || Error::internal("an assignment without what it writes to");
    let base = realized.window(graph, write.base).ok_or_else(missing)?;
    Ok(LoopNest {
        node: id,
        dtype: node.dtype,
        iter,
        red: Vec::new(),
        body: Arc::new(expansion.into_body()),
        result,
        place: place.recombine(),
        update: Some(Update {
            target: Destination::Window(write.window.clone()),
            combine: None,
            base,
        }),
        exact: node.precision == Precision::EagerExact,
    })
}

/// Whether the loops of a small slice read what they write to elsewhere than they write, and what they write is better
/// computed apart than all else copied.
pub(super) fn reads_across(nest: &LoopNest, elements: usize) -> bool {
    let Some(update) = &nest.update else {
        return false;
    };
    let (source, layout) = &update.base;
    // What is a part of another tensor is copied in any case.
    let whole = layout.is_contiguous() && layout.offset() == 0;
    let extents = nest.extents();
    whole
        && nest.rows().saturating_mul(2) <= elements
        && nest.body.values().iter().any(|value| match &value.op {
            BodyOp::Load {
                source: from,
                index,
                ..
            } if from == source => {
                *index != nest.place
                    && !crate::expr::are_apart(index, &nest.place, layout, &extents)
            }
            _ => false,
        })
}
