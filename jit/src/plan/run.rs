//! Running plans: memory, launches, calls, faults.

use super::failures::Failures;
use super::{Dense, Plan, PlanInput};
use crate::body::Source;
use crate::draft::{Draft, Step, accesses};
use crate::emit::Emitted;
use crate::graph::Graph;
use crate::ready_made::run_ready_made;
use ferrotrace_kernels::{Array, Operand, ValueId, copy};
use ferrotrace_runtime::{
    Buffer, Config, Error, FloatEnvironment, Result, Scalar, Timer, Verdict, hold_recorded,
    is_profiling, with_threads,
};
use smallvec::SmallVec;
use std::cell::OnceCell;

/// The state of one run.
pub(super) struct Run<'a> {
    pub(super) draft: &'a Draft,
    pub(super) dense: Dense,
    pub(super) scalars: &'a [Scalar],
    pub(super) inputs: Vec<Option<PlanInput>>,
    /// Stored nodes, at their places.
    nodes: SmallVec<[Option<Array>; 4]>,
    places: &'a Places,
    nothing: OnceCell<Buffer>,
    /// What kernels that check indices report, on a device.
    pub(super) verdict: Option<Verdict>,
    /// What went wrong.
    pub(super) failures: Failures,
}

impl Plan {
    /// Runs the plan: one input for each of the graph's, one number for each slot. Donated inputs may be overwritten.
    ///
    /// # Errors
    /// Out of memory; an index out of range, naming the dimension; a ready-made kernel's error.
    pub fn run(&self, inputs: &mut Vec<PlanInput>, scalars: &[Scalar]) -> Result<Vec<Array>> {
        self.run_each(inputs, scalars)?.into_iter().collect()
    }

    /// As [`run`](Plan::run), to the end: what does not depend on an operation that failed has its value, and what does has
    /// the error of the first such operation.
    ///
    /// # Errors
    /// Of what is no operation's: nothing has a value then.
    pub fn run_each(
        &self,
        inputs: &mut Vec<PlanInput>,
        scalars: &[Scalar],
    ) -> Result<Vec<Result<Array>>> {
        let _environment = FloatEnvironment::standard();
        self.note();
        if self.fallback {
            let arrays = inputs.drain(..).map(|i| Ok(i.array)).collect();
            return run_ready_made(&self.draft.recorded, arrays, scalars);
        }
        if inputs.len() != self.draft.graph.inputs().len() {
            let (given, wanted) = (inputs.len(), self.draft.graph.inputs().len());
            let why = format!("a plan of {wanted} inputs was given {given}");
            return Err(Error::internal(why));
        }
        let kernels = [&self.kernels, &self.before].into_iter().flatten();
        hold_recorded(kernels.flatten());
        let mut run = Run::new(self, std::mem::take(inputs), scalars);
        self.run_steps(&mut run)?;
        run.judge()?;
        Ok(run.outputs())
    }

    fn run_steps(&self, run: &mut Run<'_>) -> Result<()> {
        self.check_ahead(run)?;
        if Config::get().nans {
            return self.run_watched(run);
        }
        if !self.run_captured(run)? {
            for at in 0..self.draft.launches.groups.len() {
                self.run_group(run, at);
            }
        }
        Ok(())
    }

    /// Runs the steps of one launch, and releases what they used last. What a step that fails should have stored is noted.
    pub(super) fn run_group(&self, run: &mut Run<'_>, at: usize) {
        let group = &self.draft.launches.groups[at];
        let timer = match is_profiling() {
            true => Timer::start_on(&self.draft.graph.device()),
            false => Timer::start(),
        };
        if group.len() > 1 && !run.failures.lacks_memory() {
            if let Err(error) = self.combined(run, at) {
                group.clone().for_each(|i| run.spoil_missing(i, &error));
                group.clone().for_each(|i| run.release(i));
            }
            self.meter.stop(timer, &self.draft, at);
            return;
        }
        for i in group.clone() {
            let done = run.has_operands(i).and_then(|()| self.step(run, i));
            if let Err(error) = done {
                run.spoil(i, &error);
            }
        }
        self.meter.stop(timer, &self.draft, at);
        group.clone().for_each(|i| run.release(i));
    }

    /// Launches one group of steps without timing it for a profile.
    pub(super) fn launch_group(&self, run: &mut Run<'_>, at: usize) -> Result<()> {
        let group = &self.draft.launches.groups[at];
        if group.len() > 1 {
            return self.combined(run, at);
        }
        self.step(run, group.start)?;
        run.release(group.start);
        Ok(())
    }

    /// Launches the kernels of a group at once.
    fn combined(&self, run: &mut Run<'_>, at: usize) -> Result<()> {
        let launches = &self.draft.launches;
        let (group, slices) = (launches.groups[at].clone(), launches.slices_of(at));
        match launches.is_solo(group.start) {
            true => with_threads(1, || run.launch_together(group, slices, &self.kernels)),
            false => run.launch_together(group, slices, &self.kernels),
        }
    }

    pub(super) fn step(&self, run: &mut Run<'_>, i: usize) -> Result<()> {
        match self.draft.launches.is_solo(i) {
            true => with_threads(1, || self.spread_step(run, i)),
            false => self.spread_step(run, i),
        }
    }

    fn spread_step(&self, run: &mut Run<'_>, i: usize) -> Result<()> {
        match (&self.draft.steps[i], &self.kernels[i]) {
            (Step::Launch(emitted), Some(kernel)) => {
                run.launch(emitted, kernel, &self.draft.frees[i])
            }
            (Step::Template(template), kernel) => {
                let kernels = [self.before[i].as_deref(), kernel.as_deref()];
                run.template(template, kernels, &self.draft.frees[i])
            }
            (Step::Call(call), _) => {
                let array = run.call(call, &self.draft.frees[i])?;
                is_as_inferred(&self.draft.graph, call.node, &array)?;
                run.store(call.node, array);
                Ok(())
            }
            (_, None) => Err(Error::internal("a kernel is missing")),
        }
    }
}

/// Checks that a ready-made kernel or a library gave a node what the operator's rules say (ir F14).
fn is_as_inferred(graph: &Graph, id: ValueId, array: &Array) -> Result<()> {
    let node = graph.node(id);
    if (array.shape(), array.dtype) == (&node.shape, node.dtype) {
        return Ok(());
    }
    let (given, wanted) = (
        format!("{}{}", array.dtype, array.shape()),
        format!("{}{}", node.dtype, node.shape),
    );
    let why = format!("a ready-made kernel gave {given} for {wanted}");
    Err(Error::internal(why).at(graph.context(id)))
}

/// Whether an array is all of a buffer of these bytes, which nothing else holds.
pub(super) fn is_whole(a: &Array, bytes: usize) -> bool {
    let starts = a.layout.is_contiguous() && a.layout.offset() == 0;
    starts && a.buffer.bytes() == bytes && a.buffer.is_unique()
}

/// Where the nodes that a plan stores stand among them: most nodes of a long trace are not stored.
#[derive(Debug)]
pub(super) struct Places {
    /// By node; `u32::MAX` where it is not stored.
    of: Vec<u32>,
    count: usize,
}

impl Places {
    /// The places of the nodes that a draft's steps store.
    pub fn of(draft: &Draft) -> Places {
        let mut places = Places {
            of: vec![u32::MAX; draft.graph.nodes().len()],
            count: 0,
        };
        let mut add = |node: ValueId| {
            let place = &mut places.of[node.0 as usize];
            if *place == u32::MAX {
                *place = places.count as u32;
                places.count += 1;
            }
        };
        for step in &draft.steps {
            accesses(step).1.into_iter().for_each(&mut add);
            // A product that the library does not take with its kernel is stored between the two.
            if let Step::Template(template) = step {
                add(template.call.node);
            }
        }
        places
    }
}

impl<'a> Run<'a> {
    /// The run of a plan on these inputs, before its first step.
    pub(super) fn new(plan: &'a Plan, inputs: Vec<PlanInput>, scalars: &'a [Scalar]) -> Run<'a> {
        Run {
            draft: &plan.draft,
            dense: plan.dense,
            scalars,
            // Collected in place, without an allocation.
            inputs: inputs.into_iter().map(Some).collect(),
            nodes: (0..plan.places.count).map(|_| None).collect(),
            places: &plan.places,
            nothing: OnceCell::new(),
            verdict: None,
            failures: Failures::default(),
        }
    }

    /// A run of the same plan with the same numbers, which has no data.
    pub(super) fn shadow(of: &Run<'a>) -> Run<'a> {
        Run {
            draft: of.draft,
            dense: of.dense,
            scalars: of.scalars,
            inputs: of.inputs.iter().map(|_| None).collect(),
            nodes: of.nodes.iter().map(|_| None).collect(),
            places: of.places,
            nothing: OnceCell::new(),
            verdict: None,
            failures: Failures::default(),
        }
    }

    /// Gives a source data; `owned` says whether an input may be overwritten.
    pub(super) fn put(&mut self, source: Source, array: Array, owned: bool) {
        match source {
            Source::Input(n) => {
                self.inputs[n as usize] = Some(PlanInput {
                    array,
                    donated: owned,
                });
            }
            Source::Node(v) => self.store(v, array),
        }
    }

    /// Takes a source's data away.
    pub(super) fn forget(&mut self, source: Source) {
        match source {
            Source::Input(n) => self.inputs[n as usize] = None,
            Source::Node(v) => drop(self.take(v)),
        }
    }
}

impl Run<'_> {
    /// The data of a stored node, if it was computed and not released.
    pub(super) fn node(&self, id: ValueId) -> Option<&Array> {
        let place = self.places.of[id.0 as usize];
        self.nodes.get(place as usize)?.as_ref()
    }

    /// A buffer without bytes.
    pub(super) fn nothing(&self) -> Result<&Buffer> {
        if let Some(nothing) = self.nothing.get() {
            return Ok(nothing);
        }
        let nothing = Buffer::allocate(&self.draft.graph.device(), 0)?;
        Ok(self.nothing.get_or_init(|| nothing))
    }

    pub(super) fn take(&mut self, id: ValueId) -> Option<Array> {
        let place = self.places.of[id.0 as usize];
        self.nodes.get_mut(place as usize)?.take()
    }

    pub(super) fn store(&mut self, id: ValueId, array: Array) {
        let place = self.places.of[id.0 as usize];
        if let Some(node) = self.nodes.get_mut(place as usize) {
            *node = Some(array);
        }
    }

    pub(super) fn array(&self, source: Source) -> Result<&Array> {
        let found = match source {
            Source::Input(n) => self
                .inputs
                .get(n as usize)
                .and_then(|i| i.as_ref())
                .map(|i| &i.array),
            Source::Node(v) => self.node(v),
        };
        found.ok_or_else(|| Error::internal(format!("{source:?} has no memory")))
    }

    /// Whether the run may overwrite the buffer after its last use: all but inputs that are not donated.
    pub(super) fn owns(&self, source: Source) -> bool {
        match source {
            Source::Input(n) => self.inputs[n as usize].as_ref().is_some_and(|i| i.donated),
            Source::Node(_) => true,
        }
    }

    /// Releases what nothing after step `i` needs.
    pub(super) fn release(&mut self, i: usize) {
        for source in &self.draft.frees[i] {
            self.free(*source);
        }
    }

    /// Releases a buffer after its last use.
    pub(super) fn free(&mut self, source: Source) {
        match source {
            Source::Input(n) if self.owns(source) => self.inputs[n as usize] = None,
            Source::Input(_) => {}
            Source::Node(v) => drop(self.take(v)),
        }
    }

    /// Memory for a node that a kernel writes: a part of what it lies in, or its own; of one that it updates with what
    /// is there before.
    pub(super) fn fresh(&mut self, emitted: &Emitted, id: ValueId) -> Result<Array> {
        let Some(update) = emitted.updates.iter().find(|u| u.node == id) else {
            return self.given(id);
        };
        let base = self.window(update.base.0, &update.base.1)?;
        let copied = match &update.window {
            None => copy::copied_on(&base, &self.dense),
            Some(window) => copy::copied_around(&base, window, &self.dense),
        };
        copied.map_err(|e| self.draft.placed(e, id))
    }

    /// Memory for a node that a step writes all of: a part of what it lies in, or its own.
    pub(super) fn given(&mut self, id: ValueId) -> Result<Array> {
        let Some(piece) = self.draft.pieces.get(&id) else {
            return self.empty(id);
        };
        if self.node(piece.whole).is_none() {
            let whole = self.empty(piece.whole)?;
            self.store(piece.whole, whole);
        }
        let whole = self.array(Source::Node(piece.whole))?;
        Ok(whole.with_layout(piece.window.clone()))
    }

    /// Memory for a node of its own; nodes without elements have it without being computed.
    pub(super) fn empty(&self, id: ValueId) -> Result<Array> {
        let node = self.draft.graph.node(id);
        let device = self.draft.graph.device();
        Array::empty(&device, node.shape.clone(), node.dtype).map_err(|e| self.draft.placed(e, id))
    }

    pub(super) fn number(&self, operand: &Operand) -> Result<Scalar> {
        match operand {
            Operand::Slot(s, _) => self
                .scalars
                .get(*s as usize)
                .copied()
                .ok_or_else(|| Error::internal("a number is missing")),
            Operand::Const(scalar) => Ok(*scalar),
            Operand::Value(_) => Err(Error::internal("a tensor stands for a number")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrotrace_runtime::{DType, Device, Shape};

    // ir F14
    #[test]
    fn results_of_calls_are_what_was_inferred() {
        let text = "%0: f32[4, 3] = input 0 [3, 1]\n %1: f32[4, 3] = sort(%0) {dim: 1, descending: false}\n return %1";
        let graph: Graph = text.parse().expect("a graph");
        let of = |sizes: &[usize], dtype| {
            let array = Array::empty(&Device::cpu(), Shape::from(sizes), dtype).expect("memory");
            is_as_inferred(&graph, ValueId(1), &array)
        };
        assert!(of(&[4, 3], DType::F32).is_ok());
        for (sizes, dtype) in [(&[3, 4][..], DType::F32), (&[4, 3], DType::F64)] {
            let error = of(sizes, dtype).expect_err("it differs").to_string();
            assert!(
                error.contains("for f32[4, 3]") && error.contains("sort"),
                "{error}"
            );
        }
    }
}
