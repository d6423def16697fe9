//! Division by a row's reduced value as multiplication by its reciprocal, computed once for the row.
//!
//! The result differs from the division by at most 1.5 ulp, so nodes recorded under `Precision::EagerExact` keep it; so
//! do, at run time, rows whose divisor or reciprocal is no normal number.
//! A vector division costs several times a multiplication: softmax is bound by it otherwise.

use crate::body::{Body, BodyOp, Value};
use crate::schedule::FusedNode;
use ferrotrace_kernels::{BinaryOp, UnaryOp};

/// The fused node with such divisions rewritten.
pub(super) fn use_reciprocals(node: FusedNode) -> FusedNode {
    if node.exact {
        return node;
    }
    let dependence = node.dependence();
    let rewritten = |v: Value| match node.body.value(v).op {
        BodyOp::Binary(BinaryOp::Div, a, b) => {
            let (of_a, of_b) = (dependence[a as usize], dependence[b as usize]);
            of_a.inner && !of_b.inner && of_b.reduced && node.body.value(v).dtype.is_float()
        }
        _ => false,
    };
    if !(0..node.body.values().len() as Value).any(rewritten) {
        return node;
    }
    node.rewritten(&|body: &mut Body, v: Value, op: BodyOp| match op {
        BodyOp::Binary(BinaryOp::Div, a, b) if rewritten(v) => {
            let dtype = node.body.value(v).dtype;
            let reciprocal = body.push(BodyOp::Unary(UnaryOp::Recip, b), dtype);
            BodyOp::Divide(a, b, reciprocal)
        }
        other => other,
    })
}
