//! The kernels that a graph becomes on a CUDA device, written without one.

use ferrotrace_jit::Graph;
use ferrotrace_jit::emit::{Emitted, cuda};
use ferrotrace_jit::lower::{Limits, Lowered, lower};
use ferrotrace_jit::schedule::{Scheduled, fuse};
use ferrotrace_jit::simplify::{Kernels, simplify_for};

/// The thresholds of an H200, which has no kernels for convolutions.
pub fn thresholds() -> Limits {
    Limits {
        scan_length: usize::MAX,
        cat_bytes: u64::MAX,
        scatters: false,
        in_order_scans: true,
        attention: 227 << 10,
        window: 26,
        ..Limits::default()
    }
}

/// A graph's kernels, those of attention and of products with what is around them among them.
pub fn kernels(graph: &Graph, limits: &Limits) -> Vec<Emitted> {
    let graph = simplify_for(graph, Kernels::Few(|_, _| Ok(false))).expect("the graph simplifies");
    let lowering = lower(&graph, limits).expect("the graph lowers");
    let schedule = fuse(&graph, &lowering, limits);
    let (steps, stored) = (schedule.steps.iter(), &schedule.stored);
    let kernel = |step: &Scheduled| match step {
        Scheduled::Fused(fused) => Some(match fused.product.filter(|p| p.tiles.is_some()) {
            Some(product) => {
                let before = schedule.prologues.get(&product.step);
                let before = before.map_or(&[][..], Vec::as_slice);
                cuda::product::emit(&graph, &lowering, fused, before, stored, limits)
            }
            None => cuda::emit(fused, stored),
        }),
        Scheduled::Call(at) => match &lowering.steps[*at] {
            Lowered::Attention(step) => Some(cuda::attention::emit(step, *at, limits)),
            _ => None,
        },
    };
    steps.filter_map(kernel).collect()
}
