//! Branches and loops as operations: recorded on their operands, and on what their bodies captured, with gradients.

mod along;
mod bodies;
mod pull;
mod reverse;

pub(crate) use bodies::{Bodies, Closure, Like, recorded};
pub(super) use pull::Derived;

use crate::history::{self, Of};
use crate::node::handle::Kept;
use crate::node::{Draw as Drawn, NodeInput};
use crate::program::{Control, Draw, Flow, Output};
use crate::record::record;
use crate::{Input, Tensor, mode, trace};
use ferrotrace_kernels::Op;
use ferrotrace_kernels::op::Program;
use ferrotrace_kernels::ops::program::{Results, Taken};
use ferrotrace_runtime::{Device, Result, Shape};
use pull::Explicit;
use std::panic::Location;
use std::sync::Arc;

/// Draws of a program that is recorded again: as they were, with the numbers that hold their keys and offsets.
#[derive(Default)]
pub(crate) struct Inherited {
    pub draws: Vec<Draw>,
    pub positions: Vec<[NodeInput; 2]>,
}

/// A program about to be recorded.
pub(crate) struct Recipe<'a> {
    pub name: &'static str,
    pub control: Control,
    /// The operands that have stand-ins in the bodies.
    pub operands: &'a [Tensor],
    /// The shapes and dtypes of these stand-ins.
    pub likes: &'a [Like],
    pub inherited: &'a Inherited,
    /// Whether a scan keeps the values that each step is given, where a gradient may be asked for. Without, the gradient
    /// computes them again.
    pub stacks: bool,
    pub location: &'static Location<'static>,
}

/// Whether a gradient may be asked of a tensor.
fn is_live(tensor: &Tensor) -> bool {
    let live = tensor.history().is_some_and(|history| history.is_live());
    live && tensor.dtype().is_float() && mode::keeps_history()
}

impl Recipe<'_> {
    /// Records the bodies.
    ///
    /// # Errors
    /// What a body's result carries.
    pub fn bodies(&self, closures: Vec<Closure<'_>>) -> Result<Bodies> {
        let device = self.device();
        let live = self.operands.iter().any(is_live);
        recorded(
            self.likes,
            &device,
            self.inherited.draws.len(),
            live,
            closures,
            self.location,
        )
    }

    fn device(&self) -> Device {
        self.operands.first().map_or(Device::cpu(), Tensor::device)
    }

    /// Records the program of these bodies, which gives `results`.
    ///
    /// # Errors
    /// Results greater than any memory.
    pub fn apply(&self, mut bodies: Bodies, mut results: Vec<Like>) -> Result<Vec<Tensor>> {
        let operands = self.operands.iter().chain(&bodies.captured);
        let operands: Vec<Tensor> = operands.cloned().collect();
        operands
            .iter()
            .for_each(|operand| trace::observe_sizes(operand.node()));
        let live = operands.iter().any(is_live);
        let count = results.len();
        if let (Control::Scan { carried, steps, .. }, true) = (self.control, live && self.stacks) {
            // The gradient goes over the values that each step was given.
            let given = (0..carried as u32).map(Output::Operand);
            bodies.bodies[0].outputs.extend(given);
            results.extend(
                self.likes[..carried]
                    .iter()
                    .map(|like| stacked(like, steps)),
            );
        }
        let (draws, numbers) = self.draws(&bodies);
        let tensor = |x: &Tensor| Taken::Tensor(x.sizes().clone(), x.dtype());
        let number = |x: &NodeInput| x.scalar().map(|number| Taken::Number(number.category()));
        let takes = operands
            .iter()
            .map(tensor)
            .chain(numbers.iter().filter_map(number));
        let takes = takes.collect();
        let results = Results::new(results)?;
        let flow = Flow::new(
            self.name,
            self.control,
            bodies.bodies,
            draws,
            takes,
            results,
        );
        let flow = Arc::new(flow);
        let mut inputs: Vec<Input<'_>> = operands.iter().map(Input::Tensor).collect();
        inputs.extend(numbers.iter().map(|number| number.input()));
        let op = Op::from(Program(flow.clone()));
        let device = self.device();
        let run = || record(Some(&device), op, None, &inputs, self.location);
        let block = mode::with_history(false, run);
        let mut parts = parts(&flow, &block, self.location);
        let stacks = parts.split_off(count);
        if !live || block.node().error().is_some() {
            return Ok(parts);
        }
        let rule = Explicit {
            flow: flow.clone(),
            vjps: bodies.vjps,
            stacks: stacks
                .iter()
                .map(|x| Kept::new(x.value().handle.clone()))
                .collect(),
        };
        let of = |input| match input {
            &Input::Tensor(tensor) => Of::Value(tensor.value()),
            number => Of::Number(number.to_node_input()),
        };
        let of: Vec<Of<'_>> = inputs.iter().map(of).collect();
        let handle = &block.value().handle;
        let rule = Arc::new(rule);
        let history = history::of_program(rule, handle, &of, self.location, trace::current());
        let block = block.with_history(Some(history));
        let mut tracked = self::parts(&flow, &block, self.location);
        tracked.truncate(count);
        Ok(tracked)
    }

    /// The draws of the bodies, and all numbers that the program is given.
    fn draws(&self, bodies: &Bodies) -> (Vec<Draw>, Vec<NodeInput>) {
        let mut numbers = bodies.numbers.clone();
        let mut draws = Vec::new();
        for (draw, position) in self.inherited.draws.iter().zip(&self.inherited.positions) {
            let key = numbers.len() as u32;
            numbers.extend(position.iter().cloned());
            draws.push(Draw {
                key,
                first: key + 1,
                ..*draw
            });
        }
        let steps = match self.control {
            Control::Cond => Some(1),
            Control::While { .. } | Control::Transposed { .. } => None,
            Control::Scan { steps, .. } => Some(steps),
        };
        let first = draws.len();
        draws.extend(bodies.drawn.iter().map(|_| Draw {
            key: 0,
            first: 0,
            before: 0,
            all: 0,
            stream: steps.is_none(),
        }));
        let mut left: Vec<usize> = (0..bodies.drawn.len()).collect();
        while let Some(&one) = left.first() {
            let generator = &bodies.drawn[one].generator;
            let is_of = |&n: &usize| bodies.drawn[n].generator.is_same(generator);
            let (own, others): (Vec<usize>, Vec<usize>) = left.into_iter().partition(is_of);
            let key = numbers.len() as u32;
            let taken = |n: usize| (bodies.drawn[n].numel as u64).next_multiple_of(4);
            let all: u64 = own.iter().map(|&n| taken(n)).sum();
            let (offset, mut in_a_row) = (bodies.drawn[one].position.1, true);
            let mut before = 0;
            for &n in &own {
                in_a_row &= bodies.drawn[n].position.1 == offset.wrapping_add(before);
                let draw = &mut draws[first + n];
                (draw.key, draw.first) = (key, key + 1);
                (draw.before, draw.all) = (before, all);
                before += taken(n);
            }
            let recorded = in_a_row.then_some(bodies.drawn[one].position);
            numbers.extend(positions(generator, recorded, all, steps));
            left = others;
        }
        (draws, numbers)
    }
}

/// Key and first offset of all that the steps of a program draw from a generator, `all` at each; `recorded` is what the
/// first step drew when it was recorded, if that lies in a row.
fn positions(
    generator: &crate::Generator,
    recorded: Option<(u64, u64)>,
    all: u64,
    steps: Option<usize>,
) -> [NodeInput; 2] {
    let (numel, position) = match steps {
        // A stream is told by where it begins, and takes of the generator what recording took.
        None => match recorded {
            Some(position) => (all as usize, position),
            None => (1, generator.advance(1)),
        },
        Some(steps) => {
            let rest = (steps as u64).saturating_sub(1).saturating_mul(all);
            let next = generator.advance(rest as usize);
            let follows =
                |(key, first): &(u64, u64)| rest == 0 || next == (*key, first.wrapping_add(all));
            let numel = (steps as u64).saturating_mul(all) as usize;
            // What others drew meanwhile lies between: the steps draw behind it.
            let behind = || generator.advance(numel);
            (numel, recorded.filter(follows).unwrap_or_else(behind))
        }
    };
    let index = trace::record_draw(generator, numel, position);
    let draw = |value, offset| {
        NodeInput::Draw(Drawn {
            value,
            index,
            offset,
        })
    };
    [draw(position.0, false), draw(position.1, true)]
}

/// The shape and dtype of `steps` rows.
pub(crate) fn stacked((shape, dtype): &Like, steps: usize) -> Like {
    let sizes = std::iter::once(steps).chain(shape.iter().copied());
    (sizes.collect::<Shape>(), *dtype)
}

/// The results of a program, found in their block.
fn parts(flow: &Flow, block: &Tensor, location: &'static Location<'static>) -> Vec<Tensor> {
    let part = |number| {
        let part = flow.results_of().part(number)?;
        Some(record(
            None,
            Op::from(part),
            None,
            &[Input::Tensor(block)],
            location,
        ))
    };
    (0..).map_while(part).collect()
}
