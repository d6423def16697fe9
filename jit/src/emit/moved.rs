//! Elements of half precision that a kernel only moves, as their bits: integers of 16 bits, which need no conversion, and of
//! which a register holds twice as many as values in binary32.

use crate::body::{Body, BodyOp, Value};
use crate::schedule::{FusedNode, Store};
use ferrotrace_runtime::DType;
use std::sync::Arc;

/// The fused node with all its values of half precision as bits; `None` unless it only moves them: loads them, chooses among
/// them and numbers, and stores them in the type that they were loaded in.
pub(super) fn as_bits(node: &FusedNode) -> Option<FusedNode> {
    let is_half = |s: &Store| s.dtype.is_half() && s.update.is_none();
    let moves = node.product.is_none() && !node.feeds && !node.reduces() && !node.is_ordered();
    if !moves || !node.stores.iter().any(is_half) {
        return None;
    }
    let halves = moved(&node.body, &node.stores)?;
    let store = |s: &Store| Store {
        dtype: match halves[s.value as usize] {
            Some(_) => DType::I16,
            None => s.dtype,
        },
        ..s.clone()
    };
    Some(FusedNode {
        body: Arc::new(node.body.with_bits(&halves)),
        stores: node.stores.iter().map(store).collect(),
        ..node.clone()
    })
}

/// By value, the half type that it is moved in; `None` where the body computes with one.
fn moved(body: &Body, stores: &[Store]) -> Option<Vec<Option<DType>>> {
    let n = body.values().len();
    let mut halves: Vec<Option<DType>> = vec![None; n];
    for store in stores.iter().filter(|s| s.dtype.is_half()) {
        halves[store.value as usize] = Some(store.dtype);
    }
    let mut others = vec![false; n];
    for store in stores {
        let at = store.update.as_ref().and_then(|u| u.at());
        at.into_iter().for_each(|at| others[at as usize] = true);
        others[store.value as usize] |= !store.dtype.is_half();
    }
    // Users come behind what they use.
    for v in (0..n).rev() {
        let value = body.value(v as Value);
        match (&value.op, halves[v]) {
            (BodyOp::Load { dtype, .. }, Some(half)) if *dtype == half => {}
            (BodyOp::Number(n), Some(half)) if body.numbers()[*n as usize].dtype == half => {}
            (BodyOp::Select(test, a, b), Some(half)) => {
                others[*test as usize] = true;
                for branch in [*a, *b] {
                    if halves[branch as usize]
                        .replace(half)
                        .is_some_and(|old| old != half)
                    {
                        return None;
                    }
                }
                continue;
            }
            (_, Some(_)) => return None,
            (_, None) => {}
        }
        body.operands(v as Value)
            .into_iter()
            .for_each(|x| others[x as usize] = true);
    }
    let both = |v: usize| halves[v].is_some() && others[v];
    (0..n).all(|v| !both(v)).then_some(halves)
}
