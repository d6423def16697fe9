//! Operations on bytes before wider ones.
//!
//! A kernel that computes bytes and truth values alone has a lane for each byte of a register, and as few as any other where it
//! computes something wider too: many such operations are stored before what is wider.

use crate::graph::{Graph, NodeOp};
use crate::policy::Policy;
use ferrotrace_kernels::{Class, ValueId};
use smallvec::SmallVec;

/// Whether an operand of a node is computed by many operations on bytes, from bytes that lie in memory, and the node is wider.
pub(super) fn is_narrow_operand(
    graph: &Graph,
    stored: &[bool],
    policy: &Policy,
    (operand, of): (ValueId, ValueId),
) -> bool {
    let thresholds = &policy.thresholds;
    let (narrow, wide) = (graph.node(operand), graph.node(of));
    policy.target.byte_lanes
        && narrow.dtype.size() == 1
        && wide.dtype.size() > 1
        && narrow.shape.numel() >= thresholds.byte_elements
        && byte_operations(graph, stored, operand, thresholds.byte_ops) >= thresholds.byte_ops
}

/// Operations of kernels that compute a value from bytes, counted up to `most`, those of stored values among them; none if
/// something wider is among them, or little is computed of what is stored.
fn byte_operations(graph: &Graph, stored: &[bool], id: ValueId, most: usize) -> usize {
    let mut met: SmallVec<[ValueId; 64]> = SmallVec::from_slice(&[id]);
    let (mut next, mut operations, mut behind) = (0, 0, 0);
    while let Some(&id) = met.get(next) {
        next += 1;
        let node = graph.node(id);
        if node.dtype.size() > 1 || met.len() > 16 * most {
            return 0;
        }
        let NodeOp::Op(op) = &node.op else { continue };
        match op.class() {
            Class::View | Class::Create => {}
            Class::Pointwise | Class::Arrange => operations += 1,
            _ if stored[id.0 as usize] => continue,
            _ => return 0,
        }
        for operand in graph.operands(id) {
            if !met.contains(&operand) {
                met.push(operand);
            }
        }
        if !stored[id.0 as usize] {
            behind = operations;
        }
    }
    match behind {
        0 | 1 => 0,
        _ => operations.min(most),
    }
}
