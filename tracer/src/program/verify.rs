//! Checks that the bodies of a program that was read fit together.

use super::body::{Body, Output, Slot};
use super::{Control, Flow};
use crate::form::Edge;
use ferrotrace_kernels::ops::program::{Procedure, Taken};
use ferrotrace_runtime::{Category, DType, Error, Result, Shape};

type Like = (Shape, DType);

impl Flow {
    /// Checks what recording a program makes sure of.
    ///
    /// # Errors
    /// Something that does not fit.
    pub fn verify(&self) -> Result<()> {
        match self.fits() {
            Some(true) => Ok(()),
            Some(false) | None => Err(Error::argument("the parts of a program do not fit")),
        }
    }

    /// `None` for a number of something that is not there.
    fn fits(&self) -> Option<bool> {
        let (tensors, numbers) = self.takes().split_at(self.tensors);
        let like = |taken: &Taken| match taken {
            Taken::Tensor(shape, dtype) => Some((shape.clone(), *dtype)),
            Taken::Number(_) => None,
        };
        let mut given: Vec<Like> = tensors.iter().map(like).collect::<Option<_>>()?;
        let category = |taken: &Taken| match taken {
            Taken::Number(category) => Some(*category),
            Taken::Tensor(..) => None,
        };
        let numbers: Vec<Category> = numbers.iter().map(category).collect::<Option<_>>()?;
        let is_position = |place: u32| numbers.get(place as usize) == Some(&Category::Int);
        let drawn = |draw: &super::Draw| is_position(draw.key) && is_position(draw.first);
        if !self.draws.iter().all(drawn) {
            return None;
        }
        if let Control::Scan {
            carried,
            sliced,
            steps,
            ..
        } = self.control
        {
            for (shape, _) in given.get_mut(carried..carried.checked_add(sliced)?)? {
                if shape.first() != Some(&steps) {
                    return None;
                }
                *shape = shape[1..].into();
            }
        }
        let bodies = self.bodies.iter();
        let results = bodies.map(|body| self.results_of_body(body, &given, &numbers));
        let results: Vec<Vec<Like>> = results.collect::<Option<_>>()?;
        self.joins(&given, &results)
    }

    /// Whether the results of bodies are what the control flow makes the program's results of.
    fn joins(&self, given: &[Like], results: &[Vec<Like>]) -> Option<bool> {
        let all = self.results().kinds();
        let is_truth = |(shape, dtype): &Like| shape.numel() == 1 && *dtype == DType::Bool;
        Some(match (self.control, results) {
            (Control::Cond, [yes, no]) => is_truth(given.first()?) && yes == all && no == all,
            (Control::While { carried }, [goes_on, next]) => {
                let carried = given.get(..carried)?;
                matches!(&goes_on[..], [one] if is_truth(one)) && next == carried && all == carried
            }
            (Control::Transposed { carried }, [goes_on, next]) => {
                let is_float = |like: &&Like| like.1.is_float();
                let vectors: Vec<&Like> = given.get(..carried)?.iter().filter(is_float).collect();
                let (given, last) = given.split_at(given.len().checked_sub(vectors.len())?);
                matches!(&goes_on[..], [one] if is_truth(one))
                    && next == given.get(..carried)?
                    && vectors.into_iter().eq(last)
                    && given.iter().filter(is_float).eq(all)
            }
            (Control::Scan { carried, steps, .. }, [step]) => {
                let (next, rows) = step.split_at_checked(carried)?;
                let stacked = |(shape, dtype): &Like| {
                    let sizes = std::iter::once(steps).chain(shape.iter().copied());
                    (sizes.collect::<Shape>(), *dtype)
                };
                let made = next.iter().cloned().chain(rows.iter().map(stacked));
                next == given.get(..carried)? && made.eq(all.iter().cloned())
            }
            _ => false,
        })
    }

    /// The shapes and dtypes of a body's results, if its operands are there.
    fn results_of_body(
        &self,
        body: &Body,
        given: &[Like],
        numbers: &[Category],
    ) -> Option<Vec<Like>> {
        for (&operand, leaf) in body.leaves.iter().zip(&body.form.leaves) {
            let (shape, dtype) = given.get(operand as usize)?;
            if leaf.layout.shape() != shape || leaf.dtype != *dtype {
                return None;
            }
        }
        let edges = body.form.edges.iter().filter_map(|edge| match edge {
            Edge::Slot(category) => Some(*category),
            Edge::Node(_) | Edge::Leaf(_) => None,
        });
        let category = |slot: &Slot| match *slot {
            Slot::Number(number) => numbers.get(number as usize).copied(),
            Slot::Draw { draw, .. } => self.draws.get(draw as usize).map(|_| Category::Int),
        };
        let slots: Vec<Category> = body.slots.iter().map(category).collect::<Option<_>>()?;
        if !edges.eq(slots) {
            return None;
        }
        let result = |output: &Output| match *output {
            Output::Node(node) => {
                let kind = &body.form.nodes.get(node as usize)?.kind;
                Some((kind.shape.clone(), kind.dtype))
            }
            Output::Operand(operand) => given.get(operand as usize).cloned(),
        };
        body.outputs.iter().map(result).collect()
    }
}
