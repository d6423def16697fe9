//! Control flow as operations of the trace: branches and loops that a replay decides anew.
//!
//! A function that is given to one of these runs once, on stand-ins, to record what it does: it reads no values. What it
//! computes from, its arguments and whatever it captures, has gradients.

mod check;
mod cond;
mod scan;
mod while_loop;

pub use cond::cond;
pub use scan::{associative_scan, map, scan, scan_reversed};
pub use while_loop::{bounded_while_loop, while_loop};

use crate::grad::flow::{Inherited, Like, Recipe};
use crate::program::Control;
use crate::structs::TensorStruct;
use crate::{Tensor, place};
use ferrotrace_runtime::Error;
use std::panic::Location;

/// The operation that is called, for errors.
#[derive(Clone, Copy)]
struct Call {
    name: &'static str,
    location: &'static Location<'static>,
}

impl Call {
    /// A struct like this one whose tensors carry the error.
    fn failed<T: TensorStruct>(&self, error: &Error, operands: &[Tensor], like: &T) -> T {
        let error = self.tied(error, operands);
        like.rebuild(&mut |of| {
            Tensor::of_error(error.clone(), of.dtype(), &of.device(), self.location)
        })
    }

    fn tied(&self, error: &Error, operands: &[Tensor]) -> Error {
        let operands = operands.iter().map(|x| (x.sizes().clone(), x.dtype()));
        let location = place::here(self.location);
        let context = place::context(self.name, operands.collect(), location);
        error.clone().at(context)
    }

    fn recipe<'a>(
        &self,
        control: Control,
        operands: &'a [Tensor],
        likes: &'a [Like],
        inherited: &'a Inherited,
    ) -> Recipe<'a> {
        Recipe {
            name: self.name,
            control,
            operands,
            likes,
            inherited,
            stacks: true,
            location: self.location,
        }
    }
}

/// Why the value that a closure leaves is there: recording runs every closure, even where an operand carries an error.
const RUN: &str = "recording runs every closure";

/// The shape and dtype of a tensor.
fn like(tensor: &Tensor) -> Like {
    (tensor.sizes().clone(), tensor.dtype())
}

/// A struct like `like` whose tensors are the next of `tensors`.
fn filled<T: TensorStruct>(like: &T, tensors: &mut impl Iterator<Item = Tensor>) -> T {
    like.rebuild(&mut |tensor| tensors.next().unwrap_or_else(|| tensor.clone()))
}
