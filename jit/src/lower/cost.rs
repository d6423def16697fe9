//! What computing an element of a value takes, from what lies in memory.

use crate::graph::Graph;
use ferrotrace_kernels::{Class, ValueId};

/// Of a value that is computed where it is used; one that is stored costs a read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Operations.
    pub ops: u32,
    /// Elements read.
    pub reads: u32,
    /// Operations one after another.
    pub depth: u32,
    /// Reshapes one after another, each of which divides the index that the next one divides.
    pub reshapes: u32,
    /// Whether a function takes much longer than an addition.
    pub heavy: bool,
}

impl Cost {
    /// The cost of a value in memory.
    pub(super) const STORED: Cost = Cost {
        ops: 0,
        reads: 1,
        depth: 0,
        reshapes: 0,
        heavy: false,
    };

    /// The cost of an operator's result, each of whose elements takes as many elements of the operands as `times` says.
    pub(super) fn of(graph: &Graph, costs: &[Cost], id: ValueId, times: u32) -> Cost {
        let node = graph.node(id);
        let mut cost = Cost::default();
        for operand in graph.operands(id) {
            let from = costs[operand.0 as usize];
            cost.ops = cost.ops.saturating_add(from.ops.saturating_mul(times));
            cost.reads = cost.reads.saturating_add(from.reads.saturating_mul(times));
            cost.depth = cost.depth.max(from.depth);
            cost.reshapes = cost.reshapes.max(from.reshapes);
            cost.heavy |= from.heavy;
        }
        cost.depth += 1;
        let Some(op) = node.operator() else {
            return cost;
        };
        if op.as_view().is_some_and(|view| view.is_reshape()) {
            cost.reshapes += 1;
        }
        if !op.is_view() {
            cost.ops = cost.ops.saturating_add(times);
        }
        cost.heavy |= match op.class() {
            Class::Pointwise => !op.entry().is_light(),
            class => class == Class::Random,
        };
        cost
    }
}
