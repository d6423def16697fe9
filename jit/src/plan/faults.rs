//! Failures within a run: a step that fails, or an index out of range, spoils what depends on it, and nothing else.
//!
//! A kernel that meets a faulty index takes row 0 instead and goes on, so that its other results are right. Where a step
//! could not run, zeros stand for its results; where there is no memory for them either, the steps that read them do not
//! run. At the end, every output that depends on a spoiled value has the error of the first operation that failed.

use super::Plan;
use super::run::Run;
use crate::body::Source;
use crate::draft::{accesses, sites};
use crate::emit::Emitted;
use ferrotrace_kernels::{Array, ValueId};
use ferrotrace_runtime::{Buffer, Error, FAULT_SLOTS, Fault, Faults, Layout, Result};

impl Plan {
    /// Launches what checks indices ahead.
    pub(super) fn check_ahead(&self, run: &mut Run<'_>) -> Result<()> {
        for (check, kernel) in self.draft.checks.iter().zip(&self.checks) {
            run.launch(check, kernel, &[])?;
        }
        Ok(())
    }
}

impl Run<'_> {
    /// Notes the faults of kernels. Sites of one slot share it: all of the kernels' are taken to have failed.
    pub(super) fn note<'k>(
        &mut self,
        faults: &Faults,
        kernels: impl IntoIterator<Item = &'k Emitted>,
    ) {
        if faults.is_empty() {
            return;
        }
        let known: Vec<u32> = kernels.into_iter().flat_map(|k| sites(&k.node)).collect();
        self.note_sites(faults, &known);
    }

    fn note_sites(&mut self, faults: &Faults, known: &[u32]) {
        let slot = |site: i64| site as usize % FAULT_SLOTS;
        for fault in faults {
            let error = self.error(*fault);
            let of_slot = known
                .iter()
                .copied()
                .filter(|&site| slot(i64::from(site)) == slot(fault.site));
            for site in of_slot.chain([fault.site as u32]) {
                if let Some(site) = self.draft.sites.get(site as usize - 1) {
                    self.failures.spoiled.push((site.node, error.clone()));
                }
            }
        }
    }

    /// Waits for the checks of a device, and notes their faults.
    ///
    /// # Errors
    /// What the driver answers.
    pub(super) fn judge(&mut self) -> Result<()> {
        let Some(verdict) = self.verdict.take() else {
            return Ok(());
        };
        let mut faults = verdict.wait()?;
        // Operations of the same indices are checked once.
        for [first, other] in &self.draft.alike {
            if let Some(fault) = faults.iter().find(|f| f.site == i64::from(*first)) {
                let index = fault.index;
                faults.push(Fault {
                    site: i64::from(*other),
                    index,
                });
            }
        }
        let all: Vec<u32> = (1..=self.draft.sites.len() as u32).collect();
        if !faults.is_empty() {
            self.note_sites(&faults, &all);
        }
        Ok(())
    }

    /// Whether the values that a step reads have memory.
    ///
    /// # Errors
    /// Why one has none.
    pub(super) fn has_operands(&self, i: usize) -> Result<()> {
        if !self.failures.lacks_memory() {
            return Ok(());
        }
        let (reads, _) = accesses(&self.draft.steps[i]);
        let missing = |v: &&ValueId| reads.contains(&Source::Node(**v));
        let Some(v) = self.failures.missing.iter().find(missing) else {
            return Ok(());
        };
        let mut spoiled = self.failures.spoiled.iter();
        let found = spoiled.find_map(|(node, error)| (node == v).then_some(error));
        found.map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Notes that a step failed: what it should have stored is spoiled.
    pub(super) fn spoil(&mut self, i: usize, error: &Error) {
        for node in accesses(&self.draft.steps[i]).1 {
            self.spoil_value(node, error);
        }
    }

    /// Notes that a step failed unless it has stored its results.
    pub(super) fn spoil_missing(&mut self, i: usize, error: &Error) {
        for node in accesses(&self.draft.steps[i]).1 {
            if self.node(node).is_none() {
                self.spoil_value(node, error);
            }
        }
    }

    fn spoil_value(&mut self, id: ValueId, error: &Error) {
        self.failures.spoiled.push((id, error.clone()));
        if self.node(id).is_some() {
            return;
        }
        let node = self.draft.graph.node(id);
        let bytes = node.shape.numel() * node.dtype.size();
        let zeros = match self.draft.pieces.contains_key(&id) {
            true => None,
            false => Buffer::zeroed(&self.draft.graph.device(), bytes).ok(),
        };
        match zeros {
            Some(buffer) => {
                let layout = Layout::contiguous(node.shape.clone());
                let dtype = node.dtype;
                self.store(
                    id,
                    Array {
                        buffer,
                        layout,
                        dtype,
                    },
                );
            }
            None => self.failures.missing.push(id),
        }
    }

    /// What the run computed, or why not.
    pub(super) fn outputs(&self) -> Vec<Result<Array>> {
        let places = self.draft.outputs.iter();
        let window = |(source, layout): &(Source, Layout)| self.window(*source, layout);
        if self.failures.spoiled.is_empty() {
            return places.map(window).collect();
        }
        let errors = self.errors();
        let outputs = places.zip(self.draft.graph.outputs());
        let output = |(place, id): (_, &ValueId)| match errors[id.0 as usize] {
            Some(at) => Err(self.failures.spoiled[at].1.clone()),
            None => window(place),
        };
        outputs.map(output).collect()
    }

    /// For each value, which failure spoiled it: of several the one whose operation was recorded first.
    fn errors(&self) -> Vec<Option<usize>> {
        let (graph, spoiled) = (&self.draft.graph, &self.failures.spoiled);
        let mut of: Vec<Option<usize>> = vec![None; graph.nodes().len()];
        for (at, (node, _)) in spoiled.iter().enumerate().rev() {
            of[node.0 as usize] = Some(at);
        }
        for id in (0..of.len() as u32).map(ValueId) {
            // What failed since its operands were spoiled is not the reason.
            let operands = graph.operands(id).filter_map(|v| of[v.0 as usize]);
            if let Some(first) = operands.min_by_key(|&at| spoiled[at].0.0) {
                of[id.0 as usize] = Some(first);
            }
        }
        of
    }
}
