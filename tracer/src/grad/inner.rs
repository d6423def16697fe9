//! What a trace recorded between values of outside and its results.

use crate::Tensor;
use crate::history::{History, Operation, Value};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// The part of a history that was recorded in a trace.
pub(crate) struct Inner {
    /// The operations through which gradients go outside, in ascending order.
    pub histories: Vec<Arc<History>>,
    /// What they go to, each once.
    pub outer: Vec<Value>,
}

/// The operation of a history that was recorded in a trace and has not ended.
fn within(history: &History, trace: u64) -> Option<Arc<Operation>> {
    let inside = history.trace == trace;
    inside.then(|| history.computed_by()).flatten()
}

impl Inner {
    /// `None` if a value that gradients go to was not kept.
    pub fn of(results: &[Tensor], trace: u64) -> Option<Inner> {
        let live = results.iter().filter_map(Tensor::history);
        let mut stack: Vec<Arc<History>> = live.filter(|h| h.is_live()).cloned().collect();
        let mut seen: FxHashSet<*const History> = FxHashSet::default();
        let (mut found, mut outer) = (Vec::new(), Vec::new());
        while let Some(history) = stack.pop() {
            if !seen.insert(Arc::as_ptr(&history)) {
                continue;
            }
            let Some(operation) = within(&history, trace) else {
                continue;
            };
            for operand in &operation.operands {
                let Some(next) = operand.live() else { continue };
                if next.trace == trace {
                    stack.push(next.clone());
                } else if seen.insert(Arc::as_ptr(next)) {
                    outer.push(operand.value()?);
                }
            }
            found.push(history);
        }
        found.sort_unstable_by_key(|history| history.order);
        let address = |value: &Value| value.history.as_deref().map(Arc::as_ptr);
        let mut through: FxHashSet<*const History> = outer.iter().filter_map(address).collect();
        found.retain(|history| {
            let operation = within(history, trace);
            let flows = operation.is_some_and(|operation| {
                let mut operands = operation.operands.iter().filter_map(|o| o.live());
                operands.any(|next| through.contains(&Arc::as_ptr(next)))
            });
            if flows {
                through.insert(Arc::as_ptr(history));
            }
            flows
        });
        let histories = found;
        Some(Inner { histories, outer })
    }
}
