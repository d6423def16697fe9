//! Launching kernels: memory for what they write, their arguments, what their faults mean.

use super::placed;
use super::run::Run;
use crate::body::Source;
use crate::draft::{Draft, Step, Template, convolution};
use crate::emit::{Emitted, Panels, Pointer};
use crate::native;
use crate::schedule::Epilogue;
use ferrotrace_kernels::cpu::panels;
use ferrotrace_kernels::ops::{conv, matmul};
use ferrotrace_kernels::{Array, ValueId};
use ferrotrace_runtime::{
    Binding, Counter, Error, ErrorKind, Fault, Kernel, Launch, Layout, Member, Result, count,
    launch_noting, launch_together,
};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// Where a kernel's results go.
#[derive(Default)]
struct Outputs {
    fresh: SmallVec<[(ValueId, Array); 2]>,
    /// Nodes written over dying buffers.
    aliased: SmallVec<[(ValueId, Source); 2]>,
    /// A product that passes from panel to panel, and the fresh node whose memory it lies in meanwhile, if any.
    passing: Option<(ValueId, Option<ValueId>)>,
}

/// Where a kernel's results will go.
#[derive(Default)]
struct Targets {
    /// Results that get memory of their own.
    fresh: SmallVec<[ValueId; 2]>,
    /// Results that are written over dying buffers.
    aliased: SmallVec<[(ValueId, Source); 2]>,
}

/// Arguments of one kernel or several, one after another.
#[derive(Default)]
struct Arguments<'a> {
    bindings: SmallVec<[Binding<'a>; 8]>,
    scalars: SmallVec<[u64; 8]>,
    /// Integers of kernels whose own are changed.
    params: Vec<i64>,
    /// For each kernel, where its arguments end in the three lists.
    ends: SmallVec<[[usize; 3]; 1]>,
}

impl Arguments<'_> {
    /// The lengths of the three lists.
    fn lengths(&self) -> [usize; 3] {
        [self.bindings.len(), self.scalars.len(), self.params.len()]
    }

    /// The launch of the kernel added as number `at`.
    fn launch<'b>(&'b self, at: usize, emitted: &'b Emitted, kernel: &'b Kernel) -> Launch<'b> {
        let begin = at.checked_sub(1).map_or([0; 3], |before| self.ends[before]);
        let range = |list: usize| begin[list]..self.ends[at][list];
        Launch {
            kernel,
            buffers: &self.bindings[range(0)],
            params: match range(2) {
                own if own.is_empty() => &emitted.params,
                changed => &self.params[changed],
            },
            scalars: &self.scalars[range(1)],
            chunks: emitted.chunks,
            scratch: emitted.scratch,
            local: emitted.local,
            grid: emitted.grid,
        }
    }
}

/// How a kernel walks the panels of a product.
fn by_panels(emitted: &Emitted) -> Result<Panels> {
    let panels = emitted.panels;
    panels.ok_or_else(|| Error::internal("a kernel without panels"))
}

impl Run<'_> {
    /// A dying buffer that the node may be written to (scheduler B-07).
    fn reusable(
        &self,
        emitted: &Emitted,
        id: ValueId,
        frees: &[Source],
        aliased: &[(ValueId, Source)],
    ) -> Option<Source> {
        if self.draft.pieces.contains_key(&id) {
            return None;
        }
        let node = self.draft.graph.node(id);
        let bytes = node.shape.numel() * node.dtype.size();
        let fits = |source: &Source| {
            frees.contains(source)
                && aliased.iter().all(|(_, taken)| taken != source)
                && self.dying(*source).is_some_and(|a| {
                    a.buffer.bytes() == bytes && a.layout.offset() == 0 && a.layout.is_contiguous()
                })
        };
        emitted
            .in_place
            .iter()
            .find(|(n, source)| *n == id && fits(source))
            .map(|(_, source)| *source)
    }

    /// A buffer that nobody but this run has, if it has memory.
    fn dying(&self, source: Source) -> Option<&Array> {
        let array = self.array(source).ok().filter(|_| self.owns(source))?;
        array.buffer.is_unique().then_some(array)
    }

    /// The dying buffers that a kernel's results are written over, and the results that need memory.
    fn targets(&self, emitted: &Emitted, frees: &[Source]) -> Targets {
        let mut targets = Targets::default();
        for pointer in &emitted.pointers {
            if let Pointer::Write(id) = *pointer {
                match self.reusable(emitted, id, frees, &targets.aliased) {
                    Some(source) => targets.aliased.push((id, source)),
                    None => targets.fresh.push(id),
                }
            }
        }
        targets
    }

    /// A kernel's results, with memory.
    fn with_memory(&mut self, emitted: &Emitted, targets: Targets) -> Result<Outputs> {
        let mut outputs = Outputs {
            aliased: targets.aliased,
            ..Outputs::default()
        };
        for id in targets.fresh {
            outputs.fresh.push((id, self.fresh(emitted, id)?));
        }
        Ok(outputs)
    }

    fn outputs_of(&mut self, emitted: &Emitted, frees: &[Source]) -> Result<Outputs> {
        let targets = self.targets(emitted, frees);
        self.with_memory(emitted, targets)
    }

    /// Adds a kernel's arguments.
    fn bind<'a>(
        &'a self,
        emitted: &Emitted,
        outputs: &'a Outputs,
        arguments: &mut Arguments<'a>,
    ) -> Result<()> {
        let Outputs {
            fresh,
            aliased,
            passing,
        } = outputs;
        let written = |id: ValueId| fresh.iter().find(|f| f.0 == id).map(|f| &f.1);
        for pointer in &emitted.pointers {
            let array = match *pointer {
                Pointer::Read(Source::Node(node)) if passing.is_some_and(|p| p.0 == node) => {
                    passing.and_then(|p| p.1).and_then(written)
                }
                Pointer::Read(source) => self.array(source).ok(),
                Pointer::Write(id) => match aliased.iter().find(|a| a.0 == id) {
                    Some((_, source)) => Some(self.array(*source)?),
                    None => written(id),
                },
            };
            arguments.bindings.push(match array {
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
        for number in &emitted.numbers {
            let bits = self.number(&number.operand)?.to_bits(number.dtype);
            arguments.scalars.push(bits);
        }
        let host = passing.and_then(|p| p.1);
        let streams = |id: ValueId, wanted: bool| {
            wanted && host != Some(id) && aliased.iter().all(|a| a.0 != id)
        };
        if emitted.streams.iter().any(|s| streams(s.1, s.2)) {
            let first = arguments.params.len();
            arguments.params.extend_from_slice(&emitted.params);
            for &(at, id, wanted) in &emitted.streams {
                arguments.params[first + at] = streams(id, wanted) as i64;
            }
        }
        arguments.ends.push(arguments.lengths());
        Ok(())
    }

    /// Notes a kernel's results as stored.
    fn settle(&mut self, outputs: Outputs) -> Result<()> {
        for (id, array) in outputs.fresh {
            self.store(id, array);
        }
        for (id, source) in outputs.aliased {
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

    pub(super) fn error(&self, fault: Fault) -> Error {
        let Some(site) = self.draft.sites.get(fault.site as usize - 1) else {
            return Error::internal("a fault of no known site");
        };
        let kind = ErrorKind::Index {
            index: self.draft.told(site.node, fault.index, site.size),
            dim: site.dim,
            size: site.size,
        };
        self.draft.placed(Error::new(kind), site.node)
    }

    pub(super) fn launch(
        &mut self,
        emitted: &Emitted,
        kernel: &Kernel,
        frees: &[Source],
    ) -> Result<()> {
        let outputs = self.outputs_of(emitted, frees)?;
        let mut verdict = self.verdict.take();
        let mut arguments = Arguments::default();
        let launched = self
            .bind(emitted, &outputs, &mut arguments)
            .and_then(|()| launch_noting(&arguments.launch(0, emitted, kernel), &mut verdict));
        drop(arguments);
        self.verdict = verdict;
        let faults = launched.map_err(|e| placed(e, emitted, self.draft))?;
        self.note(&faults, [emitted]);
        self.settle(outputs)
    }

    /// A matrix product and the kernels before and behind it. The product gets memory of its own only if others need it,
    /// else that of a result, or none where it lies in scratch memory.
    pub(super) fn template(
        &mut self,
        t: &Template,
        kernels: [Option<&Kernel>; 2],
        frees: &[Source],
    ) -> Result<()> {
        if let Some(epilogue) = t.epilogue {
            return self.by_library(t, epilogue, kernels[1], frees);
        }
        let id = t.call.node;
        let mut outputs = Outputs::default();
        if let Some(emitted) = &t.kernel {
            outputs = self.outputs_of(emitted, frees)?;
        }
        if t.stored {
            let product = self.given(id)?;
            self.store(id, product);
        } else if t.kernel.is_some() {
            let Draft {
                graph,
                policy,
                pieces,
                ..
            } = self.draft;
            let mut fresh = outputs.fresh.iter().map(|f| f.0);
            let host = fresh.find(|node| t.may_lie_in(*node, graph, policy, pieces));
            outputs.passing = Some((id, host));
        }
        let dtype = self.draft.graph.node(id).dtype;
        let args = self.operands_but(&t.call, t.before.as_ref().map(|b| b.operand))?;
        let fed = Outputs {
            passing: t.before.as_ref().map(|b| (b.node, None)),
            ..Outputs::default()
        };
        let mut arguments = Arguments::default();
        let mut added = 0;
        let mut bound = |kernel: Option<&'_ Emitted>, outputs| match kernel {
            Some(kernel) => self
                .bind(kernel, outputs, &mut arguments)
                .map(|()| added += 1),
            None => Ok(()),
        };
        bound(t.before.as_ref().map(|b| &b.kernel), &fed)?;
        bound(t.kernel.as_ref(), &outputs)?;
        count(Counter::LibraryCalls, 1);
        let prologue = match (&t.before, kernels[0]) {
            (Some(before), Some(kernel)) => {
                let at = by_panels(&before.kernel)?;
                Some(panels::Prologue {
                    launch: arguments.launch(0, &before.kernel, kernel),
                    pointer: at.pointer,
                    pitch: at.pitch,
                    piece: at.piece,
                    pieces: at.pieces,
                    size: dtype.size(),
                    right: before.operand == 1,
                    by_rows: before.by_rows,
                })
            }
            _ => None,
        };
        let epilogue = match (&t.kernel, kernels[1]) {
            (Some(emitted), Some(kernel)) => {
                let at = by_panels(emitted)?;
                Some(panels::Epilogue {
                    launch: arguments.launch(added - 1, emitted, kernel),
                    pointer: at.pointer,
                    whole: outputs.passing.is_none_or(|p| p.1.is_some()),
                    pitch: at.pitch,
                    piece: at.piece,
                    pieces: at.pieces,
                })
            }
            _ => None,
        };
        let out = self
            .array(Source::Node(id))
            .ok()
            .filter(|_| t.kernel.is_none());
        let placed = |e: Error| match t.kernel.as_ref() {
            Some(emitted) => super::placed(e, emitted, self.draft),
            None => self.draft.placed(e, id),
        };
        let faults = match (convolution(&self.draft.graph, id), &epilogue) {
            (Some(spec), Some(epilogue)) => conv::run_then(spec, &args, dtype, epilogue),
            _ => matmul::run_around(&args, dtype, prologue.as_ref(), epilogue.as_ref(), out),
        };
        let faults = faults.map_err(placed)?;
        drop(arguments);
        let before = t.before.as_ref().map(|before| &before.kernel);
        self.note(&faults, before.into_iter().chain(&t.kernel));
        self.settle(outputs)
    }

    /// A matrix product of a device, or a convolution, and its kernel as one call of the library; as two steps where it takes no such
    /// operands.
    fn by_library(
        &mut self,
        t: &Template,
        epilogue: Epilogue,
        kernel: Option<&Kernel>,
        frees: &[Source],
    ) -> Result<()> {
        let (Some(emitted), Some(kernel)) = (&t.kernel, kernel) else {
            return Err(Error::internal("an epilogue without its kernel"));
        };
        let draft = self.draft;
        let id = t.call.node;
        let placed = |e: Error| draft.placed(e, id);
        let [store] = &emitted.node.stores[..] else {
            return Err(Error::internal("an epilogue of several results"));
        };
        let node = draft.graph.node(store.node);
        let (op, args) = self.operands(&t.call)?;
        let bias = epilogue.bias.map(|bias| self.array(bias)).transpose()?;
        let after = matmul::After {
            bias,
            activation: epilogue.activation,
        };
        let device = draft.graph.device();
        let done = match op.as_correlation() {
            Some(op) => native::convolve(op, &args, &after).map(|array| {
                let lies = |array: Array| array.with_layout(Layout::contiguous(node.shape.clone()));
                array.map(lies)
            }),
            None => matmul::run_by_library(&device, &args, &node.shape, node.dtype, &after),
        };
        if let Some(array) = done.map_err(placed)? {
            count(Counter::LibraryCalls, 1);
            self.store(store.node, array);
            return Ok(());
        }
        drop(args);
        let product = self.call(&t.call, &[])?;
        self.store(id, product);
        let launched = self.launch(emitted, kernel, frees);
        self.forget(Source::Node(id));
        launched
    }

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
            Some((_, emitted, ..)) => placed(e, emitted, draft),
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
