//! Launching kernels: memory for what they write, their arguments, what their faults mean.

use super::run::Run;
use crate::body::Source;
use crate::emit::{Emitted, Pointer};
use ferrotrace_kernels::{Array, ValueId};
use ferrotrace_runtime::{
    Binding, Counter, Error, ErrorKind, Fault, Kernel, Launch, Layout, Result, count, launch_noting,
};
use smallvec::SmallVec;

/// Where a kernel's results go.
#[derive(Default)]
pub(super) struct Outputs {
    pub(super) fresh: SmallVec<[(ValueId, Array); 2]>,
    /// Nodes written over dying buffers.
    pub(super) aliased: SmallVec<[(ValueId, Source); 2]>,
    /// A product that passes from panel to panel, and the fresh node whose memory it lies in meanwhile, if any.
    pub(super) passing: Option<(ValueId, Option<ValueId>)>,
}

/// Where a kernel's results will go.
#[derive(Default)]
pub(super) struct Targets {
    /// Results that get memory of their own.
    pub(super) fresh: SmallVec<[ValueId; 2]>,
    /// Results that are written over dying buffers.
    pub(super) aliased: SmallVec<[(ValueId, Source); 2]>,
}

/// Arguments of one kernel or several, one after another.
#[derive(Default)]
pub(super) struct Arguments<'a> {
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
    pub(super) fn launch<'b>(
        &'b self,
        at: usize,
        emitted: &'b Emitted,
        kernel: &'b Kernel,
    ) -> Launch<'b> {
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
    pub(super) fn dying(&self, source: Source) -> Option<&Array> {
        let array = self.array(source).ok().filter(|_| self.owns(source))?;
        array.buffer.is_unique().then_some(array)
    }

    /// The dying buffers that a kernel's results are written over, and the results that need memory.
    pub(super) fn targets(&self, emitted: &Emitted, frees: &[Source]) -> Targets {
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
    pub(super) fn with_memory(&mut self, emitted: &Emitted, targets: Targets) -> Result<Outputs> {
        let mut outputs = Outputs {
            aliased: targets.aliased,
            ..Outputs::default()
        };
        for id in targets.fresh {
            outputs.fresh.push((id, self.fresh(emitted, id)?));
        }
        Ok(outputs)
    }

    pub(super) fn outputs_of(&mut self, emitted: &Emitted, frees: &[Source]) -> Result<Outputs> {
        let targets = self.targets(emitted, frees);
        self.with_memory(emitted, targets)
    }

    /// Adds a kernel's arguments.
    pub(super) fn bind<'a>(
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
            let bits = number.bits(self.number(&number.operand)?);
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
    pub(super) fn settle(&mut self, outputs: Outputs) -> Result<()> {
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
        let faults = launched.map_err(|e| self.draft.placed_kernel(e, emitted))?;
        self.note(&faults, [emitted]);
        self.settle(outputs)
    }
}
