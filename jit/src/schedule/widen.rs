//! Products whose sums are wanted as computed, and which lie in memory for kernels to read: they lie there in binary32.

use super::{FusedNode, Schedule, Scheduled, moved, roots};
use crate::body::{Body, BodyOp, Source, Value};
use crate::expr::Expr;
use crate::graph::{Graph, Rounding};
use crate::lower::{Lowered, Lowering};
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::DType;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Makes products and convolutions of [`Rounding::Never`] that kernels read from memory store binary32. A convolution of a
/// device's library stays as that has it.
pub(crate) fn widen(graph: &mut Graph, lowering: &Lowering, schedule: &mut Schedule) {
    let wanted = |at: usize| {
        let Lowered::Call(call) = &lowering.steps[at] else {
            return None;
        };
        let node = graph.node(call.node);
        let is_sum = node.is(|op| op.is_matmul() || op.as_conv().is_some());
        let never = is_sum && node.dtype.is_half() && node.rounding == Rounding::Never;
        // Most products are none of these: what reads them is looked at last.
        if !never || lowering.pieces.contains_key(&call.node) {
            return None;
        }
        let own = Source::Node(call.node);
        let others = lowering.steps.iter().any(|step| match step {
            Lowered::Nest(_) => false,
            other => other.reads().contains(&own),
        });
        let output = lowering.outputs.iter().any(|output| output.0 == own);
        (!others && !output).then_some(call.node)
    };
    let wide: FxHashSet<ValueId> = schedule
        .steps
        .iter()
        .filter_map(|step| match step {
            Scheduled::Call(at) if !schedule.prologues.contains_key(at) => wanted(*at),
            // What a device's library adds, a kernel adds where it takes no such operands. A generated kernel has the sums for
            // a result.
            Scheduled::Fused(kernel) => kernel
                .product
                .filter(|product| {
                    let stores = product.tiles.is_some() && schedule.stored.contains(&product.node);
                    product.epilogue.is_some() || stores
                })
                .and_then(|product| wanted(product.step)),
            Scheduled::Call(_) => None,
        })
        .collect();
    if wide.is_empty() {
        return;
    }
    for step in &mut schedule.steps {
        if let Scheduled::Fused(kernel) = step {
            read_wide(kernel, &wide);
            for store in &mut kernel.stores {
                if wide.contains(&store.node) {
                    store.dtype = graph.node(store.node).dtype.compute();
                }
            }
        }
    }
    for prologue in schedule.prologues.values_mut().flatten() {
        read_wide(&mut prologue.kernel, &wide);
    }
    for node in wide {
        graph.widen(node);
    }
}

/// Makes a kernel load these nodes as they lie.
fn read_wide(kernel: &mut FusedNode, wide: &FxHashSet<ValueId>) {
    let reads = |source: Source| matches!(source, Source::Node(node) if wide.contains(&node));
    if !kernel.loads().any(|load| reads(load.0)) {
        return;
    }
    let load = |_: &mut Body, _: Value, op: BodyOp| match op {
        BodyOp::Load {
            source,
            index,
            mask,
            ..
        } if reads(source) => BodyOp::Load {
            source,
            dtype: DType::F32,
            index,
            mask,
        },
        other => other,
    };
    let mut body = Body::default();
    let extents = kernel.extents();
    let copies = body.rewrite(
        &kernel.body,
        &roots(&kernel.stores),
        &load,
        extents.as_slice(),
    );
    kernel.stores = moved(&kernel.stores, copies, &Expr::clone);
    kernel.body = Arc::new(body);
}
