//! Running plans: memory, launches, calls, faults.

use super::{Draft, Plan, PlanInput, Step};
use crate::body::Source;
use crate::emit::{Emitted, Pointer};
use crate::graph::NodeOp;
use crate::lower::{Call, CallArg};
use ferrotrace_kernels::{Array, Operand, ValueId, eager};
use ferrotrace_runtime::{
    Binding, Buffer, Counter, Error, ErrorKind, Kernel, Launch, Layout, Result, Scalar, Timer,
    count, launch,
};
use smallvec::SmallVec;
use std::cell::OnceCell;

/// The buffers a step touches.
pub(super) fn touched(step: &Step) -> Vec<Source> {
    super::build::sources_of(step)
}

/// The state of one run.
struct Run<'a> {
    draft: &'a Draft,
    scalars: &'a [Scalar],
    inputs: SmallVec<[Option<(Array, bool)>; 8]>,
    /// Stored nodes, at their places.
    nodes: SmallVec<[Option<Array>; 4]>,
    places: &'a Places,
    nothing: OnceCell<Buffer>,
}

impl Plan {
    /// Runs the plan: one input for each of the graph's, one number for each slot. Donated inputs may be overwritten.
    ///
    /// # Errors
    /// Out of memory; an index out of range, naming the dimension; a ready-made kernel's error.
    pub fn run(&self, inputs: &mut Vec<PlanInput>, scalars: &[Scalar]) -> Result<Vec<Array>> {
        if self.fallback {
            let arrays: Vec<Array> = inputs.drain(..).map(|i| i.array).collect();
            return crate::run_eagerly(&self.draft.recorded, &arrays, scalars);
        }
        let mut run = Run {
            draft: &self.draft,
            scalars,
            inputs: inputs
                .drain(..)
                .map(|i| Some((i.array, i.donated)))
                .collect(),
            nodes: (0..self.places.count).map(|_| None).collect(),
            places: &self.places,
            nothing: OnceCell::new(),
        };
        for (i, step) in self.draft.steps.iter().enumerate() {
            let timer = Timer::start();
            match (step, &self.kernels[i]) {
                (Step::Launch(emitted), Some(kernel)) => {
                    run.launch(emitted, kernel, &self.draft.frees[i])?
                }
                (Step::Call(call), _) => {
                    let array = match run.join(call)? {
                        Some(whole) => whole,
                        None => run.call(call)?,
                    };
                    run.store(call.node, array);
                }
                (Step::Launch(_), None) => return Err(Error::internal("a kernel is missing")),
            }
            self.meter.stop(timer, &self.draft, i);
            for source in &self.draft.frees[i] {
                run.free(*source);
            }
        }
        run.outputs()
    }
}

/// Where the nodes that a plan stores stand among them: most nodes of a long trace are not stored.
#[derive(Debug)]
pub(super) struct Places {
    /// By node; `u32::MAX` where it is not stored.
    of: Vec<u32>,
    count: usize,
}

impl Places {
    /// Those of a draft's steps.
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
            match step {
                Step::Call(call) => add(call.node),
                Step::Launch(kernel) => {
                    for pointer in &kernel.pointers {
                        if let Pointer::Write(node) = *pointer {
                            add(node);
                        }
                    }
                }
            }
        }
        places
    }
}

impl Run<'_> {
    /// The data of a stored node, if it was computed and not released.
    fn node(&self, id: ValueId) -> Option<&Array> {
        let place = self.places.of[id.0 as usize];
        self.nodes.get(place as usize)?.as_ref()
    }

    /// A buffer without bytes.
    fn nothing(&self) -> Result<&Buffer> {
        if let Some(nothing) = self.nothing.get() {
            return Ok(nothing);
        }
        let nothing = Buffer::allocate(&self.draft.graph.device(), 0)?;
        Ok(self.nothing.get_or_init(|| nothing))
    }

    fn take(&mut self, id: ValueId) -> Option<Array> {
        let place = self.places.of[id.0 as usize];
        self.nodes.get_mut(place as usize)?.take()
    }

    fn store(&mut self, id: ValueId, array: Array) {
        let place = self.places.of[id.0 as usize];
        if let Some(node) = self.nodes.get_mut(place as usize) {
            *node = Some(array);
        }
    }

    fn array(&self, source: Source) -> Result<&Array> {
        let found = match source {
            Source::Input(n) => self
                .inputs
                .get(n as usize)
                .and_then(|i| i.as_ref())
                .map(|i| &i.0),
            Source::Node(v) => self.node(v),
        };
        found.ok_or_else(|| Error::internal(format!("{source:?} has no memory")))
    }

    fn free(&mut self, source: Source) {
        match source {
            Source::Input(n) => {
                if self.inputs[n as usize].as_ref().is_some_and(|i| i.1) {
                    self.inputs[n as usize] = None;
                }
            }
            Source::Node(v) => drop(self.take(v)),
        }
    }

    /// Memory for a node that a kernel writes: a part of what it lies in, or its own.
    fn fresh(&mut self, id: ValueId) -> Result<Array> {
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
    fn empty(&self, id: ValueId) -> Result<Array> {
        let node = self.draft.graph.node(id);
        let device = self.draft.graph.device();
        Array::empty(&device, node.shape.clone(), node.dtype)
            .map_err(|e| e.at(self.draft.graph.context(id)))
    }

    fn number(&self, operand: &Operand) -> Result<Scalar> {
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

    /// A dying buffer that the node may be written to (scheduler B-07).
    fn reusable(
        &self,
        emitted: &Emitted,
        id: ValueId,
        frees: &[Source],
        taken: &[Source],
    ) -> Option<Source> {
        if self.draft.pieces.contains_key(&id) {
            return None;
        }
        let node = self.draft.graph.node(id);
        let bytes = node.shape.numel() * node.dtype.size();
        let fits = |source: &Source| {
            let owned = match source {
                Source::Input(n) => self.inputs[*n as usize].as_ref().is_some_and(|i| i.1),
                Source::Node(_) => true,
            };
            owned
                && frees.contains(source)
                && !taken.contains(source)
                && self.array(*source).is_ok_and(|a| {
                    a.buffer.bytes() == bytes
                        && a.layout.offset() == 0
                        && a.layout.is_contiguous()
                        && a.buffer.is_unique()
                })
        };
        emitted
            .in_place
            .iter()
            .find(|(n, source)| *n == id && fits(source))
            .map(|(_, source)| *source)
    }

    fn launch(&mut self, emitted: &Emitted, kernel: &Kernel, frees: &[Source]) -> Result<()> {
        let mut taken: SmallVec<[Source; 2]> = SmallVec::new();
        let mut fresh: SmallVec<[(ValueId, Array); 2]> = SmallVec::new();
        let mut aliased: SmallVec<[(ValueId, Source); 2]> = SmallVec::new();
        for pointer in &emitted.pointers {
            if let Pointer::Write(id) = *pointer {
                match self.reusable(emitted, id, frees, &taken) {
                    Some(source) => {
                        taken.push(source);
                        aliased.push((id, source));
                    }
                    None => fresh.push((id, self.fresh(id)?)),
                }
            }
        }
        let written = |id: ValueId| fresh.iter().find(|f| f.0 == id).map(|f| &f.1);
        let mut bindings: SmallVec<[Binding<'_>; 8]> = SmallVec::new();
        for pointer in &emitted.pointers {
            let array = match *pointer {
                Pointer::Read(source) => self.array(source).ok(),
                Pointer::Write(id) => match aliased.iter().find(|a| a.0 == id) {
                    Some((_, source)) => Some(self.array(*source)?),
                    None => written(id),
                },
            };
            bindings.push(match array {
                Some(a) => {
                    let (offset, size) = (a.layout.offset(), a.dtype.size());
                    let end = a.layout.span().end.max(offset);
                    Binding {
                        buffer: &a.buffer,
                        offset: offset * size,
                        span: (end - offset) * size,
                    }
                }
                // A node without elements: no lane reads it.
                None => Binding {
                    buffer: self.nothing()?,
                    offset: 0,
                    span: 0,
                },
            });
        }
        let mut scalars: SmallVec<[u64; 8]> = SmallVec::new();
        for number in &emitted.numbers {
            scalars.push(self.number(&number.operand)?.to_bits(number.dtype));
        }
        let wanted = emitted
            .streams
            .iter()
            .any(|s| s.2 && aliased.iter().all(|a| a.0 != s.1));
        let mut changed: SmallVec<[i64; 32]> = SmallVec::new();
        let params: &[i64] = if wanted {
            changed.extend_from_slice(&emitted.params);
            for &(at, id, stream) in &emitted.streams {
                changed[at] = (stream && aliased.iter().all(|a| a.0 != id)) as i64;
            }
            &changed
        } else {
            &emitted.params
        };
        let fault = launch(&Launch {
            kernel,
            buffers: &bindings,
            params,
            scalars: &scalars,
            chunks: emitted.chunks,
            scratch: emitted.scratch,
            local: emitted.local,
            grid: emitted.grid,
        })
        .map_err(|e| super::placed(e, emitted, &self.draft.graph))?;
        drop(bindings);
        if let Some(fault) = fault {
            let site = self.draft.sites.get(fault.site as usize - 1);
            let site = site.ok_or_else(|| Error::internal("a fault of no known site"))?;
            let kind = ErrorKind::Index {
                index: fault.index,
                dim: site.dim,
                size: site.size,
            };
            return Err(Error::new(kind).at(self.draft.graph.context(site.node)));
        }
        for (id, array) in fresh {
            self.store(id, array);
        }
        for (id, source) in aliased {
            count(Counter::InPlaceWrites, 1);
            let node = self.draft.graph.node(id);
            let buffer = self.array(source)?.buffer.clone();
            let layout = Layout::contiguous(node.shape.clone());
            let array = Array {
                buffer,
                layout,
                dtype: node.dtype,
            };
            self.store(id, array);
            match source {
                Source::Input(n) => self.inputs[n as usize] = None,
                Source::Node(v) => drop(self.take(v)),
            }
        }
        Ok(())
    }

    /// A stored window, as an array.
    fn window(&self, source: Source, layout: &Layout) -> Result<Array> {
        match source {
            Source::Node(v) if self.node(v).is_none() => {
                Ok(self.empty(v)?.with_layout(layout.clone()))
            }
            _ => {
                let base = self.array(source)?;
                let (shape, strides) = (
                    layout.shape().clone(),
                    SmallVec::from_slice(layout.strides()),
                );
                let offset = base.layout.offset() as isize + layout.offset() as isize;
                Ok(base.with_layout(Layout::new(shape, strides, offset as usize)))
            }
        }
    }

    /// A concatenation some of whose parts were written in place: the others are copied there.
    fn join(&self, call: &Call) -> Result<Option<Array>> {
        let Some((dim, copied)) = self.draft.joined(call) else {
            return Ok(None);
        };
        let whole = self.array(Source::Node(call.node))?;
        count(Counter::LibraryCalls, u64::from(!copied.is_empty()));
        for (start, source, layout) in copied {
            eager::place(whole, dim, start, &self.window(source, layout)?)
                .map_err(|e| e.at(self.draft.graph.context(call.node)))?;
        }
        Ok(Some(whole.clone()))
    }

    fn call(&self, call: &Call) -> Result<Array> {
        count(Counter::LibraryCalls, 1);
        let node = self.draft.graph.node(call.node);
        let NodeOp::Op(op) = &node.op else {
            return Err(Error::internal("an input is called"));
        };
        let arg = |a: &CallArg| match a {
            CallArg::Window(source, layout) => self.window(*source, layout).map(eager::Arg::Array),
            CallArg::Number(operand) => self.number(operand).map(eager::Arg::Scalar),
        };
        let args: Vec<eager::Arg> = call.args.iter().map(arg).collect::<Result<_>>()?;
        let device = self.draft.graph.device();
        let array = eager::run_on(&device, op, &args, &node.shape, node.dtype)
            .map_err(|e| e.at(self.draft.graph.context(call.node)))?;
        // Later kernels index the node's memory row-major from its start.
        if array.layout.is_contiguous() && array.layout.offset() == 0 {
            Ok(array)
        } else {
            eager::contiguous(&array)
        }
    }

    fn outputs(self) -> Result<Vec<Array>> {
        self.draft
            .outputs
            .iter()
            .map(|(source, layout)| self.window(*source, layout))
            .collect()
    }
}

/// Checks a draft's memory, apart from the code that decided it: every buffer is written before it is read, none is
/// used after its release, outputs are never released, and shared memory is shared with a buffer released there.
pub(super) fn verify(draft: &Draft) -> Result<()> {
    let mut alive: std::collections::HashSet<Source> = (0..draft.graph.inputs().len() as u32)
        .map(Source::Input)
        .collect();
    let empty =
        |s: &Source| matches!(s, Source::Node(v) if draft.graph.node(*v).shape.numel() == 0);
    for (i, step) in draft.steps.iter().enumerate() {
        let (reads, writes): (Vec<Source>, Vec<Source>) = match step {
            Step::Launch(e) => {
                let reads = e.pointers.iter().filter_map(|p| {
                    if let Pointer::Read(s) = p {
                        Some(*s)
                    } else {
                        None
                    }
                });
                let writes = e.pointers.iter().filter_map(|p| match p {
                    Pointer::Write(n) => Some(Source::Node(*n)),
                    Pointer::Read(_) => None,
                });
                (reads.collect(), writes.collect())
            }
            Step::Call(call) => {
                let all = touched(step);
                (all[..all.len() - 1].to_vec(), vec![Source::Node(call.node)])
            }
        };
        if let Some(bad) = reads.iter().find(|s| !alive.contains(s) && !empty(s)) {
            return Err(Error::internal(format!(
                "step {i} reads {bad:?}, which has no value"
            )));
        }
        if let Some(bad) = writes.iter().find(|s| alive.contains(s)) {
            return Err(Error::internal(format!("step {i} writes {bad:?} again")));
        }
        alive.extend(writes);
        for source in &draft.frees[i] {
            if !alive.remove(source) && !empty(source) {
                return Err(Error::internal(format!(
                    "step {i} releases {source:?}, which is not held"
                )));
            }
        }
    }
    match draft
        .outputs
        .iter()
        .find(|(s, _)| !alive.contains(s) && !empty(s))
    {
        Some((bad, _)) => Err(Error::internal(format!(
            "output {bad:?} is not held at the end"
        ))),
        None => Ok(()),
    }
}
