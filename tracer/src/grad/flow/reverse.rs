//! The gradient of a scan: a scan in the other direction.

use super::bodies::{Closure, Like, Vjp};
use super::pull::Pull;
use super::stacked;
use crate::program::Control;
use crate::record::record;
use crate::{Input, Tensor};
use ferrotrace_kernels::{BinaryOp, Op};
use ferrotrace_runtime::{Error, Result};

/// A scan in reverse, about to be recorded. It carries the gradients of the carried values, and the sums of those of what the
/// body reads at every step.
pub(super) struct Backward<'a> {
    pull: &'a Pull<'a>,
    vjp: &'a Vjp,
    /// The operands that gradients are wanted of.
    asked: Vec<usize>,
    /// The carried values that are floats.
    floats: Vec<usize>,
    /// The operands whose gradients are summed up.
    summed: Vec<usize>,
    /// The operands of which each step has a row, and gives a row of the gradient.
    rows: Vec<usize>,
    /// The gradients of rows of results: of what the body gives, and of the values that it was given.
    of_results: Vec<(usize, Tensor)>,
    of_given: Vec<(usize, Tensor)>,
    /// The carried values that each step was given.
    stacks: Vec<Tensor>,
    carried: usize,
    sliced: usize,
    steps: usize,
    reverse: bool,
}

impl<'a> Backward<'a> {
    /// Of a scan whose last results are `stacks`, the values that each step was given; without, they are computed again.
    pub fn of(
        pull: &'a Pull<'a>,
        vjp: &'a Vjp,
        stacks: Vec<Tensor>,
        wanted: &[bool],
    ) -> Result<Backward<'a>> {
        let Control::Scan {
            carried,
            sliced,
            steps,
            reverse,
        } = pull.flow.control
        else {
            return Err(Error::internal("a scan that is none"));
        };
        let (asked, given) = (pull.asked(wanted), carried + sliced);
        let of_asked = |which: &dyn Fn(usize) -> bool| {
            asked
                .iter()
                .copied()
                .filter(|&operand| which(operand))
                .collect()
        };
        let is_float = |&carried: &usize| pull.operands[carried].dtype().is_float();
        let outputs = pull.flow.bodies[0].outputs.len();
        let plain = outputs - stacks.len();
        let of_result = |result: usize| Some((result, pull.gradient(result)?));
        let of_stack = |stack: usize| Some((stack, pull.gradients.get(plain + stack)?.clone()?));
        Ok(Backward {
            pull,
            vjp,
            floats: (0..carried).filter(is_float).collect(),
            summed: of_asked(&|operand| operand >= given && vjp.reaches(operand)),
            rows: of_asked(&|operand| (carried..given).contains(&operand)),
            of_results: (carried..plain)
                .filter(|&r| vjp.reads(r))
                .filter_map(of_result)
                .collect(),
            of_given: (0..stacks.len()).filter_map(of_stack).collect(),
            stacks: match stacks.is_empty() {
                true => given_values(pull, carried, steps)?,
                false => stacks,
            },
            asked,
            carried,
            sliced,
            steps,
            reverse,
        })
    }

    /// How many values it carries.
    fn sums(&self) -> usize {
        self.floats.len() + self.summed.len()
    }

    /// Records it: the gradients of the operands that were asked for.
    pub fn run(self) -> Result<Vec<(usize, Tensor)>> {
        let (pull, sums) = (self.pull, self.sums());
        let mut operands: Vec<Tensor> = self
            .floats
            .iter()
            .filter_map(|&result| pull.gradient(result))
            .collect();
        operands.extend(self.summed.iter().map(|&of| pull.zeros(&pull.operands[of])));
        operands.extend_from_slice(&self.stacks);
        operands.extend_from_slice(&pull.operands[self.carried..self.carried + self.sliced]);
        let gradients = self.of_results.iter().chain(&self.of_given);
        operands.extend(gradients.map(|(_, gradient)| gradient.clone()));
        let like = |(place, x): (usize, &Tensor)| match place < sums {
            true => (x.sizes().clone(), x.dtype()),
            false => (x.sizes()[1..].into(), x.dtype()),
        };
        let likes: Vec<Like> = operands.iter().enumerate().map(like).collect();
        let control = Control::Scan {
            carried: sums,
            sliced: operands.len() - sums,
            steps: self.steps,
            reverse: !self.reverse,
        };
        let recipe = pull.recipe(pull.flow.name, control, &operands, &likes);
        let step: Closure<'_> = Box::new(|at: &[Tensor]| self.step(at));
        let bodies = recipe.bodies(vec![step])?;
        let (carries, rows) = bodies.results[0].split_at(sums);
        let rows = rows.iter().map(|like| stacked(like, self.steps));
        let results = carries.iter().cloned().chain(rows).collect();
        let found = recipe.apply(bodies, results)?;
        let places = self.floats.into_iter().chain(self.summed).chain(self.rows);
        let asked = |(operand, _): &(usize, Tensor)| self.asked.contains(operand);
        Ok(places.zip(found).filter(asked).collect())
    }

    /// One step, on what it carries and its rows.
    fn step(&self, at: &[Tensor]) -> Vec<Tensor> {
        let (carries, rows) = at.split_at(self.sums());
        let (gradients, sums) = carries.split_at(self.floats.len());
        let (forward, seeds) = rows.split_at(self.carried + self.sliced);
        let (of_results, of_given) = seeds.split_at(self.of_results.len());
        let mut operands = forward.to_vec();
        operands.extend_from_slice(&self.pull.operands[forward.len()..]);
        let mut seeds: Vec<Option<Tensor>> = vec![None; self.pull.flow.bodies[0].outputs.len()];
        let of_results = self
            .of_results
            .iter()
            .map(|(result, _)| result)
            .zip(of_results);
        for (&result, seed) in self.floats.iter().zip(gradients).chain(of_results) {
            seeds[result] = Some(seed.clone());
        }
        let mut found = self.vjp.pull(&operands, &seeds);
        for ((carried, _), gradient) in self.of_given.iter().zip(of_given) {
            let before = found[*carried].take();
            let sum = before.map_or(gradient.clone(), |before| self.added(&before, gradient));
            found[*carried] = Some(sum);
        }
        let mut of = |operand: usize| {
            let found = found[operand].take();
            found.unwrap_or_else(|| self.pull.zeros(&operands[operand]))
        };
        let mut results: Vec<Tensor> = self.floats.iter().map(|&carried| of(carried)).collect();
        for (&operand, sum) in self.summed.iter().zip(sums) {
            results.push(self.added(sum, &of(operand)));
        }
        results.extend(self.rows.iter().map(|&operand| of(operand)));
        results
    }

    fn added(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let inputs = [Input::Tensor(a), Input::Tensor(b)];
        record(
            None,
            Op::from(BinaryOp::Add),
            None,
            &inputs,
            self.pull.location,
        )
    }
}

/// The carried values that each step was given, computed again.
fn given_values(pull: &Pull<'_>, carried: usize, steps: usize) -> Result<Vec<Tensor>> {
    if carried == 0 {
        return Ok(Vec::new());
    }
    let likes = pull.likes();
    let recipe = pull.recipe(pull.flow.name, pull.flow.control, &pull.operands, &likes);
    let body = &pull.flow.bodies[0];
    let closure: Closure<'_> = Box::new(move |given: &[Tensor]| {
        let mut results = body.replay(|operand| &given[operand as usize], &pull.numbers);
        results.truncate(carried);
        results.extend_from_slice(&given[..carried]);
        results
    });
    let bodies = recipe.bodies(vec![closure])?;
    let (carries, given) = bodies.results[0].split_at(carried);
    let stacks = given.iter().map(|like| stacked(like, steps));
    let results = carries.iter().cloned().chain(stacks).collect();
    Ok(recipe.apply(bodies, results)?.split_off(carried))
}
