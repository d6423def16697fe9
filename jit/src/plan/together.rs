//! Kernels of several steps in one launch.

use super::launch::{Arguments, Outputs};
use super::run::Run;
use crate::body::Source;
use crate::draft::Step;
use crate::emit::Emitted;
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::{Error, Kernel, Member, Result, launch_noting, launch_together};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

impl Run<'_> {
    /// Launches the independent kernels of steps `group` at once, then releases what each of them used last; in
    /// several launches where more than `held` bytes would wait for that, which results could have taken instead of
    /// memory of their own. `slices` above 0: abreast.
    pub(super) fn launch_together(
        &mut self,
        group: Range<usize>,
        slices: usize,
        kernels: &[Option<Arc<Kernel>>],
    ) -> Result<()> {
        let draft = self.draft;
        let mut batch: Vec<(usize, &Emitted, &Kernel, Outputs)> = Vec::with_capacity(group.len());
        let (mut dying, mut held) = (0, 0);
        for i in group {
            let (Step::Launch(emitted), Some(kernel)) = (&draft.steps[i], &kernels[i]) else {
                return Err(Error::internal("a kernel is missing"));
            };
            let mut targets = self.targets(emitted, &draft.frees[i]);
            let bytes = |id: &ValueId| {
                let node = draft.graph.node(*id);
                node.shape.numel().saturating_mul(node.dtype.size())
            };
            held += targets.fresh.iter().map(bytes).sum::<usize>().min(dying);
            if held > draft.launches.held {
                self.launch_batch(std::mem::take(&mut batch), slices)?;
                (dying, held) = (0, 0);
                targets = self.targets(emitted, &draft.frees[i]);
            }
            let kept = |source: &&Source| targets.aliased.iter().all(|a| a.1 != **source);
            let released = draft.frees[i].iter().filter(kept);
            dying += released
                .filter_map(|source| self.dying(*source))
                .map(|array| array.buffer.bytes())
                .sum::<usize>();
            let outputs = self.with_memory(emitted, targets)?;
            batch.push((i, emitted, kernel, outputs));
        }
        self.launch_batch(batch, slices)
    }

    fn launch_batch(
        &mut self,
        batch: Vec<(usize, &Emitted, &Kernel, Outputs)>,
        slices: usize,
    ) -> Result<()> {
        let draft = self.draft;
        let mut verdict = self.verdict.take();
        let mut arguments = Arguments::default();
        for (_, emitted, _, outputs) in &batch {
            self.bind(emitted, outputs, &mut arguments)?;
        }
        let members: Vec<Member<'_>> = batch
            .iter()
            .enumerate()
            .map(|(at, (i, emitted, kernel, _))| Member {
                launch: arguments.launch(at, emitted, kernel),
                work: draft.launches.work[*i],
            })
            .collect();
        let faults = match &members[..] {
            [member] => {
                let faults = launch_noting(&member.launch, &mut verdict);
                faults.map(|f| f.is_empty().then(Vec::new).unwrap_or_else(|| vec![(0, f)]))
            }
            members => launch_together(members, slices, &mut verdict),
        };
        let faults = faults.map_err(|e| match batch.first() {
            Some((_, emitted, ..)) => draft.placed_kernel(e, emitted),
            None => e,
        });
        drop(members);
        drop(arguments);
        self.verdict = verdict;
        for (member, faults) in faults? {
            self.note(&faults, [batch[member].1]);
        }
        let steps: SmallVec<[usize; 16]> = batch.iter().map(|member| member.0).collect();
        for (_, _, _, outputs) in batch {
            self.settle(outputs)?;
        }
        steps.into_iter().for_each(|i| self.release(i));
        Ok(())
    }
}
