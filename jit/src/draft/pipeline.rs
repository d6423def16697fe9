//! The passes from a recorded graph to a draft of its plan, in order, each with what checks its result.

use super::bound::{allowed, bounded, exceeds};
use super::one_by_one::OneByOne;
use super::{Draft, arrange, kernels, verify};
use crate::graph::Graph;
use crate::lower::{Lowered, Lowering, attention, lower};
use crate::policy::{Policy, Thresholds};
use crate::schedule::{Fusion, Schedule, Scheduled, widen};
use crate::simplify::{aligned, hoisted, simplify_for};
use crate::target::Target;
use ferrotrace_runtime::{
    Activity, Architecture, Channel, Config, FloatEnvironment, KernelSource, Result, Timer, log,
    next_plan, of_plan,
};

impl Draft {
    /// Plans a graph: every pass but the compiler.
    ///
    /// # Errors
    /// A decomposition or lowering fails, or, under verification, an invariant between passes does not hold.
    pub fn of(recorded: Graph, policy: &Policy) -> Result<Draft> {
        let _environment = FloatEnvironment::standard();
        let number = next_plan();
        let draft = of_plan(number, || planned(recorded, policy))?;
        Ok(Draft { number, ..draft })
    }
}

/// All passes. Where the draft would hold more memory than the operations one by one, products by one matrix stay apart, then
/// those that are summed, and at last the passes after simplification run again with fusions given up.
fn planned(recorded: Graph, policy: &Policy) -> Result<Draft> {
    recorded.on_one_device()?;
    let graph = simplified(&recorded, policy)?;
    let draft = scheduled(recorded, graph, policy)?;
    if !exceeds(&draft, policy) {
        return Ok(draft);
    }
    let (mut policy, mut draft) = (policy.clone(), draft);
    let apart: [fn(&mut Thresholds); 2] = [|of| of.hoisted_rows = 0, |of| of.summed_length = 0];
    let mut all_apart = policy.clone();
    apart
        .iter()
        .for_each(|give_up| give_up(&mut all_apart.thresholds));
    let is_joined =
        simplified(&draft.recorded, &all_apart)?.nodes().len() != draft.graph.nodes().len();
    for give_up in apart.into_iter().filter(|_| is_joined) {
        give_up(&mut policy.thresholds);
        let graph = simplified(&draft.recorded, &policy)?;
        if graph.nodes().len() == draft.graph.nodes().len() {
            continue;
        }
        draft = scheduled(draft.recorded, graph, &policy)?;
        if !exceeds(&draft, &policy) {
            return Ok(draft);
        }
    }
    bounded(draft, &policy, scheduled)
}

fn simplified(recorded: &Graph, policy: &Policy) -> Result<Graph> {
    let simplified = || {
        let graph = simplify_for(recorded, policy)?;
        if !policy.target.library.is_complete() {
            let kept = |graph: &Graph| {
                let (found, _) = attention::find(graph, policy);
                let products = found.iter().flat_map(|of| [of.product, of.result]);
                products.collect()
            };
            return aligned(graph, &policy.thresholds, kept);
        }
        let room = |graph: &Graph| {
            OneByOne::of(graph, policy.target.tiles).room(allowed(recorded, policy, false))
        };
        hoisted(graph, &policy.thresholds, room)
    };
    pass("simplify", simplified, Graph::verify)
}

/// The passes after simplification.
fn scheduled(recorded: Graph, mut graph: Graph, policy: &Policy) -> Result<Draft> {
    let lowered = || lower(&graph, policy);
    let lowering = pass("lower", lowered, |it| it.verify(&graph))?;
    let fused = || Ok(Fusion::of(&graph, &lowering, policy));
    let fusion = pass("fuse", fused, Fusion::verify)?;
    let joined = || fusion.with_products(&graph, &lowering).complete(&lowering);
    let mut schedule = pass("templates", joined, |it| it.verify(&graph, &lowering))?;
    widen(&mut graph, &lowering, &mut schedule);
    log_loops(&lowering, &schedule);
    let emitted = || kernels::steps(&graph, &lowering, &schedule, policy);
    let steps = pass("emit", emitted, |it| kernels::verify(it))?;
    let ordered = || {
        Ok(arrange::draft(
            recorded, graph, lowering, schedule, steps, policy,
        ))
    };
    pass("order", ordered, verify::verify)
}

/// Runs a pass, as a span within that of planning while somebody profiles (scheduler V-11, codegen B12.7: times by pass),
/// and checks what it made where checks are on.
fn pass<T>(
    name: &'static str,
    run: impl FnOnce() -> Result<T>,
    verify: impl FnOnce(&T) -> Result<()>,
) -> Result<T> {
    let timer = Timer::start();
    let made = run()?;
    timer.stop(Activity::Planning, || (name.to_owned(), 0));
    if Config::get().verify {
        verify(&made)?;
    }
    Ok(made)
}

/// Logs the steps before fusion and after it (scheduler V-08).
fn log_loops(lowering: &Lowering, schedule: &Schedule) {
    log(Channel::Loops, || {
        let mut text = String::from("before fusion\n");
        let call = |at: usize| format!("call %{}\n", lowering.steps[at].node().0);
        for (at, step) in lowering.steps.iter().enumerate() {
            match step {
                Lowered::Nest(nest) => text += &nest.to_string(),
                Lowered::Attention(attention) => text += &format!("attention {}", attention.nest),
                Lowered::Call(_) => text += &call(at),
            }
        }
        text += "after fusion\n";
        for step in &schedule.steps {
            match step {
                Scheduled::Fused(fused) => text += &fused.to_string(),
                Scheduled::Call(at) => text += &call(*at),
            }
        }
        text
    });
}

/// The kernels of a graph's plan for an architecture, which need not be this machine's.
///
/// # Errors
/// A pass's error.
pub fn kernels_for(graph: &Graph, architecture: Architecture) -> Result<Vec<KernelSource>> {
    let policy = Policy::from(Target::of_architecture(architecture));
    let draft = Draft::of(graph.clone(), &policy)?;
    Ok(draft
        .kernels()
        .map(|kernel| kernel.source.clone())
        .collect())
}
