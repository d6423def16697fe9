//! The pass from a schedule to steps: each fused node becomes a kernel, each product with kernels around it a template.

use super::{Before, Step, Template};
use crate::emit::{self, Alike, Emitted, Pointer};
use crate::graph::Graph;
use crate::lower::{Lowered, Lowering};
use crate::policy::Policy;
use crate::schedule::{FusedNode, Prologue, Schedule, Scheduled};
use crate::target::Language;
use ferrotrace_kernels::{Operand, ValueId};
use ferrotrace_runtime::{Error, Result};
use rustc_hash::FxHashSet;

/// The steps of a schedule, in its order, with their kernels.
///
/// # Errors
/// Under verification, a kernel that was written once for several nodes is not what one of them would be.
pub(super) fn steps(
    graph: &Graph,
    lowering: &Lowering,
    schedule: &Schedule,
    policy: &Policy,
) -> Result<Vec<Step>> {
    let prologues = || schedule.prologues.values().flatten();
    let fed: FxHashSet<ValueId> = prologues().map(Prologue::node).collect();
    let fused = schedule.steps.iter().filter_map(|step| match step {
        Scheduled::Fused(fused) => Some((&**fused, &schedule.stored)),
        Scheduled::Call(_) => None,
    });
    // A prologue of a generated product is part of its kernel, and needs none of its own.
    let alone = prologues().filter(|_| policy.target.panels);
    let alone = alone.map(|p| (&p.kernel, &fed));
    let write = |node: &FusedNode, stored: &FxHashSet<ValueId>| match policy.target.language {
        Language::C => emit::emit(node, stored, policy),
        Language::Cuda => emit::cuda::emit(node, stored),
    };
    let mut emission = Emission {
        graph,
        lowering,
        schedule,
        policy,
        alike: Alike::of(fused.chain(alone), &write),
        fed: &fed,
    };
    let mut steps = Vec::with_capacity(schedule.steps.len());
    for step in &schedule.steps {
        steps.push(match step {
            Scheduled::Fused(fused) => emission.fused(fused)?,
            Scheduled::Call(at) => emission.call(*at)?,
        });
    }
    Ok(steps)
}

/// The kernels of a schedule while they are written.
struct Emission<'a> {
    graph: &'a Graph,
    lowering: &'a Lowering,
    schedule: &'a Schedule,
    policy: &'a Policy,
    alike: Alike<'a>,
    /// What kernels compute for products alone.
    fed: &'a FxHashSet<ValueId>,
}

impl<'a> Emission<'a> {
    /// What computes operands of the product of a lowered step.
    fn prologues(&self, step: usize) -> &'a [Prologue] {
        let schedule = self.schedule;
        schedule.prologues.get(&step).map_or(&[], Vec::as_slice)
    }

    fn fused(&mut self, fused: &'a FusedNode) -> Result<Step> {
        let stored = &self.schedule.stored;
        let Some(product) = fused.product else {
            return Ok(Step::Launch(Box::new(self.alike.emit(fused, stored)?)));
        };
        let prologues = self.prologues(product.step);
        let (graph, lowering) = (self.graph, self.lowering);
        if product.tiles.is_some() {
            let kernel =
                emit::cuda::product::emit(graph, lowering, fused, prologues, stored, self.policy);
            return Ok(Step::Launch(Box::new(kernel)));
        }
        let mut kernel = self.alike.emit(fused, stored)?;
        let Lowered::Call(call) = &lowering.steps[product.step] else {
            return Ok(Step::Launch(Box::new(kernel)));
        };
        let before = prologues.first().map(|prologue| self.before(prologue));
        let before = before.transpose()?;
        // The operands of the product are read until its last panel.
        let mut operands = lowering.steps[product.step].reads();
        let loads = before.iter().flat_map(|b| b.kernel.node.loads());
        operands.extend(loads.map(|load| load.0));
        kernel.in_place.retain(|pair| !operands.contains(&pair.1));
        Ok(Step::Template(Box::new(Template {
            call: call.clone(),
            stored: stored.contains(&product.node),
            epilogue: product.epilogue,
            before,
            kernel: Some(kernel),
        })))
    }

    fn call(&mut self, at: usize) -> Result<Step> {
        Ok(match &self.lowering.steps[at] {
            Lowered::Call(call) => match self.prologues(at).first() {
                None => Step::Call(call.clone()),
                Some(prologue) => Step::Template(Box::new(Template {
                    call: call.clone(),
                    stored: true,
                    epilogue: None,
                    before: Some(self.before(prologue)?),
                    kernel: None,
                })),
            },
            Lowered::Attention(attention) => Step::Launch(Box::new(emit::cuda::attention::emit(
                attention,
                at,
                self.policy,
            ))),
            Lowered::Nest(_) => unreachable!("a nest is part of a fused node"),
        })
    }

    /// What computes an operand of a product.
    fn before(&mut self, prologue: &'a Prologue) -> Result<Before> {
        let mut kernel = self.alike.emit(&prologue.kernel, self.fed)?;
        kernel.in_place.clear();
        Ok(Before {
            node: prologue.node(),
            operand: prologue.operand,
            by_rows: prologue.by_rows,
            kernel,
        })
    }
}

/// Checks that what the run is told of each kernel is there: arguments that it sets, memory that may be shared.
pub(super) fn verify(steps: &[Step]) -> Result<()> {
    let before = steps.iter().filter_map(Step::before).map(|b| &b.kernel);
    for kernel in steps.iter().filter_map(Step::kernel).chain(before) {
        let set = kernel.streams.iter().map(|stream| stream.0);
        let panels = kernel.panels.iter();
        let mut set = set.chain(panels.flat_map(|p| [p.pitch, p.piece, p.pieces]));
        if set.any(|at| at >= kernel.params.len()) {
            return Err(wrong(kernel, "an argument that the run sets"));
        }
        let bases = || kernel.updates.iter().map(|update| update.base.0);
        let reads = |source| {
            kernel.pointers.contains(&Pointer::Read(source)) || bases().any(|base| base == source)
        };
        let writes = |node| kernel.pointers.contains(&Pointer::Write(node));
        let shared = |pair: &(ValueId, _)| writes(pair.0) && reads(pair.1);
        if !kernel.in_place.iter().all(shared) {
            return Err(wrong(kernel, "memory that is to be shared"));
        }
        let value = |number: &crate::body::Number| matches!(number.operand, Operand::Value(_));
        if kernel.numbers.iter().any(value) {
            return Err(wrong(kernel, "a number"));
        }
    }
    Ok(())
}

fn wrong(kernel: &Emitted, what: &str) -> Error {
    let node = kernel.node.stores.first().map_or(0, |store| store.node.0);
    Error::internal(format!("the kernel of %{node} does not have {what}"))
}
