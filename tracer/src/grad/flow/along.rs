//! Derivatives of loops whose steps nobody knows: along a direction, by a loop of the values and their tangents.
//!
//! [`jvp`](crate::jvp) differentiates the gradient in reverse by its vector, in which that is linear. So the gradient of such
//! a loop is recorded as an operation of its own, [`Control::Transposed`], which runs for a vector of zeros alone, and whose
//! gradient by the vector is the loop of tangents. What is asked for is computed; what it was derived from is not.

use super::bodies::{Bodies, Closure, Like};
use super::pull::Pull;
use crate::grad::apart::apart;
use crate::grad::sweep::gradients;
use crate::program::Control;
use crate::{Tensor, mode};
use ferrotrace_runtime::{DType, Result};

fn like(tensor: &Tensor) -> Like {
    (tensor.sizes().clone(), tensor.dtype())
}

/// The places of floating-point values.
fn floats(dtypes: impl Iterator<Item = DType>) -> Vec<usize> {
    let is_float = |(place, dtype): (usize, DType)| dtype.is_float().then_some(place);
    dtypes.enumerate().filter_map(is_float).collect()
}

impl Pull<'_> {
    /// The gradients of the operands of a loop, as an operation on these and on the gradients of its results.
    pub fn transposed(&self, carried: usize) -> Result<Vec<(usize, Tensor)>> {
        let mut operands = self.operands.clone();
        operands.extend((0..carried).filter_map(|result| self.gradient(result)));
        let bodies = self.flow.bodies.iter();
        let bodies = Bodies {
            bodies: bodies
                .map(|body| body.on(&self.operands[0].device()))
                .collect(),
            results: Vec::new(),
            vjps: Vec::new(),
            captured: Vec::new(),
            numbers: self.numbers.clone(),
            drawn: Vec::new(),
        };
        let places = floats(self.operands.iter().map(Tensor::dtype));
        let results: Vec<Like> = places.iter().map(|&at| like(&self.operands[at])).collect();
        let control = Control::Transposed { carried };
        let recipe = self.recipe(self.flow.name, control, &operands, &[]);
        let found = recipe.apply(bodies, results)?;
        Ok(places.into_iter().zip(found).collect())
    }

    /// Of what [`transposed`](Pull::transposed) recorded: the gradients of its operands, by going along the loop in the
    /// direction that the gradients of its results are.
    pub fn along(&self, carried: usize, wanted: &[bool]) -> Result<Vec<(usize, Tensor)>> {
        let given =
            self.operands.len() - floats(self.operands[..carried].iter().map(Tensor::dtype)).len();
        let (values, vectors) = self.operands.split_at(given);
        let asked: Vec<usize> = self
            .asked(wanted)
            .into_iter()
            .filter(|&at| at < given)
            .collect();
        let mut values = values.to_vec();
        for &at in &asked {
            values[at] = apart(&values[at], self.location);
        }
        let tangents = match asked.is_empty() {
            true => self.tangents(carried, &values)?,
            false => mode::with_history(true, || self.tangents(carried, &values))?,
        };
        // The vectors by what the loop gives along the direction, differentiated by the values.
        let by: Vec<&Tensor> = asked.iter().map(|&at| &values[at]).collect();
        let seeds = tangents.iter().cloned().zip(vectors.iter().cloned());
        let found = gradients(seeds.collect(), &by, self.location)?;
        let of_vectors = (given..).zip(tangents);
        Ok(of_vectors.chain(asked.into_iter().zip(found)).collect())
    }

    /// The tangents of the floating-point results of the loop of `values`.
    fn tangents(&self, carried: usize, values: &[Tensor]) -> Result<Vec<Tensor>> {
        let places = floats(values.iter().map(Tensor::dtype));
        let mut directions: Vec<Option<Tensor>> = vec![None; values.len()];
        for (&place, direction) in places.iter().zip(&self.gradients) {
            directions[place] = direction.clone();
        }
        let moving: Vec<usize> = places
            .into_iter()
            .filter(|&place| place < carried)
            .collect();
        let mut operands = values[..carried].to_vec();
        let first = |&place: &usize| {
            directions[place]
                .clone()
                .unwrap_or_else(|| self.zeros(&values[place]))
        };
        operands.extend(moving.iter().map(first));
        let likes: Vec<Like> = operands.iter().map(like).collect();
        let control = Control::While {
            carried: operands.len(),
        };
        let recipe = self.recipe(self.flow.name, control, &operands, &likes);
        let at = |at: &[Tensor]| {
            let carries = at[..carried].iter();
            carries
                .chain(&values[carried..])
                .cloned()
                .collect::<Vec<Tensor>>()
        };
        let replay = |body: usize, given: &[Tensor]| {
            self.flow.bodies[body].replay(|operand| &given[operand as usize], &self.numbers)
        };
        let mut failed = None;
        let goes_on: Closure<'_> = Box::new(|given| replay(0, &at(given)));
        let step: Closure<'_> = Box::new(|given| {
            let mut directions = directions.clone();
            for (&place, tangent) in moving.iter().zip(&given[carried..]) {
                directions[place] = Some(tangent.clone());
            }
            let step = |values: &[Tensor]| replay(1, values);
            let (next, tangents) = self.pushed(step, at(given), &directions);
            let tangents = tangents.unwrap_or_else(|error| {
                failed = Some(error);
                given[carried..].to_vec()
            });
            [next, tangents].concat()
        });
        let bodies = recipe.bodies(vec![goes_on, step]);
        if let Some(error) = failed {
            return Err(error);
        }
        let found = recipe.apply(bodies?, likes.clone())?;
        Ok(found[carried..].to_vec())
    }

    /// What a step makes of its operands, and the tangents of its floating-point results for those of its operands.
    fn pushed(
        &self,
        step: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
        mut operands: Vec<Tensor>,
        directions: &[Option<Tensor>],
    ) -> (Vec<Tensor>, Result<Vec<Tensor>>) {
        let (mut moving, mut along) = (Vec::new(), Vec::new());
        for (operand, direction) in operands.iter_mut().zip(directions) {
            if let Some(direction) = direction {
                *operand = mode::with_history(true, || apart(operand, self.location));
                moving.push(operand.clone());
                along.push(direction.clone());
            }
        }
        let results = mode::with_history(true, || step(&operands));
        let of = results.iter().filter(|result| result.dtype().is_float());
        let of: Vec<(Tensor, Tensor)> = of
            .map(|result| (result.clone(), self.zeros(result).requires_grad()))
            .collect();
        let vectors: Vec<Tensor> = of.iter().map(|(_, vector)| vector.clone()).collect();
        let products = mode::with_history(true, || gradients(of, &moving, self.location));
        let tangents = products.and_then(|products| {
            let seeds = products.into_iter().zip(along).collect();
            gradients(seeds, &vectors, self.location)
        });
        match mode::keeps_history() {
            true => (results, tangents),
            false => (results.iter().map(Tensor::detach).collect(), tangents),
        }
    }
}
