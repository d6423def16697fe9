//! Programs that an operation runs: branches, and loops over bodies that closures recorded.
//!
//! The operands of such an operation are tensors, and then numbers. A body names its operands by their place among the
//! tensors, so that all bodies of one program are given the same list.

mod body;
mod gather;
mod noted;
pub(crate) mod text;
mod verify;

pub(crate) use body::{Body, Numbers, Output};
pub(crate) use gather::Gather;

use crate::form::Mix;
use crate::mode::{self, Mode};
use ferrotrace_kernels::op::Program;
use ferrotrace_kernels::ops::program::{Block, Procedure, Results, Taken};
use ferrotrace_kernels::{Arg, Array, Op, copy::Dense};
use ferrotrace_runtime::{
    Buffer, Device, Error, Layout, Result, Scalar, Strides, Uncaptured, give_up_recording,
    is_recording, recorded,
};
use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A draw of a body, as a function of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Draw {
    /// The number operands that hold the key and the first offset.
    pub key: u32,
    pub first: u32,
    /// How many numbers the body draws before it, and all together.
    pub before: u64,
    pub all: u64,
    /// Whether the key and the offset begin a separate stream: in a loop whose number of steps is not known.
    pub stream: bool,
}

impl Draw {
    /// Key and offset at a step.
    fn position(&self, key: u64, first: u64, step: u64) -> (u64, u64) {
        let within = step.wrapping_mul(self.all).wrapping_add(self.before);
        if !self.stream {
            return (key, first.wrapping_add(within));
        }
        let mut mix = Mix::default();
        mix.word(key);
        mix.word(first);
        (mix.finish(), within)
    }
}

/// What a program does with its bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Control {
    /// The first body where the first operand is true, else the second.
    Cond,
    /// The first body says, of the first `carried` operands, whether the second goes on to change them.
    While { carried: usize },
    /// The gradients of the operands of such a loop. Behind its operands stand the gradients of its floating-point results,
    /// in which it is linear: it gives zeros for zeros, and nobody knows how many steps to go back for others.
    Transposed { carried: usize },
    /// The body changes the first `carried` operands `steps` times. At each step it is given a row of the next `sliced`
    /// ones, and what it gives behind the carried values are rows of results: those of number `i` at step `i`, or in reverse
    /// from the last to the first.
    Scan {
        carried: usize,
        sliced: usize,
        steps: usize,
        reverse: bool,
    },
}

impl Control {
    /// Whether derivatives go along its steps, with tangents, instead of back.
    pub fn goes_along(self) -> bool {
        matches!(self, Control::While { .. } | Control::Transposed { .. })
    }
}

/// A program over bodies.
#[derive(Debug)]
pub(crate) struct Flow {
    pub name: &'static str,
    pub control: Control,
    pub bodies: Vec<Body>,
    pub draws: Vec<Draw>,
    /// How many of the operands are tensors.
    pub tensors: usize,
    takes: Vec<Taken>,
    results: Results,
    digest: u64,
}

impl Flow {
    /// A program whose operands and results are these.
    pub fn new(
        name: &'static str,
        control: Control,
        bodies: Vec<Body>,
        draws: Vec<Draw>,
        takes: Vec<Taken>,
        results: Results,
    ) -> Flow {
        let mut mix = Mix::default();
        (name, control, &draws, results.kinds()).hash(&mut mix);
        takes.iter().for_each(|taken| match taken {
            Taken::Tensor(shape, dtype) => (shape, dtype).hash(&mut mix),
            Taken::Number(category) => category.hash(&mut mix),
        });
        bodies.iter().for_each(|body| mix.word(body.digest()));
        let is_tensor = |taken: &&Taken| matches!(taken, Taken::Tensor(..));
        Flow {
            name,
            control,
            bodies,
            draws,
            tensors: takes.iter().filter(is_tensor).count(),
            takes,
            results,
            digest: mix.finish(),
        }
    }

    /// The program that an operation runs.
    pub fn of(op: &Op) -> Option<&Flow> {
        op.as_program()?.0.as_any().downcast_ref()
    }

    /// The operation that runs it on a device.
    pub fn on(&self, device: &Device) -> Op {
        let on = |body: &Body| body.on(device);
        let bodies = self.bodies.iter().map(on).collect();
        let (takes, results) = (self.takes.clone(), self.results.clone());
        let draws = self.draws.clone();
        let flow = Flow::new(self.name, self.control, bodies, draws, takes, results);
        Op::from(Program(Arc::new(flow)))
    }

    /// Where its results lie.
    pub fn results_of(&self) -> &Results {
        &self.results
    }

    fn cond(&self, run: &Run<'_>, block: &mut Block<'_>) -> Result<()> {
        let mut operands = run.operands.to_vec();
        let chosen = usize::from(!truth(self.name, operands[0].as_ref())?);
        self.note_branch(1 - chosen, run);
        let results = self.bodies[chosen].run(run.device, &mut operands, 0..0, &run.numbers, 0)?;
        run.write(&results, 0, None, block)
    }

    fn while_loop(&self, carried: usize, run: &Run<'_>, block: &mut Block<'_>) -> Result<()> {
        let mut operands = run.operands.to_vec();
        for step in 0.. {
            let goes_on =
                self.bodies[0].run(run.device, &mut operands, 0..0, &run.numbers, step)?;
            if !truth(self.name, goes_on.first())? || Flow::ends_idle(step) {
                self.note_steps(carried, &operands, step, run);
                break;
            }
            let next =
                self.bodies[1].run(run.device, &mut operands, 0..carried, &run.numbers, step)?;
            operands
                .iter_mut()
                .zip(next)
                .for_each(|(to, next)| *to = Some(next));
        }
        let last: Vec<Array> = operands.into_iter().take(carried).flatten().collect();
        run.write(&last, 0, None, block)
    }

    fn transposed(&self, run: &Run<'_>, block: &mut Block<'_>) -> Result<()> {
        let results = self.results.kinds();
        let is_zero = |vector: &Option<Array>| match vector {
            Some(array) => is_zero(array, run.dense),
            None => Ok(false),
        };
        let Control::Transposed { carried } = self.control else {
            return Err(Error::internal("a loop back that is none"));
        };
        let carries = self.takes[..carried].iter();
        let float = |taken: &&Taken| matches!(taken, Taken::Tensor(_, dtype) if dtype.is_float());
        let vectors = carries.filter(float).count();
        for vector in &run.operands[run.operands.len() - vectors..] {
            if !is_zero(vector)? {
                let why =
                    "while_loop has no gradient in reverse: bound its steps, by bounded_while_loop";
                return Err(Error::unsupported(why));
            }
        }
        for (number, (shape, dtype)) in results.iter().enumerate() {
            let zeros = Array {
                buffer: Buffer::zeroed(run.device, shape.numel() * dtype.size())?,
                layout: Layout::contiguous(shape.clone()),
                dtype: *dtype,
            };
            block.write(number, None, &zeros, run.dense)?;
        }
        Ok(())
    }

    fn scan(&self, run: &Run<'_>, block: &mut Block<'_>) -> Result<()> {
        let Control::Scan {
            carried,
            sliced,
            steps,
            reverse,
        } = self.control
        else {
            return Err(Error::internal("a scan that is none"));
        };
        let mut operands = run.operands.to_vec();
        let recorded_before = recorded();
        for step in 0..steps {
            // Before the first step nothing is recorded; after it, the others are as long.
            if step <= 1 {
                fits_a_graph((recorded() - recorded_before).saturating_mul(steps))?;
            }
            let row = if reverse { steps - 1 - step } else { step };
            for (to, of) in operands
                .iter_mut()
                .zip(run.operands)
                .skip(carried)
                .take(sliced)
            {
                *to = of.as_ref().map(|of| row_of(of, row));
            }
            let at = row as u64;
            let next =
                self.bodies[0].run(run.device, &mut operands, 0..carried, &run.numbers, at)?;
            let (carries, rows) = next.split_at(carried);
            run.write(rows, carried, Some(row), block)?;
            operands
                .iter_mut()
                .zip(carries)
                .for_each(|(to, next)| *to = Some(next.clone()));
            // Nothing else holds the carried values, which the next step may overwrite.
            drop(next);
        }
        let last: Vec<Array> = operands.into_iter().take(carried).flatten().collect();
        run.write(&last, 0, None, block)
    }
}

/// Most launches of a loop that become one graph of a device: making it takes some microseconds a launch.
const MOST_LAUNCHES: usize = 4096;

/// Gives up the recording under way, if there is one, where a loop of so many launches is too long for it, or where its
/// kernels may still be compiling.
fn fits_a_graph(launches: usize) -> Result<()> {
    if !is_recording() {
        return Ok(());
    }
    match launches > MOST_LAUNCHES || mode::current() == Mode::Tiered {
        true => give_up_recording(Uncaptured::TooMany(MOST_LAUNCHES)),
        false => Ok(()),
    }
}

/// What a run of a program is given.
struct Run<'a> {
    device: &'a Device,
    operands: &'a [Option<Array>],
    numbers: Numbers<'a>,
    dense: Dense<'a>,
}

impl Run<'_> {
    /// Writes values to the results from number `first` on, whole ones or a row of each.
    fn write(
        &self,
        values: &[Array],
        first: usize,
        row: Option<usize>,
        block: &mut Block<'_>,
    ) -> Result<()> {
        let mut values = values.iter().zip(first..);
        values.try_for_each(|(value, number)| block.write(number, row, value, self.dense))
    }
}

/// A row of an array along its first dimension.
fn row_of(array: &Array, row: usize) -> Array {
    let layout = &array.layout;
    let shape = layout.shape()[1..].into();
    let strides = Strides::from_slice(&layout.strides()[1..]);
    let offset = layout.offset() as isize + row as isize * layout.strides()[0];
    let offset = if layout.numel() == 0 {
        0
    } else {
        offset as usize
    };
    array.with_layout(Layout::new(shape, strides, offset))
}

/// Whether all elements are zeros.
fn is_zero(array: &Array, dense: Dense<'_>) -> Result<bool> {
    let dense = dense(array)?;
    let size = dense.dtype.size();
    let first = dense.layout.offset() * size;
    let bytes = first..first + dense.numel() * size;
    let copied = dense.buffer.copy_to(bytes, &Device::cpu())?;
    // Of floats, whose negative zero has one bit.
    let elements = copied.as_slice::<u8>().chunks(size);
    Ok(elements
        .into_iter()
        .all(|element| match element.split_last() {
            Some((last, rest)) => *last & 0x7f == 0 && rest.iter().all(|&byte| byte == 0),
            None => true,
        }))
}

/// The truth of one element.
fn truth(name: &str, array: Option<&Array>) -> Result<bool> {
    let missing = || Error::internal(format!("{name} has no predicate"));
    let array = array.ok_or_else(missing)?;
    let bytes = array.layout.offset()..array.layout.offset() + 1;
    let byte = array.buffer.copy_to(bytes, &Device::cpu())?;
    Ok(byte.as_slice::<u8>().first().is_some_and(|&byte| byte != 0))
}

impl Procedure for Flow {
    fn name(&self) -> &'static str {
        self.name
    }

    fn takes(&self) -> &[Taken] {
        &self.takes
    }

    fn results(&self) -> &Results {
        &self.results
    }

    fn work(&self) -> u64 {
        // Sums of such counts stay below 2⁶⁴.
        const MOST: u64 = 1 << 48;
        let body = self.bodies.iter().map(Body::work).max().unwrap_or(0);
        let steps = match self.control {
            Control::Scan { steps, .. } => steps as u64,
            Control::Cond | Control::While { .. } | Control::Transposed { .. } => 1,
        };
        body.saturating_mul(steps).min(MOST)
    }

    /// A scan's number of steps is known. The step of a random number is known too, but where the stream begins is not.
    fn reads_nothing(&self) -> bool {
        matches!(self.control, Control::Scan { .. })
            && self.draws.is_empty()
            && self.bodies.iter().all(Body::reads_nothing)
    }

    fn run(
        &self,
        device: &Device,
        args: &[Arg],
        block: &mut Block<'_>,
        dense: Dense<'_>,
    ) -> Result<()> {
        let array = |arg: &Arg| match arg {
            Arg::Array(array) => Some(array.clone()),
            Arg::Scalar(_) => None,
        };
        let operands: Vec<Option<Array>> = args[..self.tensors].iter().map(array).collect();
        let number = |arg: &Arg| match arg {
            Arg::Scalar(number) => *number,
            Arg::Array(_) => Scalar::Int(0),
        };
        let numbers: Vec<Scalar> = args[self.tensors..].iter().map(number).collect();
        let run = Run {
            device,
            operands: &operands,
            numbers: Numbers {
                numbers: &numbers,
                draws: &self.draws,
            },
            dense,
        };
        match self.control {
            Control::Cond => self.cond(&run, block),
            Control::While { carried } => self.while_loop(carried, &run, block),
            Control::Transposed { .. } => self.transposed(&run, block),
            Control::Scan { .. } => self.scan(&run, block),
        }
    }

    fn same(&self, other: &dyn Procedure) -> bool {
        other.as_any().downcast_ref::<Flow>().is_some_and(|other| {
            self.name == other.name
                && self.control == other.control
                && self.draws == other.draws
                && self.takes == other.takes
                && self.results == other.results
                && self.bodies == other.bodies
        })
    }

    fn digest(&self) -> u64 {
        self.digest
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
