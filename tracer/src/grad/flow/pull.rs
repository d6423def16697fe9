//! Gradients of branches and loops, which are branches and loops themselves.

use super::bodies::{Closure, Like, Vjp, recorded};
use super::reverse::Backward;
use super::{Inherited, Recipe};
use crate::grad::like;
use crate::history::{self, History, Operand, Operation, Several, Value};
use crate::node::NodeInput;
use crate::node::handle::Kept;
use crate::program::{Control, Flow};
use crate::{Tensor, mode, trace};
use ferrotrace_runtime::{Error, Result};
use std::panic::Location;
use std::sync::Arc;

/// The gradient of a program whose closures were differentiated as they were recorded.
pub(super) struct Explicit {
    pub flow: Arc<Flow>,
    pub vjps: Vec<Result<Vjp>>,
    /// Of a scan, the carried values that each step was given.
    pub stacks: Vec<Kept>,
}

/// The gradient of a program of whose bodies the forms alone are known.
pub(crate) struct Derived<'a>(&'a Flow);

impl Derived<'_> {
    /// The gradient of an operation that runs a program.
    ///
    /// # Errors
    /// It runs none.
    pub fn of(operation: &Operation) -> Result<Derived<'_>> {
        let flow = operation.kind.op.as_ref().and_then(Flow::of);
        let other = || Error::internal("a part of a gradient of one result");
        flow.map(Derived).ok_or_else(other)
    }
}

impl Several for Explicit {
    fn pull(
        &self,
        (history, operation): (&Arc<History>, &Operation),
        gradients: Vec<Option<Value>>,
        wanted: &[bool],
        _: bool,
    ) -> Result<Vec<Option<Value>>> {
        let vjps: Vec<&Vjp> = match self.flow.control.goes_along() {
            true => Vec::new(),
            false => {
                let vjps = self.vjps.iter();
                let vjps = vjps.map(|vjp| vjp.as_ref().map_err(Error::clone));
                vjps.collect::<Result<_>>()?
            }
        };
        let results = self.flow.results_of().kinds().len();
        let stack = |(kept, number): (&Kept, usize)| {
            let (handle, location) = (kept.handle().clone(), operation.location);
            let kind = handle.node().facts.kind.clone();
            let own = history::of_part(history.clone(), kind, number, location, trace::current());
            let history =
                (mode::keeps_history() && handle.node().facts.dtype.is_float()).then_some(own);
            Tensor::of_handle(handle).with_history(history)
        };
        let stacks = self.stacks.iter().zip(results - self.stacks.len()..);
        let stacks = stacks.map(stack).collect();
        let found = Pull::of(&self.flow, operation, gradients)?.run(&vjps, stacks, wanted);
        self.stacks.iter().for_each(Kept::take);
        found
    }

    fn results(&self) -> usize {
        self.flow.results_of().kinds().len()
    }
}

impl Several for Derived<'_> {
    fn pull(
        &self,
        (_, operation): (&Arc<History>, &Operation),
        gradients: Vec<Option<Value>>,
        wanted: &[bool],
        _: bool,
    ) -> Result<Vec<Option<Value>>> {
        let pull = Pull::of(self.0, operation, gradients)?;
        let vjps = match self.0.control.goes_along() {
            true => Vec::new(),
            false => pull.vjps()?,
        };
        let vjps: Vec<&Vjp> = vjps.iter().collect();
        pull.run(&vjps, Vec::new(), wanted)
    }

    fn results(&self) -> usize {
        self.0.results_of().kinds().len()
    }
}

/// A gradient about to be recorded.
pub(super) struct Pull<'a> {
    pub flow: &'a Flow,
    pub operands: Vec<Tensor>,
    pub numbers: Vec<NodeInput>,
    pub gradients: Vec<Option<Tensor>>,
    inherited: Inherited,
    pub location: &'static Location<'static>,
}

impl<'a> Pull<'a> {
    fn of(
        flow: &'a Flow,
        operation: &Operation,
        gradients: Vec<Option<Value>>,
    ) -> Result<Pull<'a>> {
        let (tensors, numbers) = operation.operands.split_at(flow.tensors);
        let tensor = |operand: &Operand| operand.value().map(Tensor::of_value);
        let kept = || Error::internal("an operand was not kept");
        let operands = tensors.iter().map(|x| tensor(x).ok_or_else(kept));
        let number = |operand: &Operand| match operand {
            Operand::Number(number) => Some(number.clone()),
            Operand::Tensor { .. } => None,
        };
        let numbers: Vec<NodeInput> = numbers.iter().filter_map(number).collect();
        let at = |place: u32| numbers[place as usize].clone();
        let positions = flow.draws.iter().map(|draw| [at(draw.key), at(draw.first)]);
        let inherited = Inherited {
            draws: flow.draws.clone(),
            positions: positions.collect(),
        };
        Ok(Pull {
            flow,
            operands: operands.collect::<Result<_>>()?,
            gradients: gradients
                .into_iter()
                .map(|g| g.map(Tensor::of_value))
                .collect(),
            inherited,
            numbers,
            location: operation.location,
        })
    }

    /// The shapes and dtypes of what the bodies are given.
    pub fn likes(&self) -> Vec<Like> {
        let rows = match self.flow.control {
            Control::Scan {
                carried, sliced, ..
            } => carried..carried + sliced,
            Control::Cond | Control::While { .. } | Control::Transposed { .. } => 0..0,
        };
        let like = |(place, tensor): (usize, &Tensor)| match rows.contains(&place) {
            true => (tensor.sizes()[1..].into(), tensor.dtype()),
            false => (tensor.sizes().clone(), tensor.dtype()),
        };
        self.operands.iter().enumerate().map(like).collect()
    }

    /// The gradients of the bodies, of their operations one by one.
    fn vjps(&self) -> Result<Vec<Vjp>> {
        let bodies = self.flow.bodies.iter();
        let closure = |body: &'a crate::program::Body| -> Closure<'_> {
            Box::new(move |given: &[Tensor]| {
                body.replay(|operand| &given[operand as usize], &self.numbers)
            })
        };
        let closures = bodies.map(closure).collect();
        let device = self.operands[0].device();
        let draws = self.flow.draws.len();
        let found = mode::with_history(true, || {
            recorded(&self.likes(), &device, draws, true, closures, self.location)
        });
        found?.vjps.into_iter().collect()
    }

    fn run(
        &self,
        vjps: &[&Vjp],
        stacks: Vec<Tensor>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Value>>> {
        let found = match self.flow.control {
            Control::Cond => self.cond(vjps, wanted)?,
            Control::Scan { .. } => Backward::of(self, vjps[0], stacks, wanted)?.run()?,
            Control::While { carried } => self.transposed(carried)?,
            Control::Transposed { carried } => self.along(carried, wanted)?,
        };
        let mut all = vec![None; self.operands.len() + self.numbers.len()];
        for (operand, gradient) in found {
            gradient.check()?;
            all[operand] = Some(gradient.value().clone());
        }
        Ok(all)
    }

    /// The operands that gradients are wanted of.
    pub fn asked(&self, wanted: &[bool]) -> Vec<usize> {
        let is_float = |&operand: &usize| self.operands[operand].dtype().is_float();
        let asked = (0..self.operands.len()).filter(|&operand| wanted[operand]);
        asked.filter(is_float).collect()
    }

    pub fn zeros(&self, of: &Tensor) -> Tensor {
        like(of, 0.0, self.location)
    }

    /// The gradient of a result, zeros where none came to it; nothing for integers.
    pub fn gradient(&self, result: usize) -> Option<Tensor> {
        let (shape, dtype) = self.flow.results_of().kinds().get(result)?;
        if !dtype.is_float() {
            return None;
        }
        let zeros = || Tensor::zeros(shape.clone(), *dtype, &self.operands[0].device());
        let given = self.gradients.get(result).cloned().flatten();
        Some(given.unwrap_or_else(zeros))
    }

    pub fn recipe<'r>(
        &'r self,
        name: &'static str,
        control: Control,
        operands: &'r [Tensor],
        likes: &'r [Like],
    ) -> Recipe<'r> {
        Recipe {
            name,
            control,
            operands,
            likes,
            inherited: &self.inherited,
            stacks: false,
            location: self.location,
        }
    }

    /// The gradient of the branch that was taken.
    fn cond(&self, vjps: &[&Vjp], wanted: &[bool]) -> Result<Vec<(usize, Tensor)>> {
        let asked = self.asked(wanted);
        let results = 0..self.flow.results_of().kinds().len();
        let seeds: Vec<Option<Tensor>> = results.map(|result| self.gradient(result)).collect();
        let branch = |vjp: &Vjp| {
            let mut found = vjp.pull(&self.operands, &seeds);
            let of = |&operand: &usize| {
                let found = found[operand].take();
                found.unwrap_or_else(|| self.zeros(&self.operands[operand]))
            };
            asked.iter().map(of).collect()
        };
        let branch = &branch;
        let closures = vjps
            .iter()
            .map(|&vjp| -> Closure<'_> { Box::new(move |_| branch(vjp)) });
        let (operands, like) = (&self.operands[..1], |x: &Tensor| {
            (x.sizes().clone(), x.dtype())
        });
        let likes: Vec<Like> = operands.iter().map(like).collect();
        let recipe = self.recipe(self.flow.name, Control::Cond, operands, &likes);
        let bodies = recipe.bodies(closures.collect())?;
        let results = bodies.results[0].clone();
        Ok(asked
            .into_iter()
            .zip(recipe.apply(bodies, results)?)
            .collect())
    }
}
