//! A body: what a closure recorded, as a form that runs on any data of its operands.

use super::{Draw, Flow};
use crate::backend::PlanInput;
use crate::flush::execute;
use crate::form::{Edge, Form, FormLeaf, Line, Lines, Mix, told};
use crate::mode::{self, Mode};
use crate::node::{Draw as Drawn, NodeInput};
use crate::plans::{self, OwnEntry, Planned, RecordedBy};
use crate::record::record;
use crate::{Input, Tensor};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Device, Error, Result, Scalar};
use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The most layouts of its operands that a body keeps plans for.
const MOST_KNOWN: usize = 8;

/// Where a number of a body comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Slot {
    /// The number operand of this number.
    Number(u32),
    /// The key, or else the offset, of the draw of this number.
    Draw { draw: u32, offset: bool },
}

/// Where a result of a body comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Output {
    /// The stored node of this number.
    Node(u32),
    /// The tensor operand of this number, as it is.
    Operand(u32),
}

/// What a closure recorded of operands.
#[derive(Debug)]
pub(crate) struct Body {
    /// The form with contiguous leaves. Runs use a copy of it with the layouts of their data.
    pub form: Form,
    pub lines: Vec<Line>,
    /// The tensor operand that each leaf is.
    pub leaves: Vec<u32>,
    pub slots: Vec<Slot>,
    pub outputs: Vec<Output>,
    known: Mutex<SmallVec<[Arc<Known>; 1]>>,
}

/// A form of a body for operands of certain layouts.
#[derive(Debug)]
struct Known {
    form: Form,
    plan: OnceCell<Arc<OwnEntry>>,
}

impl PartialEq for Body {
    fn eq(&self, other: &Body) -> bool {
        let place = |line: &Line| (line.called, std::ptr::from_ref(line.location));
        self.leaves == other.leaves
            && self.slots == other.slots
            && self.outputs == other.outputs
            && self
                .lines
                .iter()
                .map(place)
                .eq(other.lines.iter().map(place))
            && self.form == other.form
    }
}

impl Body {
    pub fn new(
        form: Form,
        lines: Vec<Line>,
        leaves: Vec<u32>,
        slots: Vec<Slot>,
        outputs: Vec<Output>,
    ) -> Body {
        let known = Mutex::default();
        Body {
            form,
            lines,
            leaves,
            slots,
            outputs,
            known,
        }
    }

    /// A hash that equal bodies share.
    pub fn digest(&self) -> u64 {
        let mut mix = Mix::default();
        mix.word(self.form.hash());
        (&self.leaves, &self.slots, &self.outputs).hash(&mut mix);
        mix.finish()
    }

    /// The body for operands on a device.
    pub fn on(&self, device: &Device) -> Body {
        let mut form = self.form.clone();
        form.device = device.clone();
        for leaf in &mut form.leaves {
            leaf.device = device.clone();
        }
        for node in &mut form.nodes {
            let inner = Flow::of(node.kind.op()).map(|flow| flow.on(device));
            node.kind = Arc::new(node.kind.on(device, inner));
        }
        Body::new(
            form,
            self.lines.clone(),
            self.leaves.clone(),
            self.slots.clone(),
            self.outputs.clone(),
        )
    }

    /// Runs it on its operands, at step `at` of a loop. The operands of `given` are taken, and may be overwritten.
    ///
    /// # Errors
    /// What one of its operations meets, with the line that recorded it.
    pub fn run(
        &self,
        device: &Device,
        operands: &mut [Option<Array>],
        given: std::ops::Range<usize>,
        numbers: &Numbers<'_>,
        at: u64,
    ) -> Result<SmallVec<[Array; 4]>> {
        let missing = || Error::internal("an operand of a body was not given");
        let mut passed: SmallVec<[Array; 4]> = SmallVec::new();
        for output in &self.outputs {
            if let Output::Operand(operand) = output {
                passed.push(operands[*operand as usize].clone().ok_or_else(missing)?);
            }
        }
        let mut inputs = Vec::with_capacity(self.leaves.len());
        for &leaf in &self.leaves {
            let given = given.contains(&(leaf as usize));
            let operand = &mut operands[leaf as usize];
            let array = if given {
                operand.take()
            } else {
                operand.clone()
            };
            let array = array.ok_or_else(missing)?;
            inputs.push(PlanInput {
                donated: given && array.buffer.is_unique(),
                array,
            });
        }
        operands[given].fill(None);
        let slots = self.slots.iter().map(|slot| numbers.of(*slot, at));
        let computed = match self.form.nodes.is_empty() {
            true => Vec::new(),
            false => self.compute(device, inputs, &slots.collect::<SmallVec<[Scalar; 8]>>())?,
        };
        let mut passed = passed.into_iter();
        let place = |node: u32| self.form.outputs.partition_point(|&m| m < node);
        let output = |output: &Output| match *output {
            Output::Node(node) => computed.get(place(node)).cloned(),
            Output::Operand(_) => passed.next(),
        };
        let results: Option<SmallVec<[Array; 4]>> = self.outputs.iter().map(output).collect();
        results.ok_or_else(|| Error::internal("a body gave too few results"))
    }

    fn compute(
        &self,
        device: &Device,
        inputs: Vec<PlanInput>,
        scalars: &[Scalar],
    ) -> Result<Vec<Array>> {
        let known = self.known(device, &inputs);
        let lines = || Lines::from_slice(&self.lines);
        let (leaves, mode) = (inputs.len(), mode::current());
        let found = match mode {
            Mode::Eager => {
                let arrays = inputs.into_iter().map(|input| Ok(input.array)).collect();
                let values = known.form.run_each(arrays, scalars, &self.lines);
                values.into_iter().collect()
            }
            Mode::Compiled | Mode::Tiered => {
                let form = &known.form;
                let found = || plans::entry(form.hash(), |other| other == form, || form.clone());
                let entry = known.plan.get_or_init(found);
                let example = || {
                    let again = |input: &PlanInput| PlanInput {
                        array: input.array.clone(),
                        donated: input.donated,
                    };
                    (inputs.iter().map(again).collect(), scalars.to_vec())
                };
                let planned = match entry.stages(mode) {
                    Some(stages) => Planned::Staged(stages, lines()),
                    None => entry.planned(mode, &example, scalars, RecordedBy::Function, lines)?,
                };
                let computed = execute(planned, inputs, scalars).0;
                computed.and_then(|arrays| arrays.into_iter().collect())
            }
        };
        found.map_err(|error| told(error, leaves, &self.lines))
    }

    /// The form for the layouts of these inputs.
    fn known(&self, device: &Device, inputs: &[PlanInput]) -> Arc<Known> {
        let mut all = self.known.lock();
        let is_it = |known: &&Arc<Known>| {
            let leaves = &known.form.leaves;
            known.form.device == *device
                && leaves
                    .iter()
                    .zip(inputs)
                    .all(|(leaf, input)| leaf.is_of(&input.array))
        };
        if let Some(known) = all.iter().find(is_it) {
            return known.clone();
        }
        let mut form = self.form.clone();
        form.device = device.clone();
        form.leaves = inputs
            .iter()
            .map(|input| FormLeaf::of(&input.array))
            .collect();
        let known = Arc::new(Known {
            form,
            plan: OnceCell::new(),
        });
        if all.len() >= MOST_KNOWN {
            all.remove(0);
        }
        all.push(known.clone());
        known
    }

    /// Records its operations again, on these operands and numbers; draws keep their numbers in the table of draws.
    pub fn replay<'t>(
        &self,
        operand: impl Fn(u32) -> &'t Tensor,
        numbers: &[NodeInput],
    ) -> Vec<Tensor> {
        let mut values: Vec<Tensor> = Vec::with_capacity(self.form.nodes.len());
        let mut slots = self.slots.iter();
        for ((node, edges), line) in self.form.operands().zip(&self.lines) {
            let input = |edge: &Edge| match *edge {
                Edge::Node(n) => Input::Tensor(&values[n as usize]),
                Edge::Leaf(n) => Input::Tensor(operand(self.leaves[n as usize])),
                Edge::Slot(_) => match slots.next() {
                    Some(Slot::Number(number)) => numbers[*number as usize].input(),
                    Some(&Slot::Draw { draw, offset }) => Input::Draw(Drawn {
                        value: 0,
                        index: draw,
                        offset,
                    }),
                    None => Input::Scalar(Scalar::Int(0)),
                },
            };
            let inputs: SmallVec<[Input<'_>; 4]> = edges.iter().map(input).collect();
            let (kind, device) = (&node.kind, Some(&node.kind.device));
            let value = mode::with_precision(kind.precision, || {
                record(device, kind.op().clone(), kind.name, &inputs, line.location)
            });
            drop(inputs);
            values.push(value);
        }
        let output = |output: &Output| match *output {
            Output::Node(node) => values[node as usize].clone(),
            Output::Operand(number) => operand(number).clone(),
        };
        self.outputs.iter().map(output).collect()
    }

    /// Whether the host reads no value while it runs, nor while programs within it do.
    pub fn reads_nothing(&self) -> bool {
        let mut programs = self
            .form
            .nodes
            .iter()
            .filter_map(|n| n.kind.op().as_program());
        programs.all(|program| program.0.reads_nothing())
    }

    /// The work of one run, in units of an addition.
    pub fn work(&self) -> u64 {
        let mut work = 0u64;
        for (node, edges) in self.form.operands() {
            let shape = |edge: &Edge| match *edge {
                Edge::Node(n) => Some(&self.form.nodes[n as usize].kind.shape),
                Edge::Leaf(n) => Some(self.form.leaves[n as usize].layout.shape()),
                Edge::Slot(_) => None,
            };
            let operands: SmallVec<[_; 4]> = edges.iter().filter_map(shape).collect();
            let sizes = ferrotrace_kernels::Sizes {
                operands: &operands,
                result: &node.kind.shape,
            };
            work = work.saturating_add(node.kind.op().entry().work(&sizes));
        }
        work
    }
}

/// The numbers that bodies are given, and the draws among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers<'a> {
    pub numbers: &'a [Scalar],
    pub draws: &'a [Draw],
}

impl Numbers<'_> {
    /// What a slot is filled with at a step.
    fn of(&self, slot: Slot, at: u64) -> Scalar {
        match slot {
            Slot::Number(number) => self.numbers[number as usize],
            Slot::Draw { draw, offset } => {
                let draw = &self.draws[draw as usize];
                let number = |place: u32| self.numbers[place as usize].to_i64() as u64;
                let position = draw.position(number(draw.key), number(draw.first), at);
                Scalar::Int(if offset { position.1 } else { position.0 } as i64)
            }
        }
    }
}
