//! The name under which profilers show a kernel.

use crate::body::{Body, BodyOp};
use ferrotrace_kernels::ops::reduce;
use std::sync::Arc;

/// Operators that a name has at most.
const MOST: usize = 6;

/// What a kernel computes: `first`, if it is not empty, and the operators of its body in order, each once, the first few. It
/// depends on the body alone, so that equal texts have equal names.
pub(super) fn label(first: &'static str, body: &Body) -> Arc<str> {
    let mut words = Vec::from_iter((!first.is_empty()).then_some(first));
    for value in body.values() {
        let word = match &value.op {
            BodyOp::Unary(op, _) => op.name(),
            BodyOp::Binary(op, ..) => op.name(),
            BodyOp::Divide(..) => "div",
            BodyOp::Select(..) => "where",
            BodyOp::Random { .. } => "random",
            BodyOp::Reduce { kind, .. } => reduce::name(*kind),
            BodyOp::Scan { .. } => "scan",
            // What moves numbers about says little; a kernel of these alone is a copy.
            BodyOp::Load { .. }
            | BodyOp::Number(_)
            | BodyOp::Index(_)
            | BodyOp::Mask(_)
            | BodyOp::Cast(_)
            | BodyOp::Round(..)
            | BodyOp::Check { .. } => continue,
        };
        if words.len() < MOST && !words.contains(&word) {
            words.push(word);
        }
    }
    if words.is_empty() {
        words.push("copy");
    }
    words.join("_").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrotrace_kernels::{BinaryOp, ReduceKind, UnaryOp};
    use ferrotrace_runtime::DType;

    #[test]
    fn operators_in_order_each_once() {
        let mut body = Body::default();
        assert_eq!(&*label("", &body), "copy");
        assert_eq!(&*label("matmul", &body), "matmul");
        let x = body.push(BodyOp::Number(0), DType::F32);
        let e = body.push(BodyOp::Unary(UnaryOp::Exp, x), DType::F32);
        let s = body.push(BodyOp::Binary(BinaryOp::Mul, e, x), DType::F32);
        let t = body.push(BodyOp::Binary(BinaryOp::Mul, s, e), DType::F32);
        let (kind, value, position) = (ReduceKind::Sum, t, None);
        let sum = BodyOp::Reduce {
            kind,
            value,
            position,
        };
        body.push(sum, DType::F32);
        assert_eq!(&*label("", &body), "exp_mul_sum");
    }
}
