//! Slices written over tensors that die: a kernel that writes the whole would read and write all of it (ir B13).

use super::{Limits, Realized};
use crate::graph::{Graph, NodeOp};
use ferrotrace_kernels::{Op, ValueId};

/// Makes ready-made calls, which change a dying operand where it lies, of the assignments of a small slice that are
/// stored anyway. A call's result whose only user this is certainly dies; an input may not, and is then copied, which
/// takes no longer than a kernel that writes the whole unless other kernels could have been fused with that one.
pub(super) fn in_place(
    graph: &Graph,
    realized: &mut Realized,
    users: &[u32],
    limits: &Limits,
    mut need_memory: impl FnMut(&mut Realized, ValueId),
) {
    let mut called = None;
    for (i, node) in graph.nodes().iter().enumerate() {
        let id = ValueId(i as u32);
        let NodeOp::Op(Op::SliceAssign { .. }) = node.op else {
            continue;
        };
        let mut operands = graph.operands(id);
        let (Some(x), Some(source)) = (operands.next(), operands.next()) else {
            continue;
        };
        let bytes = node.shape.numel() * node.dtype.size();
        let small = graph
            .node(source)
            .shape
            .numel()
            .saturating_mul(limits.update_factor);
        let fits = realized.stored[i]
            && !realized.call[i]
            && !realized.pieces.contains_key(&id)
            && bytes >= limits.update_bytes
            && small <= node.shape.numel();
        if !fits {
            continue;
        }
        let Some(base) = sole(graph, realized, users, x) else {
            continue;
        };
        let dies = match graph.node(base).op {
            NodeOp::Op(_) => realized.is_call(base) && !realized.pieces.contains_key(&base),
            NodeOp::Input(_) => {
                let called = called.get_or_insert_with(|| read_by_calls(graph, realized));
                called[i]
            }
        };
        if dies {
            need_memory(realized, source);
            realized.call[i] = true;
        }
    }
}

/// The stored value that this is a view of, all of it in order, if nothing else reads either.
fn sole(graph: &Graph, realized: &Realized, users: &[u32], mut x: ValueId) -> Option<ValueId> {
    let (_, layout) = realized.window(graph, x)?;
    let numel = graph.node(x).shape.numel();
    while !realized.is_stored(x) {
        if users[x.0 as usize] != 1 {
            return None;
        }
        x = graph.operands(x).next()?;
    }
    let whole = layout.is_contiguous() && graph.node(x).shape.numel() == numel;
    (whole && users[x.0 as usize] == 1).then_some(x)
}

/// For each node, whether none but ready-made kernels read it, also through views.
fn read_by_calls(graph: &Graph, realized: &Realized) -> Vec<bool> {
    let mut only = vec![true; graph.nodes().len()];
    for i in (0..graph.nodes().len()).rev() {
        let id = ValueId(i as u32);
        let view = matches!(&graph.node(id).op, NodeOp::Op(op) if op.is_view());
        let fine = realized.call[i] || view && !realized.stored[i] && only[i];
        if !fine {
            for operand in graph.operands(id) {
                only[operand.0 as usize] = false;
            }
        }
    }
    only
}
