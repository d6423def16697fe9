//! Sums of narrow integers and of truth values in 32 bits.
//!
//! Their result has 64 bits. A row of so few columns that no partial sum exceeds 32 bits is summed in those, in twice as
//! many lanes; the total becomes 64 bits wide, with the same value.

use crate::body::{Body, BodyOp, Value};
use crate::schedule::FusedNode;
use ferrotrace_kernels::ReduceKind;
use ferrotrace_runtime::DType;

/// The greatest magnitude of an element, of dtypes of at most 16 bits.
fn greatest(dtype: DType) -> Option<usize> {
    match dtype {
        DType::Bool => Some(1),
        DType::U8 => Some(u8::MAX.into()),
        DType::I8 => Some(i8::MIN.unsigned_abs().into()),
        DType::I16 => Some(i16::MIN.unsigned_abs().into()),
        _ => None,
    }
}

/// What is summed in 64 bits, before it was converted to those.
fn summed(body: &Body, op: &BodyOp, columns: usize) -> Option<Value> {
    let BodyOp::Reduce {
        kind: ReduceKind::Sum,
        value,
        position: None,
    } = *op
    else {
        return None;
    };
    let BodyOp::Cast(from) = body.value(value).op else {
        return None;
    };
    let total = greatest(body.value(from).dtype)?.checked_mul(columns)?;
    let fits = body.value(value).dtype == DType::I64 && total <= i32::MAX as usize;
    fits.then_some(from)
}

/// The fused node with such sums rewritten.
pub(super) fn narrow_sums(node: FusedNode) -> FusedNode {
    let columns = node.cols();
    let values = node.body.values();
    if !values
        .iter()
        .any(|value| summed(&node.body, &value.op, columns).is_some())
    {
        return node;
    }
    node.rewritten(&|body: &mut Body, _, op| match summed(body, &op, columns) {
        Some(from) => {
            let value = body.push(BodyOp::Cast(from), DType::I32);
            let sum = BodyOp::Reduce {
                kind: ReduceKind::Sum,
                value,
                position: None,
            };
            BodyOp::Cast(body.push(sum, DType::I32))
        }
        None => op,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::lower::lower;
    use crate::policy::Policy;
    use crate::schedule::{Scheduled, fuse};
    use crate::simplify::simplify;

    /// The dtype in which rows of so many elements are summed.
    fn accumulator(dtype: &str, columns: usize) -> DType {
        let text = format!(
            "%0: {dtype}[4, {columns}] = input 0 [{columns}, 1]
             %1: i64[4] = sum(%0) {{dims: [1], keepdim: false}}
             return %1"
        );
        let graph: Graph = text.parse().expect("a graph");
        let graph = simplify(&graph).expect("primitive operators");
        let policy = Policy::default();
        let schedule = fuse(&graph, &lower(&graph, &policy).expect("nests"), &policy);
        let [Scheduled::Fused(node)] = &schedule.steps[..] else {
            panic!("one kernel");
        };
        let node = narrow_sums((**node).clone());
        let is_sum = |op: &BodyOp| matches!(op, BodyOp::Reduce { .. });
        let sum = node.body.values().iter().rfind(|v| is_sum(&v.op));
        assert_eq!(node.body.value(node.stores[0].value).dtype, DType::I64);
        sum.expect("a sum").dtype
    }

    #[test]
    fn no_total_exceeds_its_bits() {
        for (dtype, most) in [("i16", 65_535), ("i8", 16_777_215), ("u8", 8_421_504)] {
            assert_eq!(accumulator(dtype, most), DType::I32, "{dtype}");
            assert_eq!(accumulator(dtype, most + 1), DType::I64, "{dtype}");
        }
        assert_eq!(accumulator("bool", 2_147_483_647), DType::I32);
        assert_eq!(accumulator("bool", 2_147_483_648), DType::I64);
        assert_eq!(accumulator("i32", 200), DType::I64);
    }
}
