//! The kernels that a graph becomes on a CUDA device, written without one.

use ferrotrace_jit::Graph;
use ferrotrace_jit::emit::{Emitted, cuda};
use ferrotrace_jit::lower::{Lowered, lower};
use ferrotrace_jit::policy::{Policy, Thresholds};
use ferrotrace_jit::schedule::{Scheduled, fuse};
use ferrotrace_jit::simplify::simplify_for;
use ferrotrace_jit::target::{Library, Target};

/// As for a device whose library has products alone, without matrix units.
pub fn device() -> Policy {
    Policy {
        target: Target {
            library: Library::Partial(|_, _| Ok(false)),
            shares_windows: true,
            window_part: 1,
            panels: true,
            ..Target::cuda(0, 132, 227 << 10)
        },
        thresholds: Thresholds {
            window: 26,
            ..Thresholds::default()
        },
        ..Policy::default()
    }
}

/// As for one of this compute capability.
pub fn capable(capability: u32) -> Policy {
    let mut policy = device();
    policy.target.capability = capability;
    policy.target.panels = false;
    policy
}

/// A graph's kernels, those of attention and of products with what is around them among them.
pub fn kernels(graph: &Graph, policy: &Policy) -> Vec<Emitted> {
    let graph = simplify_for(graph, policy).expect("the graph simplifies");
    let lowering = lower(&graph, policy).expect("the graph lowers");
    let schedule = fuse(&graph, &lowering, policy);
    let (steps, stored) = (schedule.steps.iter(), &schedule.stored);
    let kernel = |step: &Scheduled| match step {
        Scheduled::Fused(fused) => Some(match fused.product.filter(|p| p.tiles.is_some()) {
            Some(product) => {
                let before = schedule.prologues.get(&product.step);
                let before = before.map_or(&[][..], Vec::as_slice);
                cuda::product::emit(&graph, &lowering, fused, before, stored, policy)
            }
            None => cuda::emit(fused, stored),
        }),
        Scheduled::Call(at) => match &lowering.steps[*at] {
            Lowered::Attention(step) => Some(cuda::attention::emit(step, *at, policy)),
            _ => None,
        },
    };
    steps.filter_map(kernel).collect()
}
