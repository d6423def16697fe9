//! Drafts for a device, run by the interpreter of threads.

use super::datum::Datum;
use super::threads::{Fault, Member, Shared, run};
use super::{Memory, stored};
use crate::body::Source;
use crate::draft::{Draft, Step};
use crate::eager::run_eagerly;
use crate::emit::{Emitted, Pointer, cuda};
use crate::graph::Rounding;
use crate::kernel::ir::Kernel;
use crate::lower::Piece;
use ferrotrace_kernels::{Array, ValueId, copy};
use ferrotrace_runtime::{Error, Layout, Result, Scalar};
use rustc_hash::FxHashMap;

/// Runs a draft for a device: its kernels thread by thread in the kernel IR, those of one launch at the same time, and
/// what the draft leaves to libraries and templates by operators. Results are written over buffers
/// that die where a run would do so: the inputs' too, if they are `donated`.
///
/// # Errors
/// The errors of [`interpret`](super::interpret); an internal error where threads race for an element of memory, where not all of
/// them come to a barrier or an exchange of values, where they touch what is outside of memory, and where what was never
/// written decides something.
pub fn interpret_threads(
    draft: &Draft,
    inputs: &[Array],
    donated: bool,
    scalars: &[Scalar],
) -> Result<Vec<Array>> {
    let mut memory = Memory::of(draft, inputs, scalars);
    memory.donated = donated;
    for check in &draft.checks {
        memory.launch(&[(check, &[])])?;
    }
    for group in &draft.launches.groups {
        let group = group
            .clone()
            .map(|at| (&draft.steps[at], &draft.frees[at][..]));
        let kernels: Option<Vec<_>> = group.clone().map(launched).collect();
        match kernels {
            Some(kernels) => memory.launch(&kernels)?,
            None => group
                .clone()
                .try_for_each(|(step, frees)| memory.step(step, frees))?,
        }
        group.for_each(|(_, frees)| memory.release(frees));
    }
    memory.outputs(draft)
}

/// The kernel of a step that is one of a fused node, and the buffers whose last use it is.
fn launched<'d>((step, frees): (&'d Step, &'d [Source])) -> Option<(&'d Emitted, &'d [Source])> {
    match step {
        Step::Launch(kernel) if kernel.products == 0 => Some((kernel, frees)),
        _ => None,
    }
}

/// The memory of one launch.
#[derive(Default)]
struct Pool {
    all: Vec<Shared>,
    of: FxHashMap<Source, usize>,
}

impl Pool {
    fn add(&mut self, memory: Shared) -> usize {
        self.all.push(memory);
        self.all.len() - 1
    }
}

impl Memory<'_> {
    /// Runs a step that is not one kernel of a fused node alone.
    fn step(&mut self, step: &Step, frees: &[Source]) -> Result<()> {
        match step {
            Step::Launch(template) => self.operators(template),
            // Where no library takes the product with its kernel, they are two steps.
            Step::Template(template) if template.before.is_none() => {
                self.call(&template.call)?;
                if let Some(kernel) = &template.kernel {
                    self.launch(&[(kernel, frees)])?;
                }
                if !template.stored {
                    self.nodes.remove(&template.call.node);
                }
                Ok(())
            }
            step => self.interpret(step),
        }
    }

    /// Computes what a template's kernel writes by operators, from the inputs on.
    fn operators(&mut self, template: &Emitted) -> Result<()> {
        let written = stored(template);
        let mut graph = self.graph.clone();
        // Templates hand on sums as computed.
        for (at, node) in self.graph.nodes().iter().enumerate() {
            let id = ValueId(at as u32);
            if node.rounding == Rounding::Never && node.dtype.is_half() && !written.contains(&id) {
                graph.widen(id);
            }
        }
        graph.set_outputs(written.clone());
        let values = run_eagerly(&graph, self.inputs, self.scalars)?;
        for (id, value) in written.into_iter().zip(values) {
            self.store(id, copy::contiguous(&value)?)?;
        }
        Ok(())
    }

    /// Runs kernels of one launch, each with the buffers whose last use it is, and stores what they write.
    fn launch(&mut self, steps: &[(&Emitted, &[Source])]) -> Result<()> {
        let kernels: Vec<Kernel> = steps.iter().map(|step| cuda::kernel(step.0)).collect();
        let mut pool = Pool::default();
        let mut members = Vec::with_capacity(steps.len());
        for ((emitted, frees), kernel) in steps.iter().zip(&kernels) {
            members.push(self.member(emitted, frees, kernel, &mut pool)?);
        }
        run(&members, &mut pool.all).map_err(|report| match report.fault {
            Fault::Index(index, site) => self.fault(site, index),
            fault => {
                let texts: Vec<&str> = steps.iter().map(|step| &*step.0.source.body).collect();
                let text = texts.join("\n");
                Error::internal(format!("{fault} in\n{}\nof\n{text}", report.at))
            }
        })?;
        for ((emitted, _), member) in steps.iter().zip(&members) {
            for (pointer, (at, _)) in emitted.pointers.iter().zip(&member.pointers) {
                let Pointer::Write(id) = *pointer else {
                    continue;
                };
                let memory = &pool.all[*at];
                let elements = (0..memory.length()).map(|i| memory.value(i)).collect();
                let array = self.written(id, self.graph.node(id).dtype, elements)?;
                self.store(id, array)?;
            }
        }
        Ok(())
    }

    /// A kernel with its arguments, whose memory is added to that of its launch.
    fn member<'k>(
        &self,
        emitted: &Emitted,
        frees: &[Source],
        kernel: &'k Kernel,
        pool: &mut Pool,
    ) -> Result<Member<'k>> {
        let (mut numbers, mut bits) = (Vec::new(), Vec::new());
        for number in &emitted.numbers {
            let scalar = self.number(&number.operand)?;
            bits.push(number.bits(scalar) as i64);
            numbers.push(Datum::of(scalar.cast(number.dtype), number.dtype.compute()));
        }
        let mut shared = Vec::new();
        let mut pointers = Vec::with_capacity(emitted.pointers.len());
        for pointer in &emitted.pointers {
            pointers.push(match *pointer {
                Pointer::Read(source) => self.readable(source, pool)?,
                Pointer::Write(id) => match self.reusable(emitted, id, frees, &shared) {
                    Some(source) => {
                        shared.push(source);
                        self.readable(source, pool)?
                    }
                    None => (pool.add(self.fresh(emitted, id)?), 0),
                },
            });
        }
        let scratch = Shared::new("scratch memory".to_owned(), emitted.scratch);
        Ok(Member {
            kernel,
            params: emitted.params.clone(),
            numbers,
            bits,
            pointers,
            scratch: pool.add(scratch),
            blocks: [emitted.chunks, emitted.grid.finish_blocks],
        })
    }

    /// The memory of a source, and where its first element lies there.
    fn readable(&self, source: Source, pool: &mut Pool) -> Result<(usize, i64)> {
        let name = format!("{source:?}");
        let Some(array) = self.source(source) else {
            return match source {
                // A node without elements is never computed.
                Source::Node(v) if self.graph.node(v).shape.numel() == 0 => {
                    Ok((pool.add(Shared::new(name, 0)), 0))
                }
                _ => Err(Error::internal(format!(
                    "{name} is read before it is written"
                ))),
            };
        };
        let memory = *pool.of.entry(source).or_insert_with(|| {
            let read = |at| Datum::read(&array.buffer, array.dtype, at);
            let all = (0..).map_while(|at| Some((at, read(at)?)));
            let length = array.buffer.bytes() / array.dtype.size();
            pool.all.push(Shared::filled(name, length, all));
            pool.all.len() - 1
        });
        Ok((memory, array.layout.offset() as i64))
    }

    /// Memory for a node that a kernel writes. Of one that it updates, with what is there before; but not where it writes
    /// all.
    fn fresh(&self, emitted: &Emitted, id: ValueId) -> Result<Shared> {
        let name = format!("%{}", id.0);
        let length = self.layout(id).span().len();
        let Some(update) = emitted.updates.iter().find(|update| update.node == id) else {
            return Ok(Shared::new(name, length));
        };
        let before = self.data(&update.base, self.graph.node(id).dtype)?;
        let window = update.window.iter().flat_map(Layout::offsets);
        let all = window.collect::<std::collections::HashSet<_>>();
        let kept = (0..)
            .zip(before)
            .filter(|(at, _)| !all.contains(&(*at as usize)));
        let kept = kept.filter_map(|(at, datum)| Some((at, datum?)));
        Ok(Shared::filled(name, length, kept))
    }

    /// A dying buffer that a run would write the node to; those in `taken` have another result of this kernel.
    fn reusable(
        &self,
        emitted: &Emitted,
        id: ValueId,
        frees: &[Source],
        taken: &[Source],
    ) -> Option<Source> {
        if self.pieces.is_some_and(|pieces| pieces.contains_key(&id)) {
            return None;
        }
        let node = self.graph.node(id);
        let bytes = node.shape.numel() * node.dtype.size();
        let dies = |source: Source| match source {
            Source::Input(_) => self.donated,
            Source::Node(_) => true,
        };
        let fits = |source: Source| {
            let whole = |a: &Array| {
                a.buffer.bytes() == bytes && a.layout.offset() == 0 && a.layout.is_contiguous()
            };
            frees.contains(&source)
                && !taken.contains(&source)
                && dies(source)
                && self.source(source).is_some_and(whole)
        };
        let pairs = emitted.in_place.iter().filter(|pair| pair.0 == id);
        pairs.map(|pair| pair.1).find(|source| fits(*source))
    }

    /// Stores a node.
    ///
    /// # Errors
    /// It is stored already.
    pub(super) fn store(&mut self, id: ValueId, array: Array) -> Result<()> {
        match self.nodes.insert(id, array) {
            Some(_) => Err(Error::internal(format!("%{} is stored twice", id.0))),
            None => Ok(()),
        }
    }

    /// How a stored node lies in memory: dense, but for a part of a larger value, which has the strides of its window there.
    pub(super) fn layout(&self, id: ValueId) -> Layout {
        match self.pieces.and_then(|pieces| pieces.get(&id)) {
            Some(Piece { window, .. }) => {
                Layout::new(window.shape().clone(), window.strides().into(), 0)
            }
            None => Layout::contiguous(self.graph.node(id).shape.clone()),
        }
    }
}
