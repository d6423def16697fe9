//! A trace of a compiled function as text, which a later process reads back and records again.
//!
//! ```text
//! arguments f32[2, 3], f32[3]
//! leaves argument 0, constant 0
//! numbers fixed, key 0, offset 0
//! draws 6
//! results value 0, argument 1, constant 1
//! sizes any
//! constants plain
//! %0: f32[2, 3] = input 0 [3, 1]
//! ..
//! ```
//!
//! Programs that its operations run come first (`crate::program::text`). Seven lines say what the graph's inputs, slots and
//! outputs are, then follows its text form (`ferrotrace_jit::text`). What
//! is read back is a function that records the graph's operations, so that everything that holds of functions given to
//! [`jit`](crate::jit) holds of it.

use super::replay::{Output, Replay, Slot, Source};
use super::{ArgKind, Bound, Filled, Jit, JitFn, Parts, Traced};
use crate::backend::Graph;
use crate::generator::process;
use crate::grad::no_grad;
use crate::mode::{self, with_precision};
use crate::program::Flow;
use crate::program::text::{Programs, line, listed, numbered, tensor};
use crate::record::record;
use crate::{Generator, Input, Tensor, trace};
use ferrotrace_jit::NodeOp;
use ferrotrace_kernels::{Array, Op, Operand, ValueId};
use ferrotrace_runtime::{DType, Device, Error, Result, Scalar, Shape};
use smallvec::SmallVec;
use std::fmt::Display;
use std::panic::Location;
use std::str::FromStr;

/// What a tensor of a trace is, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Argument(usize),
    Constant(usize),
    /// An output of the graph.
    Value(usize),
}

/// What a number of a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Fixed,
    /// The key, or else the offset, of a draw.
    Draw {
        index: usize,
        offset: bool,
    },
}

/// A trace apart from the function that it was recorded of.
#[derive(Clone, Debug)]
pub struct FunctionTrace {
    graph: Graph,
    /// The programs that its operations run.
    programs: Programs,
    leaves: Vec<Place>,
    numbers: Vec<Number>,
    /// How many numbers each draw takes from the process's generator.
    draws: Vec<usize>,
    results: Vec<Place>,
    arguments: Vec<(DType, Shape)>,
    any_sizes: bool,
    frozen: bool,
}

impl<F: JitFn<S>, S> Jit<F, S> {
    /// The trace of the function for a call's signature, the tensors that it captured, and those of the argument. Its results are those of the
    /// function, then the values of the buffers that it writes. Numbers among the arguments are fixed in it.
    ///
    /// # Errors
    /// `Argument`: the function cannot be replayed (it reads what it computes, or returns an error), or draws from a
    /// generator other than the process's.
    #[doc(hidden)]
    pub fn portable(
        &self,
        argument: <F::Kind as ArgKind>::Of<'_>,
    ) -> Result<(FunctionTrace, Vec<Tensor>, Vec<Tensor>)> {
        let cannot = |why: &str| Error::argument(format!("a function cannot be kept that {why}"));
        if trace::current() != 0 {
            return Err(cannot("another one being recorded calls"));
        }
        let mut parts = Parts::default();
        if !matches!(parts.fill(&argument), Filled::Data) {
            return Err(cannot("is given an error"));
        }
        let traced =
            no_grad(|| mode::with_mode(mode::Mode::Compiled, || self.trace(&argument, &parts)));
        let Traced::Replay(replay, _) = traced else {
            return Err(cannot(
                "reads what it computes of its arguments, or gives an error",
            ));
        };
        let trace = FunctionTrace::of(&replay, &parts.arrays);
        let (mut trace, constants) =
            trace.ok_or_else(|| cannot("draws from a generator of its own"))??;
        trace.frozen = matches!(self.bound, Bound::Constants);
        let arguments = parts.arrays.into_iter().map(Tensor::from_array);
        Ok((trace, constants, arguments.collect()))
    }
}

impl FunctionTrace {
    /// The trace of a replay; `None` where it draws from a generator other than the process's.
    fn of(replay: &Replay, arguments: &[Array]) -> Option<Result<(FunctionTrace, Vec<Tensor>)>> {
        let is_process = |generator: &Generator| generator.is_same(process());
        if !replay.draws.iter().all(|draw| is_process(&draw.generator)) {
            return None;
        }
        let mut constants = Vec::new();
        let mut constant = |tensor: Tensor| {
            constants.push(tensor);
            Place::Constant(constants.len() - 1)
        };
        let leaves = replay.sources.iter().map(|source| match source {
            Source::Argument(number) => Place::Argument(*number),
            Source::Constant(array) => constant(Tensor::from_array(array.clone())),
        });
        let leaves = leaves.collect();
        let results = replay.outputs.iter().map(|output| match output {
            Output::Value(number) => Place::Value(*number),
            Output::Argument(number) => Place::Argument(*number),
            Output::Constant(tensor) => constant(tensor.clone()),
        });
        let results = results.collect();
        let number = |slot: &Slot| match *slot {
            Slot::Fixed(number) => (Number::Fixed, number),
            Slot::Draw { index, offset } => {
                let index = index as usize;
                (Number::Draw { index, offset }, Scalar::Int(0))
            }
        };
        let (numbers, scalars): (Vec<_>, Vec<_>) = replay.slots.iter().map(number).unzip();
        let graph = replay.plan.form.graph(&scalars, &[]);
        Some(graph.and_then(|graph| {
            let trace = FunctionTrace {
                programs: Programs::of(&graph)?,
                graph,
                leaves,
                numbers,
                draws: replay.draws.iter().map(|draw| draw.numel).collect(),
                results,
                arguments: arguments
                    .iter()
                    .map(|array| (array.dtype, array.shape().clone()))
                    .collect(),
                any_sizes: replay.generic,
                frozen: false,
            };
            Ok((trace, constants))
        }))
    }

    /// Dtype and shape of each tensor argument that it was recorded with.
    pub fn arguments(&self) -> &[(DType, Shape)] {
        &self.arguments
    }

    /// How many tensors it gives.
    pub fn results(&self) -> usize {
        self.results.len()
    }

    /// How many constants it reads.
    pub fn constants(&self) -> usize {
        let of = |place: &Place| match place {
            Place::Constant(number) => number + 1,
            _ => 0,
        };
        self.leaves
            .iter()
            .chain(&self.results)
            .map(of)
            .max()
            .unwrap_or(0)
    }

    /// Whether the function keeps what it computes of constants ([`Jit::freeze`]).
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Whether it holds for arguments of any sizes: see [`holds_for`](Self::holds_for).
    pub fn has_any_sizes(&self) -> bool {
        self.any_sizes
    }

    /// Whether it holds for arguments of these shapes: those that it was recorded with, or, where the function never asked
    /// for sizes, others of the same ranks with sizes of 1 in the same places.
    pub fn holds_for(&self, shapes: &[&Shape]) -> bool {
        let alike = |recorded: &Shape, given: &Shape| {
            recorded == given
                || self.any_sizes
                    && recorded.rank() == given.rank()
                    && recorded
                        .iter()
                        .zip(given.iter())
                        .all(|(&a, &b)| (a == 1) == (b == 1))
        };
        shapes.len() == self.arguments.len()
            && self
                .arguments
                .iter()
                .zip(shapes)
                .all(|((_, recorded), given)| alike(recorded, given))
    }

    /// Records the operations on tensors of `device`, where it makes its own too.
    ///
    /// # Errors
    /// Another number of tensors than it takes; what an operation refuses comes out of the results.
    pub fn record(
        &self,
        arguments: &[&Tensor],
        constants: &[Tensor],
        device: &Device,
    ) -> Result<Vec<Tensor>> {
        if arguments.len() != self.arguments.len() || constants.len() < self.constants() {
            let (n, has) = (self.arguments.len(), arguments.len());
            return Err(Error::argument(format!(
                "a function of {n} tensors was given {has}"
            )));
        }
        let place = |place: Place, values: &[Tensor]| match place {
            Place::Argument(number) => arguments[number].clone(),
            Place::Constant(number) => constants[number].clone(),
            Place::Value(number) => values[self.graph.outputs()[number].0 as usize].clone(),
        };
        let draws: Vec<[Input<'static>; 2]> =
            self.draws.iter().map(|&n| process().take(n)).collect();
        let mut values: Vec<Tensor> = Vec::with_capacity(self.graph.nodes().len());
        for node in self.graph.nodes() {
            let value = match &node.op {
                NodeOp::Input(number) => place(self.leaves[*number as usize], &values),
                NodeOp::Op(op) => {
                    let recorded = || self.operation(op, &node.args, &values, &draws, device);
                    with_precision(node.precision, recorded)
                }
            };
            values.push(value);
        }
        Ok(self.results.iter().map(|&at| place(at, &values)).collect())
    }

    #[track_caller]
    fn operation(
        &self,
        op: &Op,
        args: &[Operand],
        values: &[Tensor],
        draws: &[[Input<'static>; 2]],
        device: &Device,
    ) -> Tensor {
        let operands: SmallVec<[Input<'_>; 4]> = args
            .iter()
            .map(|arg| match *arg {
                Operand::Value(ValueId(number)) => Input::Tensor(&values[number as usize]),
                Operand::Const(number) => Input::Scalar(number),
                Operand::Slot(slot, number) => match self.numbers[slot as usize] {
                    Number::Draw { index, offset } => draws[index][usize::from(offset)].clone(),
                    Number::Fixed => Input::Scalar(number),
                },
            })
            .collect();
        let has_tensor = operands
            .iter()
            .any(|input| matches!(input, Input::Tensor(_)));
        let op = match Flow::of(op) {
            Some(flow) => flow.on(device),
            None => op.clone(),
        };
        let device = (!has_tensor).then_some(device);
        record(device, op, None, &operands, Location::caller())
    }
}

impl Display for FunctionTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = |place: &Place| match place {
            Place::Argument(number) => format!("argument {number}"),
            Place::Constant(number) => format!("constant {number}"),
            Place::Value(number) => format!("value {number}"),
        };
        let number = |number: &Number| match number {
            Number::Fixed => "fixed".to_owned(),
            Number::Draw { index, offset } => match offset {
                true => format!("offset {index}"),
                false => format!("key {index}"),
            },
        };
        let arguments = self
            .arguments
            .iter()
            .map(|(dtype, shape)| format!("{dtype}{shape}"));
        write!(f, "{}", self.programs)?;
        writeln!(f, "arguments {}", listed(arguments, "; "))?;
        writeln!(f, "leaves {}", listed(self.leaves.iter().map(place), ", "))?;
        writeln!(
            f,
            "numbers {}",
            listed(self.numbers.iter().map(number), ", ")
        )?;
        writeln!(
            f,
            "draws {}",
            listed(self.draws.iter().map(usize::to_string), ", ")
        )?;
        writeln!(
            f,
            "results {}",
            listed(self.results.iter().map(place), ", ")
        )?;
        writeln!(f, "sizes {}", if self.any_sizes { "any" } else { "same" })?;
        writeln!(
            f,
            "constants {}",
            if self.frozen { "frozen" } else { "plain" }
        )?;
        write!(f, "{}", self.graph)
    }
}

fn place(text: &str) -> Result<Place> {
    match numbered(text)? {
        ("argument", number) => Ok(Place::Argument(number)),
        ("constant", number) => Ok(Place::Constant(number)),
        ("value", number) => Ok(Place::Value(number)),
        _ => Err(Error::argument(format!(
            "{text:?} is no argument, constant or value"
        ))),
    }
}

fn number(text: &str) -> Result<Number> {
    if text == "fixed" {
        return Ok(Number::Fixed);
    }
    match numbered(text)? {
        ("key", index) => Ok(Number::Draw {
            index,
            offset: false,
        }),
        ("offset", index) => Ok(Number::Draw {
            index,
            offset: true,
        }),
        _ => Err(Error::argument(format!("{text:?} is no number of a trace"))),
    }
}

impl FromStr for FunctionTrace {
    type Err = Error;

    /// # Errors
    /// `Argument`: a line that cannot be read; a number that nothing stands for.
    fn from_str(text: &str) -> Result<FunctionTrace> {
        let mut lines = text.lines();
        let programs = Programs::read(&mut lines)?;
        let each = |list: Vec<&str>| list.into_iter().map(place).collect::<Result<Vec<_>>>();
        let arguments = line(&mut lines, "arguments", ";")?;
        let arguments: Result<Vec<_>> = arguments.into_iter().map(tensor).collect();
        let leaves = each(line(&mut lines, "leaves", ",")?)?;
        let numbers = line(&mut lines, "numbers", ",")?;
        let numbers: Result<Vec<_>> = numbers.into_iter().map(number).collect();
        let draws = line(&mut lines, "draws", ",")?;
        let draws: Result<Vec<usize>> = draws
            .into_iter()
            .map(|n| {
                n.parse()
                    .map_err(|_| Error::argument(format!("{n:?} is no number")))
            })
            .collect();
        let results = each(line(&mut lines, "results", ",")?)?;
        let sizes = line(&mut lines, "sizes", ",")?;
        let constants = line(&mut lines, "constants", ",")?;
        let graph = lines.collect::<Vec<_>>().join("\n");
        let trace = FunctionTrace {
            graph: programs.graph(&graph)?,
            programs,
            leaves,
            numbers: numbers?,
            draws: draws?,
            results,
            arguments: arguments?,
            any_sizes: sizes == ["any"],
            frozen: constants == ["frozen"],
        };
        trace.check()?;
        Ok(trace)
    }
}

impl FunctionTrace {
    /// Checks that every number stands for something.
    fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::argument(format!("{what} that is not there")));
        let graph = &self.graph;
        let stands = |place: &Place| match *place {
            Place::Argument(number) => number < self.arguments.len(),
            Place::Constant(number) => number < self.leaves.len() + self.results.len(),
            Place::Value(number) => number < graph.outputs().len(),
        };
        let is_value = |place: &&Place| matches!(place, Place::Value(_));
        if self.leaves.len() != graph.inputs().len() || self.leaves.iter().any(|p| is_value(&p)) {
            return wrong("the graph has inputs");
        }
        if !self.leaves.iter().chain(&self.results).all(stands) {
            return wrong("the trace names a tensor");
        }
        let drawn = |number: &Number| match *number {
            Number::Fixed => true,
            Number::Draw { index, .. } => index < self.draws.len(),
        };
        let operands = graph.nodes().iter().flat_map(|node| &node.args);
        let mut slots = operands.filter_map(|arg| match arg {
            Operand::Slot(slot, _) => Some(*slot as usize),
            _ => None,
        });
        if !self.numbers.iter().all(drawn) || slots.any(|slot| slot >= self.numbers.len()) {
            return wrong("the trace names a number");
        }
        Ok(())
    }
}
