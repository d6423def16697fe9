//! Stores over other data: what is there before, which memory they may share with it, and how an element joins it.

use super::{Overwrite, Pointer};
use crate::body::{BodyOp, Source};
use crate::expr::are_apart;
use crate::kernel::ir::{self, Infix};
use crate::nest::{Destination, Update};
use crate::schedule::{FusedNode, Store};
use ferrotrace_kernels::{BinaryOp, ValueId};
use ferrotrace_runtime::{DType, Layout};

/// The nodes written over other data by these stores, and that data.
pub(super) fn overwrites(node: &FusedNode, needed: &[usize]) -> Vec<Overwrite> {
    let of = |&s: &usize| {
        let store = &node.stores[s];
        let update = store.update.as_ref()?;
        Some(Overwrite {
            node: store.node,
            base: update.base.clone(),
            window: update.window().cloned(),
        })
    };
    needed.iter().filter_map(of).collect()
}

/// The data before and the node may share memory if that is all of the data's, and nothing else reads it
/// (scheduler L-26), but for elements of a window that are not written, and each written one where it is. `single` says
/// that the kernel has one loop alone.
pub(super) fn in_place(
    (node, single): (&FusedNode, bool),
    pointers: &[Pointer],
    store: &Store,
    update: &Update,
) -> Option<(ValueId, Source)> {
    let (source, layout) = &update.base;
    let whole = layout.is_contiguous() && layout.offset() == 0;
    let is_read = pointers.contains(&Pointer::Read(*source));
    let fits = match update.target {
        Destination::At(_) => !is_read,
        Destination::Window(_) => !is_read || reads_around((node, single), *source, layout, store),
    };
    (whole && fits).then_some((store.node, *source))
}

/// Whether what the kernel reads of a buffer is not what it writes there, or each element where it is written.
fn reads_around(
    (node, single): (&FusedNode, bool),
    source: Source,
    layout: &Layout,
    store: &Store,
) -> bool {
    let extents = node.extents();
    node.body.values().iter().all(|value| match &value.op {
        BodyOp::Load {
            source: from,
            dtype,
            index,
            ..
        } if *from == source => {
            // Read before it is written: in the same iteration, of the only loop.
            let same = *index == store.index && single;
            dtype.size() == store.dtype.size()
                && (same || are_apart(index, &store.index, layout, &extents))
        }
        _ => true,
    })
}

/// An element in memory joined with another.
pub(super) fn joined(
    combine: Option<BinaryOp>,
    dtype: DType,
    there: ir::Expr,
    element: ir::Expr,
) -> ir::Expr {
    let op = match (combine, dtype == DType::Bool) {
        (None, _) => return element,
        (Some(BinaryOp::Maximum | BinaryOp::Minimum), _) => {
            let op = match combine {
                Some(BinaryOp::Maximum) => Infix::Greater,
                _ => Infix::Less,
            };
            let nan = ir::Expr::infix(Infix::Unequal, there.clone(), there.clone());
            let stays = ir::Expr::infix(op, there.clone(), element.clone()).or(nan);
            return stays.choose(there, element);
        }
        (Some(BinaryOp::Mul), true) => Infix::BitAnd,
        (Some(BinaryOp::Mul), false) => Infix::Multiply,
        (_, true) => Infix::BitOr,
        (_, false) => Infix::Add,
    };
    ir::Expr::infix(op, there, element)
}
